/**
 * What one peer tells by itself: `subscriptions/listen` in the modern era, `list_changed` and `resources/subscribe` in
 * the legacy one, behind the same events of the host.
 */
import type { ActorRefFrom } from 'xstate';
import type { SubscriptionEvent, SubscriptionFilter } from '../machines/ports.js';
import type { subscriptionMachine } from '../machines/subscriptionMachine.js';
import { subscriptionStateOf } from '../machines/subscriptionMachine.js';
import { METHOD_NOT_FOUND } from '../protocol/codes.js';
import type { Outcome } from '../protocol/exchange.js';
import { isJsonObject, type JsonObject } from '../protocol/jsonRpc.js';
import { LIST_KINDS, LISTS, type ListKind } from '../protocol/lists.js';
import { sanitizeText } from '../protocol/sanitize.js';
import type { Connection } from '../transports/connection.js';
import type { ExchangeScope } from './exchangeScope.js';
import type { SubscriptionStatus } from './status.js';

/** The member of `_meta` that says to which subscription a message belongs: the id of its listen request. */
export const SUBSCRIPTION_ID_META_KEY = 'io.modelcontextprotocol/subscriptionId';

const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
const RESOURCE_UPDATED = 'notifications/resources/updated';

/** How long `resources/subscribe` and its counterpart may take (legacy). */
const SUBSCRIBE_TIMEOUT_MS = 10_000;

export type SubscriptionRef = ActorRefFrom<typeof subscriptionMachine>;

export interface SubscribingPeer {
  readonly connection: Connection | null;
  readonly capabilities: JsonObject;
  readonly isCallable: boolean;
  subscription(): SubscriptionRef | undefined;
  /** Has the subscription spawned, or told its new filter. */
  wantSubscription(asked: SubscriptionFilter): void;
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
}

/** One `subscriptions/listen` on its way. */
interface Listening {
  id: number | null;
  readonly connection: Connection;
  readonly scope: ExchangeScope<SubscriptionEvent>;
  acknowledged: boolean;
  /** Came before the id was known. */
  early: JsonObject[];
}

export class PeerSubscriptions {
  private readonly peer: SubscribingPeer;
  private readonly options: PeerSubscriptionsOptions;
  /** URIs that the host subscribed to, with how often. */
  private readonly uris = new Map<string, number>();
  private current: Listening | null = null;
  private problem: string | null = null;
  /** The connection on which the lists were there, and listening was begun. */
  private begunOn: Connection | null = null;

  constructor(peer: SubscribingPeer, options: PeerSubscriptionsOptions) {
    this.peer = peer;
    this.options = options;
  }

  /** The peer is callable and has listed: listen. */
  begin(): void {
    const { connection } = this.peer;
    if (connection === null || this.begunOn === connection) return;
    const isFirst = this.begunOn === null;
    this.begunOn = connection;
    this.problem = null;
    if (connection.agreed?.era === 'legacy') {
      for (const uri of this.uris.keys()) this.subscribeLegacy(connection, uri, isFirst);
    } else {
      this.listen();
    }
  }

  /** Counts how often; the last one to leave ends it. */
  subscribe(uri: string): () => void {
    const count = this.uris.get(uri) ?? 0;
    this.uris.set(uri, count + 1);
    if (count === 0) this.added(uri);
    let isSubscribed = true;
    return () => {
      if (!isSubscribed) return;
      isSubscribed = false;
      const left = (this.uris.get(uri) ?? 1) - 1;
      if (left > 0) {
        this.uris.set(uri, left);
      } else {
        this.uris.delete(uri);
        this.removed(uri);
      }
    };
  }

  /** A notification of the server. Those that are none of this module's are dropped. */
  hear(connection: Connection, method: string, params: JsonObject | undefined): void {
    if (connection !== this.peer.connection) return;
    if (connection.agreed?.era === 'legacy') this.hearLegacy(method, params);
    else this.hearModern(method, params ?? {});
  }

