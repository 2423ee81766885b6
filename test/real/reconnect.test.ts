// A server that goes away under a peer: what the calls come to, and that it comes back by itself.

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { CallOutcome } from '../../src/calls/outcome.js';
import type { PeerConfig } from '../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host, PeerReport } from '../../src/host/facade.js';
import { noProcessWith } from '../support/processes.js';
import { readLives, recordingProxy, teePeer } from '../support/recording.js';
import { example, packageFile, type ServerProcess, startExample } from '../support/serverProcess.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const WINDOWS = process.platform === 'win32';

/** Deadlines that a busy machine cannot reach, and no long wait before a new attempt. */
const PATIENT = {
  probeTimeoutMs: 60_000,
  legacyProbeTimeoutMs: 60_000,
  listTimeoutMs: 60_000,
  startTimeoutMs: 100_000,
  callTimeoutMs: 100_000,
  backoffMinMs: 10,
  backoffMaxMs: 50,
  maxAttempts: 1_000,
};

let folder = '';
let count = 0;
const hosts: Host[] = [];
const servers: ServerProcess[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'peerage-reconnect-'));
});
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  await Promise.all(servers.splice(0).map((server) => server.kill()));
  await noProcessWith(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const newRecord = (): string => {
  count += 1;
  return join(folder, `${count}.jsonl`);
};

async function startHost(peers: Record<string, PeerConfig>, options: Partial<CreateHostOptions> = {}) {
  const host = createHost({ ...PATIENT, ...options, peers });
  hosts.push(host);
  await host.start();
  return host;
}

async function serve(name: string, args: readonly string[] = [], port = 0): Promise<ServerProcess> {
  const server = await startExample(name, args, port);
  servers.push(server);
  return server;
}

/** Resolves once the peer's report fits, now or after some change of it. */
function reportOf(host: Host, peer: string, fits: (report: PeerReport) => boolean): Promise<PeerReport> {
  return new Promise((resolve) => {
    const look = (): void => {
      const report = host.peer(peer).report();
      if (!fits(report)) return;
      for (const off of offs) off();
      resolve(report);
    };
    const offs = [host.on('peer', look), host.on('catalogChanged', look)];
    look();
  });
}

const hasLeft = (host: Host, peer: string, state: string) =>
  reportOf(host, peer, (report) => report.state !== state);
/** It has listed its tools anew, and they can be called. */
const isBack = (host: Host, peer: string, entry: string, state: string) =>
  reportOf(
    host,
    peer,
    (report) => report.state === state && host.catalog().entries.get(entry)?.freshness === 'fresh',
  );

describe.skipIf(WINDOWS).each([
  ['modern', example('modern-stdio.mjs'), [], 'slow', {}, 'search', { query: 'ocean' }],
  [
    'legacy',
    packageFile('@modelcontextprotocol/server-everything', 'dist/index.js'),
    ['stdio'],
    'trigger-long-running-operation',
    { duration: 600, steps: 1 },
    'echo',
    { message: 'hi' },
  ],
] as const)('a %s process, killed in mid-call', (era, file, args, slow, slowArgs, quick, quickArgs) => {
  it('loses that call with an unknown delivery, comes back and serves calls', async () => {
    const record = newRecord();
    const other = newRecord();
    const host = await startHost({
      it: { ...teePeer(record, file, args), allowLegacy: era === 'legacy' },
      other: teePeer(other, example('picky-modern-stdio.mjs')),
    });
    expect(host.peer('it').state).toBe(era);

    const pending = host.catalog().call(slow, slowArgs);
    // It has arrived at the server's door.
    await expect
      .poll(() => readLives(record)[0]?.heard.at(-1)?.method, { timeout: 60_000, interval: 10 })
      .toBe('tools/call');
    process.kill(readLives(record)[0]?.server ?? 0, 'SIGKILL');

    const outcome = await pending;
    expect(outcome).toMatchObject({ status: 'lost', delivery: 'unknown', peer: 'it', attempts: 1 });
    await hasLeft(host, 'it', era);
    const report = await isBack(host, 'it', quick, era);
    expect(report.path.slice(-3)).toEqual(
      era === 'modern' ? ['reconnecting', 'probing', 'modern'] : ['probing', 'legacyProbe', 'legacy'],
    );
    expect(report.reason).toBeNull();
    expect(await host.catalog().call(quick, quickArgs)).toMatchObject({ status: 'ok', peer: 'it' });

    const lives = readLives(record);
    expect(lives).toHaveLength(2);
    // The lost call was not repeated, and each life was asked for its era anew.
    expect(lives.map(({ heard }) => heard.filter(({ text }) => text.includes(slow)).length)).toEqual([1, 0]);
    for (const { heard } of lives) expect(heard[0]?.method).toBe('server/discover');
    const asked = lives.map(({ heard }) => heard.filter(({ method }) => method === 'initialize').length);
    expect(asked).toEqual(era === 'legacy' ? [1, 1] : [0, 0]);

    expect(host.peer('other').report().path).toEqual(['idle', 'probing', 'modern']);
    expect(readLives(other)).toHaveLength(1);
  });
});

describe('a modern HTTP server', () => {
  it('that is stopped makes calls unavailable, not sent; started again on its port, it serves what waits', async () => {
    const first = await serve('modern-http.mjs');
    const host = await startHost({
      it: { url: first.url },
      other: { command: process.execPath, args: [example('picky-modern-stdio.mjs')] },
    });
    const weather = () => host.catalog().call('weather', { city: 'Graz' });
    expect(await weather()).toMatchObject({ status: 'ok' });
    await first.kill();

    // The end of the idle connection may not have been read yet, and then a call is written into it, and lost. Where
    // nothing listens the connection is refused before a byte is written, and the call waits for the next one.
    const waiting: Promise<CallOutcome>[] = [];
    while (host.peer('it').state === 'modern') {
      const call = weather();
      waiting.push(call);
      await Promise.race([call, hasLeft(host, 'it', 'modern')]);
    }
    // Whoever comes now is told so at once.
    expect(await weather()).toMatchObject({ delivery: 'not-sent', status: 'unavailable' });
    await serve('modern-http.mjs', [], first.port);
    await isBack(host, 'it', 'weather', 'modern');
    for (const { status, delivery, attempts } of await Promise.all(waiting)) {
      expect([`ok, answered, 1`, `lost, unknown, 1`]).toContain(`${status}, ${delivery}, ${attempts}`);
    }
    expect(await weather()).toMatchObject({ status: 'ok', era: 'modern' });
    expect(host.peer('it').report().initializeSent).toBe(0);
    expect(host.peer('other').report().path).toEqual(['idle', 'probing', 'modern']);
  });

  it.skipIf(WINDOWS)('that dies in mid-call loses the call with an unknown delivery', async () => {
    const first = await serve('modern-http.mjs');
    const proxy = await recordingProxy(first.url);
    const host = await startHost({ it: { url: proxy.url } });
    const weather = () => host.call('weather', { city: 'Graz' });
    expect(await weather()).toMatchObject({ status: 'ok' });
    // Its socket takes the request, and nobody reads it.
    process.kill(first.pid, 'SIGSTOP');
    const pending = weather();
    await expect
      .poll(() => proxy.methods().filter((method) => method === 'tools/call').length, { timeout: 60_000 })
      .toBe(2);
    await first.kill();
    expect(await pending).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 1 });

    await serve('modern-http.mjs', [], first.port);
    await isBack(host, 'it', 'weather', 'modern');
    expect(await weather()).toMatchObject({ status: 'ok' });
    await host.stop();
    await proxy.close();
    // Nothing was repeated unasked.
    expect(proxy.methods().filter((method) => method === 'tools/call')).toHaveLength(3);
  });
});

