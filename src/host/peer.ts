/**
 * The owner of a peer: holds its connection and its ledger outside XState, provides the actors of its chart, and
 * disposes of everything, also when the chart crashed.
 */
import type { ActorRefFrom, SnapshotFrom } from 'xstate';
import { fromCallback } from 'xstate';
import type { Channel } from '../calls/call.js';
import { catalogMachine } from '../machines/catalogMachine.js';
import { createPeerMachine } from '../machines/peerMachine.js';
import type { CatalogEvent, PeerEvent, PeerInput, ProbeInput } from '../machines/ports.js';
import { METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION } from '../protocol/codes.js';
import type { Outcome } from '../protocol/exchange.js';
import { type IdSource, isJsonObject, type JsonObject } from '../protocol/jsonRpc.js';
import type { UnavailableReason } from '../protocol/reasons.js';
import { resultTypeIsAbsent } from '../protocol/results.js';
import type { PeerCatalog } from '../registry/lease.js';
import type { Clock } from '../transports/clock.js';
import { Connection, type OpenOutcome } from '../transports/connection.js';
import type { TransportFactory } from '../transports/transport.js';
import type { ResolvedOptions, ResolvedPeer } from './config.js';
import { type ExchangeScope, runExchange, within } from './exchangeScope.js';
import type { PeerReport, PeerStateName } from './facade.js';
import { Ledger, type Ratchet } from './ledger.js';
import { emptyCatalog, type Listing, listTools } from './listing.js';
import { crashed, lost, revisionRefused, sessionGone } from './lossReasons.js';
import { runInitialize, runProbe } from './negotiation.js';
import { NegotiationRecord } from './negotiationRecord.js';
import { redactor, secretsOf } from './redact.js';

export type PeerMachine = ReturnType<typeof createPeerMachine>;
export type PeerActor = ActorRefFrom<PeerMachine>;
export type PeerSnapshot = SnapshotFrom<PeerMachine>;

/** A server that announces a change with every listing is believed after so many. */
const MAX_TORN_WALKS = 3;

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
  /** A listing is complete. */
  readonly onListed: (catalog: PeerCatalog) => void;
  readonly onListingFailed: (message: string) => void;
}

export class PeerOwner {
  readonly options: PeerOwnerOptions;
  readonly name: string;
  readonly ledger: Ledger;
  readonly record = new NegotiationRecord();
  /** Faults of the wire by kind, for the life of the peer. */
  readonly faults = new Map<string, number>();
  /** The connection in use; replaced, never reopened. */
  connection: Connection | null = null;
  /** What the server declared at the last negotiation. */
  capabilities: JsonObject = {};
  negotiationStartedAt = 0;
  /** Revisions refused with -32022 in this negotiation, in order. */
  readonly refused: string[] = [];
  private isDraining = false;
  /** Connections that end when their calls have (HTTP). */
  private readonly retired = new Set<Connection>();
  /** Walks in a row during which a change was announced. */
  private tornWalks = 0;
  /** Takes the peer's configured secrets out of a text: a server may repeat what it was given. */
  readonly redact: (text: string) => string;
  private actor: PeerActor | null = null;
  private closing: Promise<void> = Promise.resolve();
  private isDisposed = false;
  private settledAfterMs = 0;
  private tools: number | null = null;
  private listing: string | null = null;
  private listed = false;
  private path: PeerStateName[] = ['idle'];
  /** Read on every call: the tag of the state, and what {@link channel} made. */
  private hasCallableState = false;
  private callChannel: Channel | null = null;
  private lastRenegotiation = Number.NEGATIVE_INFINITY;

  constructor(options: PeerOwnerOptions) {
    this.options = options;
    this.name = options.config.name;
    this.redact = redactor(secretsOf(options.config));
    this.ledger = new Ledger({
      allowLegacy: options.config.allowLegacy,
      pin: options.pin,
      currentPin: options.currentPin,
      ratchet: options.ratchet,
    });
  }

