/** Headers of an answer as undici gives them, and who a request is from. */
import type { HttpAttempt, HttpAuthorizer } from './httpAuthorizer.js';

/** Names in lower case. A header that came more than once is an array. */
export type AnswerHeaders = Record<string, string | string[] | undefined>;

/** Of what came more than once the first; for headers that only a broken server repeats. */
export function firstValue(value: string | string[] | undefined): string | undefined {
  return typeof value === 'object' ? value[0] : value;
}

/** A list, as RFC 9110 (5.3) joins it. */
export function joinedValue(value: string | string[] | undefined): string | undefined {
  return typeof value === 'object' ? value.join(', ') : value;
}

export const USER_AGENT = 'peerage';
/** Gathering an event stream for better compression would hold its messages back. */
export const ACCEPT_ENCODING = 'identity';

/** Sent with every request, before the configured headers. */
export const OWN_HEADERS: Readonly<Record<string, string>> = {
  'user-agent': USER_AGENT,
  'accept-encoding': ACCEPT_ENCODING,
};

/** `DPoP-Nonce` may come with any answer (RFC 9449, 8.2). */
export function hearNonce(
  authorizer: HttpAuthorizer | null,
  attempt: HttpAttempt,
  headers: AnswerHeaders,
): void {
  const nonce = headers['dpop-nonce'];
  if (typeof nonce !== 'string') return;
  try {
    authorizer?.heardNonce(attempt, nonce);
  } catch {
    // The answer is no worse for it.
  }
}
