/** One call under one deadline: its place in the queue, the wire, rounds, reconnecting, repetition. */
import { describe, expect, test } from 'vitest';
import type { CallOptions } from '../../src/calls/outcome.js';
import type { CreateHostOptions } from '../../src/host/createHost.js';
import type { StreamEnd } from '../../src/transports/transport.js';
import {
  broken,
  CallServer,
  isSettled,
  listenersOf,
  type Setting,
  setting,
  turns,
  unreachable,
} from './callHarness.js';

const ASKS = {
  resultType: 'input_required',
  inputRequests: { r: { method: 'roots/list' } },
  requestState: 's',
};

/** A handler that answers when it is told to. */
function slowRoots() {
  const asked: { answer: () => void; signal: AbortSignal }[] = [];
  const listRoots = (context: { signal: AbortSignal }) =>
    new Promise<{ uri: string }[]>((resolve) => {
      asked.push({ answer: () => resolve([]), signal: context.signal });
    });
  return { asked, handlers: { listRoots } };
}

describe('one deadline', () => {
  test('covers the queue', async () => {
    const { host, server, pass, expectIdle } = await setting(new CallServer({ more: { maxInFlight: 1 } }));
    const first = host.call('work');
    const second = host.call('work', {}, { timeoutMs: 1_000 });
    await pass(999);
    expect(host.status()).toMatchObject({ inFlight: 1, queued: 1 });
    expect(await isSettled(second)).toBe(false);
    await pass(1);
    expect(await second).toMatchObject({ status: 'timeout', delivery: 'not-sent', attempts: 0 });
    expect(host.status()).toMatchObject({ queued: 0 });
    (await server.next()).answer();
    expect(await first).toMatchObject({ status: 'ok' });
    await turns();
    expect(server.calls).toHaveLength(1);
    expectIdle();
  });

  test('covers rounds: the second request has what the first and the handler left', async () => {
    const roots = slowRoots();
    const { host, server, pass, expectIdle } = await setting(undefined, { handlers: roots.handlers });
    const call = host.call('work', {}, { timeoutMs: 1_000 });
    const first = await server.next();
    await pass(600);
    first.answer(ASKS);
    await pass(300);
    roots.asked[0]?.answer();
    const second = await server.next();
    expect(second.id).not.toBe(first.id);
    await pass(99);
    expect(await isSettled(call)).toBe(false);
    await pass(1);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'unknown', attempts: 2 });
    expect(server.cancelled).toEqual([second.id]);
    expectIdle();
  });

  test('covers the wait for a reconnect', async () => {
    const { host, server, pass, expectIdle } = await setting(new CallServer(), {
      backoffMinMs: 30_000,
      backoffMaxMs: 30_000,
    });
    server.control.hold();
    const call = host.call('work', {}, { timeoutMs: 1_000 });
    await pass(400);
    server.lose();
    await pass(599);
    expect(host.peer('it').state).toBe('reconnecting');
    expect(await isSettled(call)).toBe(false);
    await pass(1);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'not-sent', attempts: 0 });
    expectIdle();
  });

  test('covers repetitions: what is left is what the last one gets', async () => {
    const server = new CallServer({ perRequestStreams: true, more: { repeatable: ['work'] } });
    const { host, pass, expectIdle } = await setting(server);
    const call = host.call('work', {}, { timeoutMs: 1_000 });
    await pass(300);
    (await server.next()).end(unreachable(503, 600));
    await pass(600);
    const second = await server.next();
    await pass(99);
    expect(await isSettled(call)).toBe(false);
    await pass(1);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'unknown', attempts: 2 });
    expect(server.cancelled).toContain(second.id);
    expectIdle();
  });
});

