/** What a host does while its chart runs: owners of peers, the registry's store, calls. One for each host actor. */

import { randomUUID } from 'node:crypto';
import type { ActorRefFrom, AnyActorRef } from 'xstate';
import type { CachePartition } from '../cache/entry.js';
import { createMemoryStore } from '../cache/memoryStore.js';
import { ResponseCache } from '../cache/responseCache.js';
import type { Store } from '../cache/store.js';
import { callTool } from '../calls/call.js';
import { capabilitiesOf } from '../calls/inputCapabilities.js';
import type { InputHandlers } from '../calls/inputHandlers.js';
import type { CallOptions, CallOutcome } from '../calls/outcome.js';
import type { CallPolicy } from '../calls/policy.js';
import type { RequestPort } from '../calls/request.js';
import { createValidators } from '../calls/validate.js';
import { createIdSource, type IdSource, isJsonObject, type JsonObject } from '../protocol/jsonRpc.js';
import type { Lease } from '../registry/lease.js';
import { rejectedCollisions } from '../registry/policy.js';
import { registryMachine } from '../registry/registryMachine.js';
import { createRegistryPort } from '../registry/registryPort.js';
import type { RegistryEvent } from '../registry/registryPorts.js';
import { RegistryStore } from '../registry/store.js';
import type { Clock } from '../transports/clock.js';
import { createPeerAuthorization } from './auth/createPeerAuthorization.js';
import type { PeerAuthorization } from './auth/peerAuthorization.js';
import type { ResolvedOptions, ResolvedPeer } from './config.js';
import { CollisionError, PeerageError, RequiredPeerError, UnknownPeerError } from './errors.js';
import type { PeerReport, StartReport } from './facade.js';
import type { HostEvent, HostOutput, HostPort, SpawnChild } from './hostMachine.js';
import { HostWaiters } from './hostWaiters.js';
import type { Ratchet } from './ledger.js';
import { Listeners } from './listeners.js';
import { partitionOf } from './partition.js';
import { isNegotiating, type PeerActor, PeerOwner } from './peer.js';
import type { AuthorizationCallbacks } from './peerOwnerOptions.js';
import { pinOf } from './pin.js';
import { HostRequests } from './requests.js';
import { StartQueue } from './startQueue.js';
import type { HostStatus } from './status.js';
import { transportFor } from './transportFor.js';
import { wallClockOf } from './wallClock.js';

/** Where request ids start: somewhere in here, so that a server which answers with a constant is noticed at once. */
const FIRST_IDS = 1_000_000;

export interface RuntimeOptions {
  readonly options: ResolvedOptions;
  readonly clock: Clock;
  readonly random: () => number;
  readonly ratchet: Ratchet;
  readonly handlers: InputHandlers;
  readonly callPolicy: CallPolicy;
  /** Undefined: a bounded one in memory. */
  readonly store: Store | undefined;
}

export class HostRuntime implements HostPort {
  readonly id: string;
  readonly listeners = new Listeners();
  readonly clock: Clock;
  private readonly actor: AnyActorRef;
  private readonly options: ResolvedOptions;
  private readonly random: () => number;
  private readonly ratchet: Ratchet;
  private readonly ids: IdSource;
  private readonly store: RegistryStore;
  private readonly owners = new Map<string, PeerOwner>();
  /** Peers that were removed and are not gone yet, by name. */
  private readonly leaving = new Map<string, Promise<void>>();
  private readonly queue: StartQueue;
  readonly requests: HostRequests;
  private readonly port: RequestPort;
  private readonly handlers: InputHandlers;
  private readonly cache: ResponseCache;
  private readonly cacheFaults = new Map<string, number>();
  private readonly endingListeners = new Set<() => void>();
  private readonly waiters = new HostWaiters();
  private registry: ActorRefFrom<typeof registryMachine> | null = null;
  private isEnding = false;

