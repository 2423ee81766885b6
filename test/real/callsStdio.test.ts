// Calls to processes that die, hang or do one thing at a time: what callers are told, and what was executed.

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import { noProcessWith } from '../support/processes.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const SERVER = join(import.meta.dirname, '../fixtures/toolServer.mjs');
const WINDOWS = process.platform === 'win32';

interface Entry {
  readonly event: 'start' | 'executed' | 'cancelled';
  readonly pid: number;
  readonly tool?: string;
  readonly key?: string;
}

let folder = '';
let count = 0;
const hosts: Host[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'peerage-calls-'));
});
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  await noProcessWith(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Given {
  readonly maxInFlight?: number;
  readonly repeatable?: readonly string[];
  readonly mortal?: boolean;
  readonly options?: Omit<CreateHostOptions, 'peers'>;
}

async function start({ mortal = false, options = {}, ...more }: Given = {}) {
  count += 1;
  const record = join(folder, `${count}.jsonl`);
  const host = createHost({
    // Deadlines that a busy machine cannot reach, and no long wait before a new attempt.
    probeTimeoutMs: 60_000,
    listTimeoutMs: 60_000,
    startTimeoutMs: 100_000,
    callTimeoutMs: 100_000,
    backoffMinMs: 10,
    backoffMaxMs: 50,
    maxAttempts: 1_000,
    ...options,
    peers: {
      it: { command: process.execPath, args: [SERVER, record, ...(mortal ? ['mortal'] : [])], ...more },
    },
  });
  hosts.push(host);
  await host.start();
  const entries = (): Entry[] =>
    readFileSync(record, 'utf8')
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as Entry);
  const executed = (tool: string): number =>
    entries().filter((entry) => entry.event === 'executed' && entry.tool === tool).length;
  return {
    host,
    entries,
    executed,
    /** Resolves once the record holds so many entries of this kind. */
    until: (event: Entry['event'], tool: string | undefined, times: number) =>
      expect
        .poll(() => entries().filter((entry) => entry.event === event && entry.tool === tool).length, {
          timeout: 60_000,
          interval: 10,
        })
        .toBe(times),
  };
}

describe('a process that is killed with calls under way', () => {
  it.skipIf(WINDOWS)('loses those, all at once; those that wait go to the next process', async () => {
    const { host, entries, executed, until } = await start({ maxInFlight: 3 });
    const lost = ['a', 'b', 'c'].map((key) => host.call('hang', { key }));
    await until('executed', 'hang', 3);
    const waiting = ['d', 'e'].map((key) => host.call('work', { key }));
    const [{ pid } = { pid: 0 }] = entries();
    process.kill(pid, 'SIGKILL');
    for (const call of lost) {
      const outcome = await call;
      expect(outcome).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 1 });
      expect('message' in outcome && outcome.message).toContain('may have been executed');
    }
    // Whoever comes now is told at once, or waits in line: never sent to nobody.
    const early = await host.call('work', { key: 'f' });
    expect(['ok', 'unavailable']).toContain(early.status);
    if (early.status === 'unavailable') expect(early.delivery).toBe('not-sent');
    for (const call of waiting) expect(await call).toMatchObject({ status: 'ok', attempts: 1 });
    expect(executed('hang')).toBe(3);
    const works = entries().filter(({ tool }) => tool === 'work');
    expect(works.every((entry) => entry.pid !== pid)).toBe(true);
    expect(works.slice(0, 2).map(({ key }) => key)).toEqual(['d', 'e']);
    expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
  });

  it('by a tool of its own: executed once, whatever the tool promises', async () => {
    const { host, executed, until } = await start();
    expect(host.catalog().entries.get('die')?.annotations).toMatchObject({ idempotentHint: true });
    expect(await host.call('die')).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 1 });
    await until('start', undefined, 2);
    await host.peer('it').waitUntil('callable');
    expect(await host.call('work', { key: 'x' })).toMatchObject({ status: 'ok' });
    expect(executed('die')).toBe(1);
  });

  it.each<[string, Given]>([
    ['the peer', { repeatable: ['die-once'] }],
    ['policy', { options: { callPolicy: { isRepeatable: ({ tool }) => tool === 'die-once' } } }],
  ])('a call that %s calls repeatable goes to the next process, under a new id', async (_who, given) => {
    const { host, entries } = await start(given);
    const outcome = await host.call('die-once', { key: 'x' });
    expect(outcome).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 2 });
    const executed = entries().filter(({ event }) => event === 'executed');
    expect(executed).toHaveLength(2);
    expect(new Set(executed.map(({ pid }) => pid)).size).toBe(2);
  });

  it('each time: a repeatable call is given up after four', async () => {
    const { host, executed } = await start({ repeatable: ['die'] });
    expect(await host.call('die')).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 4 });
    expect(executed('die')).toBe(4);
  });
});

