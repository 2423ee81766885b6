import { describe, expect, test } from 'vitest';
import type { CacheableRequest, CachePartition } from '../../src/cache/entry.js';
import { Invalidations } from '../../src/cache/invalidations.js';
import { createMemoryStore } from '../../src/cache/memoryStore.js';
import { type CacheFault, ResponseCache } from '../../src/cache/responseCache.js';
import type { Store } from '../../src/cache/store.js';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { quiet } from '../../src/testing/drive.js';
import { openStore } from './stores.js';

const DAY_MS = 24 * 60 * 60 * 1_000;
const alice: CachePartition = { identity: 'aa', context: 'a1' };
const bob: CachePartition = { identity: 'aa', context: 'b1' };
const elsewhere: CachePartition = { identity: 'bb', context: 'a1' };
const tools: CacheableRequest = { method: 'tools/list', params: '', revision: '2026-07-28', server: 's/1' };

function rig(store: Store = openStore(), startMs = 1_000_000) {
  const wall = { nowMs: startMs };
  const clock = createSimulatedClock();
  const faults: CacheFault[] = [];
  const make = () =>
    new ResponseCache({ store, now: () => wall.nowMs, clock, onFault: (kind) => faults.push(kind) });
  const cache = make();
  const put = (
    partition: CachePartition,
    value: JsonValue,
    { ttlMs = 1_000, scope = 'private' as 'public' | 'private', request = tools, by = cache } = {},
  ) => by.write(by.begin(partition, request), { value, ttlMs, scope });
  const read = async (partition: CachePartition, request = tools, by = cache) =>
    (await by.read(partition, request))?.value;
  return { wall, clock, faults, cache, make, put, read };
}

describe('who may see an answer', () => {
  test('a private one belongs to the context it was fetched in', async () => {
    const { put, read } = rig();
    await put(alice, 'of alice');
    expect(await read(alice)).toBe('of alice');
    expect(await read(bob)).toBeUndefined();
    expect(await read(elsewhere)).toBeUndefined();
  });

  test('a public one to every context of the same server, and to no other server', async () => {
    const { put, read, cache } = rig();
    await put(alice, 'of all', { scope: 'public' });
    expect(await read(bob)).toBe('of all');
    expect(await read(elsewhere)).toBeUndefined();
    expect(await cache.read(bob, tools)).toEqual({
      value: 'of all',
      ageMs: 0,
      freshForMs: 1_000,
      scope: 'public',
    });
  });

  test('what is neither is private', async () => {
    const { put, read } = rig();
    await put(alice, 'unmarked', { scope: undefined as never });
    await put(alice, 'unknown', { scope: 'shared' as never });
    expect(await read(alice)).toBe('unknown');
    expect(await read(bob)).toBeUndefined();
  });

  test('the own private entry comes before the public one of another', async () => {
    const { put, read } = rig();
    await put(alice, 'of alice');
    await put(bob, 'of all', { scope: 'public' });
    expect(await read(alice)).toBe('of alice');
    expect(await read(bob)).toBe('of all');
  });

  test('a server that changes its mind about the scope leaves no entry of the other scope', async () => {
    const { put, read } = rig();
    await put(alice, 'of all', { scope: 'public' });
    await put(alice, 'of alice');
    expect([await read(alice), await read(bob)]).toEqual(['of alice', undefined]);
    await put(alice, 'of all again', { scope: 'public' });
    expect([await read(alice), await read(bob)]).toEqual(['of all again', 'of all again']);
  });

  test('method, params, revision and server divide, also where the parts run into each other', async () => {
    const { put, read } = rig();
    const variants: CacheableRequest[] = [
      tools,
      { ...tools, method: 'prompts/list' },
      { ...tools, params: '"cursor":"2"' },
      { ...tools, params: 's', server: '/1' },
      { ...tools, params: '","', server: '' },
      { ...tools, params: '', server: '","' },
      { ...tools, revision: '2026-07-28","' },
      { ...tools, server: 's/2' },
    ];
    for (const [at, request] of variants.entries()) await put(alice, at, { request });
    const seen = await Promise.all(variants.map((request) => read(alice, request)));
    expect(seen).toEqual(variants.map((_, at) => at));
    // A context that is written like the end of an identity is not the public entry of another server.
    await put({ identity: 'aa","a1', context: '' }, 'run together', { scope: 'public' });
    expect(await read({ identity: 'aa', context: 'a1' }, { ...tools, params: 'new' })).toBeUndefined();
  });

  test('keys are hashes: nothing that was asked can be read in them', async () => {
    const store = openStore();
    const { put } = rig(store);
    await put({ identity: 'id-hunter2', context: 'ctx-hunter2' }, 1, {
      request: { ...tools, method: 'resources/read', params: '{"uri":"file:///hunter2"}', server: 'hunter2' },
    });
    expect([...store.entries.keys()]).toEqual([expect.stringMatching(/^[0-9a-f]{64}$/)]);
    expect([...store.entries.values()].join()).not.toContain('hunter2');
  });
});

