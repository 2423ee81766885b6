/** The same over per-request streams, as over HTTP, and with both kinds in one host. */
import { test, vi } from 'vitest';
import { peerPlans, runPlans } from './support/hostRun.js';
import { anything, checkRuns, expectToHaveSeen } from './support/wireProperty.js';

vi.mock('../../src/calls/validate.js', () => import('./support/noSchemas.js'));

const TIMEOUT_MS = 900_000;

test('the wire of hosts over per-request streams obeys every rule', { timeout: TIMEOUT_MS }, async () => {
  const streams = peerPlans().map((peer) => ({ ...peer, perRequestStreams: true }));
  const seen = await checkRuns(runPlans(streams), 0.3, anything);
  expectToHaveSeen(seen, [
    'initialize',
    'notifications/initialized',
    'legacy',
    'modern',
    'tools/call',
    'stopped',
  ]);
});

test('the wire of hosts over both kinds obeys every rule', { timeout: TIMEOUT_MS }, async () => {
  const seen = await checkRuns(runPlans(), 0.2, anything);
  expectToHaveSeen(seen, ['initialize', 'legacy', 'modern', 'tools/call']);
});
