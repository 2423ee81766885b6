import { type ChildProcess, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { grantingServer } from '../host/auth/grantingServer.js';

const ROOT = join(import.meta.dirname, '../..');
const FIXTURE = join(ROOT, 'test/fixtures/reportingServer.mjs');
const EXAMPLE = (name: string): string => join(ROOT, 'examples/servers', name);
const SECRET = 'sk-very-secret-value';
const WINDOWS = process.platform === 'win32';

// A dozen processes after one another, on a machine that does other things as well.
vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

let build = '';
beforeAll(() => {
  // A build of its own: another test may be replacing dist at this moment.
  build = mkdtempSync(join(tmpdir(), 'peerage-build-'));
  const typescript = createRequire(import.meta.url).resolve('typescript/package.json');
  const tsc = join(dirname(typescript), JSON.parse(readFileSync(typescript, 'utf8')).bin.tsc);
  spawnSync(process.execPath, [tsc, '-p', join(ROOT, 'tsconfig.build.json'), '--outDir', build], {
    cwd: ROOT,
  });
  writeFileSync(join(build, 'package.json'), '{"type": "module"}');
  symlinkSync(join(ROOT, 'node_modules'), join(build, 'node_modules'), 'junction');
});
afterAll(() => {
  rmSync(build, { recursive: true, force: true });
});

/** Where fixtures tell what they see. */
let ear: Server;
let port = '';
/** Each fixture that came: its lines so far, and its end. */
let heard: Heard[] = [];
let onHeard: (() => void) | null = null;
const running: ChildProcess[] = [];

interface Heard {
  readonly lines: string[];
  isGone: boolean;
}

beforeEach(async () => {
  heard = [];
  ear = createServer((socket: Socket) => {
    const one: Heard = { lines: [], isGone: false };
    heard.push(one);
    socket.on('error', () => {});
    createInterface({ input: socket }).on('line', (line) => {
      one.lines.push(line);
      onHeard?.();
    });
    socket.on('close', () => {
      one.isGone = true;
      onHeard?.();
    });
  }).listen(0, '127.0.0.1');
  await once(ear, 'listening');
  port = String((ear.address() as AddressInfo).port);
});
afterEach(async () => {
  for (const child of running.splice(0)) if (child.exitCode === null) child.kill('SIGKILL');
  ear.close();
  await once(ear, 'close');
});

/** Resolves as soon as it is true of what the fixtures told. */
async function hears(condition: () => boolean): Promise<void> {
  while (!condition()) {
    await new Promise<void>((resolve) => {
      onHeard = resolve;
    });
  }
}

function start(args: readonly string[], env: Record<string, string> = {}) {
  const [command = '', ...rest] = args;
  // A probe of a busy machine may take its time: no test is about this deadline.
  const patient = ['probe', 'tools', 'call'].includes(command) ? ['--probe-timeout-ms', '100000'] : [];
  const child = spawn(
    process.execPath,
    [join(build, 'cli/main.js'), ...args.slice(0, 1), ...patient, ...rest],
    {
      cwd: build,
      env: { PATH: process.env['PATH'], ...env },
    },
  );
  running.push(child);
  const exit = once(child, 'exit') as Promise<[number | null, string | null]>;
  return { child, exit };
}

async function ended({ child, exit }: ReturnType<typeof start>) {
  const [stdout, stderr, [code, signal]] = await Promise.all([text(child.stdout), text(child.stderr), exit]);
  return { code, signal, stdout, stderr };
}

const peerage = (...args: string[]) => ended(start(args));
const fixture = (...flags: string[]): string[] => ['--', process.execPath, FIXTURE, port, ...flags];

describe('the executable', () => {
  it('probes a modern server', async () => {
    const result = await peerage('probe', '--json', '--', 'node', EXAMPLE('modern-stdio.mjs'));
    expect(result).toMatchObject({ code: 0, stderr: '' });
    const [peer] = JSON.parse(result.stdout).peers;
    expect(peer).toMatchObject({
      name: 'inline',
      state: 'modern',
      era: 'modern',
      reason: null,
      initializeSent: 0,
    });
  });

  it('sends initialize only where that was allowed', async () => {
    const server = ['--', 'node', EXAMPLE('legacy-stdio.mjs')];
    const refused = await peerage('probe', '--json', ...server);
    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.stdout).peers[0]).toMatchObject({
      state: 'unavailable',
      initializeSent: 0,
      reason: { code: 'not-allowlisted', fix: expect.stringContaining('--allow-legacy') },
    });
    const allowed = await peerage('probe', '--json', '--allow-legacy', ...server);
    expect(allowed.code).toBe(0);
    expect(JSON.parse(allowed.stdout).peers[0]).toMatchObject({ state: 'legacy', initializeSent: 1 });
  });

  it('reads a file, and calls a tool of it with arguments from stdin', async () => {
    const peers = {
      docs: { command: 'node', args: [EXAMPLE('modern-stdio.mjs')] },
      // biome-ignore lint/suspicious/noTemplateCurlyInString: this is what one writes in the file
      notes: { command: '${NODE}', args: [EXAMPLE('legacy-stdio.mjs')], allowLegacy: true },
    };
    const file = join(build, 'peerage.json');
    writeFileSync(file, JSON.stringify({ peers }));
    const call = start(['call', 'read_note', '--args', '-'], { NODE: process.execPath });
    call.child.stdin.end('{"name": "groceries"}');
    const result = await ended(call);
    const missing = await peerage('probe');
    rmSync(file);
    expect(result.stderr).toContain('peerage.json');
    expect(result.stderr).toContain('ok · read_note · of notes · legacy');
    expect(result.code).toBe(0);
    expect(result.stdout).not.toBe('');
    expect(missing.code).toBe(2);
    expect(missing.stderr).toContain('NODE is not set');
  });

  it('ends with 2 for wrong usage', async () => {
    expect(await peerage()).toMatchObject({ code: 2, stdout: '' });
    expect(await peerage('probe')).toMatchObject({ code: 2, stdout: '' });
    expect(await peerage('--version')).toMatchObject({ code: 0, stderr: '' });
  });

  it('writes a long result whole into a pipe', async () => {
    const args = JSON.stringify({ text: '0123456789', times: 300_000 });
    const result = await peerage('call', 'echo', '--args', args, ...fixture());
    expect(result.code).toBe(0);
    expect(result.stdout.length).toBe(3_000_001);
  });

  it('lets no escape sequence of a server through', async () => {
    const args = JSON.stringify({ text: '\x1b]0;title\x07' });
    const [probe, call] = await Promise.all([
      peerage('probe', ...fixture()),
      peerage('call', 'echo', '--args', args, ...fixture()),
    ]);
    expect(probe.stdout).toContain('reporting\\u{1b}[31m');
    expect(call.stdout).toBe('\\u{1b}]0;title\\u{7}\n');
  });

  it('never shows a configured secret, though the server repeats it', async () => {
    const file = join(build, 'secret.json');
    const args = [FIXTURE, port];
    writeFileSync(file, JSON.stringify({ peers: { a: { command: 'node', args, env: { TOKEN: SECRET } } } }));
    for (const flags of [[], ['--json']]) {
      const { code, stdout, stderr } = await peerage('call', 'fail', '--config', file, ...flags);
      expect(code).toBe(1);
      expect(stdout + stderr).toContain('bad token [redacted]');
      expect(stdout + stderr).not.toContain(SECRET);
    }
  });

  it('says what to do where a peer is not authorized, and is let in with what the file says', async () => {
    const server = await grantingServer();
    const file = join(build, 'authorized.json');
    // biome-ignore lint/suspicious/noTemplateCurlyInString: this is what people write
    const auth = { type: 'bearer', token: '${TOKEN}' };
    writeFileSync(file, JSON.stringify({ peers: { notes: { url: server.url, auth } } }));
    const probe = (token: string, ...flags: string[]) =>
      ended(start(['probe', '--config', file, ...flags], { TOKEN: token }));
    const shown = await probe(SECRET);
    expect(shown.code).toBe(1);
    expect(shown.stdout.replace(/\s+/g, ' ')).toContain(
      'why HTTP 401 in answer to server/discover. fix Configure another token for this peer: ',
    );
    const { code, stdout } = await probe(SECRET, '--json');
    const [peer] = JSON.parse(stdout).peers;
    expect({ code, reason: peer.reason.code, initializeSent: peer.initializeSent }).toEqual({
      code: 1,
      reason: 'unauthorized',
      initializeSent: 0,
    });
    // The document is the same whatever authorizes a peer.
    expect(Object.keys(peer)).toEqual(
      'name state era revision server reason initializeSent ms tools record'.split(' '),
    );
    for (const output of [shown.stdout, shown.stderr, stdout]) expect(output).not.toContain(SECRET);
    expect(await probe(server.issue().access_token)).toMatchObject({ code: 0 });
  });

  it('takes no offence at a reader that went away', async () => {
    const { child, exit } = start([
      'call',
      'echo',
      '--args',
      '{"text": "x", "times": 3000000}',
      ...fixture(),
    ]);
    child.stdout.destroy();
    const [stderr, how] = await Promise.all([text(child.stderr), exit]);
    expect(how).toEqual([0, null]);
    expect(stderr).toContain('ok · echo');
    expect(stderr).not.toContain('fault');
    await hears(() => heard.every(({ isGone }) => isGone));
  });
});

