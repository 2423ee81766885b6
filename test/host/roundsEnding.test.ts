/** Calls that end in the middle of their rounds: by their caller, their deadline, the host, or a lost connection. */
import { describe, expect, test, vi } from 'vitest';
import type { InputHandlers } from '../../src/calls/inputHandlers.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import {
  type Asking,
  asking,
  asks,
  form,
  hostOf,
  inputsOf,
  lose,
  roots,
  sameRequests,
  sampled,
  settled,
  signpost,
  stateOf,
} from './asking.js';

const accept = { action: 'accept', content: { name: 'octocat' } } as const;

const willing: InputHandlers = {
  elicitForm: () => accept,
  elicitUrl: () => ({ action: 'accept' }),
  sample: () => sampled,
  listRoots: () => [{ uri: 'file:///work', name: 'work' }],
};

describe('a call that ends while a handler runs', () => {
  /** A call in its first round, with a handler that never answers. */
  async function inRound(options: { timeoutMs?: number } = {}) {
    const clock = createSimulatedClock();
    const asked = signpost<AbortSignal>();
    const fake = asking([asks({ a: form() }, 's')]);
    const host = await hostOf(fake, {
      clock,
      handlers: {
        elicitForm: (_request, { signal }) => {
          asked.reach(signal);
          return new Promise<never>(() => undefined);
        },
      },
    });
    const control = new AbortController();
    const call = host.call('ask', {}, { signal: control.signal, ...options });
    const signal = await asked.reached;
    expect(signal.aborted).toBe(false);
    return { clock, fake, host, control, call, signal };
  }

  test('by its caller: the handler hears of it, and no further round is sent', async () => {
    const { call, control, signal, fake, host } = await inRound();
    control.abort();
    const outcome = await call;
    expect(outcome).toMatchObject({ status: 'cancelled', delivery: 'answered', attempts: 1 });
    expect(signal.aborted).toBe(true);
    await settled();
    expect(fake.sent()).toHaveLength(1);
    // Nothing of it is on the wire, so there is nothing to cancel there.
    expect(fake.methods()).not.toContain('notifications/cancelled');
    expect(host.status().peers[0]).toMatchObject({ inFlight: 0, queued: 0 });
    expect(await host.call('plain')).toMatchObject({ status: 'ok' });
  });

  test('by its deadline', async () => {
    const { call, clock, signal, fake } = await inRound({ timeoutMs: 3_000 });
    clock.advance(2_999);
    expect(signal.aborted).toBe(false);
    clock.advance(1);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'answered', attempts: 1 });
    expect(signal.aborted).toBe(true);
    await settled();
    expect(fake.sent()).toHaveLength(1);
  });

  test('by the end of the host, which does not wait for it', async () => {
    const { call, signal, host, clock } = await inRound();
    await host.stop();
    expect(await call).toMatchObject({ status: 'cancelled', delivery: 'answered', attempts: 1 });
    expect(signal.aborted).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  test('by the removal of its peer', async () => {
    const { call, signal, host } = await inRound();
    await host.removePeer('it');
    expect(await call).toMatchObject({ status: 'unavailable', delivery: 'answered', attempts: 1 });
    expect(signal.aborted).toBe(true);
  });

  test('leaves no listener on the caller’s signal, and no timer', async () => {
    const clock = createSimulatedClock();
    const fake = asking(Array.from({ length: 6 }, (_, i) => asks({ a: roots, b: form() }, `${i}`)));
    const host = await hostOf(fake, { clock, handlers: willing });
    const timers = clock.pendingTimers;
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, 'addEventListener');
    const removed = vi.spyOn(signal, 'removeEventListener');
    expect(await host.call('ask', {}, { signal })).toMatchObject({ status: 'ok', attempts: 7 });
    expect(removed).toHaveBeenCalledTimes(added.mock.calls.length);
    expect(clock.pendingTimers).toBe(timers);
  });
});

