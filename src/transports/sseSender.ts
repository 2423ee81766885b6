/** The messages of HTTP+SSE (2024-11-05) on their way: those that wait, and the POST of each. */
import type { CloseCause } from '../protocol/exchange.js';
import type { Clock } from './clock.js';
import type { HttpAuthorizer } from './httpAuthorizer.js';
import { OWN_HEADERS } from './httpHeaders.js';
import type { HttpPool } from './httpPool.js';
import { HttpPost } from './httpPost.js';
import type { PostContext } from './httpPostContext.js';
import { HttpPosts } from './httpPosts.js';
import type { HttpTarget } from './httpTarget.js';
import { PostedMessage } from './ssePosted.js';
import { noStream } from './sseStream.js';
import type { Exchange, StreamEnd, TransportEvents } from './transport.js';

export interface SseSenderOptions {
  readonly clock: Clock;
  readonly authorizer: HttpAuthorizer | null;
  readonly maxMessageBytes: number;
  readonly events: Pick<TransportEvents, 'overheard' | 'fault'>;
  /** The server was not told that it is initialized: the connection is of no use. */
  readonly useless: (cause: CloseCause) => void;
}

interface Waiting {
  readonly text: string;
  readonly exchange: Exchange;
}

/** How long messages behind `notifications/initialized` wait for its POST to be answered. */
const INITIALIZED_TIMEOUT_MS = 10_000;
/** Messages that wait, and POSTs without an answer, at one time: far more than `maxInFlight` lets a host send. */
const MAX_WAITING = 1024;
const MAX_UNANSWERED = 256;
const MAX_OVERHEARD_CHARS = 64 * 1024;
/** Nothing is cut there: the text goes on to a second reader, which bounds it. */
const UNCUT = 64 * 1024;

export class SseSender {
  readonly #options: SseSenderOptions;
  readonly #posts: HttpPosts;
  #waiting: Waiting[] = [];
  #context: PostContext | null = null;
  /** Messages wait for the answer to `notifications/initialized`. */
  #isHeld = false;
  #timer: unknown = null;
  #refusal: Exchange['refusal'] = null;
  #probe: Exchange | null = null;
  #hasStopped = false;

  constructor(options: SseSenderOptions) {
    this.#options = options;
    this.#posts = new HttpPosts(options.clock);
  }

  /** The endpoint is known. */
  get isAimed(): boolean {
    return this.#context !== null;
  }

  send(text: string, exchange: Exchange): void {
    const problem = this.#whyNotSent(exchange);
    if (problem !== null) {
      queueMicrotask(() => exchange.onEnd(problem));
      return;
    }
    if (exchange.method === 'server/discover') this.#probe = exchange;
    if (this.#context !== null && !this.#isHeld) {
      this.#post(text, exchange, this.#context);
      return;
    }
    exchange.refusal = this.#refusal;
    this.#waiting.push({ text, exchange });
  }

  abort(exchange: Exchange): void {
    this.#waiting = this.#waiting.filter((waiting) => waiting.exchange !== exchange);
    this.#posts.abandon(exchange);
  }

  /** The stream was refused and credentials are being obtained: what waits for it is not waiting in silence (N5). */
  refused(refusal: Exchange['refusal']): void {
    this.#refusal = refusal;
    for (const { exchange } of this.#waiting) exchange.refusal = refusal;
  }

  /** From now on messages go to `endpoint`; it carries what is configured, and is of the same origin. */
  aim(pool: HttpPool, configured: HttpTarget, endpoint: HttpTarget): void {
    this.#context = this.#contextOf(pool, configured, endpoint);
    this.#proceed();
  }

  /** What waits was not sent, and never will be. */
  endWaiting(end: StreamEnd): void {
    for (const { exchange } of this.#waiting.splice(0)) {
      exchange.refusal = null;
      exchange.onEnd(end);
    }
  }

  /** Nothing more is sent or told. What nobody waits for may still arrive, where `mayArrive`. */
  stop(mayArrive: boolean): void {
    this.#hasStopped = true;
    this.#waiting = [];
    this.#release();
    if (mayArrive) this.#posts.release();
    else this.#posts.abandonAll();
  }

  /** Resolves when the server has what may still arrive, or has had the time for it. */
  farewell(): Promise<void> {
    return this.#posts.farewell();
  }

  #whyNotSent(exchange: Exchange): StreamEnd | null {
    if (this.#waiting.length >= MAX_WAITING) {
      const cause = { kind: 'host', detail: `more than ${MAX_WAITING} messages wait to be sent` } as const;
      return { kind: 'broken', redirected: false, cause };
    }
    // N1: a probe that was given up before it could be sent says nothing of the server, not even by silence (N6).
    if (exchange.method === 'initialize' && this.#probe?.written === false) {
      return noStream('the probe could not be sent in time');
    }
    return null;
  }

