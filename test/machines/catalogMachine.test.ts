import { describe, expect, it } from 'vitest';
import { createActor, fromCallback, StateMachine } from 'xstate';
import { COALESCE_MS, catalogMachine } from '../../src/machines/catalogMachine.js';
import type { CatalogEvent } from '../../src/machines/ports.js';
import { createSimulatedClock } from '../../src/testing/clock.js';

type Fetch = (answer: (event: CatalogEvent) => void) => (() => void) | undefined;

function driveCatalog(fetch: Fetch = () => undefined) {
  let fetches = 0;
  let running = 0;
  const answers: ((event: CatalogEvent) => void)[] = [];
  const clock = createSimulatedClock();
  const actor = createActor(
    catalogMachine.provide({
      actors: {
        fetch: fromCallback<CatalogEvent>(({ sendBack }) => {
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
    { input: { peer: 'archive' }, clock },
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

describe('the catalog of one peer', () => {
  it('walks at once, and is fresh when the walk is done', () => {
    const catalog = driveCatalog();
    expect(catalog.state).toBe('fetching');
    expect(catalog.context).toEqual({ count: null, digest: null, problem: null, torn: false });
    catalog.send(done(3));
    expect(catalog.state).toBe('fresh');
    expect(catalog.context).toEqual({ count: 3, digest: 'digest of 3', problem: null, torn: false });
    expect(catalog.running).toBe(0);
  });

  it('walks again when a change was announced during the walk: what it brought may be torn', () => {
    const catalog = driveCatalog();
    catalog.send(changed, changed);
    expect(catalog.context.torn).toBe(true);
    expect(catalog.fetches).toBe(1);
    catalog.send(done(3));
    expect(catalog.state).toBe('coalescing');
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
    expect(catalog.state).toBe('coalescing');
    expect(catalog.fetches).toBe(1);
    catalog.clock.advance(COALESCE_MS);
    expect(catalog.state).toBe('fetching');
    expect(catalog.fetches).toBe(2);
  });

  it('a server that announces a change with every listing is asked at most once in a while', () => {
    const catalog = driveCatalog();
    for (let i = 1; i <= 10; i += 1) {
      catalog.send(changed, done(3));
      expect(catalog.fetches).toBe(i);
      catalog.clock.advance(COALESCE_MS);
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
    expect(catalog.state).toBe('coalescing');
    expect(catalog.context.problem).toBe('the cursor repeats');
    catalog.clock.advance(COALESCE_MS);
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
    const actor = createActor(catalogMachine, { input: { peer: 'archive' } }).start();
    expect(actor.getSnapshot().value).toBe('failed');
    actor.stop();
  });

  it('an action on an event that is not its own changes nothing', () => {
    const config = { on: { 'catalog.changed': { actions: ['noteList', 'noteProblem'] } } };
    const { context } = catalogMachine.config;
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
    }
  });
});
