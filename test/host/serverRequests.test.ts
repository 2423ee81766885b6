/** What servers ask for by themselves: answered in the legacy era by the host's handlers, dropped in the modern one. */
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import type { InputContext, InputHandlers, Root } from '../../src/calls/inputHandlers.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { form, hostOf, lose, oldPeer, roots, sample, sampled, settled, signpost, visit } from './asking.js';
import { type Answered, demand, httpPeer, stdioPeer } from './demanding.js';
import { modernFake } from './fakes.js';

const PATIENT = {
  probeTimeoutMs: 60_000,
  legacyProbeTimeoutMs: 60_000,
  startTimeoutMs: 120_000,
  listTimeoutMs: 60_000,
  callTimeoutMs: 120_000,
  maxAttempts: 0,
};
const REACH = { stdio: async () => stdioPeer('legacy'), 'streamable-http': httpPeer } as const;

async function started(
  transport: keyof typeof REACH,
  options: Omit<CreateHostOptions, 'peers'>,
): Promise<Host> {
  const host = createHost({ ...PATIENT, ...options, peers: { it: await REACH[transport]() } });
  onTestFinished(() => host.stop());
  const { peers } = await host.start();
  expect(peers[0]).toMatchObject({ state: 'legacy', tools: transport === 'stdio' ? 3 : 1 });
  return host;
}

const byId = (answers: readonly Answered[]) =>
  new Map(answers.map(({ id, result, error }) => [id, result ?? error]));
const ask = (id: string | number, request: JsonObject): JsonObject => ({ id, ...request });