  constructor(actor: AnyActorRef, id: string, runtimeOptions: RuntimeOptions) {
    const { options, clock, random, ratchet, handlers, callPolicy, store } = runtimeOptions;
    this.actor = actor;
    this.id = id;
    this.options = options;
    this.clock = clock;
    this.random = random;
    this.ratchet = ratchet;
    this.ids = createIdSource(1 + Math.floor(random() * FIRST_IDS));
    this.store = new RegistryStore({
      peers: options.peers.map((peer) => peer.name),
      policy: options.collisions,
    });
    this.store.subscribe(({ lease, added, removed, changed, conflicts }) => {
      const change = { revision: lease.revision, added, removed, changed };
      this.listeners.emit('catalogChanged', change);
      this.tell({ type: 'lease.changed', change });
      for (const conflict of conflicts) {
        this.listeners.emit('conflict', conflict);
        this.tell({ type: 'lease.conflict', conflict });
      }
    });
    this.queue = new StartQueue(options.maxSimultaneousStarts);
    this.handlers = handlers;
    this.cache = new ResponseCache({
      store: store ?? createMemoryStore({ now: () => clock.now() }),
      now: wallClockOf(clock),
      clock,
      onFault: (kind) => this.cacheFaults.set(kind, (this.cacheFaults.get(kind) ?? 0) + 1),
    });
    for (const peer of options.peers) this.own(peer);
    this.port = this.createPort(callPolicy);
    this.requests = new HostRequests({ port: this.port, cache: this.cache, owners: this.owners });
  }

  status(): HostStatus {
    const peers = [...this.owners.values()].map((owner) => owner.status());
    return {
      revision: this.lease.revision,
      tools: this.lease.entries.size,
      inFlight: peers.reduce((sum, peer) => sum + peer.inFlight, 0),
      queued: peers.reduce((sum, peer) => sum + peer.queued, 0),
      cacheFaults: Object.fromEntries(this.cacheFaults),
      peers,
    };
  }

  /** The lease is used: lists that have run out are fetched anew, behind the scenes. */
  useTools(): void {
    for (const owner of this.owners.values()) owner.lists.useTools();
  }

  get lease(): Lease {
    return this.store.lease;
  }

  reports(): readonly PeerReport[] {
    return [...this.owners.values()].map((owner) => owner.report());
  }

  /** @throws {UnknownPeerError} */
  owner(name: string): PeerOwner {
    const owner = this.owners.get(name);
    if (owner === undefined) throw new UnknownPeerError(name);
    return owner;
  }

  call(lease: Lease, name: string, args?: JsonObject, options?: CallOptions): Promise<CallOutcome> {
    const outcome = callTool(this.port, lease, name, args, options);
    const peer = lease.entries.get(name)?.peer;
    if (peer !== undefined) this.owners.get(peer)?.lists.useTools();
    // Nobody listens: nothing is added to the way of a call.
    return this.listeners.has('call') ? this.telling(outcome) : outcome;
  }

  private async telling(pending: Promise<CallOutcome>): Promise<CallOutcome> {
    const outcome = await pending;
    const { tool, peer, status, delivery, durationMs } = outcome;
    this.listeners.emit('call', { tool, peer, status, delivery, durationMs });
    return outcome;
  }

  // The port of the chart.

  spawnAll(enqueue: SpawnChild): void {
    enqueue.spawnChild(registryMachine.provide({ actors: { merge: createRegistryPort(this.store) } }), {
      id: 'registry',
      systemId: `${this.id}/registry`,
      input: { settleTimeoutMs: this.options.startTimeoutMs },
    });
    for (const name of this.owners.keys()) this.spawnPeer(name, enqueue);
  }

  spawnPeer(name: string, enqueue: SpawnChild): void {
    const owner = this.owners.get(name);
    if (owner === undefined) return;
    const systemId = this.systemIdOf(name);
    enqueue.spawnChild(owner.machine(), { id: `peer:${name}`, systemId, input: owner.input(systemId) });
    queueMicrotask(() => this.attach(owner));
  }

  async start(): Promise<StartReport> {
    const startedAt = this.clock.now();
    await this.allReady();
    this.store.publish();
    const failure = this.startFailure();
    if (failure !== null) {
      await this.shutDown();
      throw failure;
    }
    return { peers: this.reports(), ms: Math.round(this.clock.now() - startedAt) };
  }

  async shutDown(): Promise<HostOutput> {
    this.end();
    const owners = [...this.owners.values()];
    for (const owner of owners) owner.tell({ type: 'host.stop' });
    await Promise.all([...owners.map((owner) => owner.dispose()), ...this.leaving.values()]);
    this.waiters.wake();
    return { peers: this.reports() };
  }

  dispose(): void {
    this.end();
    for (const owner of this.owners.values()) void owner.dispose();
    this.waiters.wake();
  }

  /** Nothing new is begun, and whoever waits for something else than the wire is told. */
  private end(): void {
    this.isEnding = true;
    this.queue.clear();
    for (const listener of [...this.endingListeners]) listener();
  }

