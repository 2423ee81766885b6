import { describe, expect, it } from 'vitest';
import { createActor, StateMachine } from 'xstate';
import { breakerMachine } from '../../src/machines/breakerMachine.js';
import type { BreakerEvent, BreakerInput } from '../../src/machines/ports.js';
import { createSimulatedClock } from '../../src/testing/clock.js';

const input: BreakerInput = { peer: 'archive', threshold: 3, openMs: 1_000, maxOpenMs: 5_000 };
const failed: BreakerEvent = { type: 'call.failed', cause: 'no answer within 5 s' };
const succeeded: BreakerEvent = { type: 'call.succeeded' };
const begun: BreakerEvent = { type: 'trial.begun' };
const abandoned: BreakerEvent = { type: 'trial.abandoned' };
const trialSucceeded: BreakerEvent = { type: 'trial.succeeded' };
const trialFailed: BreakerEvent = { type: 'trial.failed', cause: 'still no answer' };

function drive(changes: Partial<BreakerInput> = {}, ...events: BreakerEvent[]) {
  const clock = createSimulatedClock();
  const actor = createActor(breakerMachine, { input: { ...input, ...changes }, clock }).start();
  const breaker = {
    actor,
    clock,
    get state() {
      return actor.getSnapshot().value;
    },
    get context() {
      return actor.getSnapshot().context;
    },
    send(...sent: BreakerEvent[]) {
      for (const event of sent) actor.send(event);
      return breaker;
    },
    /** Moves time to the next deadline. */
    wait() {
      clock.advanceTo(clock.nextDueMs ?? Number.NaN);
      return breaker;
    },
  };
  return breaker.send(...events);
}

const opened = (changes: Partial<BreakerInput> = {}) => drive(changes, failed, failed, failed);
const halfOpen = (changes: Partial<BreakerInput> = {}) => opened(changes).wait();

describe('closed', () => {
  it('opens when so many calls in a row have failed', () => {
    const breaker = drive({}, failed, failed);
    expect(breaker.state).toBe('closed');
    expect(breaker.context).toMatchObject({ failures: 2, cause: 'no answer within 5 s' });
    breaker.send(failed);
    expect(breaker.state).toBe('open');
    expect(breaker.context).toMatchObject({ failures: 3, opened: 1, waitMs: 1_000 });
  });

  it('an answer clears the count', () => {
    const breaker = drive({}, failed, failed, succeeded);
    expect(breaker.context).toMatchObject({ failures: 0, cause: null });
    expect(breaker.send(failed, failed).state).toBe('closed');
  });

  it('an answer where nothing failed changes nothing at all', () => {
    const breaker = drive();
    const before = breaker.actor.getSnapshot();
    breaker.send(succeeded);
    expect(breaker.context).toBe(before.context);
  });

  it('knows no trial', () => {
    const breaker = drive({}, failed);
    const { context } = breaker;
    breaker.send(begun, trialFailed, trialSucceeded, abandoned);
    expect(breaker.state).toBe('closed');
    expect(breaker.context).toEqual(context);
  });

  it('may open at the first failure', () => {
    expect(drive({ threshold: 1 }, failed).state).toBe('open');
  });
});

describe('open', () => {
  it('lets one call through after its time', () => {
    const breaker = opened();
    breaker.clock.advance(999);
    expect(breaker.state).toBe('open');
    breaker.clock.advance(1);
    expect(breaker.state).toBe('halfOpen');
  });

  it('does not hear of calls from before, nor of trials', () => {
    const breaker = opened();
    const { context } = breaker;
    breaker.clock.advance(500);
    breaker.send(failed, succeeded, begun, trialSucceeded, trialFailed, abandoned);
    expect(breaker.state).toBe('open');
    expect(breaker.context).toEqual(context);
    breaker.clock.advance(500);
    expect(breaker.state).toBe('halfOpen');
  });
});

describe('half open', () => {
  it('does not hear of calls from before', () => {
    const breaker = halfOpen();
    const { context } = breaker;
    breaker.send(failed, succeeded);
    expect(breaker.state).toBe('halfOpen');
    expect(breaker.context).toEqual(context);
  });

  it('a trial that succeeds closes it, and nothing of before is left', () => {
    const breaker = halfOpen();
    breaker.send(begun);
    expect(breaker.context.trial).toBe(true);
    breaker.send(trialSucceeded);
    expect(breaker.state).toBe('closed');
    expect(breaker.context).toMatchObject({ failures: 0, opened: 0, waitMs: 0, trial: false, cause: null });
    expect(breaker.send(failed, failed).state).toBe('closed');
  });

  it('each trial that fails doubles the wait, up to the longest', () => {
    const breaker = opened();
    const waits = [breaker.context.waitMs];
    for (let round = 0; round < 4; round += 1) {
      breaker.wait().send(begun, trialFailed);
      expect(breaker.state).toBe('open');
      expect(breaker.context.trial).toBe(false);
      waits.push(breaker.context.waitMs);
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 5_000, 5_000]);
    expect(breaker.context).toMatchObject({ opened: 5, failures: 7, cause: 'still no answer' });
  });

  it('a trial that is given up says nothing, and the next call may try', () => {
    const breaker = halfOpen().send(begun, abandoned);
    expect(breaker.state).toBe('halfOpen');
    expect(breaker.context.trial).toBe(false);
    expect(breaker.send(begun).context.trial).toBe(true);
  });

  it('what no trial began, no trial ends', () => {
    const breaker = halfOpen().send(trialSucceeded, trialFailed, abandoned);
    expect(breaker.state).toBe('halfOpen');
    breaker.send(begun, begun, abandoned);
    expect(breaker.context.trial).toBe(false);
  });
});

it('no wait is longer than a timer can wait', () => {
  const breaker = opened({ openMs: Number.MAX_SAFE_INTEGER, maxOpenMs: Number.MAX_SAFE_INTEGER });
  expect(breaker.context.waitMs).toBe(2 ** 31 - 1);
});

it('a breaker that is stopped leaves no timer', () => {
  const breaker = opened();
  breaker.actor.stop();
  expect(breaker.clock.pendingTimers).toBe(0);
});

it('a failure without a cause is counted, and leaves the cause before it', () => {
  const config = {
    context: drive({}, failed).context,
    on: { 'call.succeeded': { actions: 'countFailure' } },
  };
  const chart = new StateMachine(config as never, breakerMachine.implementations as never);
  const actor = createActor(chart).start();
  actor.send(succeeded as never);
  expect(actor.getSnapshot().context).toMatchObject({ failures: 2, cause: 'no answer within 5 s' });
  actor.stop();
});

it('describes its states, and the context is plain JSON', () => {
  for (const [name, state] of Object.entries(breakerMachine.root.states)) {
    expect(state.description, name).toMatch(/\.$/);
    expect(state.meta, name).toMatchObject({ spec: expect.stringMatching(/^https:/) });
  }
  const { context } = opened();
  expect(JSON.parse(JSON.stringify(context))).toEqual(context);
});
