/** Lists over hours: fetched when they are needed, believed as long as they may be, and never in halves. */
import { afterEach, describe, expect, test } from 'vitest';
import { createMemoryStore } from '../../src/cache/memoryStore.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { LISTS } from '../../src/protocol/lists.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { tool } from './fakes.js';
import {
  CHANGING,
  idle,
  type Library,
  type LibraryOptions,
  library,
  pass,
  prompt,
  resource,
  template,
} from './library.js';

const HOUR = 3_600_000;
const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

async function started(
  peers: Readonly<Record<string, Library>>,
  options: Omit<CreateHostOptions, 'peers' | 'clock'> = {},
) {
  const clock = createSimulatedClock();
  const configs = Object.fromEntries(Object.entries(peers).map(([name, peer]) => [name, peer.config]));
  const host = createHost({ random: () => 0, ...options, clock, peers: configs });
  hosts.push(host);
  let isStarted = false;
  const starting = host.start().then(() => {
    isStarted = true;
  });
  await idle();
  // A server may tear its first lists.
  for (let i = 0; i < 50 && !isStarted; i += 1) await pass(clock, 100);
  await starting;
  return { host, clock, pass: (ms: number) => pass(clock, ms) };
}

const one = async (options: LibraryOptions = {}, hostOptions = {}) => {
  const lib = library(options);
  return { lib, ...(await started({ lib }, hostOptions)) };
};

const freshnessOf = (host: Host): string[] =>
  [...host.catalog().entries.values()].map((entry) => entry.freshness);
const namesOf = (listed: { items: readonly { name: string }[] }): string[] =>
  listed.items.map(({ name }) => name);
const eras = ['modern', 'legacy'] as const;

describe('tools', () => {
  test('are fetched again on use once their time has run out, and by nothing else', async () => {
    const { lib, host, pass } = await one({ hints: () => ({ ttlMs: 60_000 }) });
    const lists = () => lib.count('tools/list');
    expect(lists()).toBe(1);
    await pass(59_999);
    host.catalog();
    await host.call('search', {});
    await idle();
    expect(lists()).toBe(1);
    await pass(12 * HOUR);
    expect(lists()).toBe(1);
    // The lease that is there is handed out at once.
    expect(host.catalog().entries.size).toBe(1);
    for (let i = 0; i < 50; i += 1) host.catalog();
    await idle();
    expect(lists()).toBe(2);
    await pass(60_000);
    expect(lists()).toBe(2);
    expect(await host.call('search', {})).toMatchObject({ status: 'ok' });
    await idle();
    expect(lists()).toBe(3);
    await pass(60_000);
    const lease = host.catalog();
    await idle();
    expect(lists()).toBe(4);
    await pass(60_000);
    expect(await lease.call('search', {})).toMatchObject({ status: 'ok' });
    await idle();
    expect(lists()).toBe(5);
  });

  test('of a peer that is not used are not fetched, whatever is used of others', async () => {
    const used = library({ hints: () => ({ ttlMs: 1_000 }) });
    const other = library({ hints: () => ({ ttlMs: 1_000 }) });
    other.items.tools = [tool('other')];
    const { host, pass } = await started({ used, other });
    await pass(HOUR);
    await host.call('search', {});
    await idle();
    expect([used.count('tools/list'), other.count('tools/list')]).toEqual([2, 1]);
  });

  test.each<[string, JsonObject]>([
    ['no', {}],
    ['a ttlMs of 0', { ttlMs: 0 }],
    ['a negative', { ttlMs: -5_000 }],
    ['a null', { ttlMs: null }],
    ['a textual', { ttlMs: '60000' }],
  ])('with %s ttlMs serve as they are, and no read fetches them', async (_, hint) => {
    const { lib, host, pass } = await one({ hints: () => hint });
    for (let hour = 0; hour < 30; hour += 1) {
      await pass(HOUR);
      expect(freshnessOf(host)).toEqual(['fresh']);
      await host.call('search', {});
    }
    expect(lib.count('tools/list')).toBe(1);
    expect(host.status().peers[0]?.catalogs.tools).toMatchObject({ state: 'fresh', ageMs: 30 * HOUR });
  });

  test('are believed for a day at most', async () => {
    const { lib, host, pass } = await one({ hints: () => ({ ttlMs: 1e300 }) });
    await pass(24 * HOUR - 1);
    host.catalog();
    await idle();
    expect(lib.count('tools/list')).toBe(1);
    await pass(1);
    host.catalog();
    await idle();
    expect(lib.count('tools/list')).toBe(2);
  });

  test('that cannot be renewed are served as stale, and asked for with growing pauses, on use alone', async () => {
    const { lib, host, pass } = await one({ hints: () => ({ ttlMs: 60_000 }) });
    lib.failing.add('tools/list');
    await pass(60_000);
    expect(freshnessOf(host)).toEqual(['fresh']);
    await idle();
    let asked = lib.count('tools/list');
    expect(asked).toBe(2);
    expect(freshnessOf(host)).toEqual(['stale']);
    const { tools } = host.status().peers[0]?.catalogs ?? {};
    expect(tools).toMatchObject({ state: 'failed', count: 1, ageMs: 60_000 });
    expect(tools?.problem).toContain('out of order');
    expect(host.peer('lib').report().listing).toContain('out of order');
    for (const pause of [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000, 30_000]) {
      await pass(pause - 1);
      for (let i = 0; i < 10; i += 1) host.catalog();
      await host.call('search', {});
      await idle();
      expect(lib.count('tools/list')).toBe(asked);
      await pass(1);
      for (let i = 0; i < 10; i += 1) host.catalog();
      await idle();
      asked += 1;
      expect(lib.count('tools/list')).toBe(asked);
    }
    await pass(10 * HOUR);
    expect(lib.count('tools/list')).toBe(asked);
    expect(await host.call('search', {})).toMatchObject({ status: 'ok' });
    lib.failing.clear();
    await pass(HOUR);
    host.catalog();
    await idle();
    expect(freshnessOf(host)).toEqual(['fresh']);
    expect(host.status().peers[0]?.catalogs.tools).toMatchObject({ state: 'fresh', problem: null, ageMs: 0 });
  });

  test('that could not be listed at first are no empty list, and are fetched on use', async () => {
    const lib = library();
    lib.failing.add('tools/list');
    const { host, pass } = await started({ lib });
    expect(host.peer('lib').report()).toMatchObject({ state: 'modern', tools: null });
    expect(host.status().peers[0]?.catalogs.tools).toMatchObject({ state: 'failed', count: null });
    lib.failing.clear();
    await pass(500);
    expect(lib.count('tools/list')).toBe(1);
    host.catalog();
    await idle();
    expect([...host.catalog().entries.keys()]).toEqual(['search']);
  });
});

