/**
 * What an outcome of the wire means for the call: status, delivery, and one sentence to act on. Pure and total.
 *
 * Delivery is what a retry looks at, so it errs on one side only. `not-sent` is said where no write was begun, never
 * elsewhere; `unknown` wherever something was written and the MCP server itself did not answer. A proxy's 502 or 429, a
 * redirect or an HTML page is not the server's answer, and what lies behind may have been executed all the same.
 */
import {
  HEADER_MISMATCH,
  INVALID_PARAMS,
  METHOD_NOT_FOUND,
  MISSING_REQUIRED_CLIENT_CAPABILITY,
  UNSUPPORTED_PROTOCOL_VERSION,
} from '../protocol/codes.js';
import type {
  CancelledOutcome,
  ClosedOutcome,
  ErrorOutcome,
  MalformedOutcome,
  Outcome,
  ResultOutcome,
  TimeoutOutcome,
  UnauthorizedOutcome,
  UnreachableCause,
  UnreachableOutcome,
} from '../protocol/exchange.js';
import type { JsonValue } from '../protocol/jsonRpc.js';
import { sanitizeText } from '../protocol/sanitize.js';
import { adviceForMissing } from './missingCapability.js';
import type { Delivery, FailedOutcome } from './outcome.js';

/** Every outcome but a result, which `normalize.ts` reads. */
export type NoResultOutcome = Exclude<Outcome, ResultOutcome>;

/** A tool may have had effects; any other request of a caller only reads. */
export type Interpreted = 'tool' | 'reading';

export interface Interpretation {
  readonly status: FailedOutcome['status'];
  readonly delivery: Delivery;
  /** One sanitized sentence, at most about 700 characters. */
  readonly message: string;
  /** The JSON-RPC error: its message sanitized, at most 2,000 characters; its data as it came. */
  readonly error?: NonNullable<FailedOutcome['error']>;
}

const LONGEST_DETAIL = 300;
const LONGEST_ERROR_MESSAGE = 2_000;

/**
 * Interprets what came of a request that got no result. `withheld` reads as `unavailable`; a caller that knows why its
 * own check said no (the route changed: `stale-route`) decides before asking here.
 */
export function interpretOutcome(outcome: NoResultOutcome, what: Interpreted = 'tool'): Interpretation {
  const read = interpretation(outcome);
  if (what === 'tool') return read;
  const message = read.message.replace(MAY_HAVE_RUN, MAY_HAVE_ARRIVED).replace(CHECK_TOOL, CHECK_REQUEST);
  return { ...read, message };
}

function interpretation(outcome: NoResultOutcome): Interpretation {
  switch (outcome.kind) {
    case 'error':
      return interpretError(outcome);
    case 'malformed':
      return interpretMalformed(outcome);
    case 'timeout':
      return interpretTimeout(outcome);
    case 'closed':
      return interpretClosed(outcome);
    case 'cancelled':
      return interpretCancelled(outcome);
    case 'unauthorized':
      return interpretUnauthorized(outcome);
    case 'unreachable':
      return interpretUnreachable(outcome);
    case 'session-lost':
      return {
        status: 'unavailable',
        // 404 is also what a gateway says that lost the server behind it, whatever that has done before.
        delivery: 'unknown',
        message: `The session of this call is not known any more (HTTP 404); ${MAY_HAVE_RUN}.`,
      };
    case 'withheld':
      return {
        status: 'unavailable',
        delivery: 'not-sent',
        message: 'The peer stopped being callable before the request was written; nothing was sent.',
      };
  }
}

/** A deadline is told as the caller knows it: progress moves it, and the last of several requests has less of it. */
export function lasting(outcome: NoResultOutcome, durationMs: number): NoResultOutcome {
  return outcome.kind === 'timeout' ? { ...outcome, timeoutMs: durationMs } : outcome;
}

function interpretError(outcome: ErrorOutcome): Interpretation {
  const { code, message, data } = outcome.error;
  const error = { code, message: sanitizeText(message, LONGEST_ERROR_MESSAGE) };
  const said = message.trim() === '' ? 'without a message' : `"${sanitizeText(message, LONGEST_DETAIL)}"`;
  const uncorrelated = outcome.correlated ? '' : ', without the id of the request';
  return {
    status: 'protocol-error',
    delivery: 'answered',
    message: `The server answered with error ${code}${uncorrelated}: ${said}${adviceFor(code, data)}.`,
    error: data === undefined ? error : { ...error, data },
  };
}

function adviceFor(code: number, data: JsonValue | undefined): string {
  switch (code) {
    case INVALID_PARAMS:
      return CHECK_TOOL;
    case METHOD_NOT_FOUND:
      return '; the server does not offer this method';
    case HEADER_MISMATCH:
      return '; it says that the headers of the request do not match its body, as after a change on the way or of the tool';
    case MISSING_REQUIRED_CLIENT_CAPABILITY:
      return adviceForMissing(data);
    case UNSUPPORTED_PROTOCOL_VERSION:
      return '; the server changed its protocol revisions, the peer must renegotiate';
    default:
      return '';
  }
}