describe('for how long', () => {
  test('while now < received + ttl, whatever the store still has', async () => {
    const { wall, put, cache } = rig();
    await put(alice, 1, { ttlMs: 500 });
    wall.nowMs += 499;
    expect(await cache.read(alice, tools)).toMatchObject({ value: 1, ageMs: 499, freshForMs: 1 });
    wall.nowMs += 1;
    expect(await cache.read(alice, tools)).toBeNull();
  });

  test.each([0, -1, 0.5, Number.NaN, Number.NEGATIVE_INFINITY])(
    'a ttl of %d stores nothing',
    async (ttlMs) => {
      const store = openStore();
      const { put } = rig(store);
      await put(alice, 1, { ttlMs });
      expect(store.entries.size).toBe(0);
    },
  );

  test.each([DAY_MS + 1, 1e300, Number.POSITIVE_INFINITY])('a ttl of %d is 24 h', async (ttlMs) => {
    const { wall, put, cache } = rig(openStore(), 1_000_000.7);
    await put(alice, 1, { ttlMs });
    expect((await cache.read(alice, tools))?.freshForMs).toBeLessThanOrEqual(DAY_MS);
    wall.nowMs += DAY_MS - 1;
    expect(await cache.read(alice, tools)).toMatchObject({ value: 1 });
    wall.nowMs += 1;
    expect(await cache.read(alice, tools)).toBeNull();
  });

  test('the store is told the ttl, whole and at most 24 h', async () => {
    const ttls: number[] = [];
    const store: Store = {
      ...openStore(),
      async set(_, __, ttlMs) {
        ttls.push(ttlMs);
      },
    };
    const { put } = rig(store);
    await put(alice, 1, { ttlMs: 1.9 });
    await put(alice, 1, { ttlMs: 1e12 });
    expect(ttls).toEqual([1, DAY_MS]);
  });

  test('an entry of a clock that is a little ahead is used for no longer than its ttl; far ahead, it is a fault', async () => {
    const { wall, put, cache, faults } = rig();
    await put(alice, 1, { ttlMs: 500 });
    wall.nowMs -= 60_000;
    expect(await cache.read(alice, tools)).toEqual({
      value: 1,
      ageMs: 0,
      freshForMs: 500,
      scope: 'private',
    });
    expect(faults).toEqual([]);
    wall.nowMs -= 1;
    expect(await cache.read(alice, tools)).toBeNull();
    expect(faults).toEqual(['cache-value']);
  });
});

describe('what may be stored', () => {
  test.each(['server/discover', 'tools/call', 'prompts/get', 'completion/complete', 'constructor', ''])(
    'not the answer to "%s"',
    async (method) => {
      const store = openStore();
      const { put, read } = rig(store);
      const request = { ...tools, method };
      await expect(put(alice, 1, { request })).rejects.toThrow(RangeError);
      expect(await read(alice, request)).toBeUndefined();
      expect(store.entries.size).toBe(0);
    },
  );

  test.each(['tools/list', 'prompts/list', 'resources/list', 'resources/templates/list', 'resources/read'])(
    'the answer to %s',
    async (method) => {
      const { put, read } = rig();
      await put(alice, { of: method }, { request: { ...tools, method } });
      expect(await read(alice, { ...tools, method })).toEqual({ of: method });
    },
  );

  test('values come back as they were, hostile names included, and are no one else’s object', async () => {
    const { put, cache } = rig();
    const value = JSON.parse('{"__proto__":{"x":1},"a":[null,1.5,"\\u2028 :base64:",{"constructor":1}]}');
    const before = structuredClone(JSON.stringify(value));
    await put(alice, value);
    value.a.push('changed afterwards');
    const [one, other] = [await cache.read(alice, tools), await cache.read(alice, tools)];
    expect(JSON.stringify(one?.value)).toBe(before);
    expect(one?.value).not.toBe(other?.value);
  });

  test('a value that cannot be written as JSON is a fault, and what it was to replace is not used', async () => {
    const { put, read, faults } = rig();
    await put(alice, 'before');
    let deep: JsonValue = 0;
    for (let depth = 0; depth < 200_000; depth += 1) deep = [deep];
    await put(alice, deep);
    expect(faults).toEqual(['cache-value']);
    expect(await read(alice)).toBeUndefined();
  });
});

