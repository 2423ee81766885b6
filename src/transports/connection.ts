/**
 * Request correlation, deadlines and cancellation over one transport: one life of a peer's connection.
 *
 * The order of its use: {@link Connection.open}, {@link Connection.probe} (again with another revision, if the server
 * asks for it), perhaps {@link Connection.initialize} once, then {@link Connection.select}; only then
 * {@link Connection.request}, {@link Connection.listen} and {@link Connection.notify}. Until an era is selected nothing
 * but the probe, `initialize` and `notifications/initialized` can be written (N9, N17).
 */
import type { Dialect } from '../protocol/dialect.js';
import type { CloseCause, Outcome, UnreachableCause } from '../protocol/exchange.js';
import type { IdSource, JsonObject } from '../protocol/jsonRpc.js';
import type { Era } from '../protocol/revisions.js';
import type { Clock } from './clock.js';
import type { ConnectionEvents } from './connectionEvents.js';
import { Inbox } from './inbox.js';
import { Lingering } from './lingering.js';
import { LooseMessages } from './looseMessages.js';
import { PendingRequest, type Progress, type ProgressTerms } from './pendingRequest.js';
import { type LegacyPermit, spendLegacyPermit } from './permit.js';
import type { Exchange, ServerStream, StreamEnd, Transport, TransportFactory } from './transport.js';

export type { ConnectionEvents, FaultKind } from './connectionEvents.js';
export type { Progress } from './pendingRequest.js';

export interface ConnectionOptions {
  readonly transport: TransportFactory;
  readonly ids: IdSource;
  readonly clock: Clock;
  readonly events: ConnectionEvents;
  /** Longest life of a request whose deadline is extended by progress, where the request itself says nothing. */
  readonly maxTotalMs: number;
  /** How long the transport may take to close before it is left to itself. Default 60,000. */
  readonly closeTimeoutMs?: number;
  /** Takes configured secrets out of the message of an error, before anybody shortens it. Default: nothing. */
  readonly redact?: (text: string) => string;
}

export interface RequestOptions {
  readonly timeoutMs: number;
  readonly signal?: AbortSignal | undefined;
  /** Asks for progress, and lets progress extend the deadline. Called in the reader; what it throws is dropped. */
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** By one report of progress the deadline becomes so far from now, if it was nearer. Default: `timeoutMs`. */
  readonly extendByMs?: number | undefined;
  /**
   * Longest life of this request from its start, whatever `timeoutMs` and progress say. Default: the connection's, for
   * what progress extends. With {@link extendByMs} it lets a caller spread one deadline over several requests.
   */
  readonly maxTotalMs?: number | undefined;
  /** Extra `_meta`, under the protocol's own keys. */
  readonly meta?: JsonObject | undefined;
  /** Asked in the tick of the write; false: nothing is written and the outcome is `withheld`. */
  readonly mayWrite?: (() => boolean) | undefined;
  /** `params.name` or `params.uri`, for the header of that name. */
  readonly name?: string | undefined;
  /** More headers of this message, names in lower case (HTTP): `mcp-param-*`. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
}

export interface ListenOptions {
  /** Aborting it ends the subscription: its outcome is `cancelled`, and the server is told in the transport's way. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called once, if ever: in the tick in which the first byte is handed to the pipe or socket, right before it is, with
   * nothing left that could refuse it. That the server has read it only its acknowledgement tells. If it aborts the
   * signal or closes the connection, nothing is written after all; what it throws is dropped.
   */
  readonly onWritten?: (() => void) | undefined;
}

export type OpenOutcome = { readonly ok: true } | { readonly ok: false; readonly cause: UnreachableCause };

const CLOSE_TIMEOUT_MS = 60_000;

const CLOSED_BY_HOST: CloseCause = { kind: 'host', detail: 'closed by this host' };

