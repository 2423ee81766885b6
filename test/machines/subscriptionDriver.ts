/** One subscription under a simulated clock, with listens that do what a test tells them. */
import { createActor, fromCallback } from 'xstate';
import type { ListenInput, SubscriptionEvent, SubscriptionInput } from '../../src/machines/ports.js';
import { createSubscriptionMachine, subscriptionStateOf } from '../../src/machines/subscriptionMachine.js';
import { createSimulatedClock } from '../../src/testing/clock.js';

export const input: SubscriptionInput = {
  peer: 'archive',
  asked: { toolsListChanged: true, promptsListChanged: true, resourceSubscriptions: ['file:///a'] },
  ackTimeoutMs: 10_000,
  stableAfterMs: 30_000,
  backoffMinMs: 500,
  backoffMaxMs: 30_000,
  maxRefusals: 3,
};

interface Settings extends Partial<SubscriptionInput> {
  readonly random?: () => number;
  /** Called when a listen starts; may throw, answer, or return a cleanup. */
  readonly onListen?: (answer: (event: SubscriptionEvent) => void) => (() => void) | undefined;
}

export function driveSubscription(settings: Settings = {}) {
  const { random = () => 0.5, onListen, ...changes } = settings;
  const clock = createSimulatedClock();
  const listens: ListenInput[] = [];
  const answers: ((event: SubscriptionEvent) => void)[] = [];
  const refetches: unknown[] = [];
  let running = 0;
  let mostRunning = 0;
  const machine = createSubscriptionMachine(random).provide({
    actors: {
      listen: fromCallback<SubscriptionEvent, ListenInput>(({ input: asked, sendBack }) => {
        listens.push(asked);
        answers.push(sendBack);
        const cleanup = onListen?.(sendBack);
        running += 1;
        mostRunning = Math.max(mostRunning, running);
        return () => {
          running -= 1;
          cleanup?.();
        };
      }),
    },
    actions: {
      refetch: ({ context }) => {
        refetches.push(context.acknowledged);
      },
    },
  });
  const actor = createActor(machine, { input: { ...input, ...changes }, clock });
  const errors: unknown[] = [];
  actor.subscribe({ error: (error) => errors.push(error) });
  actor.start();
  return {
    actor,
    clock,
    listens,
    answers,
    refetches,
    errors,
    get running() {
      return running;
    },
    get mostRunning() {
      return mostRunning;
    },
    get state() {
      return subscriptionStateOf(actor.getSnapshot());
    },
    get context() {
      return actor.getSnapshot().context;
    },
    send(...events: SubscriptionEvent[]) {
      for (const event of events) actor.send(event);
    },
    /** Moves time to the next deadline. */
    wait() {
      clock.advanceTo(clock.nextDueMs ?? Number.NaN);
    },
  };
}

export const written: SubscriptionEvent = { type: 'listen.written' };
export const ended: SubscriptionEvent = { type: 'listen.ended', message: 'the server ended it' };
export const lost: SubscriptionEvent = { type: 'listen.lost', message: 'the stream broke' };
export const refused: SubscriptionEvent = { type: 'listen.refused', message: 'busy', permanent: false };
export const unknown: SubscriptionEvent = {
  type: 'listen.refused',
  message: 'no such method',
  permanent: true,
};
export const acknowledged = (filter = input.asked): SubscriptionEvent => ({
  type: 'listen.acknowledged',
  acknowledged: filter,
});
