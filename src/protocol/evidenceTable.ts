/**
 * The table of outcome → evidence: what a person reads instead of the code, computed by the code. The tests print it
 * and the documentation shows it.
 */
import { judgeInitialize, judgeProbe, type ModernSign } from './evidence.js';
import type { Outcome } from './exchange.js';
import type { JsonValue } from './jsonRpc.js';

export interface EvidenceRow {
  /** What was sent. */
  readonly sent: 'server/discover' | 'initialize';
  /** What came back, in words. */
  readonly outcome: string;
  /** The event that the chart gets. */
  readonly verdict: string;
  readonly rule: string;
  /** Whether an allowlisted peer without modern evidence may now get its one `initialize`. */
  readonly legacyProbe: boolean;
  /** The reason code, where the peer would be unavailable. */
  readonly reason: string | null;
}

const MODERN = '2026-07-28';
const LEGACY = '2025-11-25';

const answered = { written: true } as const;
const result = (value: JsonValue): Outcome => ({ kind: 'result', ...answered, result: value });
const discovered = (...supportedVersions: string[]): Outcome =>
  result({ supportedVersions, capabilities: {}, resultType: 'complete' });
const error = (code: number, data?: JsonValue, correlated = true): Outcome => ({
  kind: 'error',
  ...answered,
  correlated,
  error: data === undefined ? { code, message: 'message' } : { code, message: 'message', data },
});
const malformed = (detail: string): Outcome => ({ kind: 'malformed', ...answered, detail });
const closed = (kind: 'exit' | 'reset' | 'stream-ended', detail: string): Outcome => ({
  kind: 'closed',
  ...answered,
  cause: { kind, detail },
});
const unreachable = (
  kind: 'spawn-failed' | 'connect-failed' | 'http-status' | 'redirected' | 'html',
  detail: string,
  written: boolean,
): Outcome => ({ kind: 'unreachable', written, cause: { kind, detail, terminal: kind === 'spawn-failed' } });
const silence: Outcome = { kind: 'timeout', ...answered, timeoutMs: 15_000 };
const refusedBy = (status: 401 | 403): Outcome => ({
  kind: 'unauthorized',
  ...answered,
  status,
  challenge: null,
});

/** An outcome in words, the outcome, and modern evidence that was heard besides. */
type Sample = readonly [words: string, outcome: Outcome, sign?: ModernSign];

const heard: ModernSign = { kind: 'code', value: '-32022' };

const probeSamples: readonly Sample[] = [
  ['`DiscoverResult` with a mutual revision', discovered(MODERN, LEGACY)],
  ['`DiscoverResult` with modern revisions that are unknown here only', discovered('2031-01-01')],
  ['`DiscoverResult` with legacy revisions only, one of them configured', discovered(LEGACY)],
  ['`DiscoverResult` with legacy revisions only, none configured', discovered('2024-10-07')],
  [
    '`DiscoverResult` with legacy revisions only, after a redirect',
    { ...discovered(LEGACY), redirected: true },
  ],
  ['`DiscoverResult` with an empty `supportedVersions`', discovered()],
  ['`DiscoverResult` with names that are no revisions', discovered('latest')],
  ['a result that is something else', result({ tools: [] })],
  ['an empty result', result({})],
  ['-32022 with a mutual revision', error(-32022, { supported: [MODERN], requested: MODERN })],
  ['-32022 without a mutual revision', error(-32022, { supported: ['2031-01-01'] })],
  ['-32022 without a usable `data.supported`', error(-32022)],
  ['-32022 with a null or foreign id (HTTP)', error(-32022, { supported: [MODERN] }, false)],
  ['-32020', error(-32020)],
  ['-32021 for a capability that this host lacks', error(-32021, { requiredCapabilities: { sampling: {} } })],
  ['-32601, method not found', error(-32601)],
  ['-32600, -32602, -32000 … or any other code', error(-32000)],
  ['an error with a null or foreign id (HTTP)', error(-32600, undefined, false)],
  ['an error after a redirect', { ...error(-32601), redirected: true }],
  ['a body that claims JSON and is none', malformed('a body that is no JSON')],
  ['an HTTP 400, 404, 405, 406 … without a JSON-RPC body', malformed('HTTP 404 (not found)')],
  ['a JSON-RPC batch array', malformed('a JSON-RPC batch array')],
  ['silence until the deadline', silence],
  ['silence, and -32022 under another id', silence, heard],
  ['the process exits', closed('exit', 'the process exited with code 1')],
  ['the connection is reset', closed('reset', 'the connection was reset')],
  ['the stream ends without an answer', closed('stream-ended', 'ended without an answer')],
  ['HTTP 401', refusedBy(401)],
  ['HTTP 403', refusedBy(403)],
  ['HTTP 5xx, 407, 408, 421, 425, 429', unreachable('http-status', 'HTTP 503', true)],
  ['a redirect to another origin', unreachable('redirected', 'HTTP 302', true)],
  ['an HTML page with status 2xx', unreachable('html', 'a web page', true)],
  ['connection refused, DNS, TLS', unreachable('connect-failed', 'connection refused', false)],
  ['the process could not be started', unreachable('spawn-failed', 'command not found', false)],
];

