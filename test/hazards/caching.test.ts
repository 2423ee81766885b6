/** How caches of lists have failed: served to the wrong one, kept for too long, lost, or asked again and again. */
import { afterEach, describe, expect, test } from 'vitest';
import { createMemoryStore } from '../../src/cache/memoryStore.js';
import type { Store } from '../../src/cache/store.js';
import type { PeerConfig } from '../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { tool } from '../host/fakes.js';
import { CHANGING, idle, library, pass, prompt } from '../host/library.js';
import { tokenServer } from '../host/tokenServer.js';

const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

async function hostOf(
  peers: Readonly<Record<string, PeerConfig>>,
  options: Omit<CreateHostOptions, 'peers'> = {},
): Promise<Host> {
  const host = createHost({ ...options, peers });
  hosts.push(host);
  await host.start();
  return host;
}

const toolsOf = (host: Host): string[] => [...host.catalog().entries.keys()];
const day = 86_400_000;

/** A store that shows what is in it. */
function openStore(): { store: Store; content: Map<string, string> } {
  const content = new Map<string, string>();
  const store: Store = {
    get: async (key) => content.get(key),
    set: async (key, value) => void content.set(key, value),
    delete: async (key) => void content.delete(key),
  };
  return { store, content };
}

describe('one URL, different tokens, tools that depend on the token', () => {
  test.each<[string, JsonObject, boolean]>([
    ['private', { cacheScope: 'private' }, false],
    ['not said', {}, false],
    ['public', { cacheScope: 'public' }, true],
  ])('scope %s', async (_, scope, isShared) => {
    const { config } = await tokenServer([{ ttlMs: day, ...scope }]);
    const store = createMemoryStore();
    const [one, two] = [
      await hostOf({ it: config('alice') }, { store }),
      await hostOf({ it: config('bob') }, { store }),
    ];
    expect([toolsOf(one), toolsOf(two)]).toEqual([['alice_0'], [isShared ? 'alice_0' : 'bob_0']]);
  });

  test('in one host, as two peers', async () => {
    const { config } = await tokenServer([{ ttlMs: day, cacheScope: 'private' }]);
    const host = await hostOf({ a: config('alice'), b: config('bob') });
    expect(toolsOf(host)).toEqual(['alice_0', 'bob_0']);
    expect((await host.listPrompts()).items.map(({ peer, name }) => `${peer} ${name}`)).toEqual([
      'a alice_0',
      'b bob_0',
    ]);
  });
});

test('no token, header or variable is in what is stored, neither in the keys nor in the values', async () => {
  const { store, content } = openStore();
  const { config } = await tokenServer([{ ttlMs: day, cacheScope: 'private' }], (answer) =>
    answer.replaceAll('s3cret', 'somebody'),
  );
  const host = await hostOf({ it: config('s3cret') }, { store });
  await host.listPrompts();
  await host.readResource('it', 'note:///a');
  await idle();
  expect(content.size).toBe(3);
  const dump = JSON.stringify([...content]);
  for (const part of ['s3cret', 'Bearer', 'uthorization', '127.0.0.1']) expect(dump).not.toContain(part);
});

test.each(['modern', 'legacy'] as const)(
  'reading a list a hundred times at once has no side effect (%s)',
  async (era) => {
    const lib = library({ era });
    const host = await hostOf({ lib: lib.config });
    const events: unknown[] = [];
    for (const event of ['peer', 'catalogChanged', 'listChanged'] as const) {
      host.on(event, (detail) => events.push(detail));
    }
    const [first] = await Promise.all(Array.from({ length: 100 }, () => host.listPrompts()));
    const before = host.status();
    const heard = lib.fake.heard.length;
    const leases = new Set(Array.from({ length: 100 }, () => host.catalog().revision));
    const lists = await Promise.all(Array.from({ length: 100 }, () => host.listPrompts()));
    expect(leases.size).toBe(1);
    for (const list of lists) expect(list).toEqual(first);
    expect(lib.count('prompts/list')).toBe(1);
    expect(lib.fake.heard).toHaveLength(heard);
    const after = host.status();
    const ageless = (status: typeof after) => JSON.stringify(status).replace(/"(ageMs|agoMs)":\d+/g, '');
    expect(ageless(after)).toBe(ageless(before));
    expect(events).toEqual([]);
  },
);

