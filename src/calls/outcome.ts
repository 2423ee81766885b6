/** What a call came to. `call` does not throw for anything the outside world does. */

import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import type { Era } from '../protocol/revisions.js';
import type { CatalogEntry } from '../registry/lease.js';

/**
 * What is known about the request's way to the server.
 *
 * - `answered`: the server answered it.
 * - `not-sent`: no write was begun. Repeating it is safe.
 * - `unknown`: it may have been executed. Never claim that it failed, never repeat it unasked.
 */
export type Delivery = 'answered' | 'not-sent' | 'unknown';

export type CallStatus =
  /** The tool's result. */
  | 'ok'
  /** The tool's result, with `isError: true`. */
  | 'tool-error'
  /** The arguments do not fit the tool's input schema; nothing was sent. */
  | 'invalid-arguments'
  /** The answer is no tool result, or its structured content does not fit the output schema. */
  | 'invalid-result'
  /** Policy or a person said no. Kept for hosts that decide on calls; nothing in this version gives it. */
  | 'denied'
  /** No such tool in the lease. */
  | 'not-found'
  /** The name means another definition now than in the lease; nothing was sent. */
  | 'stale-route'
  /** The peer is not callable; nothing was sent. */
  | 'unavailable'
  /** The connection ended before the answer. */
  | 'lost'
  /** The server answered with a JSON-RPC error, or with something that is no answer. */
  | 'protocol-error'
  /** The deadline passed. */
  | 'timeout'
  /** The caller aborted, or the host stopped. */
  | 'cancelled';

/** The facts of every request on behalf of a caller. */
interface OutcomeBase {
  readonly delivery: Delivery;
  /** Canonical name as asked for. */
  readonly tool: string;
  readonly peer: string | null;
  readonly local: string | null;
  readonly era: Era | null;
  readonly revision: string | null;
  /** JSON-RPC id of the last attempt, or `null` where none was made. */
  readonly requestId: number | null;
  readonly durationMs: number;
  /** Requests that were begun: rounds and repetitions count. */
  readonly attempts: number;
  /** Serialized arguments, bytes. */
  readonly argumentsBytes: number;
}

/** A tool's result as the server gave it. */
export interface ToolResult {
  /** Content blocks, each an object with a string `type`; kept as they came. */
  readonly content: readonly JsonObject[];
  /** Any JSON value; absent where the server gave none. */
  readonly structuredContent?: JsonValue;
  readonly meta?: JsonObject;
}

export interface AnsweredOutcome extends OutcomeBase {
  readonly status: 'ok' | 'tool-error';
  readonly delivery: 'answered';
  readonly result: ToolResult;
  readonly message?: undefined;
}

export interface StaleRouteOutcome extends OutcomeBase {
  readonly status: 'stale-route';
  /** `answered`: the server refused the headers of the request (-32020), so nothing was done. */
  readonly delivery: 'not-sent' | 'answered';
  readonly message: string;
  readonly result?: undefined;
  /** What the name means now; `null` where it is gone. */
  readonly current: CatalogEntry | null;
}

export interface FailedOutcome extends OutcomeBase {
  readonly status: Exclude<CallStatus, 'ok' | 'tool-error' | 'stale-route'>;
  /** One sentence a person, or a model, can act on. Sanitized. */
  readonly message: string;
  readonly result?: undefined;
  /** The JSON-RPC error, where the server gave one. */
  readonly error?: { readonly code: number; readonly message: string; readonly data?: JsonValue };
}

export type CallOutcome = AnsweredOutcome | StaleRouteOutcome | FailedOutcome;

export interface CallOptions {
  /** Aborting cancels the call, also on the wire. */
  readonly signal?: AbortSignal;
  /** Deadline for the whole call. Default: the host's `callTimeoutMs` (60,000). */
  readonly timeoutMs?: number;
  /** Asks for progress; each report extends the deadline by `timeoutMs`, up to the host's `maxCallMs`. */
  readonly onProgress?: (progress: CallProgress) => void;
  /** Extra `_meta` of this request; the protocol's own keys are never overwritten. */
  readonly meta?: JsonObject;
  /**
   * Whether the arguments are held against the tool's `inputSchema` before anything is sent. `false` leaves the judging
   * to the server: for schemas that cannot be used here, or where `null` is sent for what is optional. Default true.
   */
  readonly validateArguments?: boolean;
}

export interface CallProgress {
  readonly progress: number;
  readonly total: number | undefined;
  readonly message: string | undefined;
}

/** What `readResource`, `getPrompt` and `complete` come to: like a call, without what only tools have. */
export type RequestStatus = Exclude<CallStatus, 'ok' | 'tool-error' | 'invalid-arguments' | 'stale-route'>;

interface RequestBase {
  readonly delivery: Delivery;
  readonly peer: string;
  /** `resources/read`, `prompts/get` or `completion/complete`. */
  readonly method: string;
  /** The URI or the name that was asked for. */
  readonly target: string;
  readonly era: Era | null;
  readonly revision: string | null;
  readonly requestId: number | null;
  readonly durationMs: number;
  readonly attempts: number;
}

export interface AnsweredRequest<T> extends RequestBase {
  readonly status: 'ok';
  readonly delivery: 'answered';
  readonly value: T;
  /** From the cache, by the server's own `ttlMs`: nothing was sent now. */
  readonly cached: boolean;
  readonly message?: undefined;
}

export interface FailedRequest extends RequestBase {
  readonly status: RequestStatus;
  /** One sentence a person, or a model, can act on. Sanitized. */
  readonly message: string;
  readonly value?: undefined;
  readonly error?: FailedOutcome['error'];
}

export type RequestOutcome<T> = AnsweredRequest<T> | FailedRequest;

export interface RequestOptions {
  /** Aborting cancels the request, also on the wire. */
  readonly signal?: AbortSignal;
  /** Deadline for the whole request. Default: the host's `callTimeoutMs` (60,000). */
  readonly timeoutMs?: number;
  /** As in {@link CallOptions}. */
  readonly onProgress?: (progress: CallProgress) => void;
  /** Extra `_meta`; the protocol's own keys are never overwritten. */
  readonly meta?: JsonObject;
}
