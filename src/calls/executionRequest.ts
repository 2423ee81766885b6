/** What a caller's request is, and what it comes to. */
import type { Outcome } from '../protocol/exchange.js';
import type { JsonObject } from '../protocol/jsonRpc.js';
import type { CallProgress, Delivery } from './outcome.js';

/** What is to be sent. */
export interface ExecutionRequest {
  readonly method: string;
  /** Serialized members of `params`, without inputs and `_meta`. */
  readonly members: string;
  /** `params.name` or `params.uri`. */
  readonly target: string;
  /** Requests of one peer with the same key run one after the other. */
  readonly key: string | undefined;
  /** Whether the server may ask for input. */
  readonly hasRounds: boolean;
  readonly isRepeatable: () => boolean;
  /** Asked in the tick of the write, besides the connection: is the route still the same? */
  readonly isStillMeant: () => boolean;
  /** More headers of its message. Asked where there are any: of a modern peer over HTTP, for each attempt. */
  readonly headers?: () => Readonly<Record<string, string>> | undefined;
  /**
   * For a request whose headers follow a list: compares what it is bound to with the list as it is now.
   *
   * - `same`: nothing is different.
   * - `renewed`: the headers may be; it is bound to what is listed now.
   * - `other`: what was meant is not there any more.
   */
  readonly rebind?: () => 'same' | 'renewed' | 'other';
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number | undefined;
  readonly onProgress: ((progress: CallProgress) => void) | undefined;
  readonly meta: JsonObject | undefined;
}

/** What the request came to: an outcome of the wire, or why there is none. */
export type Conclusion =
  | { readonly kind: 'outcome'; readonly outcome: Outcome }
  | {
      readonly kind: 'refused';
      readonly status: 'unavailable' | 'timeout' | 'cancelled' | 'protocol-error';
      readonly delivery: Delivery;
      readonly message: string;
    };