  /** The body of the listen actor: one request, from its write to its end. Returns how to end it. */
  listenOnce(asked: SubscriptionFilter, scope: ExchangeScope<SubscriptionEvent>, signal: AbortSignal): void {
    const { connection } = this.peer;
    if (connection === null || !connection.isOpen) {
      scope.report({ type: 'listen.lost', message: 'the connection is gone' });
      return;
    }
    const listening: Listening = { id: null, connection, scope, acknowledged: false, early: [] };
    this.current = listening;
    const request = connection.listen(`"notifications":${JSON.stringify(asked)}`, {
      signal,
      onWritten: () => scope.report({ type: 'listen.written' }),
    });
    listening.id = request.id;
    for (const params of listening.early.splice(0)) this.acknowledge(params);
    void request.outcome.then((outcome) => {
      if (this.current === listening) this.current = null;
      this.ended(listening, outcome);
    });
  }

  /** What the subscription's chart asks for after every acknowledgement. */
  refetch(): void {
    this.options.onGap();
    for (const uri of this.uris.keys()) this.options.onResourceUpdated(uri, false);
  }

  status(): SubscriptionStatus | null {
    const actor = this.peer.subscription();
    if (actor !== undefined) {
      const snapshot = actor.getSnapshot();
      const { missing, problem } = snapshot.context;
      return { state: subscriptionStateOf(snapshot), missing, problem };
    }
    if (this.peer.connection?.agreed?.era !== 'legacy' || !this.peer.isCallable) return null;
    return { state: 'listening', missing: [], problem: this.problem };
  }

  private wanted(): SubscriptionFilter {
    const { capabilities } = this.peer;
    const filter: { -readonly [Member in keyof SubscriptionFilter]: SubscriptionFilter[Member] } = {};
    for (const kind of LIST_KINDS) {
      const declared = capabilities[LISTS[kind].capability];
      if (isJsonObject(declared) && declared['listChanged'] === true) filter[LISTS[kind].filter] = true;
    }
    // Whether the server offers it for a resource, its acknowledgement says.
    if (this.uris.size > 0 && isJsonObject(capabilities['resources'])) {
      filter.resourceSubscriptions = [...this.uris.keys()].sort();
    }
    return filter;
  }

  private listen(): void {
    const asked = this.wanted();
    if (Object.keys(asked).length > 0 || this.peer.subscription() !== undefined)
      this.peer.wantSubscription(asked);
  }

  private added(uri: string): void {
    const { connection } = this.peer;
    if (connection === null || this.begunOn !== connection || !this.peer.isCallable) return;
    if (connection.agreed?.era === 'legacy') this.subscribeLegacy(connection, uri, true);
    else this.listen();
  }

  private removed(uri: string): void {
    const { connection } = this.peer;
    if (connection === null || this.begunOn !== connection || !this.peer.isCallable) return;
    if (connection.agreed?.era !== 'legacy') {
      this.listen();
      return;
    }
    void connection.request('resources/unsubscribe', `"uri":${JSON.stringify(uri)}`, {
      timeoutMs: SUBSCRIBE_TIMEOUT_MS,
    });
  }

  /** @param isFirst nothing was missed before */
  private subscribeLegacy(connection: Connection, uri: string, isFirst: boolean): void {
    const resources = this.peer.capabilities['resources'];
    if (!isJsonObject(resources) || resources['subscribe'] !== true) {
      this.problem = 'The server offers no subscriptions to resources.';
      return;
    }
    const { outcome } = connection.request('resources/subscribe', `"uri":${JSON.stringify(uri)}`, {
      timeoutMs: SUBSCRIBE_TIMEOUT_MS,
    });
    void outcome.then((settled) => {
      if (this.peer.connection !== connection) return;
      this.peer.noticed(connection, settled);
      if (settled.kind !== 'result') {
        this.problem = this.peer.redact(`resources/subscribe: ${describe(settled)}`);
      } else if (!isFirst && this.uris.has(uri)) {
        this.options.onResourceUpdated(uri, false);
      }
    });
  }

  private hearLegacy(method: string, params: JsonObject | undefined): void {
    const kinds = LIST_KINDS.filter((kind) => LISTS[kind].changed === method);
    if (kinds.length > 0) this.options.onListsChanged(kinds);
    else if (method === RESOURCE_UPDATED) this.updated(params ?? {});
  }

