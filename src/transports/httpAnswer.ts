/**
 * Reads the answer to one POST: its messages, and what the answer as a whole was. Knows status, headers and body and
 * nothing of sockets.
 *
 * Whatever the status and content type, a body that looks like JSON is handed on before the end is told, if only to be
 * overheard: what forbids `initialize` is searched for in every answer (N21).
 */
import { isUtf8 } from 'node:buffer';
import { sanitizeText } from '../protocol/sanitize.js';
import { createByteGatherer } from './byteGatherer.js';
import { readRetryAfter } from './httpErrors.js';
import { createJsonEnd, holdsWholeJson } from './jsonEnd.js';
import { createSseReader, type StreamPlace } from './sseMessages.js';
import type { StreamEnd } from './transport.js';

/** Status and headers of an answer, and what must be known of its request. */
export interface AnswerHead {
  readonly status: number;
  /** Media type in lower case, without parameters; '' where there is none. */
  readonly mediaType: string;
  readonly challenge: string | undefined;
  readonly retryAfter: string | undefined;
  readonly redirected: boolean;
  readonly hadSession: boolean;
  /** False for a notification or a response: nothing is due but a 2xx. */
  readonly answerDue: boolean;
  /** The answer to a probe or to `initialize`: a JSON body is overheard when it is whole, not when it ends. */
  readonly negotiates: boolean;
}

export interface AnswerContext {
  readonly maxMessageBytes: number;
  /** A message that may settle the request. */
  deliver(text: string): void;
  /** A text that came with something that can be no valid answer. */
  overhear(text: string): void;
  /** Makes a text fit to be shown. */
  show(text: string, maxLength: number): string;
  /** Wall clock, milliseconds: `Retry-After` may be a date. */
  wallClockMs(): number;
}

export interface AnswerReader {
  /**
   * What the answer came to where the head says all: nothing in the body could make it an answer of the peer's MCP layer,
   * or change what is done about it (N6). What the body says may still be shown, or forbid. Null: it is for the body.
   */
  readonly decided: StreamEnd | null;
  /** Where the reader of an event stream is; null for other bodies. */
  readonly place: StreamPlace | null;
  /** Takes bytes of the body. An end: nothing more is wanted, the rest may be thrown away. */
  push(chunk: Buffer): StreamEnd | null;
  /** The body is complete. */
  end(): StreamEnd;
  /** The body was cut off; `broken` is the end of an answer that was a good one until then. */
  cut(broken: StreamEnd): StreamEnd;
  /** Nobody waits for the rest. */
  abandon(): void;
}

/** An error's body is a sentence, not a payload; 64 KiB is above every error page that was ever meant to be read. */
export const MAX_ERROR_BODY_BYTES = 64 * 1024;
/** What forbids `initialize` is short. */
const MAX_OVERHEARD_BYTES = 64 * 1024;
const MAX_DETAIL_LENGTH = 300;
/** Longest excerpt of a peer's words within a detail. */
const MAX_EXCERPT_LENGTH = 200;
const MAX_CHALLENGE_LENGTH = 2048;

/** What is read in which way. */
interface Reading {
  readonly head: AnswerHead;
  readonly context: AnswerContext;
  /** The answer is a good one, unless its body spoils it. */
  readonly good: boolean;
  readonly maxBytes: number;
  readonly decided: StreamEnd | null;
  hand(text: string): void;
  finish(body: Body): StreamEnd;
}

