/** Whoever waits for something about the peers of a host: asked again after every change. */
import { ignoreAbort, listenToAbort } from '../transports/abortFanout.js';
import type { Clock } from '../transports/clock.js';

export class HostWaiters {
  private readonly checks = new Set<() => void>();

  /** Something changed. */
  wake(): void {
    for (const check of [...this.checks]) check();
  }

  /**
   * Resolves once `condition` holds. Rejects with what `isOver` gives, or on abort with the signal's reason.
   *
   * @param isOver why it will not hold any more; null while it may
   */
  until(condition: () => boolean, isOver: () => Error | null, signal?: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      const end = (settle: () => void): void => {
        this.checks.delete(check);
        if (signal !== undefined) ignoreAbort(signal, onAbort);
        settle();
      };
      const onAbort = { aborted: () => end(() => reject(signal?.reason)) };
      const check = (): void => {
        if (condition()) {
          end(resolve);
          return;
        }
        const over = isOver();
        if (over !== null) end(() => reject(over));
      };
      if (signal?.aborted === true) {
        reject(signal.reason);
        return;
      }
      if (signal !== undefined) listenToAbort(signal, onAbort);
      this.checks.add(check);
      check();
    });
  }

  /** Resolves once `condition` holds, or when `timeoutMs` are over; then `late` is called first. */
  within(clock: Clock, timeoutMs: number, condition: () => boolean, late: () => void): Promise<void> {
    return new Promise((resolve) => {
      const check = (): void => {
        if (!condition()) return;
        this.checks.delete(check);
        clock.clearTimeout(timer);
        resolve();
      };
      const timer = clock.setTimeout(() => {
        late();
        this.checks.delete(check);
        resolve();
      }, timeoutMs);
      this.checks.add(check);
      check();
    });
  }
}
