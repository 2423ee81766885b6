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
import type { HttpAuthorizer } from './httpAuthorizer.js';
import { OWN_HEADERS } from './httpHeaders.js';
import { createHttpPool, type HttpPool } from './httpPool.js';
import { HttpPost } from './httpPost.js';
import type { PostContext } from './httpPostContext.js';
import { type HttpTarget, type HttpTargetReading, readHttpTarget } from './httpTarget.js';
import { readEndpoint } from './sseEndpoint.js';
import { PostedMessage } from './ssePosted.js';
import { noStream, SseStream } from './sseStream.js';
import type { HttpOptions } from './streamableHttp.js';
import type {
  Exchange,
  OpenResult,
  StreamEnd,
  Transport,
  TransportEvents,
  TransportFactory,
} from './transport.js';
import { DEFAULT_MAX_MESSAGE_BYTES } from './transport.js';

const DEFAULT_CONNECT_TIMEOUT_MS = 10_000;
/** How long a server may take to name its endpoint once it has the GET. Servers do so at once. */
const ENDPOINT_TIMEOUT_MS = 10_000;
/** How long messages behind `notifications/initialized` wait for its POST to be answered. */
const INITIALIZED_TIMEOUT_MS = 10_000;
/** How long `close` waits for last notifications to arrive. */
const FAREWELL_TIMEOUT_MS = 1000;
/** Messages that wait, and POSTs without an answer, at one time: beyond what `maxInFlight` lets a host send by default. */
const MAX_WAITING = 1024;
const MAX_UNANSWERED = 256;
const MAX_OVERHEARD_CHARS = 64 * 1024;
const MAX_DETAIL_LENGTH = 400;
/** Nothing is cut here: the text goes on to a second reader, which bounds it. */
const UNCUT = 64 * 1024;

/**
 * Makes transports for one endpoint. A configuration that cannot be used is told by `open`, as a terminal cause. The
 * stream is opened by the first message.
 */
export function legacySseTransport(options: HttpOptions): TransportFactory {
  const reading = readHttpTarget(options.url, options.headers, options.proxy);
  return (events) => new LegacySseTransport(events, reading, options);
}

interface Waiting {
  readonly text: string;
  readonly exchange: Exchange;
}

/** `idle`: nothing was sent. `endpoint`, `initialized`: messages wait for it. `ready`: they are posted at once. */
type Gate = 'idle' | 'endpoint' | 'initialized' | 'ready';

class LegacySseTransport implements Transport {
  readonly kind = 'legacy-sse';
  readonly perRequestStreams = false;
  readonly #events: TransportEvents;
  readonly #reading: HttpTargetReading;
  readonly #connectTimeoutMs: number;
  readonly #maxMessageBytes: number;
  readonly #clock: Clock;
  readonly #authorizer: HttpAuthorizer | null;
  readonly #posts = new Map<Exchange, HttpPost>();
  #waiting: Waiting[] = [];
  #gate: Gate = 'idle';
  /** Of what is waited for. */
  #timer: unknown = null;
  #open: { readonly pool: HttpPool; readonly target: HttpTarget } | null = null;
  #stream: SseStream | null = null;
  #postContext: PostContext | null = null;
  /** While the stream was refused and credentials are being obtained. */
  #refusal: Exchange['refusal'] = null;
  #probe: Exchange | null = null;
  #isClosed = false;
  #released: Promise<void> | null = null;
  #closing: Promise<void> | null = null;
  /** Called when the last post is over, while `close` waits for it. */
  #allOver: (() => void) | null = null;

  constructor(events: TransportEvents, reading: HttpTargetReading, options: HttpOptions) {
    this.#events = events;
    this.#reading = reading;
    this.#connectTimeoutMs = options.connectTimeoutMs ?? DEFAULT_CONNECT_TIMEOUT_MS;
    this.#maxMessageBytes = options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES;
    this.#clock = options.clock ?? systemClock;
    this.#authorizer = options.authorizer ?? null;
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
    this.#open ??= { pool, target };
    return { ok: true };
  }