describe('a call that is given up', () => {
  it.each(['deadline', 'signal'])(
    'by its %s reaches a server that does one thing at a time, and frees it',
    async (by) => {
      const { host, entries, until, executed } = await start();
      const control = new AbortController();
      // Long enough to be heard on a busy machine; what it waits for is the record, not the time.
      const stuck = host.call(
        'slot',
        { key: 'stuck', hangs: true },
        by === 'deadline' ? { timeoutMs: 3_000 } : { signal: control.signal },
      );
      await until('executed', 'slot', 1);
      const next = host.call('slot', { key: 'next' });
      if (by === 'signal') {
        await until('executed', 'slot', 2);
        control.abort();
      }
      expect(await stuck).toMatchObject({
        status: by === 'deadline' ? 'timeout' : 'cancelled',
        delivery: 'unknown',
        attempts: 1,
      });
      expect(await next).toMatchObject({ status: 'ok', result: { content: [{ text: 'next' }] } });
      expect(entries().filter(({ event }) => event === 'cancelled')).toMatchObject([{ key: 'stuck' }]);
      expect(executed('slot')).toBe(2);
      // The answer to what was cancelled is late; the connection lives.
      await expect.poll(() => host.status().peers[0]?.faults, { timeout: 60_000 }).toEqual({ late: 1 });
      expect(host.status().peers[0]).toMatchObject({ generation: 1, state: 'modern', breaker: 'closed' });
    },
  );

  it('kills a server that cannot stand it: the others are lost, and the peer comes back', async () => {
    const { host, until, executed } = await start({ mortal: true });
    const control = new AbortController();
    const abandoned = host.call('hang', { key: 'a' }, { signal: control.signal });
    const other = host.call('hang', { key: 'b' });
    await until('executed', 'hang', 2);
    control.abort();
    expect(await abandoned).toMatchObject({ status: 'cancelled', delivery: 'unknown' });
    expect(await other).toMatchObject({ status: 'lost', delivery: 'unknown' });
    await until('start', undefined, 2);
    await host.peer('it').waitUntil('callable');
    expect(await host.call('work', { key: 'x' })).toMatchObject({ status: 'ok' });
    expect(executed('hang')).toBe(2);
  });

  it('by the end of the host is cancelled on the wire before the process ends', async () => {
    const { host, entries, until } = await start({ maxInFlight: 1 });
    const calls = [host.call('hang', { key: 'a' }), host.call('work', { key: 'b' })];
    await until('executed', 'hang', 1);
    await host.stop();
    expect(await Promise.all(calls)).toMatchObject([
      { status: 'cancelled', delivery: 'unknown' },
      { status: 'cancelled', delivery: 'not-sent' },
    ]);
    expect(entries().filter(({ event }) => event !== 'start')).toMatchObject([
      { event: 'executed', key: 'a' },
      { event: 'cancelled', key: 'a' },
    ]);
  });
});
