/** Credentials for the requests to one HTTP endpoint. What is behind them is the host's; a transport knows no OAuth. */

/** One attempt to send something to the endpoint, after redirects within its origin. */
export interface HttpAttempt {
  readonly method: 'POST' | 'GET' | 'DELETE';
  readonly url: URL;
}

/** What an attempt carries. */
export interface Credentials {
  /** Names in lower case. They win over configured headers and go to the endpoint's origin only. */
  readonly headers: Readonly<Record<string, string>>;
}

/** An answer that says: not with these credentials. */
export interface Refusal {
  readonly attempt: HttpAttempt;
  readonly status: 401 | 403;
  /** The `WWW-Authenticate` header as it came, at most 8 KiB. */
  readonly challenge: string | null;
  /** What the refused attempt carried. */
  readonly credentials: Credentials | null;
  /** How often this message was refused, this time included. */
  readonly count: number;
}

export interface HttpAuthorizer {
  /**
   * Asked right before each attempt. A promise delays the attempt; where it rejects, the attempt carries none.
   */
  credentials(attempt: HttpAttempt): Credentials | null | Promise<Credentials | null>;
  /**
   * Told of each 401 and 403 to a POST, and to the GET of HTTP+SSE. Resolves true where it may be sent again, with
   * what {@link credentials} gives then. Never asked for `initialize` (N9) and for what nobody waits for at the end of
   * a connection. A rejection reads as false.
   */
  refused(refusal: Refusal): Promise<boolean>;
  /** Told the `DPoP-Nonce` of any answer (RFC 9449, 8.2). */
  heardNonce(attempt: HttpAttempt, nonce: string): void;
}

/** So often at most one message is sent again with other credentials; refused once more, that is its answer. */
export const MAX_REFUSALS = 3;
