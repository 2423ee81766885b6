import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Clock } from '../../src/transports/clock.js';
import { type StdioOptions, stdioTransport } from '../../src/transports/stdio.js';
import type { Transport, TransportFactory } from '../../src/transports/transport.js';
import { exchange, type Opened, opened, Recorder } from './harness.js';

const SERVER = fileURLToPath(new URL('../fixtures/stdioServer.mjs', import.meta.url));
const MIB = 1024 * 1024;

function server(args: readonly string[], options: Partial<StdioOptions> = {}): TransportFactory {
  return stdioTransport({
    command: process.execPath,
    args: [SERVER, ...args],
    shutdownGraceMs: 5000,
    ...options,
  });
}

const running = new Set<Transport>();

async function start(args: readonly string[], options: Partial<StdioOptions> = {}): Promise<Opened> {
  const result = await opened(server(args, options));
  running.add(result.transport);
  return result;
}

afterEach(async () => {
  await Promise.all([...running].map((transport) => transport.close()));
  running.clear();
  expect(process.listeners('exit').filter((listener) => listener.name === 'killAllAtExit')).toEqual([]);
});

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'stdio-'));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe('messages', () => {
  it('go out whole and in order, and come back', async () => {
    const { transport, events } = await start(['echo']);
    const texts = Array.from({ length: 500 }, (_, n) => `{"n":${n},"t":"${'ä'.repeat(n)}"}`);
    const exchanges = texts.map(() => exchange());
    for (const [n, text] of texts.entries()) transport.send(text, exchanges[n]!);
    expect(await events.nextMessages(500)).toEqual(texts);
    expect(events.exchanges.every((one) => one === null)).toBe(true);
    expect(exchanges.every((one) => one.written && one.ends.length === 0)).toBe(true);
  });

  it('are written in the tick of send where the pipe is free', async () => {
    const { transport, events } = await start(['echo']);
    const first = exchange();
    transport.send('{"a":1}', first);
    expect(first.written).toBe(true);
    await events.nextMessages(1);
  });

  it('may be sent before the process is there', async () => {
    const events = new Recorder();
    const transport = server(['echo'])(events);
    running.add(transport);
    const early = exchange();
    transport.send('{"early":true}', early);
    expect(early.written).toBe(false);
    await transport.open();
    expect(await events.nextMessages(1)).toEqual(['{"early":true}']);
    expect(early.written).toBe(true);
  });

  it('are withheld if their check says no, in the tick of the write', async () => {
    const { transport, events } = await start(['echo']);
    let allowed = true;
    const verdicts = [exchange(), exchange({ mayWrite: () => false }), exchange({ mayWrite: () => allowed })];
    transport.send('{"n":1}', verdicts[0]!);
    transport.send('{"n":2}', verdicts[1]!);
    transport.send('{"n":3}', verdicts[2]!);
    const alone = exchange({ mayWrite: () => false });
    // The third has not been written yet: only the first of a tick is.
    allowed = false;
    await new Promise((resolve) => setImmediate(resolve));
    transport.send('{"n":4}', alone);
    transport.send('{"n":5}', exchange());
    expect(await events.nextMessages(2)).toEqual(['{"n":1}', '{"n":5}']);
    expect(verdicts.map((one) => one.written)).toEqual([true, false, false]);
    expect(alone).toMatchObject({ written: false, ends: [{ kind: 'withheld' }] });
    expect(verdicts[1]!.ends).toEqual([{ kind: 'withheld' }]);
    expect(verdicts[2]!.ends).toEqual([{ kind: 'withheld' }]);
  });

  it('of the tick of close arrive, unless they are withheld', async () => {
    const file = path.join(folder, 'received');
    const reads = `let text = '';
      process.stdin.on('data', (chunk) => { text += chunk; });
      process.stdin.on('end', () => require('node:fs').writeFileSync(process.argv[1], text));`;
    const { transport, events } = await opened(
      stdioTransport({ command: process.execPath, args: ['-e', reads, file], shutdownGraceMs: 20_000 }),
    );
    const sent = [exchange(), exchange(), exchange({ mayWrite: () => false }), exchange()];
    for (const [n, one] of sent.entries()) transport.send(`{"n":${n}}`, one);
    await transport.close();
    expect(readFileSync(file, 'utf8')).toBe('{"n":0}\n{"n":1}\n{"n":3}\n');
    expect(sent.map(({ written, ends }) => [written, ends.length])).toEqual([
      [true, 0],
      [true, 0],
      [false, 1],
      [true, 0],
    ]);
    expect(events.causes).toHaveLength(1);
  });

  it('of any size arrive', async () => {
    const { transport, events } = await start(['echo'], { maxMessageBytes: 32 * MIB });
    const sizes = [5 * 1024, 64 * 1024, MIB, 16 * MIB];
    for (const size of sizes) transport.send(`{"t":"${'x'.repeat(size)}"}`, exchange());
    expect((await events.nextMessages(4)).map((text) => text.length - 8)).toEqual(sizes);
  });
});