describe('progress', () => {
  const options = (more: CallOptions = {}): CallOptions => ({
    timeoutMs: 1_000,
    onProgress: () => {},
    ...more,
  });

  test('extends the deadline, up to maxCallMs and not beyond', async () => {
    const { host, server, pass } = await setting(undefined, { maxCallMs: 3_000 });
    const call = host.call('work', {}, options());
    const heard = await server.next();
    for (let at = 900; at < 3_000; at += 900) {
      await pass(900);
      heard.progress();
    }
    await pass(299);
    expect(await isSettled(call)).toBe(false);
    await pass(1);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'unknown', durationMs: 3_000 });
  });

  test('of one round extends the wait for its inputs and the rounds after it, maxCallMs bounds them all', async () => {
    const roots = slowRoots();
    const { host, server, pass } = await setting(undefined, { maxCallMs: 3_000, handlers: roots.handlers });
    const call = host.call('work', {}, options());
    const first = await server.next();
    await pass(900);
    first.progress();
    first.answer(ASKS);
    // Past the first deadline, of 1,000.
    await pass(900);
    roots.asked[0]?.answer();
    const second = await server.next();
    for (const ms of [90, 900, 200]) {
      second.progress();
      await pass(ms);
    }
    expect(await isSettled(call)).toBe(false);
    await pass(9);
    second.progress();
    await pass(1);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'unknown', durationMs: 3_000 });
  });

  test('that is not asked for extends nothing', async () => {
    const { host, server, pass } = await setting();
    const call = host.call('work', {}, { timeoutMs: 1_000 });
    const heard = await server.next();
    await pass(900);
    heard.progress();
    await pass(100);
    expect(await call).toMatchObject({ status: 'timeout' });
    expect(host.status().peers[0]?.faults).toEqual({ 'foreign-progress': 1 });
  });

  test('asked for with a longer deadline than maxCallMs shortens nothing', async () => {
    const { host, server, pass } = await setting(new CallServer({ more: { maxInFlight: 1 } }), {
      maxCallMs: 3_000,
    });
    const first = host.call('work', {}, { timeoutMs: 5_000 });
    const call = host.call('work', {}, options({ timeoutMs: 10_000 }));
    await pass(4_000);
    (await server.next()).answer();
    await first;
    const heard = await server.next();
    await pass(5_999);
    expect(await isSettled(call)).toBe(false);
    heard.answer();
    expect(await call).toMatchObject({ status: 'ok' });
  });
});

