/**
 * The root of a host: spawns the registry and one actor a peer, awaits their start, and ends them.
 *
 * A host application may run it by itself (`createHost`) or invoke and spawn it in its own machine (`hostLogic`).
 * What it does is in the runtime (`runtime.ts`), which is found by the actor; the chart says when.
 */
import { type AnyActorRef, emit, enqueueActions, fromCallback, fromPromise, setup } from 'xstate';
import type { Conflict } from '../registry/lease.js';
import type { HostEvents, PeerReport, StartReport } from './facade.js';

/** Input of the host's logic. */
export interface HostInput {
  /** Prefix of the system ids of this host's actors. Default: the id of the actor itself. */
  readonly hostId?: string;
}

export interface HostContext {
  readonly hostId: string;
}

export type HostEvent =
  /** Ends all peers; the actor is done when nothing of them is left. */
  | { readonly type: 'host.stop' }
  | { readonly type: 'host.addPeer'; readonly name: string }
  | { readonly type: 'host.removePeer'; readonly name: string }
  /** From the runtime. */
  | { readonly type: 'peer.changed'; readonly report: PeerReport }
  | { readonly type: 'lease.changed'; readonly change: HostEvents['catalogChanged'] }
  | { readonly type: 'lease.conflict'; readonly conflict: Conflict }
  | { readonly type: 'list.changed'; readonly change: HostEvents['listChanged'] }
  | { readonly type: 'resource.updated'; readonly update: HostEvents['resourceUpdated'] }
  | { readonly type: 'authorization.needed'; readonly needed: HostEvents['authorization'] }
  /** XState's own: a child crashed. */
  | { readonly type: `xstate.error.actor.${string}`; readonly error: unknown };

/** What the actor emits: `actor.on('ready', …)` and likewise; all but `ready` are a host's events. */
export type HostEmitted =
  | { readonly type: 'ready'; readonly report: StartReport }
  | { readonly type: 'peer'; readonly report: PeerReport }
  | ({ readonly type: 'catalogChanged' } & HostEvents['catalogChanged'])
  | { readonly type: 'conflict'; readonly conflict: Conflict }
  | ({ readonly type: 'listChanged' } & HostEvents['listChanged'])
  | ({ readonly type: 'resourceUpdated' } & HostEvents['resourceUpdated'])
  | ({ readonly type: 'authorization' } & HostEvents['authorization']);

export type HostTag = 'starting' | 'ready' | 'stopping';

/** The actor's output, once it is stopped: how each peer ended. */
export interface HostOutput {
  readonly peers: readonly PeerReport[];
}

/** What the chart asks of the runtime. */
export interface HostPort {
  /** Spawns the registry and the peers; called from an action, with the means to spawn. */
  spawnAll(enqueue: SpawnChild): void;
  spawnPeer(name: string, enqueue: SpawnChild): void;
  /** Lets go of a peer whose actor crashed. */
  crashed(actorId: string): void;
  /** Starts the peers. Resolves when each has settled and listed, or at `startTimeoutMs`; rejects with a typed error. */
  start(): Promise<StartReport>;
  /** Resolves when nothing of any peer is left. */
  shutDown(): Promise<HostOutput>;
  /** The actor ended, in whatever way: let go of everything at once. */
  dispose(): void;
}

export interface SpawnChild {
  spawnChild(logic: unknown, options: { id: string; systemId: string; input?: unknown }): void;
  stopChild(id: string): void;
}

const ports = new WeakMap<AnyActorRef, HostPort>();

/** Binds a runtime to the actor that runs it. */
export function bindHostPort(actor: AnyActorRef, port: HostPort): void {
  ports.set(actor, port);
}

function portOf(actor: AnyActorRef): HostPort {
  const port = ports.get(actor);
  if (port === undefined) throw new Error('this actor is no host: make it with createHost or hostLogic');
  return port;
}

