/** Multi round-trip requests through the whole host: what is declared, asked, sent again, and how a call ends in between. */
import { describe, expect, test, vi } from 'vitest';
import type { InputContext, InputHandlers } from '../../src/calls/inputHandlers.js';
import type { CallOutcome, RequestOutcome } from '../../src/calls/outcome.js';
import type { Host } from '../../src/host/facade.js';
import { META_CLIENT_CAPABILITIES } from '../../src/protocol/dialect.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import {
  type Asking,
  asking,
  asks,
  done,
  form,
  hostOf,
  inputsOf,
  lose,
  metaOf,
  roots,
  sameRequests,
  sample,
  sampled,
  settled,
  signpost,
  stateOf,
  visit,
} from './asking.js';
import { legacyFake } from './fakes.js';

const accept = { action: 'accept', content: { name: 'octocat' } } as const;

const willing: InputHandlers = {
  elicitForm: () => accept,
  elicitUrl: () => ({ action: 'accept' }),
  sample: () => sampled,
  listRoots: () => [{ uri: 'file:///work', name: 'work' }],
};

/** The three requests that may go rounds. */
const VERBS: Readonly<Record<string, (host: Host) => Promise<CallOutcome | RequestOutcome<unknown>>>> = {
  'tools/call': (host) => host.call('ask', { q: 'x' }),
  'prompts/get': (host) => host.getPrompt('it', 'greet', { who: 'you' }),
  'resources/read': (host) => host.readResource('it', 'docs://a b'),
};

describe('what is declared', () => {
  test.each<[handlers: InputHandlers, declared: JsonObject]>([
    [{}, {}],
    [{ elicitForm: () => accept }, { elicitation: { form: {} } }],
    [{ elicitUrl: () => ({ action: 'cancel' }) }, { elicitation: { url: {} } }],
    [{ sample: () => sampled }, { sampling: {} }],
    [{ sample: () => sampled, sampling: { tools: true } }, { sampling: { tools: {} } }],
    [{ listRoots: () => [] }, { roots: {} }],
    [willing, { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} }],
  ])('%o', async (handlers, declared) => {
    const modern = asking([asks({ a: form() }), asks(undefined, 's')]);
    const host = await hostOf(modern, { handlers });
    await host.call('ask');
    await host.listPrompts();
    await host.readResource('it', 'docs://a');
    const requests = modern.heard.filter(({ id, method }) => id !== undefined && method !== undefined);
    expect(requests.length).toBeGreaterThan(4);
    for (const request of requests) expect(metaOf(request)[META_CLIENT_CAPABILITIES]).toEqual(declared);

    const old = legacyFake();
    await hostOf(old, { handlers });
    const initialize = old.heard.find(({ method }) => method === 'initialize');
    expect(initialize?.params?.['capabilities']).toEqual(declared);
  });
});

