/**
 * Request correlation, deadlines and cancellation over one transport: one life of a peer's connection.
 *
 * The order of its use: {@link Connection.open}, {@link Connection.probe} (again with another revision, if the server
 * asks for it), perhaps {@link Connection.initialize} once, then {@link Connection.select}; only then
 * {@link Connection.request} and {@link Connection.notify}. Until an era is selected nothing but the probe,
 * `initialize` and `notifications/initialized` can be written (N9, N17).
 */
import type { Dialect } from '../protocol/dialect.js';
import { type ModernSign, modernSign } from '../protocol/evidence.js';
import type { CloseCause, Outcome, UnreachableCause } from '../protocol/exchange.js';
import {
  type IdSource,
  type Incoming,
  isJsonObject,
  type JsonObject,
  parseMessage,
} from '../protocol/jsonRpc.js';
import type { Era } from '../protocol/revisions.js';
import type { Clock } from './clock.js';
import { PendingRequest, type Progress } from './pendingRequest.js';
import { type LegacyPermit, spendLegacyPermit } from './permit.js';
import type { Exchange, StreamEnd, Transport, TransportFactory } from './transport.js';

export type { Progress } from './pendingRequest.js';

/** What was wrong on this connection and belongs to no request. Counted; a payload is never kept. */
export type FaultKind =
  | 'noise'
  | 'invalid-utf8'
  | 'oversize'
  | 'unterminated'
  | 'stream'
  | 'malformed' // valid JSON that is no JSON-RPC message
  | 'late' // a response to a request that is settled already
  | 'foreign' // a response with an id that was never sent
  | 'uncorrelated' // an error without an id
  | 'foreign-progress' // progress for no request that asked for it
  | 'server-request'; // a modern peer's own request (N18)

export interface ConnectionEvents {
  /** Modern evidence in its loosest form, at the moment it was decoded (N21). */
  modernSign(sign: ModernSign): void;
  notification(method: string, params: JsonObject | undefined): void;
  /** A server's own request, in the legacy era only. */
  serverRequest(id: string | number, method: string, params: JsonObject | undefined): void;
  fault(kind: FaultKind, detail: string): void;
  /** The connection is over. Every request was settled before. Exactly once, if it was ever opened. */
  closed(cause: CloseCause): void;
}

export interface ConnectionOptions {
  readonly transport: TransportFactory;
  readonly ids: IdSource;
  readonly clock: Clock;
  readonly events: ConnectionEvents;
  /** Longest life of a request whose deadline is extended by progress. */
  readonly maxTotalMs: number;
}

export interface RequestOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Asks for progress, and lets progress extend the deadline. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Extra `_meta`, under the protocol's own keys. */
  readonly meta?: JsonObject | undefined;
  /** Asked in the tick of the write; false: nothing is written and the outcome is `withheld`. */
  readonly mayWrite?: (() => boolean) | undefined;
  /** `params.name` or `params.uri`, for the header of that name. */
  readonly name?: string | undefined;
}

export type OpenOutcome = { readonly ok: true } | { readonly ok: false; readonly cause: UnreachableCause };

/** Messages in a row that are no JSON-RPC: no server that works sends so many. */
const MAX_RUBBISH = 10_000;

/** How long an answer stream may stay open after its response before this side closes it. */
const LINGER_MS = 2_000;

const CLOSED_BY_HOST: CloseCause = { kind: 'host', detail: 'closed by this host' };

export class Connection {
  private readonly transport: Transport;
  private readonly clock: Clock;
  private readonly ids: IdSource;
  private readonly events: ConnectionEvents;
  private readonly maxTotalMs: number;
  private readonly pending = new Map<number, PendingRequest>();
  private dialect: Dialect | null = null;
  private firstId = 0;
  private lastId = 0;
  private openProbe: PendingRequest | null = null;
  private closedBecause: CloseCause | null = null;
  private isInitialized = false;
  private isClosing = false;
  /** Answered by a message, their streams not ended (HTTP). */
  private readonly lingering = new Set<PendingRequest>();
  /** Messages in a row that were none. */
  private rubbish = 0;
  private lingerTimer: unknown = null;
  private idleWaiters: (() => void)[] = [];
  private closing: Promise<void> | null = null;
  private giveUpOpening: (() => void) | null = null;

