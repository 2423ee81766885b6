/**
 * The owner of a peer: holds its connection and its ledger outside XState, provides the actors of its chart, and
 * disposes of everything, also when the chart crashed.
 */
import type { ActorRefFrom, SnapshotFrom } from 'xstate';
import type { CachePartition } from '../cache/entry.js';
import type { ResponseCache } from '../cache/responseCache.js';
import type { Channel } from '../calls/callPort.js';
import { capabilitiesOf } from '../calls/inputCapabilities.js';
import type { InputHandlers } from '../calls/inputHandlers.js';
import { ServerRequests } from '../calls/serverRequests.js';
import { catalogId } from '../machines/peerMachine.js';
import type {
  CatalogEvent,
  CatalogInput,
  ListenInput,
  PeerEvent,
  PeerInput,
  ProbeInput,
  SubscriptionEvent,
  SubscriptionFilter,
} from '../machines/ports.js';
import { UNSUPPORTED_PROTOCOL_VERSION } from '../protocol/codes.js';
import type { Outcome } from '../protocol/exchange.js';
import type { IdSource, JsonObject } from '../protocol/jsonRpc.js';
import type { ListKind } from '../protocol/lists.js';
import type { UnavailableReason } from '../protocol/reasons.js';
import type { PeerCatalog } from '../registry/lease.js';
import type { Clock } from '../transports/clock.js';
import { Connection, type OpenOutcome } from '../transports/connection.js';
import type { TransportFactory } from '../transports/transport.js';
import type { ResolvedOptions, ResolvedPeer } from './config.js';
import { type ExchangeScope, runExchange } from './exchangeScope.js';
import type { PeerReport, PeerStateName } from './facade.js';
import { Ledger, type Ratchet } from './ledger.js';
import { crashed, lost, revisionRefused, sessionGone } from './lossReasons.js';
import { runInitialize, runProbe } from './negotiation.js';
import { NegotiationRecord } from './negotiationRecord.js';
import { PeerConnections } from './peerConnections.js';
import { type BreakerRef, PeerGate } from './peerGate.js';
import { type CatalogRef, PeerLists } from './peerLists.js';
import { bindOwner, forgetKey, keyOf, type PeerMachine, peerLogic, type WiredPeer } from './peerLogic.js';
import { PeerSubscriptions, type SubscriptionRef } from './peerSubscriptions.js';
import { redactor, secretsOf } from './redact.js';
import type { PeerStatus } from './status.js';

export type { PeerMachine } from './peerLogic.js';

export type PeerActor = ActorRefFrom<PeerMachine>;
export type PeerSnapshot = SnapshotFrom<PeerMachine>;

/** How much longer than its own ladder a transport may take to close before it is left to itself. */
const CLOSE_MARGIN_MS = 30_000;

/** States kept in a report's path. */
const MAX_PATH = 50;

export interface PeerOwnerOptions {
  readonly config: ResolvedPeer;
  readonly limits: ResolvedOptions;
  /** The pin as configured, and as it would be computed now (N8). */
  readonly pin: string;
  readonly currentPin: () => string;
  readonly transport: TransportFactory;
  readonly ids: IdSource;
  readonly clock: Clock;
  readonly random: () => number;
  readonly ratchet: Ratchet;
  readonly handlers: InputHandlers;
  readonly cache: ResponseCache | null;
  readonly partition: CachePartition;
  /** Settles when nothing is left of the peer that had this name before: until then no connection is opened. */
  readonly after?: Promise<void> | undefined;
  readonly events: PeerOwnerEvents;
}

/** What an owner tells its host. */
export interface PeerOwnerEvents {
  /** A listing of the tools is complete. */
  listed(catalog: PeerCatalog): void;
  listingFailed(): void;
  /** Either of both was told: nobody need wait for the tools any more. */
  toolsSettled(): void;
  /** Another list changed. */
  listChanged(kind: ListKind): void;
  resourceUpdated(uri: string, certain: boolean): void;
  /** The peer wants to start again; `grant` is called when it may, at once or later. */
  requestTurn(grant: () => void): void;
  isEnding(): boolean;
}