describe.each(Object.entries(VERBS))('%s', (method, run) => {
  test('is sent again under a new id, with the answers under their keys and the state as it came', async () => {
    const fake = asking([asks({ who: form(), where: roots, 'log in': visit(), think: sample() }, 'opaque')]);
    const host = await hostOf(fake, { handlers: willing });
    const outcome = await run(host);
    expect(outcome).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 2, era: 'modern' });
    const sent = fake.sent();
    expect(sent.map((message) => message.method)).toEqual([method, method]);
    sameRequests(sent);
    expect(outcome.requestId).toBe(sent[1]?.id);
    expect(sent[0]?.params).not.toHaveProperty('inputResponses');
    expect(sent[0]?.params).not.toHaveProperty('requestState');
    expect(inputsOf(sent[1])).toEqual({
      who: accept,
      where: { roots: [{ uri: 'file:///work', name: 'work' }] },
      'log in': { action: 'accept' },
      think: sampled,
    });
    expect(stateOf(sent[1])).toBe('opaque');
  });

  test('of state alone asks nobody, and of inputs alone has no state', async () => {
    const elicitForm = vi.fn(() => accept);
    const fake = asking([asks(undefined, 's1'), asks({ a: form() }), asks(undefined, '')]);
    const host = await hostOf(fake, { handlers: { elicitForm } });
    expect(await run(host)).toMatchObject({ status: 'ok', attempts: 4 });
    const sent = fake.sent();
    sameRequests(sent);
    expect(elicitForm).toHaveBeenCalledTimes(1);
    const given = sent.map(({ params = {} }) => [params['inputResponses'], params['requestState']]);
    // What an earlier round was answered is not sent again.
    expect(given).toEqual([
      [undefined, undefined],
      [undefined, 's1'],
      [{ a: accept }, undefined],
      [undefined, ''],
    ]);
    expect(sent[1]?.params).not.toHaveProperty('inputResponses');
    expect(sent[2]?.params).not.toHaveProperty('requestState');
  });

  test('tells the handler who asks, and for which request', async () => {
    const seen: InputContext[] = [];
    const listRoots = (context: InputContext) => {
      seen.push(context);
      return [];
    };
    await run(await hostOf(asking([asks({ r: roots })]), { handlers: { listRoots } }));
    const target = { 'tools/call': 'ask', 'prompts/get': 'greet', 'resources/read': 'docs://a b' }[method];
    expect(seen).toEqual([
      { peer: 'it', era: 'modern', request: { method, target }, signal: expect.any(AbortSignal) },
    ]);
  });

  test('is not asked for more than maxRounds', async () => {
    const fake = asking(Array.from({ length: 10 }, (_, i) => asks(undefined, `${i}`)));
    const outcome = await run(await hostOf(fake, { maxRounds: 3 }));
    expect(outcome).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      attempts: 4,
      message: 'The server asked for input more than 3 times in one call.',
    });
    expect(fake.sent()).toHaveLength(4);
  });

  test('with no rounds at all fails at the first', async () => {
    const listRoots = vi.fn(() => []);
    const fake = asking([asks({ a: roots }, 's')]);
    const outcome = await run(await hostOf(fake, { maxRounds: 0, handlers: { listRoots } }));
    expect(outcome).toMatchObject({ status: 'protocol-error', delivery: 'answered', attempts: 1 });
    expect(listRoots).not.toHaveBeenCalled();
    expect(fake.sent()).toHaveLength(1);
  });

  test('that asks for something undeclared fails at once, and nobody is asked', async () => {
    const elicitForm = vi.fn(() => accept);
    const fake = asking([asks({ a: form(), b: sample() }, 's')]);
    const outcome = await run(await hostOf(fake, { handlers: { elicitForm } }));
    expect(outcome).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      message: 'The server asked for "sampling/createMessage", which this host did not offer.',
    });
    expect(elicitForm).not.toHaveBeenCalled();
    expect(fake.sent()).toHaveLength(1);
  });

  test.each<[what: string, result: JsonValue]>([
    ['neither inputs nor state', asks(undefined)],
    ['inputs that are no object', asks([form()])],
    ['a state that is no string', asks(undefined, 7)],
    ['an input that is no request', asks({ a: 1 })],
    ['another method', asks({ a: { method: 'tools/call', params: { name: 'rm' } } })],
    ['101 requests', asks(Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`k${i}`, roots])))],
    ['a form without a schema', asks({ a: { method: 'elicitation/create', params: { message: 'a' } } })],
    ['a script for a page', asks({ a: visit('javascript:alert(1)') })],
  ])('with %s is a protocol error, and nobody is asked', async (_, result) => {
    const asked = vi.fn(() => {
      throw new Error('asked');
    });
    const handlers = { elicitForm: asked, elicitUrl: asked, sample: asked, listRoots: asked };
    const fake = asking([result]);
    const outcome = await run(await hostOf(fake, { handlers }));
    expect(outcome).toMatchObject({ status: 'protocol-error', delivery: 'answered', attempts: 1 });
    expect(asked).not.toHaveBeenCalled();
    expect(fake.sent()).toHaveLength(1);
  });
});

