/** Instead of `calls/validate.js`: everything fits. A compiler takes milliseconds a host, and the wire knows no schemas. */
export function createValidators() {
  const fits = { ok: true } as const;
  return { prepare: () => undefined, validate: () => fits, validateNow: () => fits };
}
