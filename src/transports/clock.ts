/**
 * Time as an argument. The same object is given to the actor system and to every connection, so that a simulated
 * clock moves both.
 */
export interface Clock {
  /** Milliseconds on a scale that never goes back. */
  now(): number;
  /** As in XState's own `Clock`. The handle is opaque. */
  setTimeout(fn: (...args: unknown[]) => void, delayMs: number): unknown;
  clearTimeout(handle: unknown): void;
}

/** Real time. `now` is monotonic: a changed wall clock moves no deadline. */
export const systemClock: Clock = {
  now: () => performance.now(),
  setTimeout: (fn, delayMs) => setTimeout(fn, delayMs),
  clearTimeout: (handle) => clearTimeout(handle as NodeJS.Timeout),
};
