/** How a message over HTTP ended, where the answer itself does not tell. Details are fit to be shown. */
import { closeCauseOf, describeError, isRefusedRequest, isTlsError } from './httpErrors.js';
import type { HttpTarget } from './httpTarget.js';
import type { StreamEnd } from './transport.js';

const MAX_DETAIL_LENGTH = 300;

type Show = HttpTarget['show'];

/** The connection broke after the write. */
export function brokenEnd(error: Error, answered: boolean, redirected: boolean, show: Show): StreamEnd {
  // TLS 1.3: that this side has no certificate is told only after the handshake, when the message is on its way.
  if (!answered && isTlsError(error)) return unreachableEnd(error, redirected, show);
  const cause = closeCauseOf(error, answered);
  return { kind: 'broken', redirected, cause: { ...cause, detail: show(cause.detail, MAX_DETAIL_LENGTH) } };
}

/** The socket was never given the message. */
export function unwrittenEnd(error: Error, redirected: boolean, show: Show): StreamEnd {
  if (!isRefusedRequest(error)) return unreachableEnd(error, redirected, show);
  const detail = show(describeError(error), MAX_DETAIL_LENGTH);
  return { kind: 'broken', redirected, cause: { kind: 'host', detail } };
}

function unreachableEnd(error: Error, redirected: boolean, show: Show): StreamEnd {
  const detail = show(describeError(error), MAX_DETAIL_LENGTH);
  return { kind: 'unreachable', redirected, cause: { kind: 'connect-failed', detail, terminal: false } };
}

/** A redirect that is not followed. */
export function redirectEnd(detail: string, redirected: boolean, show: Show): StreamEnd {
  const cause = { kind: 'redirected', detail: show(detail, MAX_DETAIL_LENGTH), terminal: false } as const;
  return { kind: 'unreachable', redirected, cause };
}

/** The body cannot be decoded. */
export function spoiltEnd(status: number, detail: string, redirected: boolean, show: Show): StreamEnd {
  return { kind: 'malformed', status, redirected, detail: show(detail, MAX_DETAIL_LENGTH) };
}
