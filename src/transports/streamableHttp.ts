/** Streamable HTTP, both eras (2026-07-28 and 2025-11-25, basic/transports): every message is its own POST. */
import type { Clock } from './clock.js';
import { systemClock } from './clock.js';
import { EVENT_STREAM } from './httpAnswer.js';
import type { HttpAuthorizer } from './httpAuthorizer.js';
import type { GetContext } from './httpGet.js';
import { ACCEPT_ENCODING, OWN_HEADERS, USER_AGENT } from './httpHeaders.js';
import { type HttpOptions, notOpened } from './httpOptions.js';
import { createHttpPool, type HttpPool } from './httpPool.js';
import { HttpPost } from './httpPost.js';
import type { PostContext } from './httpPostContext.js';
import { HttpPosts } from './httpPosts.js';
import { type HttpTarget, type HttpTargetReading, readHttpTarget } from './httpTarget.js';
import { Resumption } from './resumption.js';
import { ServerStreamReader } from './serverStream.js';
import { endSession } from './sessionEnd.js';
import type { StreamPlace } from './sseMessages.js';
import type {
  Exchange,
  OpenResult,
  StreamEnd,
  Transport,
  TransportEvents,
  TransportFactory,
} from './transport.js';
import { DEFAULT_MAX_MESSAGE_BYTES } from './transport.js';

/** The first revision whose requests carry `MCP-Protocol-Version`. */
const FIRST_REVISION_IN_HEADER = '2025-06-18';
/** Visible ASCII (2025-11-25, basic/transports, "Session Management"). The length is ours: a head has to fit 16 KiB. */
const SESSION_ID = /^[\x21-\x7e]{1,1024}$/;

/**
 * Makes transports for one endpoint. A configuration that cannot be used is told by `open`, as a terminal cause.
 *
 * Messages are handed over in call order. Each has its own socket while its answer lasts, so a server may read two
 * that were sent without waiting in either order, as ever with HTTP.
 */
export function streamableHttpTransport(options: HttpOptions): TransportFactory {
  const reading = readHttpTarget(options.url, options.headers, options.proxy);
  return (events) => new StreamableHttpTransport(events, reading, options);
}

class StreamableHttpTransport implements Transport {
  readonly kind = 'streamable-http';
  readonly perRequestStreams = true;
  readonly #events: TransportEvents;
  readonly #reading: HttpTargetReading;
  readonly #connectTimeoutMs: number | undefined;
  readonly #maxMessageBytes: number;
  readonly #clock: Clock;
  readonly #authorizer: HttpAuthorizer | null;
  readonly #posts: HttpPosts;
  #open: OpenEndpoint | null = null;
  #serverStream: ServerStreamReader | null = null;
  #closing: Promise<void> | null = null;
  #session: { readonly id: string; lost: boolean } | null = null;
  #agreed: { readonly era: 'modern' | 'legacy'; readonly revision: string } | null = null;

  constructor(events: TransportEvents, reading: HttpTargetReading, options: HttpOptions) {
    this.#events = events;
    this.#reading = reading;
    this.#connectTimeoutMs = options.connectTimeoutMs;
    this.#maxMessageBytes = options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES;
    this.#clock = options.clock ?? systemClock;
    this.#authorizer = options.authorizer ?? null;
    this.#posts = new HttpPosts(this.#clock);
  }