export class Connection {
  private readonly transport: Transport;
  private readonly clock: Clock;
  private readonly ids: IdSource;
  private readonly events: ConnectionEvents;
  private readonly maxTotalMs: number;
  private readonly closeTimeoutMs: number;
  private readonly inbox: Inbox;
  private dialect: Dialect | null = null;
  private stream: ServerStream | null = null;
  private openProbe: PendingRequest | null = null;
  private closedBecause: CloseCause | null = null;
  private isInitialized = false;
  private isClosing = false;
  private readonly lingering: Lingering;
  private readonly loose: LooseMessages;
  private idleWaiters: (() => void)[] = [];
  private closing: Promise<void> | null = null;
  private giveUpOpening: (() => void) | null = null;

  constructor(options: ConnectionOptions) {
    this.ids = options.ids;
    this.clock = options.clock;
    this.events = options.events;
    this.maxTotalMs = options.maxTotalMs;
    this.closeTimeoutMs = options.closeTimeoutMs ?? CLOSE_TIMEOUT_MS;
    this.lingering = new Lingering(options.clock, (stream) => this.abort(stream));
    this.loose = new LooseMessages(options.clock);
    this.inbox = new Inbox({
      events: options.events,
      redact: options.redact ?? ((text) => text),
      flooded: (cause) => {
        this.end(cause);
        void this.close();
      },
    });
    this.transport = options.transport({
      message: (text, exchange) => {
        if (this.closedBecause === null) this.inbox.receive(text, exchange);
      },
      overheard: (text) => {
        if (this.closedBecause === null) this.inbox.overhear(text);
      },
      fault: (fault) => this.events.fault(fault.kind, fault.detail),
      serverStream: (stream) => this.streamStands(stream),
      closed: (cause) => this.end(cause),
    });
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

  /** How the stream of the server stands (legacy HTTP); `null` where it has no stream of its own, or none yet. */
  get serverStream(): ServerStream | null {
    return this.stream;
  }

  /** Requests of callers in flight: neither those of a negotiation nor those that {@link listen}. */
  get inFlight(): number {
    return this.inbox.callers;
  }

  /** Resolves when nothing is in flight, whoever still listens. */
  whenIdle(): Promise<void> {
    if (this.inbox.busy === 0) return Promise.resolve();
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
    this.inbox.isNegotiating = true;
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
   * {@link request} and {@link notify} work. Resolves when the server has taken that notification, so that what follows
   * comes after it, also over HTTP.
   */
  async select(dialect: Dialect): Promise<void> {
    if (this.dialect !== null && (this.dialect.era !== 'modern' || dialect.era !== 'modern')) {
      throw new Error('the era of a connection is selected once');
    }
    this.dialect = dialect;
    this.inbox.era = dialect.era;
    this.inbox.isNegotiating = false;
    this.transport.negotiated?.({ era: dialect.era, revision: dialect.revision });
    this.stopListeningForProbe();
    if (dialect.era === 'modern' || !this.isOpen) return;
    const method = 'notifications/initialized';
    const end = await this.sendLoose(dialect, dialect.notification(method, ''), method);
    // The server waits for it, and is told nothing else before: without it the session is of no use.
    if (end?.kind === 'broken' || end?.kind === 'unreachable') {
      this.end({ kind: 'reset', detail: `${method} was not delivered (${end.cause.detail})` });
      void this.close();
    }
    if (this.isOpen) await this.openServerStream();
  }

  private async openServerStream(): Promise<void> {
    try {
      await this.transport.openServerStream?.();
    } catch {
      this.events.fault('transport', 'the transport failed to open the stream of the server');
    }
  }

  private streamStands(stream: ServerStream): void {
    if (!this.isOpen) return;
    this.stream = stream;
    this.events.serverStream?.(stream);
  }

  /** Gives up on a late answer to the probe: over HTTP its stream is closed. */
  stopListeningForProbe(): void {
    const probe = this.openProbe;
    this.openProbe = null;
    if (probe !== null && this.transport.perRequestStreams) this.abort(probe);
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
    if (options.onProgress !== undefined) {
      request.progress = this.progressTerms(options.onProgress, request.timeoutMs, options);
    }
    const meta =
      options.onProgress === undefined ? options.meta : { ...options.meta, progressToken: request.id };
    this.dispatch(request, dialect.request(request.id, method, members, meta), options.signal);
    return request;
  }

  /**
   * Sends `subscriptions/listen`: a request that stands until the server answers it, and what is announced on it comes
   * as notifications. It has no deadline, and {@link whenIdle} and {@link inFlight} leave it out. It is settled by a
   * result (a graceful end) or an error, by what is neither, by the loss of its stream or connection (`closed`), by the
   * server's `notifications/cancelled` (stdio) and by the signal (both `cancelled`).
   *
   * @param members the serialized members of `params`, without `_meta`
   * @throws {Error} the selected era has no subscriptions, or none is selected
   */
  listen(
    members: string,
    options: ListenOptions = {},
  ): { readonly id: number; readonly outcome: Promise<Outcome> } {
    const { dialect } = this;
    const method = 'subscriptions/listen';
    if (dialect?.era !== 'modern') throw new Error(`${method} was refused: no modern era is selected`);
    const mayWrite = options.onWritten === undefined ? undefined : toldOfWrite(options.onWritten);
    const request = this.prepare(dialect, method, { timeoutMs: 0, mayWrite });
    request.isStanding = true;
    this.dispatch(request, dialect.request(request.id, method, members), options.signal);
    return request;
  }

  /** Sends a notification in the selected dialect. Nothing is known of its arrival. */
  notify(method: string, members: string): void {
    const { dialect } = this;
    if (dialect === null) throw new Error(`${method} was refused: no era is selected for this connection`);
    if (!this.isOpen) return;
    void this.sendLoose(dialect, dialect.notification(method, members), method);
  }

  /**
   * Answers a server's own request (legacy only). Once a request: what was answered already, what the server has
   * cancelled (2025-11-25, basic/utilities/cancellation: no response is sent) and what comes after the end of the
   * connection is dropped.
   */
  respond(
    id: string | number,
    answer: { readonly result: JsonObject } | { readonly code: number; readonly message: string },
  ): void {
    const { dialect } = this;
    if (dialect === null || dialect.era !== 'legacy' || !this.isOpen || !this.inbox.answered(id)) return;
    if (!this.loose.mayAnswer) {
      this.events.fault('server-request', 'an answer too many at one time');
      return;
    }
    const text =
      'result' in answer
        ? dialect.response(id, answer.result)
        : dialect.errorResponse(id, answer.code, answer.message);
    void this.loose.send(this.transport, text, null, undefined);
  }

  /** Idempotent. Settles every request, then resolves when nothing of the transport is left. */
  close(): Promise<void> {
    this.closing ??= this.shutDown();
    return this.closing;
  }

  private async shutDown(): Promise<void> {
    // What is abandoned is cancelled on the wire, before the wire is closed.
    for (const request of this.inbox.pending()) {
      if (!request.keepListening) this.withdraw(request, 'the host closes the connection');
    }
    this.isClosing = true;
    this.lingering.stop();
    const closed = this.closeTransport();
    this.settleAll(this.closedBecause ?? CLOSED_BY_HOST);
    await closed;
    this.end(CLOSED_BY_HOST);
  }

  private abort(exchange: Exchange): void {
    try {
      this.transport.abort(exchange);
    } catch {
      this.events.fault('transport', 'the transport failed to give up an exchange');
    }
  }

  /** A transport that breaks its contract here, by an error or by never ending, must not break the caller's shutdown. */
  private closeTransport(): Promise<void> {
    return new Promise((resolve) => {
      const broken = (how: string): void => {
        this.events.fault('transport', `the transport ${how}`);
        resolve();
      };
      const giveUp = this.clock.setTimeout(() => broken('did not close'), this.closeTimeoutMs);
      const done = (): void => this.clock.clearTimeout(giveUp);
      // The executor also catches what is thrown before there is a promise.
      new Promise<void>((started) => started(this.transport.close())).then(
        () => {
          done();
          resolve();
        },
        () => {
          done();
          broken('failed to close');
        },
      );
    });
  }

  private prepare(dialect: Dialect, method: string, options: RequestOptions): PendingRequest {
    const id = this.ids.next();
    const derived = this.headersOf(dialect, method, options.name);
    const headers =
      options.headers === undefined || derived === undefined ? derived : { ...derived, ...options.headers };
    const request = new PendingRequest(this, id, method, headers);
    request.check = options.mayWrite;
    const { timeoutMs, maxTotalMs } = options;
    request.timeoutMs = maxTotalMs !== undefined && maxTotalMs < timeoutMs ? maxTotalMs : timeoutMs;
    return request;
  }

  private progressTerms(
    listener: (progress: Progress) => void,
    timeoutMs: number,
    options: RequestOptions,
  ): ProgressTerms {
    const now = this.clock.now();
    return {
      listener,
      extendByMs: options.extendByMs ?? options.timeoutMs,
      deadline: now + timeoutMs,
      latest: now + (options.maxTotalMs ?? this.maxTotalMs),
    };
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
    this.inbox.add(request);
    if (!request.isStanding) {
      request.timer = this.clock.setTimeout(() => this.expire(request), request.timeoutMs);
    }
    try {
      this.transport.send(text, request);
    } catch {
      // It has broken its contract; whether something was written, the exchange tells.
      this.events.fault('transport', 'the transport failed to send');
      const detail = 'the transport failed to send';
      request.settle({ kind: 'closed', written: request.written, cause: { kind: 'protocol', detail } });
    }
  }

  private sendLoose(dialect: Dialect, text: string, method: string): Promise<StreamEnd | null> {
    return this.loose.send(this.transport, text, method, this.headersOf(dialect, method));
  }

  private expire(request: PendingRequest): void {
    if (request.isSettled) return;
    if (!request.keepListening) this.withdraw(request, 'the deadline passed');
    const { written, redirected, timeoutMs } = request;
    request.settleUnanswered({ kind: 'timeout', written, redirected, timeoutMs });
  }

  /** @internal `PendingOwner` */
  settled(request: PendingRequest): void {
    this.inbox.remove(request);
    if (request.timer !== null) this.clock.clearTimeout(request.timer);
    request.timer = null;
    if (request.settledByMessage && this.transport.perRequestStreams && this.isOpen) {
      this.lingering.add(request);
    }
    if (this.idleWaiters.length > 0 && this.inbox.busy === 0) {
      for (const resolve of this.idleWaiters.splice(0)) resolve();
    }
  }

  /** @internal `PendingOwner`. Progress extends the deadline, up to the longest life of the request. */
  progressed(request: PendingRequest, terms: ProgressTerms): void {
    const now = this.clock.now();
    const extended = Math.min(now + terms.extendByMs, terms.latest);
    if (extended <= terms.deadline) return;
    terms.deadline = extended;
    this.clock.clearTimeout(request.timer);
    request.timer = this.clock.setTimeout(() => this.expire(request), extended - now);
  }

  /** @internal `PendingOwner` */
  streamEnded(request: PendingRequest): void {
    this.lingering.ended(request);
  }

  /**
   * @internal `PendingOwner`. An abandoned request is always cancelled on the wire: by closing its stream in the
   * modern era over HTTP, else by `notifications/cancelled`. One that waits for the pipe is not written any more.
   */
  withdraw(request: PendingRequest, reason: string): void {
    const { dialect, transport } = this;
    if (transport.perRequestStreams) this.abort(request);
    if (!request.written || dialect === null || !this.isOpen) return;
    if (transport.perRequestStreams && dialect.era === 'modern') return;
    void this.sendLoose(dialect, dialect.cancel(request.id, reason), 'notifications/cancelled');
  }

  private settleAll(cause: CloseCause): void {
    for (const request of this.inbox.pending()) {
      request.settleUnanswered({ kind: 'closed', written: request.written, cause });
    }
  }

  private end(cause: CloseCause): void {
    if (this.closedBecause !== null) return;
    this.closedBecause = cause;
    this.lingering.stop();
    this.loose.end();
    this.giveUpOpening?.();
    this.settleAll(cause);
    this.events.closed(cause);
  }
}

function notOpened(detail: string): OpenOutcome {
  return { ok: false, cause: { kind: 'connect-failed', detail, terminal: false } };
}

function toldOfWrite(onWritten: () => void): () => boolean {
  return () => {
    try {
      onWritten();
    } catch {
      // What is being written does not depend on who looks on.
    }
    return true;
  };
}
