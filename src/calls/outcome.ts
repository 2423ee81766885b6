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
  /** Policy or a person said no. */
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
  /** Requests that were begun. */
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
}

export interface StaleRouteOutcome extends OutcomeBase {
  readonly status: 'stale-route';
  readonly delivery: 'not-sent';
  readonly message: string;
  /** What the name means now; `null` where it is gone. */
  readonly current: CatalogEntry | null;
}

export interface FailedOutcome extends OutcomeBase {
  readonly status: Exclude<CallStatus, 'ok' | 'tool-error' | 'stale-route'>;
  /** One sentence a person, or a model, can act on. Sanitized. */
  readonly message: string;
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
}

export interface CallProgress {
  readonly progress: number;
  readonly total: number | undefined;
  readonly message: string | undefined;
}
