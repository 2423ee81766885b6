import { afterEach, describe, expect, it } from 'vitest';
import type { HostOptions } from '../../src/host/config.js';
import { type CreateHostOptions, createHost, hostOf } from '../../src/host/createHost.js';
import {
  CollisionError,
  ConfigurationError,
  RequiredPeerError,
  UnknownPeerError,
} from '../../src/host/errors.js';
import type { Host, HostEvents } from '../../src/host/facade.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { type Fake, legacyFake, methodNotFound, modernFake, tool } from './fakes.js';

const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

function hostWith(fakes: Record<string, Fake>, options: Omit<CreateHostOptions, 'peers'> = {}): Host {
  const peers = Object.fromEntries(Object.entries(fakes).map(([name, fake]) => [name, fake.config]));
  const host = createHost({ maxAttempts: 0, ...options, peers });
  hosts.push(host);
  return host;
}

const names = (host: Host): string[] => [...host.catalog().entries.keys()];
const silent = (method: string) => (message: { method?: string }) =>
  message.method === method ? null : undefined;

describe('start', () => {
  it('reports state, era, revision, reason and duration of every peer', async () => {
    const host = hostWith({
      new: modernFake(),
      old: legacyFake(),
      refused: legacyFake({ allowLegacy: false }),
    });
    const report = await host.start();
    expect(report.peers).toMatchObject([
      {
        name: 'new',
        state: 'modern',
        era: 'modern',
        revision: '2026-07-28',
        reason: null,
        initializeSent: 0,
        tools: 1,
      },
      {
        name: 'old',
        state: 'legacy',
        era: 'legacy',
        revision: '2025-11-25',
        server: { name: 'old', version: '1.0.0' },
        initializeSent: 1,
      },
      {
        name: 'refused',
        state: 'unavailable',
        era: 'unknown',
        reason: { code: 'not-allowlisted', fix: expect.stringContaining('"allowLegacy": true') },
        initializeSent: 0,
        tools: null,
      },
    ]);
    expect(report.peers[1]?.path).toEqual(['idle', 'probing', 'legacyProbe', 'legacy']);
    for (const { ms } of report.peers) expect(ms).toBeGreaterThanOrEqual(0);
  });

  it('is idempotent', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake });
    expect(host.start()).toBe(host.start());
    await host.start();
    expect(fake.connections).toHaveLength(1);
  });

  it('does not wait for a peer that is silent longer than startTimeoutMs', async () => {
    const clock = createSimulatedClock();
    const host = hostWith(
      { slow: modernFake({ on: silent('server/discover') }), fast: modernFake() },
      { clock, startTimeoutMs: 1_000 },
    );
    const started = host.start();
    await host.peer('fast').waitUntil('settled');
    clock.advance(1_000);
    const { peers } = await started;
    expect(peers.map((peer) => peer.state)).toEqual(['probing', 'modern']);
    expect(host.catalog().pending).toEqual(['slow']);
  });

  it('a required peer that is not callable rejects, and nothing is left running', async () => {
    const fine = modernFake();
    const host = hostWith({ fine, needed: legacyFake({ allowLegacy: false, required: true }) });
    const error = await host.start().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(RequiredPeerError);
    expect((error as RequiredPeerError).message).toContain('needed');
    expect(fine.connections.every((connection) => connection.closed)).toBe(true);
  });

  it('collision policy reject makes start fail with both peer names', async () => {
    const one = modernFake({ tools: ['search', 'read'] });
    const host = hostWith({ one, two: modernFake({ tools: ['search'] }) }, { collisions: 'reject' });
    const error = await host.start().catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(CollisionError);
    expect(error).toMatchObject({ peers: ['one', 'two'], tool: 'search' });
    expect((error as Error).message).toMatch(/"one".*"two".*"search"/);
    expect(one.connections[0]?.closed).toBe(true);
  });

  it('a configuration error is thrown at once', () => {
    expect(() =>
      createHost({ peers: { a: { command: 'x', url: 'http://x' } } } as unknown as HostOptions),
    ).toThrow(ConfigurationError);
  });

  it('starts a bounded number of peers at the same time', async () => {
    const fakes = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`p${i}`, modernFake()]));
    const host = hostWith(fakes, { maxSimultaneousStarts: 2 });
    let most = 0;
    host.on('peer', () => {
      most = Math.max(most, host.peers().filter((peer) => peer.state === 'probing').length);
    });
    await host.start();
    expect(most).toBe(2);
    expect(host.peers().every((peer) => peer.state === 'modern')).toBe(true);
  });

  it('after stop it rejects', async () => {
    const host = hostWith({ one: modernFake() });
    await host.stop();
    await expect(host.start()).rejects.toThrow('stopped');
  });
});

