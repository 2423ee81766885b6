/**
 * The contract of a transport: bytes in, bytes out.
 *
 * A transport frames, bounds and delivers messages. It does not read them: ids, deadlines, correlation and eras
 * are the connection's (`connection.ts`). One transport object lives one life: `open` once, `close` once; a
 * reconnect makes a new one through its {@link TransportFactory}.
 *
 * Order a transport keeps for each exchange:
 * 1. `exchange.mayWrite()` is asked in the tick in which the first byte would be handed to the pipe or socket,
 *    with no await in between. `false`: nothing is written and the exchange gets `onEnd({kind: 'withheld'})`.
 * 2. `exchange.written = true` is set in that same tick, right before the byte is handed over.
 * 3. Messages of the answer are delivered through `events.message(text, exchange)`, and only those that may settle
 *    the request: a 2xx or another 4xx whose body is JSON or an event stream. Everything else is `overheard`.
 * 4. Per-request-stream transports call `exchange.onEnd(...)` once, after the last message of that answer. A pipe-like
 *    transport calls `onEnd`, once, only if the message was not written; one that learns that a message was refused
 *    (HTTP+SSE, where each is a POST) ends it as well, since no answer to it will come.
 *    It is never called after `abort` of the exchange. `close()` may end what is open as `broken` within its call, or
 *    leave it without an end, and calls it for nothing after that: who closes settles what was in flight. What is sent
 *    where nothing can be sent (not open and never to be, ended, closed) ends as `broken`, in that call or soon after.
 * 5. `events.closed(cause)` is called exactly once, whether the far side ended or `close()` was called; nothing is
 *    delivered after it.
 * 6. `close()` gives what was sent before it a chance to arrive: a pipe that takes bytes gets them before its end,
 *    notifications over HTTP get a bounded time. The streams of requests are closed at once.
 */
import type { CloseCause, UnreachableCause } from '../protocol/exchange.js';

/** How the exchange of one sent message ended, seen from the wire. All text is sanitized and bounded (2 KiB). */
export type StreamEnd =
  /** A 2xx answer ended normally; its messages were delivered (there may have been none). */
  | { readonly kind: 'complete'; readonly status: number; readonly redirected: boolean }
  /** 2xx whose body is not what its content type claims, is oversize, or has no usable content type. */
  | {
      readonly kind: 'malformed';
      readonly status: number;
      readonly redirected: boolean;
      readonly detail: string;
    }
  /**
   * Any other status that is not covered below. If its body was a JSON value, it was delivered as a message before.
   * `detail` is a short reading of the body.
   */
  | {
      readonly kind: 'status';
      readonly status: number;
      readonly redirected: boolean;
      readonly detail: string;
      /** The request carried a session id (legacy), so 404 means the session is gone. */
      readonly hadSession: boolean;
    }
  | {
      readonly kind: 'unauthorized';
      readonly status: 401 | 403;
      readonly redirected: boolean;
      readonly challenge: string | null;
    }
  /** Nothing of the peer's MCP layer was reached (N6): among others every 3xx that is not followed. */
  | { readonly kind: 'unreachable'; readonly redirected: boolean; readonly cause: UnreachableCause }
  /** The connection broke, before or after the write; the exchange's `written` tells. */
  | { readonly kind: 'broken'; readonly redirected: boolean; readonly cause: CloseCause }
  | { readonly kind: 'withheld' };

/** One message on its way, and the place where what happens to it is told. Made by the connection. */
export interface Exchange {
  /** The request's id; `null` for a notification or a response. */
  readonly id: number | null;
  /** JSON-RPC method; `null` for a response. */
  readonly method: string | null;
  /** Headers of this message (HTTP): what the dialect derived from the serialized body. Names in lower case. */
  readonly headers: Readonly<Record<string, string>> | undefined;
  written: boolean;
  /** HTTP: set to true by the transport when a redirect was followed, before it delivers what came. */
  redirected: boolean;
  /**
   * HTTP: set while the transport obtains credentials for a message that was refused, and `null` again when the message
   * is sent anew. Whoever gives the message up in between knows why it has no answer: it is not silence (N5).
   */
  refusal: { readonly status: 401 | 403; readonly challenge: string | null } | null;
  /**
   * HTTP: set while the body is waited for of an answer whose head says all, such as a gateway's error or a page. Whoever
   * gives the message up in between knows it: a body that hangs is not silence either (N5, N6).
   */
  decided?: StreamEnd | null;
  /** Whether somebody still waits for an answer. Where nobody does, a stream that ended early is not resumed. */
  readonly isAwaited: boolean;
  mayWrite(): boolean;
  onEnd(end: StreamEnd): void;
}

