/** Why a peer that was callable is not any more. */
import type { CloseCause } from '../protocol/exchange.js';
import type { UnavailableReason } from '../protocol/reasons.js';
import { tellingLine } from '../protocol/sanitize.js';

const COMES_BACK = 'Nothing, if it comes back by itself; else look at the server.';

/** -32022 in answer to a call (N14). */
export function revisionRefused(peer: string): UnavailableReason {
  return {
    code: 'no-mutual-version',
    message: `${peer} refused the revision of a call that it had agreed to.`,
    fix: COMES_BACK,
  };
}

/** HTTP 404 with a session held (2025-11-25, basic/transports: session management). */
export function sessionGone(peer: string): UnavailableReason {
  return {
    code: 'connection-lost',
    message: `${peer} does not know the session any more (HTTP 404).`,
    fix: COMES_BACK,
  };
}

/** @param redact takes secrets out, before anything is cut: half a secret is not known any more */
export function lost(peer: string, cause: CloseCause, redact: (text: string) => string): UnavailableReason {
  const said =
    cause.stderr === undefined || cause.stderr === ''
      ? ''
      : ` It last wrote: ${tellingLine(redact(cause.stderr))}`;
  return {
    code: 'connection-lost',
    message: redact(`The connection to ${peer} ended: ${cause.detail}.${said}`).slice(0, 500),
    fix: 'Look at the log of the server; retry starts it again.',
  };
}

export function crashed(error: unknown): UnavailableReason {
  return {
    code: 'internal',
    message: `A fault of this host: ${error instanceof Error ? error.message.slice(0, 300) : 'unknown'}`,
    fix: 'This is a bug in peerage or in an injected part: please report it.',
  };
}
