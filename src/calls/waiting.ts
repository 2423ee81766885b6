/** Waiting for something under a deadline that may move, a caller's signal and the life of the host. */
import { ignoreAbort, listenToAbort } from '../transports/abortFanout.js';
import type { Clock } from '../transports/clock.js';

/** The longest delay that a timer takes; a longer one would fire at once. */
export const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

export interface WaitOptions {
  readonly clock: Clock;
  /** Clock time. */
  readonly deadline: number;
  readonly signal: AbortSignal | undefined;
  readonly onEnding: (listener: () => void) => () => void;
}

export type Waited<T> = { readonly kind: 'done'; readonly value: T } | { readonly kind: Interruption };

export type Interruption = 'timeout' | 'cancelled' | 'ending';

/** Resolves with the first that happens. Leaves no timer and no listener. */
export function waitUntil<T>(promise: Promise<T>, options: WaitOptions): Promise<Waited<T>> {
  const { clock, deadline, signal } = options;
  if (signal?.aborted === true) return Promise.resolve({ kind: 'cancelled' });
  return new Promise((resolve, reject) => {
    const end = (): void => {
      clock.clearTimeout(timer);
      if (signal !== undefined) ignoreAbort(signal, onAbort);
      forget();
    };
    const interrupt = (kind: Interruption) => (): void => {
      end();
      resolve({ kind });
    };
    const onAbort = { aborted: interrupt('cancelled') };
    const left = Math.min(Math.max(0, deadline - clock.now()), LONGEST_TIMEOUT_MS);
    const timer = clock.setTimeout(interrupt('timeout'), left);
    if (signal !== undefined) listenToAbort(signal, onAbort);
    const forget = options.onEnding(interrupt('ending'));
    promise.then(
      (value) => {
        end();
        resolve({ kind: 'done', value });
      },
      (error: unknown) => {
        end();
        reject(error);
      },
    );
  });
}