function interpretMalformed(outcome: MalformedOutcome): Interpretation {
  if (isMissingEndpoint(outcome)) {
    return {
      status: 'unavailable',
      // It is not the server that says so, but whoever routes to it; what was behind may have run all the same.
      delivery: 'unknown',
      message: `${nothingThere(outcome)}; ${MAY_HAVE_RUN}.`,
    };
  }
  const status = outcome.status === undefined ? '' : ` (HTTP ${outcome.status})`;
  return {
    status: 'protocol-error',
    delivery: 'answered',
    message: `The server's answer${status} is no valid answer to this request: ${detailOf(outcome.detail)}.`,
  };
}

/**
 * Whether there is no MCP endpoint at this place (any more): an HTTP status that says so, without a JSON-RPC answer. An
 * unknown method is 404 as well, with -32601 in its body (2026-07-28, basic/transports).
 */
export function isMissingEndpoint(outcome: Outcome): boolean {
  return outcome.kind === 'malformed' && MISSING_STATUSES.has(outcome.status ?? 0);
}

const MISSING_STATUSES: ReadonlySet<number> = new Set([404, 405, 410]);

/** A missing endpoint in words, without a full stop. */
export function nothingThere({ status }: Outcome): string {
  return `Nothing answers MCP at this URL (HTTP ${status}): check the URL`;
}

function interpretTimeout(outcome: TimeoutOutcome): Interpretation {
  return outcome.written
    ? {
        status: 'timeout',
        delivery: 'unknown',
        message: `No answer within ${Math.round(outcome.timeoutMs)} ms; ${MAY_HAVE_RUN}.`,
      }
    : {
        status: 'timeout',
        delivery: 'not-sent',
        message: `The request could not be written within ${Math.round(outcome.timeoutMs)} ms; nothing was sent.`,
      };
}

function interpretClosed(outcome: ClosedOutcome): Interpretation {
  const { detail } = outcome.cause;
  return outcome.written
    ? {
        status: 'lost',
        delivery: 'unknown',
        message: `The connection ended before the answer (${detailOf(detail)}); ${MAY_HAVE_RUN}.`,
      }
    : {
        status: 'unavailable',
        delivery: 'not-sent',
        message: `The connection ended before the request was written (${detailOf(detail)}); call again later.`,
      };
}

function interpretCancelled(outcome: CancelledOutcome): Interpretation {
  return {
    status: 'cancelled',
    delivery: outcome.written ? 'unknown' : 'not-sent',
    message: `The call was cancelled (${detailOf(outcome.detail)}); ${outcome.written ? MAY_HAVE_RUN : 'nothing was sent'}.`,
  };
}

function interpretUnauthorized(outcome: UnauthorizedOutcome): Interpretation {
  return {
    status: 'unavailable',
    delivery: 'answered',
    message:
      outcome.status === 401
        ? `The server wants authorization (HTTP 401); ${SEE_REPORT}.`
        : `The server forbids this request with the present authorization (HTTP 403); ${SEE_REPORT}.`,
  };
}

function interpretUnreachable(outcome: UnreachableOutcome): Interpretation {
  const { cause } = outcome;
  const wait =
    cause.retryAfterMs === undefined || !(cause.retryAfterMs > 0)
      ? ''
      : `, not before ${Math.ceil(cause.retryAfterMs / 1000)} s from now`;
  const next = cause.terminal ? 'correct the configuration of the peer' : `call again later${wait}`;
  const what = `${reached(cause)} (${detailOf(cause.detail)})`;
  if (!outcome.written) {
    return { status: 'unavailable', delivery: 'not-sent', message: `${what}; nothing was sent, ${next}.` };
  }
  return {
    status: isLoss(cause) ? 'lost' : 'unavailable',
    delivery: 'unknown',
    message: `${what}; ${MAY_HAVE_RUN}.`,
  };
}

/** Whether it was the way back that failed: a gateway's 500, 502, 504, or a connection that broke. */
function isLoss(cause: UnreachableCause): boolean {
  if (cause.kind === 'http-status') return (cause.status ?? 0) >= 500 && cause.status !== 503;
  return cause.kind === 'connect-failed' || cause.kind === 'spawn-failed';
}

function reached(cause: UnreachableCause): string {
  switch (cause.kind) {
    case 'spawn-failed':
      return 'The process of the server could not be started';
    case 'connect-failed':
      return 'The server could not be reached';
    case 'http-status':
      return `The endpoint answered with HTTP ${cause.status ?? 'status unknown'}`;
    case 'redirected':
      return 'The endpoint redirects to a place that is not followed';
    case 'html':
      return 'The endpoint answered with a web page';
    case 'no-event-stream':
      return 'The endpoint did not open an event stream that can be used';
  }
}

/** The report names the page where access is granted; that is for a person, not for a model. */
const SEE_REPORT = "a person must grant access, or correct the configured credentials: see the peer's report";
const MAY_HAVE_RUN = 'the tool may have been executed, so look before calling it again';
const CHECK_TOOL = '; check the name of the tool and its arguments';
const CHECK_REQUEST = '; check what was asked for';
const MAY_HAVE_ARRIVED = 'the server may have answered it, and asking again does no harm';

/** A detail without its own full stop, so that it fits into a sentence. */
function detailOf(detail: string): string {
  const text = sanitizeText(detail.trim(), LONGEST_DETAIL).replace(/\.$/, '');
  return text === '' ? 'no detail' : text;
}
