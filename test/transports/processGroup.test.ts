import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Clock, systemClock } from '../../src/transports/clock.js';
import { hasLivingMember, taskkillCommand } from '../../src/transports/processGroup.js';
import { type StdioOptions, stdioTransport } from '../../src/transports/stdio.js';
import type { TransportFactory } from '../../src/transports/transport.js';
import { exchange, gone, isRunning, opened, Recorder } from './harness.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const SERVER = fileURLToPath(new URL('../fixtures/stdioServer.mjs', import.meta.url));
const HOST = fileURLToPath(new URL('../fixtures/stdioHost.mjs', import.meta.url));

/** A grace no test waits for: a close that needs it would run into the test's own limit. */
const LONG_MS = 60_000;

function server(args: readonly string[], options: Partial<StdioOptions> = {}): TransportFactory {
  return stdioTransport({
    command: process.execPath,
    args: [SERVER, ...args],
    shutdownGraceMs: LONG_MS,
    ...options,
  });
}

const pidOf = (text: string | undefined): number => (JSON.parse(text ?? '{}') as { pid: number }).pid;
const aMoment = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 10));

/** What is told twice in a row: closed handles vanish a turn of the loop later. */
async function settled(look: () => string[]): Promise<string[]> {
  let last: string[];
  let now = look();
  do {
    last = now;
    await aMoment();
    now = look();
  } while (now.length !== last.length);
  return now;
}

const exitHooks = (): number =>
  process.listeners('exit').filter((listener) => listener.name === 'killAllAtExit').length;

let folder: string;
let builtModule: string;

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'group-'));
  // The host programs run under plain Node: they need the transport as JavaScript, beside its dependencies.
  const out = path.join(ROOT, 'node_modules', '.cache', `stdio-test-${process.pid}`);
  mkdirSync(out, { recursive: true });
  const options = ['--outDir', out, '--rootDir', 'src', '--module', 'nodenext', '--target', 'es2022'];
  const tsc = path.join(ROOT, 'node_modules', 'typescript', 'bin', 'tsc');
  const files = ['src/transports/stdio.ts', '--ignoreConfig', '--skipLibCheck', '--types', 'node'];
  const built = spawnSync(process.execPath, [tsc, ...files, ...options], { cwd: ROOT, encoding: 'utf8' });
  expect(built.stdout).toBe('');
  writeFileSync(path.join(out, 'package.json'), '{"type":"module"}');
  builtModule = path.join(out, 'transports', 'stdio.js');
});

afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
  rmSync(path.dirname(path.dirname(builtModule)), { recursive: true, force: true });
});

