/** The subscription on random scripts of events, faults and time, under a simulated clock. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import type { SubscriptionEvent, SubscriptionFilter } from '../../src/machines/ports.js';
import { driveSubscription } from '../machines/subscriptionDriver.js';

const filters: fc.Arbitrary<SubscriptionFilter> = fc.record(
  {
    toolsListChanged: fc.boolean(),
    promptsListChanged: fc.boolean(),
    resourcesListChanged: fc.boolean(),
    resourceSubscriptions: fc.array(fc.constantFrom('file:///a', 'file:///b', 'file:///c'), { maxLength: 4 }),
  },
  { requiredKeys: [] },
);

type Command =
  | SubscriptionEvent
  | { readonly type: 'wait'; readonly ms: number }
  | { readonly type: 'deadline' }
  /** The next listen throws when it starts, or when it is stopped. */
  | { readonly type: 'plan'; readonly throws: 'at start' | 'at stop' };

const constant = (command: Command) => fc.constant(command);
const commands: fc.Arbitrary<Command[]> = fc.array(
  fc.oneof(
    { weight: 4, arbitrary: constant({ type: 'listen.written' }) },
    {
      weight: 5,
      arbitrary: filters.map((acknowledged): Command => ({ type: 'listen.acknowledged', acknowledged })),
    },
    { weight: 2, arbitrary: constant({ type: 'listen.ended', message: 'ended' }) },
    { weight: 4, arbitrary: constant({ type: 'listen.lost', message: 'lost' }) },
    { weight: 2, arbitrary: constant({ type: 'listen.refused', message: 'busy', permanent: false }) },
    { weight: 1, arbitrary: constant({ type: 'listen.refused', message: 'unknown', permanent: true }) },
    { weight: 2, arbitrary: filters.map((asked): Command => ({ type: 'filter.changed', asked })) },
    { weight: 5, arbitrary: constant({ type: 'deadline' }) },
    { weight: 2, arbitrary: fc.record({ type: fc.constant('wait' as const), ms: fc.nat({ max: 40_000 }) }) },
    {
      weight: 1,
      arbitrary: fc.record({
        type: fc.constant('plan' as const),
        throws: fc.constantFrom('at start' as const, 'at stop' as const),
      }),
    },
  ),
  { maxLength: 60 },
);
const settings = fc.record({
  asked: filters,
  ackTimeoutMs: fc.constantFrom(10, 10_000),
  stableAfterMs: fc.constantFrom(5, 30_000),
  backoffMinMs: fc.integer({ min: 1, max: 1_000 }),
  backoffMaxMs: fc.integer({ min: 1, max: 30_000 }),
  maxRefusals: fc.integer({ min: 1, max: 4 }),
});

const wordsOf = ({ resourceSubscriptions = [], ...words }: SubscriptionFilter): Set<string> =>
  new Set([
    ...Object.entries(words).flatMap(([word, isSet]) => (isSet ? [word] : [])),
    ...resourceSubscriptions,
  ]);

it('one listen at most, one refetch for each gap, nothing acknowledged where nobody listens, bounded delays', () => {
  const property = fc.property(
    settings,
    commands,
    fc.array(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), { minLength: 1 }),
    (input, script, chances) => {
      const plans: ('at start' | 'at stop')[] = [];
      let draws = 0;
      const random = (): number => {
        draws += 1;
        return chances[draws % chances.length] as number;
      };
      const subscription = driveSubscription({
        ...input,
        random,
        onListen: () => {
          const plan = plans.shift();
          if (plan === 'at start') throw new Error('broken listen');
          if (plan !== 'at stop') return undefined;
          return () => {
            throw new Error('broken cleanup');
          };
        },
      });
      let refetches = 0;
      for (const command of script) {
        const before = subscription.state;
        const { context: remembered } = subscription;
        if (command.type === 'plan') plans.push(command.throws);
        else if (command.type === 'wait') subscription.clock.advance(command.ms);
        else if (command.type === 'deadline') {
          const due = subscription.clock.nextDueMs;
          if (due !== null) subscription.clock.advanceTo(due);
        } else subscription.send(command);
        const { state, context } = subscription;

        if (command.type === 'listen.acknowledged' && (before === 'opening' || before === 'awaitingAck'))
          refetches += 1;
        expect(subscription.refetches).toHaveLength(refetches);
        expect(subscription.mostRunning).toBeLessThanOrEqual(1);
        const isOut = state !== 'backoff' && state !== 'closed';
        expect(subscription.running).toBe(isOut ? 1 : 0);
        expect(context.acknowledged !== null).toBe(state === 'listening');
        if (context.acknowledged === null) expect(context.missing).toEqual([]);
        else {
          const asked = wordsOf(context.asked);
          const acknowledged = wordsOf(context.acknowledged);
          expect(new Set([...acknowledged, ...context.missing])).toEqual(asked);
          expect(acknowledged.size + context.missing.length).toBe(asked.size);
        }
        expect(context.backoffMs).toBeLessThanOrEqual(input.backoffMaxMs);
        if (state !== 'closed') expect(subscription.listens.at(-1)?.asked).toEqual(context.asked);
        expect(subscription.errors).toEqual([]);
        // Only a refusal, an end, a fault or a filter that asks for nothing closes it.
        const asksForNothing = command.type === 'filter.changed' && wordsOf(command.asked).size === 0;
        if (asksForNothing) expect(state).toBe('closed');
        if (state === 'closed' && before !== 'closed') expect(context.problem === null).toBe(asksForNothing);
        if (command.type === 'listen.lost') expect(context.refusals).toBe(remembered.refusals);
        expect(context.refusals).toBeLessThanOrEqual(input.maxRefusals);
      }
      subscription.actor.stop();
      expect(subscription.running).toBe(0);
      expect(subscription.clock.pendingTimers).toBe(0);
    },
  );
  fc.assert(property, { numRuns: 400 });
}, 120_000);