describe.each(eras)('changes that a %s server announces', (era) => {
  test('during a walk discard it: nothing of a torn list is ever seen', async () => {
    let isChanging = false;
    const lib: Library = library({
      era,
      capabilities: CHANGING,
      pageSize: 1,
      on: (message) => {
        if (!isChanging || message.params?.['cursor'] !== '1') return undefined;
        // Between the pages another list takes the place of the one before.
        isChanging = false;
        lib.items.tools = [tool('new1'), tool('new2')];
        lib.items.prompts = [prompt('new1'), prompt('new2')];
        lib.announce(message.method === 'tools/list' ? 'tools' : 'prompts');
        return undefined;
      },
    });
    lib.items.tools = [tool('old1'), tool('old2')];
    lib.items.prompts = [prompt('old1'), prompt('old2')];
    const { host, pass } = await started({ lib });
    const seen = new Set<string>();
    const look = () => seen.add([...host.catalog().entries.keys()].join());
    host.on('catalogChanged', look);
    look();
    isChanging = true;
    host.peer('lib').refresh();
    await idle();
    look();
    await pass(1_000);
    look();
    expect([...seen]).toEqual(['old1,old2', 'new1,new2']);

    lib.items.prompts = [prompt('old1'), prompt('old2')];
    expect(namesOf(await host.listPrompts())).toEqual(['old1', 'old2']);
    isChanging = true;
    const listing = host.listPrompts({ refresh: true });
    await idle();
    await pass(1_000);
    expect(namesOf(await listing)).toEqual(['new1', 'new2']);
  });

  test('during the very first walk keep the start waiting for a whole list', async () => {
    let isChanging = true;
    const lib: Library = library({
      era,
      capabilities: CHANGING,
      pageSize: 1,
      on: (message) => {
        if (!isChanging || message.params?.['cursor'] !== '1') return undefined;
        isChanging = false;
        lib.items.tools = [tool('new1'), tool('new2')];
        lib.fake.say({ method: LISTS.tools.changed });
        return undefined;
      },
    });
    lib.items.tools = [tool('old1'), tool('old2')];
    const clock = createSimulatedClock();
    const host = createHost({ clock, peers: { lib: lib.config } });
    hosts.push(host);
    const seen: string[] = [];
    host.on('catalogChanged', ({ added }) => seen.push(...added));
    const starting = host.start();
    await idle();
    expect(seen).toEqual([]);
    clock.advance(200);
    expect(await starting).toMatchObject({ peers: [{ tools: 2 }] });
    expect(seen.sort()).toEqual(['new1', 'new2']);
  });

  test('a thousand at once cost one fetch, and one removal from the store', async () => {
    const removed: string[] = [];
    const memory = createMemoryStore();
    const store = {
      ...memory,
      delete: async (key: string) => {
        removed.push(key);
      },
    };
    const { lib, host, pass } = await one({ era, capabilities: CHANGING }, { store });
    await host.listPrompts();
    await idle();
    for (const kind of ['tools', 'prompts'] as const) {
      removed.length = 0;
      const { method } = LISTS[kind];
      const before = lib.count(method);
      lib.items[kind].push(kind === 'tools' ? tool('added') : prompt('added'));
      for (let i = 0; i < 1_000; i += 1) lib.announce(kind);
      await idle();
      expect(lib.count(method)).toBe(before);
      expect(new Set(removed).size).toBe(removed.length);
      expect(removed).toHaveLength(era === 'modern' ? 2 : 0);
      await pass(200);
      expect(lib.count(method)).toBe(before + 1);
      await pass(HOUR);
      expect(lib.count(method)).toBe(before + 1);
    }
    expect(host.catalog().entries.has('added')).toBe(true);
    expect(namesOf(await host.listPrompts())).toEqual(['greet', 'added']);
  });

  test('with every listing are looked into ever more slowly, however often the tools are used', async () => {
    const lib: Library = library({
      era,
      capabilities: CHANGING,
      hints: () => ({ ttlMs: 1 }),
      on: (message) => {
        if (message.method === 'tools/list')
          queueMicrotask(() => queueMicrotask(() => lib.announce('tools')));
        return undefined;
      },
    });
    const { host, clock, pass } = await started({ lib });
    const at: number[] = [];
    let known = lib.count('tools/list');
    // Ten minutes, with a use every half a second.
    for (let i = 0; i < 1_200; i += 1) {
      await pass(500);
      host.catalog();
      if (lib.count('tools/list') === known) continue;
      known = lib.count('tools/list');
      at.push(clock.now());
    }
    const gaps = at.slice(1).map((time, i) => time - (at[i] ?? 0));
    expect(at.length).toBeGreaterThan(5);
    expect(at.length).toBeLessThan(40);
    expect(gaps.at(-1)).toBeGreaterThanOrEqual(29_000);
    expect(freshnessOf(host)).toEqual(['fresh']);
  });
});

