/** The one stream of HTTP+SSE (2024-11-05, basic/transports): a GET that stays open, and what comes on it. */
import type { Dispatcher } from 'undici';
import type { CloseCause, UnreachableCause } from '../protocol/exchange.js';
import { sanitizeText } from '../protocol/sanitize.js';
import { EVENT_STREAM, mediaTypeOf } from './httpAnswer.js';
import { type Credentials, type HttpAttempt, type HttpAuthorizer, MAX_REFUSALS } from './httpAuthorizer.js';
import type { BodyConsumer, BodyDecoder } from './httpBody.js';
import { createBodyDecoder } from './httpBody.js';
import { withCredentials } from './httpCredentials.js';
import { closeCauseOf, describeError, isRefusedRequest, readRetryAfter } from './httpErrors.js';
import { type AnswerHeaders, firstValue, hearNonce, joinedValue, OWN_HEADERS } from './httpHeaders.js';
import type { HttpPool, Line } from './httpPool.js';
import { readRedirect } from './httpRedirect.js';
import type { HttpTarget } from './httpTarget.js';
import { createSseReader, type SseReader } from './sseMessages.js';
import type { Exchange, StreamEnd } from './transport.js';

export interface SseStreamContext {
  readonly target: HttpTarget;
  readonly pool: HttpPool;
  /** Null: nothing but the configured headers. */
  readonly authorizer: HttpAuthorizer | null;
  readonly maxMessageBytes: number;
  /** The request is handed to a socket now. */
  started(): void;
  /** The answer was a refusal, and credentials are being obtained; `null` when the request is sent again. */
  refused(refusal: Exchange['refusal']): void;
  message(text: string): void;
  /** An event of another type, or one that is cut off: its type is '' then. */
  event(type: string, data: Buffer): void;
  /** It was never open. Called once, or {@link ended} is. */
  failed(end: StreamEnd): void;
  /** It was open. */
  ended(cause: CloseCause): void;
}

/** As for a message: an idle connection may turn out to be dead before anything is written. */
const MAX_RESENDS = 2;
const MAX_DETAIL_LENGTH = 400;
const MAX_SENT_CHALLENGE_LENGTH = 8 * 1024;
const MAX_SHOWN_CHALLENGE_LENGTH = 2048;

/** Nothing of the server's MCP layer was reached (N6), and what to look at. */
export function noStream(detail: string, more: Partial<UnreachableCause> = {}): StreamEnd {
  const said = `${detail}; this peer is configured as legacy-sse`;
  return {
    kind: 'unreachable',
    redirected: false,
    cause: { kind: 'no-event-stream', terminal: false, ...more, detail: said },
  };
}

/**
 * Follows no redirect: the legacy probe follows none (N8), and without it nothing can come of this transport. Has no idle
 * timeout: servers may be silent for as long as nobody asks them anything.
 */
export class SseStream implements Dispatcher.DispatchHandler, BodyConsumer {
  /** Where the pool put this request. */
  line: Line | null = null;
  readonly #context: SseStreamContext;
  readonly #attempt: HttpAttempt;
  #reader: SseReader | null = null;
  #decoder: BodyDecoder | null = null;
  #controller: Dispatcher.DispatchController | null = null;
  /** The line is ours. */
  #running = false;
  #over = false;
  #resends = 0;
  #refusals = 0;
  #credentials: Credentials | null = null;
  /** The answer was a refusal; it is acted on when its line is free. */
  #refusal: (() => void) | null = null;

  constructor(context: SseStreamContext) {
    this.#context = context;
    this.#attempt = { method: 'GET', url: context.target.url };
  }

  start(): void {
    withCredentials(this.#context.authorizer, this.#attempt, (credentials) => {
      if (!this.#over) this.#dispatch(credentials);
    });
  }

