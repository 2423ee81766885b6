/** One GET for an event stream (2025-11-25, basic/transports, "Listening for Messages from the Server"). */
import type { Dispatcher } from 'undici';
import { EVENT_STREAM, MAX_ERROR_BODY_BYTES, mediaTypeOf, overhearWhole } from './httpAnswer.js';
import type { HttpAttempt, HttpAuthorizer } from './httpAuthorizer.js';
import type { BodyConsumer, BodyDecoder } from './httpBody.js';
import { createBodyDecoder } from './httpBody.js';
import { withCredentials } from './httpCredentials.js';
import { closeCauseOf, describeError, isRefusedRequest, readRetryAfter } from './httpErrors.js';
import { type AnswerHeaders, firstValue, hearNonce, joinedValue } from './httpHeaders.js';
import type { HttpPool, Line } from './httpPool.js';
import { readRedirect } from './httpRedirect.js';
import type { HttpTarget } from './httpTarget.js';
import { createSseReader, type SseReader, type StreamPlace } from './sseMessages.js';

/** What the requests of one transport share. */
export interface GetContext {
  readonly target: HttpTarget;
  readonly maxMessageBytes: number;
  /** Only attaches here: a stream that is refused starts no authorization. */
  readonly authorizer: HttpAuthorizer | null;
  readonly pool: Pick<HttpPool, 'dispatch' | 'isConnectError'>;
}

/** How it ended. Every `detail` is a sentence without a full stop, safe to show. */
export type GetEnd =
  /** An answer that is no event stream. */
  | {
      readonly kind: 'refused';
      readonly status: number;
      readonly detail: string;
      readonly retryAfterMs: number | undefined;
    }
  /** No answer. */
  | { readonly kind: 'failed'; readonly detail: string }
  /** There was a stream. `broken`: it did not end in good order. `spoilt`: this side does not want the rest. */
  | { readonly kind: 'ended' | 'broken' | 'spoilt'; readonly detail: string };

export interface GetListener {
  /** The answer is an event stream. */
  opened(): void;
  message(text: string): void;
  overheard(text: string): void;
  /** Once, unless it was closed. Of a refusal as soon as its head is there. */
  ended(end: GetEnd): void;
  /** Its socket is free again. Once, after {@link ended}, unless it was closed. */
  over?(): void;
}

/** Of connections that were idle and turn out to be dead. */
const MAX_RESENDS = 2;
/** Of a request that a server may have had: it closed the connection without a word, most likely while idle. */
const MAX_REPEATS = 1;
const MAX_DETAIL_LENGTH = 300;

export class HttpGet implements Dispatcher.DispatchHandler, BodyConsumer {
  /** Where the pool put this request. */
  line: Line | null = null;
  readonly #context: GetContext;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #listener: GetListener;
  readonly #reader: SseReader;
  #url: URL;
  #redirects = 0;
  #resends = 0;
  #controller: Dispatcher.DispatchController | null = null;
  #running = false;
  #following: URL | null = null;
  #isOpen = false;
  #decoder: BodyDecoder | null = null;
  #cut: GetEnd | null = null;
  #hasEnded = false;
  #isClosed = false;
  #drained = 0;

  /** @param from where the stream is that this one goes on with */
  constructor(
    context: GetContext,
    headers: Readonly<Record<string, string>>,
    listener: GetListener,
    from?: StreamPlace,
  ) {
    this.#context = context;
    this.#headers = headers;
    this.#listener = listener;
    this.#url = context.target.url;
    this.#reader = createSseReader(
      context.maxMessageBytes,
      (text) => {
        // A message may make its reader close this very stream; the rest of the chunk is then nobody's.
        if (!this.#isClosed) listener.message(text);
      },
      (data) => overhearWhole(data, (text) => this.#overhear(text)),
      from,
    );
  }

  /** Where it is, or was when it ended. */
  get place(): StreamPlace {
    return this.#reader;
  }

  start(): void {
    this.#controller = null;
    this.#following = null;
    withCredentials(this.#context.authorizer, this.#attempt, (credentials) => {
      if (this.#isClosed) return;
      this.#context.pool.dispatch(
        {
          caller: this,
          origin: this.#url.origin,
          path: this.#url.pathname + this.#url.search,
          method: 'GET',
          headers: credentials === null ? this.#headers : { ...this.#headers, ...credentials.headers },
          // A server that has nothing to say is silent.
          headersTimeout: 0,
          bodyTimeout: 0,
        },
        this,
      );
    });
  }

