import { afterEach, describe, expect, it } from 'vitest';
import type { PeerConfig } from '../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { PeerStatus } from '../../src/host/status.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { advance, quiet } from '../../src/testing/drive.js';
import { type Fake, legacyFake, modernFake, tool } from './fakes.js';
import { ALL, legacySubscribable, listeningFake } from './subscribingFakes.js';

const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

async function started(peers: Record<string, Fake | PeerConfig>, options: Partial<CreateHostOptions> = {}) {
  const clock = createSimulatedClock();
  const configs = Object.fromEntries(
    Object.entries(peers).map(([name, peer]) => [name, 'config' in peer ? peer.config : peer]),
  );
  const host = createHost({ clock, random: () => 0.5, ...options, peers: configs });
  hosts.push(host);
  await host.start();
  await quiet();
  const one = (): PeerStatus => host.status().peers[0] as PeerStatus;
  return { host, clock, one };
}

const COMPLETE = { resultType: 'complete' } as const;

/** A modern peer that does nothing wrong, whose calls wait until they are answered. */
function orderly(options: { perRequestStreams?: boolean } = {}) {
  const calls: (() => void)[] = [];
  const fake = listeningFake({
    ...options,
    on: ({ method, id }, self) => {
      const control = self.connections.at(-1);
      const reply = (result: JsonObject): void =>
        control?.send(
          JSON.stringify({ jsonrpc: '2.0', id: id as number, result: { ...COMPLETE, ...result } }),
          id,
        );
      switch (method) {
        case 'server/discover':
          return { ...COMPLETE, supportedVersions: ['2026-07-28'], capabilities: ALL };
        case 'tools/list':
          return { ...COMPLETE, tools: [tool('search')], ttlMs: 5_000, cacheScope: 'private' };
        case 'prompts/list':
          return { ...COMPLETE, prompts: [{ name: 'a' }, { name: 'b' }], ttlMs: 0, cacheScope: 'private' };
        case 'tools/call':
          calls.push(() => reply({ content: [] }));
          return null;
        default:
          return undefined;
      }
    },
  });
  /** The first call of a host loads what checks its arguments. */
  const arrived = async (): Promise<void> => {
    while (calls.length === 0) await quiet();
  };
  return { fake, calls, arrived };
}

