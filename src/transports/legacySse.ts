/**
 * HTTP+SSE of 2024-11-05 (basic/transports, "HTTP with SSE"): one GET whose stream brings everything that the server
 * says, and a POST for each message to the endpoint that the stream names first. Deprecated; spoken only with a peer
 * whose configuration names it and allows legacy.
 *
 * It is a pipe in two halves: an answer comes on the stream, and the POST of its request says only whether the message
 * was taken. There is no reconnect: another stream is another session, hence another negotiation.
 */
import type { CloseCause } from '../protocol/exchange.js';
import type { Clock } from './clock.js';
import { systemClock } from './clock.js';
import { overhearWhole } from './httpAnswer.js';
import { type HttpOptions, notOpened } from './httpOptions.js';
import { createHttpPool, type HttpPool } from './httpPool.js';
import { type HttpTarget, type HttpTargetReading, readHttpTarget } from './httpTarget.js';
import { readEndpoint } from './sseEndpoint.js';
import { SseSender } from './sseSender.js';
import { noStream, SseStream } from './sseStream.js';
import type {
  Exchange,
  OpenResult,
  StreamEnd,
  Transport,
  TransportEvents,
  TransportFactory,
} from './transport.js';
import { DEFAULT_MAX_MESSAGE_BYTES } from './transport.js';

/** How long a server may take to name its endpoint once it has the GET. Servers do so at once. */
const ENDPOINT_TIMEOUT_MS = 10_000;
const MAX_DETAIL_LENGTH = 400;

/**
 * Makes transports for one endpoint. A configuration that cannot be used is told by `open`, as a terminal cause. The
 * stream is opened by the first message.
 */
export function legacySseTransport(options: HttpOptions): TransportFactory {
  const reading = readHttpTarget(options.url, options.headers, options.proxy);
  return (events) => new LegacySseTransport(events, reading, options);
}

class LegacySseTransport implements Transport {
  readonly kind = 'legacy-sse';
  readonly perRequestStreams = false;
  readonly #events: TransportEvents;
  readonly #reading: HttpTargetReading;
  readonly #options: HttpOptions;
  readonly #clock: Clock;
  readonly #maxMessageBytes: number;
  readonly #sender: SseSender;
  #open: { readonly pool: HttpPool; readonly target: HttpTarget } | null = null;
  #stream: SseStream | null = null;
  #endpointTimer: unknown = null;
  /** `closed` was told. */
  #isClosed = false;
  #closing: Promise<void> | null = null;
  #released: Promise<void> | null = null;

  constructor(events: TransportEvents, reading: HttpTargetReading, options: HttpOptions) {
    this.#events = events;
    this.#reading = reading;
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#maxMessageBytes = options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES;
    this.#sender = new SseSender({
      clock: this.#clock,
      authorizer: options.authorizer ?? null,
      maxMessageBytes: this.#maxMessageBytes,
      events,
      useless: (cause) => this.#finish(cause),
    });
  }

  async open(): Promise<OpenResult> {
    if (!this.#reading.ok) return notOpened(this.#reading.problem);
    const { target } = this.#reading;
    const pool = await createHttpPool({
      origin: target.url.origin,
      proxy: target.proxy,
      connectTimeoutMs: this.#options.connectTimeoutMs,
      clock: this.#clock,
    });
    if (this.#closing !== null) return notOpened('the transport was closed');
    this.#open ??= { pool, target };
    return { ok: true };
  }

  send(text: string, exchange: Exchange): void {
    if (this.#open === null || this.#isClosed || this.#closing !== null) {
      const cause = { kind: 'host', detail: 'the transport is not open' } as const;
      queueMicrotask(() => exchange.onEnd({ kind: 'broken', redirected: false, cause }));
      return;
    }
    this.#sender.send(text, exchange);
    if (this.#stream === null) this.#openStream(this.#open);
  }

  abort(exchange: Exchange): void {
    this.#sender.abort(exchange);
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  #openStream({ pool, target }: { readonly pool: HttpPool; readonly target: HttpTarget }): void {
    this.#stream = new SseStream({
      target,
      pool,
      authorizer: this.#options.authorizer ?? null,
      maxMessageBytes: this.#maxMessageBytes,
      started: () => this.#expectEndpoint(),
      refused: (refusal) => {
        this.#stopTimer();
        this.#sender.refused(refusal);
      },
      // It stays open for a while behind `close`.
      message: (text) => {
        if (!this.#isClosed) this.#events.message(text, null);
      },
      event: (type, data) => {
        if (this.#isClosed) return;
        if (type === 'endpoint') this.#hearEndpoint(data, pool, target);
        else overhearWhole(data, (text) => this.#events.overheard(text));
      },
      failed: (end) => this.#fail(end),
      ended: (cause) => this.#finish(cause),
    });
    this.#stream.start();
  }

  #expectEndpoint(): void {
    this.#stopTimer();
    this.#endpointTimer = this.#clock.setTimeout(
      () => this.#fail(noStream(`GET brought no endpoint event within ${ENDPOINT_TIMEOUT_MS} ms`)),
      ENDPOINT_TIMEOUT_MS,
    );
  }

  #hearEndpoint(data: Buffer, pool: HttpPool, target: HttpTarget): void {
    if (this.#sender.isAimed) {
      this.#events.fault({
        kind: 'stream',
        detail: 'another endpoint event; messages go where the first one said',
      });
      return;
    }
    const endpoint = readEndpoint(data, target.url);
    if (!endpoint.ok) {
      const kind = endpoint.foreign ? 'redirected' : 'no-event-stream';
      this.#fail(noStream(target.show(endpoint.detail, MAX_DETAIL_LENGTH), { kind }));
      return;
    }
    const reading = readHttpTarget(endpoint.url, target.headers);
    if (!reading.ok) {
      this.#fail(noStream(reading.problem));
      return;
    }
    this.#stopTimer();
    this.#sender.aim(pool, target, reading.target);
  }

  /** There is no stream. */
  #fail(end: StreamEnd): void {
    if (this.#isClosed) return;
    this.#sender.endWaiting(end);
    this.#finish({
      kind: 'reset',
      detail: end.kind === 'unreachable' ? end.cause.detail : 'GET was refused',
    });
  }

  /** The connection is over, and not by `close`. */
  #finish(cause: CloseCause): void {
    if (this.#isClosed) return;
    // Without an endpoint nothing of the server was reached (N6).
    const { isAimed } = this.#sender;
    this.#sender.endWaiting(isAimed ? { kind: 'broken', redirected: false, cause } : noStream(cause.detail));
    // Whoever was told may have closed it.
    if (this.#isClosed) return;
    this.#tellClosed(cause);
    this.#sender.stop(false);
    void this.#release();
  }

  #tellClosed(cause: CloseCause): void {
    this.#isClosed = true;
    this.#stopTimer();
    this.#events.closed(cause);
  }

  async #shutDown(): Promise<void> {
    if (!this.#isClosed) {
      // What nobody waits for, such as the `notifications/cancelled` of what was in flight, may have been sent just now.
      this.#sender.stop(true);
      this.#tellClosed({ kind: 'host', detail: 'closed by this side' });
      // The session ends with the stream, so that stays until they are over.
      await this.#sender.farewell();
    }
    await this.#release();
  }

  #release(): Promise<void> {
    this.#stream?.stop();
    this.#released ??= this.#open?.pool.close() ?? Promise.resolve();
    return this.#released;
  }

  #stopTimer(): void {
    if (this.#endpointTimer === null) return;
    this.#clock.clearTimeout(this.#endpointTimer);
    this.#endpointTimer = null;
  }
}