describe('invalidation', () => {
  test('removes the own private entry and the public one, of that request alone', async () => {
    const { put, read, cache } = rig();
    const prompts = { ...tools, method: 'prompts/list' };
    await put(alice, 'tools');
    await put(alice, 'prompts', { request: prompts });
    await put(bob, 'of all', { scope: 'public' });
    await put(bob, 'of bob', { request: prompts });
    await cache.invalidate(alice, tools);
    expect([
      await read(alice),
      await read(bob),
      await read(alice, prompts),
      await read(bob, prompts),
    ]).toEqual([undefined, undefined, 'prompts', 'of bob']);
  });

  test('holds at once, before the store has done it, also for a read under way', async () => {
    const store = openStore();
    const gates: (() => void)[] = [];
    const slow: Store = {
      ...store,
      async get(key) {
        const value = store.entries.get(key);
        await new Promise<void>((resolve) => gates.push(resolve));
        return value;
      },
      delete: () => new Promise(() => {}),
    };
    const { clock, cache } = rig(slow);
    const writing = cache.write(cache.begin(alice, tools), { value: 1, ttlMs: 1_000, scope: 'private' });
    clock.advance(1_000);
    await writing;
    const before = cache.read(alice, tools);
    const invalidating = cache.invalidate(alice, tools);
    const after = cache.read(alice, tools);
    for (const open of gates) open();
    expect([await before, await after]).toEqual([null, null]);
    clock.advance(1_000);
    await invalidating;
    expect(clock.pendingTimers).toBe(0);
  });

  test('holds for a public entry that was found already while the private one is still asked for', async () => {
    const store = openStore();
    let open = (): void => {};
    let gets = 0;
    const half: Store = {
      ...store,
      async get(key) {
        gets += 1;
        // The public entry is asked for first.
        if (gets === 2) {
          await new Promise<void>((resolve) => {
            open = resolve;
          });
        }
        return store.entries.get(key);
      },
    };
    const { cache, put } = rig(half);
    await put(bob, 'of all', { scope: 'public' });
    const reading = cache.read(alice, tools);
    await quiet();
    await cache.invalidate(bob, tools);
    open();
    expect(await reading).toBeNull();
  });

  test('an answer whose fetch was begun before is not stored', async () => {
    const store = openStore();
    const { cache, read } = rig(store);
    const early = cache.begin(alice, tools);
    await cache.invalidate(alice, tools);
    await cache.write(early, { value: 'torn', ttlMs: 1_000, scope: 'private' });
    await cache.write(early, { value: 'torn', ttlMs: 1_000, scope: 'public' });
    expect(store.entries.size).toBe(0);
    await cache.write(cache.begin(alice, tools), { value: 'new', ttlMs: 1_000, scope: 'private' });
    expect(await read(alice)).toBe('new');
  });

  test('an answer that comes too late does not touch the newer one', async () => {
    const store = openStore();
    const texts: string[] = [];
    const { cache, read } = rig({
      ...store,
      set: (key, value, ttlMs) => {
        texts.push(value);
        return store.set(key, value, ttlMs);
      },
    });
    const early = cache.begin(alice, tools);
    await cache.invalidate(alice, tools);
    await cache.write(cache.begin(alice, tools), { value: 'new', ttlMs: 1_000, scope: 'public' });
    await cache.write(early, { value: 'torn', ttlMs: 1_000, scope: 'public' });
    expect(await read(alice)).toBe('new');
    expect(texts.join()).not.toContain('torn');
  });

  test('holds for a read under way also if the entry is of another process whose clock is ahead', async () => {
    const store = openStore();
    const { wall, make, put, cache } = rig(store);
    wall.nowMs += 30_000;
    await put(alice, 1, { by: make() });
    wall.nowMs -= 30_000;
    const reading = cache.read(alice, tools);
    const invalidating = cache.invalidate(alice, tools);
    expect(await reading).toBeNull();
    await invalidating;
  });

  test('an answer that is on its way to the store then is removed again, though the removal came first', async () => {
    const store = openStore();
    let open = (): void => {};
    const slow: Store = {
      ...store,
      async set(key, value) {
        await new Promise<void>((resolve) => {
          open = resolve;
        });
        store.entries.set(key, value);
      },
    };
    const { cache } = rig(slow);
    const writing = cache.write(cache.begin(alice, tools), { value: 1, ttlMs: 1_000, scope: 'private' });
    await cache.invalidate(alice, tools);
    open();
    await writing;
    expect(store.entries.size).toBe(0);
  });

  test('of what another instance wrote before it, nothing is used, even if the store keeps it', async () => {
    const store = { ...openStore(), delete: async () => {} };
    const { wall, make, put, read, cache } = rig(store);
    const other = make();
    await put(alice, 'old', { by: other });
    expect(await read(alice)).toBe('old');
    await cache.invalidate(alice, tools);
    expect(await read(alice)).toBeUndefined();
    wall.nowMs += 1;
    await put(alice, 'new', { by: other });
    expect(await read(alice)).toBe('new');
  });

  test('another instance finds nothing of it in a store that works', async () => {
    const { make, put, read, cache } = rig();
    const other = make();
    await put(alice, 'shared', { scope: 'public', by: other });
    expect(await read(bob)).toBe('shared');
    await cache.invalidate(bob, tools);
    expect(await read(alice, tools, other)).toBeUndefined();
  });

  test('what is remembered of it is bounded, and what is forgotten holds for all', () => {
    const marks = new Invalidations(2);
    for (let at = 1; at <= 5; at += 1) marks.add(`key ${at}`, { order: at, atMs: at * 10 });
    expect(marks.size).toBe(2);
    expect(['key 1', 'key 4', 'key 5', 'never marked'].map((key) => marks.of(key))).toEqual([
      { order: 3, atMs: 30 },
      { order: 4, atMs: 40 },
      { order: 5, atMs: 50 },
      { order: 3, atMs: 30 },
    ]);
    // An older mark that comes late takes nothing back.
    marks.add('key 5', { order: 1, atMs: 1 });
    expect(marks.of('key 5')).toEqual({ order: 5, atMs: 50 });
  });
});