describe('places', () => {
  test('maxInFlight on the wire, maxQueue that wait, in the order in which they came', async () => {
    const server = new CallServer({ more: { maxInFlight: 2, maxQueue: 3 } });
    const { host, expectIdle } = await setting(server);
    const calls = [1, 2, 3, 4, 5, 6].map((q) => host.call('work', { q: String(q) }));
    await turns();
    expect(host.status()).toMatchObject({ inFlight: 2, queued: 3 });
    const last = await (calls[5] as (typeof calls)[0]);
    expect(last).toMatchObject({ status: 'unavailable', delivery: 'not-sent', attempts: 0 });
    expect('message' in last && last.message).toContain('call again later');
    for (let at = 0; at < 5; at += 1) {
      expect(server.calls.length).toBeLessThanOrEqual(at + 2);
      (await server.next()).answer();
      await turns();
    }
    const outcomes = await Promise.all(calls.slice(0, 5));
    expect(outcomes.map(({ status }) => status)).toEqual(Array(5).fill('ok'));
    expect(server.calls.map(({ params }) => (params['arguments'] as { q: string }).q)).toEqual([
      '1',
      '2',
      '3',
      '4',
      '5',
    ]);
    expectIdle();
  });

  test('are shared with other requests of the same peer, and not with other peers', async () => {
    const server = new CallServer({ more: { maxInFlight: 1 } });
    const { host } = await setting(server);
    const other = new CallServer({ tools: ['play'] });
    await host.addPeer('other', other.config);
    const busy = host.call('work');
    const free = host.call('play');
    (await other.next()).answer();
    expect(await free).toMatchObject({ status: 'ok', peer: 'other' });
    (await server.next()).answer();
    await busy;
  });

  test('a tool named in serialize runs one after the other; others pass it', async () => {
    const server = new CallServer({ tools: ['write', 'read'], more: { serialize: ['write'] } });
    const { host } = await setting(server);
    const calls = ['write', 'write', 'read'].map((name) => host.call(name));
    await turns();
    expect(server.calls.map(({ tool }) => tool)).toEqual(['write', 'read']);
    expect(host.status()).toMatchObject({ inFlight: 2, queued: 1 });
    for (const heard of server.calls) heard.answer();
    await turns();
    expect(server.calls.map(({ tool }) => tool)).toEqual(['write', 'read', 'write']);
    server.calls[2]?.answer();
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(['ok', 'ok', 'ok']);
  });

  test('serializeBy: calls with the same key run one after the other, whatever the tool', async () => {
    const server = new CallServer({ tools: ['a', 'b'] });
    const seen: unknown[] = [];
    const { host } = await setting(server, {
      callPolicy: {
        serializeBy: (call) => {
          seen.push(call);
          return call.args['q'] as string | undefined;
        },
      },
    });
    const calls = [
      host.call('a', { q: 'x' }),
      host.call('b', { q: 'x' }),
      host.call('a', { q: 'y' }),
      host.call('a'),
      host.call('a'),
    ];
    await turns();
    expect(server.calls.map(({ tool, params }) => [tool, params['arguments']])).toEqual([
      ['a', { q: 'x' }],
      ['a', { q: 'y' }],
      ['a', {}],
      ['a', {}],
    ]);
    expect(seen[1]).toEqual({ peer: 'it', tool: 'b', args: { q: 'x' } });
    for (const heard of [...server.calls]) heard.answer();
    await turns();
    server.calls.at(-1)?.answer();
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(Array(5).fill('ok'));
  });

  test('a policy that throws is counted, serializes nothing and repeats nothing', async () => {
    const throws = (): never => {
      throw new Error('no idea');
    };
    const server = new CallServer();
    const { host, pass, expectIdle } = await setting(server, {
      callPolicy: { serializeBy: throws, isRepeatable: throws },
    });
    const calls = [host.call('work'), host.call('work')];
    await turns();
    expect(server.calls).toHaveLength(2);
    server.lose();
    for (const call of calls) expect(await call).toMatchObject({ status: 'lost', delivery: 'unknown' });
    await pass(1_000);
    expect(server.calls).toHaveLength(2);
    expect(host.status().peers[0]?.faults).toEqual({ policy: 4 });
    expectIdle();
  });

  test('a policy that throws leaves the tools named in serialize serialized', async () => {
    const server = new CallServer({ more: { serialize: ['work'] } });
    const { host } = await setting(server, {
      callPolicy: {
        serializeBy: () => {
          throw new Error('no idea');
        },
      },
    });
    const calls = [host.call('work'), host.call('work')];
    await turns();
    expect(server.calls).toHaveLength(1);
    (await server.next()).answer();
    (await server.next()).answer();
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(['ok', 'ok']);
  });

  test('extra _meta that is no JSON sends nothing, and takes no place', async () => {
    const { host, server, expectIdle } = await setting(new CallServer({ more: { maxInFlight: 1 } }));
    const meta: Record<string, never> = {};
    (meta as Record<string, unknown>)['self'] = meta;
    expect(await host.call('work', {}, { meta })).toMatchObject({
      status: 'invalid-arguments',
      delivery: 'not-sent',
    });
    await expect(
      host.complete(
        'it',
        { ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'a', value: '' } },
        { meta },
      ),
    ).resolves.toMatchObject({ status: 'not-found' });
    const call = host.call('work', {}, { meta: { 'com.example/trace': 'x' } });
    const heard = await server.next();
    expect(heard.meta['com.example/trace']).toBe('x');
    heard.answer();
    expect(await call).toMatchObject({ status: 'ok' });
    expectIdle();
  });
});