export class PeerOwner implements WiredPeer {
  readonly options: PeerOwnerOptions;
  readonly name: string;
  readonly ledger: Ledger;
  readonly record = new NegotiationRecord();
  /** Faults of the wire by kind, for the life of the peer. */
  readonly faults = new Map<string, number>();
  readonly connections: PeerConnections;
  /** What the server declared at the last negotiation. */
  capabilities: JsonObject = {};
  negotiationStartedAt = 0;
  /** Revisions refused with -32022 in this negotiation, in order. */
  readonly refused: string[] = [];
  /** What callers see of it, what it lists, and what it tells. */
  readonly gate: PeerGate;
  readonly lists: PeerLists;
  readonly subscriptions: PeerSubscriptions;
  /** What this client offers to it. */
  readonly clientCapabilities: JsonObject;
  /** By which the guard of its chart finds it; 0 before there is one. */
  private key = 0;
  /** Takes the peer's configured secrets out of a text: a server may repeat what it was given. */
  readonly redact: (text: string) => string;
  private actor: PeerActor | null = null;
  private settledAfterMs = 0;
  private listed = false;
  private path: PeerStateName[] = ['idle'];
  /** Read on every call: the tag of the state, and what {@link channel} made. */
  private hasCallableState = false;
  private callChannel: Channel | null = null;
  private lastRenegotiation = Number.NEGATIVE_INFINITY;

  constructor(options: PeerOwnerOptions) {
    this.options = options;
    this.connections = new PeerConnections(options.clock, () => this.connect(), options.after);
    this.name = options.config.name;
    this.redact = redactor(secretsOf(options.config));
    this.ledger = new Ledger({
      allowLegacy: options.config.allowLegacy,
      pin: options.pin,
      currentPin: options.currentPin,
      ratchet: options.ratchet,
    });
    this.clientCapabilities = capabilitiesOf(options.handlers);
    const { clock, limits, events } = options;
    this.gate = new PeerGate(this, options.config, limits, clock);
    this.lists = new PeerLists(this, {
      clock,
      listTimeoutMs: limits.listTimeoutMs,
      cache: options.cache,
      partition: options.partition,
      onListed: (catalog) => events.listed(catalog),
      onListingFailed: () => events.listingFailed(),
      onChanged: (kind) => events.listChanged(kind),
    });
    this.subscriptions = new PeerSubscriptions(this, {
      onListsChanged: (kinds) => this.lists.changed(kinds),
      onResourceUpdated: (uri, certain) => events.resourceUpdated(uri, certain),
      onGap: () => this.lists.refetch(),
      onReconnected: () => this.lists.reconnected(),
    });
  }

  /** The chart of a peer, with the parts that touch the wire; the actor that runs it is given to {@link attach}. */
  machine(): PeerMachine {
    return peerLogic(this.options.random);
  }

  probe(input: ProbeInput, sendBack: (event: PeerEvent) => void): () => void {
    return runExchange('probe', sendBack, (scope) => runProbe(this, input, scope));
  }

  initialize(sendBack: (event: PeerEvent) => void): () => void {
    return runExchange('initialize', sendBack, (scope) => runInitialize(this, scope));
  }

  fetch({ kind }: CatalogInput, sendBack: (event: CatalogEvent) => void): () => void {
    return runExchange('fetch', sendBack, (scope) => this.lists.fetch(kind, scope));
  }

  refetch(): void {
    this.subscriptions.refetch();
  }

  mayProbeLegacy(): boolean {
    return this.ledger.refusal() === null;
  }

  releaseConnection(): void {
    void this.connections.release();
  }

  requestTurn(): void {
    this.options.events.requestTurn(() => this.tell({ type: 'turn.granted' }));
  }