describe('the one deadline', () => {
  test('covers all rounds', async () => {
    const clock = createSimulatedClock();
    const asked: (() => void)[] = [];
    let heard = signpost();
    const fake = asking(Array.from({ length: 10 }, (_, i) => asks({ a: form() }, `${i}`)));
    const host = await hostOf(fake, {
      clock,
      handlers: {
        elicitForm: () =>
          new Promise((resolve) => {
            asked.push(() => resolve(accept));
            heard.reach();
          }),
      },
    });
    const call = host.call('ask', {}, { timeoutMs: 1_000 });
    for (let round = 0; round < 4; round += 1) {
      await heard.reached;
      heard = signpost();
      clock.advance(240);
      asked[round]?.();
    }
    await heard.reached;
    clock.advance(40);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'answered', attempts: 5 });
    expect(fake.sent()).toHaveLength(5);
  });

  test('is what is left of it on the wire of a later round', async () => {
    const clock = createSimulatedClock();
    const answered = signpost();
    const silent = signpost();
    const fake = asking([
      asks({ a: form() }),
      () => {
        silent.reach();
        return null;
      },
    ]);
    const host = await hostOf(fake, {
      clock,
      handlers: {
        elicitForm: async () => {
          clock.advance(700);
          answered.reach();
          return accept;
        },
      },
    });
    const call = host.call('ask', {}, { timeoutMs: 1_000 });
    await silent.reached;
    clock.advance(299);
    await settled();
    expect(fake.methods()).not.toContain('notifications/cancelled');
    clock.advance(1);
    // This round was written and not answered: it may have been executed.
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'unknown', attempts: 2 });
    const cancelled = fake.heard.find(({ method }) => method === 'notifications/cancelled');
    expect(cancelled?.params).toMatchObject({ requestId: fake.sent()[1]?.id });
  });

  test('is moved by progress in every round, each under its own token, up to maxCallMs', async () => {
    const clock = createSimulatedClock();
    const reports: number[] = [];
    let reached = signpost<number>();
    const round = (answer: JsonValue | null) => (message: { id?: number; params?: JsonObject }) => {
      const meta = message.params?.['_meta'] as JsonObject;
      expect(meta['progressToken']).toBe(message.id);
      reached.reach(message.id as number);
      return answer;
    };
    const fake = asking([round(null), round(null)]);
    const host = await hostOf(fake, { clock, maxCallMs: 2_500, handlers: { listRoots: () => [] } });
    const call = host.call(
      'ask',
      {},
      { timeoutMs: 1_000, onProgress: ({ progress }) => void reports.push(progress) },
    );
    const progress = (progressToken: number, value: number) =>
      fake.say({ method: 'notifications/progress', params: { progressToken, progress: value } });
    const first = await reached.reached;
    reached = signpost();
    clock.advance(900);
    progress(first, 1);
    await settled();
    fake.say({ id: first, result: asks({ a: roots }) });
    const second = await reached.reached;
    expect(second).not.toBe(first);
    // A report for the first round, when the second is under way, is late: counted, and nothing else.
    progress(first, 99);
    clock.advance(900);
    progress(second, 2);
    await settled();
    expect(reports).toEqual([1, 2]);
    expect(host.status().peers[0]?.faults).toMatchObject({ 'foreign-progress': 1 });
    clock.advance(699);
    progress(second, 3);
    await settled();
    clock.advance(1);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'unknown', attempts: 2 });
    expect(reports).toEqual([1, 2, 3]);
  });
});