  send(text: string, exchange: Exchange): void {
    const problem = this.#whyNotSent(exchange);
    if (problem !== null) {
      queueMicrotask(() => exchange.onEnd(problem));
      return;
    }
    if (exchange.method === 'server/discover') this.#probe = exchange;
    if (this.#gate === 'ready') {
      this.#post(text, exchange);
      return;
    }
    exchange.refusal = this.#refusal;
    this.#waiting.push({ text, exchange });
    if (this.#gate === 'idle') this.#start();
  }

  abort(exchange: Exchange): void {
    this.#waiting = this.#waiting.filter((waiting) => waiting.exchange !== exchange);
    this.#posts.get(exchange)?.abandon();
  }

  close(): Promise<void> {
    this.#closing ??= this.#shutDown();
    return this.#closing;
  }

  #whyNotSent(exchange: Exchange): StreamEnd | null {
    if (this.#open === null || this.#isClosed || this.#closing !== null) {
      return broken('the transport is not open');
    }
    if (this.#waiting.length >= MAX_WAITING)
      return broken(`more than ${MAX_WAITING} messages wait to be sent`);
    // N1: a probe that was given up before it could be sent says nothing of the server, not even by silence (N6).
    if (exchange.method === 'initialize' && this.#probe?.written === false) {
      return noStream('the probe could not be sent in time');
    }
    return null;
  }

  // The stream.

  #start(): void {
    if (this.#open === null) return;
    const { pool, target } = this.#open;
    this.#gate = 'endpoint';
    this.#stream = new SseStream({
      target,
      pool,
      authorizer: this.#authorizer,
      maxMessageBytes: this.#maxMessageBytes,
      started: () => this.#expectEndpoint(),
      refused: (refusal) => this.#streamRefused(refusal),
      // It stays open for a while behind `close`.
      message: (text) => {
        if (!this.#isClosed) this.#events.message(text, null);
      },
      event: (type, data) => {
        if (!this.#isClosed) this.#hearEvent(type, data);
      },
      failed: (end) => this.#fail(end),
      ended: (cause) => this.#finish(cause),
    });
    this.#stream.start();
  }

  #expectEndpoint(): void {
    this.#setTimer(ENDPOINT_TIMEOUT_MS, () =>
      this.#fail(noStream(`GET brought no endpoint event within ${ENDPOINT_TIMEOUT_MS} ms`)),
    );
  }

  /** What waits for the stream is not waiting in silence (N5). */
  #streamRefused(refusal: Exchange['refusal']): void {
    this.#stopTimer();
    this.#refusal = refusal;
    for (const { exchange } of this.#waiting) exchange.refusal = refusal;
  }

  #hearEvent(type: string, data: Buffer): void {
    if (type === 'endpoint') this.#hearEndpoint(data);
    else overhearWhole(data, (text) => this.#events.overheard(text));
  }

  #hearEndpoint(data: Buffer): void {
    if (this.#open === null) return;
    if (this.#gate !== 'endpoint') {
      this.#events.fault({
        kind: 'stream',
        detail: 'another endpoint event; messages go where the first one said',
      });
      return;
    }
    const { target } = this.#open;
    const endpoint = readEndpoint(data, target.url);
    const reading = endpoint.ok ? readHttpTarget(endpoint.url, target.headers) : null;
    if (!endpoint.ok) {
      const kind = endpoint.foreign ? 'redirected' : 'no-event-stream';
      this.#fail(noStream(target.show(endpoint.detail, MAX_DETAIL_LENGTH), { kind }));
    } else if (reading?.ok === true) {
      this.#postContext = this.#contextOf(this.#open.pool, target, reading.target);
      this.#openGate();
    }
  }

  // The messages.

  #openGate(): void {
    this.#stopTimer();
    this.#gate = 'ready';
    while (this.#gate === 'ready' && !this.#isClosed) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#post(next.text, next.exchange);
    }
  }

  #post(text: string, exchange: Exchange): void {
    const context = this.#postContext;
    if (context === null) return;
    // Each POST has a socket of its own, so what must not be overtaken has to be waited for (2024-11-05, lifecycle).
    if (exchange.method === 'notifications/initialized') {
      this.#gate = 'initialized';
      this.#setTimer(INITIALIZED_TIMEOUT_MS, () => this.#openGate());
    }
    const headers = {
      ...OWN_HEADERS,
      ...context.target.headers,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
    };
    const posted = new PostedMessage(exchange, (end) => this.#postEnded(exchange, end));
    const post = new HttpPost(context, posted, headers, text);
    this.#posts.set(exchange, post);
    post.start();
    this.#boundPosts();
  }

  /** A server that answers on the stream and never to a POST costs a socket a message; not for ever. */
  #boundPosts(): void {
    if (this.#posts.size <= MAX_UNANSWERED) return;
    const [oldest] = this.#posts.values();
    this.#events.fault({ kind: 'stream', detail: `more than ${MAX_UNANSWERED} POSTs without an answer` });
    oldest?.abandon();
  }

  #postEnded(exchange: Exchange, end: StreamEnd | null): void {
    if (this.#isClosed) return;
    if (exchange.method === 'notifications/initialized' && this.#gate === 'initialized') {
      // The server waits for it: without it the session is of no use (N11).
      if (end?.kind === 'broken' || end?.kind === 'unreachable') {
        const detail = `notifications/initialized was not delivered (${end.cause.detail})`;
        this.#finish({ kind: 'reset', detail });
        return;
      }
      this.#openGate();
    }
    // Taken: the answer comes on the stream.
    if (end !== null) exchange.onEnd(end);
  }

  #contextOf(pool: HttpPool, configured: HttpTarget, endpoint: HttpTarget): PostContext {
    // The endpoint's query is a session; the secrets of the configured URL stay secret as well.
    const show: HttpTarget['show'] = (text, maxLength) =>
      configured.show(endpoint.show(text, UNCUT), maxLength);
    const overhear = (text: string): void => {
      if (!this.#isClosed && text.length <= MAX_OVERHEARD_CHARS) this.#events.overheard(text);
    };
    return {
      target: { ...endpoint, show },
      maxMessageBytes: this.#maxMessageBytes,
      clock: this.#clock,
      authorizer: this.#authorizer,
      dispatch: pool.dispatch,
      isConnectError: pool.isConnectError,
      // An answer comes on the stream; in that to a POST it settles nothing, and may still forbid (N21).
      message: overhear,
      overheard: overhear,
      sessionOffered: () => {},
      sessionLost: () => {},
      resume: () => null,
      over: (post) => {
        const { exchange } = post;
        this.#posts.delete(exchange instanceof PostedMessage ? exchange.message : exchange);
        if (this.#posts.size === 0) this.#allOver?.();
      },
    };
  }

  // The end.

  /** There is no stream: what waits for it was not sent, and never will be. */
  #fail(end: StreamEnd): void {
    if (this.#isClosed) return;
    this.#endWaiting(end);
    this.#finish({
      kind: 'reset',
      detail: end.kind === 'unreachable' ? end.cause.detail : 'GET was refused',
    });
  }

  /** The connection is over, and not by `close`. */
  #finish(cause: CloseCause): void {
    if (this.#isClosed) return;
    // Without an endpoint nothing of the server was reached (N6).
    const isReached = this.#postContext !== null;
    this.#endWaiting(isReached ? { kind: 'broken', redirected: false, cause } : noStream(cause.detail));
    if (this.#isClosed) return;
    this.#endEverything(cause);
    for (const post of [...this.#posts.values()]) post.abandon();
    void this.#release();
  }

  #endWaiting(end: StreamEnd): void {
    this.#stopTimer();
    for (const { exchange } of this.#waiting.splice(0)) {
      exchange.refusal = null;
      exchange.onEnd(end);
    }
  }

  #endEverything(cause: CloseCause): void {
    this.#isClosed = true;
    this.#stopTimer();
    this.#waiting = [];
    this.#events.closed(cause);
  }

  async #shutDown(): Promise<void> {
    if (!this.#isClosed) {
      // What nobody waits for, such as the `notifications/cancelled` of what was in flight, may have been sent just now.
      for (const post of [...this.#posts.values()]) {
        if (post.exchange.id === null) post.release();
        else post.abandon();
      }
      this.#endEverything({ kind: 'host', detail: 'closed by this side' });
      // The session ends with the stream, so that stays until they are over.
      await this.#lastPosts();
      for (const post of [...this.#posts.values()]) post.abandon();
    }
    await this.#release();
  }

  #release(): Promise<void> {
    this.#stream?.stop();
    this.#released ??= this.#open?.pool.close() ?? Promise.resolve();
    return this.#released;
  }

  /** Resolves when the server has every message that is still on its way, or has had the time for it. */
  #lastPosts(): Promise<void> {
    if (this.#posts.size === 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = this.#clock.setTimeout(() => resolve(), FAREWELL_TIMEOUT_MS);
      this.#allOver = () => {
        this.#clock.clearTimeout(timer);
        resolve();
      };
    });
  }

  #setTimer(delayMs: number, fn: () => void): void {
    this.#stopTimer();
    this.#timer = this.#clock.setTimeout(fn, delayMs);
  }

  #stopTimer(): void {
    if (this.#timer === null) return;
    this.#clock.clearTimeout(this.#timer);
    this.#timer = null;
  }
}

function broken(detail: string): StreamEnd {
  return { kind: 'broken', redirected: false, cause: { kind: 'host', detail } };
}

function notOpened(detail: string): OpenResult {
  return { ok: false, cause: { kind: 'connect-failed', detail, terminal: true } };
}