  input(systemId: string): PeerInput {
    const { limits } = this.options;
    return {
      name: this.name,
      key: this.register(),
      systemId,
      preferredRevision: limits.modernRevisions.at(-1) ?? '',
      probeTimeoutMs: limits.probeTimeoutMs,
      legacyProbeTimeoutMs: limits.legacyProbeTimeoutMs,
      stableAfterMs: limits.stableAfterMs,
      backoffMinMs: limits.backoffMinMs,
      backoffMaxMs: limits.backoffMaxMs,
      maxAttempts: limits.maxAttempts,
      retryUnavailableAfterMs: limits.retryUnavailableAfterMs,
      breakerThreshold: limits.breakerThreshold,
      breakerOpenMs: limits.breakerOpenMs,
    };
  }

  private register(): number {
    if (this.key === 0) this.key = keyOf(this);
    return this.key;
  }

  /** Called once, with the actor that runs {@link machine}. */
  attach(actor: PeerActor): void {
    this.actor = actor;
    bindOwner(actor, this);
  }

  /** Called for every snapshot of the actor, before anybody else hears of it. Returns whether the state is another. */
  observe(snapshot: PeerSnapshot): boolean {
    const state = snapshot.value as PeerStateName;
    if (state === this.path.at(-1)) return false;
    this.hasCallableState = snapshot.hasTag('callable');
    this.callChannel = null;
    this.path.push(state);
    if (this.path.length > MAX_PATH) this.path.shift();
    if (isNegotiating(state)) {
      this.listed = false;
    } else {
      this.settledAfterMs = this.elapsedMs();
      this.ledger.settled();
    }
    if (!this.hasCallableState) this.leftService(state);
    this.gate.wakeAll();
    return true;
  }

  /** The lists, the breaker and what the server asked belong to a connection that is over. */
  private leftService(state: PeerStateName): void {
    this.lists.connectionEnded();
    this.subscriptions.connectionEnded();
    this.gate.connectionEnded();
    if (state === 'unavailable' || state === 'stopped') this.lists.gone();
    const reason = this.actor?.getSnapshot().context.reason;
    if (state === 'reconnecting' || state === 'unavailable') this.gate.noteError(reason?.message ?? state);
  }

  get state(): PeerStateName {
    return this.path.at(-1) ?? 'idle';
  }

  get isCallable(): boolean {
    return this.hasCallableState && this.connection?.isOpen === true;
  }

  /** The connection that serves calls, with what was agreed on it; null where the peer is not callable. */
  get channel(): Channel | null {
    if (!this.isCallable) return null;
    if (this.callChannel === null || this.callChannel.connection !== this.connection)
      this.callChannel = this.openChannel();
    return this.callChannel;
  }

  get hasListed(): boolean {
    return this.listed;
  }

  /** Why it is not callable and will not be soon, in one sentence; null where it is on the way. */
  whyNot(): string | null {
    if (this.connections.isDisposed) return `The peer ${this.name} was removed or stopped.`;
    const snapshot = this.actor?.getSnapshot();
    if (snapshot !== undefined && snapshot.status !== 'active') return `The peer ${this.name} is stopped.`;
    if (this.hasCallableState || isNegotiating(this.state) || this.state === 'reconnecting') return null;
    return this.notCallable();
  }

  /** Why it is not callable at this moment, in one sentence. */
  notCallable(): string {
    if (this.connections.isDisposed) return `The peer ${this.name} was removed or stopped.`;
    const { state, reason } = this.report();
    return reason === null
      ? `The peer ${this.name} is ${state}.`
      : `The peer ${this.name} is ${state}: ${reason.message}`;
  }

  private openChannel(): Channel | null {
    const { connection } = this;
    const agreed = connection?.agreed;
    return connection === null || !agreed ? null : { connection, era: agreed.era, revision: agreed.revision };
  }

  /** Nothing more is awaited for the start of the host: callable with a listing that came or failed; or not to be had. */
  get isReady(): boolean {
    const snapshot = this.actor?.getSnapshot();
    if (snapshot === undefined) return false;
    if (snapshot.status === 'error' || snapshot.status === 'stopped') return true;
    if (snapshot.hasTag('callable')) return this.listed;
    // It may take minutes to come back: only a host that cannot do without it waits.
    if (snapshot.matches('reconnecting')) return !this.options.config.required;
    return snapshot.hasTag('failed') || snapshot.matches('stopped');
  }

