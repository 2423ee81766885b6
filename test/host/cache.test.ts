/** Hosts that share one store: what the server calls public is shared, nothing else ever. */
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type KeyvRedis from '@keyv/redis';
import { createKeyv } from '@keyv/redis';
import type { Keyv } from 'keyv';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { createKeyvStore } from '../../src/cache/keyvStore.js';
import { createMemoryStore } from '../../src/cache/memoryStore.js';
import type { Store } from '../../src/cache/store.js';
import type { PeerConfig } from '../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { type RedisServer, startRedis, withoutRedis } from '../support/redis.js';
import { CHANGING, idle, type Library, library, pass, prompt } from './library.js';
import { tokenServer } from './tokenServer.js';

const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

async function hostOf(config: PeerConfig, options: Omit<CreateHostOptions, 'peers'>): Promise<Host> {
  const host = createHost({ ...options, peers: { it: config } });
  hosts.push(host);
  await host.start();
  return host;
}

const toolsOf = (host: Host): string[] => [...host.catalog().entries.keys()];

const day = { ttlMs: 86_400_000 };

describe('two tokens at one real HTTP server', () => {
  test.each<[string, readonly JsonObject[]]>([
    ['private', [{ ...day, cacheScope: 'private' }]],
    ['missing', [day]],
    ['null', [{ ...day, cacheScope: null }]],
    ['unknown', [{ ...day, cacheScope: 'shared' }]],
    [
      'mixed',
      [
        { ...day, cacheScope: 'public' },
        { ...day, cacheScope: 'private' },
      ],
    ],
    ['mixed with none', [{ ...day, cacheScope: 'public' }, day, { ...day, cacheScope: 'public' }]],
  ])('never see each other’s where the scope is %s', async (_, hints) => {
    const { config, heardBy } = await tokenServer(hints);
    const store = createMemoryStore();
    const alice = await hostOf(config('alice'), { store });
    await alice.listPrompts();
    await alice.readResource('it', 'note:///a');
    const bob = await hostOf(config('bob'), { store });
    expect(toolsOf(alice)).toEqual(hints.map((__, page) => `alice_${page}`));
    expect(toolsOf(bob)).toEqual(hints.map((__, page) => `bob_${page}`));
    expect((await bob.listPrompts()).items.map(({ name }) => name)).toEqual(toolsOf(bob));
    // A single answer has one scope, whatever the pages of the lists say.
    const isPublic = hints[0]?.['cacheScope'] === 'public';
    expect(await bob.readResource('it', 'note:///a')).toMatchObject({
      value: { contents: [{ text: isPublic ? 'alice' : 'bob' }] },
      cached: isPublic,
    });
    expect(heardBy('bob', 'tools/list')).toBe(hints.length);
    if (hints.length > 1) expect(alice.peer('it').report().faults).toMatchObject({ 'mixed-cache-scope': 2 });
    // The same token again finds its own, and asks for nothing.
    const again = await hostOf(config('alice'), { store });
    expect(toolsOf(again)).toEqual(toolsOf(alice));
    expect((await again.listPrompts()).items.map(({ name }) => name)).toEqual(toolsOf(alice));
    expect(await again.readResource('it', 'note:///a')).toMatchObject({ cached: true });
    expect(heardBy('alice', 'tools/list')).toBe(hints.length);
    expect(heardBy('alice', 'prompts/list')).toBe(hints.length);
    expect(heardBy('alice', 'resources/read')).toBe(1);
  });

  test('share what is public', async () => {
    const { config, heardBy } = await tokenServer([
      { ...day, cacheScope: 'public' },
      { ...day, cacheScope: 'public' },
    ]);
    const store = createMemoryStore();
    const alice = await hostOf(config('alice'), { store });
    const bob = await hostOf(config('bob'), { store });
    expect(toolsOf(bob)).toEqual(['alice_0', 'alice_1']);
    expect(toolsOf(bob)).toEqual(toolsOf(alice));
    await alice.listPrompts();
    expect((await bob.listPrompts()).items.map(({ name }) => name)).toEqual(['alice_0', 'alice_1']);
    await bob.readResource('it', 'note:///a');
    expect(await alice.readResource('it', 'note:///a')).toMatchObject({ cached: true });
    for (const method of ['tools/list', 'prompts/list']) expect(heardBy('bob', method)).toBe(0);
    expect(heardBy('alice', 'resources/read')).toBe(0);
    // The negotiation is everybody's own, all the same.
    expect(heardBy('bob', 'server/discover')).toBe(1);
  });

  test('share nothing through stores of their own', async () => {
    const { config, heardBy } = await tokenServer([{ ...day, cacheScope: 'public' }]);
    await hostOf(config('alice'), {});
    await hostOf(config('bob'), {});
    expect(heardBy('bob', 'tools/list')).toBe(1);
  });

  test('share nothing that may not be kept', async () => {
    const { config, heardBy } = await tokenServer([
      { ...day, cacheScope: 'public' },
      { cacheScope: 'public' },
    ]);
    const store = createMemoryStore();
    await hostOf(config('alice'), { store });
    await hostOf(config('bob'), { store });
    expect(heardBy('bob', 'tools/list')).toBe(2);
  });

  test('and a host that declares more than the other asks for itself', async () => {
    const { config, heardBy } = await tokenServer([{ ...day, cacheScope: 'public' }]);
    const store = createMemoryStore();
    await hostOf(config('alice'), { store });
    await hostOf(config('alice'), { store, handlers: { listRoots: async () => [] } });
    expect(heardBy('alice', 'tools/list')).toBe(2);
  });
});

