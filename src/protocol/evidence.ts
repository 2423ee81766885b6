/**
 * What an outcome proves about a peer's era. Total functions: every outcome of a probe and of an `initialize` has a
 * verdict, and the default is never "assume the old thing". The rules N1 to N21 are in docs/rules.md; `rule` on each
 * verdict names the one that judged.
 */
import { HEADER_MISMATCH, isRecognizedModernCode, UNSUPPORTED_PROTOCOL_VERSION } from './codes.js';
import type { CloseCause, ClosedOutcome, ErrorOutcome, Outcome } from './exchange.js';
import { isJsonObject, type JsonObject } from './jsonRpc.js';
import type { UnavailableReason } from './reasons.js';
import {
  type DiscoverResult,
  type InitializeResult,
  parseDiscoverResult,
  parseInitializeResult,
} from './results.js';
import { highestMutual, isLegacyRevision, namesModernRevision, nextProbeRevision } from './revisions.js';
import { sanitizeText, tellingLine } from './sanitize.js';

/** Modern evidence in its loosest form (N21): enough to forbid `initialize`, not enough to act on. */
export interface ModernSign {
  readonly kind: 'code' | 'revision';
  /** `-32022`, or the revision named. */
  readonly value: string;
}

/**
 * Looks for modern evidence in one decoded message, before it is correlated or judged (N21): an integer code -32020,
 * -32021 or -32022 with whatever id, message, data or extra members, or a `supportedVersions` that names a revision
 * later than the last legacy one; also inside a batch array. Total.
 */
export function modernSign(message: unknown): ModernSign | null {
  if (Array.isArray(message)) {
    for (const element of message) {
      const sign = Array.isArray(element) ? null : modernSign(element);
      if (sign !== null) return sign;
    }
    return null;
  }
  if (!isJsonObject(message)) return null;
  const { error, result } = message;
  if (isJsonObject(error) && isRecognizedModernCode(error['code'])) {
    return { kind: 'code', value: String(error['code']) };
  }
  if (isJsonObject(result) && Array.isArray(result['supportedVersions'])) {
    const named: unknown = result['supportedVersions'].find(namesModernRevision);
    if (typeof named === 'string') return { kind: 'revision', value: named.slice(0, 10) };
  }
  return null;
}

/** What is known when a probe is judged. */
export interface ProbeContext {
  readonly modernRevisions: readonly string[];
  readonly legacyRevisions: readonly string[];
  /** The revision this probe asked for. */
  readonly asked: string;
  /** Revisions refused earlier in this negotiation, in order; without `asked`. */
  readonly refused: readonly string[];
  /** Whether the request carried headers that can be derived anew (HTTP). */
  readonly hasHeaders: boolean;
  /** Client capabilities that this very probe declared. */
  readonly declaredCapabilities: JsonObject;
  /** Client capabilities that have a handler now. */
  readonly availableCapabilities: JsonObject;
  /** Modern evidence seen since this negotiation began, if any. */
  readonly sign: ModernSign | null;
  /** The peer's name, for the fix. */
  readonly peer: string;
}

interface VerdictBase {
  /** The rule that judged. */
  readonly rule: string;
}

/** What a probe's outcome means; `type` is the event that the peer's machine gets. */
export type ProbeVerdict = VerdictBase &
  (
    | { readonly type: 'discover.result'; readonly revision: string; readonly result: DiscoverResult }
    | { readonly type: 'discover.unsupportedVersion'; readonly revision: string }
    | { readonly type: 'discover.noMutualVersion'; readonly reason: UnavailableReason }
    | { readonly type: 'discover.correctable'; readonly reason: UnavailableReason }
    | { readonly type: 'discover.uncorrectable'; readonly reason: UnavailableReason }
    | { readonly type: 'discover.ambiguous'; readonly reason: UnavailableReason }
    | { readonly type: 'discover.legacyOnly'; readonly revision: string; readonly reason: UnavailableReason }
    | {
        readonly type: 'discover.noSignal';
        readonly reason: UnavailableReason;
        /** Waiting cannot help. */
        readonly terminal: boolean;
        readonly retryAfterMs: number | null;
      }
    | { readonly type: 'discover.unauthorized'; readonly reason: UnavailableReason }
  );