  /** The chart of this peer, with the parts that touch the wire. */
  machine(): PeerMachine {
    return createPeerMachine(this.options.random).provide({
      actors: {
        probe: fromCallback<PeerEvent, ProbeInput>(({ input, sendBack }) =>
          runExchange('probe', sendBack, (scope) => runProbe(this, input, scope)),
        ),
        initialize: fromCallback<PeerEvent>(({ sendBack }) =>
          runExchange('initialize', sendBack, (scope) => runInitialize(this, scope)),
        ),
        catalog: catalogMachine.provide({
          actors: {
            fetch: fromCallback<CatalogEvent>(({ sendBack }) =>
              runExchange('fetch', sendBack, (scope) => this.fetch(scope)),
            ),
          },
        }),
      },
      guards: { mayProbeLegacy: () => this.ledger.refusal() === null },
      actions: {
        releaseConnection: () => {
          void this.release();
        },
      },
    });
  }

  input(systemId: string): PeerInput {
    const { limits } = this.options;
    return {
      name: this.name,
      systemId,
      preferredRevision: limits.modernRevisions.at(-1) ?? '',
      probeTimeoutMs: limits.probeTimeoutMs,
      legacyProbeTimeoutMs: limits.legacyProbeTimeoutMs,
      stableAfterMs: limits.stableAfterMs,
      backoffMinMs: limits.backoffMinMs,
      backoffMaxMs: limits.backoffMaxMs,
      maxAttempts: limits.maxAttempts,
      retryUnavailableAfterMs: limits.retryUnavailableAfterMs,
    };
  }

  /** Called once, with the actor that runs {@link machine}. */
  attach(actor: PeerActor): void {
    this.actor = actor;
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
      this.listing = null;
    } else {
      this.settledAfterMs = this.elapsedMs();
    }
    if (!isNegotiating(state)) this.ledger.settled();
    return true;
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
      tools: this.tools,
      listing: this.listing,
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

  tellCatalog(event: CatalogEvent): void {
    this.catalog()?.send(event);
  }

  private catalog(): ActorRefFrom<typeof catalogMachine> | undefined {
    return this.actor?.getSnapshot().children['catalog'] as ActorRefFrom<typeof catalogMachine> | undefined;
  }

  /** Starts a negotiation where there is none, or the listing that failed. */
  retry(): void {
    if (this.isCallable && this.listing !== null) this.tellCatalog({ type: 'catalog.refresh' });
    else this.tell({ type: 'host.retry' });
  }

  /** A new connection; the one before is closed first, so that two processes of one peer never overlap. */
  async open(deadline: number, scope: ExchangeScope): Promise<OpenOutcome> {
    const { clock, limits, ids, transport } = this.options;
    await within(clock, deadline, this.release());
    const left = deadline - clock.now();
    if (left <= 0) {
      const detail = 'there was no time left to open a connection';
      return { ok: false, cause: { kind: 'connect-failed', detail, terminal: false } };
    }
    if (this.isDisposed || !scope.isActive) {
      return { ok: false, cause: { kind: 'connect-failed', detail: 'stopped', terminal: true } };
    }
    const connection: Connection = new Connection({
      transport,
      ids,
      clock,
      maxTotalMs: limits.maxCallMs,
      redact: this.redact,
      events: {
        modernSign: (sign) => {
          this.ledger.modern(sign);
          if (this.connection === connection) this.tell({ type: 'peer.modernEvidence' });
        },
        notification: (method) => {
          if (method === 'notifications/tools/list_changed') this.tellCatalog({ type: 'catalog.changed' });
        },
        serverRequest: (id, method) => this.answer(connection, id, method),
        fault: (kind) => this.countFault(kind),
        closed: (cause) => {
          if (this.connection === connection)
            this.tell({ type: 'transport.lost', reason: lost(this.name, cause) });
        },
      },
    });
    this.connection = connection;
    return connection.open(left);
  }

  /**
   * Closes the connection in use. Resolves when nothing of any connection of this peer is left, but for one whose
   * calls in flight are left alone: over HTTP it ends by itself when they have.
   */
  release(): Promise<void> {
    const { connection } = this;
    this.connection = null;
    if (connection === null) return this.closing;
    if (connection.perRequestStreams && this.takeDraining() && connection.isOpen) {
      this.retired.add(connection);
      // Kept until nothing of it is left, so that whoever disposes of the peer waits for it.
      void connection
        .whenIdle()
        .then(() => connection.close())
        .then(() => this.retired.delete(connection));
    } else {
      this.closing = Promise.all([this.closing, connection.close()]).then(() => undefined);
    }
    return this.closing;
  }