describe('a process that does not read', () => {
  it('gets what waited once it reads, in order, each checked when it is written', async () => {
    const { transport, events } = await start(['waitForSignal'], { shutdownGraceMs: 20 });
    const { pid } = JSON.parse((await events.nextMessages(1))[0]!) as { pid: number };
    const long = exchange();
    const late = exchange();
    let allowed = true;
    const asked: string[] = [];
    const withdrawn = exchange({
      mayWrite: () => {
        asked.push('withdrawn');
        return allowed;
      },
    });
    transport.send(`{"a":"${'x'.repeat(16 * MIB)}"}`, long);
    transport.send('{"b":1}', withdrawn);
    transport.send('{"c":1}', late);
    await new Promise((resolve) => setImmediate(resolve));
    expect([long.written, withdrawn.written, late.written, asked.length]).toEqual([true, false, false, 0]);
    allowed = false;
    process.kill(pid, 'SIGUSR2');
    const heard = (await events.nextMessages(3)).slice(1).map((text) => JSON.parse(text));
    expect(heard).toEqual([
      { length: 16 * MIB + 8, begin: `{"a":"${'x'.repeat(34)}` },
      { length: 7, begin: '{"c":1}' },
    ]);
    expect(withdrawn).toMatchObject({ written: false, ends: [{ kind: 'withheld' }] });
  });

  it('has a bounded queue: what is over it fails unwritten', async () => {
    const { transport, events } = await start(['waitForSignal'], { shutdownGraceMs: 20 });
    await events.nextMessages(1);
    const block = `{"a":"${'x'.repeat(16 * MIB - 8)}"}`;
    const sent = Array.from({ length: 6 }, () => exchange());
    for (const one of sent) transport.send(block, one);
    expect(sent.map((one) => one.ends.length)).toEqual([0, 0, 0, 0, 0, 1]);
    expect(sent[5]).toMatchObject({
      written: false,
      ends: [{ kind: 'broken', cause: { kind: 'protocol' } }],
    });
    await transport.close();
    expect(sent[4]).toMatchObject({ written: false, ends: [{ kind: 'broken', cause: { kind: 'host' } }] });
    expect(sent[0]).toMatchObject({ written: true, ends: [] });
  });
});