/** What a call is doing when it is interrupted, after `atMs`; its deadline is 10,000. */
interface Phase {
  readonly name: string;
  readonly delivery: 'not-sent' | 'unknown' | 'answered';
  readonly server?: () => CallServer;
  readonly options?: Omit<CreateHostOptions, 'peers'>;
  readonly begin: (at: Setting, call: () => void) => Promise<void>;
  /** Where the deadline passes, it is already known better how the call ended. */
  readonly atDeadline?: string;
}

const roots = (): { handlers: { listRoots: () => Promise<never> } } => ({
  handlers: { listRoots: () => new Promise<never>(() => {}) },
});

const PHASES: readonly Phase[] = [
  {
    name: 'in the queue',
    delivery: 'not-sent',
    server: () => new CallServer({ more: { maxInFlight: 1 } }),
    begin: async ({ host }, call) => {
      void host.call('work', {}, { timeoutMs: 100_000 });
      call();
      await turns();
      expect(host.status()).toMatchObject({ inFlight: 1, queued: 1 });
    },
  },
  {
    name: 'behind its key',
    delivery: 'not-sent',
    server: () => new CallServer({ more: { serialize: ['work'] } }),
    begin: async ({ host }, call) => {
      void host.call('work', {}, { timeoutMs: 100_000 });
      call();
      await turns();
      expect(host.status()).toMatchObject({ inFlight: 1, queued: 1 });
    },
  },
  {
    name: 'while the peer lists after a reconnect',
    delivery: 'not-sent',
    begin: async ({ host, server, pass }, call) => {
      server.holdsListings = true;
      server.lose();
      await pass(1_000);
      expect(host.peer('it').state).toBe('modern');
      call();
      await turns();
    },
  },
  {
    name: 'while the peer reconnects',
    delivery: 'not-sent',
    options: { backoffMinMs: 30_000, backoffMaxMs: 30_000 },
    begin: async ({ host, server }, call) => {
      server.control.hold();
      call();
      await turns();
      server.lose();
      await turns();
      expect(host.peer('it').state).toBe('reconnecting');
    },
  },
  {
    name: 'before the pipe takes it',
    delivery: 'not-sent',
    begin: async ({ server }, call) => {
      server.control.hold();
      call();
      await turns();
    },
  },
  {
    name: 'on the wire',
    delivery: 'unknown',
    begin: async ({ server }, call) => {
      call();
      await server.next();
    },
  },
  {
    name: 'on the wire, with a stream of its own',
    delivery: 'unknown',
    server: () => new CallServer({ perRequestStreams: true }),
    begin: async ({ server }, call) => {
      call();
      await server.next();
    },
  },
  {
    name: 'on the wire of a legacy peer',
    delivery: 'unknown',
    server: () => new CallServer({ era: 'legacy' }),
    begin: async ({ server }, call) => {
      call();
      await server.next();
    },
  },
  {
    name: 'while a handler answers the server',
    delivery: 'answered',
    options: roots(),
    begin: async ({ server }, call) => {
      call();
      (await server.next()).answer(ASKS);
      await turns();
    },
  },
  {
    name: 'in the pause before a repetition',
    delivery: 'unknown',
    atDeadline: 'unavailable',
    server: () => new CallServer({ perRequestStreams: true, more: { repeatable: ['work'] } }),
    begin: async ({ server }, call) => {
      call();
      (await server.next()).end(unreachable(503, 5_000));
      await turns();
    },
  },
  {
    name: 'while the peer reconnects before a repetition',
    delivery: 'unknown',
    atDeadline: 'lost',
    server: () => new CallServer({ more: { repeatable: ['work'] } }),
    options: { backoffMinMs: 30_000, backoffMaxMs: 30_000 },
    begin: async ({ host, server }, call) => {
      call();
      await server.next();
      server.lose();
      await turns();
      expect(host.peer('it').state).toBe('reconnecting');
    },
  },
];

