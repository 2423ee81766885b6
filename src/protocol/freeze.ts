/** What is handed to several callers must not be changed by one of them. */

/** Freezes a value and all that is in it. For trees of a bounded depth: there is no guard against cycles. */
export function freezeThrough<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value;
  Object.freeze(value);
  for (const inner of Object.values(value)) freezeThrough(inner);
  return value;
}