describe.skipIf(WINDOWS)('signals', () => {
  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)(
    '%s stops the servers and ends with 130',
    async (signal) => {
      const run = start(['probe', '--json', ...fixture('silent')]);
      await hears(() => heard[0]?.lines.includes('server/discover') === true);
      run.child.kill(signal);
      expect(await ended(run)).toMatchObject({ code: 130, signal: null, stdout: '' });
      await hears(() => heard[0]?.isGone === true);
      expect(heard[0]?.lines).toEqual(['server/discover']);
    },
  );

  it('cancels a call on the wire', async () => {
    const run = start(['call', 'slow', ...fixture()]);
    await hears(() => heard[0]?.lines.includes('tools/call slow') === true);
    run.child.kill('SIGINT');
    expect(await ended(run)).toMatchObject({ code: 130, stdout: '' });
    await hears(() => heard[0]?.isGone === true);
    expect(heard[0]?.lines.slice(-2)).toEqual(['tools/call slow', 'notifications/cancelled']);
  });

  it('end a server that will not go', async () => {
    const run = start(['probe', ...fixture('silent', 'stubborn')]);
    await hears(() => heard[0]?.lines.includes('server/discover') === true);
    run.child.kill('SIGINT');
    expect((await ended(run)).code).toBe(130);
    await hears(() => heard[0]?.isGone === true);
    expect(heard[0]?.lines).toContain('SIGTERM');
  });

  it('a second one does not wait, and leaves no server behind', async () => {
    const run = start(['probe', ...fixture('silent', 'stubborn')]);
    await hears(() => heard[0]?.lines.includes('server/discover') === true);
    run.child.kill('SIGINT');
    // The orderly stop has come as far as SIGTERM, which this server ignores.
    await hears(() => heard[0]?.lines.includes('SIGTERM') === true);
    run.child.kill('SIGINT');
    expect((await ended(run)).code).toBe(130);
    await hears(() => heard[0]?.isGone === true);
  });

  it('end the wait for stdin, too', async () => {
    writeFileSync(join(build, 'stdin.json'), '{"peers": {"a": {"command": "node"}}}');
    const run = start(['call', 'echo', '--args', '-', '--config', 'stdin.json']);
    await once(run.child.stderr, 'readable');
    run.child.kill('SIGTERM');
    expect(await ended(run)).toMatchObject({ code: 130, signal: null, stdout: '' });
  });
});
