/**
 * Time for tests: moves only when told. The same object serves an actor system (XState's `clock` option) and every
 * connection, so that all deadlines lie on one scale.
 */
import type { Clock } from '../transports/clock.js';

/** Node turns a longer delay into 1 ms; so does this clock, so that an overflow shows in a test as well. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

/** So many timers in one step are taken for a loop that does not end. */
const FIRING_LIMIT = 1_000_000;

interface Timer {
  readonly dueMs: number;
  /** Order of creation: decides among timers that are due together. */
  readonly order: number;
  readonly run: () => void;
}

export interface SimulatedClock extends Clock {
  /** Timers that are set and have neither fired nor been cleared. */
  readonly pendingTimers: number;
  /** When the next timer is due, or null. */
  readonly nextDueMs: number | null;
  /**
   * Moves time forward, from deadline to deadline: every timer within the window fires at its own time, also one that
   * was set by a timer of the same window; in order of due time, then of creation. Throws what a timer throws, with
   * the time standing at that timer.
   */
  advance(ms: number): void;
  /** The same, to a point in time. One that lies in the past throws a RangeError. */
  advanceTo(timeMs: number): void;
  /**
   * Fires timers until none is left, and returns how many fired. Throws an Error once `limit` have fired and more are
   * left; default 10,000.
   */
  runAllTimers(limit?: number): number;
}

/** A clock that stands at `startMs` (default 0) until it is moved. */
export function createSimulatedClock(startMs = 0): SimulatedClock {
  let nowMs = startMs;
  let created = 0;
  /** Sorted, the next one last. */
  const timers: Timer[] = [];

  /** Where a timer with these keys is, or belongs. */
  const indexOf = (dueMs: number, order: number): number => {
    let low = 0;
    let high = timers.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const timer = timers[middle] as Timer;
      if (timer.dueMs > dueMs || (timer.dueMs === dueMs && timer.order > order)) low = middle + 1;
      else high = middle;
    }
    return low;
  };

  const advanceTo = (timeMs: number): void => {
    if (!(timeMs >= nowMs)) throw new RangeError(`time does not go back: from ${nowMs} ms to ${timeMs} ms`);
    let fired = 0;
    for (let next = timers.at(-1); next !== undefined && next.dueMs <= timeMs; next = timers.at(-1)) {
      if (fired === FIRING_LIMIT) throw new Error(`${FIRING_LIMIT} timers fired on the way to ${timeMs} ms`);
      fired += 1;
      timers.pop();
      // A timer may itself have moved the clock.
      nowMs = Math.max(nowMs, next.dueMs);
      next.run();
    }
    nowMs = Math.max(nowMs, timeMs);
  };

  return {
    now: () => nowMs,
    setTimeout(fn, delayMs) {
      const delay = delayMs > LONGEST_DELAY_MS ? 1 : Math.max(delayMs || 0, 0);
      const timer: Timer = { dueMs: nowMs + delay, order: created, run: fn };
      created += 1;
      timers.splice(indexOf(timer.dueMs, timer.order), 0, timer);
      return timer;
    },
    clearTimeout(handle) {
      const timer = handle as Timer | null | undefined;
      if (timer === null || timer === undefined) return;
      const index = indexOf(timer.dueMs, timer.order);
      if (timers[index] === timer) timers.splice(index, 1);
    },
    get pendingTimers() {
      return timers.length;
    },
    get nextDueMs() {
      return timers.at(-1)?.dueMs ?? null;
    },
    advance: (ms) => advanceTo(nowMs + ms),
    advanceTo,
    runAllTimers(limit = 10_000) {
      let fired = 0;
      for (let next = timers.at(-1); next !== undefined; next = timers.at(-1)) {
        if (fired === limit) throw new Error(`${limit} timers fired, and ${timers.length} are left`);
        fired += 1;
        timers.pop();
        nowMs = Math.max(nowMs, next.dueMs);
        next.run();
      }
      return fired;
    },
  };
}
