// What a user would do for a server that asks: here, whatever the form suggests.

/** A value that fits one property of a form: its default, else the simplest there is. */
function valueFor(schema) {
  if ('default' in schema) return schema.default;
  if (Array.isArray(schema.enum)) return schema.enum[0];
  if (Array.isArray(schema.oneOf)) return schema.oneOf[0]?.const;
  if (schema.type === 'boolean') return true;
  if (schema.type === 'integer' || schema.type === 'number') return schema.minimum ?? 1;
  if (schema.type === 'array') return [];
  return 'text';
}

export const handlers = {
  elicitForm: ({ requestedSchema }) => ({
    action: 'accept',
    content: Object.fromEntries(
      Object.entries(requestedSchema.properties).map(([name, schema]) => [name, valueFor(schema)]),
    ),
  }),
  elicitUrl: () => ({ action: 'decline' }),
  sample: () => ({
    role: 'assistant',
    content: { type: 'text', text: 'no model here' },
    model: 'none',
    stopReason: 'endTurn',
  }),
  listRoots: () => [],
};
