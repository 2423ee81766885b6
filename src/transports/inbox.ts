/**
 * What comes in on a connection: read for modern evidence, correlated with the request it answers, or counted. One
 * message at a time, in the order of its bytes.
 */
import { modernSign } from '../protocol/evidence.js';
import type { CloseCause } from '../protocol/exchange.js';
import { type Incoming, isJsonObject, type JsonObject, parseMessage } from '../protocol/jsonRpc.js';
import type { Era } from '../protocol/revisions.js';
import type { ConnectionEvents } from './connectionEvents.js';
import { PendingRequest } from './pendingRequest.js';
import type { Exchange } from './transport.js';

/** Messages in a row that are no JSON-RPC: no server that works sends so many. */
const MAX_RUBBISH = 10_000;

type Response = Incoming & { kind: 'result' | 'error' | 'malformed' };

export interface InboxOptions {
  readonly events: ConnectionEvents;
  /** For the messages of errors. */
  readonly redact: (text: string) => string;
  /** Called when more came that is no message than is tolerated. */
  readonly flooded: (cause: CloseCause) => void;
}

export class Inbox {
  /** The selected era; null while it is negotiated. */
  era: Era | null = null;
  /** A probe is under way: everything is read for modern evidence, also on a connection that is modern (N12). */
  isNegotiating = true;
  private readonly requests = new Map<number, PendingRequest>();
  private readonly events: ConnectionEvents;
  private readonly redact: (text: string) => string;
  private readonly flooded: (cause: CloseCause) => void;
  private firstId = 0;
  private lastId = 0;
  /** Messages in a row that were none. */
  private rubbish = 0;

  constructor(options: InboxOptions) {
    this.events = options.events;
    this.redact = options.redact;
    this.flooded = options.flooded;
  }

  /** Requests in flight. */
  get size(): number {
    return this.requests.size;
  }

  /** A copy: settling one removes it. */
  pending(): readonly PendingRequest[] {
    return [...this.requests.values()];
  }

  add(request: PendingRequest): void {
    if (this.firstId === 0) this.firstId = request.id;
    this.lastId = request.id;
    this.requests.set(request.id, request);
  }

  remove(request: PendingRequest): void {
    this.requests.delete(request.id);
  }

  /** @param exchange the exchange in whose answer stream it came (HTTP) */
  receive(text: string, exchange: Exchange | null): void {
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      this.unreadable(exchange);
      return;
    }
    // N21: read before it is correlated and before anything is dropped.
    if (this.isNegotiating) this.scan(message);
    if (this.isPlainResult(message, exchange)) return;
    this.sort(this.withoutSecrets(parseMessage(message)), message, exchange);
  }

  /** A text that can be no valid answer: it is read for modern evidence only. */
  overhear(text: string): void {
    if (this.era === 'modern' && !this.isNegotiating) return;
    try {
      this.scan(JSON.parse(text));
    } catch {
      // No JSON: nothing to hear.
    }
  }

  /** The hot path: a well-formed result to a pending request. */
  private isPlainResult(message: unknown, exchange: Exchange | null): boolean {
    if (!isJsonObject(message)) return false;
    const { id, result } = message;
    if (result === undefined || message['jsonrpc'] !== '2.0') return false;
    if (message['error'] !== undefined || message['method'] !== undefined) return false;
    const request = typeof id === 'number' ? this.requests.get(id) : undefined;
    if (request === undefined || (exchange !== null && exchange !== request)) return false;
    this.rubbish = 0;
    request.settleResult(result);
    return true;
  }

  private withoutSecrets(incoming: Incoming): Incoming {
    if (incoming.kind !== 'error') return incoming;
    return { ...incoming, error: { ...incoming.error, message: this.redact(incoming.error.message) } };
  }

  private sort(incoming: Incoming, message: unknown, exchange: Exchange | null): void {
    switch (incoming.kind) {
      case 'notification':
        this.hearNotification(incoming.method, incoming.params);
        return;
      case 'request':
        this.hearRequest(incoming);
        return;
      case 'result':
      case 'error':
      case 'malformed':
        this.correlate(incoming, message, exchange);
    }
  }

  /** A response that is no plain result, by JSON type and value of its id (N16). */
  private correlate(incoming: Response, message: unknown, exchange: Exchange | null): void {
    const { id } = incoming;
    const request = typeof id === 'number' ? this.requests.get(id) : undefined;
    if (request !== undefined && (exchange === null || exchange === request)) {
      if (incoming.kind === 'result') request.settleResult(incoming.result);
      else if (incoming.kind === 'error') request.settleError(incoming.error, true);
      else request.settleMalformed(incoming.what);
      return;
    }
    // In the legacy era what answers no pending request may be a late answer to the probe (N12).
    if (this.era === 'legacy' && !this.isNegotiating) this.scan(message);
    if (exchange instanceof PendingRequest && !exchange.isSettled) stray(incoming, exchange);
    else this.countUncorrelated(incoming);
  }

  private countUncorrelated(incoming: Response): void {
    const { id } = incoming;
    if (typeof id === 'number' && id >= this.firstId && id <= this.lastId) {
      this.events.fault('late', `a response to ${id}, which is settled`);
    } else if (incoming.kind === 'malformed') {
      this.refuse('malformed', incoming.what);
    } else if (id === null || id === undefined) {
      this.events.fault('uncorrelated', 'an error without an id');
    } else {
      this.events.fault('foreign', `a response with the foreign id of type ${typeof id}`);
    }
  }

  private hearNotification(method: string, params: JsonObject | undefined): void {
    if (method !== 'notifications/progress') {
      this.events.notification(method, params);
      return;
    }
    const token = params?.['progressToken'];
    const request = typeof token === 'number' ? this.requests.get(token) : undefined;
    if (request?.hearProgress(params) !== true) {
      this.events.fault('foreign-progress', 'progress for no request that asked for it');
    }
  }

  private hearRequest(incoming: Incoming & { kind: 'request' }): void {
    if (this.era === 'legacy') {
      this.events.serverRequest(incoming.id, incoming.method, incoming.params);
    } else {
      // N18: never answered. Before an era is selected nothing but the negotiation is written (N9).
      this.events.fault('server-request', 'a request of the server');
    }
  }

  private unreadable(exchange: Exchange | null): void {
    if (exchange instanceof PendingRequest && !exchange.isSettled) {
      exchange.remember({ detail: 'a body that is no JSON' });
    } else {
      this.refuse('noise', 'a line that is no JSON');
    }
  }

  /** Counts what is no message; a flood of it ends the connection. */
  private refuse(kind: 'malformed' | 'noise', detail: string): void {
    this.events.fault(kind, detail);
    this.rubbish += 1;
    if (this.rubbish <= MAX_RUBBISH) return;
    this.flooded({ kind: 'protocol', detail: `more than ${MAX_RUBBISH} messages that are no JSON-RPC` });
  }

  private scan(message: unknown): void {
    const sign = modernSign(message);
    if (sign !== null) this.events.modernSign(sign);
  }
}

/** N20: an answer to a lone POST settles it, also without its id; a later message of the stream may be the right one. */
function stray(incoming: Response, request: PendingRequest): void {
  const hasId = incoming.id !== undefined && incoming.id !== null;
  if (incoming.kind === 'error' && !hasId) request.settleError(incoming.error, false);
  else if (incoming.kind === 'error') request.remember({ error: incoming.error });
  else if (incoming.kind === 'result') request.remember({ detail: 'a result with another id' });
  else request.remember({ detail: incoming.what });
}
