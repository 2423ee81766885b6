import { describe, expect, it } from 'vitest';
import { createActor, fromCallback, StateMachine, type StateNode } from 'xstate';
import type { ListenInput, SubscriptionEvent, SubscriptionFilter } from '../../src/machines/ports.js';
import {
  createSubscriptionMachine,
  type SubscriptionState,
  subscriptionMachine,
  subscriptionStateOf,
} from '../../src/machines/subscriptionMachine.js';
import {
  acknowledged,
  driveSubscription,
  ended,
  input,
  lost,
  refused,
  unknown,
  written,
} from './subscriptionDriver.js';

const other: SubscriptionFilter = { toolsListChanged: true, resourceSubscriptions: ['file:///b'] };
const nothing: SubscriptionFilter = { toolsListChanged: false, resourceSubscriptions: [] };
const changed = (asked: SubscriptionFilter): SubscriptionEvent => ({ type: 'filter.changed', asked });

/** The events that lead into a state, with `maxRefusals` of 3. */
const wayInto: Readonly<Record<SubscriptionState, readonly SubscriptionEvent[]>> = {
  opening: [],
  awaitingAck: [written],
  listening: [written, acknowledged()],
  backoff: [written, acknowledged(), lost],
  closed: [unknown],
};

function into(state: SubscriptionState) {
  const subscription = driveSubscription();
  subscription.send(...wayInto[state]);
  expect(subscription.state).toBe(state);
  return subscription;
}

type Row = readonly [SubscriptionState, SubscriptionEvent | 'its deadline passes', SubscriptionState];

const rows: readonly Row[] = [
  ['opening', written, 'awaitingAck'],
  ['opening', acknowledged(), 'listening'],
  ['opening', ended, 'closed'],
  ['opening', lost, 'backoff'],
  ['opening', refused, 'backoff'],
  ['opening', unknown, 'closed'],
  ['opening', changed(other), 'opening'],
  ['opening', changed(nothing), 'closed'],
  ['awaitingAck', changed(nothing), 'closed'],
  ['listening', changed(nothing), 'closed'],
  ['backoff', changed(nothing), 'closed'],
  ['closed', changed(nothing), 'closed'],
  ['awaitingAck', acknowledged(), 'listening'],
  ['awaitingAck', 'its deadline passes', 'backoff'],
  ['awaitingAck', ended, 'closed'],
  ['awaitingAck', lost, 'backoff'],
  ['awaitingAck', refused, 'backoff'],
  ['awaitingAck', unknown, 'closed'],
  ['awaitingAck', changed(other), 'opening'],
  ['listening', acknowledged(), 'listening'],
  ['listening', written, 'listening'],
  ['listening', 'its deadline passes', 'listening'],
  ['listening', ended, 'backoff'],
  ['listening', lost, 'backoff'],
  ['listening', refused, 'backoff'],
  ['listening', unknown, 'closed'],
  ['listening', changed(other), 'opening'],
  ['backoff', 'its deadline passes', 'opening'],
  ['backoff', acknowledged(), 'backoff'],
  ['backoff', changed(other), 'opening'],
  ['closed', acknowledged(), 'closed'],
  ['closed', changed(other), 'opening'],
  ['closed', changed(input.asked), 'opening'],
];

describe('each edge', () => {
  for (const [from, on, to] of rows) {
    const isSame = typeof on !== 'string' && on.type === 'filter.changed' && on.asked === input.asked;
    it(`${from}, ${typeof on === 'string' ? on : on.type}${isSame ? ' to the same' : ''} → ${to}`, () => {
      const subscription = into(from);
      if (on === 'its deadline passes') subscription.wait();
      else subscription.send(on);
      expect(subscription.state).toBe(to);
      expect(subscription.errors).toEqual([]);
      expect(subscription.running).toBe(to === 'backoff' || to === 'closed' ? 0 : 1);
      if (to !== 'listening') expect(subscription.context).toMatchObject({ acknowledged: null, missing: [] });
    });
  }
});

describe('one listen', () => {
  it('is the same from its opening to its end', () => {
    const subscription = driveSubscription();
    expect(subscription.state).toBe('opening');
    expect(subscription.listens).toEqual([{ asked: input.asked }]);
    subscription.send(written, acknowledged(), lost);
    expect(subscription.listens).toHaveLength(1);
    expect(subscription.running).toBe(0);
    subscription.wait();
    expect(subscription.listens).toEqual([{ asked: input.asked }, { asked: input.asked }]);
    expect(subscription.mostRunning).toBe(1);
  });

  it('is not heard any more once it was left', () => {
    const subscription = into('backoff');
    subscription.answers[0]?.(acknowledged());
    expect(subscription.state).toBe('backoff');
    subscription.wait();
    subscription.answers[0]?.(acknowledged());
    expect(subscription.state).toBe('opening');
    subscription.answers[1]?.(acknowledged());
    expect(subscription.state).toBe('listening');
  });
});