  #proceed(): void {
    while (this.#context !== null && !this.#isHeld && !this.#hasStopped) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#post(next.text, next.exchange, this.#context);
    }
  }

  #post(text: string, exchange: Exchange, context: PostContext): void {
    // Each POST has a socket of its own, so what must not be overtaken has to be waited for (N11).
    if (exchange.method === 'notifications/initialized') this.#hold();
    const headers = {
      ...OWN_HEADERS,
      ...context.target.headers,
      accept: 'application/json, text/event-stream',
      'content-type': 'application/json',
    };
    const posted = new PostedMessage(exchange, (end) => this.#postEnded(exchange, end));
    this.#posts.start(exchange, new HttpPost(context, posted, headers, text));
    this.#boundPosts();
  }

  #hold(): void {
    this.#isHeld = true;
    this.#timer = this.#options.clock.setTimeout(() => {
      this.#release();
      this.#proceed();
    }, INITIALIZED_TIMEOUT_MS);
  }

  #release(): void {
    if (!this.#isHeld) return;
    this.#isHeld = false;
    this.#options.clock.clearTimeout(this.#timer);
  }

  /** A server that answers on the stream and never to a POST costs a socket a message; not for ever. */
  #boundPosts(): void {
    if (this.#posts.size <= MAX_UNANSWERED) return;
    this.#options.events.fault({
      kind: 'stream',
      detail: `more than ${MAX_UNANSWERED} POSTs without an answer`,
    });
    this.#posts.abandonOldest();
  }

  /** @param end null: it was taken, and the answer comes on the stream */
  #postEnded(exchange: Exchange, end: StreamEnd | null): void {
    if (this.#hasStopped) return;
    if (exchange.method === 'notifications/initialized' && this.#isHeld) {
      if (end?.kind === 'broken' || end?.kind === 'unreachable') {
        const detail = `notifications/initialized was not delivered (${end.cause.detail})`;
        this.#options.useless({ kind: 'reset', detail });
        return;
      }
      this.#release();
      this.#proceed();
    }
    if (end !== null && !this.#hasStopped) exchange.onEnd(end);
  }

  #contextOf(pool: HttpPool, configured: HttpTarget, endpoint: HttpTarget): PostContext {
    const { authorizer, clock, maxMessageBytes, events } = this.#options;
    // The endpoint's query is a session; the secrets of the configured URL stay secret as well.
    const show: HttpTarget['show'] = (text, maxLength) =>
      configured.show(endpoint.show(text, UNCUT), maxLength);
    // An answer comes on the stream; in that to a POST it settles nothing, and may still forbid (N21).
    const overhear = (text: string): void => {
      if (!this.#hasStopped && text.length <= MAX_OVERHEARD_CHARS) events.overheard(text);
    };
    return {
      target: { ...endpoint, show },
      clock,
      maxMessageBytes,
      authorizer,
      dispatch: pool.dispatch,
      isConnectError: pool.isConnectError,
      message: overhear,
      overheard: overhear,
      sessionOffered: () => {},
      sessionLost: () => {},
      over: ({ exchange }) =>
        this.#posts.over(exchange instanceof PostedMessage ? exchange.message : exchange),
    };
  }
}
