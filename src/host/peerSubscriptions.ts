/**
 * What one peer tells by itself: `subscriptions/listen` in the modern era, `list_changed` and `resources/subscribe` in
 * the legacy one, behind the same events of the host.
 */
import type { SubscriptionEvent, SubscriptionFilter } from '../machines/ports.js';
import { subscriptionStateOf } from '../machines/subscriptionMachine.js';
import type { Outcome } from '../protocol/exchange.js';
import { isJsonObject, type JsonObject } from '../protocol/jsonRpc.js';
import { LIST_KINDS, LISTS, type ListKind } from '../protocol/lists.js';
import type { Connection } from '../transports/connection.js';
import type { ServerStream } from '../transports/transport.js';
import type { ExchangeScope } from './exchangeScope.js';
import { LegacySubscriptions } from './legacySubscriptions.js';
import { kindsChangedBy, Listening, RESOURCE_UPDATED } from './listening.js';
import type { PeerChart } from './peerChart.js';
import type { SubscriptionStatus } from './status.js';

const NO_STREAM = 'The server has no stream of its own, so that changes are told in its answers only';
/** How long the server may take to say that it still knows the session. */
const PING_TIMEOUT_MS = 10_000;
const NO_RESOURCES = 'The server offers no resources.';

export interface SubscribingPeer {
  readonly connection: Connection | null;
  readonly capabilities: JsonObject;
  readonly isCallable: boolean;
  readonly chart: PeerChart;
  countFault(kind: string): void;
  redact(text: string): string;
  noticed(connection: Connection, outcome: Outcome): void;
}

export interface PeerSubscriptionsOptions {
  /** The server says that these lists changed. */
  readonly onListsChanged: (kinds: readonly ListKind[]) => void;
  readonly onResourceUpdated: (uri: string, certain: boolean) => void;
  /** Notifications may have been missed. */
  readonly onGap: () => void;
  /** Listening begins on another connection than before. */
  readonly onReconnected: () => void;
}

export class PeerSubscriptions {
  private readonly peer: SubscribingPeer;
  private readonly options: PeerSubscriptionsOptions;
  private readonly listening: Listening;
  private readonly legacy: LegacySubscriptions;
  /** URIs that the host subscribed to, with how often. */
  private readonly uris = new Map<string, number>();
  /** The connection on which listening was begun; null while nothing is served. */
  private begunOn: Connection | null = null;
  private hasBegun = false;
  private isChanged = false;
  /** A legacy server's own stream was open on this connection. */
  private hadStream = false;

  constructor(peer: SubscribingPeer, options: PeerSubscriptionsOptions) {
    this.peer = peer;
    this.options = options;
    this.listening = new Listening(peer, {
      onListsChanged: (kinds) => options.onListsChanged(kinds),
      onResourceUpdated: (params) => this.updated(params),
    });
    this.legacy = new LegacySubscriptions(peer, this.uris, (uri) => {
      if (this.uris.has(uri)) options.onResourceUpdated(uri, false);
    });
  }

  /** The peer is callable and has listed: listen. Does nothing where that was begun. */
  begin(): void {
    const { connection } = this.peer;
    if (connection === null || this.begunOn === connection) return;
    this.begunOn = connection;
    this.apply();
    if (this.hasBegun) this.options.onReconnected();
    this.hasBegun = true;
  }

  /** The peer serves no calls any more, on whatever connection it does again. */
  connectionEnded(): void {
    this.begunOn = null;
    this.hadStream = false;
    this.legacy.connectionEnded();
  }

  /** Counts how often; the last one to leave ends it. */
  subscribe(uri: string): () => void {
    const count = this.uris.get(uri) ?? 0;
    this.uris.set(uri, count + 1);
    if (count === 0) this.changed();
    let isSubscribed = true;
    return () => {
      if (!isSubscribed) return;
      isSubscribed = false;
      const left = (this.uris.get(uri) ?? 1) - 1;
      if (left > 0) {
        this.uris.set(uri, left);
      } else {
        this.uris.delete(uri);
        this.changed();
      }
    };
  }

  /** A notification of the server. Those that are none of this module's are dropped. */
  hear(connection: Connection, method: string, params: JsonObject = {}): void {
    if (connection !== this.peer.connection) return;
    if (connection.agreed?.era !== 'legacy') {
      this.listening.hear(method, params);
      return;
    }
    const kinds = kindsChangedBy(method);
    if (kinds.length > 0) this.options.onListsChanged(kinds);
    else if (method === RESOURCE_UPDATED) this.updated(params);
  }

  /** The stream of a legacy server over HTTP stands otherwise: what it said while there was none was missed. */
  streamStands(stream: ServerStream): void {
    if (stream.state === 'none' && this.hadStream) this.askForSession();
    if (stream.state !== 'open') return;
    const isGap = this.hadStream && !stream.resumed;
    this.hadStream = true;
    if (isGap && this.begunOn !== null) this.refetch();
  }

