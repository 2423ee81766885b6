/**
 * Keeps one `subscriptions/listen` of a modern peer alive. A subscription cannot be resumed: whatever happened while
 * nobody listened is unknown, so each first acknowledgement of a listen makes the owner fetch anew (`refetch`). A loss
 * is retried for ever, ever more slowly; a refusal only so often; a server that ends it without having acknowledged it
 * does not offer it.
 */
import { assign, type ErrorActorEvent, fromCallback, type SnapshotFrom, setup } from 'xstate';
import { jitteredMs, LONGEST_DELAY_MS } from './backoff.js';
import { cutFilter, isEmptyFilter, isSameFilter, missingOf } from './filters.js';
import type { ListenInput, SubscriptionContext, SubscriptionEvent, SubscriptionInput } from './ports.js';

const types = {
  input: {} as SubscriptionInput,
  context: {} as SubscriptionContext,
  events: {} as SubscriptionEvent | ErrorActorEvent,
};

const planBackoffWith = (random: () => number) =>
  setup({ types }).assign(({ context: { attempts, timing }, event }) => {
    const asked = event.type === 'listen.lost' ? (event.retryAfterMs ?? 0) : 0;
    const backoffMs = jitteredMs(random, attempts, timing.backoffMinMs, timing.backoffMaxMs);
    return { attempts: attempts + 1, backoffMs: Math.min(Math.max(asked, backoffMs), LONGEST_DELAY_MS) };
  });

const spec = 'https://modelcontextprotocol.io/specification/2026-07-28/basic/patterns/subscriptions';

/** `random` is the source of the jitter of `backoff`, numbers in [0, 1). */
export function createSubscriptionMachine(random: () => number = Math.random) {
  return random === Math.random
    ? subscriptionMachine
    : subscriptionMachine.provide({ actions: { planBackoff: planBackoffWith(random) } });
}