const initialized = (protocolVersion: string, serverInfo: JsonValue): Outcome =>
  result({ protocolVersion, capabilities: {}, serverInfo });
const server = { name: 'server', version: '1.0.0' };

const initializeSamples: readonly Sample[] = [
  ['`InitializeResult` with a configured legacy revision', initialized(LEGACY, server)],
  ['`InitializeResult` with another revision', initialized('2024-10-07', server)],
  ['`InitializeResult` with a modern revision', initialized(MODERN, server)],
  ['`InitializeResult` without `serverInfo`', initialized(LEGACY, null)],
  [
    '`InitializeResult` with an empty `serverInfo.version`',
    initialized(LEGACY, { name: 'server', version: '' }),
  ],
  ['a result that is something else', result({})],
  ['-32020, -32021, -32022', error(-32022)],
  ['any other error', error(-32600)],
  ['a late modern answer to the probe', silence, heard],
  ['silence until the deadline', silence],
  ['a close or an exit', closed('exit', 'the process exited with code 1')],
  ['HTTP 401 or 403', refusedBy(401)],
  [
    'HTTP 5xx, 407, 408, 421, 425, 429, a redirect, an HTML page',
    unreachable('http-status', 'HTTP 503', true),
  ],
  ['not sent: the ledger gave no permit', { kind: 'withheld', written: false }],
];

/** Every kind of outcome with its verdict, for a host with all revisions known to this package. */
export function evidenceTable(): readonly EvidenceRow[] {
  const peer = 'archive';
  const probes = probeSamples.map(([outcome, sample, sign]): EvidenceRow => {
    const verdict = judgeProbe(sample, {
      peer,
      modernRevisions: [MODERN],
      legacyRevisions: ['2024-11-05', LEGACY],
      asked: MODERN,
      refused: [],
      hasHeaders: true,
      declaredCapabilities: {},
      availableCapabilities: {},
      sign: sign ?? null,
    });
    const reason = 'reason' in verdict ? verdict.reason.code : null;
    const legacyProbe = verdict.type === 'discover.ambiguous' || verdict.type === 'discover.legacyOnly';
    return {
      sent: 'server/discover',
      outcome,
      verdict: verdict.type,
      rule: verdict.rule,
      legacyProbe,
      reason,
    };
  });
  const initializes = initializeSamples.map(([outcome, sample, sign]): EvidenceRow => {
    const verdict = judgeInitialize(sample, {
      peer,
      legacyRevisions: ['2024-11-05', LEGACY],
      sign: sign ?? null,
    });
    const reason = 'reason' in verdict ? verdict.reason.code : null;
    return {
      sent: 'initialize',
      outcome,
      verdict: verdict.type,
      rule: verdict.rule,
      legacyProbe: false,
      reason,
    };
  });
  return [...probes, ...initializes];
}