  /** Closes it; nothing is told any more. */
  stop(): void {
    if (this.#over) return;
    this.#over = true;
    this.#decoder?.destroy();
    if (this.#running) this.line?.socket?.destroy();
  }

  #dispatch(credentials: Credentials | null): void {
    const { target, pool } = this.#context;
    this.#credentials = credentials;
    pool.dispatch(
      {
        caller: this,
        origin: target.url.origin,
        path: target.path,
        method: 'GET',
        headers: {
          ...OWN_HEADERS,
          ...target.headers,
          accept: EVENT_STREAM,
          ...credentials?.headers,
        },
        headersTimeout: 0,
        bodyTimeout: 0,
      },
      this,
    );
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#over) {
      controller.abort(new Error('this side gave the request up'));
      return;
    }
    this.#running = true;
    this.#context.refused(null);
    this.#context.started();
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: AnswerHeaders): void {
    if (status < 200 || this.#over) return;
    hearNonce(this.#context.authorizer, this.#attempt, headers);
    const location = headers['location'];
    const single = typeof location === 'string' ? location : undefined;
    const redirect = readRedirect(status, single, this.#attempt.url, 0, false);
    const mediaType = mediaTypeOf(firstValue(headers['content-type']));
    if (redirect?.kind === 'refuse') {
      this.#fail(noStream(this.#show(redirect.detail), { kind: 'redirected' }));
    } else if (status === 401 || status === 403) {
      this.#hearRefusal(status, joinedValue(headers['www-authenticate']));
    } else if (status >= 300 || mediaType !== EVENT_STREAM) {
      this.#fail(this.#noEventStream(status, mediaType, firstValue(headers['retry-after'])));
    } else {
      this.#open(joinedValue(headers['content-encoding']));
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#over || this.#refusal !== null) return;
    if (this.#decoder !== null) this.#decoder.push(chunk);
    else this.data(chunk);
  }

  onResponseEnd(): void {
    this.#lineIsFree(() => {
      if (this.#decoder !== null) this.#decoder.end();
      else this.end();
    });
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    const handedOver = this.#running;
    this.#lineIsFree(() => {
      if (this.#reader !== null) {
        const { kind, detail } = closeCauseOf(error, true);
        this.#end({ kind, detail: this.#show(`the event stream broke: ${detail}`) });
      } else if (handedOver) {
        const { detail } = closeCauseOf(error, false);
        this.#fail(noStream(this.#show(`GET was not answered: ${detail}`), { kind: 'connect-failed' }));
      } else {
        this.#failUnwritten(error);
      }
    });
  }

  // Decoded bytes of the stream.

  data(chunk: Buffer): void {
    const problem = this.#reader?.push(chunk) ?? null;
    if (problem !== null)
      this.#end({ kind: 'protocol', detail: this.#show(`${problem} on the event stream`) });
  }

  end(): void {
    this.#end({ kind: 'stream-ended', detail: 'the server ended the event stream' });
  }

  fail(detail: string): void {
    this.#end({ kind: 'protocol', detail: this.#show(detail) });
  }

  pause(): void {
    this.#controller?.pause();
  }

  resume(): void {
    this.#controller?.resume();
  }

  #open(contentEncoding: string | undefined): void {
    const { maxMessageBytes } = this.#context;
    this.#reader = createSseReader(
      maxMessageBytes,
      // A message may make its reader close the whole connection; the rest of the chunk is then nobody's.
      (text) => {
        if (!this.#over) this.#context.message(text);
      },
      (data, type) => {
        if (!this.#over) this.#context.event(type, data);
      },
    );
    const decoder = createBodyDecoder(contentEncoding, this);
    if (typeof decoder === 'string') this.#fail(noStream(this.#show(decoder)));
    else this.#decoder = decoder;
  }

  #noEventStream(status: number, mediaType: string, retryAfter: string | undefined): StreamEnd {
    const type = mediaType === '' ? 'no content type' : mediaType;
    const detail = this.#show(`HTTP ${status} with ${type} in answer to GET, where an event stream was due`);
    const retryAfterMs = readRetryAfter(retryAfter, Date.now());
    const wait = retryAfterMs === undefined ? {} : { retryAfterMs };
    // What a gateway or an overloaded server says is no matter of configuration.
    const isTemporary = status >= 500 || status === 408 || status === 425 || status === 429;
    return noStream(detail, { ...(isTemporary ? { kind: 'http-status' } : {}), ...wait, status });
  }

  #hearRefusal(status: 401 | 403, challenge: string | undefined): void {
    const shown = challenge === undefined ? null : sanitizeText(challenge, MAX_SHOWN_CHALLENGE_LENGTH);
    const refused: StreamEnd = { kind: 'unauthorized', status, redirected: false, challenge: shown };
    const { authorizer } = this.#context;
    if (authorizer === null || this.#refusals >= MAX_REFUSALS) {
      this.#fail(refused);
      return;
    }
    this.#refusals += 1;
    const refusal = {
      attempt: this.#attempt,
      status,
      challenge: challenge?.slice(0, MAX_SENT_CHALLENGE_LENGTH) ?? null,
      credentials: this.#credentials,
      count: this.#refusals,
    };
    const proceed = (again: boolean): void => {
      if (this.#over) return;
      if (again) this.start();
      else this.#fail(refused);
    };
    // One attempt after the other, and the rest of this answer is not worth reading.
    this.#refusal = () => {
      authorizer.refused(refusal).then(proceed, () => proceed(false));
    };
    this.#context.refused({ status, challenge: shown });
    this.line?.socket?.destroy();
  }

  /** The request was never on a socket. Where an idle connection died in our hands, another one is tried. */
  #failUnwritten(error: Error): void {
    const isFinal = isRefusedRequest(error) || this.#context.pool.isConnectError(error);
    if (!isFinal && this.#resends < MAX_RESENDS) {
      this.#resends += 1;
      this.start();
      return;
    }
    this.#fail(noStream(this.#show(describeError(error)), { kind: 'connect-failed' }));
  }

  /** The attempt is over. */
  #lineIsFree(otherwise: () => void): void {
    this.#running = false;
    if (this.#over) return;
    const seek = this.#refusal;
    this.#refusal = null;
    if (seek === null) otherwise();
    else seek();
  }

  #fail(end: StreamEnd): void {
    if (this.#over) return;
    this.stop();
    this.#context.failed(end);
  }

  #end(cause: CloseCause): void {
    if (this.#over) return;
    // Where the stream was cut off within an event, what is there may still be overheard.
    this.#reader?.end();
    if (this.#over) return;
    this.stop();
    this.#context.ended(cause);
  }

  #show(text: string): string {
    return this.#context.target.show(text, MAX_DETAIL_LENGTH);
  }
}
