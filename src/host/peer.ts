import type { CachePartition } from '../cache/entry.js';
import type { Channel } from '../calls/callPort.js';
import { capabilitiesOf } from '../calls/inputCapabilities.js';
import { ServerRequests } from '../calls/serverRequests.js';
import type {
  CatalogEvent,
  CatalogInput,
  ListenInput,
  PeerEvent,
  PeerInput,
  ProbeInput,
  SubscriptionEvent,
} from '../machines/ports.js';
import { UNSUPPORTED_PROTOCOL_VERSION } from '../protocol/codes.js';
import type { Outcome } from '../protocol/exchange.js';
import type { JsonObject } from '../protocol/jsonRpc.js';
import { Connection, type OpenOutcome } from '../transports/connection.js';
import type { TransportFactory } from '../transports/transport.js';
import { Authorizing } from './auth/authorizing.js';
import type { PeerAuthorization } from './auth/peerAuthorization.js';
import { AuthorizationError } from './errors.js';
import { type ExchangeScope, runExchange } from './exchangeScope.js';
import type { AuthorizationResponse, PeerReport, PeerStateName } from './facade.js';
import { Ledger } from './ledger.js';
import { lost, revisionRefused, sessionGone } from './lossReasons.js';
import { runInitialize, runProbe } from './negotiation.js';
import { NegotiationRecord } from './negotiationRecord.js';
import { type PeerActor, PeerChart, type PeerSnapshot } from './peerChart.js';
import { PeerConnections } from './peerConnections.js';
import { PeerGate } from './peerGate.js';
import { PeerLists } from './peerLists.js';
import { bindOwner, forgetKey, keyOf, type PeerMachine, peerLogic, type WiredPeer } from './peerLogic.js';
import type { PeerOwnerOptions } from './peerOwnerOptions.js';
import { isNegotiating } from './peerStates.js';
import { PeerSubscriptions } from './peerSubscriptions.js';
import { reportOf, statusOf } from './peerView.js';
import { redactor, secretsOf } from './redact.js';
import type { PeerStatus } from './status.js';

export type { PeerActor, PeerSnapshot } from './peerChart.js';
export type { PeerMachine } from './peerLogic.js';
export { isNegotiating } from './peerStates.js';

/** How much longer than its own ladder a transport may take to close before it is left to itself. */
const CLOSE_MARGIN_MS = 30_000;

/** States kept in a report's path. */
const MAX_PATH = 50;

export class PeerOwner implements WiredPeer {
  readonly options: PeerOwnerOptions;
  readonly name: string;
  readonly ledger: Ledger;
  readonly record = new NegotiationRecord();
  /** Faults of the wire by kind, for the life of the peer. */
  readonly faults = new Map<string, number>();
  readonly connections: PeerConnections;
  readonly chart: PeerChart;
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
  /** Null where nothing of the kind is configured. */
  readonly authorization: PeerAuthorization | null;
  readonly authorizing: Authorizing | null;
  private readonly transport: TransportFactory;
  /** Takes the peer's configured secrets out of a text: a server may repeat what it was given. */
  readonly redact: (text: string) => string;
  /** Duration of the last negotiation. */
  settledAfterMs = 0;
  private listed = false;
  /** States in order, the current one last. */
  readonly path: PeerStateName[] = ['idle'];
  /** Read on every call: the tag of the state, and what {@link channel} made. */
  private hasCallableState = false;
  private callChannel: Channel | null = null;
  private lastRenegotiation = Number.NEGATIVE_INFINITY;

  constructor(options: PeerOwnerOptions) {
    this.options = options;
    this.connections = new PeerConnections(options.clock, () => this.connect(), options.after);
    this.name = options.config.name;
    const configured = redactor(secretsOf(options.config));
    this.redact = (text) => configured(this.authorization?.withoutSecrets(text) ?? text);
    this.authorization = options.makeAuthorization({
      redact: this.redact,
      onUrl: (url) => options.events.authorizationNeeded(url),
      onContextChanged: () => this.contextChanged(),
    });
    this.authorizing =
      this.authorization === null || !('url' in options.config)
        ? null
        : new Authorizing(this.authorization, options.config.url, {
            isNegotiating: () => isNegotiating(this.state),
            isUnauthorized: () =>
              this.state === 'unavailable' && this.chart.snapshot?.context.reason?.code === 'unauthorized',
            probeAgain: () => this.inTurn({ type: 'host.authorized' }),
          });
    this.transport = options.transport(this.authorizing ?? undefined);
    this.chart = new PeerChart(this.redact);
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
      partition: () => this.partition,
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
    this.chart.attach(actor);
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
    this.authorizing?.observed(this.hasCallableState);
    return true;
  }

  /** The lists, the breaker and what the server asked belong to a connection that is over. */
  private leftService(state: PeerStateName): void {
    this.lists.connectionEnded();
    this.subscriptions.connectionEnded();
    this.gate.connectionEnded();
    if (state === 'unavailable' || state === 'stopped') this.lists.gone();
    const reason = this.chart.snapshot?.context.reason;
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
    const snapshot = this.chart.snapshot;
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
    const snapshot = this.chart.snapshot;
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
    return reportOf(this);
  }

  tell(event: PeerEvent): void {
    this.chart.tell(event);
  }

  withoutSecrets(event: PeerEvent): PeerEvent {
    return this.chart.withoutSecrets(event);
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
    this.authorization?.reconsider();
    if (this.isCallable && this.lists.toolsProblem !== null) this.lists.refreshTools();
    else this.inTurn({ type: 'host.retry' });
  }

  /**
   * Credentials are there: a peer that was refused negotiates anew, and one that serves lists anew what was refused.
   *
   * @throws {AuthorizationError} as a rejection
   */
  async authorize(response?: AuthorizationResponse): Promise<void> {
    if (response !== undefined) {
      if (this.authorization === null) {
        throw new AuthorizationError(this.name, 'nothing of the kind is configured: give the peer an `auth`');
      }
      await this.authorization.redeem(response);
    } else {
      this.authorization?.reconsider();
    }
    if (this.isCallable && this.lists.toolsProblem !== null) await this.lists.relistTools();
    else if (this.authorizing === null) this.inTurn({ type: 'host.authorized' });
    else this.authorizing.granted();
  }

  /** Whose answers it may be given from the cache. */
  get partition(): CachePartition {
    return this.options.partition(this.authorization?.context);
  }

  /** Whoever asks now may be shown something else than who asked before. */
  private contextChanged(): void {
    if (this.isCallable) this.lists.refetch();
  }

  /** A host that retries a hundred peers starts no more of them at the same time than at its own start. */
  private inTurn(event: PeerEvent): void {
    if (this.state !== 'reconnecting' && this.state !== 'unavailable') return;
    this.options.events.requestTurn(() => this.tell(event));
  }

  status(): PeerStatus {
    return statusOf(this);
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
    const { clock, limits, ids } = this.options;
    const { transport } = this;
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
        serverStream: (stream) => {
          if (isCurrent()) this.subscriptions.streamStands(stream);
        },
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
    // The end of a session is told with credentials as well.
    const released = this.connections.dispose().then(() => this.authorization?.close());
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