describe('a result after rounds', () => {
  test('is never cached; one without is', async () => {
    const fake = asking([asks(undefined, 's')]);
    const host = await hostOf(fake);
    expect(await host.readResource('it', 'docs://a')).toMatchObject({
      status: 'ok',
      cached: false,
      attempts: 2,
    });
    expect(await host.readResource('it', 'docs://a')).toMatchObject({
      status: 'ok',
      cached: false,
      attempts: 1,
    });
    expect(await host.readResource('it', 'docs://a')).toMatchObject({
      status: 'ok',
      cached: true,
      attempts: 0,
    });
  });

  test('that no request may ask for is no round: completions, and lists', async () => {
    const fake = asking([], {
      on: ({ method }) => (method === 'completion/complete' ? asks({ a: roots }, 's') : undefined),
    });
    const listRoots = vi.fn(() => []);
    const host = await hostOf(fake, { handlers: { listRoots } });
    const outcome = await host.complete('it', {
      ref: { type: 'ref/prompt', name: 'p' },
      argument: { name: 'a', value: 'b' },
    });
    expect(outcome).toMatchObject({ status: 'invalid-result', delivery: 'answered' });
    expect(listRoots).not.toHaveBeenCalled();
  });

  test('of a legacy peer is none: it has no rounds', async () => {
    const listRoots = vi.fn(() => []);
    const fake = legacyFake({
      on: ({ method }) => (method === 'tools/call' ? asks({ a: roots }, 's') : undefined),
    });
    const outcome = await (await hostOf(fake, { handlers: { listRoots } })).call('search');
    expect(outcome).toMatchObject({ status: 'invalid-result', delivery: 'answered', attempts: 1 });
    expect(listRoots).not.toHaveBeenCalled();
  });

  test('of two calls at once: ids and answers are each call’s own', async () => {
    const byCall = (message: { params?: JsonObject }): JsonObject => {
      const { q } = (message.params?.['arguments'] ?? {}) as { q?: string };
      const inputs = message.params?.['inputResponses'] as JsonObject | undefined;
      if (inputs === undefined) return asks({ [`key ${q}`]: form(q) }, `state ${q}`);
      return done(JSON.stringify([q, inputs, message.params?.['requestState']]));
    };
    const fake = asking(Array.from({ length: 40 }, () => byCall));
    const host = await hostOf(fake, {
      handlers: { elicitForm: ({ message }) => ({ action: 'accept', content: { name: message } }) },
    });
    const names = Array.from({ length: 20 }, (_, i) => `n${i}`);
    const outcomes = await Promise.all(names.map((q) => host.call('ask', { q })));
    expect(
      outcomes.map((outcome) => (outcome.status === 'ok' ? outcome.result.content[0] : outcome)),
    ).toEqual(
      names.map((q) => ({
        type: 'text',
        text: JSON.stringify([q, { [`key ${q}`]: { action: 'accept', content: { name: q } } }, `state ${q}`]),
      })),
    );
    const ids = fake.sent().map(({ id }) => id);
    expect(new Set(ids).size).toBe(40);
  });
});

