/** Processes that share what they cached, over Debian's Redis; and one that loses it. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import KeyvRedis, { createKeyv } from '@keyv/redis';
import { Keyv } from 'keyv';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { CacheableRequest, CachePartition } from '../../src/cache/entry.js';
import { createKeyvStore } from '../../src/cache/keyvStore.js';
import { type CacheFault, ResponseCache } from '../../src/cache/responseCache.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { type BuiltPackage, buildPackage } from '../support/builtPackage.js';
import { type RedisServer, startRedis, withoutRedis } from '../support/redis.js';

const alice: CachePartition = { identity: 'aa', context: 'a1' };
const bob: CachePartition = { identity: 'aa', context: 'b1' };
const tools: CacheableRequest = { method: 'tools/list', params: '', revision: '2026-07-28', server: 's/1' };
const prompts: CacheableRequest = { ...tools, method: 'prompts/list' };

const optionsFor = ({ socketPath }: RedisServer) => ({
  socket: { path: socketPath, tls: false as const },
  disableOfflineQueue: true,
});

describe.skipIf(withoutRedis)('over a real Redis', () => {
  let redis: RedisServer;
  let keyvs: Keyv[];

  beforeEach(async () => {
    keyvs = [];
    redis = await startRedis();
  });
  afterEach(async () => {
    try {
      for (const keyv of keyvs) await (keyv.store as KeyvRedis<string>).disconnect(true);
    } finally {
      await redis.remove();
    }
  });

  /** A cache as one process has it: its own connection, clock and counters. */
  function cacheOver(keyv: Keyv) {
    keyvs.push(keyv);
    const clock = createSimulatedClock();
    const faults: CacheFault[] = [];
    const cache = new ResponseCache({
      store: createKeyvStore(keyv),
      now: Date.now,
      clock,
      onFault: (kind) => faults.push(kind),
    });
    const write = (partition: CachePartition, value: string, scope: 'public' | 'private', request = tools) =>
      cache.write(cache.begin(partition, request), { value, ttlMs: 60_000, scope });
    const read = async (partition: CachePartition, request = tools) =>
      (await cache.read(partition, request))?.value;
    return { cache, clock, faults, write, read };
  }

  /** As the documentation recommends it: connected before it is used, since nothing waits for a connection then. */
  const recommended = async (): Promise<Keyv> => {
    const keyv = createKeyv(optionsFor(redis), { namespace: 'peerage', throwOnErrors: true });
    await (keyv.store as KeyvRedis<string>).getClient();
    return keyv;
  };
  /** As it is when nothing is said: errors are swallowed, commands are queued until Redis is back. */
  const plain = () => new Keyv(new KeyvRedis({ socket: { path: redis.socketPath, tls: false } }));

  test.each([
    ['as recommended', recommended],
    ['without options', plain],
  ])(
    'two clients share public entries, and no private ones of different contexts (%s)',
    async (_, connect) => {
      const one = cacheOver(await connect());
      const other = cacheOver(await connect());
      await one.write(alice, 'of all', 'public');
      await one.write(alice, 'of alice', 'private', prompts);
      expect(await other.read(bob)).toBe('of all');
      expect(await other.read(bob, prompts)).toBeUndefined();
      // The same context may be asked for by more than one process.
      expect(await other.read(alice, prompts)).toBe('of alice');
      await other.write(bob, 'of bob', 'private', prompts);
      expect([await one.read(alice, prompts), await one.read(bob, prompts)]).toEqual(['of alice', 'of bob']);
      await other.cache.invalidate(bob, tools);
      expect([await one.read(alice), await other.read(bob)]).toEqual([undefined, undefined]);
      expect([one.faults, other.faults]).toEqual([[], []]);
    },
  );

  test('Redis itself forgets what has expired: the ttl reaches it', async () => {
    const keyv = await recommended();
    const { write } = cacheOver(keyv);
    await write(alice, 'of all', 'public');
    const client = await (keyv.store as KeyvRedis<string>).getClient();
    if (!('pTTL' in client)) throw new Error('not a plain client');
    const keys = await client.keys('*');
    expect(keys).toEqual([expect.stringMatching(/^peerage::[0-9a-f]{64}$/)]);
    const ttlMs = Number(await client.pTTL(keys[0] as string));
    expect(ttlMs).toBeGreaterThan(0);
    expect(ttlMs).toBeLessThanOrEqual(60_000);
  });

  test('killed in the middle: misses and faults, and hits again when it is back', async () => {
    const keyv = await recommended();
    const { cache, faults, write, read } = cacheOver(keyv);
    await write(alice, 'of all', 'public');
    expect(await read(bob)).toBe('of all');
    await redis.kill();
    expect(await read(bob)).toBeUndefined();
    await write(alice, 'again', 'public');
    await cache.invalidate(alice, tools);
    expect(new Set(faults)).toEqual(new Set(['cache-read', 'cache-write']));
    await redis.start();
    await expect
      .poll(
        async () => {
          await write(alice, 'back', 'public');
          return read(bob);
        },
        { timeout: 20_000, interval: 20 },
      )
      .toBe('back');
  });

  test('killed in the middle, with a client that queues commands: bounded in time', async () => {
    const { cache, clock, faults, write, read } = cacheOver(plain());
    await write(alice, 'of all', 'public');
    expect(await read(bob)).toBe('of all');
    await redis.kill();
    // What is asked first may fail with the connection, or be queued like what comes after it.
    for (let at = 0; at < 3; at += 1) {
      const reading = read(bob);
      const invalidating = cache.invalidate(bob, prompts);
      clock.advance(1_000);
      expect(await reading).toBeUndefined();
      await invalidating;
    }
    expect(new Set(faults)).toEqual(new Set(['cache-read', 'cache-write']));
    expect(clock.pendingTimers).toBe(0);
  });

  test('standing still, with open connections: bounded in time', async () => {
    const { clock, faults, write, read } = cacheOver(await recommended());
    await write(alice, 'of all', 'public');
    expect(await read(bob)).toBe('of all');
    redis.freeze();
    const reading = read(bob);
    clock.advance(1_000);
    expect(await reading).toBeUndefined();
    expect(faults).toEqual(['cache-read', 'cache-read']);
    redis.thaw();
    expect(await read(bob)).toBe('of all');
    expect(clock.pendingTimers).toBe(0);
  });

  test('never there: misses and faults', async () => {
    await redis.kill();
    const { clock, faults, read } = cacheOver(createKeyv(optionsFor(redis), { throwOnErrors: true }));
    const reading = read(bob);
    clock.advance(1_000);
    expect(await reading).toBeUndefined();
    expect(faults).toEqual(['cache-read', 'cache-read']);
  });

  describe('in a process of its own', () => {
    let built: BuiltPackage;
    beforeAll(() => {
      built = buildPackage();
    }, 120_000);
    afterAll(() => built.remove());

    test('it loses Redis, goes on, and ends by itself', async () => {
      const fixture = join(import.meta.dirname, '../fixtures/redisReader.mjs');
      const child = spawn(process.execPath, [fixture, built.folder, redis.socketPath]);
      try {
        const ended = once(child, 'exit');
        const stderr = text(child.stderr);
        const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
        expect((await lines.next()).value).toBe('{"value":"kept","faults":[]}');
        await redis.kill();
        child.stdin.write('\n');
        expect((await lines.next()).value).toBe('{"value":null,"faults":["cache-read","cache-write"]}');
        expect([await ended, await stderr]).toEqual([[0, null], '']);
      } finally {
        child.kill('SIGKILL');
      }
    });
  });
});