  /** Idempotent. No connection is opened after it. */
  dispose(): Promise<void> {
    this.isDisposed = true;
    this.isDraining = false;
    for (const connection of this.retired) {
      this.closing = Promise.all([this.closing, connection.close()]).then(() => undefined);
    }
    return this.release();
  }

  /** What a request came to, for what it says of the connection, whatever the request was (N14). */
  noticed(connection: Connection, outcome: Outcome): void {
    if (this.connection !== connection) return;
    if (outcome.kind === 'session-lost') {
      this.tell({ type: 'session.lost', reason: sessionGone(this.name) });
    } else if (outcome.kind === 'unreachable' && outcome.cause.kind === 'connect-failed') {
      // Over HTTP nothing else tells that the peer is gone.
      this.isDraining = true;
      this.tell({
        type: 'transport.lost',
        reason: lost(this.name, { kind: 'reset', detail: outcome.cause.detail }),
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
    this.isDraining = true;
    this.tell({ type: 'call.unsupportedVersion', reason: revisionRefused(this.name) });
  }

  /** Whether calls in flight are to be left alone; asked once. */
  takeDraining(): boolean {
    const { isDraining } = this;
    this.isDraining = false;
    return isDraining;
  }

  /** Tells the chart that the connection is gone, if it is; in a state that awaits an answer it is no news. */
  noticeLoss(): void {
    const cause = this.connection?.closeCause ?? null;
    if (cause !== null) this.tell({ type: 'transport.lost', reason: lost(this.name, cause) });
  }

  /** Server requests are answered in the legacy era only; what was not declared is refused at once. */
  private answer(connection: Connection, id: string | number, method: string): void {
    if (method === 'ping') connection.respond(id, { result: {} });
    else
      connection.respond(id, {
        code: METHOD_NOT_FOUND,
        message: `this client does not offer ${method.slice(0, 100)}`,
      });
  }

  /** One walk for the catalog. Whatever it comes to, the start of the host need not wait for it any more. */
  private async fetch(scope: ExchangeScope<CatalogEvent>): Promise<void> {
    try {
      await this.list(scope);
    } catch (error) {
      this.listed = true;
      this.listing = 'tools/list: a fault of this host';
      this.options.onListingFailed(this.listing);
      throw error;
    }
  }

  private async list(scope: ExchangeScope<CatalogEvent>): Promise<void> {
    const { connection } = this;
    if (connection === null) return;
    const listing = await this.walk(connection);
    if (this.connection !== connection || !scope.isActive) return;
    if (listing.ok && this.isTorn()) {
      // What was seen is a list that the server may never have had.
      const { tools, digest } = listing.catalog;
      scope.report({ type: 'list.done', count: tools.length, digest });
      return;
    }
    this.listed = true;
    if (listing.ok) {
      this.tools = listing.catalog.tools.length;
      this.listing = null;
      this.options.onListed(listing.catalog);
      scope.report({
        type: 'list.done',
        count: listing.catalog.tools.length,
        digest: listing.catalog.digest,
      });
    } else {
      const message = this.redact(listing.message);
      this.listing = message;
      this.options.onListingFailed(message);
      scope.report({ type: 'list.failed', message });
      if (listing.outcome !== undefined) this.noticed(connection, listing.outcome);
    }
  }

  private walk(connection: Connection): Promise<Listing> {
    const { clock, limits } = this.options;
    // What a server does not declare is not asked for.
    if (!isJsonObject(this.capabilities['tools'])) {
      return Promise.resolve({ ok: true, catalog: emptyCatalog(this.name) });
    }
    return listTools({
      peer: this.name,
      clock,
      timeoutMs: limits.listTimeoutMs,
      request: async (members, timeoutMs) => {
        const outcome = await connection.request('tools/list', members, { timeoutMs }).outcome;
        if (resultTypeIsAbsent(outcome) && connection.agreed?.era === 'modern')
          this.countFault('absent-result-type');
        return outcome;
      },
    });
  }

  /** Whether a change was announced during the walk; a server that does so each time is believed all the same. */
  private isTorn(): boolean {
    const torn = this.catalog()?.getSnapshot().context.torn === true;
    this.tornWalks = torn ? this.tornWalks + 1 : 0;
    return torn && this.tornWalks < MAX_TORN_WALKS;
  }
}

/** Whether an answer is awaited that selects an era. */
export function isNegotiating(state: PeerStateName): boolean {
  return state === 'probing' || state === 'legacyProbe';
}