  constructor(options: ConnectionOptions) {
    this.ids = options.ids;
    this.clock = options.clock;
    this.events = options.events;
    this.maxTotalMs = options.maxTotalMs;
    this.transport = options.transport({
      message: (text, exchange) => this.receive(text, exchange),
      overheard: (text) => this.overhear(text),
      fault: (fault) => this.events.fault(fault.kind, fault.detail),
      closed: (cause) => this.end(cause),
    });
  }

  get transportKind(): string {
    return this.transport.kind;
  }

  /** True where each request has its own answer stream (HTTP). */
  get perRequestStreams(): boolean {
    return this.transport.perRequestStreams;
  }

  /** Whether something can still be written. */
  get isOpen(): boolean {
    return this.closedBecause === null && !this.isClosing;
  }

  /** Why it ended, if it did. */
  get closeCause(): CloseCause | null {
    return this.closedBecause;
  }

  /** Whether a probe may be sent on it: never after `initialize`, since dual-era servers refuse it then (N12). */
  get mayBeProbed(): boolean {
    return !this.isInitialized && this.dialect?.era !== 'legacy';
  }

  /** The selected era and revision. */
  get agreed(): { readonly era: Era; readonly revision: string } | null {
    return this.dialect;
  }

  get inFlight(): number {
    return this.pending.size;
  }