  private hearModern(method: string, params: JsonObject): void {
    const kinds = LIST_KINDS.filter((kind) => LISTS[kind].changed === method);
    if (kinds.length === 0 && method !== RESOURCE_UPDATED && method !== ACKNOWLEDGED) return;
    const meta = params['_meta'];
    const id = isJsonObject(meta) ? meta[SUBSCRIPTION_ID_META_KEY] : undefined;
    const { current } = this;
    if (method === ACKNOWLEDGED) {
      if (current !== null && current.id === null) current.early.push(params);
      else this.acknowledge(params);
    } else if (id !== undefined && (current === null || id !== current.id)) {
      // Of a subscription that is over, or was never there.
      this.peer.countFault('foreign-notification');
    } else if (kinds.length > 0) {
      // Outside a subscription a server may not notify at all; a hint to look again can be heard all the same.
      if (id === undefined) this.peer.countFault('unsubscribed-notification');
      this.options.onListsChanged(kinds);
    } else if (id === undefined) {
      this.peer.countFault('unsubscribed-notification');
    } else {
      this.updated(params);
    }
  }

  private acknowledge(params: JsonObject): void {
    const { current } = this;
    const meta = params['_meta'];
    const id = isJsonObject(meta) ? meta[SUBSCRIPTION_ID_META_KEY] : undefined;
    if (current === null || id !== current.id) {
      this.peer.countFault('foreign-notification');
      return;
    }
    current.acknowledged = true;
    current.scope.report({ type: 'listen.acknowledged', acknowledged: readFilter(params['notifications']) });
  }

  private updated(params: JsonObject): void {
    const { uri } = params;
    // A server may tell of a part of what is subscribed to (resources: subscriptions).
    const about = typeof uri === 'string' ? [...this.uris.keys()].filter((own) => isWithin(uri, own)) : [];
    if (about.length === 0) this.peer.countFault('foreign-notification');
    else if (typeof uri === 'string') this.options.onResourceUpdated(uri, true);
  }

  private ended(listening: Listening, outcome: Outcome): void {
    const { scope, connection } = listening;
    if (!scope.isActive) return;
    const message = this.peer.redact(describe(outcome));
    if (outcome.kind === 'result' || (outcome.kind === 'cancelled' && outcome.written)) {
      scope.report({ type: 'listen.ended', message });
    } else if (outcome.kind === 'error' || outcome.kind === 'malformed') {
      const permanent = outcome.kind === 'error' && outcome.error.code === METHOD_NOT_FOUND;
      scope.report({ type: 'listen.refused', message, permanent });
    } else if (outcome.kind === 'unauthorized') {
      // Calls work, so nobody is asked to sign in for a stream that is an extra.
      scope.report({ type: 'listen.refused', message, permanent: true });
    } else {
      scope.report({ type: 'listen.lost', message });
      this.peer.noticed(connection, outcome);
    }
  }
}

function readFilter(value: unknown): SubscriptionFilter {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return {};
  const given = value as Readonly<Record<string, unknown>>;
  const uris = given['resourceSubscriptions'];
  const filter: { -readonly [Member in keyof SubscriptionFilter]: SubscriptionFilter[Member] } = {};
  if (given['toolsListChanged'] === true) filter.toolsListChanged = true;
  if (given['promptsListChanged'] === true) filter.promptsListChanged = true;
  if (given['resourcesListChanged'] === true) filter.resourcesListChanged = true;
  if (Array.isArray(uris)) {
    filter.resourceSubscriptions = uris.filter((uri): uri is string => typeof uri === 'string');
  }
  return filter;
}

function isWithin(uri: string, subscribed: string): boolean {
  return uri === subscribed || uri.startsWith(subscribed.endsWith('/') ? subscribed : `${subscribed}/`);
}

function describe(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'result':
      return 'the server ended the subscription';
    case 'cancelled':
      return outcome.detail;
    case 'error':
      return `error ${outcome.error.code} (${sanitizeText(outcome.error.message, 200)})`;
    case 'malformed':
      return sanitizeText(outcome.detail, 200);
    case 'closed':
      return `the stream ended (${sanitizeText(outcome.cause.detail, 200)})`;
    case 'unreachable':
      return sanitizeText(outcome.cause.detail, 200);
    case 'unauthorized':
      return `HTTP ${outcome.status}`;
    case 'timeout':
      return `no answer within ${Math.round(outcome.timeoutMs)} ms`;
    case 'session-lost':
      return 'the session is gone (HTTP 404)';
    case 'withheld':
      return 'it was broken off';
  }
}
