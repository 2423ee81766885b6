/** How long to wait before a stream that ended is asked for again. */

/** What the standard of event streams suggests ("a few seconds"), at its lower end: servers end streams to be polled. */
const FIRST_DELAY_MS = 1000;
const LONGEST_DELAY_MS = 30_000;
/** A server that says "at once" and ends every stream at once must not be asked in a loop. */
const SHORTEST_RETRY_MS = 100;
/** Longest `retry` that is believed: 10 min. */
const LONGEST_RETRY_MS = 10 * 60 * 1000;

/**
 * Without jitter: one client has one stream of a kind with a server.
 *
 * @param fruitless streams in a row before this one that brought nothing, and attempts that failed
 * @param retryMs what the server said in its stream: the shortest delay
 * @param retryAfterMs what it said in its refusal
 * @returns ms
 */
export function reopenDelayMs(fruitless: number, retryMs: number | null, retryAfterMs = 0): number {
  if (retryMs === null) return Math.max(backOff(fruitless), retryAfterMs);
  const asked = Math.min(Math.max(retryMs, SHORTEST_RETRY_MS), LONGEST_RETRY_MS);
  return Math.max(asked, fruitless === 0 ? 0 : backOff(fruitless - 1), retryAfterMs);
}

function backOff(doublings: number): number {
  return Math.min(FIRST_DELAY_MS * 2 ** doublings, LONGEST_DELAY_MS);
}
