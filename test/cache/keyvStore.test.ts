import { EventEmitter } from 'node:events';
import { Keyv } from 'keyv';
import { describe, expect, test } from 'vitest';
import type { CacheableRequest, CachePartition } from '../../src/cache/entry.js';
import { createKeyvStore, type KeyvLike } from '../../src/cache/keyvStore.js';
import { type CacheFault, ResponseCache } from '../../src/cache/responseCache.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { quiet } from '../../src/testing/drive.js';

const alice: CachePartition = { identity: 'aa', context: 'a1' };
const tools: CacheableRequest = { method: 'tools/list', params: '', revision: '2026-07-28', server: 's/1' };

/** A backend for a Keyv that does the same for every operation. */
function backend(act: (events: EventEmitter) => Promise<unknown>) {
  const events = new EventEmitter();
  const perform = () => act(events) as Promise<never>;
  return Object.assign(events, {
    opts: {},
    get: perform,
    set: perform,
    delete: perform,
    clear: async () => {},
  });
}

/** What one write and one read over this Keyv count, and what the read finds. */
async function writeAndRead(keyv: KeyvLike) {
  const clock = createSimulatedClock();
  const faults: CacheFault[] = [];
  const cache = new ResponseCache({
    store: createKeyvStore(keyv),
    now: Date.now,
    clock,
    onFault: (kind) => faults.push(kind),
  });
  await cache.write(cache.begin(alice, tools), { value: { tools: [] }, ttlMs: 60_000, scope: 'private' });
  const found = await cache.read(alice, tools);
  expect(clock.pendingTimers).toBe(0);
  return { value: found?.value, faults };
}

describe('a Keyv as the store', () => {
  test('keeps, returns and removes texts, also such as its serializer treats specially', async () => {
    const store = createKeyvStore(new Keyv());
    for (const text of ['plain', ':colon', ':base64:AAAA', '', '{"a":":b"}']) {
      await store.set('key', text, 60_000);
      expect(await store.get('key')).toBe(text);
    }
    await store.delete('key');
    expect(await store.get('key')).toBeUndefined();
    await store.delete('key');
  });

  test('hands the ttl on', async () => {
    const given: unknown[] = [];
    const keyv = {
      get: async () => {},
      set: async (...args: unknown[]) => given.push(args),
      delete: async () => {},
    };
    await createKeyvStore(keyv).set('key', 'text', 1_234);
    expect(given).toEqual([['key', 'text', 1_234]]);
  });

  test('works under a cache', async () => {
    expect(await writeAndRead(new Keyv())).toEqual({ value: { tools: [] }, faults: [] });
  });
});

describe('a Keyv whose backend fails', () => {
  const all = ['cache-write', 'cache-write', 'cache-read', 'cache-read'];
  const rejecting = () => backend(() => Promise.reject(new Error('down')));
  // What the adapter for Redis does.
  const reporting = () =>
    backend(async (events) => {
      events.emit('error', new Error('down'));
    });

  test('and says so only by an event: faults, though Keyv reports a miss and a success', async () => {
    expect(await writeAndRead(new Keyv(reporting()))).toEqual({ value: undefined, faults: all });
  });

  test('and swallows what reads throw: writes are known to have failed', async () => {
    const { faults } = await writeAndRead(new Keyv(rejecting()));
    expect(faults).toEqual(['cache-write', 'cache-write']);
  });

  test('and throws, because it was told to: faults', async () => {
    expect(await writeAndRead(new Keyv(rejecting(), { throwOnErrors: true }))).toEqual({
      value: undefined,
      faults: all,
    });
  });

  test('and emits like an EventEmitter, where an error without a listener is thrown', async () => {
    const keyv = reporting();
    expect(await writeAndRead(keyv)).toEqual({ value: undefined, faults: all });
    expect(() => keyv.emit('error', new Error('much later'))).not.toThrow();
  });

  test('and has a listener of the host that throws', async () => {
    const keyv = new Keyv(reporting());
    createKeyvStore(keyv);
    keyv.on('error', () => {
      throw new Error('the listener is broken too');
    });
    expect((await writeAndRead(keyv)).faults).toEqual(all);
  });

  test.each([42, { value: 1 }, ['text'], Buffer.from('{}')])(
    'and returns %o: not used, and counted',
    async (value) => {
      const keyv = { get: async () => value, set: async () => true, delete: async () => true };
      expect(await writeAndRead(keyv)).toEqual({ value: undefined, faults: ['cache-read', 'cache-read'] });
    },
  );

  test('and holds what is no JSON', async () => {
    const keyv = new Keyv(backend(async () => '{"broken'));
    expect((await writeAndRead(keyv)).faults).toEqual(['cache-read', 'cache-read']);
  });

  test('and hangs: bounded by the cache', async () => {
    const clock = createSimulatedClock();
    const faults: CacheFault[] = [];
    const store = createKeyvStore(new Keyv(backend(() => new Promise(() => {}))));
    const cache = new ResponseCache({ store, now: Date.now, clock, onFault: (kind) => faults.push(kind) });
    const reading = cache.read(alice, tools);
    await quiet();
    clock.advance(1_000);
    expect(await reading).toBeNull();
    expect(faults).toEqual(['cache-read', 'cache-read']);
  });

  test('is listened to once, however many stores are made of it', () => {
    const keyv = new Keyv();
    for (let at = 0; at < 200; at += 1) createKeyvStore(keyv);
    expect(keyv.listeners('error')).toHaveLength(1);
  });
});
