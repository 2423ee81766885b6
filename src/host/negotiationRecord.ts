/** What one negotiation said and heard, for people: the record, and the record in words. */
import type { InitializeVerdict, ProbeVerdict } from '../protocol/evidence.js';
import type { Outcome } from '../protocol/exchange.js';
import { sanitizeText, tellingLine } from '../protocol/sanitize.js';
import type { PeerReport, RecordEntry } from './facade.js';

/** Entries kept; a negotiation has at most one per known revision and one more, then `initialize`. */
const MAX_ENTRIES = 50;

export class NegotiationRecord {
  private list: RecordEntry[] = [];

  get entries(): readonly RecordEntry[] {
    return this.list;
  }

  begin(): void {
    this.list = [];
  }

  add(entry: RecordEntry): void {
    if (this.list.length < MAX_ENTRIES) this.list.push(entry);
  }
}

export function recordEntry(
  atMs: number,
  sent: { readonly method: string; readonly id: number | null; readonly revision: string },
  outcome: Outcome,
  verdict: ProbeVerdict | InitializeVerdict,
  redact: (text: string) => string,
): RecordEntry {
  return {
    atMs: Math.round(atMs),
    sent: sent.method,
    id: sent.id,
    revision: sent.revision,
    outcome: outcome.kind,
    detail: redact(describeOutcome(outcome)),
    verdict: verdict.type,
    rule: verdict.rule,
  };
}

/** What came back, in short: never a payload. */
export function describeOutcome(outcome: Outcome): string {
  return sanitizeText(words(outcome), 500);
}

function words(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'result':
      return 'a result';
    case 'error': {
      const whose = outcome.correlated ? '' : ', without the id of the request';
      const http = outcome.status === undefined ? '' : `HTTP ${outcome.status}, `;
      return `${http}error ${outcome.error.code}${whose}: ${outcome.error.message}`;
    }
    case 'malformed':
      return outcome.detail;
    case 'timeout':
      return `silence for ${Math.round(outcome.timeoutMs)} ms`;
    case 'closed': {
      const { detail, stderr } = outcome.cause;
      return stderr === undefined || stderr === '' ? detail : `${detail}; stderr: ${tellingLine(stderr)}`;
    }
    case 'cancelled':
      return outcome.detail;
    case 'unauthorized':
      return `HTTP ${outcome.status}`;
    case 'unreachable':
      return outcome.cause.detail;
    case 'session-lost':
      return 'HTTP 404 with a session';
    case 'withheld':
      return 'not sent: not permitted';
  }
}

/** The negotiation record in words: one line a step, then what it came to and what to do. */
export function explain(report: PeerReport): string {
  const lines = report.record.map((entry) => {
    const asked = entry.revision === null ? '' : ` (${entry.revision})`;
    return `${entry.atMs} ms: sent ${entry.sent}${asked}; got ${entry.detail}; ${entry.verdict} by rule ${entry.rule}`;
  });
  const head = `${report.name} is ${report.state}`;
  if (report.state === 'modern' || report.state === 'legacy') {
    lines.push(`${head}: it speaks revision ${report.revision ?? 'unknown'}.`);
    if (report.listing !== null) lines.push(`Its tools could not be listed: ${report.listing}.`);
  } else if (report.reason === null) {
    lines.push(`${head}.`);
  } else {
    lines.push(`${head}: ${report.reason.message}`, `What to do: ${report.reason.fix}`);
  }
  return lines.join('\n');
}