describe.each(Object.keys(REACH) as (keyof typeof REACH)[])('over %s', { timeout: 120_000 }, (transport) => {
  test('ping, roots, sampling and both kinds of elicitation are answered, and the call that waits for them goes on', async () => {
    const contexts: InputContext[] = [];
    const seen: unknown[] = [];
    const handlers: InputHandlers = {
      listRoots: (context) => {
        contexts.push(context);
        return [{ uri: 'file:///work', name: 'work' }];
      },
      sample: (params) => {
        seen.push(params['maxTokens']);
        return sampled;
      },
      elicitForm: ({ message, requestedSchema }) => {
        seen.push(message);
        // Who fills in a form takes the defaults of its fields.
        const fields = Object.entries(requestedSchema['properties'] as Record<string, JsonObject>);
        return {
          action: 'accept',
          content: Object.fromEntries(fields.map(([name, field]) => [name, field['default'] ?? 'octocat'])),
        };
      },
      elicitUrl: ({ url }) => {
        seen.push(url);
        return { action: 'accept' };
      },
    };
    const host = await started(transport, { handlers });
    const properties = {
      name: { type: 'string' },
      count: { type: 'integer', default: 3 },
      loud: { type: 'boolean', default: false },
    };
    // Before 2025-11-25 a form had no mode.
    const oldForm = { message: 'Who?', requestedSchema: { type: 'object', properties } };
    const answers = await demand(
      host,
      [
        ask(1, { method: 'ping' }),
        ask('1', roots),
        ask(2, sample()),
        ask('form', { method: 'elicitation/create', params: oldForm }),
        ask('page', visit()),
      ],
      5,
    );
    expect(byId(answers)).toEqual(
      new Map<string | number, JsonObject>([
        [1, {}],
        ['1', { roots: [{ uri: 'file:///work', name: 'work' }] }],
        [2, sampled],
        ['form', { action: 'accept', content: { name: 'octocat', count: 3, loud: false } }],
        ['page', { action: 'accept' }],
      ]),
    );
    expect(new Set(seen)).toEqual(new Set([9, 'Who?', 'https://example.com/login']));
    expect(contexts).toEqual([{ peer: 'it', era: 'legacy', request: null, signal: expect.any(AbortSignal) }]);
    expect(host.peer('it').report().faults).toEqual({});
  });

  test('what is not declared is refused at once, whoever is busy', async () => {
    const host = await started(transport, {
      handlers: { listRoots: () => new Promise<never>(() => undefined) },
    });
    const answers = await demand(
      host,
      [
        ask(1, roots),
        ask(2, form()),
        ask(3, sample()),
        ask(4, { method: 'tasks/list' }),
        ask(5, { method: 'ping' }),
      ],
      4,
    );
    expect(byId(answers)).toEqual(
      new Map<number, unknown>([
        [2, { code: -32601, message: 'This client does not offer "elicitation/create".' }],
        [3, { code: -32601, message: 'This client does not offer "sampling/createMessage".' }],
        [4, { code: -32601, message: 'This client does not offer "tasks/list".' }],
        [5, {}],
      ]),
    );
  });

  test('without any handler a server is told so, and does not wait for its roots', async () => {
    const host = await started(transport, {});
    const answers = await demand(host, [ask(1, roots), ask(2, { method: 'ping' })], 2);
    expect(answers.map(({ id, error }) => [id, error?.code])).toEqual([
      [1, -32601],
      [2, undefined],
    ]);
  });

  test('forty at once: each is answered once, by a handler or by a refusal', async () => {
    const host = await started(transport, { handlers: { listRoots: () => [] } });
    const answers = await demand(
      host,
      Array.from({ length: 40 }, (_, id) => ask(id, roots)),
      40,
    );
    expect(answers.map(({ id }) => Number(id)).sort((a, b) => a - b)).toEqual(
      Array.from({ length: 40 }, (_, id) => id),
    );
    for (const { result, error } of answers) expect(error?.code ?? result).toSatisfy(isAnswerOrBusy);
    // Nothing comes after them, and there is room again.
    expect(await demand(host, [ask('a', roots)], 1)).toMatchObject([{ id: 'a', result: { roots: [] } }]);
  });

  test('an id twice: the first is answered, once', async () => {
    const free = signpost<Root[]>();
    const host = await started(transport, { handlers: { listRoots: () => free.reached } });
    const both = demand(host, [ask(7, roots), ask(7, { method: 'ping' }), ask('7', { method: 'ping' })], 2);
    await vi.waitFor(() => expect(host.peer('it').report().faults['server-request']).toBe(1));
    free.reach([]);
    expect(byId(await both)).toEqual(
      new Map<string | number, JsonObject>([
        ['7', {}],
        [7, { roots: [] }],
      ]),
    );
    // Answered, its id is free.
    expect(await demand(host, [ask(7, { method: 'ping' })], 1)).toMatchObject([{ id: 7, result: {} }]);
  });

  test('what the server takes back is aborted and not answered', async () => {
    const asked = signpost<AbortSignal>();
    const free = signpost<Root[]>();
    const host = await started(transport, {
      handlers: {
        listRoots: ({ signal }) => {
          asked.reach(signal);
          return free.reached;
        },
      },
    });
    await demand(host, [ask(1, roots)], 0);
    const signal = await asked.reached;
    expect(signal.aborted).toBe(false);
    const cancelled = { method: 'notifications/cancelled', params: { requestId: 1 } };
    const after = await demand(host, [cancelled, ask(2, { method: 'ping' })], 1);
    expect(after.map(({ id }) => id)).toEqual([2]);
    expect(signal.aborted).toBe(true);
    free.reach([]);
    await settled();
    expect((await demand(host, [ask(3, { method: 'ping' })], 1)).map(({ id }) => id)).toEqual([3]);
  });

  test('a handler that fails is an error that says nothing of it', async () => {
    const host = await started(transport, {
      handlers: {
        listRoots: () => {
          throw new Error('the password is hunter2');
        },
        sample: () => ({ role: 'hunter2' }),
        elicitForm: () => 'hunter2' as never,
      },
    });
    const answers = await demand(host, [ask(1, roots), ask(2, sample()), ask(3, form())], 3);
    for (const { error } of answers) {
      expect(error).toEqual({ code: -32603, message: 'The client could not get the input.' });
    }
    expect(new Set(answers.map(({ id }) => id))).toEqual(new Set([1, 2, 3]));
  });

  test('a handler that never answers keeps nobody from stopping, and hears of it', async () => {
    const asked = signpost<AbortSignal>();
    const host = await started(transport, {
      handlers: {
        elicitForm: (_request, { signal }) => {
          asked.reach(signal);
          return new Promise<never>(() => undefined);
        },
      },
    });
    const call = host.call('demand', { say: [ask(1, form())], answers: 1 });
    const signal = await asked.reached;
    await host.stop();
    expect(signal.aborted).toBe(true);
    expect(await call).toMatchObject({ status: 'cancelled', delivery: 'unknown' });
  });
});

