/** The time of day on a host's own scale of time: what a cache that several processes share is dated with. */
import { type Clock, systemClock } from '../transports/clock.js';

/** Of a clock that is not real time: the same for all hosts that share the clock. */
const offsets = new WeakMap<Clock, number>();

/**
 * Epoch milliseconds. Under real time it is the machine's, so that it goes on while the machine sleeps. A host with a
 * clock of its own lives in that: its entries grow old when that clock moves.
 */
export function wallClockOf(clock: Clock): () => number {
  if (clock.now === systemClock.now) return Date.now;
  const offset = offsets.get(clock) ?? Date.now() - clock.now();
  offsets.set(clock, offset);
  return () => offset + clock.now();
}
