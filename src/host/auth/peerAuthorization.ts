/** Authorization of one peer, as its owner sees it. Implemented beside this file. */
import type { Clock } from '../../transports/clock.js';
import type { HttpAuthorizer } from '../../transports/httpAuthorizer.js';
import type { PeerAuth } from '../config.js';
import type { AuthorizationResponse } from '../facade.js';

export interface PeerAuthorization extends HttpAuthorizer {
  /** Where a person can grant access, while that is needed. */
  readonly pendingUrl: string | null;
  /** Why the last attempt to obtain credentials failed, in a sentence; null where it did not. */
  readonly problem: string | null;
  /** What to do where the server refuses and nobody is asked for access; null: configure credentials that it takes. */
  readonly remedy: string | null;
  /**
   * A word that stands for whoever the requests are made for: the same while credentials are merely renewed, another one
   * when they change. Never a secret, nor one that could be computed from it without knowing it.
   */
  readonly context: string;
  /** Takes what was obtained, tokens and the like, out of a text. */
  withoutSecrets(text: string): string;
  /** Somebody says that credentials are there, or may be: they are looked at now, and flows that failed may run again. */
  reconsider(): void;
  /** Redeems what came back. @throws {AuthorizationError} as a rejection */
  redeem(response: AuthorizationResponse): Promise<void>;
  /** Nothing is asked any more; what is under way is given up. Idempotent. */
  close(): void;
}

export interface PeerAuthorizationOptions {
  readonly peer: string;
  readonly auth: PeerAuth;
  /** The endpoint. */
  readonly url: string;
  readonly proxy: string | undefined;
  readonly clock: Clock;
  /** Takes the peer's configured secrets out of a text. */
  readonly redact: (text: string) => string;
  /** {@link PeerAuthorization.pendingUrl} is there, or another one. */
  readonly onUrl: (url: string) => void;
  /** {@link PeerAuthorization.context} is another one: what was read before is not theirs. */
  readonly onContextChanged: () => void;
}