describe.each(PHASES)('interrupted $name', ({ delivery, server, options, begin, atDeadline }) => {
  async function interrupted(how: (at: Setting, control: AbortController) => unknown) {
    const at = await setting(server?.(), options);
    const lease = at.host.catalog();
    const control = new AbortController();
    const calls: ReturnType<typeof lease.call>[] = [];
    await begin(at, () => calls.push(lease.call('work', {}, { signal: control.signal, timeoutMs: 10_000 })));
    const [call] = calls;
    if (call === undefined) throw new Error('no call');
    expect(await isSettled(call)).toBe(false);
    const sent = at.server.calls.length;
    await how(at, control);
    const outcome = await call;
    await turns();
    expect(at.server.calls).toHaveLength(sent);
    expect(listenersOf(control.signal)).toBe(0);
    return { at, outcome, sent };
  }

  /** Whoever comes next has a place, once the server serves again; and then no timer is left. */
  async function expectNothingLeft({ host, server: far, clock, pass }: Setting): Promise<void> {
    far.holdsListings = false;
    far.answerListings();
    far.control.release();
    // Not those that are on purpose before this one.
    for (const heard of far.calls) heard.answer();
    await turns();
    if (host.peer('it').state === 'reconnecting') await pass(30_000);
    await turns();
    const heardBefore = far.calls.length;
    const after = host.call('work');
    await turns();
    expect(far.calls).toHaveLength(heardBefore + 1);
    far.calls.at(-1)?.answer();
    expect(await after).toMatchObject({ status: 'ok' });
    expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
    await host.stop();
    expect(clock.pendingTimers).toBe(0);
  }

  test('by its caller: cancelled', async () => {
    const { at, outcome } = await interrupted((_at, control) => control.abort());
    expect(outcome).toMatchObject({ status: 'cancelled', delivery });
    await expectNothingLeft(at);
  });

  test('by its deadline', async () => {
    const { at, outcome } = await interrupted(({ clock }) => {
      const due = 10_000;
      clock.advance(due);
    });
    expect(outcome).toMatchObject({ status: atDeadline ?? 'timeout', delivery });
    await expectNothingLeft(at);
  });

  test('by the end of the host: cancelled', async () => {
    const { at, outcome } = await interrupted(({ host }) => host.stop());
    expect(outcome).toMatchObject({ status: 'cancelled', delivery });
    expect('message' in outcome && outcome.message).toContain('the host was stopped');
    expect(at.clock.pendingTimers).toBe(0);
    expect(at.host.status()).toMatchObject({ inFlight: 0, queued: 0 });
  });

  test('by the removal of the peer', async () => {
    const { at, outcome } = await interrupted(({ host }) => host.removePeer('it'));
    expect(outcome.delivery).toBe(delivery);
    expect(['unavailable', 'lost']).toContain(outcome.status);
    await at.host.stop();
    expect(at.clock.pendingTimers).toBe(0);
  });
});

test.each([
  ['modern', false],
  ['modern', true],
  ['legacy', false],
  ['legacy', true],
] as const)(
  'an abandoned call of a %s peer, own streams %s, is cancelled on the wire',
  async (era, perRequestStreams) => {
    const { host, server, pass } = await setting(new CallServer({ era, perRequestStreams }));
    const control = new AbortController();
    const aborted = host.call('work', {}, { signal: control.signal });
    const late = host.call('work', {}, { timeoutMs: 1_000 });
    const ids = [(await server.next()).id, (await server.next()).id];
    control.abort();
    await pass(1_000);
    expect((await Promise.all([aborted, late])).map(({ status }) => status)).toEqual([
      'cancelled',
      'timeout',
    ]);
    const told = server.methods.filter((method) => method === 'notifications/cancelled').length;
    const [probe] = server.ids;
    expect(new Set(server.cancelled.filter((id) => id !== probe))).toEqual(new Set(ids));
    expect(told).toBe(perRequestStreams && era === 'modern' ? 0 : 2);
  },
);

