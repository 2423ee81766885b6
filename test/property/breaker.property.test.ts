/** The breaker on random scripts of events and time, under a simulated clock. */
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { createActor } from 'xstate';
import { breakerMachine } from '../../src/machines/breakerMachine.js';
import type { BreakerEvent } from '../../src/machines/ports.js';
import { createSimulatedClock } from '../../src/testing/clock.js';

type Command = BreakerEvent | { readonly type: 'wait'; readonly ms: number };

const commands: fc.Arbitrary<Command[]> = fc.array(
  fc.oneof(
    { weight: 5, arbitrary: fc.constant<Command>({ type: 'call.failed', cause: 'no answer' }) },
    { weight: 2, arbitrary: fc.constant<Command>({ type: 'call.succeeded' }) },
    { weight: 3, arbitrary: fc.constant<Command>({ type: 'trial.begun' }) },
    { weight: 1, arbitrary: fc.constant<Command>({ type: 'trial.succeeded' }) },
    { weight: 2, arbitrary: fc.constant<Command>({ type: 'trial.failed', cause: 'no answer' }) },
    { weight: 1, arbitrary: fc.constant<Command>({ type: 'trial.abandoned' }) },
    { weight: 4, arbitrary: fc.record({ type: fc.constant('wait' as const), ms: fc.nat({ max: 3_000 }) }) },
  ),
  { maxLength: 60 },
);
const inputs = fc.record({
  peer: fc.constant('archive'),
  threshold: fc.integer({ min: 1, max: 5 }),
  openMs: fc.integer({ min: 1, max: 2_000 }),
  maxOpenMs: fc.integer({ min: 1, max: 5_000 }),
});

it('lets at most one trial through at once, opens for the time it says, and closes for a trial alone', () => {
  const property = fc.property(inputs, commands, (input, script) => {
    const clock = createSimulatedClock();
    const actor = createActor(breakerMachine, { input, clock }).start();
    let inRow = 0;
    let trials = 0;
    let openSince = 0;
    for (const command of script) {
      const before = actor.getSnapshot();
      if (command.type === 'wait') clock.advance(command.ms);
      else actor.send(command);
      const { value, context } = actor.getSnapshot();
      if (before.value === 'closed') {
        // As many failures in a row as it takes, and not one more or less.
        if (command.type === 'call.failed') inRow += 1;
        if (command.type === 'call.succeeded') inRow = 0;
        expect(value).toBe(inRow >= input.threshold ? 'open' : 'closed');
        if (value === 'closed') expect(context.failures).toBe(inRow);
        if (command.type === 'call.succeeded' && before.context.failures === 0)
          expect(context).toBe(before.context);
      }
      if (before.value === 'halfOpen') {
        if (command.type === 'trial.begun' && context.trial && !before.context.trial) trials += 1;
        if (command.type.startsWith('trial.') && command.type !== 'trial.begun' && !context.trial) trials = 0;
        if (value !== 'halfOpen') expect(before.context.trial).toBe(true);
      }
      if (before.value === 'open' && command.type !== 'wait') {
        expect(value).toBe('open');
        expect(context).toBe(before.context);
      }
      expect(trials).toBeLessThanOrEqual(1);
      expect(context.trial).toBe(trials === 1);
      expect(context.waitMs).toBeLessThanOrEqual(input.maxOpenMs);
      if (value === 'open') {
        if (before.value !== 'open') openSince = clock.now();
        expect(clock.nextDueMs).toBe(openSince + context.waitMs);
        expect(context.opened).toBeGreaterThan(0);
      } else expect(clock.pendingTimers).toBe(0);
      if (value === 'closed' && before.value !== 'closed') {
        expect(command.type).toBe('trial.succeeded');
        inRow = 0;
        expect(context).toMatchObject({ failures: 0, opened: 0, cause: null });
      }
    }
    actor.stop();
    expect(clock.pendingTimers).toBe(0);
  });
  fc.assert(property, { numRuns: 400 });
}, 120_000);