describe('a legacy HTTP server', () => {
  it('that lost the session by a restart answers 404, and gets a new negotiation', async () => {
    const first = await serve('legacy-http.mjs');
    const host = await startHost({ it: { url: first.url, allowLegacy: true } });
    const read = () => host.catalog().call('read_note', { name: 'groceries' });
    expect(await read()).toMatchObject({ status: 'ok', era: 'legacy' });
    expect(host.peer('it').report().initializeSent).toBe(1);
    await first.kill();
    await serve('legacy-http.mjs', [], first.port);

    // The new process does not know the old one's session.
    const refused = await read();
    expect(refused).toMatchObject({ status: 'unavailable', delivery: 'unknown' });
    await hasLeft(host, 'it', 'legacy');
    const report = await isBack(host, 'it', 'read_note', 'legacy');
    expect(report.path).toEqual([
      'idle',
      'probing',
      'legacyProbe',
      'legacy',
      'reconnecting',
      'probing',
      'legacyProbe',
      'legacy',
    ]);
    // One in each negotiation, and the report is of the latest.
    expect(report.initializeSent).toBe(1);
    expect(await read()).toMatchObject({ status: 'ok', era: 'legacy' });
  });

  it('without sessions survives a restart without a new negotiation', async () => {
    const first = await serve('legacy-http.mjs', ['--stateless']);
    const host = await startHost({ it: { url: first.url, allowLegacy: true } });
    await first.kill();
    await serve('legacy-http.mjs', ['--stateless'], first.port);
    expect(await host.call('read_note', { name: 'groceries' })).toMatchObject({ status: 'ok' });
    expect(host.peer('it').report().path).toEqual(['idle', 'probing', 'legacyProbe', 'legacy']);
  });

  it('that became modern in the meantime is modern, and never sees initialize again', async () => {
    const first = await serve('legacy-http.mjs');
    const host = await startHost({ it: { url: first.url, allowLegacy: true } });
    expect(host.peer('it').state).toBe('legacy');
    await first.kill();
    await serve('modern-http.mjs', [], first.port);
    await host.call('read_note', { name: 'groceries' });
    const report = await isBack(host, 'it', 'search', 'modern');
    expect(report.initializeSent).toBe(0);
    expect(await host.call('search', { query: 'ocean' })).toMatchObject({ status: 'ok', era: 'modern' });
  });
});