describe.each(eras)('prompts, resources and templates of a %s server', (era) => {
  test('are fetched when they are first asked for, and once', async () => {
    const { lib, host, pass } = await one({ era });
    await pass(HOUR);
    const methods = ['prompts/list', 'resources/list', 'resources/templates/list'];
    const counts = () => methods.map((method) => lib.count(method));
    expect(counts()).toEqual([0, 0, 0]);
    expect(Object.keys(host.status().peers[0]?.catalogs ?? {})).toEqual(['tools']);
    const [first, second] = await Promise.all([host.listPrompts(), host.listPrompts()]);
    expect(first).toEqual(second);
    expect(first).toMatchObject({
      items: [
        { name: 'greet', peer: 'lib', freshness: 'fresh', arguments: [{ name: 'who', required: true }] },
      ],
      problems: [],
    });
    expect(counts()).toEqual([1, 0, 0]);
    expect(await host.listResources()).toMatchObject({ items: [{ uri: 'note:///a', sizeBytes: 3 }] });
    expect(await host.listResourceTemplates()).toMatchObject({ items: [{ uriTemplate: 'note:///{id}' }] });
    await pass(HOUR);
    await Promise.all([host.listPrompts(), host.listResources(), host.listResourceTemplates()]);
    expect(counts()).toEqual([1, 1, 1]);
    expect(host.status().peers[0]?.catalogs.prompts).toEqual({
      state: 'fresh',
      count: 1,
      ageMs: 2 * HOUR - HOUR,
      problem: null,
    });
  });

  test('come page by page, and anew when they are asked for so', async () => {
    const lib = library({ era, pageSize: 2 });
    lib.items.resources = ['a', 'b', 'c', 'd', 'e'].map(resource);
    const { host } = await started({ lib });
    expect(namesOf(await host.listResources())).toEqual(['a', 'b', 'c', 'd', 'e']);
    expect(lib.count('resources/list')).toBe(3);
    lib.items.resources = [resource('z')];
    expect(namesOf(await host.listResources())).toHaveLength(5);
    expect(namesOf(await host.listResources({ refresh: true }))).toEqual(['z']);
    expect(lib.count('resources/list')).toBe(4);
  });

  test('are merged in the order of the names of their peers, and asked of those alone that declare them', async () => {
    const [b, a, none] = [library({ era }), library({ era }), library({ era, capabilities: { tools: {} } })];
    b.items.prompts = [prompt('z'), prompt('a')];
    a.items.prompts = [prompt('m')];
    const { host } = await started({ b, none, a });
    const listed = await host.listPrompts();
    expect(listed.items.map(({ peer, name }) => `${peer}/${name}`)).toEqual(['a/m', 'b/z', 'b/a']);
    expect(listed.problems).toEqual([]);
    expect(none.count('prompts/list')).toBe(0);
    expect(namesOf(await host.listPrompts({ peer: 'b' }))).toEqual(['z', 'a']);
    await expect(host.listPrompts({ peer: 'nobody' })).rejects.toThrow('nobody');
  });

  test('that are announced as changed are told once, until somebody asks again', async () => {
    const { lib, host, pass } = await one({ era, capabilities: CHANGING });
    await host.listPrompts();
    await host.listResources();
    await host.listResourceTemplates();
    const told: string[] = [];
    host.on('listChanged', ({ peer, kind }) => told.push(`${peer} ${kind}`));
    const change = async () => {
      lib.items.resources.push(resource(`r${lib.items.resources.length}`));
      lib.items.resourceTemplates.push(template(`t${lib.items.resourceTemplates.length}`));
      lib.announce('resources');
      await pass(HOUR);
    };
    await change();
    await change();
    expect(told.splice(0).sort()).toEqual(['lib resourceTemplates', 'lib resources']);
    expect((await host.listResources()).items).toHaveLength(3);
    await change();
    expect(told.splice(0)).toEqual(['lib resources']);
    // Announced, and the same as before: nobody need look.
    lib.announce('prompts');
    await pass(HOUR);
    expect(told).toEqual([]);
  });

  test('that nobody asked for yet are told as changed, and not fetched', async () => {
    const { lib, host, pass } = await one({ era, capabilities: CHANGING });
    const told: string[] = [];
    host.on('listChanged', ({ kind }) => told.push(kind));
    lib.announce('prompts');
    lib.announce('prompts');
    await pass(HOUR);
    expect(told).toEqual(['prompts']);
    expect(lib.count('prompts/list')).toBe(0);
  });

  test('that cannot be renewed are shown as stale, with the reason, until they can', async () => {
    const { lib, host, pass } = await one({ era });
    await host.listPrompts();
    lib.failing.add('prompts/list');
    const failed = await host.listPrompts({ refresh: true });
    expect(failed.items).toMatchObject([{ name: 'greet', freshness: 'stale' }]);
    expect(failed.problems).toEqual([{ peer: 'lib', message: expect.stringContaining('out of order') }]);
    expect(await host.listPrompts()).toEqual(failed);
    expect(lib.count('prompts/list')).toBe(2);
    lib.failing.clear();
    await pass(500);
    expect(lib.count('prompts/list')).toBe(2);
    expect(await host.listPrompts()).toMatchObject({ items: [{ freshness: 'fresh' }], problems: [] });
    expect(lib.count('prompts/list')).toBe(3);
  });

  test('of a peer that is lost are stale while it comes back, and then those of the new connection', async () => {
    const { lib, host, pass } = await one({ era }, { backoffMinMs: 1_000, random: () => 0.5 });
    await host.listPrompts();
    lib.die();
    await idle();
    expect(host.peer('lib').state).toBe('reconnecting');
    expect(freshnessOf(host)).toEqual(['stale']);
    const meanwhile = await host.listPrompts();
    expect(meanwhile.items).toMatchObject([{ name: 'greet', freshness: 'stale' }]);
    expect(meanwhile.problems).toEqual([{ peer: 'lib', message: expect.stringContaining('lib') }]);
    lib.items.prompts = [prompt('other')];
    await pass(60_000);
    expect(host.peer('lib').state).toBe(era);
    expect(lib.count('prompts/list')).toBe(1);
    expect(await host.listPrompts()).toMatchObject({ items: [{ name: 'other', freshness: 'fresh' }] });
    expect(lib.count('prompts/list')).toBe(2);
  });

  test('of a peer that is gone for good are not shown', async () => {
    const { lib, host } = await one({ era }, { maxAttempts: 0 });
    await host.listPrompts();
    lib.die();
    await idle();
    expect(host.peer('lib').report()).toMatchObject({ state: 'unavailable', tools: null });
    const listed = await host.listPrompts();
    expect(listed.items).toEqual([]);
    expect(listed.problems).toEqual([{ peer: 'lib', message: expect.stringContaining('lib') }]);
    expect(host.status().peers[0]?.catalogs.prompts?.count ?? null).toBeNull();
  });

  test('whose fetch is cut off by a loss, a removal or a stop settle', async () => {
    const silent = (message: { method?: string }) => (message.method === 'prompts/list' ? null : undefined);
    const [lost, removed, stopped] = [1, 2, 3].map(() => library({ era, on: silent })) as [
      Library,
      Library,
      Library,
    ];
    const { host } = await started({ lost, removed, stopped }, { maxAttempts: 0 });
    const listings = ['lost', 'removed', 'stopped'].map((peer) => host.listPrompts({ peer }));
    await idle();
    lost.die();
    await host.removePeer('removed');
    await host.stop();
    for (const listing of listings) expect(await listing).toMatchObject({ items: [], problems: [{}] });
  });

  test('may be waited for with a signal', async () => {
    const lib = library({ era, on: ({ method }) => (method === 'prompts/list' ? null : undefined) });
    const { host } = await started({ lib });
    const control = new AbortController();
    const listing = host.listPrompts({ signal: control.signal });
    await idle();
    control.abort(new Error('enough'));
    await expect(listing).rejects.toThrow('enough');
    await expect(host.listPrompts({ signal: control.signal })).rejects.toThrow('enough');
  });

  test('are nobody else’s to change', async () => {
    const { host } = await one({ era });
    const [first] = (await host.listPrompts()).items;
    expect(() => {
      (first?.declared as { name: string }).name = 'evil';
    }).toThrow(TypeError);
    expect(() => (first as unknown as { arguments: unknown[] }).arguments.pop()).toThrow(TypeError);
    expect(() => Object.assign(first?.arguments[0] ?? {}, { name: 'evil' })).toThrow(TypeError);
    Object.assign(first ?? {}, { name: 'evil' });
    expect(namesOf(await host.listPrompts())).toEqual(['greet']);
    const [entry] = host.catalog().entries.values();
    expect(() => Object.assign(entry ?? {}, { description: 'evil' })).toThrow(TypeError);
    expect(() => Object.assign(entry?.inputSchema ?? {}, { type: 'evil' })).toThrow(TypeError);
  });
});

