/** Request correlation, deadlines and cancellation over one transport. Types first; see the class below. */
import type { JsonObject } from '../protocol/jsonRpc.js';
import type { Outcome } from '../protocol/exchange.js';

export interface Progress {
  readonly progress: number;
  readonly total: number | undefined;
  readonly message: string | undefined;
}

export interface RequestOptions {
  readonly timeoutMs: number;
  /** Where progress extends the deadline: the longest life of the request. Absent: progress extends nothing. */
  readonly maxTotalMs?: number;
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: Progress) => void;
  /** Extra `_meta`, under the protocol's own keys. */
  readonly meta?: JsonObject;
  /** Asked in the tick of the write; false: nothing is written and the outcome is `withheld`. */
  readonly mayWrite?: () => boolean;
}

/** A request on its way. */
export interface PendingRequest {
  readonly id: number;
  readonly outcome: Promise<Outcome>;
}
