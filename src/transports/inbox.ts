/**
 * What comes in on a connection: read for modern evidence, correlated with the request it answers, or counted. One
 * message at a time, in the order of its bytes.
 */
import { modernSign } from '../protocol/evidence.js';
import type { CloseCause } from '../protocol/exchange.js';
import {
  type Incoming,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  parseMessage,
} from '../protocol/jsonRpc.js';
import type { Era } from '../protocol/revisions.js';
import type { ConnectionEvents } from './connectionEvents.js';
import { PendingRequest } from './pendingRequest.js';
import type { Exchange } from './transport.js';

/** Messages in a row that are no JSON-RPC: no server that works sends so many. */
const MAX_RUBBISH = 10_000;

/** Requests of a server that wait for their answers; far more than any server has questions at one time. */
const MAX_UNANSWERED = 1_024;

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
  /** Among {@link requests}: those that stand, and those of a negotiation. */
  private standing = 0;
  private negotiating = 0;
  /** The server's own requests, not answered yet. */
  private readonly unanswered = new Set<string | number>();
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

  /** Requests in flight, but those that stand. */
  get busy(): number {
    return this.requests.size - this.standing;
  }

  /** Requests in flight that are a caller's. */
  get callers(): number {
    return this.busy - this.negotiating;
  }

  /** A copy: settling one removes it. */
  pending(): readonly PendingRequest[] {
    return [...this.requests.values()];
  }

  add(request: PendingRequest): void {
    if (this.firstId === 0) this.firstId = request.id;
    this.lastId = request.id;
    this.requests.set(request.id, request);
    if (request.isStanding) this.standing += 1;
    else if (request.keepListening) this.negotiating += 1;
  }

  remove(request: PendingRequest): void {
    if (!this.requests.delete(request.id)) return;
    if (request.isStanding) this.standing -= 1;
    else if (request.keepListening) this.negotiating -= 1;
  }

  /** A request of the server is answered now. False where it was answered or cancelled before, or never made. */
  answered(id: string | number): boolean {
    return this.unanswered.delete(id);
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
    if (incoming.kind !== 'malformed') this.rubbish = 0;
    switch (incoming.kind) {
      case 'notification':
        this.hearNotification(incoming.method, incoming.params, exchange);
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
    if (exchange instanceof PendingRequest && !exchange.isSettled) this.hearStray(incoming, exchange);
    else this.countUncorrelated(incoming);
  }

  /** N20: an answer to a lone POST settles it, also without its id; a later message may be the right one. */
  private hearStray(incoming: Response, request: PendingRequest): void {
    if (incoming.kind === 'malformed') {
      request.remember({ detail: incoming.what });
    } else if (incoming.kind === 'result') {
      this.countUncorrelated(incoming);
      request.remember({ detail: 'a result with another id' });
    } else if (incoming.id === undefined || incoming.id === null) {
      request.settleError(incoming.error, false);
    } else {
      this.countUncorrelated(incoming);
      request.remember({ error: incoming.error });
    }
  }

  private countUncorrelated(incoming: Response): void {
    const { id } = incoming;
    if (typeof id === 'number' && this.requests.has(id)) {
      this.events.fault('foreign', `a response to ${id} in the answer to another request`);
    } else if (typeof id === 'number' && id >= this.firstId && id <= this.lastId) {
      this.events.fault('late', `a response to ${id}, which is settled`);
    } else if (incoming.kind === 'malformed') {
      this.refuse('malformed', incoming.what);
    } else if (id === null || id === undefined) {
      this.events.fault('uncorrelated', 'an error without an id');
    } else {
      this.events.fault('foreign', `a response with the foreign id of type ${typeof id}`);
    }
  }

  private hearNotification(method: string, params: JsonObject | undefined, exchange: Exchange | null): void {
    switch (method) {
      case 'notifications/progress':
        this.hearProgress(params, exchange);
        return;
      case 'notifications/cancelled':
        this.hearCancel(params, exchange);
        return;
      default:
        this.events.notification(method, params);
    }
  }

  private hearProgress(params: JsonObject | undefined, exchange: Exchange | null): void {
    const request = this.named(params?.['progressToken'], exchange);
    if (params === undefined || request?.hearProgress(params) !== true) {
      this.events.fault('foreign-progress', 'progress for no request that asked for it');
    }
  }

  /**
   * A modern server may end a subscription so, and nothing else (2026-07-28, `CancelledNotification`); a legacy one
   * takes back its own requests.
   */
  private hearCancel(params: JsonObject | undefined, exchange: Exchange | null): void {
    const id = params?.['requestId'];
    const request = this.named(id, exchange);
    if (request?.isStanding === true && request.written) {
      request.settleCancelled('the server ended it');
    } else if ((typeof id === 'string' || typeof id === 'number') && this.unanswered.delete(id)) {
      this.events.serverCancelled(id);
    } else {
      this.events.fault('foreign-cancel', 'a cancellation of nothing that the server may cancel');
    }
  }

  /** The pending request of that id, unless the notification came in the answer to another one. */
  private named(id: JsonValue | undefined, exchange: Exchange | null): PendingRequest | undefined {
    const request = typeof id === 'number' ? this.requests.get(id) : undefined;
    return exchange === null || exchange === request ? request : undefined;
  }

  private hearRequest(incoming: Incoming & { kind: 'request' }): void {
    const { id } = incoming;
    if (this.era !== 'legacy') {
      // N18: never answered. Before an era is selected nothing but the negotiation is written (N9).
      this.events.fault('server-request', 'a request of the server');
    } else if (this.unanswered.has(id)) {
      this.events.fault(
        'server-request',
        'a request of the server with the id of one that waits for its answer',
      );
    } else if (this.unanswered.size >= MAX_UNANSWERED) {
      this.events.fault('server-request', `more than ${MAX_UNANSWERED} requests of the server at one time`);
    } else {
      this.unanswered.add(id);
      this.events.serverRequest(id, incoming.method, incoming.params);
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