  crashed(actorId: string): void {
    const owner = actorId.startsWith('peer:') ? this.owners.get(actorId.slice('peer:'.length)) : undefined;
    if (owner === undefined) return;
    void owner.dispose();
    this.queue.done(owner.name);
    this.tellRegistry({ type: 'peer.gone', peer: owner.name });
    this.announce(owner);
  }

  // Peers that come and go.

  addPeer(peer: ResolvedPeer): Promise<PeerReport> {
    if (this.isEnding) throw new PeerageError('stopped', 'the host is stopped: no peer can be added');
    if (this.owners.has(peer.name)) {
      throw new PeerageError('duplicate-peer', `there is a peer named ${JSON.stringify(peer.name)} already`);
    }
    const owner = this.own(peer);
    this.tellRegistry({ type: 'peer.added', peer: peer.name });
    this.tell({ type: 'host.addPeer', name: peer.name });
    return this.whenReady(owner);
  }

  async removePeer(name: string): Promise<void> {
    const owner = this.owner(name);
    this.owners.delete(name);
    this.queue.done(name);
    owner.tell({ type: 'host.stop' });
    this.tell({ type: 'host.removePeer', name });
    this.tellRegistry({ type: 'peer.removed', peer: name });
    this.waiters.wake();
    const gone = owner.dispose().then(() => {
      if (this.leaving.get(name) === gone) this.leaving.delete(name);
    });
    this.leaving.set(name, gone);
    await gone;
  }

  forget(name: string): void {
    this.ratchet.delete(this.owner(name).options.pin);
  }

  /** Resolves with the peer's report once `condition` holds. Rejects when the peer is gone, or on abort. */
  async waitFor(owner: PeerOwner, condition: () => boolean, signal?: AbortSignal): Promise<PeerReport> {
    await this.waiters.until(condition, () => this.whyOver(owner), signal);
    return owner.report();
  }

  private whyOver(owner: PeerOwner): Error | null {
    if (this.owners.get(owner.name) !== owner) return new UnknownPeerError(owner.name);
    return this.isEnding ? new PeerageError('stopped', 'the host was stopped') : null;
  }

  whenReady(owner: PeerOwner): Promise<PeerReport> {
    return this.waitFor(owner, () => owner.isReady);
  }

  private own(peer: ResolvedPeer): PeerOwner {
    const pin = pinOf(peer);
    const owner: PeerOwner = new PeerOwner({
      config: peer,
      limits: this.options,
      pin,
      currentPin: () => pinOf(peer),
      transport: (authorizer) => transportFor(peer, this.options, this.clock, authorizer),
      makeAuthorization: (callbacks) => this.authorizationFor(peer, callbacks),
      ids: this.ids,
      clock: this.clock,
      random: this.random,
      ratchet: this.ratchet,
      handlers: this.handlers,
      cache: this.cache,
      // A word that no other peer has, of this host or another: what only this one may see in a cache.
      partition: this.partitionsOf(peer),
      after: this.leaving.get(peer.name),
      events: {
        listed: (catalog) => this.tellRegistry({ type: 'catalog.listed', ...this.store.deposit(catalog) }),
        listingFailed: () => this.tellRegistry({ type: 'catalog.failed', peer: peer.name }),
        toolsSettled: () => this.waiters.wake(),
        listChanged: (kind) => {
          const change = { peer: peer.name, kind };
          this.listeners.emit('listChanged', change);
          this.tell({ type: 'list.changed', change });
        },
        resourceUpdated: (uri, certain) => {
          this.requests.forget(owner, uri);
          const update = { peer: peer.name, uri, certain };
          this.listeners.emit('resourceUpdated', update);
          this.tell({ type: 'resource.updated', update });
        },
        requestTurn: (grant) => this.queue.add(peer.name, () => this.grantTurn(owner, grant)),
        authorizationNeeded: (url) => {
          const needed = { peer: peer.name, url };
          this.listeners.emit('authorization', needed);
          this.tell({ type: 'authorization.needed', needed });
        },
        isEnding: () => this.isEnding,
      },
    });
    this.owners.set(peer.name, owner);
    return owner;
  }

  private authorizationFor(peer: ResolvedPeer, callbacks: AuthorizationCallbacks): PeerAuthorization | null {
    if (!('url' in peer) || peer.auth === undefined) return null;
    const { name, auth, url, proxy } = peer;
    return createPeerAuthorization({ peer: name, auth, url, proxy, clock: this.clock, ...callbacks });
  }