describe('what is acknowledged', () => {
  it('is compared with what was asked', () => {
    const subscription = into('awaitingAck');
    subscription.send(acknowledged({ toolsListChanged: true }));
    expect(subscription.context).toMatchObject({
      acknowledged: { toolsListChanged: true },
      missing: ['promptsListChanged', 'file:///a'],
      problem: null,
    });
  });

  it('is no more than what was asked, whatever the server claims', () => {
    const subscription = driveSubscription({ asked: { promptsListChanged: true } });
    subscription.send(
      acknowledged({
        toolsListChanged: true,
        promptsListChanged: true,
        resourcesListChanged: true,
        resourceSubscriptions: ['file:///other'],
      }),
    );
    expect(subscription.context.acknowledged).toEqual({ promptsListChanged: true });
    expect(subscription.context.missing).toEqual([]);
  });

  it('may be nothing, or said to be false', () => {
    const subscription = into('awaitingAck');
    subscription.send(
      acknowledged({ toolsListChanged: false, promptsListChanged: true, resourceSubscriptions: [] }),
    );
    expect(subscription.context.missing).toEqual(['toolsListChanged', 'file:///a']);
    subscription.send(acknowledged({}));
    expect(subscription.state).toBe('listening');
    expect(subscription.context.acknowledged).toEqual({});
    expect(subscription.context.missing).toEqual(['toolsListChanged', 'promptsListChanged', 'file:///a']);
  });

  it('makes the owner fetch once, also after the first one, and a second one on a stream does not', () => {
    const subscription = into('awaitingAck');
    expect(subscription.refetches).toEqual([]);
    subscription.send(acknowledged({ toolsListChanged: true }), acknowledged());
    expect(subscription.refetches).toEqual([{ toolsListChanged: true }]);
    expect(subscription.context.missing).toEqual([]);
    subscription.send(lost);
    subscription.wait();
    subscription.send(acknowledged());
    expect(subscription.refetches).toEqual([{ toolsListChanged: true }, input.asked]);
  });
});

describe('ends', () => {
  it('one without an acknowledgement says that the server does not offer it', () => {
    for (const state of ['opening', 'awaitingAck'] as const) {
      const subscription = into(state);
      subscription.send(ended);
      subscription.clock.advance(10_000_000);
      expect(subscription.state).toBe('closed');
      expect(subscription.context).toMatchObject({ problem: 'the server ended it', refusals: 0 });
      expect(subscription.listens).toHaveLength(1);
    }
  });

  it('one on purpose after the acknowledgement is no refusal, but waits as well', () => {
    const subscription = driveSubscription({ random: () => 0.999_999 });
    for (let round = 0; round < 12; round += 1) {
      subscription.send(acknowledged(), ended);
      expect(subscription.state).toBe('backoff');
      expect(subscription.context.backoffMs).toBe(Math.min(500 * 2 ** round, 30_000));
      subscription.wait();
    }
    expect(subscription.context.refusals).toBe(0);
  });

  it('a loss is retried for ever, with a delay that is bounded', () => {
    const subscription = driveSubscription({ random: () => 0.999_999 });
    for (let round = 0; round < 200; round += 1) {
      subscription.send(lost);
      expect(subscription.state).toBe('backoff');
      expect(subscription.context.backoffMs).toBeLessThanOrEqual(30_000);
      subscription.wait();
    }
    expect(subscription.state).toBe('opening');
    expect(subscription.context).toMatchObject({ refusals: 0, attempts: 200, problem: 'the stream broke' });
  });

  it('refusals and silence are counted together, and so many in a row close it', () => {
    const subscription = driveSubscription();
    subscription.send(refused);
    subscription.wait();
    subscription.send(written);
    subscription.wait();
    expect(subscription.context).toMatchObject({
      refusals: 2,
      problem: 'no acknowledgement within 10000 ms',
    });
    subscription.wait();
    subscription.send(refused);
    expect(subscription.state).toBe('closed');
    expect(subscription.context).toMatchObject({ refusals: 3, problem: 'busy' });
    const silent = driveSubscription({ maxRefusals: 1 });
    silent.send(written);
    silent.wait();
    expect(silent.state).toBe('closed');
    expect(silent.running).toBe(0);
    expect(silent.clock.pendingTimers).toBe(0);
  });

  it('time in which it is listened to clears the counts, and only that', () => {
    const subscription = driveSubscription();
    subscription.send(refused);
    subscription.wait();
    subscription.send(acknowledged());
    subscription.clock.advance(29_999);
    // One more acknowledgement does not begin the time anew.
    subscription.send(acknowledged());
    expect(subscription.context).toMatchObject({ attempts: 1, refusals: 1 });
    subscription.clock.advance(1);
    expect(subscription.context).toMatchObject({ attempts: 0, refusals: 0 });
  });

  it('one that crashes closes it, before, after and between, and never more than that', () => {
    const crashes = driveSubscription({
      onListen: () => {
        throw new Error('broken listen');
      },
    });
    expect(crashes.state).toBe('closed');
    expect(crashes.context.problem).toBe('a fault of this host while listening');
    const late = driveSubscription({
      onListen: (answer) => {
        answer(acknowledged());
        throw new Error('broken after the answer');
      },
    });
    expect(late.state).toBe('closed');
    for (const event of [lost, unknown, changed(other)]) {
      const cleanup = driveSubscription({
        onListen: () => () => {
          throw new Error('broken cleanup');
        },
      });
      cleanup.send(written, event);
      expect(cleanup.state).toBe('closed');
      expect(cleanup.running).toBe(0);
      expect(cleanup.errors).toEqual([]);
      expect(cleanup.actor.getSnapshot().status).toBe('active');
    }
  });
});