describe('closing', () => {
  it('lets a process end by itself when its input ends', async () => {
    const trace = path.join(folder, 'polite');
    const { transport, events } = await opened(server(['polite', trace]));
    await events.nextMessages(1);
    await transport.close();
    expect(existsSync(trace)).toBe(true);
    expect(events.causes).toEqual([{ kind: 'host', detail: 'closed by this side' }]);
  });

  it('tells the end at once, delivers nothing afterwards, and is one close for all who ask', async () => {
    const { transport, events } = await opened(server(['echo']));
    transport.send('{"a":1}', exchange());
    const first = transport.close();
    expect(events.causes).toHaveLength(1);
    expect(transport.close()).toBe(first);
    await first;
    expect(transport.close()).toBe(first);
    expect(events.messages).toEqual([]);
    expect(events.late).toEqual([]);
    expect(events.causes).toHaveLength(1);
  });

  it('may happen inside a message', async () => {
    const events = new Recorder();
    let closing: Promise<void> | undefined;
    const transport = server(['echo'])({
      message: (text) => {
        events.message(text, null);
        closing = transport.close();
      },
      overheard: (text) => events.overheard(text),
      fault: (fault) => events.fault(fault),
      closed: (cause) => events.closed(cause),
    });
    await transport.open();
    transport.send('{"a":1}', exchange());
    transport.send('{"b":2}', exchange());
    await events.cause();
    await closing;
    expect(events.messages).toEqual(['{"a":1}']);
    expect(events.late).toEqual([]);
  });

  it('kills a process that ignores the end of its input and SIGTERM', async () => {
    const { transport, events } = await opened(server(['stubborn'], { shutdownGraceMs: 30 }));
    const pid = pidOf((await events.nextMessages(1))[0]);
    expect(isRunning(pid)).toBe(true);
    await transport.close();
    expect(isRunning(pid)).toBe(false);
    expect(exitHooks()).toBe(0);
  });

  it('ends what a wrapper started, together with the wrapper', async () => {
    const { transport, events } = await opened(server(['wrapper', 'stubborn'], { shutdownGraceMs: 30 }));
    const pids = (await events.nextMessages(2)).map(pidOf);
    expect(pids.map(isRunning)).toEqual([true, true]);
    await transport.close();
    expect(pids.map(isRunning)).toEqual([false, false]);
  });

  it('does not wait for its deadlines where a wrapped process ends at the end of input', async () => {
    const { transport, events } = await opened(server(['wrapper', 'polite', path.join(folder, 'wrapped')]));
    const pids = (await events.nextMessages(2)).map(pidOf);
    await transport.close();
    expect(existsSync(path.join(folder, 'wrapped'))).toBe(true);
    expect(pids.map(isRunning)).toEqual([false, false]);
  });

  it('may come before or during open', async () => {
    const before = new Recorder();
    const never = server(['echo'])(before);
    await never.close();
    expect(await never.open()).toMatchObject({ ok: false, cause: { kind: 'spawn-failed', terminal: false } });
    expect(before.causes).toHaveLength(1);

    const during = new Recorder();
    const early = server(['echo'])(during);
    const opening = early.open();
    const closing = early.close();
    expect(await opening).toMatchObject({ ok: false, cause: { terminal: false } });
    await closing;
    expect(during.causes).toHaveLength(1);
    expect(exitHooks()).toBe(0);
  });

  it('leaves nothing behind after fifty quick starts', async () => {
    const handles = (): string[] =>
      process.getActiveResourcesInfo().filter((kind) => kind === 'ProcessWrap' || kind === 'PipeWrap');
    const listeners = (): unknown =>
      process.eventNames().map((name) => [String(name), process.listenerCount(name)]);
    const handlesBefore = await settled(handles);
    const listenersBefore = listeners();
    const timers = new Set<unknown>();
    const clock: Clock = {
      now: systemClock.now,
      setTimeout: (fn, delayMs) => {
        const timer = systemClock.setTimeout(() => {
          timers.delete(timer);
          fn();
        }, delayMs);
        timers.add(timer);
        return timer;
      },
      clearTimeout: (timer) => {
        timers.delete(timer);
        systemClock.clearTimeout(timer);
      },
    };
    const pids: number[] = [];
    for (let round = 0; round < 10; round += 1) {
      const batch = await Promise.all(
        Array.from({ length: 5 }, () => opened(server(['hello'], { shutdownGraceMs: 1, clock }))),
      );
      // Some are ended before they have run a line of their own, some later.
      if (round % 2 === 0) {
        for (const { events } of batch) pids.push(pidOf((await events.nextMessages(1))[0]));
      }
      expect(exitHooks()).toBe(1);
      await Promise.all(batch.map(({ transport }) => transport.close()));
      expect(exitHooks()).toBe(0);
      expect(timers.size).toBe(0);
    }
    expect(pids.filter(isRunning)).toEqual([]);
    expect(listeners()).toEqual(listenersBefore);
    while (handles().length > handlesBefore.length) await aMoment();
  });
});