describe('handlers', () => {
  test('of a round run at once, and outside the reader: a slow one delays no call and no answer', async () => {
    const first = signpost();
    const second = signpost();
    const free = signpost<typeof accept>();
    const fake = asking([asks({ a: form(), b: roots })]);
    const host = await hostOf(fake, {
      handlers: {
        elicitForm: () => {
          first.reach();
          return free.reached;
        },
        listRoots: () => {
          second.reach();
          return [];
        },
      },
    });
    const slow = host.call('ask');
    await Promise.all([first.reached, second.reached]);
    const others = await Promise.all(Array.from({ length: 10 }, () => host.call('plain')));
    expect(new Set(others.map(({ status }) => status))).toEqual(new Set(['ok']));
    free.reach(accept);
    expect(await slow).toMatchObject({ status: 'ok', attempts: 2 });
  });

  test('may call the same peer', async () => {
    const fake = asking([asks({ a: form() })]);
    const inner: CallOutcome[] = [];
    const host = await hostOf(fake, {
      maxInFlight: 2,
      handlers: {
        elicitForm: async () => {
          inner.push(await host.call('plain'));
          return accept;
        },
      },
    });
    expect(await host.call('ask')).toMatchObject({ status: 'ok' });
    expect(inner).toMatchObject([{ status: 'ok' }]);
  });

  test('that call their own peer where it has no room wait no longer than the deadline of the call', async () => {
    const clock = createSimulatedClock();
    const waiting = signpost();
    const inner = signpost<CallOutcome>();
    const fake = asking([asks({ a: form() })]);
    const host = await hostOf(fake, {
      clock,
      maxInFlight: 1,
      handlers: {
        elicitForm: async (_request, { signal }) => {
          const call = host.call('plain', {}, { signal });
          waiting.reach();
          inner.reach(await call);
          return accept;
        },
      },
    });
    const outer = host.call('ask', {}, { timeoutMs: 5_000 });
    await waiting.reached;
    clock.advance(5_000);
    expect(await outer).toMatchObject({ status: 'timeout', delivery: 'answered', attempts: 1 });
    expect(await inner.reached).toMatchObject({ status: 'cancelled', delivery: 'not-sent' });
    expect(await host.call('plain')).toMatchObject({ status: 'ok' });
  });

  const circle: Record<string, unknown> = {};
  circle['self'] = circle;
  test.each<[what: string, handler: () => unknown, says: RegExp]>([
    [
      'throws',
      () => {
        throw new Error('no terminal here');
      },
      /no terminal here/,
    ],
    ['rejects', () => Promise.reject(new Error('the model is gone')), /the model is gone/],
    [
      'throws nothing',
      () => {
        throw undefined;
      },
      /undefined/,
    ],
    ['gives nothing', () => undefined, /nothing/],
    ['gives a text', () => 'yes', /not an object/],
    ['gives another action', () => ({ action: 'ok' }), /"ok"/],
    ['gives content with a no', () => ({ action: 'decline', content: {} }), /decline/],
    ['gives what is no form', () => ({ action: 'accept', content: { a: { b: 1 } } }), /content/],
    ['gives a circle', () => circle, /circular/i],
    ['gives a bigint', () => ({ action: 'accept', content: { a: 1n } }), /BigInt/i],
  ])('one that %s ends the call, and nothing more is sent', async (_, handler, says) => {
    const fake = asking([asks({ a: form() }, 's')]);
    const host = await hostOf(fake, { handlers: { elicitForm: handler as never } });
    const outcome = await host.call('ask');
    expect(outcome).toMatchObject({ status: 'cancelled', delivery: 'answered', attempts: 1 });
    expect((outcome as { message: string }).message).toMatch(says);
    expect(fake.sent()).toHaveLength(1);
    // The peer is none the worse for it.
    expect(await host.call('plain')).toMatchObject({ status: 'ok' });
    expect(host.status().peers[0]).toMatchObject({ breaker: 'closed', inFlight: 0, queued: 0 });
  });

  test('one that fails aborts the others of its round, and a no of a person aborts nothing', async () => {
    const signals: AbortSignal[] = [];
    const started = signpost();
    const fake = asking([asks({ a: sample(), b: roots })]);
    const host = await hostOf(fake, {
      handlers: {
        sample: (_params, { signal }) => {
          signals.push(signal);
          started.reach();
          return new Promise<never>(() => undefined);
        },
        listRoots: async () => {
          await started.reached;
          throw new Error('no disk');
        },
      },
    });
    expect(await host.call('ask')).toMatchObject({ status: 'cancelled' });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);

    const refusing = asking([asks({ a: form(), b: roots })]);
    const other = await hostOf(refusing, {
      handlers: { elicitForm: () => ({ action: 'decline' }), listRoots: () => [] },
    });
    expect(await other.call('ask')).toMatchObject({ status: 'ok' });
    expect(inputsOf(refusing.sent()[1])).toEqual({ a: { action: 'decline' }, b: { roots: [] } });
  });
});

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
