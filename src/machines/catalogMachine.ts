/**
 * Keeps one list of one callable peer. The list itself never passes through here: the injected `fetch` puts it into a
 * store and reports its size and digest.
 */
import { assign, type ErrorActorEvent, fromCallback, setup } from 'xstate';
import type { CatalogContext, CatalogEvent, CatalogInput } from './ports.js';

/**
 * How long announcements of changes are gathered before the next walk, in milliseconds: a storm of them costs one
 * walk. Doubled for every announced walk in a row that brought nothing new, up to {@link LONGEST_COALESCE_MS}: a
 * server that announces a change with every listing cannot keep this side busy.
 */
export const COALESCE_MS = 200;
export const LONGEST_COALESCE_MS = 30_000;

/** The end of a walk: what it was made for has no meaning after it. */
const walked = { torn: false, announced: false };

/** The count after a walk that brought nothing new; only those count that a change was announced for. */
const fruitlessAfter = ({ announced, torn, fruitless }: CatalogContext): number =>
  announced === true || torn ? fruitless + 1 : fruitless;

const spec = 'https://modelcontextprotocol.io/specification/2026-07-28/server';

export const catalogMachine = setup({
  types: {
    input: {} as CatalogInput,
    context: {} as CatalogContext,
    events: {} as CatalogEvent | ErrorActorEvent,
  },
  actors: {
    /** Walks all pages, stores the list, reports `list.done` or `list.failed` once. */
    fetch: fromCallback<CatalogEvent, CatalogInput>(() => {
      throw new Error('the actor "fetch" was not provided');
    }),
  },
  delays: {
    coalesceDelay: ({ context }) =>
      Math.min(COALESCE_MS * 2 ** Math.min(context.fruitless, 30), LONGEST_COALESCE_MS),
  },
  guards: {
    /** A walk during which a change was announced may have seen half of it. */
    isTorn: ({ context }) => context.torn,
  },
  actions: {
    noteList: assign(({ context, event }) => {
      if (event.type !== 'list.done') return {};
      const { count, digest } = event;
      const fruitless = digest === context.digest ? fruitlessAfter(context) : 0;
      return { ...walked, count, digest, problem: null, fruitless };
    }),
    noteProblem: assign(({ context, event }) =>
      event.type === 'list.failed'
        ? { ...walked, problem: event.message, fruitless: fruitlessAfter(context) }
        : {},
    ),
    noteCrash: assign(({ context }) => ({
      ...walked,
      problem: 'a fault of this host while listing',
      fruitless: fruitlessAfter(context),
    })),
    noteTorn: assign({ torn: true }),
    noteAnnounced: assign({ announced: true }),
    forgetFruitless: assign({ fruitless: 0 }),
  },
}).createMachine({
  id: 'catalog',
  description: 'One list of one peer.',
  initial: 'fetching',
  context: ({ input }) => ({
    peer: input.peer,
    kind: input.kind,
    count: null,
    digest: null,
    problem: null,
    torn: false,
    announced: false,
    fruitless: 0,
  }),
  on: {
    // In every state: the fetch may also fail in its cleanup, after it reported, and an error that no transition takes
    // would end the catalog and with it the peer. A listing that fails leaves the peer callable.
    'xstate.error.actor.*': { target: '.failed', actions: 'noteCrash' },
  },
  states: {
    fetching: {
      description: 'Walks the pages of the list.',
      meta: { spec: `${spec}/utilities/pagination` },
      invoke: {
        id: 'fetch',
        src: 'fetch',
        input: ({ context }) => ({ peer: context.peer, kind: context.kind }),
      },
      on: {
        'catalog.changed': { actions: 'noteTorn' },
        // Asked for during a walk, it gets that walk.
        'catalog.refresh': { actions: 'forgetFruitless' },
        'list.done': [
          { guard: 'isTorn', target: 'stale', actions: 'noteList' },
          { target: 'fresh', actions: 'noteList' },
        ],
        'list.failed': [
          { guard: 'isTorn', target: 'stale', actions: 'noteProblem' },
          { target: 'failed', actions: 'noteProblem' },
        ],
      },
    },
    fresh: {
      description: 'The list is what the server last said.',
      meta: { spec: `${spec}/utilities/caching` },
      on: {
        'catalog.changed': { target: 'stale' },
        'catalog.used': { target: 'fetching' },
        'catalog.refresh': { target: 'fetching', actions: 'forgetFruitless' },
      },
    },
    stale: {
      description: 'The list is known to have changed; announcements that follow closely are gathered.',
      meta: { spec: `${spec}/tools` },
      after: { coalesceDelay: { target: 'fetching', actions: 'noteAnnounced' } },
      on: {
        'catalog.used': { target: 'fetching' },
        'catalog.refresh': { target: 'fetching', actions: 'forgetFruitless' },
      },
    },
    failed: {
      description: 'The last walk failed; an earlier list, if there is one, is served as stale.',
      meta: { spec: `${spec}/tools` },
      on: {
        'catalog.changed': { target: 'stale' },
        'catalog.used': { target: 'fetching' },
        'catalog.refresh': { target: 'fetching', actions: 'forgetFruitless' },
      },
    },
  },
});