  countFault(kind: string): void {
    this.faults.set(kind, (this.faults.get(kind) ?? 0) + 1);
  }

  elapsedMs(): number {
    return this.options.clock.now() - this.negotiationStartedAt;
  }

  report(): PeerReport {
    const snapshot = this.actor?.getSnapshot();
    const context = snapshot?.context;
    return {
      name: this.name,
      state: this.state,
      era: context?.era ?? 'unknown',
      revision: context?.revision ?? null,
      server: context?.server ?? null,
      reason: snapshot?.status === 'error' ? crashed(snapshot.error) : this.reasonOf(context?.reason ?? null),
      initializeSent: this.ledger.initializeSent,
      ms: Math.round(isNegotiating(this.state) ? this.elapsedMs() : this.settledAfterMs),
      tools: this.lists.toolCount,
      listing: this.lists.toolsProblem,
      record: this.record.entries,
      faults: Object.fromEntries(this.faults),
      path: [...this.path],
    };
  }

  /** A reason is of interest where the peer is not callable; a loss that was mended is history. */
  private reasonOf(reason: UnavailableReason | null): UnavailableReason | null {
    return this.state === 'unavailable' || this.state === 'reconnecting' ? reason : null;
  }

  /** Tells the chart; nothing happens before it runs or after it ended. No secret gets into a context. */
  tell(event: PeerEvent): void {
    if (this.actor?.getSnapshot().status === 'active') this.actor.send(this.withoutSecrets(event));
  }

  /** The event with the configured secrets taken out of its reason. */
  withoutSecrets<T extends { readonly type: string }>(event: T): T {
    if (!('reason' in event)) return event;
    const reason = event.reason as UnavailableReason;
    return { ...event, reason: { ...reason, message: this.redact(reason.message) } };
  }

  catalog(kind: ListKind): CatalogRef | undefined {
    return this.child(catalogId(kind)) as CatalogRef | undefined;
  }

  wantCatalog(kind: ListKind): void {
    this.tell({ type: 'catalog.wanted', kind });
  }

  subscription(): SubscriptionRef | undefined {
    return this.child('subscription') as SubscriptionRef | undefined;
  }

  wantSubscription(asked: SubscriptionFilter): void {
    this.tell({ type: 'subscription.wanted', asked });
  }

  breaker(): BreakerRef | undefined {
    return this.child('breaker') as BreakerRef | undefined;
  }

  wantBreaker(cause: string): void {
    this.tell({ type: 'breaker.wanted', cause });
  }

  private child(id: string): unknown {
    return (this.actor?.getSnapshot().children as Readonly<Record<string, unknown>> | undefined)?.[id];
  }

  get serverName(): string {
    const server = this.actor?.getSnapshot().context.server;
    return server == null ? '' : JSON.stringify([server.name, server.version]);
  }

  /** The tools are there or could not be had: listen, then let callers in. */
  toolsSettled(): void {
    if (this.isCallable) this.subscriptions.begin();
    this.listed = true;
    this.gate.wakeAll();
    this.options.events.toolsSettled();
  }

  /** Starts a negotiation where there is none, or the listing that failed. */
  retry(): void {
    if (this.isCallable && this.lists.toolsProblem !== null) this.lists.refreshTools();
    else this.tell({ type: 'host.retry' });
  }

  status(): PeerStatus {
    const context = this.actor?.getSnapshot().context;
    const { gate } = this;
    return {
      name: this.name,
      state: this.state,
      era: context?.era ?? 'unknown',
      revision: context?.revision ?? null,
      generation: this.generation,
      inFlight: this.connections.inFlight,
      queued: gate.budget.queued,
      breaker: gate.breakerState,
      faults: Object.fromEntries(this.faults),
      lastError: gate.lastError,
      latency: gate.latency.report(),
      catalogs: this.lists.status(),
      subscription: this.subscriptions.status(),
    };
  }

