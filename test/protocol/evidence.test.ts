import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { judgeInitialize, judgeProbe, modernSign, type ProbeContext } from '../../src/protocol/evidence.js';
import { evidenceTable } from '../../src/protocol/evidenceTable.js';
import type { Outcome } from '../../src/protocol/exchange.js';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';

const context: ProbeContext = {
  peer: 'archive',
  modernRevisions: ['2026-07-28', '2027-01-01', '2027-06-01'],
  legacyRevisions: ['2024-11-05', '2025-11-25'],
  asked: '2027-06-01',
  refused: [],
  hasHeaders: true,
  declaredCapabilities: {},
  availableCapabilities: {},
  sign: null,
};

const result = (value: JsonValue): Outcome => ({ kind: 'result', written: true, result: value });
const error = (code: number, data?: JsonValue, correlated = true): Outcome => ({
  kind: 'error',
  written: true,
  correlated,
  error: { code, message: 'no', ...(data === undefined ? {} : { data }) },
});
const discover = (...supportedVersions: JsonValue[]): Outcome =>
  result({ supportedVersions, capabilities: {} });

describe('the table of outcome and evidence', () => {
  // Written down here by hand: the table is computed by the code, this is what it has to say.
  const expected: readonly [
    sent: string,
    outcome: RegExp,
    verdict: string,
    rule: string,
    legacyProbe: boolean,
  ][] = [
    ['server/discover', /Result` with a mutual revision$/, 'discover.result', 'N2', false],
    ['server/discover', /unknown here only/, 'discover.noMutualVersion', 'N3', false],
    ['server/discover', /legacy revisions only, one of them configured/, 'discover.legacyOnly', 'N13', true],
    ['server/discover', /legacy revisions only, none configured/, 'discover.noMutualVersion', 'N13', false],
    ['server/discover', /legacy revisions only, after a redirect/, 'discover.noSignal', 'N8', false],
    ['server/discover', /empty `supportedVersions`/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /names that are no revisions/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /^a result that is something else/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /^an empty result/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /^-32022 with a mutual revision/, 'discover.unsupportedVersion', 'N3', false],
    ['server/discover', /^-32022 without a mutual revision/, 'discover.noMutualVersion', 'N3', false],
    ['server/discover', /^-32022 without a usable/, 'discover.noMutualVersion', 'N3', false],
    ['server/discover', /^-32022 with a null or foreign id/, 'discover.uncorrectable', 'N21', false],
    ['server/discover', /^-32020/, 'discover.correctable', 'N4', false],
    ['server/discover', /^-32021/, 'discover.uncorrectable', 'N4', false],
    ['server/discover', /^-32601/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /any other code/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /^an error with a null or foreign id/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /^an error after a redirect/, 'discover.noSignal', 'N8', false],
    ['server/discover', /claims JSON/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /^an HTTP 400/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /batch array/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /^silence until/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /^silence, and -32022/, 'discover.uncorrectable', 'N21', false],
    ['server/discover', /process exits/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /is reset/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /stream ends/, 'discover.ambiguous', 'N5', true],
    ['server/discover', /^HTTP 401/, 'discover.unauthorized', 'N6', false],
    ['server/discover', /^HTTP 403/, 'discover.unauthorized', 'N6', false],
    ['server/discover', /^HTTP 5xx/, 'discover.noSignal', 'N6', false],
    ['server/discover', /another origin/, 'discover.noSignal', 'N6', false],
    ['server/discover', /HTML/, 'discover.noSignal', 'N6', false],
    ['server/discover', /connection refused/, 'discover.noSignal', 'N6', false],
    ['server/discover', /could not be started/, 'discover.noSignal', 'N6', false],
    ['initialize', /configured legacy revision/, 'initialize.result', 'N10', false],
    ['initialize', /another revision/, 'initialize.rejected', 'N10', false],
    ['initialize', /modern revision/, 'initialize.rejected', 'N10', false],
    ['initialize', /without `serverInfo`/, 'initialize.rejected', 'N10', false],
    ['initialize', /empty `serverInfo.version`/, 'initialize.rejected', 'N10', false],
    ['initialize', /something else/, 'initialize.rejected', 'N10', false],
    ['initialize', /^-32020, -32021, -32022/, 'peer.modernEvidence', 'N12', false],
    ['initialize', /any other error/, 'initialize.rejected', 'N10', false],
    ['initialize', /late modern answer/, 'peer.modernEvidence', 'N12', false],
    ['initialize', /^silence/, 'initialize.rejected', 'N10', false],
    ['initialize', /close or an exit/, 'initialize.rejected', 'N10', false],
    ['initialize', /^HTTP 401 or 403/, 'initialize.unauthorized', 'N9', false],
    ['initialize', /^HTTP 5xx/, 'initialize.rejected', 'N6', false],
    ['initialize', /^not sent/, 'initialize.rejected', 'N7', false],
  ];
  const rows = evidenceTable();

  it('prints', () => {
    console.table(rows);
    expect(rows).toHaveLength(expected.length);
  });

  it.each(expected)('%s: %s is %s by %s', (sent, outcome, verdict, rule, legacyProbe) => {
    const found = rows.filter((row) => row.sent === sent && outcome.test(row.outcome));
    expect(found).toMatchObject([{ verdict, rule, legacyProbe }]);
  });
});

describe('N2 and N3', () => {
  it('selects the highest mutual revision, whatever the order', () => {
    expect(judgeProbe(discover('2026-07-28', '2099-01-01', '2027-01-01'), context)).toMatchObject({
      type: 'discover.result',
      revision: '2027-01-01',
    });
  });

  it('probes again with the highest mutual revision not yet refused', () => {
    const verdict = judgeProbe(
      error(-32022, { supported: ['2026-07-28', '2027-01-01', '2027-06-01'] }),
      context,
    );
    expect(verdict).toMatchObject({ type: 'discover.unsupportedVersion', revision: '2027-01-01' });
  });

  it('probes again with the only mutual revision although it was just refused, once', () => {
    const only = error(-32022, { supported: ['2027-06-01'] });
    expect(judgeProbe(only, context)).toMatchObject({
      type: 'discover.unsupportedVersion',
      revision: '2027-06-01',
    });
    expect(judgeProbe(only, { ...context, refused: ['2027-06-01'] }).type).toBe('discover.noMutualVersion');
  });

  it('ignores entries of data.supported that are no strings', () => {
    expect(judgeProbe(error(-32022, { supported: [5, null, '2027-01-01'] }), context)).toMatchObject({
      type: 'discover.unsupportedVersion',
      revision: '2027-01-01',
    });
    expect(judgeProbe(error(-32022, { supported: 'all' }), context).type).toBe('discover.noMutualVersion');
  });
});

describe('N4', () => {
  const required = error(-32021, { requiredCapabilities: { sampling: {} } });

  it('corrects -32020 over HTTP, not where there are no headers', () => {
    expect(judgeProbe(error(-32020), context).type).toBe('discover.correctable');
    expect(judgeProbe(error(-32020), { ...context, hasHeaders: false }).type).toBe('discover.uncorrectable');
  });

  it('corrects -32021 if the capability has a handler now and was not declared', () => {
    expect(judgeProbe(required, { ...context, availableCapabilities: { sampling: {} } }).type).toBe(
      'discover.correctable',
    );
    const declared = {
      ...context,
      availableCapabilities: { sampling: {} },
      declaredCapabilities: { sampling: {} },
    };
    expect(judgeProbe(required, declared).type).toBe('discover.uncorrectable');
  });

  it('names the capability that is missing', () => {
    expect(judgeProbe(required, context)).toMatchObject({
      reason: { code: 'missing-capability', message: expect.stringContaining('sampling') },
    });
    expect(judgeProbe(error(-32021), context)).toMatchObject({ reason: { code: 'missing-capability' } });
  });
});

describe('N8', () => {
  it('takes nothing that came through a redirect for ambiguous, and modern proof all the same', () => {
    const through = (outcome: Outcome): Outcome => ({ ...outcome, redirected: true });
    expect(judgeProbe(through(result({})), context)).toMatchObject({
      type: 'discover.noSignal',
      terminal: true,
    });
    expect(judgeProbe(through(discover('2026-07-28')), context).type).toBe('discover.result');
  });
});

describe('what this side did proves nothing', () => {
  it.each<[string, Outcome]>([
    [
      'a connection that the host closed',
      { kind: 'closed', written: true, cause: { kind: 'host', detail: 'x' } },
    ],
    ['a cancelled probe', { kind: 'cancelled', written: true, detail: 'x' }],
    ['a probe that was not written', { kind: 'withheld', written: false }],
    ['a probe that could not be sent in time', { kind: 'timeout', written: false, timeoutMs: 1 }],
    [
      'a stream that ended before the probe was sent',
      { kind: 'closed', written: false, cause: { kind: 'stream-ended', detail: 'x' } },
    ],
  ])('%s is no signal', (_name, outcome) => {
    expect(judgeProbe(outcome, context).type).toBe('discover.noSignal');
  });
});

describe('the rest of the outcomes', () => {
  it('a process that exits before it takes the probe has ended, as after it', () => {
    for (const written of [false, true]) {
      const exit: Outcome = { kind: 'closed', written, cause: { kind: 'exit', detail: 'exit code 1' } };
      expect(judgeProbe(exit, context)).toMatchObject({ type: 'discover.ambiguous', rule: 'N5' });
    }
  });

  it('a lost session in answer to a probe is ambiguous, to initialize a rejection', () => {
    const lost: Outcome = { kind: 'session-lost', written: true };
    expect(judgeProbe(lost, context).type).toBe('discover.ambiguous');
    expect(judgeInitialize(lost, { ...context }).type).toBe('initialize.rejected');
  });

  it('initialize: malformed and cancelled are rejections', () => {
    for (const outcome of [
      { kind: 'malformed', written: true, detail: 'x' },
      { kind: 'cancelled', written: true, detail: 'x' },
    ] satisfies Outcome[]) {
      expect(judgeInitialize(outcome, context)).toMatchObject({ reason: { code: 'legacy-rejected' } });
    }
  });

  it.each([
    ['spawn-failed', false, 'spawn-failed', true],
    ['spawn-failed', true, 'spawn-failed', false],
    ['connect-failed', false, 'unreachable', true],
    ['http-status', false, 'unreachable', true],
  ] as const)(
    'initialize: no signal (%s, terminal %s) is no rejection by the peer',
    (kind, terminal, code, curable) => {
      const outcome: Outcome = {
        kind: 'unreachable',
        written: false,
        cause: { kind, detail: 'x', terminal },
      };
      expect(judgeInitialize(outcome, context)).toMatchObject({
        type: 'initialize.rejected',
        rule: 'N6',
        reason: { code },
        curable,
      });
    },
  );

  it('carries Retry-After', () => {
    const cause = {
      kind: 'http-status',
      detail: 'HTTP 503',
      terminal: false,
      status: 503,
      retryAfterMs: 7_000,
    } as const;
    expect(judgeProbe({ kind: 'unreachable', written: true, cause }, context)).toMatchObject({
      retryAfterMs: 7_000,
    });
  });

  it('shortens what a server lists, and shows no control characters of it', () => {
    const many = Array.from({ length: 20 }, (_, i) => `2099-01-${String(i).padStart(2, '0')}\u001b`);
    const verdict = judgeProbe(discover(...many), context);
    expect(verdict).toMatchObject({ reason: { message: expect.stringContaining('and 14 more') } });
    expect(JSON.stringify(verdict)).not.toContain('\\u001b');
  });
});

describe('N21: what forbids may be loose', () => {
  it.each<[string, unknown, string | null]>([
    ['a code with a foreign id', { id: 'x', error: { code: -32022 } }, '-32022'],
    ['a code without anything else', { error: { code: -32020 } }, '-32020'],
    ['a code beside a result', { id: 1, result: {}, error: { code: -32021, message: 5 } }, '-32021'],
    ['a code in a batch', [{ a: 1 }, { error: { code: -32022 } }], '-32022'],
    ['a modern revision', { result: { supportedVersions: ['2026-07-28-rc1'] } }, '2026-07-28'],
    [
      'a modern revision among rubbish',
      { result: { supportedVersions: [5, null, '2031-01-01'] } },
      '2031-01-01',
    ],
    ['a code as text', { error: { code: '-32022' } }, null],
    ['a draft code', { error: { code: -32004 } }, null],
    ['legacy revisions', { result: { supportedVersions: ['2025-11-25'] } }, null],
    ['an array in an array', [[{ error: { code: -32022 } }]], null],
    ['no object', 'text', null],
    ['nothing', null, null],
  ])('%s', (_name, message, value) => {
    expect(modernSign(message)?.value ?? null).toBe(value);
  });

  it('an ambiguous outcome with a sign is never ambiguous', () => {
    const sign = { kind: 'code', value: '-32022' } as const;
    expect(judgeProbe(error(-32601), { ...context, sign })).toMatchObject({
      type: 'discover.uncorrectable',
      reason: { code: 'modern-evidence' },
    });
    expect(judgeProbe(discover('2025-11-25'), { ...context, sign }).type).toBe('discover.uncorrectable');
    expect(judgeProbe(discover('2026-07-28'), { ...context, sign }).type).toBe('discover.result');
  });
});

describe('total', () => {
  const text = fc.string();
  const outcome: fc.Arbitrary<Outcome> = fc.oneof(
    fc.jsonValue().map((value) => result(value as JsonValue)),
    fc
      .tuple(fc.oneof(fc.integer(), fc.constantFrom(-32020, -32021, -32022)), fc.jsonValue(), fc.boolean())
      .map(([code, data, correlated]) => error(code, data as JsonValue, correlated)),
    text.map((detail): Outcome => ({ kind: 'malformed', written: true, detail })),
    fc.constant<Outcome>({ kind: 'timeout', written: true, timeoutMs: 1 }),
    text.map((detail): Outcome => ({ kind: 'closed', written: true, cause: { kind: 'exit', detail } })),
    fc.constantFrom<Outcome>(
      { kind: 'unauthorized', written: true, status: 401, challenge: null },
      { kind: 'unauthorized', written: true, status: 403, challenge: 'Bearer' },
    ),
  );

  it('every outcome has a verdict, and only N5 and N13 lead to a legacy probe', () => {
    fc.assert(
      fc.property(outcome, fc.boolean(), (value, redirected) => {
        const verdict = judgeProbe({ ...value, redirected }, context);
        if (verdict.type === 'discover.ambiguous') expect(verdict.rule).toBe('N5');
        if (verdict.type === 'discover.legacyOnly') expect(verdict.rule).toBe('N13');
        if (redirected) expect(verdict.type).not.toMatch(/ambiguous|legacyOnly/);
        expect(judgeInitialize(value, context).type).toMatch(/^(initialize|peer)\./);
      }),
      { numRuns: 2_000 },
    );
  });
});
