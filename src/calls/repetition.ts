/** Whether a request may be sent again after what it came to, and after which pause. Pure. */
import type { Outcome } from '../protocol/exchange.js';

export type NoResult = Exclude<Outcome, { kind: 'result' }>;

/** A repeatable call is sent so often at most. */
export const MAX_SENDS = 4;

/** First pause before a call is repeated on the same connection; doubles, with jitter. */
const REPEAT_AFTER_MS = 250;

/**
 * - `always`: it was provably not written.
 * - `repeatable`: it may have been executed, and the server itself did not answer.
 * - `never`: it was answered, given up, or will be refused again.
 *
 * @param isOpen whether the connection that it was sent on still is
 */
export function mayBeSentAgain(outcome: NoResult, isOpen: boolean): 'always' | 'repeatable' | 'never' {
  switch (outcome.kind) {
    case 'withheld':
      return 'always';
    case 'closed':
      if (outcome.written) return 'repeatable';
      // The connection lives and would not take it: it will not take it the next time either.
      return isOpen ? 'never' : 'always';
    case 'unreachable':
      if (outcome.cause.terminal) return 'never';
      return !outcome.written && outcome.cause.kind === 'connect-failed' ? 'always' : 'repeatable';
    case 'session-lost':
      return 'repeatable';
    default:
      return 'never';
  }
}

/**
 * @param attempts how often it was written
 * @param askedMs what `Retry-After` said
 * @param random in [0, 1)
 */
export function pauseMs(attempts: number, askedMs: number, random: number): number {
  return Math.max(askedMs, REPEAT_AFTER_MS * 2 ** attempts * (0.5 + random / 2));
}
