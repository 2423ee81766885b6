/**
 * No result crosses contexts, outlives its time or its invalidation, over stores that work and over ones that do not.
 */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { CacheableRequest, CachePartition } from '../../src/cache/entry.js';
import { createMemoryStore } from '../../src/cache/memoryStore.js';
import {
  type CachedResponse,
  type CacheFault,
  ResponseCache,
  type Ticket,
} from '../../src/cache/responseCache.js';
import type { Store } from '../../src/cache/store.js';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { quiet } from '../../src/testing/drive.js';
import { type HostileStore, hostileStore, MISDEEDS, openStore } from './stores.js';

const DAY_MS = 24 * 60 * 60 * 1_000;
const TIMEOUT_MS = 1_000;
const IDENTITIES = ['aa', 'bb'];
const CONTEXTS = ['c1', 'c2'];
const REQUESTS: readonly CacheableRequest[] = [
  { method: 'tools/list', params: '', revision: '2026-07-28', server: 's/1' },
  { method: 'resources/read', params: '"uri":"c1"', revision: '2026-07-28', server: 's/1' },
];

/** Where an operation happens: one of two servers, two contexts, two requests. */
const place = fc.record({
  identity: fc.constantFrom(...IDENTITIES),
  context: fc.constantFrom(...CONTEXTS),
  request: fc.nat(REQUESTS.length - 1),
});
const command = fc.oneof(
  { weight: 3, arbitrary: fc.record({ do: fc.constant('begin' as const), place }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant('write' as const),
      ticket: fc.nat(),
      scope: fc.constantFrom('public' as const, 'private' as const, undefined),
      ttlMs: fc.oneof(
        { weight: 9, arbitrary: fc.integer({ min: -10, max: 300 }) },
        { weight: 1, arbitrary: fc.constantFrom(Number.NaN, 1e12) },
      ),
    }),
  },
  { weight: 6, arbitrary: fc.record({ do: fc.constant('read' as const), place }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('invalidate' as const), place }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant('step' as const),
      ms: fc.oneof(
        { weight: 9, arbitrary: fc.integer({ min: -80, max: 120 }) },
        { weight: 1, arbitrary: fc.constantFrom(DAY_MS, -61_000) },
      ),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('settle' as const), order: fc.nat(), hung: fc.boolean() }),
  },
);
type Command = typeof command extends fc.Arbitrary<infer T> ? T : never;
type Place = typeof place extends fc.Arbitrary<infer T> ? T : never;

/** What the model knows of a value that was written. */
interface Origin extends Place {
  readonly scope: 'public' | 'private';
  readonly begun: number;
  readonly writtenAtMs: number;
  readonly ttlMs: number;
}

interface Run {
  readonly faults: readonly CacheFault[];
  readonly hits: number;
}

/**
 * Runs the commands and checks every value that comes back. Operations are not awaited one by one: with a store that
 * delays, reads, writes and invalidations are under way together, and all are settled at the end.
 */
