/** What one text or end means for a probe, by the oracle's own reading of the rules N2 to N8, N13 and N20. */
import {
  type Answer,
  discoveredVersions,
  isLaterThanLegacy,
  isModernCode,
  isRecord,
  type Json,
} from './wireReading.js';

export interface OracleConfig {
  /** Oldest first. */
  readonly modernRevisions: readonly string[];
  /** Oldest first. */
  readonly legacyRevisions: readonly string[];
  readonly clientInfo: { readonly name: string; readonly version: string; readonly title?: string };
  readonly probeTimeoutMs: number;
  readonly legacyProbeTimeoutMs: number;
  readonly stableAfterMs: number;
  /**
   * By how much a deadline may be off, in milliseconds. Default 0, which is for a simulated clock; in real time a busy
   * machine is off by hundreds.
   */
  readonly toleranceMs?: number;
}

export type Judgement =
  | { readonly kind: 'modern'; readonly revision: string }
  /** N3: probe again with this revision. */
  | { readonly kind: 'again'; readonly revision: string }
  /** N4: send it again, corrected. */
  | { readonly kind: 'correct' }
  /** Modern and of no use: nothing more may be sent. `rule` is the one that says so. */
  | { readonly kind: 'refused'; readonly rule: 'N3' | 'N4' | 'N13' | 'N21' }
  /** `why`: a result that is no DiscoverResult, an answer with another id, or anything else. */
  | { readonly kind: 'ambiguous'; readonly why: 'N19' | 'N20' | 'N5' }
  | { readonly kind: 'legacy-only' }
  | { readonly kind: 'no-signal'; readonly rule: 'N6' | 'N8' }
  | { readonly kind: 'unauthorized' }
  /** This side ended it. */
  | { readonly kind: 'broken-off' };

/** What must be known of a probe to judge its answer. */
export interface Asked {
  readonly revision: string;
  /** Refused earlier in this negotiation, in order. */
  readonly refused: readonly string[];
  /** N4 was used up in this negotiation, or there is nothing to correct. */
  readonly isCorrectable: boolean;
  readonly redirected: boolean;
}

/** An answer with the very id. */
export function judgeAnswer(answer: Answer, asked: Asked, config: OracleConfig): Judgement {
  switch (answer.kind) {
    case 'result':
      return throughRedirect(judgeResult(answer.result, config), asked);
    case 'error':
      return throughRedirect(judgeError(answer.code, answer.data, asked, config), asked);
    case 'broken':
      return answer.modernCode ? { kind: 'refused', rule: 'N21' } : throughRedirect(AMBIGUOUS, asked);
    case 'unclear':
      return throughRedirect(AMBIGUOUS, asked);
  }
}

const AMBIGUOUS: Judgement = { kind: 'ambiguous', why: 'N5' };

function judgeResult(result: Json, config: OracleConfig): Judgement {
  const versions = discoveredVersions(result);
  if (versions === null) return { kind: 'ambiguous', why: 'N19' };
  const mutual = config.modernRevisions.filter((revision) => versions.includes(revision)).at(-1);
  if (mutual !== undefined) return { kind: 'modern', revision: mutual };
  if (versions.some(isLaterThanLegacy)) return { kind: 'refused', rule: 'N3' };
  if (!versions.every((version) => /^\d{4}-\d{2}-\d{2}$/.test(version))) return AMBIGUOUS;
  const isConfigured = config.legacyRevisions.some((revision) => versions.includes(revision));
  return isConfigured ? { kind: 'legacy-only' } : { kind: 'refused', rule: 'N13' };
}

function judgeError(code: number, data: Json | undefined, asked: Asked, config: OracleConfig): Judgement {
  if (!isModernCode(code)) return AMBIGUOUS;
  if (code === -32021) return { kind: 'refused', rule: 'N4' }; // nothing is declared, so nothing can be added
  if (code === -32020) return asked.isCorrectable ? { kind: 'correct' } : { kind: 'refused', rule: 'N4' };
  const next = nextRevision(isRecord(data) ? data['supported'] : undefined, asked, config);
  return next === null ? { kind: 'refused', rule: 'N3' } : { kind: 'again', revision: next };
}

/** N3: the highest mutual one not refused yet; the only mutual one a second time, if it is the one just refused. */
function nextRevision(supported: Json | undefined, asked: Asked, config: OracleConfig): string | null {
  const theirs = Array.isArray(supported) ? supported : [];
  const mutual = config.modernRevisions.filter((revision) => theirs.includes(revision));
  const untried = mutual.filter(
    (revision) => revision !== asked.revision && !asked.refused.includes(revision),
  );
  if (untried.length > 0) return untried.at(-1) as string;
  const isOnlyOne = mutual.length === 1 && mutual[0] === asked.revision;
  return isOnlyOne && !asked.refused.includes(asked.revision) ? asked.revision : null;
}

/** An answer in the stream of a lone POST that has not its id (N20): it settles, and proves nothing. */
export function judgeStray(value: Json | undefined, asked: Asked): Judgement {
  const error = isRecord(value) ? value['error'] : undefined;
  const code = isRecord(error) ? error['code'] : undefined;
  if (isModernCode(code)) return { kind: 'refused', rule: 'N21' };
  return throughRedirect({ kind: 'ambiguous', why: 'N20' }, asked);
}

/** The end of an answer stream that brought no answer. */
export function judgeEnd(end: string, redirected: boolean, byThisSide: boolean): Judgement {
  if (end === 'unauthorized') return { kind: 'unauthorized' };
  if (end === 'unreachable') return { kind: 'no-signal', rule: 'N6' };
  if (byThisSide) return { kind: 'broken-off' };
  return redirected ? { kind: 'no-signal', rule: 'N8' } : AMBIGUOUS;
}

/** N8: what proves nothing proves less through a redirect. */
function throughRedirect(judgement: Judgement, asked: Asked): Judgement {
  const leadsToLegacy = judgement.kind === 'ambiguous' || judgement.kind === 'legacy-only';
  return asked.redirected && leadsToLegacy ? { kind: 'no-signal', rule: 'N8' } : judgement;
}
