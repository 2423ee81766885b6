import { describe, expect, it } from 'vitest';
import { createActor, fromCallback, StateMachine } from 'xstate';
import { COALESCE_MS, catalogMachine, LONGEST_COALESCE_MS } from '../../src/machines/catalogMachine.js';
import type { CatalogEvent, CatalogInput } from '../../src/machines/ports.js';
import { createSimulatedClock } from '../../src/testing/clock.js';

const input: CatalogInput = { peer: 'archive', kind: 'prompts' };

type Fetch = (answer: (event: CatalogEvent) => void) => (() => void) | undefined;

function driveCatalog(fetch: Fetch = () => undefined) {
  let fetches = 0;
  let running = 0;
  const answers: ((event: CatalogEvent) => void)[] = [];
  const clock = createSimulatedClock();
  const actor = createActor(
    catalogMachine.provide({
      actors: {
        fetch: fromCallback<CatalogEvent, CatalogInput>(({ input: walk, sendBack }) => {
          expect(walk).toEqual(input);
          fetches += 1;
          answers.push(sendBack);
          const cleanup = fetch(sendBack);
          running += 1;
          return () => {
            running -= 1;
            cleanup?.();
          };
        }),
      },
    }),
    { input, clock },
  );
  const errors: unknown[] = [];
  actor.subscribe({ error: (error) => errors.push(error) });
  actor.start();
  return {
    actor,
    clock,
    errors,
    answers,
    get fetches() {
      return fetches;
    },
    get running() {
      return running;
    },
    get state() {
      return actor.getSnapshot().value;
    },
    get context() {
      return actor.getSnapshot().context;
    },
    send(...events: CatalogEvent[]) {
      for (const event of events) actor.send(event);
    },
  };
}

const done = (count: number): CatalogEvent => ({ type: 'list.done', count, digest: `digest of ${count}` });
const failed: CatalogEvent = { type: 'list.failed', message: 'the cursor repeats' };
const changed: CatalogEvent = { type: 'catalog.changed' };
const refresh: CatalogEvent = { type: 'catalog.refresh' };
const used: CatalogEvent = { type: 'catalog.used' };

const nothing = { count: null, digest: null, problem: null, torn: false, announced: false, fruitless: 0 };