  /**
   * A stream that is refused after it was there may mean that the session is gone, with which a server forgets whom to
   * tell (2025-11-25, basic/transports, "Session Management"). Only a message shows it: servers without a stream refuse
   * GET in every way.
   */
  private askForSession(): void {
    this.hadStream = false;
    const { connection } = this.peer;
    if (connection?.agreed?.era !== 'legacy') return;
    const { outcome } = connection.request('ping', '', { timeoutMs: PING_TIMEOUT_MS });
    void outcome.then((settled) => this.peer.noticed(connection, settled));
  }

  /** The body of the listen actor: one request, from its write to its end, which `signal` brings about. */
  listenOnce(asked: SubscriptionFilter, scope: ExchangeScope<SubscriptionEvent>, signal: AbortSignal): void {
    this.listening.listen(asked, scope, signal);
  }

  /** What the subscription's chart asks for after every acknowledgement. */
  refetch(): void {
    this.options.onGap();
    // A copy: a listener may end its subscription and begin it anew.
    for (const uri of [...this.uris.keys()]) this.options.onResourceUpdated(uri, false);
  }

  status(): SubscriptionStatus | null {
    const { connection, isCallable } = this.peer;
    if (!isCallable) return null;
    return connection?.agreed?.era === 'legacy' ? this.legacyStatus() : this.modernStatus();
  }

  private legacyStatus(): SubscriptionStatus {
    const { uris, problem } = this.legacy.missing;
    const { connection } = this.peer;
    if (connection?.perRequestStreams !== true) return { state: 'listening', missing: uris, problem };
    // Over HTTP what a server says by itself has a stream of its own (2025-11-25, basic/transports).
    const stream = connection.serverStream;
    switch (stream?.state) {
      case 'open':
        return { state: 'listening', missing: uris, problem };
      case 'waiting':
        return { state: 'backoff', missing: uris, problem: `${stream.detail}.` };
      case 'none':
        return { state: 'closed', missing: uris, problem: `${NO_STREAM}: ${stream.detail}.` };
      case undefined:
        return { state: 'opening', missing: uris, problem };
    }
  }

  private modernStatus(): SubscriptionStatus | null {
    const snapshot = this.peer.chart.subscription()?.getSnapshot();
    const unasked = this.offersResources ? [] : [...this.uris.keys()];
    const nothing = unasked.length > 0 ? NO_RESOURCES : null;
    if (snapshot === undefined || Object.keys(snapshot.context.asked).length === 0) {
      return nothing === null ? null : { state: 'closed', missing: unasked, problem: nothing };
    }
    const { missing, problem } = snapshot.context;
    return {
      state: subscriptionStateOf(snapshot),
      missing: [...missing, ...unasked],
      problem: problem ?? nothing,
    };
  }

  private get offersResources(): boolean {
    return isJsonObject(this.peer.capabilities['resources']);
  }

  private wanted(): SubscriptionFilter {
    const { capabilities } = this.peer;
    const filter: { -readonly [Member in keyof SubscriptionFilter]: SubscriptionFilter[Member] } = {};
    for (const kind of LIST_KINDS) {
      const declared = capabilities[LISTS[kind].capability];
      if (isJsonObject(declared) && declared['listChanged'] === true) filter[LISTS[kind].filter] = true;
    }
    // Whether the server offers it for a resource, its acknowledgement says.
    if (this.uris.size > 0 && this.offersResources)
      filter.resourceSubscriptions = [...this.uris.keys()].sort();
    return filter;
  }

  /** What is subscribed to in one turn of the event loop is told at once: each change is a new listen. */
  private changed(): void {
    if (this.isChanged) return;
    this.isChanged = true;
    setImmediate(() => {
      this.isChanged = false;
      this.apply();
    });
  }

  private apply(): void {
    const { connection } = this.peer;
    if (connection === null || this.begunOn !== connection || !this.peer.isCallable) return;
    if (connection.agreed?.era === 'legacy') {
      this.legacy.apply(connection);
      return;
    }
    const asked = this.wanted();
    if (Object.keys(asked).length > 0 || this.peer.chart.subscription() !== undefined)
      this.peer.chart.wantSubscription(asked);
  }

  private updated(params: JsonObject): void {
    const { uri } = params;
    // A server may tell of a part of what is subscribed to (resources: subscriptions).
    if (typeof uri === 'string' && [...this.uris.keys()].some((own) => isWithin(uri, own))) {
      this.options.onResourceUpdated(uri, true);
    } else {
      this.peer.countFault('foreign-notification');
    }
  }
}

function isWithin(uri: string, subscribed: string): boolean {
  return uri === subscribed || uri.startsWith(subscribed.endsWith('/') ? subscribed : `${subscribed}/`);
}