test('a server that offers resources and does not know of templates has none', async () => {
  const refusal = { error: { code: -32601, message: 'Method not found' } };
  const { host } = await one({
    on: ({ method }) => (method === 'resources/templates/list' ? refusal : undefined),
  });
  expect(await host.listResourceTemplates()).toEqual({ items: [], problems: [] });
});

test('a list asked for while changes are gathered is the one after them', async () => {
  const { lib, host } = await one({ capabilities: CHANGING });
  await host.listPrompts();
  lib.items.prompts = [prompt('new')];
  lib.announce('prompts');
  expect(namesOf(await host.listPrompts())).toEqual(['new']);
});

test('what is being fetched when a gap ends is fetched once more', async () => {
  let held: number | undefined;
  let isHolding = false;
  const { lib, host, pass } = await one({
    capabilities: CHANGING,
    on: ({ method, id }, fake) => {
      if (method !== 'prompts/list' || !isHolding) return undefined;
      isHolding = false;
      held = id;
      // The stream ends on purpose, and another one is opened: what lay between was not told.
      const listen = fake.heard.findLast((heard) => heard.method === 'subscriptions/listen');
      fake.say({ id: listen?.id as number, result: { resultType: 'complete' } });
      return null;
    },
  });
  await host.listPrompts();
  isHolding = true;
  const listing = host.listPrompts({ refresh: true });
  await idle();
  await pass(5_000);
  expect(lib.count('subscriptions/listen')).toBe(2);
  lib.items.prompts = [prompt('new')];
  lib.fake.say({ id: held as number, result: { resultType: 'complete', prompts: [prompt('old')] } });
  await pass(1_000);
  expect(namesOf(await listing)).toEqual(['new']);
});
