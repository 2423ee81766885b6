/** What a transport over HTTP is made with. */
import type { Clock } from './clock.js';
import type { HttpAuthorizer } from './httpAuthorizer.js';
import type { OpenResult } from './transport.js';

export interface HttpOptions {
  /** `http:` or `https:`. User information becomes `authorization: Basic …` unless that header is configured. */
  readonly url: string | URL;
  /** Sent with every request to this origin, and to no other. See `configuredHeaderProblem` for what is refused. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Longest answer or event, decoded. Default 16 MiB. */
  readonly maxMessageBytes?: number;
  /** Longest making of one connection, TLS included. Default 10 s. */
  readonly connectTimeoutMs?: number;
  readonly clock?: Clock;
  /** Where the credentials come from, besides the configured headers. Default: there are none. */
  readonly authorizer?: HttpAuthorizer | undefined;
  /**
   * URL of an HTTP proxy, reached by `http:` or `https:`; its user information becomes `proxy-authorization`. Every
   * connection goes through a tunnel (CONNECT), so the proxy sees neither headers nor messages of an `https:` endpoint.
   * Default: none; the variables of the environment are not read.
   */
  readonly proxy?: string | URL | undefined;
}

/** A configuration that cannot be used, or a transport that was closed before it was open. */
export function notOpened(detail: string): OpenResult {
  return { ok: false, cause: { kind: 'connect-failed', detail, terminal: true } };
}