describe('a leader that ends before its children', () => {
  it('is one end of the connection, and what it left is ended too', async () => {
    const { transport, events } = await opened(
      server(['leave', 'attached', 'stubborn'], { shutdownGraceMs: 30 }),
    );
    expect(await events.cause()).toMatchObject({ kind: 'exit', exitCode: 5 });
    const pid = pidOf(events.messages[0]);
    await transport.close();
    expect(isRunning(pid)).toBe(false);
    expect(events.causes).toHaveLength(1);
    expect(events.late).toEqual([]);
  });

  it('is cleaned up after without being asked', async () => {
    const { events } = await opened(server(['leave', 'attached', 'idle']));
    await events.cause();
    await gone(pidOf(events.messages[0]));
  });

  it('is one bounded end also where a process of another group holds the pipes', async () => {
    const { transport, events } = await opened(server(['leave', 'detached', 'idle']));
    expect(await events.cause()).toMatchObject({ kind: 'exit', exitCode: 5 });
    const pid = pidOf(events.messages[0]);
    await transport.close();
    // Another session is out of reach by design; the pipes are dropped on this side.
    expect(isRunning(pid)).toBe(true);
    process.kill(pid, 'SIGKILL');
    await gone(pid);
    expect(events.causes).toHaveLength(1);
  });
});

describe('a program that ends with children running', () => {
  interface Ended {
    readonly pids: number[];
    readonly listeners: number;
    readonly code: number | null;
    readonly signal: string | null;
  }

  /** Runs the host program, calls `whenReady` once its children have said their pids, and waits for its end. */
  async function run(
    ending: string,
    args: readonly string[],
    whenReady: (host: ChildProcess) => void = () => {},
  ): Promise<Ended> {
    const host = spawn(process.execPath, [HOST, pathToFileURL(builtModule).href, SERVER, ending, ...args], {
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const pids: number[] = [];
    let listeners = 0;
    const ended = new Promise<Ended>((resolve) => {
      host.once('close', (code, signal) => resolve({ pids, listeners, code, signal }));
    });
    createInterface({ input: host.stdout! }).on('line', (line) => {
      const told = JSON.parse(line) as { pid?: number; listeners?: number };
      if (told.pid !== undefined) pids.push(told.pid);
      if (told.listeners === undefined) return;
      listeners = told.listeners;
      whenReady(host);
    });
    return ended;
  }

  it('kills them in its exit hook, of which there is one', async () => {
    const { pids, listeners, code } = await run('exit', ['stubborn']);
    expect([pids.length, listeners, code]).toEqual([2, 1, 3]);
    await Promise.all(pids.map(gone));
  });

  it('kills them when it dies of an exception', async () => {
    const { pids, code } = await run('throw', ['stubborn']);
    expect([pids.length, code]).toEqual([2, 1]);
    await Promise.all(pids.map(gone));
  });

  it.each(['SIGTERM', 'SIGKILL'] as const)('ends their input when it is ended by %s', async (signal) => {
    const trace = path.join(folder, signal);
    const ended = await run('wait', ['polite', trace], (host) => host.kill(signal));
    expect([ended.pids.length, ended.signal]).toEqual([2, signal]);
    await Promise.all(ended.pids.map(gone));
    expect(existsSync(trace)).toBe(true);
  });
});

describe.runIf(process.platform === 'linux')('a group', () => {
  it('of zombies alone counts as gone', async () => {
    const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1 << 30)'], { detached: true });
    const ended = new Promise((resolve) => child.once('exit', resolve));
    const pid = child.pid!;
    expect(hasLivingMember(pid)).toBe(true);
    process.kill(pid, 'SIGKILL');
    // Its parent, this process, does not come to reap it before this loop has ended.
    while (isRunning(pid));
    expect(process.kill(pid, 0)).toBe(true);
    expect(hasLivingMember(pid)).toBe(false);
    await ended;
  });
});

describe('on Windows', () => {
  it("the tree is ended by the system's own taskkill", () => {
    expect(taskkillCommand(42, { SystemRoot: 'D:\\WIN' })).toEqual({
      file: 'D:\\WIN\\System32\\taskkill.exe',
      args: ['/PID', '42', '/T', '/F'],
    });
    expect(taskkillCommand(42, {}).file).toBe('C:\\Windows\\System32\\taskkill.exe');
  });
});