  listen({ asked }: ListenInput, sendBack: (event: SubscriptionEvent) => void): () => void {
    const control = new AbortController();
    const stop = runExchange<SubscriptionEvent>('listen', sendBack, async (scope) =>
      this.subscriptions.listenOnce(asked, scope, control.signal),
    );
    return () => {
      stop();
      control.abort();
    };
  }

  get connection(): Connection | null {
    return this.connections.current;
  }

  get generation(): number {
    return this.connections.generation;
  }

  open(deadline: number, scope: ExchangeScope): Promise<OpenOutcome> {
    return this.connections.open(deadline, scope);
  }

  /** A new connection, not opened. What comes of one that is not in use any more changes nothing. */
  private connect(): Connection {
    const { clock, limits, ids, transport } = this.options;
    const isCurrent = (): boolean => this.connection === connection;
    const serverRequests = new ServerRequests({
      handlers: this.options.handlers,
      peer: this.name,
      respond: (id, answer) => connection.respond(id, answer),
      isEnding: () => this.options.events.isEnding(),
    });
    const connection: Connection = new Connection({
      transport,
      ids,
      clock,
      maxTotalMs: limits.maxCallMs,
      redact: this.redact,
      closeTimeoutMs: 2 * limits.shutdownGraceMs + CLOSE_MARGIN_MS,
      events: {
        modernSign: (sign) => {
          this.ledger.modern(sign);
          if (isCurrent()) this.tell({ type: 'peer.modernEvidence' });
        },
        notification: (method, params) => this.subscriptions.hear(connection, method, params),
        serverRequest: (id, method, params) => serverRequests.handle(id, method, params),
        serverCancelled: (id) => serverRequests.cancel(id),
        fault: (kind) => this.countFault(kind),
        closed: (cause) => {
          serverRequests.close();
          if (isCurrent()) this.tell({ type: 'transport.lost', reason: lost(this.name, cause, this.redact) });
        },
      },
    });
    return connection;
  }

  /** Idempotent. No connection is opened after it. */
  dispose(): Promise<void> {
    forgetKey(this.key);
    const released = this.connections.dispose();
    // Without a connection: whoever waits for it to be callable, or for a list, is told that it will not be. The actor may
    // have ended without a last snapshot.
    this.lists.connectionEnded();
    this.gate.connectionEnded();
    this.gate.close();
    return released;
  }

  /** What a request came to, for what it says of the connection, whatever the request was (N14). */
  noticed(connection: Connection, outcome: Outcome): void {
    if (this.connection !== connection) return;
    if (outcome.kind === 'session-lost') {
      this.tell({ type: 'session.lost', reason: sessionGone(this.name) });
    } else if (outcome.kind === 'unreachable' && outcome.cause.kind === 'connect-failed') {
      // Over HTTP nothing else tells that the peer is gone.
      this.connections.drain();
      this.tell({
        type: 'transport.lost',
        reason: lost(this.name, { kind: 'reset', detail: outcome.cause.detail }, this.redact),
      });
    } else if (
      outcome.kind === 'error' &&
      outcome.correlated &&
      outcome.error.code === UNSUPPORTED_PROTOCOL_VERSION
    ) {
      this.versionRefused();
    }
  }

  /** A new negotiation, at most once per `stableAfterMs`; more often the refusal is that call's error alone. */
  private versionRefused(): void {
    const { clock, limits } = this.options;
    if (clock.now() - this.lastRenegotiation < limits.stableAfterMs) return;
    this.lastRenegotiation = clock.now();
    this.connections.drain();
    this.tell({ type: 'call.unsupportedVersion', reason: revisionRefused(this.name) });
  }

  takeDraining(): boolean {
    return this.connections.takeDraining();
  }

  /** Tells the chart that the connection is gone, if it is; in a state that awaits an answer it is no news. */
  noticeLoss(): void {
    const cause = this.connection?.closeCause ?? null;
    if (cause !== null) this.tell({ type: 'transport.lost', reason: lost(this.name, cause, this.redact) });
  }
}

/** Whether an answer is awaited that selects an era. */
export function isNegotiating(state: PeerStateName): boolean {
  return state === 'probing' || state === 'legacyProbe';
}