describe('what is on stdout', () => {
  it('may have CRLF and blank lines', async () => {
    const { transport, events } = await start(['crlf']);
    transport.send('{"a":1}', exchange());
    transport.send('{"b":2}', exchange());
    expect(await events.nextMessages(2)).toEqual(['{"a":1}', '{"b":2}']);
    expect(events.faults).toEqual([]);
  });

  it('may have terminal noise between messages, at any time', async () => {
    const { transport, events } = await start(['ansi']);
    for (let n = 1; n <= 3; n += 1) {
      transport.send(`{"n":${n}}`, exchange());
      expect((await events.nextMessages(n)).at(-1)).toBe(`{"n":${n}}`);
    }
    expect(events.faultKinds()).toEqual(Array.from({ length: 9 }, () => 'noise'));
  });

  it('is not searched for a message behind other text', async () => {
    const { transport, events } = await start(['glued']);
    transport.send('{"a":1}', exchange());
    expect(await events.nextMessages(2)).toEqual(['[50] Add {"a":1}', '{"a":1}']);
    expect(events.faultKinds()).toEqual(['noise']);
  });

  it('with the framing of language servers never makes a message, and says so', async () => {
    const { transport, events } = await start(['lsp']);
    transport.send('{"a":1}', exchange());
    await events.until(() => events.faults.length === 1);
    // The bytes behind the header may still be on their way: the next header shows that they came.
    transport.send('{"b":2}', exchange());
    await events.nextMessages(1);
    await transport.close();
    expect(events.messages).toEqual(['{"a":1}Content-Length: 7']);
    expect(events.faults[0]?.detail).toContain('Content-Length');
  });

  it('is told as unterminated if it ends without a line end', async () => {
    const { events } = await opened(
      stdioTransport({ command: process.execPath, args: ['-e', `process.stdout.write('{"a":1}')`] }),
    );
    expect(await events.cause()).toMatchObject({ kind: 'exit', exitCode: 0 });
    expect(events.messages).toEqual([]);
    expect(events.heard).toEqual(['{"a":1}']);
    expect(events.faultKinds()).toEqual(['unterminated']);
    expect(events.late).toEqual([]);
  });

  it('must be UTF-8, line by line', async () => {
    const { transport, events } = await start(['badUtf8']);
    transport.send('{"t":"a\u2028b\u2029c\u0085d"}', exchange());
    expect(await events.nextMessages(1)).toEqual(['{"t":"a\u2028b\u2029c\u0085d"}']);
    expect(events.faultKinds()).toEqual(['noise', 'invalid-utf8']);
  });

  it('may be one line of 20 MiB', async () => {
    const { events } = await start(['big', String(20 * MIB)], { maxMessageBytes: 32 * MIB });
    expect((await events.nextMessages(1))[0]).toHaveLength(20 * MIB + 11);
  });

  it('is dropped where a line is too long, and the next message counts', async () => {
    const { transport, events } = await start(['big', String(2 * MIB)], { maxMessageBytes: MIB });
    transport.send('{"a":1}', exchange());
    expect(await events.nextMessages(1)).toEqual(['{"a":1}']);
    expect(events.faultKinds()).toEqual(['oversize']);
  });

  it('ends the connection if it is endless, in one line or in many', async () => {
    for (const mode of ['endless', 'noise']) {
      const { transport, events } = await start([mode], { maxMessageBytes: MIB });
      expect(await events.cause()).toMatchObject({ kind: 'protocol' });
      await transport.close();
      expect(events.causes).toHaveLength(1);
      expect(events.faults.length).toBeLessThanOrEqual(10_001);
      expect(events.late).toEqual([]);
    }
  });
});

describe('stderr', () => {
  it('is drained while the process answers, however much it is', async () => {
    const { transport, events } = await start(['stderr', String(10 * MIB)]);
    for (let n = 1; n <= 3; n += 1) {
      transport.send(`{"n":${n}}`, exchange());
      await events.nextMessages(n);
    }
    await transport.close();
    const tail = events.causes[0]?.stderr ?? '';
    expect(tail.endsWith('e\nlast words')).toBe(true);
    expect(tail.length).toBeLessThanOrEqual(4096);
    expect(events.faults).toEqual([]);
  });

  it('stands in the cause, control characters replaced, configured values replaced by their names', async () => {
    const { events } = await start(['exit', '7', 'no \x1b[31mkey\x1b[0m canary-value\x07\nsecond\tline\n'], {
      env: { API_KEY: 'canary-value' },
    });
    expect(await events.cause()).toEqual({
      kind: 'exit',
      detail: 'the process exited with code 7',
      exitCode: 7,
      signal: null,
      stderr: 'no key [API_KEY]?\nsecond line',
    });
  });
});