describe('processes with environments of their own', { timeout: 60_000 }, () => {
  let folder = '';
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'peerage-cache-'));
  });
  afterEach(() => rm(folder, { recursive: true, force: true }));

  test.each(['private', 'public'])('and %s lists', async (scope) => {
    const record = join(folder, scope);
    const store = createMemoryStore();
    const config = (WHO: string): PeerConfig => ({
      command: process.execPath,
      args: [join(import.meta.dirname, '../fixtures/cachingServer.mjs'), record, scope],
      env: { WHO },
    });
    const options = { store, probeTimeoutMs: 50_000, listTimeoutMs: 50_000, startTimeoutMs: 50_000 };
    const alice = await hostOf(config('alice'), options);
    const again = await hostOf(config('alice'), options);
    const bob = await hostOf(config('bob'), options);
    expect([alice, again, bob].map(toolsOf)).toEqual([
      ['of_alice'],
      ['of_alice'],
      [scope === 'public' ? 'of_alice' : 'of_bob'],
    ]);
    const lists = readFileSync(record, 'utf8').match(/tools\/list/g) ?? [];
    expect(lists).toHaveLength(scope === 'public' ? 1 : 2);
  });
});

describe('hosts in one process', () => {
  let identities = 0;
  /** Two libraries that are one server, for two who ask. */
  function pair(
    scope: string,
    contexts: readonly (string | undefined)[],
    more: Parameters<typeof library>[0] = {},
  ) {
    identities += 1;
    return contexts.map((context) =>
      library({
        identity: `pair-${identities}`,
        hints: () => ({ ...day, cacheScope: scope }),
        ...(context === undefined ? {} : { authorizationContext: context }),
        ...more,
      }),
    ) as [Library, Library];
  }
  const listsOf = (lib: Library) => lib.count('tools/list');

  test.each([
    ['without a word of theirs', [undefined, undefined], 1],
    ['with different words', ['alice', 'bob'], 1],
    ['where one says nothing', ['alice', undefined], 1],
    ['with the same word', ['alice', 'alice'], 0],
  ] as const)('share what is private, over transports of their own, only %s', async (_, contexts, asked) => {
    const store = createMemoryStore();
    const [one, other] = pair('private', contexts);
    await hostOf(one.config, { store });
    await hostOf(other.config, { store });
    expect([listsOf(one), listsOf(other)]).toEqual([1, asked]);
  });

  test('share it not even between two peers of one host', async () => {
    const [one, other] = pair('private', [undefined, undefined]);
    const store = createMemoryStore();
    const host = createHost({ peers: { a: one.config, b: other.config }, store });
    hosts.push(host);
    await host.start();
    expect([listsOf(one), listsOf(other)]).toEqual([1, 1]);
  });

  test('find what one of them has before its first connection, and ask after a reconnect', async () => {
    const clock = createSimulatedClock();
    const store = createMemoryStore();
    const [one, other] = pair('public', [undefined, undefined]);
    const first = await hostOf(one.config, { store, clock });
    await first.listResources();
    await first.listResourceTemplates();
    const host = await hostOf(other.config, { store, clock });
    await host.listPrompts();
    await host.listResourceTemplates();
    const counts = ['prompts/list', 'resources/templates/list'].map((method) => other.count(method));
    expect([listsOf(other), ...counts]).toEqual([0, 1, 0]);
    other.items.prompts = [prompt('newer')];
    other.die();
    await pass(clock, 40_000);
    expect(host.peer('it').state).toBe('modern');
    expect(listsOf(other)).toBe(1);
    expect(await host.listPrompts()).toMatchObject({ items: [{ name: 'newer' }] });
    // Also what was never asked for before it.
    await host.listResources();
    expect(other.count('resources/list')).toBe(1);
  });

  test('see how old a list is that another one fetched, and renew it in time', async () => {
    const clock = createSimulatedClock();
    const store = createMemoryStore({ now: clock.now });
    const [one, other] = pair('public', [undefined, undefined], {
      hints: () => ({ ttlMs: 60_000, cacheScope: 'public' }),
    });
    await hostOf(one.config, { store, clock });
    await pass(clock, 40_000);
    const host = await hostOf(other.config, { store, clock });
    expect(host.status().peers[0]?.catalogs.tools).toMatchObject({ count: 1, ageMs: 40_000 });
    await pass(clock, 19_999);
    host.catalog();
    await idle();
    expect(listsOf(other)).toBe(0);
    await pass(clock, 1);
    host.catalog();
    await idle();
    expect(listsOf(other)).toBe(1);
  });

  test('believe nothing of another version of the server', async () => {
    const store = createMemoryStore();
    const [one, other] = pair('public', [undefined, undefined]);
    other.version = '2.0.0';
    await hostOf(one.config, { store });
    await hostOf(other.config, { store });
    expect(listsOf(other)).toBe(1);
  });

  test('find nothing that one of them was told has changed', async () => {
    const clock = createSimulatedClock();
    const store = createMemoryStore();
    const [one, other] = pair('public', [undefined, undefined]);
    await hostOf(one.config, { store, clock });
    // The first time what comes after it is kept in its place.
    one.announce('tools');
    await pass(clock, 1_000);
    expect(listsOf(one)).toBe(2);
    one.failing.add('tools/list');
    one.announce('tools');
    await idle();
    await hostOf(other.config, { store, clock });
    expect(listsOf(other)).toBe(1);
  });

  test('find nothing older than an answer that may not be kept', async () => {
    const clock = createSimulatedClock();
    const store = createMemoryStore();
    const [one, other] = pair('public', [undefined, undefined]);
    const host = await hostOf(one.config, { store, clock });
    one.hints = () => ({});
    host.peer('it').refresh();
    await idle();
    expect(listsOf(one)).toBe(2);
    await hostOf(other.config, { store, clock });
    expect(listsOf(other)).toBe(1);
  });

  test('of which one listens hear of changes in what the other fetched', async () => {
    const clock = createSimulatedClock();
    const store = createMemoryStore();
    const [one, other] = pair('public', [undefined, undefined], { capabilities: CHANGING });
    await hostOf(one.config, { store, clock });
    other.items.tools = [{ name: 'changed', inputSchema: { type: 'object' } }];
    const host = await hostOf(other.config, { store, clock });
    await idle();
    await pass(clock, 1_000);
    // What is found in a cache may be older than the subscription: it is asked for once more.
    expect(toolsOf(host)).toEqual(['changed']);
  });

  test('are not held up by a store that throws, hangs or lies', async () => {
    const stores: Store[] = [
      {
        get: () => Promise.reject(new Error('down')),
        set: () => Promise.reject(new Error('down')),
        delete: () => Promise.reject(new Error('down')),
      },
      {
        get: () => {
          throw new Error('down');
        },
        set: () => {
          throw new Error('down');
        },
        delete: () => {
          throw new Error('down');
        },
      },
      { get: async () => '{"format":1}', set: async () => {}, delete: async () => {} },
      { get: async () => 7 as unknown as string, set: async () => {}, delete: async () => {} },
    ];
    for (const store of stores) {
      const [lib] = pair('private', [undefined, undefined]);
      const host = await hostOf(lib.config, { store });
      expect(toolsOf(host)).toEqual(['search']);
      expect(await host.readResource('it', 'note:///a')).toMatchObject({ status: 'ok' });
      await idle();
      expect(Object.keys(host.status().cacheFaults).length).toBeGreaterThan(0);
    }
    const clock = createSimulatedClock();
    const never = (): Promise<never> => new Promise(() => {});
    const [lib] = pair('private', [undefined, undefined]);
    const host = createHost({
      peers: { it: lib.config },
      clock,
      store: { get: never, set: never, delete: never },
    });
    hosts.push(host);
    const starting = host.start();
    await pass(clock, 2_000);
    expect((await starting).peers).toMatchObject([{ state: 'modern', tools: 1 }]);
  });

  test('believe nothing of a stored list that is none', async () => {
    const [one, other] = pair('public', [undefined, undefined]);
    const values = new Map<string, string>();
    const store: Store = {
      get: async (key) =>
        values
          .get(key)
          ?.replace('"name":"search"', '"name":""')
          .replace(/"value":\[.*\]/, '"value":"no list"'),
      set: async (key, value) => void values.set(key, value),
      delete: async (key) => void values.delete(key),
    };
    await hostOf(one.config, { store });
    const host = await hostOf(other.config, { store });
    expect(toolsOf(host)).toEqual(['search']);
    expect(listsOf(other)).toBe(1);
    expect(host.peer('it').report().faults).toMatchObject({ 'cache-value': 1 });
  });
});