describe('another filter', () => {
  it('is listened to at once, from every state', () => {
    for (const state of Object.keys(wayInto) as SubscriptionState[]) {
      const subscription = into(state);
      subscription.send(changed(other));
      expect(subscription.state).toBe('opening');
      expect(subscription.listens.at(-1)).toEqual({ asked: other });
      expect(subscription.context.asked).toEqual(other);
      expect(subscription.running).toBe(1);
      expect(subscription.mostRunning).toBe(1);
    }
  });

  it('that asks for the same changes nothing, except where it was given up', () => {
    const same: SubscriptionFilter = {
      resourceSubscriptions: ['file:///a', 'file:///a'],
      promptsListChanged: true,
      toolsListChanged: true,
      resourcesListChanged: false,
    };
    for (const state of Object.keys(wayInto) as SubscriptionState[]) {
      const subscription = into(state);
      subscription.send(changed(same));
      expect(subscription.state).toBe(state === 'closed' ? 'opening' : state);
      expect(subscription.listens).toHaveLength(state === 'closed' ? 2 : 1);
    }
  });

  it('that asks for nothing ends it, without a complaint, until something is asked for again', () => {
    for (const state of Object.keys(wayInto) as SubscriptionState[]) {
      const subscription = into(state);
      subscription.send(changed(nothing));
      expect(subscription.running).toBe(0);
      expect(subscription.clock.pendingTimers).toBe(0);
      expect(subscription.context).toMatchObject({ asked: nothing, problem: null, refusals: 0, attempts: 0 });
      subscription.send(changed(other));
      expect(subscription.state).toBe('opening');
      expect(subscription.listens).toHaveLength(2);
    }
  });

  it('is no reason to forget how often it failed, unless it was given up', () => {
    const subscription = driveSubscription();
    subscription.send(refused, changed(other), refused);
    expect(subscription.context.refusals).toBe(2);
    subscription.wait();
    subscription.send(refused);
    expect(subscription.state).toBe('closed');
    subscription.send(changed(other));
    expect(subscription.context).toMatchObject({ refusals: 0, attempts: 0 });
  });
});

describe('the chart', () => {
  it('fails as it ships: the listen is injected', () => {
    const actor = createActor(subscriptionMachine, { input }).start();
    expect(subscriptionStateOf(actor.getSnapshot())).toBe('closed');
    actor.stop();
  });

  it('fetches nothing as it ships', () => {
    const listen = fromCallback<SubscriptionEvent, ListenInput>(() => {});
    const actor = createActor(subscriptionMachine.provide({ actors: { listen } }), { input }).start();
    actor.send(acknowledged());
    expect(subscriptionStateOf(actor.getSnapshot())).toBe('listening');
    actor.stop();
  });

  it('is built once; chance makes another', () => {
    expect(createSubscriptionMachine()).toBe(subscriptionMachine);
    const one = createSubscriptionMachine(() => 0);
    expect(one).not.toBe(subscriptionMachine);
    expect(one.implementations.actions.planBackoff).not.toBe(
      createSubscriptionMachine(() => 0).implementations.actions.planBackoff,
    );
  });

  it('leaves no timer and no listen behind when it is stopped', () => {
    for (const state of Object.keys(wayInto) as SubscriptionState[]) {
      const subscription = into(state);
      subscription.actor.stop();
      expect(subscription.running).toBe(0);
      expect(subscription.clock.pendingTimers).toBe(0);
    }
  });

  it('an action on an event that is not its own changes nothing', () => {
    const { context } = driveSubscription();
    const config = {
      context,
      on: { 'listen.written': { actions: ['takeFilter', 'noteAcknowledged', 'noteProblem'] } },
    };
    const chart = new StateMachine(config as never, subscriptionMachine.implementations as never);
    const actor = createActor(chart).start();
    actor.send(written as never);
    expect(actor.getSnapshot().context).toEqual(context);
    actor.stop();
  });

  it('has plain JSON in its context', () => {
    for (const state of Object.keys(wayInto) as SubscriptionState[]) {
      const { context } = into(state);
      expect(JSON.parse(JSON.stringify(context))).toEqual(context);
    }
  });

  it('describes its states, and where the specification speaks of them', () => {
    const check = (node: StateNode): void => {
      expect(node.description, node.id).toMatch(/\.$/);
      if (node.parent !== undefined)
        expect(node.meta, node.id).toMatchObject({ spec: expect.stringMatching(/subscriptions$/) });
      for (const state of Object.values(node.states)) check(state as StateNode);
    };
    check(subscriptionMachine.root as unknown as StateNode);
  });
});
