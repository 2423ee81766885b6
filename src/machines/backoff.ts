/** How long to wait before the next attempt. */

/** Node turns a longer delay into 1 ms: a huge Retry-After would become no wait at all. */
export const LONGEST_DELAY_MS = 2 ** 31 - 1;

/**
 * Exponential backoff with full jitter, in milliseconds: anything from 0 to `minMs` doubled `attempts` times, and never
 * more than `maxMs`. `random` gives numbers in [0, 1).
 */
export function jitteredMs(random: () => number, attempts: number, minMs: number, maxMs: number): number {
  // A larger exponent would be infinite, and 0 times infinity is no number.
  const ceiling = Math.min(maxMs, minMs * 2 ** Math.min(attempts, 30));
  return Math.min(Math.round(random() * ceiling), LONGEST_DELAY_MS);
}