describe('one list of one peer', () => {
  it('walks at once, and is fresh when the walk is done', () => {
    const catalog = driveCatalog();
    expect(catalog.state).toBe('fetching');
    expect(catalog.context).toEqual({ ...input, ...nothing });
    catalog.send(done(3));
    expect(catalog.state).toBe('fresh');
    expect(catalog.context).toEqual({ ...input, ...nothing, count: 3, digest: 'digest of 3' });
    expect(catalog.running).toBe(0);
  });

  it('walks again when a change was announced during the walk: what it brought may be torn', () => {
    const catalog = driveCatalog();
    catalog.send(changed, changed);
    expect(catalog.context.torn).toBe(true);
    expect(catalog.fetches).toBe(1);
    catalog.send(done(3));
    expect(catalog.state).toBe('stale');
    catalog.clock.advance(COALESCE_MS);
    expect(catalog.state).toBe('fetching');
    expect(catalog.context.torn).toBe(false);
    expect(catalog.fetches).toBe(2);
    expect(catalog.running).toBe(1);
    catalog.send(done(4));
    expect(catalog.state).toBe('fresh');
    expect(catalog.context.count).toBe(4);
  });

  it('does not hear a walk that was given up', () => {
    const catalog = driveCatalog();
    catalog.send(changed, done(3), refresh);
    catalog.answers[0]?.(done(99));
    expect(catalog.state).toBe('fetching');
    expect(catalog.context.count).toBe(3);
  });

  it('walks at once when the host asks', () => {
    const catalog = driveCatalog();
    catalog.send(done(3), refresh);
    expect(catalog.state).toBe('fetching');
    expect(catalog.fetches).toBe(2);
  });

  it('a storm of announcements costs one walk', () => {
    const catalog = driveCatalog();
    catalog.send(done(3));
    for (let i = 0; i < 200; i += 1) catalog.send(changed);
    expect(catalog.state).toBe('stale');
    expect(catalog.fetches).toBe(1);
    catalog.clock.advance(COALESCE_MS);
    expect(catalog.state).toBe('fetching');
    expect(catalog.fetches).toBe(2);
  });

  it('a server that announces a change with every listing is asked ever more slowly', () => {
    const endings: readonly (readonly [string, readonly CatalogEvent[]])[] = [
      ['during each walk', [changed, done(3)]],
      ['after each walk', [done(3), changed]],
      ['during each walk, and each fails', [changed, failed]],
      ['after each walk, and each fails', [failed, changed]],
    ];
    for (const [name, events] of endings) {
      const catalog = driveCatalog();
      catalog.send(done(3), refresh);
      const waits: number[] = [];
      for (let walk = 0; walk < 12; walk += 1) {
        catalog.send(...events);
        expect(catalog.state, name).toBe('stale');
        waits.push((catalog.clock.nextDueMs ?? 0) - catalog.clock.now());
        catalog.clock.advanceTo(catalog.clock.nextDueMs ?? 0);
      }
      const first = name.startsWith('during') ? COALESCE_MS * 2 : COALESCE_MS;
      expect(waits.slice(0, 5), name).toEqual([1, 2, 4, 8, 16].map((factor) => first * factor));
      expect(waits.at(-1), name).toBe(LONGEST_COALESCE_MS);
    }
  });

  it('a walk that brings another list makes it believe announcements again, and so does the host', () => {
    const catalog = driveCatalog();
    const annoy = () => {
      for (let walk = 0; walk < 5; walk += 1) {
        catalog.send(changed, done(3));
        catalog.clock.advance(LONGEST_COALESCE_MS);
      }
    };
    annoy();
    expect(catalog.context.fruitless).toBe(4);
    catalog.send(done(4));
    expect(catalog.context.fruitless).toBe(0);
    for (const leave of [[done(3)], [failed], [changed, done(3)], []]) {
      annoy();
      catalog.send(...leave);
      expect(catalog.context.fruitless).toBeGreaterThan(3);
      catalog.send(refresh);
      expect(catalog.state).toBe('fetching');
      expect(catalog.context.fruitless).toBe(0);
    }
  });

  it('a walk for which no change was announced may bring the same', () => {
    const catalog = driveCatalog();
    catalog.send(done(3));
    for (let walk = 0; walk < 5; walk += 1) catalog.send(used, done(3), used, failed);
    expect(catalog.context.fruitless).toBe(0);
    // One that is not waited for was not made for the announcement alone.
    catalog.send(used, done(3), changed, used, done(3));
    expect(catalog.context.fruitless).toBe(0);
  });

  it('walks at once when somebody needs a list that has run out, failed or changed', () => {
    for (const way of [[done(3)], [failed], [done(3), changed]]) {
      const catalog = driveCatalog();
      catalog.send(...way, used);
      expect(catalog.state).toBe('fetching');
      expect(catalog.fetches).toBe(2);
      catalog.send(used);
      expect(catalog.fetches).toBe(2);
      expect(catalog.clock.pendingTimers).toBe(0);
    }
  });

  it('a refresh during a walk gets that walk', () => {
    const catalog = driveCatalog();
    catalog.send(refresh, done(3));
    expect(catalog.state).toBe('fresh');
    expect(catalog.fetches).toBe(1);
  });

  it('a failed walk leaves the list before it and says why; the next good one clears that', () => {
    const catalog = driveCatalog();
    catalog.send(done(3), refresh, failed);
    expect(catalog.state).toBe('failed');
    expect(catalog.context).toMatchObject({ count: 3, digest: 'digest of 3', problem: 'the cursor repeats' });
    for (const event of [changed, refresh]) {
      catalog.send(event);
      catalog.clock.advance(COALESCE_MS);
      expect(catalog.state).toBe('fetching');
      catalog.send(failed);
    }
    catalog.send(refresh, done(5));
    expect(catalog.context).toMatchObject({ count: 5, problem: null });
  });

  it('a walk that failed while a change was announced is made again', () => {
    const catalog = driveCatalog();
    catalog.send(changed, failed);
    expect(catalog.state).toBe('stale');
    expect(catalog.context.problem).toBe('the cursor repeats');
    catalog.clock.advance(COALESCE_MS * 2);
    expect(catalog.state).toBe('fetching');
  });

  it('an answer without a walk changes nothing', () => {
    const catalog = driveCatalog();
    catalog.send(done(3), done(4), failed);
    expect(catalog.state).toBe('fresh');
    expect(catalog.context.count).toBe(3);
  });

  it('a walk that crashes fails, and the catalog lives on', () => {
    let crashes = 2;
    const catalog = driveCatalog(() => {
      crashes -= 1;
      if (crashes >= 0) throw new Error('broken fetch');
      return undefined;
    });
    expect(catalog.state).toBe('failed');
    expect(catalog.context.problem).toBe('a fault of this host while listing');
    catalog.send(refresh);
    expect(catalog.state).toBe('failed');
    catalog.send(refresh, done(3));
    expect(catalog.state).toBe('fresh');
    expect(catalog.errors).toEqual([]);
  });

  it('a walk that answers and then crashes, or crashes in its cleanup, fails as well', () => {
    const late: Fetch[] = [
      (answer) => {
        answer(done(3));
        throw new Error('broken after the answer');
      },
      () => () => {
        throw new Error('broken cleanup');
      },
    ];
    for (const fetch of late) {
      const catalog = driveCatalog(fetch);
      catalog.send(done(3));
      expect(catalog.state).toBe('failed');
      expect(catalog.actor.getSnapshot().status).toBe('active');
      expect(catalog.errors).toEqual([]);
    }
  });

  it('fails as it ships: the fetch is injected', () => {
    const actor = createActor(catalogMachine, { input }).start();
    expect(actor.getSnapshot().value).toBe('failed');
    actor.stop();
  });

  it('an action on an event that is not its own changes nothing', () => {
    const config = { on: { 'catalog.changed': { actions: ['noteList', 'noteProblem'] } } };
    const { context } = driveCatalog();
    const chart = new StateMachine({ ...config, context } as never, catalogMachine.implementations as never);
    const actor = createActor(chart).start();
    const before = actor.getSnapshot().context;
    actor.send({ type: 'catalog.changed' } as never);
    expect(actor.getSnapshot().context).toEqual(before);
    actor.stop();
  });

  it('describes its states', () => {
    for (const [name, state] of Object.entries(catalogMachine.root.states)) {
      expect(state.description, name).toMatch(/\.$/);
      expect(state.meta, name).toMatchObject({ spec: expect.stringMatching(/^https:/) });
    }
  });
});