describe('the end of the process', () => {
  it('is told once, with its exit code, and what it wrote before is delivered', async () => {
    const { transport, events } = await start(['lastAnswer', '2000']);
    const text = `{"t":"${'x'.repeat(200)}"}`;
    transport.send(text, exchange());
    expect(await events.cause()).toMatchObject({ kind: 'exit', exitCode: 4, signal: null });
    expect(events.messages).toHaveLength(2000);
    await transport.close();
    expect(events.causes).toHaveLength(1);
    expect(events.late).toEqual([]);
  });

  it('names the signal', async () => {
    const { transport, events } = await start(['killSelf']);
    const lost = exchange();
    transport.send('{"a":1}', lost);
    expect(await events.cause()).toMatchObject({ kind: 'exit', exitCode: null, signal: 'SIGKILL' });
    expect(lost).toMatchObject({ written: true, ends: [] });
  });

  it('ends what is sent afterwards', async () => {
    const { transport, events } = await start(['exit', '0']);
    await events.cause();
    const late = exchange();
    transport.send('{"a":1}', late);
    expect(late).toMatchObject({ written: false, ends: [{ kind: 'broken', cause: { kind: 'exit' } }] });
  });

  it('ends what is sent between the exit and the end of a pipe that a child of its own holds', async () => {
    const timers: (() => void)[] = [];
    const clock: Clock = { now: () => 0, setTimeout: (fn) => timers.push(fn), clearTimeout: () => {} };
    const { transport, events } = await start(['leave', 'detached', 'idle'], { clock });
    await events.nextMessages(1);
    const { pid } = JSON.parse(events.messages[0]!) as { pid: number };
    while (timers.length === 0) await new Promise((resolve) => setImmediate(resolve));
    const late = exchange();
    transport.send('{"a":1}', late);
    expect(events.causes).toEqual([]);
    expect(late).toMatchObject({
      written: false,
      ends: [{ kind: 'broken', cause: { kind: 'exit', exitCode: 5 } }],
    });
    timers[0]!();
    expect(await events.cause()).toMatchObject({ kind: 'exit', exitCode: 5 });
    process.kill(pid, 'SIGKILL');
  });

  it('is told for an immediate exit, whatever is sent meanwhile', async () => {
    for (let n = 0; n < 5; n += 1) {
      const events = new Recorder();
      const transport = server(['exit', '1'])(events);
      running.add(transport);
      const sent = exchange();
      transport.send(`{"a":"${'x'.repeat(MIB)}"}`, sent);
      expect(await transport.open()).toEqual({ ok: true });
      expect(await events.cause()).toMatchObject({ kind: 'exit', exitCode: 1 });
      expect(events.causes).toHaveLength(1);
    }
  });

  it('is awaited in vain where the process only closed its input', async () => {
    const { transport, events } = await start(['closeStdin'], { shutdownGraceMs: 20 });
    await events.nextMessages(1);
    const sent = exchange();
    transport.send('{"a":1}', sent);
    const waiting = exchange();
    transport.send('{"b":2}', waiting);
    expect(await events.cause()).toMatchObject({ kind: 'reset' });
    expect(sent.written).toBe(true);
    expect(events.causes).toHaveLength(1);
  });

  it('is awaited in vain where the process only closed its output', async () => {
    const { events } = await start(['closeStdout'], { shutdownGraceMs: 20 });
    expect(await events.cause()).toMatchObject({ kind: 'end-of-output' });
    expect(events.messages).toEqual(['{"last":true}']);
  });
});