describe('a modern peer', () => {
  it('in every member, from its start through calls, a loss and its return', async () => {
    const { fake, calls, arrived } = orderly();
    const { host, clock, one } = await started({ one: fake }, { maxInFlight: 1, backoffMinMs: 1_000 });
    const quietly: PeerStatus = {
      name: 'one',
      state: 'modern',
      era: 'modern',
      revision: '2026-07-28',
      generation: 1,
      inFlight: 0,
      queued: 0,
      breaker: 'closed',
      faults: {},
      lastError: null,
      latency: null,
      catalogs: { tools: { state: 'fresh', count: 1, ageMs: 0, problem: null } },
      subscription: { state: 'listening', missing: [], problem: null },
    };
    expect(host.status()).toEqual({
      revision: host.catalog().revision,
      tools: 1,
      inFlight: 0,
      queued: 0,
      cacheFaults: {},
      peers: [quietly],
    });

    const pending = [1, 2, 3].map((q) => host.call('search', { q: String(q) }));
    await arrived();
    await quiet();
    expect(host.status()).toMatchObject({ inFlight: 1, queued: 2, peers: [{ inFlight: 1, queued: 2 }] });
    for (const ms of [100, 200, 300]) {
      await advance(clock, ms);
      calls.shift()?.();
      await quiet();
    }
    await Promise.all(pending);
    expect(one().latency?.count).toBe(3);
    expect(one().latency?.meanMs).toBeCloseTo(200, -1);
    expect(one().latency?.maxMs).toBeCloseTo(300, -1);
    expect(one().latency?.p50Ms).toBeCloseTo(200, -1);
    expect(one().latency?.p99Ms).toBeCloseTo(300, -1);

    await host.listPrompts();
    await advance(clock, 400);
    expect(one().catalogs).toEqual({
      tools: { state: 'fresh', count: 1, ageMs: 1_000, problem: null },
      prompts: { state: 'fresh', count: 2, ageMs: 400, problem: null },
    });

    const lost = host.call('search', {});
    await quiet();
    fake.connections[0]?.close({ kind: 'exit', detail: 'the process exited with code 9', exitCode: 9 });
    expect((await lost).status).toBe('lost');
    await advance(clock, 100);
    expect(one()).toMatchObject({
      state: 'reconnecting',
      era: 'unknown',
      revision: null,
      generation: 1,
      inFlight: 0,
      subscription: null,
      lastError: { message: expect.stringContaining('code 9'), agoMs: 100 },
      // What was listed is known to be of another connection.
      catalogs: { tools: { state: 'stale', count: 1, ageMs: 1_100 }, prompts: { state: 'stale', count: 2 } },
      latency: { count: 3 },
    });
    await advance(clock, 400);
    expect(one()).toMatchObject({
      state: 'modern',
      generation: 2,
      catalogs: { tools: { state: 'fresh', ageMs: 0 } },
      subscription: { state: 'listening' },
      lastError: { agoMs: 500 },
    });
  });

  it('calls that an earlier connection is left open for are in flight', async () => {
    const { fake, calls, arrived } = orderly({ perRequestStreams: true });
    const { host, one } = await started({ one: fake });
    const pending = host.call('search', {});
    await arrived();
    fake.onListen = () => ({ error: { code: -32603, message: 'no' } });
    const cause = { kind: 'connect-failed', detail: 'ECONNREFUSED', terminal: false } as const;
    fake.connections[0]?.end(fake.lastId(), { kind: 'unreachable', redirected: false, cause });
    await quiet();
    expect(one()).toMatchObject({ state: 'reconnecting', inFlight: 1 });
    calls[0]?.();
    expect((await pending).status).toBe('ok');
    expect(one().inFlight).toBe(0);
  });

  it('that is gone for good shows none of its lists', async () => {
    const { fake } = orderly();
    const { one } = await started({ one: fake }, { maxAttempts: 0, retryUnavailableAfterMs: 0 });
    fake.connections[0]?.close({ kind: 'exit', detail: 'gone' });
    await quiet();
    expect(one()).toMatchObject({
      state: 'unavailable',
      lastError: { message: expect.stringContaining('gone') },
    });
    expect(one().catalogs.tools ?? { count: null, ageMs: null }).toMatchObject({ count: null, ageMs: null });
  });
});

describe('a legacy peer', () => {
  it('in every member', async () => {
    const { host, clock, one } = await started({ one: legacySubscribable() });
    await host.listPrompts();
    await advance(clock, 70);
    expect(one()).toEqual({
      name: 'one',
      state: 'legacy',
      era: 'legacy',
      revision: '2025-11-25',
      generation: 1,
      inFlight: 0,
      queued: 0,
      breaker: 'closed',
      faults: {},
      lastError: null,
      latency: null,
      catalogs: {
        tools: { state: 'fresh', count: 1, ageMs: 70, problem: null },
        prompts: { state: 'fresh', count: 1, ageMs: 70, problem: null },
      },
      subscription: { state: 'listening', missing: [], problem: null },
    });
  });
});

describe('the breaker', () => {
  it('is shown as it opens, lets one through, and closes', async () => {
    const { fake, calls, arrived } = orderly();
    const { host, clock, one } = await started(
      { one: fake },
      { breakerThreshold: 2, breakerOpenMs: 10_000, callTimeoutMs: 1_000 },
    );
    for (let i = 0; i < 2; i += 1) {
      const pending = host.call('search', {});
      if (i === 0) await arrived();
      await advance(clock, 1_000);
      expect((await pending).status).toBe('timeout');
    }
    expect(one()).toMatchObject({ breaker: 'open', state: 'modern', lastError: { agoMs: 0 } });
    await advance(clock, 10_000);
    expect(one().breaker).toBe('halfOpen');
    const trial = host.call('search', {});
    await quiet();
    calls.at(-1)?.();
    await trial;
    expect(one().breaker).toBe('closed');
    expect(one().lastError).toMatchObject({ message: 'no answer within 1000 ms', agoMs: 10_000 });
  });
});