describe('a call that was not sent', () => {
  test('is sent after the reconnect, with a new id, and after probe, listing and listen', async () => {
    const server = new CallServer({ announces: true });
    const { host, pass, expectIdle } = await setting(server);
    server.control.hold();
    const call = host.call('work');
    await turns();
    const before = server.methods.length;
    server.lose();
    await pass(1_000);
    const heard = await server.next();
    expect(server.methods.slice(before)).toEqual([
      'server/discover',
      'tools/list',
      'subscriptions/listen',
      'tools/call',
    ]);
    heard.answer();
    expect(await call).toMatchObject({ status: 'ok', attempts: 1, requestId: heard.id });
    expect(new Set(server.ids).size).toBe(server.ids.length);
    // The id of the attempt that was not written is not used again.
    expect(heard.id).toBe(Math.max(...server.ids));
    expectIdle();
  });

  test('waits for the listing, also if it was in the queue; order is kept', async () => {
    const server = new CallServer({ more: { maxInFlight: 2 } });
    const { host, pass } = await setting(server);
    server.control.hold();
    const calls = ['1', '2', '3', '4'].map((q) => host.call('work', { q }));
    await turns();
    server.holdsListings = true;
    server.lose();
    await pass(1_000);
    expect(host.peer('it').state).toBe('modern');
    expect(server.calls).toHaveLength(0);
    server.answerListings();
    for (let at = 0; at < 4; at += 1) {
      (await server.next()).answer();
      await turns();
    }
    expect((await Promise.all(calls)).map(({ status }) => status)).toEqual(['ok', 'ok', 'ok', 'ok']);
    expect(server.calls.map(({ params }) => (params['arguments'] as { q: string }).q)).toEqual([
      '1',
      '2',
      '3',
      '4',
    ]);
  });

  test('is unavailable when the peer does not come back', async () => {
    const server = new CallServer();
    const { host, pass, expectIdle } = await setting(server, { maxAttempts: 2 });
    server.control.hold();
    const call = host.call('work', {}, { timeoutMs: 1_000_000 });
    await turns();
    server.mood = 'refused';
    server.lose();
    for (let at = 0; at < 4; at += 1) await pass(1_000);
    expect(host.peer('it').state).toBe('unavailable');
    const outcome = await call;
    expect(outcome).toMatchObject({ status: 'unavailable', delivery: 'not-sent', attempts: 0 });
    expect('message' in outcome && outcome.message).toContain('it is unavailable');
    expectIdle();
  });

  test('is not tried again where the connection lives and will not take it', async () => {
    // As where a header cannot be written: the exchange ends, unwritten, and the transport lives.
    const refused: StreamEnd = {
      kind: 'broken',
      redirected: false,
      cause: { kind: 'host', detail: 'invalid header' },
    };
    const server = new CallServer({
      perRequestStreams: true,
      wrap: (make) => (events) => {
        const inner = make(events);
        return {
          kind: 'picky',
          perRequestStreams: true,
          open: () => inner.open(),
          abort: (exchange) => inner.abort(exchange),
          close: () => inner.close(),
          send: (text, exchange) => {
            if (exchange.method === 'tools/call') exchange.onEnd(refused);
            else inner.send(text, exchange);
          },
        };
      },
    });
    const { host, expectIdle } = await setting(server);
    expect(await host.call('work')).toMatchObject({
      status: 'unavailable',
      delivery: 'not-sent',
      attempts: 0,
    });
    expectIdle();
  });
});