/** Judges the outcome of `server/discover`. */
export function judgeProbe(outcome: Outcome, context: ProbeContext): ProbeVerdict {
  const answer = judgeProbeAnswer(outcome, context);
  const forbids = answer.type === 'discover.ambiguous' || answer.type === 'discover.legacyOnly';
  if (!forbids || context.sign === null) return answer;
  // N21: what cannot be acted on still forbids.
  return { type: 'discover.uncorrectable', rule: 'N21', reason: unusableModern(context) };
}

function judgeProbeAnswer(outcome: Outcome, context: ProbeContext): ProbeVerdict {
  switch (outcome.kind) {
    case 'result': {
      const parsed = parseDiscoverResult(outcome.result);
      if (!parsed.ok)
        return ambiguous(outcome, `a result that is no DiscoverResult (${parsed.problem})`, context);
      return judgeDiscoverResult(outcome, parsed.value, context);
    }
    case 'error':
      return judgeProbeError(outcome, context);
    case 'malformed':
      return ambiguous(outcome, outcome.detail, context);
    case 'timeout':
      // Nobody was asked: the connection, or the credentials for it, took too long (N6).
      if (!outcome.written) {
        const detail = `The probe could not be sent within ${Math.round(outcome.timeoutMs)} ms.`;
        return noSignal('unreachable', detail, 'Look at what is between host and server.');
      }
      return ambiguous(outcome, `nothing within ${Math.round(outcome.timeoutMs)} ms`, context);
    case 'closed':
      // What this side closed says nothing about the peer.
      if (outcome.cause.kind === 'host')
        return noSignal('unreachable', 'The probe was broken off.', 'Try again.');
      // N1: who was not asked has not shown anything. A process is asked by being started.
      if (!outcome.written && !isOfProcess(outcome.cause)) {
        const detail = `The connection ended before the probe was sent (${outcome.cause.detail}).`;
        return noSignal('unreachable', detail, fixFor('connect-failed'));
      }
      return ended(outcome, context);
    case 'session-lost':
      return ambiguous(outcome, 'HTTP 404', context);
    case 'unauthorized':
      return {
        type: 'discover.unauthorized',
        rule: 'N6',
        reason: unauthorized(outcome.status, 'server/discover'),
      };
    case 'unreachable': {
      const { kind, detail, terminal, retryAfterMs } = outcome.cause;
      return noSignal(kind === 'spawn-failed' ? 'spawn-failed' : 'unreachable', detail, fixFor(kind), {
        terminal,
        retryAfterMs: retryAfterMs ?? null,
      });
    }
    case 'cancelled':
    case 'withheld':
      return noSignal('unreachable', 'the probe was not carried out', 'Try again.');
  }
}

/** N2, N3 (no mutual revision) and N13. */
function judgeDiscoverResult(outcome: Outcome, result: DiscoverResult, context: ProbeContext): ProbeVerdict {
  const { supportedVersions } = result;
  const revision = highestMutual(context.modernRevisions, supportedVersions);
  if (revision !== null) return { type: 'discover.result', rule: 'N2', revision, result };
  if (supportedVersions.some(namesModernRevision)) {
    return {
      type: 'discover.noMutualVersion',
      rule: 'N3',
      reason: noMutualVersion(supportedVersions, context),
    };
  }
  if (!supportedVersions.every(isLegacyRevision)) {
    return ambiguous(outcome, 'a DiscoverResult that names no known revision', context);
  }
  const legacy = highestMutual(context.legacyRevisions, supportedVersions);
  if (legacy === null) {
    return {
      type: 'discover.noMutualVersion',
      rule: 'N13',
      reason: {
        code: 'no-mutual-legacy-version',
        message: `${context.peer} names legacy revisions only (${listed(supportedVersions)}), none of them configured.`,
        fix: 'Add one of these to legacyRevisions, or update the server.',
      },
    };
  }
  if (outcome.redirected === true) return throughRedirect();
  return {
    type: 'discover.legacyOnly',
    rule: 'N13',
    revision: legacy,
    reason: notAllowlisted(context.peer, `names legacy revisions only (${listed(supportedVersions)})`),
  };
}