function isAnswerOrBusy(answer: unknown): boolean {
  return answer === -32000 || JSON.stringify(answer) === '{"roots":[]}';
}

describe('a legacy peer', () => {
  test('is answered by a slow handler while other calls go on', async () => {
    const asked = signpost();
    const free = signpost<Root[]>();
    const fake = oldPeer();
    const host = await hostOf(fake, {
      handlers: {
        listRoots: () => {
          asked.reach();
          return free.reached;
        },
      },
    });
    fake.say({ id: 'r', method: 'roots/list' });
    await asked.reached;
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => host.call('plain')));
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['ok']));
    const answered = () => fake.heard.filter(({ method }) => method === undefined);
    expect(answered()).toEqual([]);
    free.reach([]);
    await settled();
    expect(answered()).toEqual([{ jsonrpc: '2.0', id: 'r', result: { roots: [] } }]);
  });

  test('that is lost while a handler runs is not answered, nor is the next connection', async () => {
    const asked = signpost<AbortSignal>();
    const free = signpost<Root[]>();
    const fake = oldPeer();
    const host = await hostOf(fake, {
      handlers: {
        listRoots: ({ signal }) => {
          asked.reach(signal);
          return free.reached;
        },
      },
    });
    fake.say({ id: 1, method: 'roots/list' });
    const signal = await asked.reached;
    lose(fake);
    expect(signal.aborted).toBe(true);
    await vi.waitFor(() => expect(fake.connections).toHaveLength(2));
    await host.peer('it').waitUntil('settled');
    free.reach([]);
    await settled();
    expect(fake.heard.filter(({ method }) => method === undefined)).toEqual([]);
    // What an old connection says afterwards is nobody's request.
    fake.connections[0]?.send('{"jsonrpc":"2.0","id":2,"method":"ping"}');
    await settled();
    expect(fake.heard.filter(({ method }) => method === undefined)).toEqual([]);
  });

  test('is not answered before it is one (N18)', async () => {
    const fake = oldPeer({
      on: ({ method, id }, self) => {
        if (method === 'server/discover') self.say({ id: 'early', method: 'roots/list' });
        if (method === 'initialize') self.say({ id: id ?? 0, method: 'ping' });
        return undefined;
      },
    });
    const listRoots = vi.fn(() => []);
    const host = await hostOf(fake, { handlers: { listRoots } });
    expect(host.peer('it').state).toBe('legacy');
    expect(fake.heard.filter(({ method }) => method === undefined)).toEqual([]);
    expect(listRoots).not.toHaveBeenCalled();
    expect(host.peer('it').report().faults).toEqual({ 'server-request': 2 });
  });

  test('whose requests have ids that are none gets no answer to them', async () => {
    const fake = oldPeer();
    const host = await hostOf(fake);
    for (const id of [null, true, {}, []]) fake.say({ id: id as never, method: 'ping' });
    fake.say({ id: 'last', method: 'ping' });
    await settled();
    const ids = fake.heard.filter(({ method }) => method === undefined).map(({ id }) => id as unknown);
    expect(ids).toEqual(['last']);
    expect(await host.call('plain')).toMatchObject({ status: 'ok' });
  });
});

describe('a modern peer’s own requests (N18)', () => {
  test('are dropped and counted, whatever they ask, and nothing else is the worse for them', async () => {
    const asked = vi.fn(() => {
      throw new Error('asked');
    });
    const fake = modernFake();
    const host = await hostOf(fake, {
      handlers: { elicitForm: asked, elicitUrl: asked, sample: asked, listRoots: asked },
    });
    const own = [roots, form(), visit(), sample(), { method: 'ping' }, { method: 'tools/list' }];
    for (const [id, request] of own.entries()) fake.say(ask(id, request));
    await settled();
    expect(asked).not.toHaveBeenCalled();
    expect(fake.heard.filter(({ method }) => method === undefined)).toEqual([]);
    expect(host.peer('it').report().faults).toMatchObject({ 'server-request': own.length });
    expect(host.status().peers[0]?.faults).toMatchObject({ 'server-request': own.length });
    expect(await host.call('search')).toMatchObject({ status: 'ok' });
  });
});