describe('a store that is broken', () => {
  const failing = (fail: () => Promise<never>): Store => ({ get: fail, set: fail, delete: fail });
  const broken: [string, Store][] = [
    ['rejects', failing(() => Promise.reject(new Error('no')))],
    [
      'throws',
      failing(() => {
        throw new Error('no');
      }),
    ],
    ['returns nothing that can be awaited', failing((() => undefined) as never)],
    ['has none of the functions', {} as Store],
  ];
  test.each(broken)('that %s: misses, and faults that are counted', async (what, store) => {
    const { put, read, cache, clock, faults } = rig(store);
    await put(alice, 1);
    expect(await read(alice)).toBeUndefined();
    await cache.invalidate(alice, tools);
    expect(clock.pendingTimers).toBe(0);
    const expected =
      what === 'returns nothing that can be awaited'
        ? []
        : ['cache-write', 'cache-write', 'cache-read', 'cache-read', 'cache-write', 'cache-write'];
    expect(faults).toEqual(expected);
  });

  test('that hangs: each operation ends at its bound, no timer is left, a late rejection is nobody’s', async () => {
    const rejects: (() => void)[] = [];
    const hanging = failing(
      () => new Promise((_, reject) => rejects.push(() => reject(new Error('much later')))),
    );
    const { clock, cache, faults } = rig(hanging);
    const reading = cache.read(alice, tools);
    clock.advance(999);
    await quiet();
    expect(faults).toEqual([]);
    clock.advance(1);
    expect(await reading).toBeNull();
    expect(faults).toEqual(['cache-read', 'cache-read']);
    expect(clock.pendingTimers).toBe(0);
    for (const reject of rejects) reject();
    await quiet();
    expect(faults).toHaveLength(2);
  });

  test('that hangs again and again is left alone for a while, then asked once', async () => {
    let asked = 0;
    let hangs = true;
    const store: Store = {
      ...openStore(),
      get: () => {
        asked += 1;
        return hangs ? new Promise(() => {}) : Promise.resolve(undefined);
      },
    };
    const { clock, cache, faults } = rig(store);
    const readWithin = async () => {
      const reading = cache.read(alice, tools);
      clock.advance(1_000);
      expect(await reading).toBeNull();
    };
    for (let at = 0; at < 10; at += 1) await readWithin();
    // Two questions a read: the third read brings the fifth that hangs, and one that was under way.
    expect(asked).toBe(6);
    expect(faults).toHaveLength(20);
    expect(await cache.read(alice, tools)).toBeNull();
    clock.advance(30_000);
    await readWithin();
    expect(asked).toBe(7);
    hangs = false;
    clock.advance(30_000);
    expect(await cache.read(alice, tools)).toBeNull();
    expect(asked).toBe(8);
    expect(await cache.read(alice, tools)).toBeNull();
    expect(asked).toBe(10);
  });

  test.each([
    ['', 'cache-value'],
    ['garbage', 'cache-value'],
    ['"text"', 'cache-value'],
    ['[1]', 'cache-value'],
    ['{"__proto__":{"format":1}}', 'cache-value'],
    [42, 'cache-value'],
    [{ format: 1 }, 'cache-value'],
    [null, undefined],
    [undefined, undefined],
  ])('that returns %j for everything', async (value, fault) => {
    const { read, faults } = rig({ ...openStore(), get: async () => value as never });
    expect(await read(alice)).toBeUndefined();
    expect(new Set(faults)).toEqual(new Set(fault === undefined ? [] : [fault]));
  });

  test('whose values were changed in one member each', async () => {
    const store = openStore();
    const { put, read, faults } = rig(store);
    await put(alice, 1);
    const [[key, text] = ['', '']] = [...store.entries];
    const good = JSON.parse(text);
    const { value: _, ...valueless } = good;
    const bad: unknown[] = [
      valueless,
      { ...good, format: 2 },
      { ...good, format: '1' },
      { ...good, key: 'f'.repeat(64) },
      { ...good, scope: 'public' },
      { ...good, writer: null },
      { ...good, order: '1' },
      { ...good, order: 1.5 },
      { ...good, begunAtMs: null },
      { ...good, receivedAtMs: 'now' },
      { ...good, expiresAtMs: good.receivedAtMs },
      { ...good, expiresAtMs: good.receivedAtMs + DAY_MS + 1 },
      { ...good, receivedAtMs: good.receivedAtMs + 10 * DAY_MS, expiresAtMs: good.expiresAtMs + 10 * DAY_MS },
    ];
    for (const [at, entry] of bad.entries()) {
      store.entries.set(key, JSON.stringify(entry));
      expect(await read(alice), JSON.stringify(entry)).toBeUndefined();
      expect(faults).toHaveLength(at + 1);
    }
    store.entries.set(key, text);
    expect(await read(alice)).toBe(1);
  });

  test('that hands a private value out under the public key, or one context’s under another’s', async () => {
    const store = openStore();
    const { put, read, faults } = rig(store);
    await put(alice, 'of alice');
    const [text = ''] = store.entries.values();
    const thief: Store = { ...store, get: async () => text };
    const { read: readStolen, faults: stolenFaults } = rig(thief);
    expect(await readStolen(bob)).toBeUndefined();
    expect(await readStolen(alice)).toBe('of alice');
    expect(stolenFaults).toEqual(['cache-value', 'cache-value', 'cache-value']);
    expect([await read(bob), faults]).toEqual([undefined, []]);
  });

  test('that cannot replace an entry: the old one is not used any more', async () => {
    const store = openStore();
    let full = false;
    const { put, read } = rig({
      ...store,
      set: async (key, value) => {
        if (full) throw new Error('full');
        store.entries.set(key, value);
      },
    });
    await put(alice, 'old');
    full = true;
    await put(alice, 'new');
    expect(store.entries.size).toBe(1);
    expect(await read(alice)).toBeUndefined();
  });

  test('that cannot remove the public entry which became private', async () => {
    const store = openStore();
    const { put, read } = rig({ ...store, delete: () => Promise.reject(new Error('read-only')) });
    await put(alice, 'of all', { scope: 'public' });
    await put(alice, 'of alice');
    expect([await read(alice), await read(bob)]).toEqual(['of alice', undefined]);
  });
});

test('the bounded store of the library: an answer that does not fit is a miss', async () => {
  const { put, read, faults } = rig(createMemoryStore({ maxBytes: 2_000 }));
  await put(alice, 'x'.repeat(2_000));
  expect(await read(alice)).toBeUndefined();
  await put(alice, 'small');
  expect(await read(alice)).toBe('small');
  expect(faults).toEqual([]);
});