describe('a call that may have been executed', () => {
  test.each(['lost', 'reset', '503', 'timeout'] as const)('is not repeated unasked: %s', async (how) => {
    const server = new CallServer({ perRequestStreams: how !== 'lost' });
    const { host, pass, expectIdle } = await setting(server);
    const call = host.call('work', {}, { timeoutMs: 5_000 });
    const heard = await server.next();
    if (how === 'lost') server.lose();
    else if (how === 'reset') heard.end(broken);
    else if (how === '503') heard.end(unreachable(503, 10));
    else await pass(5_000);
    const status = { lost: 'lost', reset: 'lost', '503': 'unavailable', timeout: 'timeout' }[how];
    expect(await call).toMatchObject({ status, delivery: 'unknown', attempts: 1 });
    await pass(60_000);
    expect(host.peer('it').state).toBe('modern');
    expect(server.calls).toHaveLength(1);
    expectIdle();
  });

  test.each([
    ['named by the peer', { more: { repeatable: ['work'] } }, {}],
    ['by policy', {}, { callPolicy: { isRepeatable: ({ tool }: { tool: string }) => tool === 'work' } }],
  ])('and is repeatable, %s: four times at most, each with a new id', async (_name, more, options) => {
    const server = new CallServer(more);
    const { host, pass, expectIdle } = await setting(server, options);
    const call = host.call('work');
    for (let at = 0; at < 4; at += 1) {
      await server.next();
      server.lose();
      await pass(1_000);
    }
    expect(await call).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 4 });
    expect(server.calls.map(({ connection }) => connection)).toEqual([0, 1, 2, 3]);
    expect(new Set(server.ids).size).toBe(server.ids.length);
    expectIdle();
  });

  test('policy sees the call, and what is not its tool is not repeated', async () => {
    const seen: unknown[] = [];
    const server = new CallServer({ tools: ['read', 'write'] });
    const { host, pass } = await setting(server, {
      callPolicy: {
        isRepeatable: (call) => {
          seen.push(call);
          return call.args['q'] === 'again';
        },
      },
    });
    const once = host.call('write', { q: 'once' });
    const again = host.call('read', { q: 'again' });
    await server.next();
    await server.next();
    server.lose();
    expect(await once).toMatchObject({ status: 'lost', attempts: 1 });
    await pass(1_000);
    const heard = await server.next();
    expect(heard).toMatchObject({ tool: 'read', connection: 1 });
    heard.answer();
    expect(await again).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 2 });
    expect(seen).toEqual([
      { peer: 'it', tool: 'write', args: { q: 'once' } },
      { peer: 'it', tool: 'read', args: { q: 'again' } },
    ]);
  });

  test('and is repeatable goes again on a connection that lives, after a pause that grows', async () => {
    const server = new CallServer({ perRequestStreams: true, more: { repeatable: ['work'] } });
    const { host, clock, pass, expectIdle } = await setting(server);
    const call = host.call('work');
    const times: number[] = [];
    for (const [at, end] of [broken, unreachable(503), broken, unreachable(429)].entries()) {
      while (server.calls.length === at && clock.now() < 30_000) await pass(100);
      times.push(clock.now());
      (await server.next()).end(end);
    }
    expect(await call).toMatchObject({ status: 'unavailable', delivery: 'unknown', attempts: 4 });
    expect(times).toEqual([0, 500, 1_500, 3_500]);
    expect(server.controls).toHaveLength(1);
    expectIdle();
  });

  test('Retry-After is honoured; where it ends too late the call ends at once', async () => {
    const server = new CallServer({ perRequestStreams: true, more: { repeatable: ['work'] } });
    const { host, pass, clock } = await setting(server);
    const call = host.call('work', {}, { timeoutMs: 60_000 });
    (await server.next()).end(unreachable(429, 30_000));
    await pass(29_999);
    expect(server.calls).toHaveLength(1);
    await pass(1);
    (await server.next()).end(unreachable(503, 30_000));
    const outcome = await call;
    expect(outcome).toMatchObject({ status: 'unavailable', delivery: 'unknown', attempts: 2 });
    expect('message' in outcome && outcome.message).toContain('may have been executed');
    expect(clock.now()).toBe(30_000);
  });

  test('never becomes not-sent by what follows: the repetition could not be written', async () => {
    const server = new CallServer({ more: { repeatable: ['work'] } });
    const { host, pass } = await setting(server);
    const call = host.call('work', {}, { timeoutMs: 10_000 });
    await server.next();
    server.lose();
    await pass(1_000);
    await server.next();
    server.lose();
    server.mood = 'refused';
    await pass(9_000);
    expect(await call).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 2 });
  });

  test('never becomes not-sent by what follows: the pipe did not take the repetition', async () => {
    const server = new CallServer({ perRequestStreams: true, more: { repeatable: ['work'] } });
    const { host, pass, expectIdle } = await setting(server);
    const call = host.call('work', {}, { timeoutMs: 10_000 });
    (await server.next()).end(unreachable(503));
    server.control.hold();
    await pass(10_000);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'unknown', attempts: 1 });
    expectIdle();
  });

  test('never becomes not-sent by what follows: the tool changed meanwhile', async () => {
    const server = new CallServer({ more: { repeatable: ['work'] } });
    const { host, pass } = await setting(server);
    const call = host.call('work');
    await server.next();
    server.tools = [{ name: 'work', description: 'Another.', inputSchema: { type: 'object' } }];
    server.lose();
    await pass(1_000);
    expect(await call).toMatchObject({ status: 'unavailable', delivery: 'unknown', attempts: 1 });
    expect(server.calls).toHaveLength(1);
  });
});