test('a list that failed is not kept as an empty one, neither here nor for others', async () => {
  const clock = createSimulatedClock();
  const { store, content } = openStore();
  const libs = [0, 1].map(() =>
    library({ identity: 'failing', hints: () => ({ ttlMs: day, cacheScope: 'public' }) }),
  );
  const [one, two] = libs as [(typeof libs)[0], (typeof libs)[0]];
  for (const method of ['tools/list', 'prompts/list', 'resources/read']) one.failing.add(method);
  const first = await hostOf({ it: one.config }, { store, clock });
  expect(await first.listPrompts()).toMatchObject({ items: [], problems: [{ peer: 'it' }] });
  expect(await first.readResource('it', 'note:///a')).toMatchObject({ status: 'protocol-error' });
  await idle();
  expect(content.size).toBe(0);
  const second = await hostOf({ it: two.config }, { store, clock });
  expect(toolsOf(second)).toEqual(['search']);
  one.failing.clear();
  await pass(clock, 1_000);
  first.catalog();
  await idle();
  expect(toolsOf(first)).toEqual(['search']);
  expect((await first.listPrompts()).items).toHaveLength(1);
});

test('fifty reads of the lists cost no request, and a change at one server asks only that one', async () => {
  const clock = createSimulatedClock();
  const libs = Object.fromEntries(
    Array.from({ length: 10 }, (_, i) => [`p${i}`, library({ capabilities: CHANGING })] as const),
  );
  const host = await hostOf(
    Object.fromEntries(Object.entries(libs).map(([name, lib]) => [name, lib.config])),
    { clock },
  );
  await host.listPrompts();
  await pass(clock, 1_000);
  const counts = () => Object.values(libs).map((lib) => [lib.count('tools/list'), lib.count('prompts/list')]);
  const before = counts();
  for (let i = 0; i < 50; i += 1) {
    host.catalog();
    await host.listPrompts();
    await pass(clock, 60_000);
  }
  expect(counts()).toEqual(before);
  libs['p3']?.announce('tools');
  libs['p3']?.announce('prompts');
  await pass(clock, 1_000);
  expect(counts()).toEqual(
    before.map(([tools = 0, prompts = 0], i) => (i === 3 ? [tools + 1, prompts + 1] : [tools, prompts])),
  );
});

describe('hints of a modern server that it must give, and does not, or not as it should', () => {
  test.each<[string, JsonObject, string]>([
    ['neither', {}, ''],
    ['no ttl', { cacheScope: 'public' }, ''],
    ['no scope', { ttlMs: 60_000 }, ''],
    ['a negative ttl', { ttlMs: -1, cacheScope: 'public' }, ''],
    ['a huge one', { ttlMs: 1e300, cacheScope: 'public' }, ''],
    ['one that is no finite number', { ttlMs: 4711, cacheScope: 'public' }, '1e999'],
    ['a fraction', { ttlMs: 0.5, cacheScope: 'public' }, ''],
    ['a text', { ttlMs: '60000', cacheScope: 'public' }, ''],
    ['a list', { ttlMs: [60_000], cacheScope: ['public'] }, ''],
    ['nulls', { ttlMs: null, cacheScope: null }, ''],
  ])('%s: its lists are there all the same', async (_, hints, raw) => {
    const { config, heardBy } = await tokenServer([hints], (answer) =>
      raw === '' ? answer : answer.replaceAll('4711', raw),
    );
    const host = await hostOf({ it: config('alice') });
    for (let i = 0; i < 10; i += 1) {
      expect(toolsOf(host)).toEqual(['alice_0']);
      expect(await host.listPrompts()).toMatchObject({ items: [{ name: 'alice_0' }], problems: [] });
      expect(await host.readResource('it', 'note:///a')).toMatchObject({ status: 'ok' });
    }
    expect(heardBy('alice', 'tools/list')).toBe(1);
    expect(heardBy('alice', 'prompts/list')).toBe(1);
  });
});

