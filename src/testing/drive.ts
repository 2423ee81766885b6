/**
 * Moves promise-driven code under a simulated clock: before each deadline everything that was promised happens, so that
 * the same steps always lead to the same order.
 */
import { setImmediate } from 'node:timers/promises';
import type { SimulatedClock } from './clock.js';

/**
 * Resolves when nothing is left that runs by itself: every reaction of a promise has run, and the reactions to those.
 * What waits for real I/O is not waited for.
 */
export async function quiet(): Promise<void> {
  // A turn of the event loop empties the queue of microtasks, however long it grows.
  await setImmediate();
}

/** Moves the clock forward by `ms`, from deadline to deadline, with {@link quiet} before and after each. */
export async function advance(clock: SimulatedClock, ms: number): Promise<void> {
  const end = clock.now() + ms;
  await quiet();
  for (let next = clock.nextDueMs; next !== null && next <= end; next = clock.nextDueMs) {
    clock.advanceTo(Math.max(next, clock.now()));
    await quiet();
  }
  clock.advanceTo(end);
  await quiet();
}

/**
 * Moves the clock until `promise` has settled, and returns its value.
 *
 * @throws {Error} it has not settled within `withinMs` of simulated time, or the promise's own error
 */
export async function settled<T>(clock: SimulatedClock, promise: Promise<T>, withinMs: number): Promise<T> {
  let isSettled = false;
  const note = (): void => {
    isSettled = true;
  };
  promise.then(note, note);
  const end = clock.now() + withinMs;
  await quiet();
  while (!isSettled) {
    const next = clock.nextDueMs;
    if (next === null || next > end) throw new Error(`not settled within ${withinMs} ms of simulated time`);
    clock.advanceTo(Math.max(next, clock.now()));
    await quiet();
  }
  return promise;
}