/**
 * How the stream stands on which a server says what is no answer (legacy Streamable HTTP: GET). `detail` is a sentence
 * without a full stop, safe to show.
 */
export type ServerStream =
  /** `resumed`: it goes on behind the last event of the one before (`Last-Event-ID`), so nothing was missed. */
  | { readonly state: 'open'; readonly resumed: boolean }
  /** It ended and is opened again after a while. */
  | { readonly state: 'waiting'; readonly detail: string }
  /** The server has none; what it says by itself is not heard. Stays so for the life of the connection. */
  | { readonly state: 'none'; readonly detail: string };

/** Something wrong on the wire that belongs to no exchange. Counted against the peer; never holds a payload. */
export interface TransportFault {
  readonly kind:
    | 'noise' // a line that is no JSON
    | 'invalid-utf8'
    | 'oversize' // a message over maxMessageBytes; its rest is discarded
    | 'unterminated' // bytes without a line end when the stream ended
    | 'stream'; // an optional stream failed
  readonly detail: string;
}

export interface TransportEvents {
  /**
   * One message, decoded from valid UTF-8.
   *
   * @param exchange the exchange whose answer this message came in, where the transport has one stream a request
   *   (HTTP); `null` on a shared stream
   */
  message(text: string, exchange: Exchange | null): void;
  /**
   * A text that came with something that can be no valid answer: HTTP 3xx, 401, 403, 407, 408, 421, 425, 429 or 5xx,
   * an HTML page, a content type that is neither JSON nor an event stream, bytes that are no UTF-8, a body or an event
   * that was cut off behind its JSON, an event of a foreign type. It is read for modern evidence (N21) and settles
   * nothing. A body in answer to `server/discover` or `initialize` is overheard as soon as its JSON is whole, and
   * comes as a message when it ends, if it may be one. Texts over 64 KiB are left out.
   */
  overheard(text: string): void;
  fault(fault: TransportFault): void;
  /** Each change of {@link ServerStream}, after {@link Transport.openServerStream} was called. */
  serverStream?(stream: ServerStream): void;
  closed(cause: CloseCause): void;
}

export type OpenResult = { readonly ok: true } | { readonly ok: false; readonly cause: UnreachableCause };

export interface Transport {
  /** `stdio`, `streamable-http`, `memory`, or a host's own word. For display. */
  readonly kind: string;
  /** True where each request has its own answer stream (HTTP): cancelling is closing it. */
  readonly perRequestStreams: boolean;
  /**
   * Spawns the process, or does nothing. Never rejects and never hangs: resolves when the process has been started
   * (not when it is ready), or with the reason why it could not be.
   */
  open(): Promise<OpenResult>;
  /** Sends one serialized message, in call order. Never throws; back-pressure queues inside, bounded. */
  send(text: string, exchange: Exchange): void;
  /**
   * Closes the stream of one exchange (per-request streams only); its `onEnd` is not called any more. What had come of
   * an answer to the probe or to `initialize` may be overheard within the call.
   */
  abort(exchange: Exchange): void;
  /**
   * Tells the transport what was negotiated: HTTP then sends `Mcp-Session-Id` and `MCP-Protocol-Version` on legacy
   * requests. Called when the era is selected, and again, on the same connection, if a new probe selects another
   * modern revision (N14); never from one era to the other.
   */
  negotiated?(agreed: { readonly era: 'modern' | 'legacy'; readonly revision: string }): void;
  /**
   * Legacy HTTP: opens the server's own stream, and again when it ends. Called once, when the server has taken
   * `notifications/initialized`. Resolves when it is known how the stream stands, or after a moment; never rejects.
   */
  openServerStream?(): Promise<void>;
  /**
   * Idempotent. Resolves when nothing of it is left: process group gone, sockets closed, timers cleared. Bounded
   * by its own shutdown ladder.
   */
  close(): Promise<void>;
}

/** Makes a new transport for each life of a peer's connection. */
export type TransportFactory = (events: TransportEvents) => Transport;

/** Longest message accepted, 16 MiB: above the largest real tool list seen (0.75 MB) by a factor of twenty. */
export const DEFAULT_MAX_MESSAGE_BYTES = 16 * 1024 * 1024;
