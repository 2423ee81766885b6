/** Multi round-trip requests through the whole host: what is declared, asked and sent again, and what handlers may do. */
import { describe, expect, test, vi } from 'vitest';
import type { InputContext, InputHandlers } from '../../src/calls/inputHandlers.js';
import type { CallOutcome, RequestOutcome } from '../../src/calls/outcome.js';
import type { Host } from '../../src/host/facade.js';
import { META_CLIENT_CAPABILITIES } from '../../src/protocol/dialect.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import {
  asking,
  asks,
  done,
  form,
  hostOf,
  inputsOf,
  metaOf,
  roots,
  sameRequests,
  sample,
  sampled,
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