describe('isolation', () => {
  it('one dead peer never stops another', async () => {
    const dead = modernFake({
      on: (_message, self) => {
        self.connections
          .at(-1)
          ?.close({ kind: 'exit', detail: 'the process exited with code 1', exitCode: 1 });
        return null;
      },
    });
    const host = hostWith({ dead, fine: modernFake() });
    const { peers } = await host.start();
    expect(peers.map((peer) => peer.state)).toEqual(['unavailable', 'modern']);
    expect((await host.call('search')).status).toBe('ok');
  });

  it('a transport that throws is a fault of that peer alone', async () => {
    const host = createHost({
      peers: {
        broken: {
          identity: 'broken',
          allowLegacy: true,
          createTransport: () => {
            throw new Error('boom');
          },
        },
        fine: modernFake().config,
      },
    });
    hosts.push(host);
    const { peers } = await host.start();
    expect(peers).toMatchObject([
      {
        state: 'unavailable',
        reason: { code: 'internal', message: expect.stringContaining('boom') },
        initializeSent: 0,
      },
      { state: 'modern' },
    ]);
  });

  it('a throwing listener and a throwing inspector harm nothing', async () => {
    const seen = new Set<string>();
    const host = hostWith(
      { one: modernFake() },
      {
        inspect: (event) => {
          const { systemId: id } = event.actorRef as { systemId?: string };
          if (id !== undefined) seen.add(id);
          throw new Error('inspector');
        },
      },
    );
    host.on('peer', () => {
      throw new Error('listener');
    });
    await host.start();
    expect((await host.call('search')).status).toBe('ok');
    expect([...seen].sort()).toEqual(['peerage/peer:one', 'peerage/peer:one/catalog', 'peerage/registry']);
  });
});

describe('the catalog', () => {
  it('merges with owners, and tells of conflicts', async () => {
    const conflicts: HostEvents['conflict'][] = [];
    const host = hostWith({ b: modernFake({ tools: ['search', 'only'] }), a: modernFake() });
    host.on('conflict', (conflict) => conflicts.push(conflict));
    await host.start();
    expect(names(host)).toEqual(['b/search', 'only', 'search']);
    expect(host.catalog().entries.get('search')).toMatchObject({
      peer: 'a',
      local: 'search',
      freshness: 'fresh',
    });
    expect(conflicts).toEqual([{ tool: 'search', owner: 'a', peer: 'b', exposedAs: 'b/search' }]);
  });

  it('is a lease: later changes do not show in it', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake });
    await host.start();
    const before = host.catalog();
    fake.tools = ['search', 'more'];
    const changed = new Promise((resolve) => host.on('catalogChanged', resolve));
    fake.say({ method: 'notifications/tools/list_changed' });
    expect(await changed).toMatchObject({ added: ['more'], removed: [], changed: [] });
    expect([...before.entries.keys()]).toEqual(['search']);
    expect(names(host)).toEqual(['more', 'search']);
    expect(host.catalog().revision).toBeGreaterThan(before.revision);
  });

  it('a malformed item is quarantined with a reason, the rest is used', async () => {
    const host = hostWith({
      one: modernFake({ tools: ['search', { name: 'bad', inputSchema: null }, tool('')] }),
    });
    await host.start();
    expect(names(host)).toEqual(['search']);
    expect(host.catalog().quarantined).toMatchObject([
      { peer: 'one', local: 'bad', code: 'malformed-item', reason: expect.stringContaining('inputSchema') },
      { peer: 'one', local: '', code: 'malformed-item' },
    ]);
  });

  it('a listing that fails leaves the peer callable, with a reason', async () => {
    const host = hostWith({
      one: modernFake({ on: (message) => (message.method === 'tools/list' ? methodNotFound : undefined) }),
    });
    const { peers } = await host.start();
    expect(peers).toMatchObject([
      { state: 'modern', tools: null, listing: expect.stringContaining('-32601') },
    ]);
    expect(host.peer('one').callable).toBe(true);
    expect(host.peer('one').explain()).toContain('could not be listed');
  });

  it('a peer that declares no tools is not asked for them', async () => {
    const fake = modernFake({
      on: (message) =>
        message.method === 'server/discover'
          ? { supportedVersions: ['2026-07-28'], capabilities: {} }
          : undefined,
    });
    const host = hostWith({ one: fake });
    expect((await host.start()).peers).toMatchObject([{ state: 'modern', tools: 0, listing: null }]);
    expect(fake.methods()).toEqual(['server/discover']);
  });
});

describe('a listing of several pages', () => {
  const pages = (cursors: readonly string[]) => {
    let page = -1;
    return modernFake({
      on: (message) => {
        if (message.method !== 'tools/list') return undefined;
        page += 1;
        const nextCursor = cursors[page % cursors.length];
        return {
          tools: [tool(`t${page}`)],
          ...(nextCursor === 'end' ? {} : { nextCursor: nextCursor ?? '' }),
        };
      },
    });
  };

  it('is walked to its end, the empty cursor too', async () => {
    const fake = pages(['a', '', 'end']);
    const host = hostWith({ one: fake });
    await host.start();
    expect(names(host)).toEqual(['t0', 't1', 't2']);
    const cursors = fake.heard
      .filter((message) => message.method === 'tools/list')
      .map((m) => m.params?.['cursor']);
    expect(cursors).toEqual([undefined, 'a', '']);
  });
});