describe('faults', () => {
  it('are counted by kind, over all connections of the peer', async () => {
    const { fake } = orderly();
    const { clock, one } = await started({ one: fake });
    const misbehave = async (): Promise<void> => {
      const control = fake.connections.at(-1);
      const first = fake.heard.find(({ method }) => method === 'tools/list')?.id as number;
      control?.send('no json');
      control?.send('{"jsonrpc":"2.0","id":1,"result":{},"error":{}}');
      fake.say({ id: 'mine', result: {} });
      fake.say({ id: first, result: {} });
      fake.say({ id: 12, method: 'roots/list' });
      fake.say({ method: 'notifications/progress', params: { progressToken: 5, progress: 1 } });
      fake.say({ method: 'notifications/cancelled', params: { requestId: first } });
      fake.announce('notifications/tools/list_changed', {}, 1);
      fake.say({ method: 'notifications/prompts/list_changed' });
      control?.fault({ kind: 'oversize', detail: 'a message of 20 MiB' });
      await quiet();
    };
    await misbehave();
    const once = one().faults;
    expect(Object.keys(once).sort()).toEqual([
      'foreign',
      'foreign-cancel',
      'foreign-notification',
      'foreign-progress',
      'late',
      'malformed',
      'noise',
      'oversize',
      'server-request',
      'unsubscribed-notification',
    ]);
    expect(new Set(Object.values(once))).toEqual(new Set([1]));
    fake.connections[0]?.close({ kind: 'exit', detail: 'gone' });
    await advance(clock, 2_000);
    await misbehave();
    expect(one().generation).toBe(2);
    // What is late on the one is foreign on the next.
    for (const kind of Object.keys(once)) {
      if (kind !== 'late') expect(one().faults[kind]).toBeGreaterThanOrEqual(2);
    }
  });
});

describe('a status', () => {
  it('is a copy in plain JSON', async () => {
    const { host } = await started({
      one: orderly().fake,
      old: legacyFake(),
      no: legacyFake({ allowLegacy: false }),
    });
    await host.call('one/search', {}, { timeoutMs: 0 });
    const status = host.status();
    expect(JSON.parse(JSON.stringify(status))).toEqual(status);
    (status.peers as PeerStatus[]).length = 0;
    (host.status().peers[0]?.faults as Record<string, number>)['made up'] = 5;
    expect(host.status().peers).toHaveLength(3);
    expect(host.status().peers[0]?.faults).not.toHaveProperty('made up');
  });

  it('holds no configured secret, whoever repeats it', async () => {
    const secret = 's3cr3t-t0ken-value';
    const script =
      'process.stdin.on("data",()=>{process.stderr.write("bad token "+process.env.API_TOKEN+"\\n");process.exit(1)})';
    const clock = createSimulatedClock();
    const host = createHost({
      clock,
      maxAttempts: 1_000,
      peers: { one: { command: process.execPath, args: ['-e', script], env: { API_TOKEN: secret } } },
    });
    hosts.push(host);
    await host.start();
    const text = JSON.stringify(host.status());
    expect(host.status().peers[0]?.lastError?.message).toBeTruthy();
    expect(text).not.toContain(secret);
  });

  it('of a thousand peers is one pass over them', async () => {
    const fakes = Array.from({ length: 1_000 }, (_, i): [string, Fake] => [
      `p${i}`,
      modernFake({ tools: [`t${i}`] }),
    ]);
    const { host } = await started(Object.fromEntries(fakes), { maxSimultaneousStarts: 64 });
    const status = host.status();
    expect(status.peers).toHaveLength(1_000);
    expect(status.tools).toBe(1_000);
    expect(new Set(status.peers.map(({ state }) => state))).toEqual(new Set(['modern']));
    // A histogram is made for who was called, and nobody else.
    expect(status.peers.every(({ latency }) => latency === null)).toBe(true);
  }, 120_000);

  it('before the start and after the end is there as well', async () => {
    const host = createHost({ peers: { one: modernFake().config } });
    hosts.push(host);
    const idle = {
      name: 'one',
      state: 'idle',
      era: 'unknown',
      generation: 0,
      catalogs: {},
      subscription: null,
    };
    expect(host.status()).toMatchObject({ tools: 0, peers: [idle] });
    await host.start();
    await host.stop();
    expect(host.status().peers[0]).toMatchObject({
      state: 'stopped',
      inFlight: 0,
      queued: 0,
      subscription: null,
    });
  });
});
