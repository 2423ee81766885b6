/**
 * What one request came to, as data. A connection never rejects for anything the outside world does: it resolves
 * with one of these. `protocol/evidence.ts` reads what it proves.
 */
import type { JsonRpcError, JsonValue } from './jsonRpc.js';

/** Why a connection ended. `detail` is sanitized and bounded; it never holds a payload. */
export interface CloseCause {
  readonly kind:
    | 'exit' // the process ended
    | 'end-of-output' // the process closed its stdout and lives on
    | 'reset' // the socket broke after it was made
    | 'stream-ended' // an HTTP answer ended before the response
    | 'protocol' // this side closed it: oversize message, too much noise
    | 'host'; // this side closed it: stop, remove, renegotiate
  readonly detail: string;
  readonly exitCode?: number | null;
  readonly signal?: string | null;
  /** Tail of what the process wrote to stderr, control characters replaced. At most 4 KiB. */
  readonly stderr?: string;
}

/** Why nothing of the peer's MCP layer was reached (N6). */
export interface UnreachableCause {
  readonly kind:
    | 'spawn-failed' // the process could not be started
    | 'connect-failed' // refused, DNS, TLS, no route, connect time-out
    | 'http-status' // 5xx, 407, 408, 421, 425, 429
    | 'redirected' // a 3xx that is not followed
    | 'html' // an HTML page where a message was due
    | 'no-event-stream'; // HTTP+SSE: GET did not open the stream, or the stream named no endpoint that can be used
  readonly detail: string;
  /** True where waiting cannot help: the command does not exist, may not be executed, or its folder is missing. */
  readonly terminal: boolean;
  readonly status?: number;
  /** From `Retry-After`, in milliseconds. */
  readonly retryAfterMs?: number;
}

interface OutcomeBase {
  /** Whether the first byte of the request was handed to the pipe or socket. */
  readonly written: boolean;
  /** Whether a redirect within the origin was followed on the way (HTTP). */
  readonly redirected?: boolean;
  /** HTTP status of the answer, where there was one. */
  readonly status?: number;
}

/** A JSON-RPC result with the very id. */
export interface ResultOutcome extends OutcomeBase {
  readonly kind: 'result';
  readonly result: JsonValue;
}

/** A JSON-RPC error. Uncorrelated: the answer to a lone POST whose id is null, absent or foreign (N20). */
export interface ErrorOutcome extends OutcomeBase {
  readonly kind: 'error';
  readonly error: JsonRpcError;
  readonly correlated: boolean;
}

/** Something came back for this request and it is no valid JSON-RPC answer to it. */
export interface MalformedOutcome extends OutcomeBase {
  readonly kind: 'malformed';
  readonly detail: string;
}

export interface TimeoutOutcome extends OutcomeBase {
  readonly kind: 'timeout';
  readonly timeoutMs: number;
}

export interface ClosedOutcome extends OutcomeBase {
  readonly kind: 'closed';
  readonly cause: CloseCause;
}

export interface CancelledOutcome extends OutcomeBase {
  readonly kind: 'cancelled';
  readonly detail: string;
}

/** HTTP 401 or 403. */
export interface UnauthorizedOutcome extends OutcomeBase {
  readonly kind: 'unauthorized';
  readonly status: 401 | 403;
  /** The `WWW-Authenticate` header, at most 2 KiB. */
  readonly challenge: string | null;
}

export interface UnreachableOutcome extends OutcomeBase {
  readonly kind: 'unreachable';
  readonly cause: UnreachableCause;
}

/** HTTP 404 in answer to a request that carried a session id: the session is gone (legacy only). */
export interface SessionLostOutcome extends OutcomeBase {
  readonly kind: 'session-lost';
}

/** The caller's own check, made in the tick of the write, said no: nothing was written. */
export interface WithheldOutcome extends OutcomeBase {
  readonly kind: 'withheld';
  readonly written: false;
}

export type Outcome =
  | ResultOutcome
  | ErrorOutcome
  | MalformedOutcome
  | TimeoutOutcome
  | ClosedOutcome
  | CancelledOutcome
  | UnauthorizedOutcome
  | UnreachableOutcome
  | SessionLostOutcome
  | WithheldOutcome;