describe('calls', () => {
  it('come to the result, with the facts of the call', async () => {
    const host = hostWith({ old: legacyFake() });
    const settled: HostEvents['call'][] = [];
    host.on('call', (call) => settled.push(call));
    await host.start();
    expect(await host.call('search', { q: 'x' })).toMatchObject({
      status: 'ok',
      delivery: 'answered',
      tool: 'search',
      peer: 'old',
      local: 'search',
      era: 'legacy',
      revision: '2025-11-25',
      attempts: 1,
      argumentsBytes: 9,
      result: { content: [{ type: 'text', text: '{"q":"x"}' }] },
    });
    expect(settled).toMatchObject([{ tool: 'search', peer: 'old', status: 'ok', delivery: 'answered' }]);
    expect(JSON.stringify(settled)).not.toContain('"x"');
  });

  it('an unknown tool, bad arguments and arguments that are no JSON send nothing', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake });
    await host.start();
    const before = fake.heard.length;
    expect(await host.call('nothing')).toMatchObject({ status: 'not-found', delivery: 'not-sent' });
    expect(await host.call('search', { q: 5 })).toMatchObject({
      status: 'invalid-arguments',
      delivery: 'not-sent',
    });
    const circular: Record<string, unknown> = {};
    circular['self'] = circular;
    expect(await host.call('search', circular as never)).toMatchObject({ status: 'invalid-arguments' });
    expect(await host.call('search', [] as never)).toMatchObject({ status: 'invalid-arguments' });
    expect(fake.heard).toHaveLength(before);
  });

  it('leaves the judging of arguments to the server where the caller says so, but for what is no JSON', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake });
    await host.start();
    const options = { validateArguments: false };
    expect(await host.call('search', { q: null }, options)).toMatchObject({
      status: 'ok',
      result: { content: [{ type: 'text', text: '{"q":null}' }] },
    });
    expect(await host.call('search', [] as never, options)).toMatchObject({ status: 'invalid-arguments' });
    expect(await host.call('search', { q: null }, { validateArguments: true })).toMatchObject({
      status: 'invalid-arguments',
    });
  });

  it('validates and sends what the arguments are as JSON', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake });
    await host.start();
    const args = { q: { toJSON: () => 'text' }, left: undefined };
    expect(await host.call('search', args as never)).toMatchObject({ status: 'ok' });
    expect(fake.heard.at(-1)?.params?.['arguments']).toEqual({ q: 'text' });
  });

  it('a lease whose entry changed is a stale route, and nothing is sent', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake });
    await host.start();
    const lease = host.catalog();
    fake.tools = [tool('search', { description: 'Another.' })];
    const changed = new Promise((resolve) => host.on('catalogChanged', resolve));
    fake.say({ method: 'notifications/tools/list_changed' });
    await changed;
    const before = fake.heard.length;
    expect(await lease.call('search')).toMatchObject({
      status: 'stale-route',
      delivery: 'not-sent',
      current: { description: 'Another.' },
    });
    expect(fake.heard).toHaveLength(before);
    expect(await host.call('search')).toMatchObject({ status: 'ok' });
  });

  it('a tool that is gone is a stale route without a current entry', async () => {
    const fake = modernFake({ tools: ['search', 'more'] });
    const host = hostWith({ one: fake });
    await host.start();
    const lease = host.catalog();
    await host.removePeer('one');
    expect(await lease.call('search')).toMatchObject({ status: 'stale-route', current: null });
  });

  it.each([
    ['a tool error', { isError: true, content: [] }, { status: 'tool-error', delivery: 'answered' }],
    [
      'a JSON-RPC error',
      { error: { code: -32000, message: 'no' } },
      { status: 'protocol-error', delivery: 'answered' },
    ],
    ['something that is no tool result', { nothing: 1 }, { status: 'invalid-result', delivery: 'answered' }],
    [
      'a request for input that was not offered',
      { resultType: 'input_required', inputRequests: { a: { method: 'roots/list' } } },
      { status: 'protocol-error', delivery: 'answered' },
    ],
    ['an unknown resultType', { resultType: 'later' }, { status: 'invalid-result', delivery: 'answered' }],
  ])('%s', async (_name, answer, expected) => {
    const host = hostWith({
      one: modernFake({ on: (message) => (message.method === 'tools/call' ? (answer as never) : undefined) }),
    });
    await host.start();
    expect(await host.call('search')).toMatchObject(expected);
  });

  it('checks structured content against the output schema', async () => {
    const outputSchema = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] };
    const fake = modernFake({
      tools: [tool('count', { outputSchema })],
      on: (message) =>
        message.method === 'tools/call'
          ? {
              content: [],
              structuredContent: JSON.stringify(message.params).includes('good') ? { n: 1 } : {},
            }
          : undefined,
    });
    const host = hostWith({ one: fake });
    await host.start();
    expect(await host.call('count', { q: 'good' })).toMatchObject({ status: 'ok' });
    expect(await host.call('count', { q: 'bad' })).toMatchObject({
      status: 'invalid-result',
      delivery: 'answered',
    });
  });

  it('a deadline is a timeout of unknown delivery, and is cancelled on the wire', async () => {
    const clock = createSimulatedClock();
    const fake = modernFake({ on: silent('tools/call') });
    const host = hostWith({ one: fake }, { clock });
    await host.start();
    const call = host.call('search', {}, { timeoutMs: 50 });
    while (fake.methods().at(-1) !== 'tools/call') await Promise.resolve();
    clock.advance(50);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'unknown', attempts: 1 });
    expect(fake.heard.at(-1)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: fake.heard.at(-2)?.id },
    });
    expect(host.peer('one').callable).toBe(true);
  });

  it('progress extends the deadline up to maxCallMs', async () => {
    const clock = createSimulatedClock();
    const fake = modernFake({ on: silent('tools/call') });
    const host = hostWith({ one: fake }, { clock, maxCallMs: 250, callTimeoutMs: 100 });
    await host.start();
    const reports: unknown[] = [];
    const call = host.call('search', {}, { onProgress: (progress) => reports.push(progress) });
    while (fake.methods().at(-1) !== 'tools/call') await Promise.resolve();
    const progressToken = fake.heard.at(-1)?.id as number;
    let isSettled = false;
    void call.then(() => {
      isSettled = true;
    });
    for (let i = 1; i <= 3; i += 1) {
      clock.advance(80);
      fake.say({ method: 'notifications/progress', params: { progressToken, progress: i, total: 3 } });
    }
    await Promise.resolve();
    expect(isSettled).toBe(false);
    expect(reports).toHaveLength(3);
    expect(reports[0]).toEqual({ progress: 1, total: 3, message: undefined });
    clock.advance(10);
    expect(await call).toMatchObject({ status: 'timeout' });
  });

  it('the caller aborts: cancelled, also on the wire; before the call nothing is sent', async () => {
    const fake = legacyFake({ on: silent('tools/call') });
    const host = hostWith({ one: fake });
    await host.start();
    const controller = new AbortController();
    const call = host.call('search', {}, { signal: controller.signal });
    while (fake.methods().at(-1) !== 'tools/call') await Promise.resolve();
    controller.abort();
    expect(await call).toMatchObject({ status: 'cancelled', delivery: 'unknown' });
    expect(fake.methods().at(-1)).toBe('notifications/cancelled');
    const before = fake.heard.length;
    expect(await host.call('search', {}, { signal: controller.signal })).toMatchObject({
      status: 'cancelled',
      delivery: 'not-sent',
      attempts: 0,
    });
    expect(fake.heard).toHaveLength(before);
  });

  it('a loss in mid-call is lost, with unknown delivery', async () => {
    const fake = modernFake({ on: silent('tools/call') });
    const host = hostWith({ one: fake });
    await host.start();
    const call = host.call('search');
    while (fake.methods().at(-1) !== 'tools/call') await Promise.resolve();
    fake.connections[0]?.close({ kind: 'exit', detail: 'killed', signal: 'SIGKILL' });
    expect(await call).toMatchObject({ status: 'lost', delivery: 'unknown' });
    expect(await host.call('search')).toMatchObject({ status: 'not-found' });
  });

  it('a call to a peer that is reconnecting is unavailable, with the reason', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake }, { maxAttempts: 3, backoffMinMs: 60_000, backoffMaxMs: 60_000 });
    await host.start();
    fake.connections[0]?.close({ kind: 'reset', detail: 'the connection was reset' });
    expect(host.peer('one').state).toBe('reconnecting');
    expect(await host.call('search')).toMatchObject({
      status: 'unavailable',
      delivery: 'not-sent',
      message: expect.stringContaining('the connection was reset'),
    });
  });

  it('stop in mid-call: an outcome, the cancellation on the wire, the connection closed', async () => {
    const fake = modernFake({ on: silent('tools/call') });
    const host = hostWith({ one: fake });
    await host.start();
    const call = host.call('search');
    while (fake.methods().at(-1) !== 'tools/call') await Promise.resolve();
    await host.stop();
    expect(await call).toMatchObject({ status: 'cancelled', delivery: 'unknown' });
    expect(fake.methods().at(-1)).toBe('notifications/cancelled');
    expect(fake.connections[0]?.closed).toBe(true);
    expect(await host.call('search')).toMatchObject({ delivery: 'not-sent' });
  });
});

