/**
 * When the registry may bind names, and what it tells. The lists never pass through here: the injected `merge` keeps
 * them in the store, merges once for all events of a tick, and reports numbers and a diff.
 *
 * What cannot be seen here: which name a tool gets (`placement.ts`), and what a change touches (`store.ts`).
 */
import { assign, enqueueActions, forwardTo, fromCallback, sendTo, setup } from 'xstate';
import type {
  RegistryCommand,
  RegistryContext,
  RegistryEmitted,
  RegistryEvent,
  RegistryInput,
} from './registryPorts.js';

/** How long bare names wait for peers that have not settled, in milliseconds. */
export const SETTLE_TIMEOUT_MS = 30_000;

/** What hosts look at: `settled` no tool waits any more, `failed` the lease no longer changes. */
export type RegistryTag = 'settled' | 'failed';

export const registryMachine = setup({
  types: {
    input: {} as RegistryInput,
    context: {} as RegistryContext,
    events: {} as RegistryEvent,
    emitted: {} as RegistryEmitted,
    tags: {} as RegistryTag,
  },
  actors: {
    /** Takes {@link RegistryCommand}s, reports `registry.merged` or `registry.crashed`. */
    merge: fromCallback<RegistryCommand>(() => {
      throw new Error('the actor "merge" was not provided');
    }),
  },
  delays: {
    settleTimeout: ({ context }) => context.settleTimeoutMs,
  },
  guards: {
    hasEveryPeerSettled: ({ event }) => event.type === 'registry.merged' && event.pending === 0,
  },
  actions: {
    passOn: forwardTo('merge'),
    endWaiting: sendTo('merge', { type: 'host.startTimeout' }),
    noteLease: assign(({ event }) =>
      event.type === 'registry.merged'
        ? { revision: event.revision, pending: event.pending, tools: event.tools }
        : {},
    ),
    tellChange: enqueueActions(({ event, enqueue }) => {
      if (event.type !== 'registry.merged' || event.change === null) return;
      const { added, removed, changed, conflicts } = event.change;
      enqueue.emit({ type: 'catalogChanged', revision: event.revision, added, removed, changed });
      for (const conflict of conflicts) enqueue.emit({ type: 'conflict', ...conflict });
    }),
    noteFault: assign(({ event }) => ({ fault: faultOf(event) })),
    tellFault: enqueueActions(({ context, enqueue }) => {
      enqueue.emit({ type: 'fault', message: context.fault as string });
    }),
  },
}).createMachine({
  id: 'registry',
  description: 'The merge of what all peers list.',
  context: ({ input }) => ({
    settleTimeoutMs: input.settleTimeoutMs ?? SETTLE_TIMEOUT_MS,
    revision: 0,
    pending: 0,
    tools: 0,
    fault: null,
  }),
  initial: 'running',
  states: {
    running: {
      description: 'Every change of a list, of a peer or of the policy goes into the next merge.',
      initial: 'collecting',
      invoke: {
        id: 'merge',
        src: 'merge',
        onError: { target: 'broken', actions: ['noteFault', 'tellFault'] },
      },
      on: {
        'catalog.listed': { actions: 'passOn' },
        'catalog.failed': { actions: 'passOn' },
        'peer.settled': { actions: 'passOn' },
        'peer.gone': { actions: 'passOn' },
        'peer.stale': { actions: 'passOn' },
        'peer.added': { actions: 'passOn' },
        'peer.removed': { actions: 'passOn' },
        'policy.changed': { actions: 'passOn' },
        'registry.merged': { actions: ['noteLease', 'tellChange'] },
        'registry.crashed': { target: 'broken', actions: ['noteFault', 'tellFault'] },
      },
      states: {
        collecting: {
          description: 'A bare name waits until every peer that sorts before its owner has settled.',
          meta: { spec: 'https://modelcontextprotocol.io/specification/2026-07-28/server/tools' },
          after: { settleTimeout: { target: 'steady', actions: 'endWaiting' } },
          on: {
            'host.startTimeout': { target: 'steady', actions: 'passOn' },
            'registry.merged': [
              { guard: 'hasEveryPeerSettled', target: 'steady', actions: ['noteLease', 'tellChange'] },
              { actions: ['noteLease', 'tellChange'] },
            ],
          },
        },
        steady: {
          description:
            'No tool waits: every listed one has its name. A peer that is added makes names wait again.',
          tags: ['settled'],
          meta: { spec: 'https://modelcontextprotocol.io/specification/2026-07-28/server/tools' },
          on: {
            'peer.added': { target: 'collecting', actions: 'passOn' },
          },
        },
      },
    },
    broken: {
      description: 'A fault of this package ended the merging: the last lease stays what it is.',
      tags: ['failed'],
      meta: { spec: 'https://modelcontextprotocol.io/specification/2026-07-28/server/tools' },
    },
  },
});

function faultOf(event: RegistryEvent): string {
  if (event.type === 'registry.crashed') return event.message;
  return 'error' in event ? String(event.error) : 'unknown';
}
