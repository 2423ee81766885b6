/** One message on its way over HTTP: the POST, its redirects, and its answer. */
import type { Dispatcher } from 'undici';
import type { AnswerHead, AnswerReader } from './httpAnswer.js';
import { createAnswerReader, MAX_ERROR_BODY_BYTES, mediaTypeOf } from './httpAnswer.js';
import type { Credentials, HttpAttempt } from './httpAuthorizer.js';
import type { BodyConsumer, BodyDecoder } from './httpBody.js';
import { createBodyDecoder } from './httpBody.js';
import { Refusals, withCredentials } from './httpCredentials.js';
import { isRefusedRequest } from './httpErrors.js';
import { type AnswerHeaders, firstValue, hearNonce, joinedValue } from './httpHeaders.js';
import type { Line } from './httpPool.js';
import type { PostContext } from './httpPostContext.js';
import { readRedirect } from './httpRedirect.js';
import { brokenEnd, redirectEnd, spoiltEnd, unwrittenEnd } from './postEnds.js';
import type { Resumption } from './resumption.js';
import type { Exchange, StreamEnd } from './transport.js';

export type { PostContext } from './httpPostContext.js';

type Unauthorized = Extract<StreamEnd, { kind: 'unauthorized' }>;

/** An idle connection may turn out to be dead before anything is written; a second one in a row is a fault. */
const MAX_RESENDS = 2;
/**
 * So long the body is waited for where the head has said all. A body that hangs must not turn a refusal or a gateway's
 * error into silence, which would read as ambiguous (N5, N6).
 */
const DECIDED_BODY_TIMEOUT_MS = 1000;
const MAX_CHALLENGE_LENGTH = 8 * 1024;
/** Any answer to these may forbid `initialize` (N21). */
const NEGOTIATION_METHODS: ReadonlySet<string | null> = new Set(['server/discover', 'initialize']);

/**
 * Handler of undici's dispatch. `onRequestStart` is called right before the head is handed to the socket, in the same
 * tick; an abort in there means that nothing is written. That is the tick of {@link Exchange.mayWrite}.
 */
export class HttpPost implements Dispatcher.DispatchHandler, BodyConsumer {
  readonly exchange: Exchange;
  /** Where the pool put this request. */
  line: Line | null = null;
  readonly #context: PostContext;
  readonly #headers: Record<string, string>;
  readonly #body: string;
  #url: URL;
  #redirects = 0;
  #resends = 0;
  #settled = false;
  /** Nobody listens any more: it is over when the server has it. */
  #released = false;
  /** What follows belongs to one attempt: a redirect or a resend starts anew. */
  #controller: Dispatcher.DispatchController | null = null;
  /** The line is ours: from the write to the last byte of the answer. */
  #running = false;
  #reader: AnswerReader | null = null;
  #decoder: BodyDecoder | null = null;
  #following: URL | null = null;
  /** What this attempt carried. */
  #credentials: Credentials | null = null;
  #challenge: string | null = null;
  /** The answer was a refusal, and credentials are being obtained. */
  #refusal: Unauthorized | null = null;
  readonly #refusals: Refusals | null;
  #status = 0;
  #followedBytes = 0;
  /** Set where the body was cut off and the decoder still has bytes to give. */
  #cut: StreamEnd | null = null;
  /** Runs while the body of a decided answer is waited for. */
  #patience: unknown = null;
  /** Its stream ended early, and the rest is asked for. */
  #resumption: Resumption | null = null;

  constructor(context: PostContext, exchange: Exchange, headers: Record<string, string>, body: string) {
    this.#context = context;
    this.exchange = exchange;
    this.#headers = headers;
    this.#body = body;
    this.#url = context.target.url;
    this.#refusals = context.authorizer === null ? null : new Refusals(context.authorizer, exchange);
  }

  start(): void {
    this.#stopWaiting();
    this.#controller = null;
    this.#reader = null;
    this.#decoder = null;
    this.#following = null;
    this.#followedBytes = 0;
    this.#cut = null;
    this.#challenge = null;
    const { authorizer } = this.#context;
    if (authorizer === null) {
      this.#dispatch(null);
      return;
    }
    withCredentials(authorizer, this.#attempt, (credentials) => {
      if (!this.#settled) this.#dispatch(credentials);
    });
  }