describe('N14', () => {
  it('a selected era is cached for the connection: no probe before a call', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake });
    await host.start();
    for (let i = 0; i < 5; i += 1) await host.call('search');
    expect(fake.methods()).toEqual(['server/discover', 'tools/list', ...Array(5).fill('tools/call')]);
  });

  it('a lost connection is negotiated anew, listed, then called', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake }, { maxAttempts: 3, backoffMinMs: 1, backoffMaxMs: 1 });
    await host.start();
    fake.connections[0]?.close({ kind: 'exit', detail: 'gone' });
    await host.peer('one').waitUntil('callable');
    await host.peer('one').waitUntil('settled');
    expect((await host.call('search')).status).toBe('ok');
    expect(fake.methods()).toEqual([
      'server/discover',
      'tools/list',
      'server/discover',
      'tools/list',
      'tools/call',
    ]);
    expect(fake.connections).toHaveLength(2);
  });

  it('-32022 in mid-session negotiates again on the same connection, once per stableAfterMs', async () => {
    const clock = createSimulatedClock();
    const refusal = { error: { code: -32022, message: 'no', data: { supported: ['2026-07-28'] } } };
    const fake = modernFake({ on: (message) => (message.method === 'tools/call' ? refusal : undefined) });
    const host = hostWith({ one: fake }, { clock, maxAttempts: 3 });
    await host.start();
    expect(await host.call('search')).toMatchObject({ status: 'protocol-error', delivery: 'answered' });
    expect(host.peer('one').state).toBe('reconnecting');
    clock.advance(500);
    await host.peer('one').waitUntil('settled');
    expect(await host.call('search')).toMatchObject({ status: 'protocol-error' });
    expect(host.peer('one').state).toBe('modern');
    expect(fake.methods()).toEqual([
      'server/discover',
      'tools/list',
      'tools/call',
      'server/discover',
      'tools/list',
      'tools/call',
    ]);
    expect(fake.connections).toHaveLength(1);
  });
});

