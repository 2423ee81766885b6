/**
 * Keeps calls from a peer that does not answer. While it is closed and nothing failed, a call costs it nothing: the
 * owner sends failures, and successes only where a failure is counted. What it counts are transport failures and
 * deadlines in a row; a tool's own error is an answer.
 */
import { assign, setup } from 'xstate';
import { LONGEST_DELAY_MS } from './backoff.js';
import type { BreakerContext, BreakerEvent, BreakerInput } from './ports.js';

const spec = 'https://modelcontextprotocol.io/specification/2026-07-28/basic';

/** Also {@link LONGEST_DELAY_MS} bounds it: a longer one would be no wait at all. */
const bounded = (waitMs: number, maxOpenMs: number): number => Math.min(waitMs, maxOpenMs, LONGEST_DELAY_MS);

export const breakerMachine = setup({
  types: {
    input: {} as BreakerInput,
    context: {} as BreakerContext,
    events: {} as BreakerEvent,
  },
  delays: { openFor: ({ context }) => context.waitMs },
  guards: {
    isLastStraw: ({ context }) => context.failures + 1 >= context.threshold,
    hasFailures: ({ context }) => context.failures > 0,
    isFree: ({ context }) => !context.trial,
    isOnTrial: ({ context }) => context.trial,
  },
  actions: {
    countFailure: assign(({ context, event }) => ({
      failures: context.failures + 1,
      cause: 'cause' in event ? event.cause : context.cause,
    })),
    noteFirstOpening: assign(({ context }) => ({
      opened: 1,
      waitMs: bounded(context.openMs, context.maxOpenMs),
    })),
    noteNextOpening: assign(({ context }) => ({
      opened: context.opened + 1,
      waitMs: bounded(context.waitMs * 2, context.maxOpenMs),
    })),
    forgetFailures: assign({ failures: 0, opened: 0, waitMs: 0, cause: null }),
    beginTrial: assign({ trial: true }),
    endTrial: assign({ trial: false }),
  },
}).createMachine({
  id: 'breaker',
  description: 'Whether calls to one peer are let through.',
  initial: 'closed',
  context: ({ input }) => ({
    peer: input.peer,
    threshold: input.threshold,
    openMs: input.openMs,
    maxOpenMs: input.maxOpenMs,
    failures: 0,
    opened: 0,
    waitMs: 0,
    trial: false,
    cause: null,
  }),
  states: {
    closed: {
      description: 'Calls are sent; failures in a row are counted.',
      meta: { spec },
      on: {
        'call.failed': [
          { guard: 'isLastStraw', target: 'open', actions: ['countFailure', 'noteFirstOpening'] },
          { actions: 'countFailure' },
        ],
        'call.succeeded': { guard: 'hasFailures', actions: 'forgetFailures' },
      },
    },
    // What a call from before comes to says nothing any more: here, and while a trial is awaited.
    open: {
      description: 'No call is sent; each is refused at once.',
      meta: { spec },
      after: { openFor: { target: 'halfOpen' } },
    },
    halfOpen: {
      description: 'One call at a time is let through, to see what it comes to.',
      meta: { spec },
      exit: 'endTrial',
      on: {
        'trial.begun': { guard: 'isFree', actions: 'beginTrial' },
        'trial.abandoned': { actions: 'endTrial' },
        'trial.succeeded': { guard: 'isOnTrial', target: 'closed', actions: 'forgetFailures' },
        'trial.failed': {
          guard: 'isOnTrial',
          target: 'open',
          actions: ['countFailure', 'noteNextOpening'],
        },
      },
    },
  },
});