/** N3, N4, N5. A recognized code is acted on only if the answer is correlated (N21). */
function judgeProbeError(outcome: ErrorOutcome, context: ProbeContext): ProbeVerdict {
  const { error, correlated } = outcome;
  if (!isRecognizedModernCode(error.code)) {
    const whose = correlated ? '' : ' without the id of the request';
    return ambiguous(outcome, `error ${error.code}${whose} (${sanitizeText(error.message, 120)})`, context);
  }
  if (!correlated) return { type: 'discover.uncorrectable', rule: 'N21', reason: unusableModern(context) };
  if (error.code === UNSUPPORTED_PROTOCOL_VERSION) return judgeUnsupportedVersion(error.data, context);
  if (error.code === HEADER_MISMATCH) return judgeHeaderMismatch(error.message, context);
  return judgeMissingCapability(error.data, context);
}

function judgeUnsupportedVersion(data: unknown, context: ProbeContext): ProbeVerdict {
  const listedVersions = isJsonObject(data) ? data['supported'] : undefined;
  const supported = Array.isArray(listedVersions)
    ? listedVersions.filter((entry): entry is string => typeof entry === 'string')
    : [];
  const revision = nextProbeRevision(context.modernRevisions, supported, [...context.refused, context.asked]);
  if (revision === null) {
    return { type: 'discover.noMutualVersion', rule: 'N3', reason: noMutualVersion(supported, context) };
  }
  return { type: 'discover.unsupportedVersion', rule: 'N3', revision };
}

function judgeHeaderMismatch(message: string, context: ProbeContext): ProbeVerdict {
  const reason: UnavailableReason = {
    code: 'header-mismatch',
    message: `${context.peer} says that headers and body of the request disagree (${sanitizeText(message, 160)}).`,
    fix: 'Look for a proxy between host and server that changes Mcp-* headers.',
  };
  return { type: context.hasHeaders ? 'discover.correctable' : 'discover.uncorrectable', rule: 'N4', reason };
}

function judgeMissingCapability(data: unknown, context: ProbeContext): ProbeVerdict {
  const required = isJsonObject(data) ? data['requiredCapabilities'] : undefined;
  const names = isJsonObject(required) ? Object.keys(required) : [];
  const correctable =
    names.length > 0 &&
    names.every(
      (name) =>
        Object.hasOwn(context.availableCapabilities, name) &&
        !Object.hasOwn(context.declaredCapabilities, name),
    );
  const asked = names.length > 0 ? listed(names) : 'a capability that it does not name';
  const reason: UnavailableReason = {
    code: 'missing-capability',
    message: `${context.peer} needs a client capability that this host does not have: ${asked}.`,
    fix: `Give the host a handler for ${asked}, or use another server.`,
  };
  return { type: correctable ? 'discover.correctable' : 'discover.uncorrectable', rule: 'N4', reason };
}

/** N5. An answer that came through a redirect cannot lead to a legacy probe (N8). */
function ambiguous(outcome: Outcome, what: string, context: ProbeContext): ProbeVerdict {
  if (outcome.redirected === true) return throughRedirect();
  return {
    type: 'discover.ambiguous',
    rule: 'N5',
    reason: notAllowlisted(context.peer, `answered with ${what}`),
  };
}