describe('a loss that is noticed late', () => {
  it('an answer and the end in one breath: the peer is not taken for callable', async () => {
    const fake = modernFake({
      on: (message, self) => {
        if (message.method !== 'server/discover') return undefined;
        const result = { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } };
        self.say({ id: message.id as number, result });
        self.connections.at(-1)?.close({ kind: 'exit', detail: 'exit 0', exitCode: 0 });
        return null;
      },
    });
    const host = hostWith({ one: fake });
    expect((await host.start()).peers).toMatchObject([
      { state: 'unavailable', era: 'unknown', reason: { code: 'connection-lost' } },
    ]);
  });

  it('over HTTP a call that reaches nobody sends the peer to reconnecting', async () => {
    let isDown = false;
    const fake = modernFake({
      perRequestStreams: true,
      on: (message, self) => {
        if (!isDown || message.method !== 'tools/call') return undefined;
        const cause = { kind: 'connect-failed', detail: 'connection refused', terminal: false } as const;
        self.connections.at(-1)?.end(message.id as number, { kind: 'unreachable', redirected: false, cause });
        return null;
      },
    });
    const host = hostWith({ one: fake }, { maxAttempts: 3 });
    await host.start();
    expect((await host.call('search')).status).toBe('ok');
    isDown = true;
    // In memory everything is written at once; over a socket it would not have been, and the peer unavailable.
    expect(await host.call('search')).toMatchObject({ status: 'lost', delivery: 'unknown' });
    expect(host.peer('one').state).toBe('reconnecting');
  });
});

describe('requests of a server', () => {
  it('are answered in the legacy era: ping, and a refusal of what was not declared', async () => {
    const fake = legacyFake();
    const host = hostWith({ old: fake });
    await host.start();
    fake.say({ id: 'a', method: 'ping' });
    fake.say({ id: 7, method: 'roots/list' });
    expect(fake.heard.slice(-2)).toMatchObject([
      { id: 'a', result: {} },
      { id: 7, error: { code: -32601 } },
    ]);
  });

  it('are never answered in the modern era (N18)', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake });
    await host.start();
    const before = fake.heard.length;
    fake.say({ id: 1, method: 'ping' });
    fake.say({ id: 'x', result: {} });
    expect(fake.heard).toHaveLength(before);
    expect(host.peer('one').report().faults).toMatchObject({ 'server-request': 1, foreign: 1 });
  });
});

describe('peers that come and go', () => {
  it('addPeer starts one, removePeer ends it and frees its names', async () => {
    const host = hostWith({ b: modernFake() });
    await host.start();
    const late = modernFake();
    expect(await host.addPeer('a', late.config)).toMatchObject({ state: 'modern' });
    expect(names(host)).toEqual(['a/search', 'search']);
    expect(host.catalog().entries.get('search')?.peer).toBe('b');
    await host.removePeer('a');
    expect(late.connections[0]?.closed).toBe(true);
    expect(names(host)).toEqual(['search']);
    expect(() => host.peer('a')).toThrow(UnknownPeerError);
    expect(await host.addPeer('a', late.config)).toMatchObject({ state: 'modern' });
  });

  it('a name that is taken, an unknown peer and a bad configuration are typed errors', async () => {
    const host = hostWith({ one: modernFake() });
    await host.start();
    await expect(host.addPeer('one', modernFake().config)).rejects.toMatchObject({ code: 'duplicate-peer' });
    await expect(host.addPeer('two', { url: 'ftp://x' })).rejects.toBeInstanceOf(ConfigurationError);
    await expect(host.removePeer('two')).rejects.toBeInstanceOf(UnknownPeerError);
    expect(() => host.forget('two')).toThrow(UnknownPeerError);
  });

  it('waiting for a peer that is removed, or on a signal, ends', async () => {
    const host = hostWith({ one: modernFake({ on: silent('server/discover') }) });
    void host.start();
    const handle = host.peer('one');
    const controller = new AbortController();
    const aborted = handle.waitUntil('callable', { signal: controller.signal });
    controller.abort(new Error('enough'));
    await expect(aborted).rejects.toThrow('enough');
    const removed = handle.waitUntil('callable');
    await host.removePeer('one');
    await expect(removed).rejects.toBeInstanceOf(UnknownPeerError);
  });

  it('modern evidence outlives removePeer and addPeer; forget is the only reset (N12)', async () => {
    let isModern = true;
    const fake = legacyFake({
      identity: 'rollback',
      on: (message) =>
        message.method === 'server/discover' && isModern
          ? { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } }
          : undefined,
    });
    const host = hostWith({ one: fake });
    await host.start();
    expect(host.peer('one').state).toBe('modern');
    isModern = false;
    await host.removePeer('one');
    expect(await host.addPeer('other', fake.config)).toMatchObject({
      state: 'unavailable',
      initializeSent: 0,
      reason: { code: 'modern-evidence', fix: expect.stringContaining('forget') },
    });
    expect(fake.methods()).not.toContain('initialize');
    host.forget('other');
    host.peer('other').retry();
    expect(await host.peer('other').waitUntil('callable')).toMatchObject({
      state: 'legacy',
      initializeSent: 1,
    });
  });
});

