/**
 * `subscriptions/listen` of a modern peer on the wire: one request at a time, and what is announced on it. When to
 * listen, and how often again, its chart decides (`subscriptionMachine.ts`).
 */
import type { SubscriptionEvent, SubscriptionFilter } from '../machines/ports.js';
import { METHOD_NOT_FOUND } from '../protocol/codes.js';
import type { Outcome } from '../protocol/exchange.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/jsonRpc.js';
import { LIST_KINDS, LISTS, type ListKind } from '../protocol/lists.js';
import type { Connection } from '../transports/connection.js';
import type { ExchangeScope } from './exchangeScope.js';
import { describeOutcome } from './outcomeWords.js';

/** The member of `_meta` that says to which subscription a message belongs: the id of its listen request. */
export const SUBSCRIPTION_ID_META_KEY = 'io.modelcontextprotocol/subscriptionId';

export const RESOURCE_UPDATED = 'notifications/resources/updated';
const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';

export interface ListeningPeer {
  readonly connection: Connection | null;
  countFault(kind: string): void;
  redact(text: string): string;
  noticed(connection: Connection, outcome: Outcome): void;
}

export interface ListeningOptions {
  readonly onListsChanged: (kinds: readonly ListKind[]) => void;
  readonly onResourceUpdated: (params: JsonObject) => void;
}

interface Announcement {
  readonly method: string;
  readonly params: JsonObject;
}

/** One request, from its write to its end. */
interface Listen {
  id: number | null;
  readonly connection: Connection;
  readonly scope: ExchangeScope<SubscriptionEvent>;
  /** Came before the id was known. */
  readonly early: Announcement[];
}

export class Listening {
  private readonly peer: ListeningPeer;
  private readonly options: ListeningOptions;
  private current: Listen | null = null;

  constructor(peer: ListeningPeer, options: ListeningOptions) {
    this.peer = peer;
    this.options = options;
  }

  /** The body of the listen actor. `signal` ends the subscription on the wire. */
  listen(asked: SubscriptionFilter, scope: ExchangeScope<SubscriptionEvent>, signal: AbortSignal): void {
    const { connection } = this.peer;
    if (connection === null || !connection.isOpen) {
      scope.report({ type: 'listen.lost', message: 'the connection is gone' });
      return;
    }
    const listen: Listen = { id: null, connection, scope, early: [] };
    this.current = listen;
    const request = connection.listen(`"notifications":${JSON.stringify(asked)}`, {
      signal,
      onWritten: () => scope.report({ type: 'listen.written' }),
    });
    listen.id = request.id;
    for (const { method, params } of listen.early.splice(0)) this.hear(method, params);
    void request.outcome.then((outcome) => {
      if (this.current === listen) this.current = null;
      this.ended(listen, outcome);
    });
  }

  /** A notification of the server. Those that have nothing to do with subscriptions are dropped. */
  hear(method: string, params: JsonObject): void {
    const kinds = kindsChangedBy(method);
    if (kinds.length === 0 && method !== RESOURCE_UPDATED && method !== ACKNOWLEDGED) return;
    const { current } = this;
    if (current !== null && current.id === null) {
      current.early.push({ method, params });
      return;
    }
    const id = subscriptionIdOf(params);
    const isOurs = current !== null && id === current.id;
    if (isOurs && method === ACKNOWLEDGED) {
      const acknowledged = readFilter(params['notifications']);
      current.scope.report({ type: 'listen.acknowledged', acknowledged });
    } else if (isOurs) {
      if (kinds.length > 0) this.options.onListsChanged(kinds);
      else this.options.onResourceUpdated(params);
    } else if (id !== undefined || method === ACKNOWLEDGED) {
      // Of a subscription that is over, or was never there.
      this.peer.countFault('foreign-notification');
    } else {
      // Outside a subscription a server may not notify at all; a hint to look again can be heard all the same.
      this.peer.countFault('unsubscribed-notification');
      if (kinds.length > 0) this.options.onListsChanged(kinds);
    }
  }

  private words(outcome: Outcome): string {
    return outcome.kind === 'result' || (outcome.kind === 'cancelled' && outcome.written)
      ? 'the server ended the subscription'
      : describeOutcome(outcome, this.peer.redact);
  }

  private ended({ scope, connection }: Listen, outcome: Outcome): void {
    if (!scope.isActive) return;
    scope.report(verdictOn(outcome, this.words(outcome)));
    this.peer.noticed(connection, outcome);
  }
}

/** The lists that a notification of this method is about. */
export function kindsChangedBy(method: string): readonly ListKind[] {
  return LIST_KINDS.filter((kind) => LISTS[kind].changed === method);
}

/** How it ended: on purpose, refused, or torn off (basic/patterns/subscriptions). */
function verdictOn(outcome: Outcome, message: string): SubscriptionEvent {
  switch (outcome.kind) {
    case 'result':
      return { type: 'listen.ended', message };
    case 'cancelled':
      return outcome.written ? { type: 'listen.ended', message } : { type: 'listen.lost', message };
    case 'error':
      return { type: 'listen.refused', message, permanent: outcome.error.code === METHOD_NOT_FOUND };
    case 'malformed':
      return { type: 'listen.refused', message, permanent: false };
    case 'unauthorized':
      // Calls work, so nobody is asked to sign in for a stream that is an extra.
      return { type: 'listen.refused', message, permanent: true };
    case 'unreachable': {
      const { retryAfterMs } = outcome.cause;
      return { type: 'listen.lost', message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) };
    }
    default:
      return { type: 'listen.lost', message };
  }
}

function subscriptionIdOf(params: JsonObject): JsonValue | undefined {
  const meta = params['_meta'];
  return isJsonObject(meta) ? meta[SUBSCRIPTION_ID_META_KEY] : undefined;
}

function readFilter(value: JsonValue | undefined): SubscriptionFilter {
  if (!isJsonObject(value)) return {};
  const uris = value['resourceSubscriptions'];
  return {
    ...(value['toolsListChanged'] === true && { toolsListChanged: true }),
    ...(value['promptsListChanged'] === true && { promptsListChanged: true }),
    ...(value['resourcesListChanged'] === true && { resourcesListChanged: true }),
    ...(Array.isArray(uris) && {
      resourceSubscriptions: uris.filter((uri): uri is string => typeof uri === 'string'),
    }),
  };
}