  /** Closes the stream; the listener hears nothing more. Idempotent. */
  close(): void {
    this.#isClosed = true;
    this.#decoder?.destroy();
    this.#hangUp();
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#isClosed) controller.abort(new Error('this side gave the request up'));
    else this.#running = true;
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (status < 200 || this.#isClosed) return;
    hearNonce(this.#context.authorizer, this.#attempt, headers);
    const location = headers['location'];
    const single = typeof location === 'string' ? location : undefined;
    const redirect = readRedirect(status, single, this.#url, this.#redirects, true);
    if (redirect?.kind === 'follow') {
      this.#following = redirect.url;
      // Its body is worth nothing, and may never end.
      this.#hangUp();
      return;
    }
    const mediaType = mediaTypeOf(firstValue(headers['content-type']));
    if (redirect !== null || status > 299 || mediaType !== EVENT_STREAM) {
      const type = mediaType === '' ? '' : ` with ${mediaType}`;
      this.#refuse(status, redirect?.detail ?? `HTTP ${status}${type}`, headers);
      return;
    }
    const decoder = createBodyDecoder(joinedValue(headers['content-encoding']), this);
    if (typeof decoder === 'string') {
      this.#refuse(status, decoder, headers);
      return;
    }
    this.#decoder = decoder;
    this.#isOpen = true;
    this.#listener.opened();
  }

  #refuse(status: number, detail: string, headers: AnswerHeaders): void {
    const retryAfterMs = readRetryAfter(firstValue(headers['retry-after']), Date.now());
    this.#end({ kind: 'refused', status, detail: this.#show(detail), retryAfterMs });
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isClosed || this.#following !== null) return;
    if (this.#decoder !== null) this.#decoder.push(chunk);
    else if (this.#isOpen) this.data(chunk);
    else this.#drain(chunk);
  }

  /** A short body is read to its end for the sake of the connection. */
  #drain(chunk: Buffer): void {
    this.#drained += chunk.length;
    if (this.#drained > MAX_ERROR_BODY_BYTES) this.#hangUp();
  }

  onResponseEnd(): void {
    this.#running = false;
    this.#bodyOver(null);
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const handedOver = this.#running;
    this.#running = false;
    if (this.#isClosed) return;
    if (!this.#isOpen && !this.#hasEnded && this.#following === null) {
      this.#unanswered(error, handedOver);
      return;
    }
    this.#bodyOver({ kind: 'broken', detail: this.#show(closeCauseOf(error, true).detail) });
  }

  #bodyOver(cut: GetEnd | null): void {
    if (this.#isClosed) return;
    if (this.#following !== null) {
      this.#redirects += 1;
      this.#url = this.#following;
      this.start();
    } else if (!this.#isOpen) {
      this.#listener.over?.();
    } else {
      this.#cut = cut;
      if (this.#decoder !== null) this.#decoder.end();
      else this.end();
    }
  }

  #unanswered(error: Error, handedOver: boolean): void {
    const limit = handedOver ? MAX_REPEATS : MAX_RESENDS;
    const isFinal = isRefusedRequest(error) || this.#context.pool.isConnectError(error);
    if (!isFinal && this.#resends < limit) {
      this.#resends += 1;
      this.start();
      return;
    }
    const detail = handedOver ? closeCauseOf(error, false).detail : describeError(error);
    this.#end({ kind: 'failed', detail: this.#show(detail) });
    if (!this.#isClosed) this.#listener.over?.();
  }

  // Decoded bytes of the body.

  data(chunk: Buffer): void {
    const problem = this.#reader.push(chunk);
    if (problem === null || this.#isClosed) return;
    this.#finish({ kind: 'spoilt', detail: this.#show(problem) });
  }

  end(): void {
    this.#reader.end();
    this.#finish(this.#cut ?? { kind: 'ended', detail: 'the server ended the stream' });
  }

  fail(detail: string): void {
    this.#reader.end();
    this.#finish(this.#cut ?? { kind: 'spoilt', detail: this.#show(detail) });
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  #finish(end: GetEnd): void {
    if (this.#isClosed) return;
    this.close();
    this.#hasEnded = true;
    this.#listener.ended(end);
    this.#listener.over?.();
  }

  #end(end: GetEnd): void {
    this.#hasEnded = true;
    this.#listener.ended(end);
  }

  #overhear(text: string): void {
    if (!this.#isClosed) this.#listener.overheard(text);
  }

  get #attempt(): HttpAttempt {
    return { method: 'GET', url: this.#url };
  }

  #show(text: string): string {
    return this.#context.target.show(text, MAX_DETAIL_LENGTH);
  }

  /** As for a POST: after an abort through the controller undici 7 makes a new connection, for nothing. */
  #hangUp(): void {
    if (this.#running) this.line?.socket?.destroy();
  }
}