/** The chart. `bind` is called once for each actor made from it, before its first transition, and returns the id to use. */
export function createHostMachine(bind: (actor: AnyActorRef, hostId: string) => string) {
  return setup({
    types: {
      input: {} as HostInput | undefined,
      context: {} as HostContext,
      events: {} as HostEvent,
      emitted: {} as HostEmitted,
      tags: {} as HostTag,
      output: {} as HostOutput,
    },
    actors: {
      /** Lives as long as the host and lets go of everything when it ends, whatever ended it. */
      resources: fromCallback<HostEvent, { readonly host: AnyActorRef }>(
        ({ input }) =>
          () =>
            portOf(input.host).dispose(),
      ),
      startPeers: fromPromise<StartReport, { readonly host: AnyActorRef }>(({ input }) =>
        portOf(input.host).start(),
      ),
      stopPeers: fromPromise<HostOutput, { readonly host: AnyActorRef }>(({ input }) =>
        portOf(input.host).shutDown(),
      ),
    },
    actions: {
      spawnAll: enqueueActions(({ enqueue, self }) =>
        portOf(self).spawnAll(enqueue as unknown as SpawnChild),
      ),
      spawnPeer: enqueueActions(({ enqueue, event, self }) => {
        if (event.type === 'host.addPeer')
          portOf(self).spawnPeer(event.name, enqueue as unknown as SpawnChild);
      }),
      stopPeer: enqueueActions(({ enqueue, event }) => {
        if (event.type === 'host.removePeer') enqueue.stopChild(`peer:${event.name}`);
      }),
      notePeerCrash: ({ event, self }) => {
        // `xstate.error.actor.peer:archive`
        portOf(self).crashed(event.type.slice('xstate.error.actor.'.length));
      },
      tellReady: emit(({ event }) => ({
        type: 'ready' as const,
        report: (event as unknown as { readonly output: StartReport }).output,
      })),
      tellPeer: emit(({ event }) => ({
        type: 'peer' as const,
        report: (event as HostEvent & { type: 'peer.changed' }).report,
      })),
      tellCatalogChange: emit(({ event }) => ({
        type: 'catalogChanged' as const,
        ...(event as HostEvent & { type: 'lease.changed' }).change,
      })),
      tellConflict: emit(({ event }) => ({
        type: 'conflict' as const,
        conflict: (event as HostEvent & { type: 'lease.conflict' }).conflict,
      })),
      tellListChange: emit(({ event }) => ({
        type: 'listChanged' as const,
        ...(event as HostEvent & { type: 'list.changed' }).change,
      })),
      tellResourceUpdate: emit(({ event }) => ({
        type: 'resourceUpdated' as const,
        ...(event as HostEvent & { type: 'resource.updated' }).update,
      })),
      tellAuthorization: emit(({ event }) => ({
        type: 'authorization' as const,
        ...(event as HostEvent & { type: 'authorization.needed' }).needed,
      })),
      /** Ends this actor with the typed error, so that a parent's `onError` gets it. Everything was shut down before. */
      failWithStartError: ({ event }) => {
        throw (event as unknown as { readonly error: unknown }).error;
      },
    },
  }).createMachine({
    id: 'host',
    description: 'All peers of one host, and the registry that merges what they list.',
    context: ({ input, self }) => {
      return { hostId: bind(self, input?.hostId ?? self.id) };
    },
    invoke: { id: 'resources', src: 'resources', input: ({ self }) => ({ host: self }) },
    on: {
      'peer.changed': { actions: 'tellPeer' },
      'lease.changed': { actions: 'tellCatalogChange' },
      'lease.conflict': { actions: 'tellConflict' },
      'list.changed': { actions: 'tellListChange' },
      'resource.updated': { actions: 'tellResourceUpdate' },
      'authorization.needed': { actions: 'tellAuthorization' },
      'host.removePeer': { actions: 'stopPeer' },
    },
    initial: 'starting',
    states: {
      starting: {
        description: 'Peers negotiate and list; calls to those that are ready are served already.',
        tags: ['starting'],
        entry: 'spawnAll',
        invoke: {
          id: 'startPeers',
          src: 'startPeers',
          input: ({ self }) => ({ host: self }),
          onDone: { target: 'ready', actions: 'tellReady' },
          onError: { target: 'failed', actions: 'failWithStartError' },
        },
        on: {
          'host.stop': { target: 'stopping' },
          'host.addPeer': { actions: 'spawnPeer' },
          'xstate.error.actor.*': { actions: 'notePeerCrash' },
        },
      },
      ready: {
        description: 'Every peer has settled, or had its time.',
        tags: ['ready'],
        on: {
          'host.stop': { target: 'stopping' },
          'host.addPeer': { actions: 'spawnPeer' },
          'xstate.error.actor.*': { actions: 'notePeerCrash' },
        },
      },
      stopping: {
        description: 'Ends processes, sockets and timers.',
        tags: ['stopping'],
        invoke: {
          id: 'stopPeers',
          src: 'stopPeers',
          input: ({ self }) => ({ host: self }),
          onDone: { target: 'stopped' },
        },
        on: {
          'xstate.error.actor.*': { actions: 'notePeerCrash' },
        },
      },
      failed: {
        description:
          'The start failed for a reason the configuration declares fatal; the actor ends with that error.',
      },
      stopped: {
        description: 'Nothing of any peer is left.',
        type: 'final',
        output: ({ event }) => (event as unknown as { readonly output: HostOutput }).output,
      },
    },
    output: ({ event }) => (event as unknown as { readonly output: HostOutput }).output,
  });
}