describe.skipIf(withoutRedis)('over a real Redis', { timeout: 60_000 }, () => {
  let redis: RedisServer;
  const keyvs: Keyv[] = [];

  beforeEach(async () => {
    redis = await startRedis();
  });
  afterEach(async () => {
    await Promise.all(hosts.splice(0).map((host) => host.stop()));
    for (const keyv of keyvs.splice(0)) await (keyv.store as KeyvRedis<string>).disconnect(true);
    await redis.remove();
  });

  /** As another process would have it: a connection of its own. */
  async function connected(): Promise<Store> {
    const options = { socket: { path: redis.socketPath, tls: false as const }, disableOfflineQueue: true };
    const keyv = createKeyv(options, { namespace: 'peerage', throwOnErrors: true });
    await (keyv.store as KeyvRedis<string>).getClient();
    keyvs.push(keyv);
    return createKeyvStore(keyv);
  }

  /** Resolves when what was written is there. */
  async function stored(store: Store): Promise<void> {
    await idle();
    // One connection answers in order: what was sent before this has been done.
    await store.get('nothing');
  }

  test('two hosts share what is public, and nothing private', async () => {
    for (const scope of ['public', 'private']) {
      const { config, heardBy } = await tokenServer([{ ...day, cacheScope: scope }]);
      const [one, two] = [await connected(), await connected()];
      const alice = await hostOf(config('alice'), { store: one });
      await alice.readResource('it', 'note:///a');
      await stored(one);
      const bob = await hostOf(config('bob'), { store: two });
      const isShared = scope === 'public';
      expect(toolsOf(bob)).toEqual([isShared ? 'alice_0' : 'bob_0']);
      expect(await bob.readResource('it', 'note:///a')).toMatchObject({
        cached: isShared,
        value: { contents: [{ text: isShared ? 'alice' : 'bob' }] },
      });
      expect(heardBy('bob', 'tools/list')).toBe(isShared ? 0 : 1);
      const again = await hostOf(config('alice'), { store: two });
      expect(toolsOf(again)).toEqual(['alice_0']);
      expect(heardBy('alice', 'tools/list')).toBe(1);
    }
  });

  test('hosts go on when it dies, and when it is back', async () => {
    const { config } = await tokenServer([{ ...day, cacheScope: 'public' }]);
    const store = await connected();
    const host = await hostOf(config('alice'), { store });
    await host.readResource('it', 'note:///a');
    await redis.kill();
    for (const uri of ['note:///a', 'note:///b', 'note:///b']) {
      expect(await host.readResource('it', uri)).toMatchObject({ status: 'ok', cached: false });
    }
    host.peer('it').refresh();
    expect(await host.listPrompts()).toMatchObject({ items: [{ name: 'alice_0' }], problems: [] });
    expect(host.status().cacheFaults['cache-read']).toBeGreaterThan(0);
    const late = await hostOf(config('bob'), { store });
    expect(toolsOf(late)).toEqual(['bob_0']);
    await redis.start();
    const fresh = await connected();
    const next = await hostOf(config('carol'), { store: fresh });
    await next.readResource('it', 'note:///a');
    expect(await next.readResource('it', 'note:///a')).toMatchObject({ status: 'ok' });
  });
});