describe('an allowlisted legacy peer', () => {
  it('whose bounded initialize times out stays unknown and unavailable', async () => {
    const clock = createSimulatedClock();
    const fake = legacyFake({ on: silent('initialize') });
    const host = hostWith({ old: fake }, { clock, legacyProbeTimeoutMs: 2_000, startTimeoutMs: 60_000 });
    const started = host.start();
    while (fake.methods().at(-1) !== 'initialize') await Promise.resolve();
    clock.advance(2_000);
    expect((await started).peers).toMatchObject([
      { state: 'unavailable', era: 'unknown', initializeSent: 1, reason: { code: 'legacy-timeout' } },
    ]);
    expect(fake.methods().filter((method) => method === 'initialize')).toHaveLength(1);
  });

  it('gets initialize on a fresh connection after the probe ended the first one', async () => {
    const fake = legacyFake({
      on: (message, self) => {
        if (message.method !== 'server/discover') return undefined;
        self.connections.at(-1)?.close({ kind: 'exit', detail: 'exit 1', exitCode: 1 });
        return null;
      },
    });
    const host = hostWith({ old: fake });
    expect((await host.start()).peers).toMatchObject([{ state: 'legacy', initializeSent: 1 }]);
    expect(fake.connections).toHaveLength(2);
    expect(fake.methods()).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
      'tools/list',
    ]);
  });

  it.each([-32020, -32021, -32022])(
    'that answers the probe with %i is never sent initialize',
    async (code) => {
      const fake = legacyFake({
        on: (message) =>
          message.method === 'server/discover'
            ? { error: { code, message: 'no', data: { supported: ['2031-01-01'] } } }
            : undefined,
      });
      const host = hostWith({ old: fake });
      const { peers } = await host.start();
      expect(peers).toMatchObject([{ state: 'unavailable', initializeSent: 0 }]);
      expect(fake.methods()).not.toContain('initialize');
    },
  );

  it('-32022 with no mutually supported version fails without initialize', async () => {
    const refusal = {
      error: { code: -32022, message: 'no', data: { supported: ['2031-01-01'], requested: '2026-07-28' } },
    };
    const fake = legacyFake({
      on: (message) => (message.method === 'server/discover' ? refusal : undefined),
    });
    const host = hostWith({ one: fake });
    expect((await host.start()).peers).toMatchObject([
      { reason: { code: 'no-mutual-version' }, initializeSent: 0 },
    ]);
    expect(fake.methods()).toEqual(['server/discover']);
  });

  it('that answers initialize with -32022 is probed again on a fresh connection, in the same negotiation', async () => {
    let probes = 0;
    const fake = legacyFake({
      on: (message) => {
        if (message.method === 'initialize') return { error: { code: -32022, message: 'no' } };
        if (message.method !== 'server/discover') return undefined;
        probes += 1;
        return probes === 1 ? methodNotFound : { supportedVersions: ['2026-07-28'], capabilities: {} };
      },
    });
    const host = hostWith({ old: fake });
    const { peers } = await host.start();
    expect(peers).toMatchObject([
      { state: 'modern', initializeSent: 1, path: ['idle', 'probing', 'legacyProbe', 'probing', 'modern'] },
    ]);
    expect(peers[0]?.record.map((entry) => entry.verdict)).toEqual([
      'discover.ambiguous',
      'peer.modernEvidence',
      'discover.result',
    ]);
    expect(fake.connections).toHaveLength(2);
  });

  it('that proves modern while it is legacy is negotiated anew on a fresh connection', async () => {
    const fake = legacyFake();
    const host = hostWith({ old: fake });
    await host.start();
    fake.say({
      id: fake.heard[0]?.id as number,
      result: { supportedVersions: ['2026-07-28'], capabilities: {} },
    });
    await host.peer('old').waitUntil('settled');
    expect(host.peer('old').report()).toMatchObject({ state: 'unavailable', initializeSent: 0 });
    expect(fake.connections).toHaveLength(2);
    expect(fake.methods().slice(-1)).toEqual(['server/discover']);
  });
});