  /** Resolves when nothing is in flight. */
  whenIdle(): Promise<void> {
    if (this.pending.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      this.idleWaiters.push(resolve);
    });
  }

  /**
   * Opens the transport. Resolves within `timeoutMs`, and when the connection ends, whatever the transport does.
   */
  open(timeoutMs: number): Promise<OpenOutcome> {
    return new Promise((resolve) => {
      const timer = this.clock.setTimeout(
        () => resolve(notOpened('the transport did not open in time')),
        timeoutMs,
      );
      const settle = (outcome: OpenOutcome): void => {
        this.clock.clearTimeout(timer);
        resolve(outcome);
      };
      this.giveUpOpening = () => settle(notOpened('the connection was closed before it was open'));
      this.transport.open().then(settle, (error: unknown) => {
        settle(
          notOpened(
            `the transport failed to open: ${error instanceof Error ? error.message : 'unknown error'}`,
          ),
        );
      });
    });
  }

  /**
   * Sends `server/discover` (N1). When its deadline passes it is neither cancelled nor closed: the connection keeps
   * listening for a late answer, which is heard as a modern sign (N9).
   */
  probe(dialect: Dialect, timeoutMs: number): { readonly id: number; readonly outcome: Promise<Outcome> } {
    if (!this.mayBeProbed) throw new Error('a connection that saw initialize is not probed; open a new one');
    this.openProbe = null;
    const request = this.prepare(dialect, 'server/discover', { timeoutMs });
    request.keepListening = true;
    this.openProbe = request;
    this.dispatch(request, dialect.request(request.id, 'server/discover', ''));
    return request;
  }

  /**
   * Sends `initialize`, if `permit` gives a permit for this connection in the tick of the write.
   *
   * @param members the serialized members of its params
   * @throws {Error} the connection has an era already
   */
  initialize(
    dialect: Dialect,
    members: string,
    permit: () => LegacyPermit | null,
    timeoutMs: number,
  ): { readonly id: number; readonly outcome: Promise<Outcome> } {
    if (this.dialect !== null) throw new Error('initialize was refused: this connection has an era already');
    this.isInitialized = true;
    const request = this.prepare(dialect, 'initialize', {
      timeoutMs,
      mayWrite: () => spendLegacyPermit(permit(), this),
    });
    request.keepListening = true;
    this.dispatch(request, dialect.request(request.id, 'initialize', members));
    return request;
  }

  /**
   * Tells the connection its era (again only from one modern revision to another, N14). In the legacy era it sends `notifications/initialized` first (N11); from now on
   * {@link request} and {@link notify} work.
   */
  select(dialect: Dialect): void {
    if (this.dialect !== null && (this.dialect.era !== 'modern' || dialect.era !== 'modern')) {
      throw new Error('the era of a connection is selected once');
    }
    this.dialect = dialect;
    this.transport.negotiated?.({ era: dialect.era, revision: dialect.revision });
    this.stopListeningForProbe();
    if (dialect.era === 'legacy') this.notify('notifications/initialized', '');
  }

  /** Gives up on a late answer to the probe: over HTTP its stream is closed. */
  stopListeningForProbe(): void {
    const probe = this.openProbe;
    this.openProbe = null;
    if (probe !== null && this.transport.perRequestStreams) this.transport.abort(probe);
  }

  /**
   * Sends a request in the selected dialect. Resolves with what it came to; never rejects.
   *
   * @param members the serialized members of `params`, without `_meta`
   * @throws {Error} no era is selected, or the method belongs to a negotiation (N17)
   */
  request(
    method: string,
    members: string,
    options: RequestOptions,
  ): { readonly id: number; readonly outcome: Promise<Outcome>; readonly written: boolean } {
    const { dialect } = this;
    if (dialect === null) throw new Error(`${method} was refused: no era is selected for this connection`);
    if (method === 'initialize' || (method === 'server/discover' && dialect.era === 'legacy')) {
      throw new Error(`${method} was refused: it belongs to a negotiation`);
    }
    const request = this.prepare(dialect, method, options);
    const meta =
      options.onProgress === undefined ? options.meta : { ...options.meta, progressToken: request.id };
    this.dispatch(request, dialect.request(request.id, method, members, meta), options.signal);
    return request;
  }

  /** Sends a notification in the selected dialect. Nothing is known of its arrival. */
  notify(method: string, members: string): void {
    const { dialect } = this;
    if (dialect === null) throw new Error(`${method} was refused: no era is selected for this connection`);
    if (!this.isOpen) return;
    this.transport.send(
      dialect.notification(method, members),
      new LooseMessage(method, this.headersOf(dialect, method)),
    );
  }

  /** Answers a server's own request (legacy only). */
  respond(
    id: string | number,
    answer: { readonly result: JsonObject } | { readonly code: number; readonly message: string },
  ) {
    const { dialect } = this;
    if (dialect === null || dialect.era !== 'legacy' || !this.isOpen) return;
    const text =
      'result' in answer
        ? dialect.response(id, answer.result)
        : dialect.errorResponse(id, answer.code, answer.message);
    this.transport.send(text, new LooseMessage(null, undefined));
  }

  /** Idempotent. Settles every request, then resolves when nothing of the transport is left. */
  close(): Promise<void> {
    this.closing ??= this.shutDown();
    return this.closing;
  }

  private async shutDown(): Promise<void> {
    // What is abandoned is cancelled on the wire, before the wire is closed.
    for (const request of this.pending.values()) {
      if (!request.keepListening) this.withdraw(request, 'the host closes the connection');
    }
    this.isClosing = true;
    this.clock.clearTimeout(this.lingerTimer);
    this.lingering.clear();
    const closed = this.transport.close();
    this.settleAll(this.closedBecause ?? CLOSED_BY_HOST);
    try {
      await closed;
    } catch {
      // A transport that breaks its contract here must not break the caller's shutdown.
    }
    this.end(CLOSED_BY_HOST);
  }

  private prepare(dialect: Dialect, method: string, options: RequestOptions): PendingRequest {
    const id = this.ids.next();
    if (this.firstId === 0) this.firstId = id;
    this.lastId = id;
    const request = new PendingRequest(this, id, method, this.headersOf(dialect, method, options.name));
    request.check = options.mayWrite;
    request.timeoutMs = options.timeoutMs;
    if (options.onProgress !== undefined) {
      request.onProgress = options.onProgress;
      request.maxTotalMs = this.maxTotalMs;
    }
    return request;
  }

  private headersOf(
    dialect: Dialect,
    method: string,
    name?: string,
  ): Readonly<Record<string, string>> | undefined {
    return this.transport.perRequestStreams ? dialect.headers(method, name) : undefined;
  }

  private dispatch(request: PendingRequest, text: string, signal?: AbortSignal): void {
    if (!this.isOpen) {
      request.settle({ kind: 'closed', written: false, cause: this.closedBecause ?? CLOSED_BY_HOST });
      return;
    }
    if (signal !== undefined) {
      if (signal.aborted) {
        request.settle({ kind: 'cancelled', written: false, detail: 'the caller aborted' });
        return;
      }
      request.listenTo(signal);
    }
    this.pending.set(request.id, request);
    request.startedAt = this.clock.now();
    request.timer = this.clock.setTimeout(() => this.expire(request), request.timeoutMs);
    this.transport.send(text, request);
  }

  private expire(request: PendingRequest): void {
    if (request.isSettled) return;
    if (!request.keepListening) this.withdraw(request, 'the deadline passed');
    request.settle({ kind: 'timeout', written: request.written, timeoutMs: request.timeoutMs });
  }

  /** @internal `PendingOwner` */
  settled(request: PendingRequest): void {
    this.pending.delete(request.id);
    if (request.timer !== null) this.clock.clearTimeout(request.timer);
    request.timer = null;
    if (request.settledByMessage && this.isOpen) this.linger(request);
    if (this.pending.size === 0 && this.idleWaiters.length > 0) {
      for (const resolve of this.idleWaiters.splice(0)) resolve();
    }
  }

  /** @internal `PendingOwner` */
  streamEnded(request: PendingRequest): void {
    this.lingering.delete(request);
  }

  /**
   * A server may keep an answer stream open after its response. It is given a moment to end it, so that the socket is
   * used again, then it is closed.
   */
  private linger(request: PendingRequest): void {
    if (!this.transport.perRequestStreams) return;
    this.lingering.add(request);
    this.lingerTimer ??= this.clock.setTimeout(() => {
      this.lingerTimer = null;
      // One that came later than the timer has at least as long as the transport needs to read what is there.
      for (const stream of this.lingering) this.transport.abort(stream);
      this.lingering.clear();
    }, LINGER_MS);
  }

  /**
   * @internal `PendingOwner`. An abandoned request is always cancelled on the wire: by closing its stream in the
   * modern era over HTTP, else by `notifications/cancelled`. One that waits for the pipe is not written any more.
   */
  withdraw(request: PendingRequest, reason: string): void {
    const { dialect, transport } = this;
    if (transport.perRequestStreams) transport.abort(request);
    if (!request.written || dialect === null || !this.isOpen) return;
    if (transport.perRequestStreams && dialect.era === 'modern') return;
    const method = 'notifications/cancelled';
    transport.send(
      dialect.cancel(request.id, reason),
      new LooseMessage(method, this.headersOf(dialect, method)),
    );
  }

  private receive(text: string, exchange: Exchange | null): void {
    if (this.closedBecause !== null) return;
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      this.unreadable(exchange);
      return;
    }
    // N21: read before it is correlated and before anything is dropped.
    if (this.dialect === null) this.scan(message);
    if (this.isPlainResult(message, exchange)) return;
    this.sort(parseMessage(message), message, exchange);
  }

  /** The hot path: a well-formed result to a pending request. */
  private isPlainResult(message: unknown, exchange: Exchange | null): boolean {
    if (!isJsonObject(message)) return false;
    const { id, result } = message;
    if (result === undefined || message['jsonrpc'] !== '2.0') return false;
    if (message['error'] !== undefined || message['method'] !== undefined) return false;
    const request = typeof id === 'number' ? this.pending.get(id) : undefined;
    if (request === undefined || (exchange !== null && exchange !== request)) return false;
    this.rubbish = 0;
    request.settleResult(result);
    return true;
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
  private correlate(
    incoming: Incoming & { kind: 'result' | 'error' | 'malformed' },
    message: unknown,
    exchange: Exchange | null,
  ): void {
    const { id } = incoming;
    const request = typeof id === 'number' ? this.pending.get(id) : undefined;
    if (request !== undefined && (exchange === null || exchange === request)) {
      if (incoming.kind === 'result') request.settleResult(incoming.result);
      else if (incoming.kind === 'error') request.settleError(incoming.error, true);
      else request.settleMalformed(incoming.what);
      return;
    }
    // In the legacy era what answers no pending request may be a late answer to the probe (N12).
    if (this.dialect?.era === 'legacy') this.scan(message);
    if (exchange instanceof PendingRequest && !exchange.isSettled) {
      this.stray(incoming, exchange);
      return;
    }
    this.countUncorrelated(incoming);
  }

  /** N20: an answer to a lone POST settles it, also without its id; a later message of the stream may be the right one. */
  private stray(
    incoming: Incoming & { kind: 'result' | 'error' | 'malformed' },
    request: PendingRequest,
  ): void {
    const hasId = incoming.id !== undefined && incoming.id !== null;
    if (incoming.kind === 'error' && !hasId) request.settleError(incoming.error, false);
    else if (incoming.kind === 'error') request.remember({ error: incoming.error });
    else if (incoming.kind === 'result') request.remember({ detail: 'a result with another id' });
    else request.remember({ detail: incoming.what });
  }

  private countUncorrelated(incoming: Incoming & { kind: 'result' | 'error' | 'malformed' }): void {
    const { id } = incoming;
    if (typeof id === 'number' && id >= this.firstId && id <= this.lastId) {
      this.events.fault('late', `a response to ${id}, which is settled`);
    } else if (incoming.kind === 'malformed') {
      this.refuse('malformed', incoming.what);
    } else if (id === null || id === undefined) {
      this.events.fault('uncorrelated', `an error without an id`);
    } else {
      this.events.fault('foreign', `a response with the foreign id of type ${typeof id}`);
    }
  }

  private hearNotification(method: string, params: JsonObject | undefined): void {
    if (method === 'notifications/progress') {
      this.hearProgress(params);
      return;
    }
    this.events.notification(method, params);
  }

  private hearProgress(params: JsonObject | undefined): void {
    const token = params?.['progressToken'];
    const request = typeof token === 'number' ? this.pending.get(token) : undefined;
    const progress = params?.['progress'];
    if (request?.onProgress === undefined || typeof progress !== 'number') {
      this.events.fault('foreign-progress', 'progress for no request that asked for it');
      return;
    }
    this.extend(request);
    const total = params?.['total'];
    const message = params?.['message'];
    try {
      request.onProgress({
        progress,
        total: typeof total === 'number' ? total : undefined,
        message: typeof message === 'string' ? message : undefined,
      });
    } catch {
      // A caller's listener that throws harms nothing.
    }
  }

  /** Progress extends the deadline, up to the longest life of the request. */
  private extend(request: PendingRequest): void {
    const left = request.startedAt + request.maxTotalMs - this.clock.now();
    this.clock.clearTimeout(request.timer);
    request.timer = this.clock.setTimeout(
      () => this.expire(request),
      Math.max(0, Math.min(request.timeoutMs, left)),
    );
  }

  private hearRequest(incoming: Incoming & { kind: 'request' }): void {
    if (this.dialect?.era === 'legacy') {
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
    this.end({ kind: 'protocol', detail: `more than ${MAX_RUBBISH} messages that are no JSON-RPC` });
    void this.close();
  }

  private overhear(text: string): void {
    if (this.closedBecause !== null || this.dialect?.era === 'modern') return;
    try {
      this.scan(JSON.parse(text));
    } catch {
      // No JSON: nothing to hear.
    }
  }

  private scan(message: unknown): void {
    const sign = modernSign(message);
    if (sign !== null) this.events.modernSign(sign);
  }

  private settleAll(cause: CloseCause): void {
    for (const request of [...this.pending.values()]) {
      request.settle({ kind: 'closed', written: request.written, cause });
    }
  }

  private end(cause: CloseCause): void {
    if (this.closedBecause !== null) return;
    this.closedBecause = cause;
    this.giveUpOpening?.();
    this.settleAll(cause);
    this.events.closed(cause);
  }
}

/** A notification or a response: nobody waits for it. */
class LooseMessage implements Exchange {
  readonly id = null;
  readonly method: string | null;
  readonly headers: Readonly<Record<string, string>> | undefined;
  written = false;
  redirected = false;

  constructor(method: string | null, headers: Readonly<Record<string, string>> | undefined) {
    this.method = method;
    this.headers = headers;
  }

  mayWrite(): boolean {
    return true;
  }

  onEnd(_end: StreamEnd): void {
    // A lost notification is no failure: what it is about will be noticed by its own means.
  }
}

function notOpened(detail: string): OpenOutcome {
  return { ok: false, cause: { kind: 'connect-failed', detail, terminal: false } };
}