describe('a connection that is lost', () => {
  test('while a handler runs: its answer goes to the next connection, once', async () => {
    const asked = signpost();
    const free = signpost<typeof accept>();
    const elicitForm = vi.fn(() => {
      asked.reach();
      return free.reached;
    });
    const fake = asking([asks({ a: form() }, 'carries all')]);
    const host = await hostOf(fake, { handlers: { elicitForm } });
    const call = host.call('ask', { q: 'x' });
    await asked.reached;
    lose(fake);
    await vi.waitFor(() => expect(fake.connections).toHaveLength(2));
    free.reach(accept);
    expect(await call).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 2 });
    expect(elicitForm).toHaveBeenCalledTimes(1);
    const sent = fake.sent();
    expect(sent).toHaveLength(2);
    sameRequests(sent);
    expect([inputsOf(sent[1]), stateOf(sent[1])]).toEqual([{ a: accept }, 'carries all']);
    expect(fake.connections).toHaveLength(2);
  });

  test('while a handler runs, with the answer first: it waits for the next connection', async () => {
    const asked = signpost();
    const free = signpost<typeof accept>();
    const fake = asking([asks({ a: form() })]);
    const host = await hostOf(fake, {
      handlers: {
        elicitForm: () => {
          asked.reach();
          return free.reached;
        },
      },
    });
    const call = host.call('ask');
    await asked.reached;
    lose(fake);
    free.reach(accept);
    expect(await call).toMatchObject({ status: 'ok', attempts: 2 });
    expect(fake.sent()).toHaveLength(2);
  });

  test('before a round was written: sent on the next connection, and counted once', async () => {
    const elicitForm = vi.fn(() => {
      // What is sent from now on waits in the pipe.
      fake.connections.at(-1)?.hold();
      return accept;
    });
    const fake: Asking = asking([asks({ a: form() }, 's')]);
    const host = await hostOf(fake, { handlers: { elicitForm } });
    const call = host.call('ask');
    await vi.waitFor(() => expect(elicitForm).toHaveBeenCalledTimes(1));
    await settled();
    expect(fake.sent()).toHaveLength(1);
    lose(fake);
    expect(await call).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 2 });
    const sent = fake.sent();
    expect(sent).toHaveLength(2);
    sameRequests(sent);
    expect([inputsOf(sent[1]), stateOf(sent[1])]).toEqual([{ a: accept }, 's']);
    expect(elicitForm).toHaveBeenCalledTimes(1);
  });

  test('after a round was written: never sent again, and not said to have failed', async () => {
    const elicitForm = vi.fn(() => accept);
    const fake = asking([
      asks({ a: form() }, 's'),
      (_message, self) => {
        lose(self);
        return null;
      },
    ]);
    const host = await hostOf(fake, { handlers: { elicitForm } });
    expect(await host.call('ask')).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 2 });
    await host.peer('it').waitUntil('callable');
    await settled();
    expect(fake.sent()).toHaveLength(2);
    expect(elicitForm).toHaveBeenCalledTimes(1);
  });

  test('after a round was written, and the call is repeatable: that round once more, and nobody is asked anew', async () => {
    const elicitForm = vi.fn(() => accept);
    const fake = asking([
      asks({ a: form() }, 's'),
      (_message, self) => {
        lose(self);
        return null;
      },
    ]);
    const host = await hostOf(fake, { handlers: { elicitForm }, callPolicy: { isRepeatable: () => true } });
    expect(await host.call('ask')).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 3 });
    const sent = fake.sent();
    sameRequests(sent);
    expect(sent.map((message) => [inputsOf(message), stateOf(message)])).toEqual([
      [undefined, undefined],
      [{ a: accept }, 's'],
      [{ a: accept }, 's'],
    ]);
    expect(elicitForm).toHaveBeenCalledTimes(1);
  });

  test('before it asked: what that attempt did stays unknown, whatever comes of the one that asks', async () => {
    const control = new AbortController();
    const fake = asking([
      (_message, self) => {
        lose(self);
        return null;
      },
      asks({ a: form() }),
    ]);
    const host = await hostOf(fake, {
      callPolicy: { isRepeatable: () => true },
      handlers: {
        elicitForm: () => {
          control.abort();
          return new Promise<never>(() => undefined);
        },
      },
    });
    expect(await host.call('ask', {}, { signal: control.signal })).toMatchObject({
      status: 'cancelled',
      delivery: 'unknown',
      attempts: 2,
    });
  });

  test('for good while a handler runs: nobody is kept before a form that leads nowhere', async () => {
    const asked = signpost<AbortSignal>();
    const fake = asking([asks({ a: form() })], {
      on: ({ method }, self) =>
        method === 'server/discover' && self.connections.length > 1
          ? { error: { code: -32601, message: 'no' } }
          : undefined,
    });
    const host = await hostOf(fake, {
      handlers: {
        elicitForm: (_request, { signal }) => {
          asked.reach(signal);
          return new Promise<never>(() => undefined);
        },
      },
    });
    const call = host.call('ask');
    const signal = await asked.reached;
    lose(fake);
    expect(await call).toMatchObject({ status: 'unavailable', delivery: 'answered', attempts: 1 });
    expect(signal.aborted).toBe(true);
    expect(host.peer('it').state).toBe('unavailable');
  });

  test('and the peer is legacy when it is back: its inputs mean nothing there', async () => {
    let isOld = false;
    const asked = signpost();
    const free = signpost<typeof accept>();
    const fake = asking([asks({ a: form() }, 's')], {
      allowLegacy: true,
      on: ({ method }) => {
        if (!isOld) return undefined;
        if (method === 'server/discover') return { error: { code: -32601, message: 'no' } };
        if (method !== 'initialize') return undefined;
        return {
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: 'old', version: '1' },
        };
      },
    });
    const host = await hostOf(fake, {
      handlers: {
        elicitForm: () => {
          asked.reach();
          return free.reached;
        },
      },
    });
    const call = host.call('ask');
    await asked.reached;
    isOld = true;
    // Only so does a peer that was modern ever become legacy (N12).
    host.forget('it');
    lose(fake);
    await vi.waitFor(() => expect(host.peer('it').state).toBe('legacy'));
    free.reach(accept);
    expect(await call).toMatchObject({ status: 'protocol-error', delivery: 'answered', attempts: 1 });
    expect(fake.sent()).toHaveLength(1);
  });

  test('and the tool is another one when it is back: the inputs were meant for what it was', async () => {
    const asked = signpost();
    const free = signpost<typeof accept>();
    const fake = asking([asks({ a: form() }, 's')]);
    const host = await hostOf(fake, {
      handlers: {
        elicitForm: () => {
          asked.reach();
          return free.reached;
        },
      },
    });
    const call = host.call('ask');
    await asked.reached;
    fake.tools = [{ name: 'ask', description: 'Deletes everything.', inputSchema: { type: 'object' } }];
    lose(fake);
    await vi.waitFor(() =>
      expect(host.catalog().entries.get('ask')?.description).toBe('Deletes everything.'),
    );
    free.reach(accept);
    const outcome = await call;
    expect(outcome).toMatchObject({ status: 'unavailable', delivery: 'answered', attempts: 1 });
    expect(fake.sent()).toHaveLength(1);
  });
});
