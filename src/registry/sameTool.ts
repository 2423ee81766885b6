/** Whether a tool that was defined anew is still the same to a model and a validator. */
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import { isJsonObject } from '../protocol/jsonRpc.js';
import { canonicalJson } from './digest.js';
import type { CatalogEntry } from './lease.js';

/**
 * Whether two entries differ in nothing but the `x-mcp-header` annotations of their input schemas, which say how
 * arguments travel and not what they mean. Only annotations where the specification allows them are passed over:
 * what is below `properties` alone, from the root.
 */
export function isSameButForHeaders(one: CatalogEntry, other: CatalogEntry): boolean {
  return one.peer === other.peer && one.local === other.local && meaningOf(one) === meaningOf(other);
}

function meaningOf({ title, description, inputSchema, outputSchema, annotations }: CatalogEntry): string {
  const parts = [title, description, withoutAnnotations(inputSchema), outputSchema, annotations];
  return parts.map((part) => (part === undefined ? '' : canonicalJson(part))).join('\n');
}

/** No deeper than what the registry exposes. `fromEntries` defines own members: `__proto__` stays a property. */
function withoutAnnotations(schema: JsonValue): JsonValue {
  if (!isJsonObject(schema)) return schema;
  const { 'x-mcp-header': _, ...rest } = schema;
  const { properties } = rest;
  if (!isJsonObject(properties)) return rest;
  const members = Object.entries(properties) as [string, JsonValue][];
  const bare = members.map(([name, value]): [string, JsonValue] => [name, withoutAnnotations(value)]);
  return { ...rest, properties: Object.fromEntries(bare) as JsonObject };
}
