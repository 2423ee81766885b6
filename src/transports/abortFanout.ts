/**
 * One listener a signal, however many wait for it.
 *
 * Callers hand one `AbortSignal` to many calls, over many connections; Node warns of a leak at the eleventh listener,
 * and asks the owner of the signal to change it. So whoever waits registers here, and the signal has one listener while
 * anybody waits, and none after that.
 */

export interface AbortListener {
  /** The signal was aborted. Must not throw. Called at most once, and not after {@link ignoreAbort}. */
  aborted(): void;
}

class Fan {
  readonly waiting = new Set<AbortListener>();
  private readonly signal: AbortSignal;

  constructor(signal: AbortSignal) {
    this.signal = signal;
  }

  /** `EventListenerObject`. Who leaves the set meanwhile is not called. */
  handleEvent(): void {
    for (const listener of this.waiting) {
      this.waiting.delete(listener);
      listener.aborted();
    }
    fans.delete(this.signal);
  }
}

const fans = new WeakMap<AbortSignal, Fan>();

/** The caller has looked at `signal.aborted`: a signal that is aborted already calls nobody. */
export function listenToAbort(signal: AbortSignal, listener: AbortListener): void {
  let fan = fans.get(signal);
  if (fan === undefined) {
    fan = new Fan(signal);
    fans.set(signal, fan);
    signal.addEventListener('abort', fan, { once: true });
  }
  fan.waiting.add(listener);
}

/** Idempotent. */
export function ignoreAbort(signal: AbortSignal, listener: AbortListener): void {
  const fan = fans.get(signal);
  if (fan === undefined || !fan.waiting.delete(listener) || fan.waiting.size > 0) return;
  fans.delete(signal);
  signal.removeEventListener('abort', fan);
}