it('a configured secret that a server repeats is shown nowhere', async () => {
  const secret = 'hunter2-hunter2';
  const script =
    'process.stdin.once("data",()=>{process.stdout.write(JSON.stringify({jsonrpc:"2.0",id:"x",error:{code:-32000,message:process.env.API_TOKEN}})+"\\n");' +
    'process.stderr.write("bad token "+process.env.API_TOKEN+"\\n");process.exit(1)})';
  const snapshots: string[] = [];
  const host = createHost({
    peers: {
      one: { command: process.execPath, args: ['-e', script], env: { API_TOKEN: secret }, allowLegacy: true },
    },
    maxAttempts: 0,
    inspect: (event) => {
      snapshots.push(
        JSON.stringify(event, (key, value) =>
          key === 'actorRef' || key === 'sourceRef' ? undefined : value,
        ),
      );
    },
  });
  hosts.push(host);
  const report = await host.start();
  expect(report.peers[0]?.state).toBe('unavailable');
  const shown = [JSON.stringify(report), host.peer('one').explain(), ...snapshots].join('\n');
  expect(shown).toContain('bad token');
  expect(shown).not.toContain(secret);
});

describe('modern evidence', () => {
  it('is heard in the second probe of a modern connection too, and forbids', async () => {
    const clock = createSimulatedClock();
    const refusal = { error: { code: -32022, message: 'no', data: { supported: ['2031-01-01'] } } };
    let isForgotten = false;
    let isSilent = false;
    const fake = modernFake({
      allowLegacy: true,
      on: (message) => {
        if (isSilent) return message.method === 'server/discover' ? null : undefined;
        return isForgotten && message.method !== 'tools/list' ? refusal : undefined;
      },
    });
    const host = hostWith({ one: fake }, { clock, maxAttempts: 3 });
    await host.start();
    host.forget('one');
    isForgotten = true;
    await host.call('search');
    clock.advance(500);
    expect(await host.peer('one').waitUntil('settled')).toMatchObject({
      reason: { code: 'no-mutual-version' },
    });
    isSilent = true;
    host.peer('one').retry();
    const settled = host.peer('one').waitUntil('settled');
    while (fake.methods().filter((method) => method === 'server/discover').length < 3)
      await Promise.resolve();
    clock.advance(15_000);
    expect(await settled).toMatchObject({ state: 'unavailable', reason: { code: 'modern-evidence' } });
    expect(fake.methods()).not.toContain('initialize');
  });

  it('is remembered although the stored memory fails', async () => {
    let isModern = true;
    const fake = modernFake({
      allowLegacy: true,
      on: (message) => (message.method === 'server/discover' && !isModern ? methodNotFound : undefined),
    });
    const fail = (): never => {
      throw new Error('disk full');
    };
    const ratchet = { get: () => undefined, set: fail, delete: fail };
    const host = hostWith({ one: fake }, { ratchet });
    await host.start();
    isModern = false;
    fake.connections[0]?.close({ kind: 'exit', detail: 'exit 1' });
    host.peer('one').retry();
    await host.peer('one').waitUntil('settled');
    expect(host.peer('one').report()).toMatchObject({
      state: 'unavailable',
      reason: { code: 'modern-evidence' },
    });
    expect(fake.methods()).not.toContain('initialize');
  });

  it('a stored memory that cannot be read forbids', async () => {
    const fake = legacyFake();
    const get = (): never => {
      throw new Error('unreadable');
    };
    const host = hostWith({ one: fake }, { ratchet: { get, set: () => undefined, delete: () => undefined } });
    await host.start();
    expect(fake.methods()).toEqual(['server/discover']);
  });

  it('a peer that has been modern is not told to set allowLegacy', async () => {
    let isModern = true;
    const fake = modernFake({
      on: (message) => (message.method === 'server/discover' && !isModern ? methodNotFound : undefined),
    });
    const host = hostWith({ one: fake });
    await host.start();
    isModern = false;
    fake.connections[0]?.close({ kind: 'exit', detail: 'exit 1' });
    host.peer('one').retry();
    expect(await host.peer('one').waitUntil('settled')).toMatchObject({
      reason: { code: 'modern-evidence', fix: expect.stringContaining('forget') },
    });
  });
});

describe('what a listing comes to', () => {
  it('is tried again by retry()', async () => {
    let isBroken = true;
    const fake = modernFake({
      on: (message) => (message.method === 'tools/list' && isBroken ? methodNotFound : undefined),
    });
    const host = hostWith({ one: fake });
    await host.start();
    isBroken = false;
    const changed = new Promise((resolve) => host.on('catalogChanged', resolve));
    host.peer('one').retry();
    await changed;
    expect(names(host)).toEqual(['search']);
    expect(host.peer('one').report().listing).toBe(null);
  });

  it('a refused revision and an endpoint that is gone are told to the chart', async () => {
    const refusal = { error: { code: -32022, message: 'no', data: { supported: ['2026-07-28'] } } };
    const fake = modernFake({ on: (message) => (message.method === 'tools/list' ? refusal : undefined) });
    const host = hostWith({ one: fake }, { maxAttempts: 3, backoffMinMs: 60_000, backoffMaxMs: 60_000 });
    await host.start();
    expect(host.peer('one').state).toBe('reconnecting');
  });

  it('a walk during which a change was announced is discarded', async () => {
    let walk = 0;
    const fake = modernFake({
      on: (message, self) => {
        if (message.method !== 'tools/list') return undefined;
        const page = message.params?.['cursor'] === undefined ? 1 : 2;
        if (page === 1) walk += 1;
        if (walk === 1 && page === 2) self.say({ method: 'notifications/tools/list_changed' });
        const list = { tools: [tool(`walk${walk}page${page}`)] };
        return page === 1 ? { ...list, nextCursor: 'more' } : list;
      },
    });
    const host = hostWith({ one: fake });
    const added: string[] = [];
    host.on('catalogChanged', (change) => added.push(...change.added));
    await host.start();
    expect(added).toEqual(['walk2page1', 'walk2page2']);
  });

  it('a server that announces a change with every listing is believed all the same', async () => {
    const fake = modernFake({
      on: (message, self) => {
        if (message.method === 'tools/list') self.say({ method: 'notifications/tools/list_changed' });
        return undefined;
      },
    });
    const host = hostWith({ one: fake });
    await host.start();
    expect(names(host)).toEqual(['search']);
  });
});

