// Servers that die at every point of the negotiation, all at the same time in one host, beside healthy ones.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { PeerConfig } from '../../src/host/config.js';
import { createHost } from '../../src/host/createHost.js';
import type { Host, PeerReport, ReasonCode } from '../../src/host/facade.js';
import { noProcessWith } from '../support/processes.js';
import { linesOf } from '../support/recording.js';
import { example } from '../support/serverProcess.js';

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

const MORTAL = join(import.meta.dirname, '../fixtures/mortalServer.mjs');
/** Deadlines that a busy machine cannot reach: everything here ends by an exit. */
const PATIENT = {
  probeTimeoutMs: 100_000,
  legacyProbeTimeoutMs: 100_000,
  listTimeoutMs: 100_000,
  startTimeoutMs: 200_000,
};

let folder = '';
const hosts: Host[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'peerage-crash-'));
});
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  await noProcessWith(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type Era = 'modern' | 'legacy';

interface Case {
  readonly era: Era;
  readonly point: string;
  /** The reasons it may end with: which one may depend on whether the exit or the next write came first. */
  readonly codes: readonly ReasonCode[];
  /** Whether it may have been asked to initialize, where it is allowlisted. */
  readonly mayBeAsked: boolean;
}

/** Messages of a modern peer: 1 the probe, 2 the listing. */
const MODERN: readonly Case[] = [
  { era: 'modern', point: 'after-1', codes: ['connection-lost'], mayBeAsked: false },
  { era: 'modern', point: 'on-2', codes: ['connection-lost'], mayBeAsked: false },
  { era: 'modern', point: 'half-2', codes: ['connection-lost'], mayBeAsked: false },
  { era: 'modern', point: 'after-2', codes: ['connection-lost'], mayBeAsked: false },
];

/** Before any answer both eras look alike. */
const unheard = (code: ReasonCode): readonly Case[] =>
  (['modern', 'legacy'] as const).flatMap((era) =>
    ['start', 'on-1', 'half-1'].map((point) => ({ era, point, codes: [code], mayBeAsked: true })),
  );

const NOT_ALLOWLISTED: readonly Case[] = [
  ...MODERN,
  ...unheard('not-allowlisted'),
  { era: 'legacy', point: 'after-1', codes: ['not-allowlisted'], mayBeAsked: false },
];

/** Messages of a legacy peer: 1 the probe, 2 initialize, 3 initialized, 4 the listing; each life counts anew. */
const ALLOWLISTED: readonly Case[] = [
  ...MODERN,
  // Each life ends at its first message, so that initialize fares like the probe.
  ...unheard('legacy-rejected'),
  // On the old connection, if its end was not seen yet: rejected; on a fresh one it is answered, and then lost.
  { era: 'legacy', point: 'after-1', codes: ['legacy-rejected', 'connection-lost'], mayBeAsked: true },
  { era: 'legacy', point: 'on-2', codes: ['legacy-rejected'], mayBeAsked: true },
  { era: 'legacy', point: 'half-2', codes: ['legacy-rejected'], mayBeAsked: true },
  { era: 'legacy', point: 'after-2', codes: ['connection-lost'], mayBeAsked: true },
  { era: 'legacy', point: 'on-3', codes: ['connection-lost'], mayBeAsked: true },
  { era: 'legacy', point: 'on-4', codes: ['connection-lost'], mayBeAsked: true },
  { era: 'legacy', point: 'half-4', codes: ['connection-lost'], mayBeAsked: true },
  { era: 'legacy', point: 'after-4', codes: ['connection-lost'], mayBeAsked: true },
];

/** Resolves once the peer is in one of these states, now or later. */
function reaches(host: Host, peer: string, ...states: string[]): Promise<PeerReport> {
  return new Promise((resolve) => {
    const look = (): void => {
      const report = host.peer(peer).report();
      if (!states.includes(report.state)) return;
      off();
      resolve(report);
    };
    const off = host.on('peer', look);
    look();
  });
}

const healthy: Record<string, PeerConfig> = {
  good: { command: process.execPath, args: [example('picky-modern-stdio.mjs')] },
};

describe.each([
  [false, NOT_ALLOWLISTED],
  [true, ALLOWLISTED],
])('a server that dies in the negotiation (allowLegacy: %s)', (allowLegacy, cases) => {
  it('is unavailable with a typed reason, alone, and nothing is left', async () => {
    const recordOf = ({ era, point }: Case): string => join(folder, `${allowLegacy}-${era}-${point}.log`);
    const nameOf = ({ era, point }: Case): string => `${era}-${point}`;
    const mortal = Object.fromEntries(
      cases.map((one): [string, PeerConfig] => [
        nameOf(one),
        { command: process.execPath, args: [MORTAL, one.era, recordOf(one), one.point], allowLegacy },
      ]),
    );
    const host = createHost({ ...PATIENT, maxAttempts: 0, peers: { ...healthy, ...mortal } });
    hosts.push(host);
    await host.start();

    for (const one of cases) {
      const report = await reaches(host, nameOf(one), 'unavailable');
      const { reason } = report;
      expect(one.codes, `${nameOf(one)}: ${JSON.stringify(reason)}`).toContain(reason?.code);
      expect(reason?.message).not.toBe('');
      expect(reason?.fix).not.toBe('');
      const heard = linesOf(recordOf(one));
      const asked = heard.filter((method) => method === 'initialize').length;
      const mayAsk = allowLegacy && one.mayBeAsked ? 1 : 0;
      expect(asked, `${nameOf(one)} heard ${heard.join(', ')}`).toBeLessThanOrEqual(mayAsk);
      expect(report.initializeSent).toBeLessThanOrEqual(mayAsk);
      // Whoever is gone has no tools to offer.
      expect([...host.catalog().entries.values()].map(({ peer }) => peer)).not.toContain(nameOf(one));
      expect(await host.call(`${nameOf(one)}/ping`)).toMatchObject({ delivery: 'not-sent' });
    }
    expect(host.peer('good').report()).toMatchObject({
      state: 'modern',
      path: ['idle', 'probing', 'modern'],
    });
    expect(await host.call('translate', { text: 'hello', to: 'fr' })).toMatchObject({ status: 'ok' });
    await host.stop();
    await noProcessWith(folder);
  });
});

describe('a server that dies once', () => {
  it.each([
    ['modern', 'after-1'],
    ['modern', 'on-2'],
    ['modern', 'half-2'],
    ['modern', 'after-2'],
    ['legacy', 'on-1'],
    ['legacy', 'half-1'],
    ['legacy', 'after-2'],
    ['legacy', 'on-3'],
    ['legacy', 'on-4'],
    ['legacy', 'after-4'],
  ] as const)('%s %s: comes back by itself and serves calls', async (era, point) => {
    const record = join(folder, `once-${era}-${point}.log`);
    const args = [MORTAL, era, record, point, 'once'];
    const host = createHost({
      ...PATIENT,
      backoffMinMs: 10,
      backoffMaxMs: 50,
      peers: { it: { command: process.execPath, args, allowLegacy: era === 'legacy' } },
    });
    hosts.push(host);
    await host.start();
    await expect
      .poll(async () => (await host.call('ping')).status, { timeout: 100_000, interval: 20 })
      .toBe('ok');
    await reaches(host, 'it', era);
    const lives = linesOf(record)
      .join('\n')
      .split('start')
      .slice(1)
      .map((life) => life.trim().split('\n'));
    expect(lives).toHaveLength(2);
    expect(lives.flat().filter((method) => method === 'initialize').length).toBeLessThanOrEqual(
      era === 'legacy' ? 2 : 0,
    );
    await host.stop();
    await noProcessWith(folder);
  });
});
