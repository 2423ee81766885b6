/** A real host over scripted pipes: what it writes obeys the era rules, whatever comes back. */
import * as fc from 'fast-check';
import { test, vi } from 'vitest';
import { peerPlans, runPlans } from './support/hostRun.js';
import { anything, checkRuns, expectToHaveSeen, printViolation } from './support/wireProperty.js';

vi.mock('../../src/calls/validate.js', () => import('./support/noSchemas.js'));

const TIMEOUT_MS = 900_000;

test('initialize is never written without the allowlist, and never after modern evidence', {
  timeout: TIMEOUT_MS,
}, async () => {
  const rules = ['N3', 'N4', 'N7', 'N12'];
  const seen = await checkRuns(runPlans(), 0.2, (_result, violations) =>
    violations
      .filter(({ rule, check }) => rules.includes(rule) && check.includes('initialize'))
      .map(printViolation),
  );
  expectToHaveSeen(seen, ['initialize', 'legacy', 'modern', 'unavailable']);
});

test('the wire of hosts over pipes obeys every rule', { timeout: TIMEOUT_MS }, async () => {
  const pipes = peerPlans().map((peer) => ({ ...peer, perRequestStreams: false }));
  const seen = await checkRuns(runPlans(pipes), 0.3, anything);
  expectToHaveSeen(seen, [
    'initialize',
    'notifications/initialized',
    'legacy',
    'modern',
    'tools/call',
    'stopped',
  ]);
});

test('a peer that is not allowlisted never gets initialize', { timeout: TIMEOUT_MS }, async () => {
  const strangers = peerPlans(fc.constant(false));
  await checkRuns(runPlans(strangers), 0.02, ({ trace }) =>
    trace.events.some((event) => event.kind === 'out' && event.text.includes('"initialize"'))
      ? ['it was written']
      : [],
  );
});