describe('-32022 in mid-session', () => {
  test('is the error of that call; others in flight are answered, those that wait come after the negotiation', async () => {
    const server = new CallServer({ more: { maxInFlight: 2 } });
    const { host, pass, expectIdle } = await setting(server);
    const [refused, flying, waiting] = [host.call('work'), host.call('work'), host.call('work')];
    const first = await server.next();
    const second = await server.next();
    const before = server.methods.length;
    first.refuse(-32022);
    expect(await refused).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      error: { code: -32022 },
    });
    expect(host.peer('it').state).toBe('reconnecting');
    second.answer();
    expect(await flying).toMatchObject({ status: 'ok' });
    await turns();
    expect(server.calls).toHaveLength(2);
    await pass(1_000);
    (await server.next()).answer();
    expect(await waiting).toMatchObject({ status: 'ok', attempts: 1 });
    expect(server.methods.slice(before)).toEqual(['server/discover', 'tools/list', 'tools/call']);
    expect(server.controls).toHaveLength(1);
    expectIdle();
  });
});

describe('a route that changes while the call waits', () => {
  const changed = { name: 'work', description: 'Another.', inputSchema: { type: 'object' } };

  test('in the queue: stale, and nothing is sent', async () => {
    const server = new CallServer({ announces: true, more: { maxInFlight: 1 } });
    const { host, pass, expectIdle } = await setting(server);
    const first = host.call('work');
    const second = host.call('work');
    const heard = await server.next();
    server.tools = [changed];
    server.announce();
    await pass(1_000);
    expect(host.catalog().entries.get('work')?.description).toBe('Another.');
    heard.answer();
    await first;
    expect(await second).toMatchObject({
      status: 'stale-route',
      delivery: 'not-sent',
      attempts: 0,
      current: { local: 'work', description: 'Another.' },
    });
    expect(server.calls).toHaveLength(1);
    expectIdle();
  });

  test('over a reconnect: stale, and nothing is sent', async () => {
    const server = new CallServer();
    const { host, pass, expectIdle } = await setting(server);
    server.control.hold();
    const call = host.call('work');
    await turns();
    server.tools = [changed];
    server.lose();
    await pass(1_000);
    expect(await call).toMatchObject({ status: 'stale-route', delivery: 'not-sent', attempts: 0 });
    expect(server.calls).toHaveLength(0);
    expectIdle();
  });

  test('in the pipe: stale, and nothing is sent', async () => {
    const server = new CallServer({ announces: true });
    const { host, pass, expectIdle } = await setting(server);
    server.tools = [changed];
    server.holdsListings = true;
    server.announce();
    await pass(1_000);
    server.control.hold();
    const call = host.call('work');
    await turns();
    server.answerListings();
    await turns();
    server.control.release();
    expect(await call).toMatchObject({ status: 'stale-route', delivery: 'not-sent', attempts: 0 });
    expect(server.calls).toHaveLength(0);
    expectIdle();
  });
});
