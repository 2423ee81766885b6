/** A token as a request carries it (RFC 6750, 2.1; RFC 9449, 7.1). */
import type { DpopSession, OAuthClientProvider, StoredOAuthTokens } from '@modelcontextprotocol/client';
import type { Credentials, HttpAttempt } from '../../transports/httpAuthorizer.js';

export type Presented = Credentials | null | Promise<Credentials | null>;

export function isPromise<T>(value: T | PromiseLike<T>): value is PromiseLike<T> {
  return typeof (value as { then?: unknown } | null | undefined)?.then === 'function';
}

/** RFC 9110, 5.5: what of a header value is visible; the token of RFC 6750, 2.1 is within. */
const VISIBLE = /^[\x21-\x7e]+$/;

export function isToken(token: unknown): token is string {
  return typeof token === 'string' && VISIBLE.test(token);
}

/** Whether there is a token that a request can carry. What a provider gives may be anything, `null` among it. */
export function isUsable(tokens: StoredOAuthTokens | null | undefined): tokens is StoredOAuthTokens {
  return isToken(tokens?.access_token);
}

/** At once where the provider answers at once: a promise costs every request a turn of the loop. */
export function present(
  provider: OAuthClientProvider,
  tokens: StoredOAuthTokens,
  attempt: HttpAttempt,
  onSession: (session: DpopSession) => void,
): Presented {
  const { access_token: token } = tokens;
  if (tokens.token_type?.toLowerCase() !== 'dpop' || provider.dpop === undefined) {
    return { headers: { authorization: `Bearer ${token}` } };
  }
  return proven(provider, token, attempt, onSession);
}

/** A token that is bound to a key is worth nothing without a proof: then nothing is sent. */
async function proven(
  provider: OAuthClientProvider,
  token: string,
  attempt: HttpAttempt,
  onSession: (session: DpopSession) => void,
): Promise<Credentials | null> {
  const session = await provider.dpop?.();
  if (session === undefined) return null;
  onSession(session);
  const dpop = await session.buildProof({ htm: attempt.method, htu: attempt.url, accessToken: token });
  return { headers: { authorization: `DPoP ${token}`, dpop } };
}

/** The token that an attempt carried. */
export function tokenIn(credentials: Credentials | null): string | undefined {
  return /^\S+ (.+)$/.exec(credentials?.headers['authorization'] ?? '')?.[1];
}
