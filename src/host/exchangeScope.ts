/** What an asynchronous exchange, run for a callback actor, may do with its actor. */
import type { Clock } from '../transports/clock.js';

export interface ExchangeScope<TEvent = never> {
  /** False once the actor was stopped: nothing more may be opened, written or reported. */
  readonly isActive: boolean;
  /** Sends an event to the chart; dropped when the actor was stopped. */
  report(event: TEvent): void;
}

/**
 * Runs `exchange` as the body of a callback actor and returns its cleanup. A fault of ours reaches the chart as the
 * actor's error, which is never ambiguous (N7).
 *
 * @param id the id under which the actor is invoked
 */
export function runExchange<TEvent extends { readonly type: string }>(
  id: string,
  sendBack: (event: TEvent) => void,
  exchange: (scope: ExchangeScope<TEvent>) => Promise<void>,
): () => void {
  let isActive = true;
  const scope: ExchangeScope<TEvent> = {
    get isActive() {
      return isActive;
    },
    report(event) {
      if (isActive) sendBack(event);
    },
  };
  exchange(scope).catch((error: unknown) => {
    // The event by which XState itself tells a parent that its child failed.
    if (isActive) sendBack({ type: `xstate.error.actor.${id}`, error, actorId: id } as unknown as TEvent);
  });
  return () => {
    isActive = false;
  };
}

/** Resolves with `promise`, or at `deadline`, whichever comes first. */
export async function within(clock: Clock, deadline: number, promise: Promise<void>): Promise<void> {
  let timer: unknown;
  const late = new Promise<void>((resolve) => {
    timer = clock.setTimeout(() => resolve(), Math.max(0, deadline - clock.now()));
  });
  await Promise.race([promise, late]);
  clock.clearTimeout(timer);
}