describe('the child', () => {
  it('gets its configured environment, the path, and no secret of the host', async () => {
    process.env['FAKE_TOKEN'] = 'canary-value';
    try {
      const { events } = await start(['env'], { env: { FOO: '1', LANG: 'xx' } });
      const env = JSON.parse((await events.nextMessages(1))[0]!) as Record<string, string>;
      expect(env).toMatchObject({
        FOO: '1',
        LANG: 'xx',
        PATH: process.env['PATH'],
        TERM: 'dumb',
        NO_COLOR: '1',
      });
      expect(Object.keys(env)).not.toContain('FAKE_TOKEN');
      expect(Object.keys(env).filter((name) => /VITEST|NODE_/.test(name))).toEqual([]);
    } finally {
      delete process.env['FAKE_TOKEN'];
    }
  });

  it('gets its arguments as they are, and its working directory', async () => {
    const argv = [
      '<3',
      '>x',
      'a & b',
      '|',
      '%PATH%',
      '$HOME',
      '`id`',
      "it's",
      '"q"',
      '^',
      '',
      ' ',
      'ä\n\\',
      '--',
      '*',
    ];
    const { events } = await start(['argv', ...argv], { cwd: folder });
    expect(JSON.parse((await events.nextMessages(1))[0]!)).toEqual({ argv, cwd: folder });
  });

  it('is found in the configured path', async () => {
    const events = new Recorder();
    const transport = stdioTransport({
      command: path.basename(process.execPath),
      args: [SERVER, 'argv'],
      env: { PATH: path.dirname(process.execPath) },
    })(events);
    running.add(transport);
    expect(await transport.open()).toEqual({ ok: true });
    await events.nextMessages(1);
  });
});

describe('a start that fails', () => {
  const failing = async (options: Partial<StdioOptions>): Promise<unknown> => {
    const events = new Recorder();
    const transport = stdioTransport({ command: process.execPath, args: [], ...options })(events);
    const result = await transport.open();
    expect(await transport.open()).toBe(result);
    const late = exchange();
    transport.send('{}', late);
    await transport.close();
    expect(events.causes).toHaveLength(1);
    expect(late).toMatchObject({ written: false, ends: [{ kind: 'broken' }] });
    return result;
  };

  it('says that the command is missing', async () => {
    expect(await failing({ command: 'no-such-command-anywhere' })).toEqual({
      ok: false,
      cause: { kind: 'spawn-failed', detail: 'command not found: no-such-command-anywhere', terminal: true },
    });
    expect(await failing({ command: './no/such' })).toMatchObject({ ok: false, cause: { terminal: true } });
  });

  it('says that the working directory is missing, or is none', async () => {
    expect(await failing({ cwd: path.join(folder, 'nowhere') })).toMatchObject({
      cause: {
        kind: 'spawn-failed',
        detail: expect.stringContaining('working directory not found'),
        terminal: true,
      },
    });
    expect(await failing({ cwd: SERVER })).toMatchObject({
      cause: { detail: expect.stringContaining('working directory is no directory'), terminal: true },
    });
  });

  it('says that the file may not be executed, or is a directory', async () => {
    const file = path.join(folder, 'plain.txt');
    writeFileSync(file, 'text', { mode: 0o644 });
    expect(await failing({ command: file })).toMatchObject({
      cause: { kind: 'spawn-failed', detail: `command may not be executed: ${file}`, terminal: true },
    });
    expect(await failing({ command: folder })).toMatchObject({
      cause: { detail: `command is a directory: ${folder}`, terminal: true },
    });
  });

  it('says that the interpreter of a script is missing', async () => {
    const file = path.join(folder, 'script');
    writeFileSync(file, '#!/no/such/interpreter\n', { mode: 0o755 });
    expect(await failing({ command: file })).toMatchObject({
      cause: { kind: 'spawn-failed', detail: expect.stringContaining('interpreter'), terminal: true },
    });
  });

  it('is no exception where the arguments can never be passed, and quotes none of them', async () => {
    for (const options of [
      { args: ['canary\0'] },
      { env: { A: 'canary\0' } },
      { args: ['canary'.repeat(1 << 20)] },
    ]) {
      const result = await failing(options);
      expect(result).toMatchObject({ ok: false, cause: { kind: 'spawn-failed', terminal: true } });
      expect(JSON.stringify(result)).not.toContain('canary');
    }
  });
});