/** N5. A close is no answer; with a process it is a wrong path more often than a legacy server. */
function ended(outcome: ClosedOutcome, context: ProbeContext): ProbeVerdict {
  if (outcome.redirected === true) return throughRedirect();
  const { detail, stderr } = outcome.cause;
  const said = stderr === undefined || stderr === '' ? '' : ` It last wrote: ${tellingLine(stderr)}`;
  const reason = notAllowlisted(context.peer, `ended before it answered (${detail})`);
  return {
    type: 'discover.ambiguous',
    rule: 'N5',
    reason: {
      ...reason,
      message: sanitizeText(`${reason.message}${said}`, 500),
      fix: isOfProcess(outcome.cause)
        ? `Check the command and its arguments: relative paths start at its working directory. Only if it is a legacy server, known to end at a request that it does not know: ${reason.fix}`
        : reason.fix,
    },
  };
}

function isOfProcess({ kind }: CloseCause): boolean {
  return kind === 'exit' || kind === 'end-of-output';
}

function throughRedirect(): ProbeVerdict {
  return noSignal(
    'unreachable',
    'The probe was redirected, and what answered there proves nothing about the configured URL.',
    fixFor('redirected'),
    { terminal: true, retryAfterMs: null },
    'N8',
  );
}

function noSignal(
  code: 'unreachable' | 'spawn-failed',
  message: string,
  fix: string,
  more: { terminal: boolean; retryAfterMs: number | null } = { terminal: false, retryAfterMs: null },
  rule = 'N6',
): ProbeVerdict {
  return {
    type: 'discover.noSignal',
    rule,
    reason: { code, message: sanitizeText(message, 500), fix },
    ...more,
  };
}

/** What an `initialize` came to; `type` is the event that the peer's machine gets. */
export type InitializeVerdict = VerdictBase &
  (
    | { readonly type: 'initialize.result'; readonly revision: string; readonly result: InitializeResult }
    | {
        readonly type: 'initialize.rejected';
        readonly reason: UnavailableReason;
        /** No signal: time may cure it. */
        readonly curable?: boolean;
      }
    | { readonly type: 'initialize.unauthorized'; readonly reason: UnavailableReason }
    | { readonly type: 'peer.modernEvidence'; readonly sign: ModernSign }
  );

export interface InitializeContext {
  readonly legacyRevisions: readonly string[];
  readonly peer: string;
  /** Modern evidence seen since this negotiation began, if any (also a late answer to the probe). */
  readonly sign: ModernSign | null;
}

/** Judges the outcome of `initialize`: only positive legacy evidence selects legacy (N10). */
export function judgeInitialize(outcome: Outcome, context: InitializeContext): InitializeVerdict {
  // What was not written has no answer: a new probe in its place could go on without end.
  const isWritten = outcome.kind !== 'withheld';
  if (context.sign !== null && isWritten)
    return { type: 'peer.modernEvidence', rule: 'N12', sign: context.sign };
  switch (outcome.kind) {
    case 'result':
      return judgeInitializeResult(outcome, context);
    case 'error':
      if (isRecognizedModernCode(outcome.error.code)) {
        return {
          type: 'peer.modernEvidence',
          rule: 'N12',
          sign: { kind: 'code', value: String(outcome.error.code) },
        };
      }
      return rejected(`error ${outcome.error.code} (${sanitizeText(outcome.error.message, 200)})`, context);
    case 'unauthorized':
      return {
        type: 'initialize.unauthorized',
        rule: 'N9',
        reason: unauthorized(outcome.status, 'initialize'),
      };
    case 'timeout':
      return {
        type: 'initialize.rejected',
        rule: 'N10',
        reason: {
          code: 'legacy-timeout',
          message: `${context.peer} did not answer initialize within ${Math.round(outcome.timeoutMs)} ms.`,
          fix: 'Look at what the server writes to stderr, or raise legacyProbeTimeoutMs.',
        },
      };
    case 'malformed':
      return rejected(outcome.detail, context);
    case 'closed':
      return rejected(`a closed connection (${outcome.cause.detail})`, context);
    case 'unreachable': {
      const { kind, detail, terminal } = outcome.cause;
      const code = kind === 'spawn-failed' ? 'spawn-failed' : 'unreachable';
      const message = sanitizeText(`initialize did not reach ${context.peer}: ${detail}`, 500);
      const reason = { code, message, fix: fixFor(kind) } as const;
      return { type: 'initialize.rejected', rule: 'N6', reason, curable: !terminal };
    }
    case 'session-lost':
      return rejected('HTTP 404', context);
    case 'cancelled':
      return rejected(outcome.detail, context);
    case 'withheld':
      return {
        type: 'initialize.rejected',
        rule: 'N7',
        reason: {
          code: 'legacy-not-permitted',
          message: `initialize was not permitted for ${context.peer}, and not sent.`,
          fix: 'See the negotiation record for what the last probe proved.',
        },
      };
  }
}