/** @param refusal ends the answer, whatever its body says: a redirect that is not followed */
export function createAnswerReader(
  head: AnswerHead,
  context: AnswerContext,
  refusal?: StreamEnd,
): AnswerReader {
  const { status, mediaType } = head;
  const typed = mediaType === JSON_TYPE || mediaType === EVENT_STREAM;
  const good = refusal === undefined && isSuccess(status) && typed;
  // 404 with a session means that the session is gone (2025-11-25, "Session Management"), whatever error comes along.
  const isSessionLoss = status === 404 && head.hadSession;
  const mayBeError = refusal === undefined && typed && isOtherClientError(status) && !isSessionLoss;
  const finish = (body: Body): StreamEnd => refusal ?? endOf(head, body, context);
  const isPage = isSuccess(status) && HTML_TYPES.has(mediaType);
  const isDecided = refusal !== undefined || isPage || isDecidedByStatus(status);
  const reading: Reading = {
    head,
    context,
    good,
    decided: isDecided ? finish(NO_TEXT) : null,
    maxBytes: good ? context.maxMessageBytes : Math.min(MAX_ERROR_BODY_BYTES, context.maxMessageBytes),
    hand: good || mayBeError ? context.deliver : context.overhear,
    finish,
  };
  return mediaType === EVENT_STREAM ? readEvents(reading) : readWhole(reading);
}

/** What the body turned out to be. `text` is absent where it is longer than the limit, cut off or no UTF-8. */
interface Body {
  readonly empty: boolean;
  readonly text: string | undefined;
  /** What is wrong with a body that should have been a message. */
  readonly problem?: string;
}

export const EVENT_STREAM = 'text/event-stream';
const JSON_TYPE = 'application/json';
const NO_TEXT: Body = { empty: false, text: undefined };

function readEvents({ head, context, good, maxBytes, decided, hand, finish }: Reading): AnswerReader {
  const reader = createSseReader(maxBytes, hand, (data) => overhearWhole(data, context.overhear));
  return {
    decided,
    place: reader,
    push(chunk) {
      const problem = reader.push(chunk);
      if (problem === null) return null;
      return good ? malformed(head, problem, context) : finish(NO_TEXT);
    },
    end() {
      reader.end();
      return finish(NO_TEXT);
    },
    cut(broken) {
      reader.end();
      return good ? broken : finish(NO_TEXT);
    },
    abandon: () => reader.end(),
  };
}

