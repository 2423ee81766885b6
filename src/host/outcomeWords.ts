/** What a request of the host itself came to, in a few words for its reasons and its status. */
import { isMissingEndpoint, nothingThere } from '../calls/interpret.js';
import type { Outcome } from '../protocol/exchange.js';
import { sanitizeText } from '../protocol/sanitize.js';

/** @param redact takes secrets out, before anything is cut: half a secret is not known any more */
export function describeOutcome(outcome: Outcome, redact: (text: string) => string): string {
  const cut = (text: string): string => sanitizeText(redact(text), 200);
  switch (outcome.kind) {
    case 'result':
      return 'a result';
    case 'error':
      return `error ${outcome.error.code} (${cut(outcome.error.message)})`;
    case 'malformed':
      if (isMissingEndpoint(outcome)) return nothingThere(outcome);
      return cut(outcome.detail);
    case 'closed':
      return `the connection ended (${cut(outcome.cause.detail)})`;
    case 'unreachable':
      return cut(outcome.cause.detail);
    case 'unauthorized':
      return `HTTP ${outcome.status}`;
    case 'timeout':
      return `no answer within ${Math.round(outcome.timeoutMs)} ms`;
    case 'session-lost':
      return 'the session is gone (HTTP 404)';
    case 'cancelled':
    case 'withheld':
      return 'it was broken off';
  }
}