function judgeInitializeResult(
  outcome: Outcome & { kind: 'result' },
  context: InitializeContext,
): InitializeVerdict {
  const parsed = parseInitializeResult(outcome.result);
  if (!parsed.ok) return rejected(`a result that is no InitializeResult (${parsed.problem})`, context);
  const { protocolVersion } = parsed.value;
  if (namesModernRevision(protocolVersion)) {
    return rejected(`the modern revision ${sanitizeText(protocolVersion, 40)}`, context);
  }
  if (!context.legacyRevisions.includes(protocolVersion)) {
    return rejected(`revision ${sanitizeText(protocolVersion, 40)}, which is not configured`, context);
  }
  return { type: 'initialize.result', rule: 'N10', revision: protocolVersion, result: parsed.value };
}

function rejected(what: string, context: InitializeContext): InitializeVerdict {
  return {
    type: 'initialize.rejected',
    rule: 'N10',
    reason: {
      code: 'legacy-rejected',
      message: sanitizeText(`${context.peer} answered initialize with ${what}.`, 500),
      fix: 'Check that the command or URL is an MCP server, and look at its own log.',
    },
  };
}

function notAllowlisted(peer: string, what: string): UnavailableReason {
  return {
    code: 'not-allowlisted',
    message: sanitizeText(
      `${peer} ${what}: that does not prove an era, and the peer is not allowlisted.`,
      500,
    ),
    fix: `If you trust this server and know that it is a legacy one, add "allowLegacy": true to the peer "${peer}".`,
  };
}

function unusableModern(context: ProbeContext): UnavailableReason {
  const seen = context.sign === null ? 'a modern error' : context.sign.value;
  return {
    code: 'modern-evidence',
    message: `${context.peer} showed that it is modern (${seen}), but gave no answer that can be acted on.`,
    fix: 'Look at the server: its answer lacks the id of the request or is malformed.',
  };
}

function noMutualVersion(theirs: readonly string[], context: ProbeContext): UnavailableReason {
  const named = theirs.length > 0 ? listed(theirs) : 'none that can be read';
  return {
    code: 'no-mutual-version',
    message: `${context.peer} supports ${named}; this host speaks ${listed(context.modernRevisions)}.`,
    fix: 'Update whichever side is older.',
  };
}

function unauthorized(status: 401 | 403, method: string): UnavailableReason {
  return {
    code: 'unauthorized',
    message: `HTTP ${status} in answer to ${method}.`,
    fix: 'Configure credentials for this peer (auth, or headers) that the server takes, then retry.',
  };
}

function fixFor(kind: string): string {
  switch (kind) {
    case 'spawn-failed':
      return 'Check the command, its path and the working directory.';
    case 'redirected':
      return 'Configure the new URL for this peer, if you trust it.';
    case 'html':
      return 'Check the URL: a web page answered, perhaps a sign-in page or a captive portal.';
    case 'no-event-stream':
      return 'Check the URL. If the server speaks Streamable HTTP, remove transport: "legacy-sse" from this peer.';
    case 'http-status':
      return 'Wait, or look at the server: it is overloaded, failing or behind a failing proxy.';
    default:
      return 'Check that the server is running and that host, port and network are right; also the proxy, where one is configured.';
  }
}

function listed(items: readonly string[]): string {
  const shown = items.slice(0, 6).map((item) => sanitizeText(item, 40));
  return items.length > 6 ? `${shown.join(', ')} and ${items.length - 6} more` : shown.join(', ');
}
