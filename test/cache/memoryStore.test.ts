import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createMemoryStore } from '../../src/cache/memoryStore.js';

describe('a store in memory', () => {
  test('returns what was set until its ttl has passed, and not at that moment', async () => {
    let nowMs = 0;
    const store = createMemoryStore({ now: () => nowMs });
    await store.set('a', 'A', 100);
    nowMs = 99;
    expect(await store.get('a')).toBe('A');
    nowMs = 100;
    expect(await store.get('a')).toBeUndefined();
    nowMs = 50;
    expect(await store.get('a')).toBeUndefined();
  });

  test('forgets what was used longest ago; reading is using', async () => {
    const store = createMemoryStore({ maxEntries: 2 });
    await store.set('a', 'A', 1_000);
    await store.set('b', 'B', 1_000);
    await store.get('a');
    await store.set('c', 'C', 1_000);
    expect([await store.get('a'), await store.get('b'), await store.get('c')]).toEqual(['A', undefined, 'C']);
  });

  test('a value that does not fit is not kept, nor the one it was to replace; the others stay', async () => {
    const store = createMemoryStore({ maxBytes: 40 });
    await store.set('a', 'A', 1_000);
    await store.set('b', 'B', 1_000);
    await store.set('a', 'x'.repeat(20), 1_000);
    expect([await store.get('a'), await store.get('b')]).toEqual([undefined, 'B']);
  });

  test.each([0, -1, Number.NaN])('a ttl of %d keeps nothing and removes what was there', async (ttlMs) => {
    const store = createMemoryStore();
    await store.set('a', 'A', 1_000);
    await store.set('a', 'B', ttlMs);
    expect(await store.get('a')).toBeUndefined();
  });

  test.each([
    { maxEntries: -1 },
    { maxEntries: 1.5 },
    { maxBytes: Number.NaN },
    { maxBytes: Number.POSITIVE_INFINITY },
  ])('refuses the bound %o', (options) => {
    expect(() => createMemoryStore(options)).toThrow(RangeError);
  });

  test('never exceeds its bounds, and agrees with a plain model of least recent use', async () => {
    const command = fc.record({
      op: fc.constantFrom('get', 'set', 'set', 'delete'),
      key: fc.constantFrom('a', 'b', 'c', 'd', 'e', 'f'),
      size: fc.nat(30),
      ttlMs: fc.nat(50),
      stepMs: fc.nat(10),
    });
    await fc.assert(
      fc.asyncProperty(fc.nat(5), fc.nat(160), fc.array(command), async (maxEntries, maxBytes, commands) => {
        let nowMs = 0;
        const store = createMemoryStore({ maxEntries, maxBytes, now: () => nowMs });
        /** The last used at the end. */
        let model: { key: string; value: string; dueMs: number }[] = [];
        const bytesOf = (kept: typeof model) =>
          kept.reduce((sum, { key, value }) => sum + 2 * (key.length + value.length), 0);
        for (const [at, { op, key, size, ttlMs, stepMs }] of commands.entries()) {
          nowMs += stepMs;
          const found = model.find((kept) => kept.key === key);
          const rest = model.filter((kept) => kept.key !== key);
          if (op === 'get') {
            const live = found !== undefined && nowMs < found.dueMs ? found : undefined;
            expect(await store.get(key)).toBe(live?.value);
            model = live === undefined ? rest : [...rest, live];
          } else if (op === 'set') {
            const value = String(at).padEnd(size, '.');
            await store.set(key, value, ttlMs);
            const fresh = { key, value, dueMs: nowMs + ttlMs };
            model = ttlMs > 0 && bytesOf([fresh]) <= maxBytes && maxEntries > 0 ? [...rest, fresh] : rest;
            while (model.length > maxEntries || bytesOf(model) > maxBytes) model.shift();
          } else {
            await store.delete(key);
            model = rest;
          }
        }
        const held: string[] = [];
        for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) {
          const value = await store.get(key);
          if (value !== undefined) held.push(key, value);
        }
        expect(held.length / 2).toBeLessThanOrEqual(maxEntries);
        expect(2 * held.join('').length).toBeLessThanOrEqual(maxBytes);
        const live = model.filter(({ dueMs }) => nowMs < dueMs).sort((a, b) => (a.key < b.key ? -1 : 1));
        expect(held).toEqual(live.flatMap(({ key, value }) => [key, value]));
      }),
      { numRuns: 500 },
    );
  });
});