test('without a ttl nothing is kept for others, and the lists of this connection serve on', async () => {
  const clock = createSimulatedClock();
  const { store, content } = openStore();
  const lib = library();
  const host = await hostOf({ lib: lib.config }, { store, clock });
  await host.listPrompts();
  for (let i = 0; i < 24; i += 1) {
    await pass(clock, 3_600_000);
    expect(host.catalog().entries.get('search')).toMatchObject({ freshness: 'fresh' });
    expect(await host.listPrompts()).toMatchObject({ items: [{ freshness: 'fresh' }], problems: [] });
  }
  expect([lib.count('tools/list'), lib.count('prompts/list')]).toEqual([1, 1]);
  expect(content.size).toBe(0);
});

test('a server that was upgraded behind the same name is asked, whatever a lasting store has of it', async () => {
  const { store } = openStore();
  const old = library({ identity: 'label', hints: () => ({ ttlMs: day, cacheScope: 'public' }) });
  const before = await hostOf({ it: old.config }, { store });
  expect(toolsOf(before)).toEqual(['search']);
  await before.stop();
  const upgraded = library({
    identity: 'label',
    version: '1.0.1',
    hints: () => ({ ttlMs: day, cacheScope: 'public' }),
  });
  upgraded.items.tools = [tool('search', { description: 'Another one.' }), tool('added')];
  const after = await hostOf({ it: upgraded.config }, { store });
  expect(toolsOf(after)).toEqual(['added', 'search']);
  expect(after.catalog().entries.get('search')?.description).toBe('Another one.');
});

describe.each(['modern', 'legacy'] as const)('a %s server', (era) => {
  test('that lists one tool at first and tells of nine more two seconds later', async () => {
    const clock = createSimulatedClock();
    const lib = library({ era, capabilities: CHANGING });
    const host = await hostOf({ lib: lib.config }, { clock });
    expect(toolsOf(host)).toEqual(['search']);
    await pass(clock, 2_000);
    lib.items.tools.push(...Array.from({ length: 9 }, (_, i) => tool(`late${i}`)));
    const changes: number[] = [];
    host.on('catalogChanged', ({ added }) => changes.push(added.length));
    lib.announce('tools');
    await pass(clock, 1_000);
    expect(changes).toEqual([9]);
    expect(toolsOf(host)).toHaveLength(10);
    expect(await host.call('late8', {})).toMatchObject({ status: 'ok' });
  });

  test('one of whose tools adds another: the host tells of it, in the merged lease', async () => {
    const clock = createSimulatedClock();
    const lib = library({
      era,
      capabilities: CHANGING,
      on: ({ method, params }) => {
        if (method !== 'tools/call' || params?.['name'] !== 'add_tool') return undefined;
        lib.items.tools.push(tool('added'));
        lib.items.prompts.push(prompt('added'));
        lib.announce('tools');
        lib.announce('prompts');
        return undefined;
      },
    });
    lib.items.tools = [tool('add_tool')];
    const other = library({ era });
    const host = await hostOf({ lib: lib.config, other: other.config }, { clock });
    await host.listPrompts();
    const told: string[] = [];
    host.on('catalogChanged', ({ added, removed }) => told.push(`+${added.join()} -${removed.join()}`));
    host.on('listChanged', ({ peer, kind }) => told.push(`${peer} ${kind}`));
    const lease = host.catalog();
    expect(await lease.call('add_tool', {})).toMatchObject({ status: 'ok' });
    await pass(clock, 1_000);
    expect(told.sort()).toEqual(['+added -', 'lib prompts']);
    expect(toolsOf(host)).toEqual(['add_tool', 'added', 'search']);
    expect(lease.entries.has('added')).toBe(false);
    expect(await host.call('added', {})).toMatchObject({ status: 'ok', peer: 'lib' });
    expect((await host.listPrompts()).items.map(({ name }) => name)).toEqual(['greet', 'added', 'greet']);
  });
});