function readWhole({ head, context, good, maxBytes, decided, hand, finish }: Reading): AnswerReader {
  const gatherer = createByteGatherer();
  /** A body may be whole and never end: a wrong `Content-Length`, no last chunk. */
  const jsonEnd = head.negotiates ? createJsonEnd() : null;
  let heard = false;

  function hear(bytes: Buffer): void {
    if (heard) return;
    heard = true;
    overhearWhole(bytes, context.overhear);
  }

  return {
    decided,
    place: null,
    push(chunk) {
      if (gatherer.size + chunk.length > maxBytes) {
        return finish({ ...NO_TEXT, problem: `the body is longer than ${maxBytes} bytes` });
      }
      gatherer.add(chunk);
      if (jsonEnd?.push(chunk) === true) {
        const bytes = gatherer.take();
        gatherer.add(bytes);
        hear(bytes);
      }
      return null;
    },
    end() {
      const bytes = gatherer.take();
      if (!isUtf8(bytes)) {
        hear(bytes);
        return finish({ ...NO_TEXT, problem: 'the body is not valid UTF-8' });
      }
      const text = withoutByteOrderMark(bytes.toString('utf8'));
      const empty = !/\S/.test(text);
      // Where a message was due, whether it is one is for its reader to say.
      if (good ? !empty : /^\s*[[{]/.test(text) && !(heard && hand === context.overhear)) hand(text);
      return finish({ empty, text });
    },
    cut(broken) {
      hear(gatherer.take());
      return good ? broken : finish(NO_TEXT);
    },
    // What was whole has been heard.
    abandon() {},
  };
}

/** Hands on what is no message, if it holds a whole one: also one that is no UTF-8 (N21). */
export function overhearWhole(bytes: Buffer, overhear: (text: string) => void): void {
  if (bytes.length > MAX_OVERHEARD_BYTES || !holdsWholeJson(bytes)) return;
  overhear(withoutByteOrderMark(bytes.toString('utf8')));
}

function endOf(head: AnswerHead, body: Body, context: AnswerContext): StreamEnd {
  const { status, redirected } = head;
  if (isSuccess(status)) return endOfSuccess(head, body, context);
  if (status === 401 || status === 403) {
    const challenge =
      head.challenge === undefined ? null : sanitizeText(head.challenge, MAX_CHALLENGE_LENGTH);
    return { kind: 'unauthorized', status, redirected, challenge };
  }
  const detail = context.show(describe(head, body, context), MAX_DETAIL_LENGTH);
  if (isNoSignal(status)) {
    const retryAfterMs = readRetryAfter(head.retryAfter, context.wallClockMs());
    const cause = { kind: 'http-status', detail, terminal: false, status } as const;
    return {
      kind: 'unreachable',
      redirected,
      cause: retryAfterMs === undefined ? cause : { ...cause, retryAfterMs },
    };
  }
  return { kind: 'status', status, redirected, detail, hadSession: head.hadSession };
}

function endOfSuccess(head: AnswerHead, body: Body, context: AnswerContext): StreamEnd {
  const { status, redirected, mediaType } = head;
  const complete: StreamEnd = { kind: 'complete', status, redirected };
  if (body.problem !== undefined && mediaType === JSON_TYPE) return malformed(head, body.problem, context);
  if (mediaType === EVENT_STREAM || mediaType === JSON_TYPE || body.empty) return complete;
  // Frameworks answer 202 with a word such as "Accepted".
  if (!head.answerDue && status === 202) return complete;
  if (HTML_TYPES.has(mediaType)) {
    const detail = `HTTP ${status} with an HTML page where a message was due`;
    return { kind: 'unreachable', redirected, cause: { kind: 'html', detail, terminal: false, status } };
  }
  return malformed(head, describe(head, body, context), context);
}

const HTML_TYPES: ReadonlySet<string> = new Set(['text/html', 'application/xhtml+xml']);

function malformed(head: AnswerHead, detail: string, context: AnswerContext): StreamEnd {
  const { status, redirected } = head;
  return { kind: 'malformed', status, redirected, detail: context.show(detail, MAX_DETAIL_LENGTH) };
}

function isDecidedByStatus(status: number): boolean {
  return (status >= 300 && status < 400) || status === 401 || status === 403 || isNoSignal(status);
}

/**
 * What came from a proxy, a gateway or an overloaded server says nothing about the peer (N6): 407 is a proxy's, 421
 * comes from a server that is not responsible for this host name (RFC 9110, 15.5.8 and 15.5.20).
 */
function isNoSignal(status: number): boolean {
  return status >= 500 || NO_SIGNAL.has(status);
}

const NO_SIGNAL: ReadonlySet<number> = new Set([407, 408, 421, 425, 429]);

/** A client error that a server's MCP layer may have sent, with a message in it. */
function isOtherClientError(status: number): boolean {
  return status >= 400 && status < 500 && status !== 401 && status !== 403 && !isNoSignal(status);
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}

function describe(head: AnswerHead, body: Body, context: AnswerContext): string {
  const type = head.mediaType === '' ? 'no content type' : context.show(head.mediaType, 60);
  const said = `HTTP ${head.status} with ${type}`;
  if (body.empty) return `${said} and no body`;
  if (body.problem !== undefined) return `${said}: ${body.problem}`;
  if (body.text === undefined || HTML_TYPES.has(head.mediaType)) return said;
  return `${said}: ${context.show(body.text.trim(), MAX_EXCERPT_LENGTH)}`;
}

function withoutByteOrderMark(text: string): string {
  return text.startsWith('\ufeff') ? text.slice(1) : text;
}

/** The media type of a `Content-Type` header. */
export function mediaTypeOf(contentType: string | undefined): string {
  if (contentType === undefined) return '';
  const end = contentType.indexOf(';');
  return (end < 0 ? contentType : contentType.slice(0, end)).trim().toLowerCase();
}
