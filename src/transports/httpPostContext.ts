/** What a message that is sent over HTTP needs of its transport. */
import type { Dispatcher } from 'undici';
import type { Clock } from './clock.js';
import type { HttpAuthorizer } from './httpAuthorizer.js';
import type { LineRequest } from './httpPool.js';
import type { HttpTarget } from './httpTarget.js';
import type { Resumption } from './resumption.js';
import type { StreamPlace } from './sseMessages.js';
import type { Exchange, StreamEnd } from './transport.js';

/** What the posts of one transport share. */
export interface PostContext {
  readonly target: HttpTarget;
  readonly maxMessageBytes: number;
  readonly clock: Clock;
  /** Null: nothing but the configured headers. */
  readonly authorizer: HttpAuthorizer | null;
  /** Hands the request to undici; may call the handler at once. */
  dispatch(request: LineRequest, handler: Dispatcher.DispatchHandler): void;
  /** Whether this error ended the making of a connection. */
  isConnectError(error: unknown): boolean;
  message(text: string, exchange: Exchange): void;
  overheard(text: string): void;
  /** The `Mcp-Session-Id` of a 2xx answer to `initialize`. */
  sessionOffered(value: string | undefined): void;
  /** HTTP 404 to a request that carried the session. */
  sessionLost(): void;
  /** Goes on with an answer whose stream ended early, if the era has that; else null. Default: null. */
  resume?(exchange: Exchange, from: StreamPlace, ended: (end: StreamEnd) => void): Resumption | null;
  /** Nothing more comes of this post. Called before `exchange.onEnd`. */
  over(post: { readonly exchange: Exchange }): void;
}
