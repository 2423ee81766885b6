/**
 * Keeps the tool list of one callable peer. The list itself never passes through here: the injected `fetch` puts it
 * into the registry's store and reports its size and digest.
 */
import { assign, type ErrorActorEvent, fromCallback, setup } from 'xstate';
import type { CatalogContext, CatalogEvent } from './ports.js';

/**
 * How long announcements of changes are gathered before the next walk, in milliseconds: a storm of them costs one
 * walk, and a server that announces a change with every listing cannot keep this side busy.
 */
export const COALESCE_MS = 200;

export const catalogMachine = setup({
  types: {
    input: {} as { readonly peer: string },
    context: {} as CatalogContext,
    events: {} as CatalogEvent | ErrorActorEvent,
  },
  actors: {
    /** Walks all pages, stores the list, reports `list.done` or `list.failed` once. */
    fetch: fromCallback<CatalogEvent>(() => {
      throw new Error('the actor "fetch" was not provided');
    }),
  },
  delays: { coalesceDelay: COALESCE_MS },
  guards: {
    /** A walk during which a change was announced may have seen half of it. */
    isTorn: ({ context }) => context.torn,
  },
  actions: {
    noteList: assign(({ event }) =>
      event.type === 'list.done' ? { count: event.count, digest: event.digest, problem: null } : {},
    ),
    noteProblem: assign(({ event }) => (event.type === 'list.failed' ? { problem: event.message } : {})),
    noteCrash: assign({ problem: 'a fault of this host while listing' }),
    noteTorn: assign({ torn: true }),
    clearTorn: assign({ torn: false }),
  },
}).createMachine({
  id: 'catalog',
  description: 'The tool list of one peer.',
  initial: 'fetching',
  context: { count: null, digest: null, problem: null, torn: false },
  on: {
    // In every state: the fetch may also fail in its cleanup, after it reported, and an error that no transition takes
    // would end the catalog and with it the peer. A listing that fails leaves the peer callable.
    'xstate.error.actor.*': { target: '.failed', actions: 'noteCrash' },
  },
  states: {
    fetching: {
      description: 'Walks the pages of tools/list.',
      meta: { spec: 'https://modelcontextprotocol.io/specification/2026-07-28/server/tools' },
      entry: 'clearTorn',
      invoke: {
        id: 'fetch',
        src: 'fetch',
      },
      on: {
        'catalog.changed': { actions: 'noteTorn' },
        'list.done': [
          { guard: 'isTorn', target: 'coalescing', actions: 'noteList' },
          { target: 'fresh', actions: 'noteList' },
        ],
        'list.failed': [
          { guard: 'isTorn', target: 'coalescing', actions: 'noteProblem' },
          { target: 'failed', actions: 'noteProblem' },
        ],
      },
    },
    fresh: {
      description: 'The list is what the server last said.',
      on: {
        'catalog.changed': { target: 'coalescing' },
        'catalog.refresh': { target: 'fetching' },
      },
    },
    coalescing: {
      description: 'The list is known to have changed; announcements that follow closely are gathered.',
      after: { coalesceDelay: { target: 'fetching' } },
      on: {
        'catalog.refresh': { target: 'fetching' },
      },
    },
    failed: {
      description: 'The last walk failed; an earlier list, if there is one, is served as stale.',
      on: {
        'catalog.changed': { target: 'coalescing' },
        'catalog.refresh': { target: 'fetching' },
      },
    },
  },
});