  async open(): Promise<OpenResult> {
    if (!this.#reading.ok) return notOpened(this.#reading.problem);
    const { target } = this.#reading;
    const pool = await createHttpPool({
      origin: target.url.origin,
      proxy: target.proxy,
      connectTimeoutMs: this.#connectTimeoutMs,
      clock: this.#clock,
    });
    if (this.#closing !== null) return notOpened('the transport was closed');
    if (this.#open !== null) return { ok: true };
    const get = { target, maxMessageBytes: this.#maxMessageBytes, authorizer: this.#authorizer, pool };
    this.#open = { pool, get, context: this.#postContext(pool, target) };
    return { ok: true };
  }

  send(text: string, exchange: Exchange): void {
    if (this.#open === null || this.#closing !== null) {
      const cause = { kind: 'host', detail: 'the transport is not open' } as const;
      queueMicrotask(() => exchange.onEnd({ kind: 'broken', redirected: false, cause }));
      return;
    }
    const headers = this.#headersFor(exchange, this.#open.get.target);
    this.#posts.start(exchange, new HttpPost(this.#open.context, exchange, headers, text));
  }

  abort(exchange: Exchange): void {
    this.#posts.abandon(exchange);
  }

  negotiated(agreed: { readonly era: 'modern' | 'legacy'; readonly revision: string }): void {
    this.#agreed = agreed;
    if (agreed.era === 'modern') this.#session = null;
  }

  openServerStream(): Promise<void> {
    const isDue = this.#agreed?.era === 'legacy' && this.#closing === null && this.#serverStream === null;
    if (!isDue || this.#open === null) return Promise.resolve();
    this.#serverStream = new ServerStreamReader({
      clock: this.#clock,
      get: this.#open.get,
      headers: (lastEventId) => this.#headersOfGet(lastEventId),
      message: (text) => this.#events.message(text, null),
      overheard: (text) => this.#events.overheard(text),
      fault: (detail) => this.#events.fault({ kind: 'stream', detail }),
      stands: (stream) => this.#events.serverStream?.(stream),
    });
    return this.#serverStream.open();
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  #headersFor(exchange: Exchange, target: HttpTarget): Record<string, string> {
    // Written out: an object that begins with a spread is several times slower to make and to read, once a call.
    const headers: Record<string, string> = {
      'user-agent': USER_AGENT,
      'accept-encoding': ACCEPT_ENCODING,
      ...target.headers,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
      ...exchange.headers,
    };
    // `mcp-method` marks a modern message: no header of one era on a request of the other.
    if (exchange.method !== 'initialize' && headers['mcp-method'] === undefined) {
      Object.assign(headers, this.#legacyHeaders());
    }
    return headers;
  }

  #headersOfGet(lastEventId: string): Record<string, string> {
    return {
      ...OWN_HEADERS,
      ...this.#open?.get.target.headers,
      accept: EVENT_STREAM,
      ...this.#legacyHeaders(),
      ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }),
    };
  }

  /** Legacy only, and not for what is said before an era is selected: later eras have no such streams. */
  #resumption(exchange: Exchange, from: StreamPlace, ended: (end: StreamEnd) => void): Resumption | null {
    const isModern = exchange.headers?.['mcp-method'] !== undefined || this.#agreed?.era !== 'legacy';
    if (isModern || exchange.method === 'initialize' || this.#open === null) return null;
    const context = {
      clock: this.#clock,
      get: this.#open.get,
      headers: (lastEventId: string) => this.#headersOfGet(lastEventId),
      message: (text: string, to: Exchange) => this.#events.message(text, to),
      overheard: (text: string) => this.#events.overheard(text),
    };
    return new Resumption(context, exchange, from, ended);
  }

  #legacyHeaders(): Record<string, string> {
    const headers: Record<string, string> = {};
    if (this.#agreed?.era !== 'legacy') return headers;
    if (this.#session !== null) headers['mcp-session-id'] = this.#session.id;
    const { revision } = this.#agreed;
    if (revision >= FIRST_REVISION_IN_HEADER) headers['mcp-protocol-version'] = revision;
    return headers;
  }

  #postContext(pool: HttpPool, target: HttpTarget): PostContext {
    return {
      target,
      maxMessageBytes: this.#maxMessageBytes,
      clock: this.#clock,
      authorizer: this.#authorizer,
      dispatch: pool.dispatch,
      isConnectError: pool.isConnectError,
      message: (text, exchange) => this.#events.message(text, exchange),
      overheard: (text) => this.#events.overheard(text),
      sessionOffered: (id) => {
        const usable = id !== undefined && SESSION_ID.test(id) && this.#agreed === null;
        if (usable) this.#session = { id, lost: false };
      },
      sessionLost: () => {
        if (this.#session !== null) this.#session.lost = true;
      },
      resume: (exchange, from, ended) => this.#resumption(exchange, from, ended),
      over: ({ exchange }) => this.#posts.over(exchange),
    };
  }

  async #shutDown(): Promise<void> {
    this.#serverStream?.close();
    this.#posts.release();
    this.#events.closed({ kind: 'host', detail: 'closed by this side' });
    if (this.#open === null) return;
    const open = this.#open;
    await this.#posts.farewell();
    await this.#endSession(open);
    await open.pool.close();
  }

  #endSession({ get }: OpenEndpoint): Promise<void> {
    const session = this.#session;
    if (session === null || session.lost) return Promise.resolve();
    const headers = {
      ...OWN_HEADERS,
      ...get.target.headers,
      'mcp-session-id': session.id,
      ...this.#legacyHeaders(),
    };
    return endSession(get, headers, this.#clock);
  }
}

interface OpenEndpoint {
  readonly pool: HttpPool;
  readonly context: PostContext;
  readonly get: GetContext;
}