async function run(store: Store, commands: readonly Command[], hostile: HostileStore | null): Promise<Run> {
  let nowMs = 1_000_000;
  let events = 0;
  let hits = 0;
  const clock = createSimulatedClock();
  const faults: CacheFault[] = [];
  const cache = new ResponseCache({
    store,
    now: () => nowMs,
    clock,
    timeoutMs: TIMEOUT_MS,
    onFault: (kind) => faults.push(kind),
  });
  const tickets: { readonly ticket: Ticket; readonly place: Place; readonly begun: number }[] = [];
  const origins: Origin[] = [];
  /** When, in events, each request of each partition became invalid last. */
  const invalidated = new Map<string, number>();
  const underWay: Promise<void>[] = [];

  const partitionOf = ({ identity, context }: Place): CachePartition => ({ identity, context });
  const requestOf = ({ request }: Place) => REQUESTS[request] as CacheableRequest;
  const nameOf = (scope: 'public' | 'private', { identity, context, request }: Place) =>
    scope === 'public' ? `${identity} ${request}` : `${identity} ${context} ${request}`;
  const outdated = (origin: Origin) => (invalidated.get(nameOf(origin.scope, origin)) ?? 0) > origin.begun;

  const check = (reader: Place, response: CachedResponse | null): void => {
    if (response === null) return;
    hits += 1;
    const origin = origins[(response.value as { at: number }).at] as Origin;
    expect(origin.identity).toBe(reader.identity);
    expect(origin.request).toBe(reader.request);
    expect(response.scope).toBe(origin.scope);
    if (origin.scope === 'private') expect(origin.context).toBe(reader.context);
    const ttlMs = Math.min(origin.ttlMs, DAY_MS);
    expect(nowMs).toBeLessThan(origin.writtenAtMs + ttlMs);
    expect(response.freshForMs).toBeGreaterThan(0);
    expect(response.freshForMs).toBeLessThanOrEqual(ttlMs);
    expect(outdated(origin)).toBe(false);
  };

  const start = (operation: Promise<void>): void => {
    // Awaited later; what goes wrong meanwhile is not lost.
    operation.catch(() => {});
    underWay.push(operation);
  };

  /** Nothing is waited for but a turn of the event loop, so that an answer is checked in the turn that brings it. */
  const perform = (next: Command): Promise<void> | undefined => {
    switch (next.do) {
      case 'begin':
        events += 1;
        tickets.push({
          ticket: cache.begin(partitionOf(next.place), requestOf(next.place)),
          place: next.place,
          begun: events,
        });
        break;
      case 'write': {
        const [fetch] = tickets.splice(next.ticket % Math.max(tickets.length, 1), 1);
        if (fetch === undefined) break;
        const scope = next.scope ?? 'private';
        const at = origins.push({
          ...fetch.place,
          scope,
          begun: fetch.begun,
          writtenAtMs: nowMs,
          ttlMs: next.ttlMs,
        });
        const value: JsonValue = { at: at - 1 };
        start(cache.write(fetch.ticket, { value, ttlMs: next.ttlMs, scope: next.scope as 'private' }));
        break;
      }
      case 'read':
        start(
          cache
            .read(partitionOf(next.place), requestOf(next.place))
            .then((response) => check(next.place, response)),
        );
        break;
      case 'invalidate':
        events += 1;
        for (const scope of ['public', 'private'] as const)
          invalidated.set(nameOf(scope, next.place), events);
        start(cache.invalidate(partitionOf(next.place), requestOf(next.place)));
        break;
      case 'step':
        nowMs += next.ms;
        break;
      case 'settle':
        if (next.hung) clock.advance(TIMEOUT_MS);
        hostile?.release(() => next.order);
        return quiet();
    }
    return undefined;
  };

  for (const next of commands) {
    const turn = perform(next);
    if (turn !== undefined) await turn;
    if (hostile === null) await Promise.all(underWay.splice(0));
  }
  // The store does what it still owes, also what only follows from that; what hangs is given up.
  for (let round = 0; round < 3; round += 1) {
    hostile?.release();
    await quiet();
    clock.advance(TIMEOUT_MS);
    await quiet();
  }
  await Promise.all(underWay);
  expect(clock.pendingTimers).toBe(0);

  // What lies in the store in the end was not begun before an invalidation, unless the store did not do as asked.
  if (hostile !== null && faults.length === 0) {
    for (const text of hostile.entries.values()) {
      expect(outdated(origins[JSON.parse(text).value.at] as Origin)).toBe(false);
    }
  }
  return { faults, hits };
}

describe('no result crosses contexts, outlives its time, or survives an invalidation', () => {
  const commands = fc.array(command, { minLength: 20, maxLength: 60, size: 'max' });

  test('in memory', async () => {
    let hits = 0;
    const bounds = fc.record({ maxEntries: fc.integer({ min: 1, max: 20 }), maxBytes: fc.nat(20_000) });
    await fc.assert(
      fc.asyncProperty(bounds, commands, async ({ maxEntries, maxBytes }, sequence) => {
        const done = await run(createMemoryStore({ maxEntries, maxBytes }), sequence, null);
        hits += done.hits;
        // Only a clock that was put back is a fault.
        expect(new Set(done.faults)).toEqual(new Set(done.faults.length > 0 ? ['cache-value'] : []));
      }),
      { numRuns: 300 },
    );
    expect(hits).toBeGreaterThan(100);
  });

  test('in a store that ignores every ttl', async () => {
    let hits = 0;
    const property = fc.asyncProperty(commands, async (sequence) => {
      hits += (await run(openStore(), sequence, null)).hits;
    });
    await fc.assert(property, { numRuns: 300 });
    expect(hits).toBeGreaterThan(100);
  });

  test('in a store that is late, so that everything overtakes everything', async () => {
    let hits = 0;
    const plan = fc.array(fc.constantFrom('obey' as const, 'delay' as const), {
      minLength: 100,
      maxLength: 100,
    });
    // Nothing is given up meanwhile: the store does all that it is asked to, at some time.
    const patient = commands.map((all) =>
      all.map((next) => (next.do === 'settle' ? { ...next, hung: false } : next)),
    );
    await fc.assert(
      fc.asyncProperty(plan, patient, async (misdeeds, sequence) => {
        const store = hostileStore();
        store.plan(misdeeds);
        hits += (await run(store, sequence, store)).hits;
      }),
      { numRuns: 500 },
    );
    expect(hits).toBeGreaterThan(100);
  });

  test('in a hostile store: foreign, old and garbled values, lies, exceptions, silence', async () => {
    let hits = 0;
    const plan = fc.array(
      fc.oneof(
        { weight: 3, arbitrary: fc.constant('obey' as const) },
        { weight: 2, arbitrary: fc.constantFrom(...MISDEEDS) },
      ),
      { minLength: 100, maxLength: 100 },
    );
    await fc.assert(
      fc.asyncProperty(plan, commands, async (misdeeds, sequence) => {
        const store = hostileStore();
        store.plan(misdeeds);
        hits += (await run(store, sequence, store)).hits;
      }),
      { numRuns: 1_000 },
    );
    expect(hits).toBeGreaterThan(100);
  });
});
