/** What a connection tells the owner of its peer. */
import type { ModernSign } from '../protocol/evidence.js';
import type { CloseCause } from '../protocol/exchange.js';
import type { JsonObject } from '../protocol/jsonRpc.js';
import type { ServerStream } from './transport.js';

/** What was wrong on this connection and belongs to no request. Counted; a payload is never kept. */
export type FaultKind =
  | 'noise'
  | 'invalid-utf8'
  | 'oversize'
  | 'unterminated'
  | 'stream'
  | 'malformed' // valid JSON that is no JSON-RPC message
  | 'late' // a response to a request that is settled already
  | 'foreign' // a response with an id that was never sent, or in the answer to another request
  | 'uncorrelated' // an error without an id
  | 'foreign-progress' // progress for no request that asked for it, or of a wrong shape
  | 'foreign-cancel' // a cancellation of something that is not the server's to cancel, or is settled
  | 'transport' // a transport that broke its contract
  | 'server-request'; // a request of the server that is not answered: a modern peer's (N18), or one too many

export interface ConnectionEvents {
  /** Modern evidence in its loosest form, at the moment it was decoded (N21). */
  modernSign(sign: ModernSign): void;
  notification(method: string, params: JsonObject | undefined): void;
  /** A server's own request, in the legacy era only. */
  serverRequest(id: string | number, method: string, params: JsonObject | undefined): void;
  /** The server takes back a request of its own that was not answered yet: no answer is sent any more. */
  serverCancelled(id: string | number): void;
  fault(kind: FaultKind, detail: string): void;
  /** The stream of the server changed how it stands (legacy HTTP). */
  serverStream?(stream: ServerStream): void;
  /** The connection is over. Every request was settled before. Exactly once, if it was ever opened. */
  closed(cause: CloseCause): void;
}