describe('the deadline of a call', () => {
  it.each([Number.NaN, 0, -5])('of %s ms has passed', async (timeoutMs) => {
    const fake = modernFake();
    const host = hostWith({ one: fake });
    await host.start();
    const before = fake.heard.length;
    expect(await host.call('search', {}, { timeoutMs })).toMatchObject({
      status: 'timeout',
      delivery: 'not-sent',
    });
    expect(fake.heard).toHaveLength(before);
  });

  it.each([Number.POSITIVE_INFINITY, 2 ** 31, 1e12])('of %s ms is a long one', async (timeoutMs) => {
    const host = hostWith({ one: modernFake() });
    await host.start();
    expect(await host.call('search', {}, { timeoutMs })).toMatchObject({ status: 'ok' });
  });
});

it('over HTTP a call that reaches nobody does not cut the calls in flight', async () => {
  let isDown = false;
  const waiting: number[] = [];
  const fake = modernFake({
    perRequestStreams: true,
    on: (message, self) => {
      if (message.method !== 'tools/call') return undefined;
      const id = message.id as number;
      const cause = { kind: 'connect-failed', detail: 'connection refused', terminal: false } as const;
      if (isDown) self.connections[0]?.end(id, { kind: 'unreachable', redirected: false, cause });
      else waiting.push(id);
      return null;
    },
  });
  const host = hostWith({ one: fake }, { maxAttempts: 3, backoffMinMs: 60_000, backoffMaxMs: 60_000 });
  await host.start();
  const first = host.call('search');
  while (waiting.length === 0) await Promise.resolve();
  isDown = true;
  await host.call('search');
  expect(host.peer('one').state).toBe('reconnecting');
  expect(fake.connections[0]?.closed).toBe(false);
  const result = { content: [], resultType: 'complete' };
  fake.connections[0]?.send(JSON.stringify({ jsonrpc: '2.0', id: waiting[0], result }), waiting[0]);
  expect(await first).toMatchObject({ status: 'ok' });
  await host.stop();
  expect(fake.connections[0]?.closed).toBe(true);
});

it('initialize that reaches nobody is no rejection: time may cure it', async () => {
  let opens = 0;
  const base = legacyFake({
    on: (message, self) => {
      if (message.method !== 'server/discover') return undefined;
      self.connections.at(-1)?.close({ kind: 'exit', detail: 'exit 1', exitCode: 1 });
      return null;
    },
  });
  const host = createHost({
    maxAttempts: 0,
    peers: {
      one: {
        ...base.config,
        createTransport: (events) => {
          const transport = base.config.createTransport(events);
          opens += 1;
          if (opens === 1) return transport;
          const cause = { kind: 'spawn-failed', detail: 'no more processes', terminal: false } as const;
          return {
            ...transport,
            kind: 'memory',
            perRequestStreams: false,
            close: () => transport.close(),
            abort() {},
            send() {},
            open: async () => ({ ok: false, cause }),
          };
        },
      },
    },
  });
  hosts.push(host);
  expect((await host.start()).peers).toMatchObject([
    { state: 'unavailable', reason: { code: 'spawn-failed' }, initializeSent: 0 },
  ]);
});

it('what a server says of itself is bounded and escaped', async () => {
  const serverInfo = { name: `\u001b[31m${'x'.repeat(10_000)}`, version: '1' };
  const host = hostWith({
    one: modernFake({
      on: (message) =>
        message.method === 'server/discover'
          ? {
              supportedVersions: ['2026-07-28'],
              capabilities: {},
              _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo },
            }
          : undefined,
    }),
  });
  const { peers } = await host.start();
  expect(peers[0]?.server?.name.length).toBeLessThan(300);
  expect(peers[0]?.server?.name).not.toContain('\u001b');
  expect(peers[0]?.faults).toEqual({ 'absent-result-type': 1 });
});

describe('hostOf', () => {
  it('refuses an actor that runs no host', async () => {
    const { createActor, createMachine } = await import('xstate');
    expect(() => hostOf(createActor(createMachine({})))).toThrow('hostLogic');
  });
});