/** The chart as it ships; for diagrams and for hosts that provide their own parts. */
export const subscriptionMachine = setup({
  types,
  actors: {
    /**
     * Sends one `subscriptions/listen` under a new id and reports `listen.*` events, of which `ended`, `lost` and
     * `refused` are the last; one that is stopped cancels its request on the wire.
     */
    listen: fromCallback<SubscriptionEvent, ListenInput>(() => {
      throw new Error('the actor "listen" was not provided');
    }),
  },
  delays: {
    ackTimeout: ({ context }) => context.timing.ackTimeoutMs,
    stableAfter: ({ context }) => context.timing.stableAfterMs,
    backoff: ({ context }) => context.backoffMs,
  },
  guards: {
    isPermanent: ({ event }) => event.type === 'listen.refused' && event.permanent,
    isLastRefusal: ({ context }) => context.refusals + 1 >= context.maxRefusals,
    asksForNothing: ({ event }) => event.type === 'filter.changed' && isEmptyFilter(event.asked),
    asksForOther: ({ context, event }) =>
      event.type === 'filter.changed' && !isSameFilter(context.asked, event.asked),
  },
  actions: {
    takeFilter: assign(({ event }) => (event.type === 'filter.changed' ? { asked: event.asked } : {})),
    noteAcknowledged: assign(({ context, event }) => {
      if (event.type !== 'listen.acknowledged') return {};
      const acknowledged = cutFilter(context.asked, event.acknowledged);
      return { acknowledged, missing: missingOf(context.asked, acknowledged), problem: null };
    }),
    forgetAcknowledged: assign({ acknowledged: null, missing: [] }),
    noteProblem: assign(({ event }) => ('message' in event ? { problem: event.message } : {})),
    noteSilence: assign(({ context }) => ({
      problem: `no acknowledgement within ${context.timing.ackTimeoutMs} ms`,
    })),
    forgetProblem: assign({ problem: null }),
    noteCrash: assign({ problem: 'a fault of this host while listening' }),
    countRefusal: assign(({ context }) => ({ refusals: context.refusals + 1 })),
    resetCounts: assign({ attempts: 0, refusals: 0 }),
    planBackoff: planBackoffWith(Math.random),
    /**
     * Fetches what may have changed unseen; the owner provides it. Runs with the new `acknowledged` in the context. It
     * must not throw.
     */
    refetch: () => {},
  },
}).createMachine({
  id: 'subscription',
  description: 'What one modern peer is listened to for.',
  initial: 'requested',
  context: ({ input }) => ({
    peer: input.peer,
    asked: input.asked,
    acknowledged: null,
    missing: [],
    timing: {
      ackTimeoutMs: input.ackTimeoutMs,
      stableAfterMs: input.stableAfterMs,
      backoffMinMs: input.backoffMinMs,
      backoffMaxMs: input.backoffMaxMs,
    },
    maxRefusals: input.maxRefusals,
    attempts: 0,
    refusals: 0,
    backoffMs: 0,
    problem: null,
  }),
  on: {
    'filter.changed': [
      { guard: 'asksForNothing', target: '.closed', actions: ['takeFilter', 'resetCounts', 'forgetProblem'] },
      { guard: 'asksForOther', target: '.requested', actions: 'takeFilter' },
    ],
    // In every state: the listen may also fail in its cleanup, when it was left already, and an error that no
    // transition takes would end the subscription and with it the peer.
    'xstate.error.actor.*': { target: '.closed', actions: 'noteCrash' },
  },
  states: {
    requested: {
      description: 'One listen request is out: the same through all of these.',
      meta: { spec },
      initial: 'opening',
      invoke: {
        id: 'listen',
        src: 'listen',
        input: ({ context }) => ({ asked: context.asked }),
      },
      on: {
        'listen.lost': { target: 'backoff', actions: ['noteProblem', 'planBackoff'] },
        'listen.refused': [
          { guard: 'isPermanent', target: 'closed', actions: 'noteProblem' },
          { guard: 'isLastRefusal', target: 'closed', actions: ['noteProblem', 'countRefusal'] },
          { target: 'backoff', actions: ['noteProblem', 'countRefusal', 'planBackoff'] },
        ],
        // Without an acknowledgement: the server does not offer it.
        'listen.ended': { target: 'closed', actions: 'noteProblem' },
      },
      states: {
        opening: {
          description: 'The request is on its way to the wire.',
          meta: { spec },
          on: {
            'listen.written': { target: 'awaitingAck' },
            'listen.acknowledged': { target: 'listening', actions: ['noteAcknowledged', 'refetch'] },
          },
        },
        awaitingAck: {
          description: 'Awaits the acknowledgement, which must be the first message on it.',
          meta: { spec },
          after: {
            ackTimeout: [
              {
                guard: 'isLastRefusal',
                target: '#subscription.closed',
                actions: ['noteSilence', 'countRefusal'],
              },
              {
                target: '#subscription.backoff',
                actions: ['noteSilence', 'countRefusal', 'planBackoff'],
              },
            ],
          },
          on: {
            'listen.acknowledged': { target: 'listening', actions: ['noteAcknowledged', 'refetch'] },
          },
        },
        listening: {
          description: 'Changes of what was acknowledged are announced.',
          meta: { spec },
          exit: 'forgetAcknowledged',
          after: { stableAfter: { actions: 'resetCounts' } },
          on: {
            'listen.acknowledged': { actions: 'noteAcknowledged' },
            'listen.ended': { target: '#subscription.backoff', actions: ['noteProblem', 'planBackoff'] },
          },
        },
      },
    },
    backoff: {
      description: 'Nobody listens; waits before the next listen: exponential backoff with full jitter.',
      meta: { spec },
      after: { backoff: { target: 'requested' } },
    },
    closed: {
      description: 'Given up, not offered, or not asked for: changes are seen when lists are fetched anew.',
      meta: { spec },
      on: {
        'filter.changed': [
          { guard: 'asksForNothing', actions: ['takeFilter', 'resetCounts', 'forgetProblem'] },
          { target: 'requested', actions: ['takeFilter', 'resetCounts'] },
        ],
      },
    },
  },
});

/** What a status shows. */
export type SubscriptionState = 'opening' | 'awaitingAck' | 'listening' | 'backoff' | 'closed';

/** The state without the compound one around it. */
export function subscriptionStateOf(
  snapshot: Pick<SnapshotFrom<typeof subscriptionMachine>, 'value'>,
): SubscriptionState {
  const { value } = snapshot;
  return typeof value === 'string' ? value : value.requested;
}