  /** Kept by context: it is asked for with every list and every resource. */
  private partitionsOf(peer: ResolvedPeer): (context: string | undefined) => CachePartition {
    const ownWord = randomUUID();
    let last: { readonly context: string | undefined; readonly partition: CachePartition } | null = null;
    return (context) => {
      if (last === null || last.context !== context) {
        const partition = partitionOf(peer, ownWord, capabilitiesOf(this.handlers), context);
        last = { context, partition };
      }
      return last.partition;
    };
  }

  /** Binds an owner to its actor, then starts it in its turn. */
  private attach(owner: PeerOwner): void {
    const actor = this.actor.system.get(this.systemIdOf(owner.name)) as PeerActor | undefined;
    if (actor === undefined || this.isEnding || this.owners.get(owner.name) !== owner) return;
    owner.attach(actor);
    actor.subscribe({
      next: (snapshot) => {
        if (owner.observe(snapshot)) this.peerChanged(owner);
      },
      // The chart hears of it as `xstate.error.actor.*`.
      error: () => undefined,
    });
    this.queue.add(owner.name, () => actor.send({ type: 'host.start' }));
  }

  /** A peer that has no use for its turn any more makes room for the next. */
  private grantTurn(owner: PeerOwner, grant: () => void): void {
    grant();
    // Asked for in the middle of a transition, the turn is taken when that is over.
    queueMicrotask(() => {
      if (!isNegotiating(owner.state)) this.queue.done(owner.name);
    });
  }

  private peerChanged(owner: PeerOwner): void {
    const peer = owner.name;
    switch (owner.state) {
      case 'reconnecting':
        this.tellRegistry({ type: 'peer.stale', peer });
        this.tellRegistry({ type: 'peer.settled', peer });
        break;
      case 'unavailable':
      case 'stopped':
        this.tellRegistry({ type: 'peer.gone', peer });
        this.tellRegistry({ type: 'peer.settled', peer });
        break;
      default:
        break;
    }
    if (!isNegotiating(owner.state)) this.queue.done(peer);
    this.announce(owner);
  }

  private announce(owner: PeerOwner): void {
    const report = owner.report();
    this.listeners.emit('peer', report);
    this.tell({ type: 'peer.changed', report });
    this.waiters.wake();
  }

  private tell(event: HostEvent): void {
    if (this.actor.getSnapshot().status === 'active') this.actor.send(event);
  }

  private tellRegistry(event: RegistryEvent): void {
    this.registry ??=
      (this.actor.system.get(`${this.id}/registry`) as typeof this.registry | undefined) ?? null;
    if (this.registry?.getSnapshot().status === 'active') this.registry.send(event);
  }

  private systemIdOf(peer: string): string {
    return `${this.id}/peer:${peer}`;
  }

  /** Resolves when every peer is ready, at `startTimeoutMs`, or when the host ends. */
  private allReady(): Promise<void> {
    return this.waiters.within(
      this.clock,
      this.options.startTimeoutMs,
      () => this.isEnding || [...this.owners.values()].every((owner) => owner.isReady),
      () => this.tellRegistry({ type: 'host.startTimeout' }),
    );
  }

  private startFailure(): PeerageError | null {
    const [collision] = rejectedCollisions(this.lease);
    if (collision !== undefined) return new CollisionError([collision.owner, collision.peer], collision.tool);
    const missing = [...this.owners.values()].filter(
      (owner) => owner.options.config.required && !owner.isCallable,
    );
    return missing.length > 0 ? new RequiredPeerError(missing.map((owner) => owner.report())) : null;
  }

  private createPort(policy: CallPolicy): RequestPort {
    const { callTimeoutMs, maxCallMs, maxRounds } = this.options;
    return {
      clock: this.clock,
      callTimeoutMs,
      maxCallMs,
      maxRounds,
      validators: createValidators(),
      policy,
      handlers: this.handlers,
      random: this.random,
      currentLease: () => this.store.lease,
      peer: (name) => this.owners.get(name)?.gate,
      isEnding: () => this.isEnding,
      onEnding: (listener) => {
        this.endingListeners.add(listener);
        return () => void this.endingListeners.delete(listener);
      },
      declares: (peer, capability) => isJsonObject(this.owners.get(peer)?.capabilities[capability]),
    };
  }
}