  #dispatch(credentials: Credentials | null): void {
    this.#credentials = credentials;
    this.#context.dispatch(
      {
        caller: this,
        origin: this.#url.origin,
        path: this.#url.pathname + this.#url.search,
        method: 'POST',
        headers: credentials === null ? this.#headers : { ...this.#headers, ...credentials.headers },
        body: this.#body,
        // The deadlines of a request are the connection's; a second, hidden policy would cut long answers.
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      this,
    );
  }

  /** Closes the stream; `onEnd` is not called any more. */
  abandon(): void {
    if (this.#settled) return;
    if (this.#negotiates) this.#reader?.abandon();
    // Whoever heard something just now may have given it up as well.
    if (!this.#settled) this.#settle();
  }

  /** Lets the message still go to the server, and tells nobody of what comes back; `onEnd` is not called any more. */
  release(): void {
    this.#released = true;
    if (this.#reader !== null) this.abandon();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    const { exchange } = this;
    // Asked once: a redirect or a resend continues what was permitted. Obtaining credentials may have taken long.
    const isContinued = exchange.written && exchange.refusal === null;
    if (!this.#settled && !isContinued && !exchange.mayWrite()) this.#end({ kind: 'withheld' });
    if (this.#settled) {
      controller.abort(new Error('this side gave the request up'));
      return;
    }
    exchange.written = true;
    exchange.refusal = null;
    exchange.decided = null;
    this.#running = true;
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (status < 200 || this.#settled) return;
    this.#status = status;
    hearNonce(this.#context.authorizer, this.#attempt, headers);
    const location = headers['location'];
    const mayFollow = this.exchange.method !== 'initialize';
    const single = typeof location === 'string' ? location : undefined;
    const redirect = readRedirect(status, single, this.#url, this.#redirects, mayFollow);
    if (redirect?.kind === 'follow') {
      this.#following = redirect.url;
      // Also where the rest of it does not come in time (N8).
      this.exchange.redirected = true;
      this.#waitALittle();
      return;
    }
    const hadSession = this.#headers['mcp-session-id'] !== undefined;
    if (this.exchange.method === 'initialize' && status < 300) {
      const offered = headers['mcp-session-id'];
      this.#context.sessionOffered(typeof offered === 'string' ? offered : undefined);
    }
    if (hadSession && status === 404) this.#context.sessionLost();
    if (this.#released) {
      this.abandon();
      return;
    }
    const challenge = joinedValue(headers['www-authenticate']);
    this.#challenge = challenge?.slice(0, MAX_CHALLENGE_LENGTH) ?? null;
    const head: AnswerHead = {
      status,
      mediaType: mediaTypeOf(firstValue(headers['content-type'])),
      challenge,
      retryAfter: firstValue(headers['retry-after']),
      redirected: this.#redirected,
      hadSession,
      answerDue: this.exchange.id !== null,
      negotiates: this.#negotiates,
    };
    this.#reader = createAnswerReader(
      head,
      this.#answerContext(),
      redirect === null
        ? undefined
        : redirectEnd(redirect.detail, this.#redirected, this.#context.target.show),
    );
    if (this.#reader.decided !== null) {
      this.exchange.decided = this.#reader.decided;
      this.#waitALittle();
    }
    const decoder = createBodyDecoder(joinedValue(headers['content-encoding']), this);
    if (typeof decoder === 'string') this.#endUnreadable(decoder);
    else this.#decoder = decoder;
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#settled || this.#refusal !== null) return;
    if (this.#following !== null) {
      this.#followedBytes += chunk.length;
      // Not worth reading to its end for the sake of the connection.
      if (this.#followedBytes > MAX_ERROR_BODY_BYTES) this.#hangUp();
    } else if (this.#decoder !== null) {
      this.#decoder.push(chunk);
    } else {
      this.data(chunk);
    }
  }

  onResponseEnd(): void {
    this.#running = false;
    if (this.#settled) return;
    if (this.#refusal !== null) this.#seek(this.#refusal);
    else if (this.#following !== null) this.#follow(this.#following);
    else if (this.#decoder !== null) this.#decoder.end();
    else this.end();
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const handedOver = this.#running;
    this.#running = false;
    if (this.#settled) return;
    if (this.#refusal !== null) this.#seek(this.#refusal);
    else if (this.#following !== null) this.#follow(this.#following);
    else if (!handedOver) this.#endUnwritten(error);
    else this.#endBroken(this.line?.error ?? error);
  }

  #waitALittle(): void {
    this.#patience = this.#context.clock.setTimeout(() => this.#endOfPatience(), DECIDED_BODY_TIMEOUT_MS);
  }

  #endOfPatience(): void {
    this.#patience = null;
    if (this.#settled || this.#refusal !== null) return;
    if (this.#following !== null) this.#hangUp();
    else this.#endBroken(new Error('the body did not come'));
  }

  #stopWaiting(): void {
    if (this.#patience === null) return;
    this.#context.clock.clearTimeout(this.#patience);
    this.#patience = null;
  }

  #endBroken(error: Error): void {
    const { show } = this.#context.target;
    const broken = brokenEnd(error, this.#reader !== null, this.#redirected, show);
    this.#cut = broken;
    if (this.#reader === null) this.#end(broken);
    else if (this.#decoder !== null) this.#decoder.end();
    else this.end();
  }

  // Decoded bytes of the answer's body.

  data(chunk: Buffer): void {
    const end = this.#reader?.push(chunk) ?? null;
    if (end !== null) this.#end(end);
  }

  end(): void {
    if (this.#reader === null) return;
    this.#end(this.#cut === null ? this.#reader.end() : this.#reader.cut(this.#cut));
  }

  fail(detail: string): void {
    if (this.#cut === null) this.#endUnreadable(detail);
    else this.end();
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  get #redirected(): boolean {
    return this.#redirects > 0;
  }

  get #negotiates(): boolean {
    return NEGOTIATION_METHODS.has(this.exchange.method);
  }

  get #attempt(): HttpAttempt {
    return { method: 'POST', url: this.#url };
  }

  #answerContext() {
    const { maxMessageBytes, target } = this.#context;
    return {
      maxMessageBytes,
      // A message may make its reader abort this very exchange; the rest of the chunk is then nobody's.
      deliver: (text: string) => {
        if (!this.#settled) this.#context.message(text, this.exchange);
      },
      overhear: (text: string) => {
        if (!this.#settled) this.#context.overheard(text);
      },
      show: target.show,
      wallClockMs: Date.now,
    };
  }

  #follow(url: URL): void {
    this.#redirects += 1;
    this.exchange.redirected = true;
    this.#url = url;
    this.start();
  }

  /** A body that cannot be decoded spoils a good answer; of a bad one the status is enough. */
  #endUnreadable(detail: string): void {
    const spoilt = spoiltEnd(this.#status, detail, this.#redirected, this.#context.target.show);
    this.#end(this.#reader?.cut(spoilt) ?? spoilt);
  }

  /** The socket was never given this request. Where an idle connection died in our hands, another one is tried. */
  #endUnwritten(error: Error): void {
    const isFinal = isRefusedRequest(error) || this.#context.isConnectError(error);
    if (!isFinal && this.#resends < MAX_RESENDS) {
      this.#resends += 1;
      this.start();
    } else {
      this.#end(unwrittenEnd(error, this.#redirected, this.#context.target.show));
    }
  }

  #end(end: StreamEnd): void {
    if (this.#settled) return;
    if (!this.#released && this.#refusals?.mayBeAnswered(end) === true) {
      this.#refusal = end;
      this.#decoder?.destroy();
      // One attempt after the other: what comes of this one must not be taken for the answer to the next.
      if (this.#running) this.#hangUp();
      else this.#seek(end);
      return;
    }
    if (!this.#isResumed(end)) this.#over(end);
  }

  #over(end: StreamEnd): void {
    this.#settle();
    if (!this.#released) this.exchange.onEnd(end);
  }

  #isResumed(end: StreamEnd): boolean {
    const place = this.#reader?.place;
    if (place === null || place === undefined || place.lastEventId === '') return false;
    if ((end.kind !== 'complete' && end.kind !== 'broken') || !this.exchange.isAwaited) return false;
    const { exchange } = this;
    this.#resumption = this.#context.resume?.(exchange, place, (last) => this.#over(last)) ?? null;
    this.#resumption?.start();
    return this.#resumption !== null;
  }

  /** Tries to obtain other credentials; what cannot be had leaves the refusal as the answer. */
  #seek(refused: Unauthorized): void {
    const attempt = { attempt: this.#attempt, challenge: this.#challenge, credentials: this.#credentials };
    void this.#refusals?.answer(refused, attempt).then((again) => {
      if (this.#settled) return;
      this.#refusal = null;
      if (again) this.start();
      else this.#end(refused);
    });
  }

  #settle(): void {
    this.#settled = true;
    this.#stopWaiting();
    this.#context.over(this);
    this.#decoder?.destroy();
    this.#resumption?.close();
    this.#hangUp();
  }

  /**
   * Closing the stream is how a request is cancelled. The socket is destroyed from here, since after an abort through
   * the controller undici 7 makes a new connection, for nothing.
   */
  #hangUp(): void {
    if (this.#running) this.line?.socket?.destroy();
  }
}
