import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CallOutcome } from '../../src/calls/outcome.js';
import { CollisionError, ConfigurationError, RequiredPeerError } from '../../src/host/errors.js';
import { PACKAGE_VERSION } from '../../src/host/version.js';
import { answered, entry, failedReport, type RunOptions, report, run } from './fakeHost.js';

const SECRET = 'sk-very-secret-value';
let folder = '';
let file = '';
const start = process.cwd();

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'peerage-cli-'));
  file = join(folder, 'hosts.json');
  const peers = {
    archive: { command: 'archive-server', env: { API_TOKEN: SECRET } },
    notes: {
      url: `http://localhost:1/mcp?api_key=${SECRET}-q`,
      headers: { Authorization: `Bearer ${SECRET}-h` },
    },
    old: { command: 'old-server' },
  };
  writeFileSync(file, JSON.stringify({ peers, maxCallMs: 100_000 }));
  process.chdir(folder);
});
afterAll(() => {
  process.chdir(start);
  rmSync(folder, { recursive: true, force: true });
});

const all = [
  report('archive'),
  report('notes', { state: 'legacy', era: 'legacy', revision: '2025-11-25', tools: null }),
  failedReport('old'),
];
const withFile = (command: string, ...more: string[]) => [command, '--config', file, ...more];

describe('usage', () => {
  it('tells its version and its help, with examples and exit codes', async () => {
    expect(await run(['--version'])).toMatchObject({ code: 0, stdout: `${PACKAGE_VERSION}\n`, stderr: '' });
    const help = await run(['--help']);
    expect(help).toMatchObject({ code: 0, stderr: '' });
    for (const word of ['probe', 'tools', 'call', '--config', '130']) expect(help.stdout).toContain(word);
    const probe = await run(['probe', '--help']);
    expect(probe).toMatchObject({ code: 0, stderr: '' });
    expect(probe.stdout).toContain('--legacy-probe-timeout-ms');
  });

  it.each([
    [[], 'Usage'],
    [['nonsense'], 'unknown command'],
    [['probe', '--nonsense'], 'unknown option'],
    [['call'], 'missing required argument'],
    [['tools', 'archive'], 'too many arguments'],
    [['probe'], 'there is no ./peerage.json'],
    [['probe', '--config', '/no/such/file.json'], 'no such file'],
    [['probe', '--'], 'no command after --'],
    [['probe', '--url', 'http://localhost/', '--', 'node'], 'exclude each other'],
    [['probe', '--config', 'x', '--', 'node'], 'exclude each other'],
    [['probe', '--config', 'x', '--url', 'http://localhost/'], 'exclude each other'],
    [['probe', '--header', `X: ${SECRET}`, '--', 'node'], '--header needs --url'],
    [['probe', '--url', 'http://localhost/', '--header', SECRET], "'Name: value'"],
    [['probe', '--url', 'http://localhost/', '--header', `Mcp-X: ${SECRET}`], 'inline.headers.Mcp-X'],
    [
      ['probe', '--url', 'http://localhost/', '--header', `A: ${SECRET}`, '--header', `A: ${SECRET}`],
      'second time',
    ],
    [
      ['probe', '--url', 'http://localhost/', '--header', `A: ${SECRET}`, '--header', `a: ${SECRET}`],
      'second time',
    ],
    [['probe', '--url', `ftp://${SECRET}/`], 'peers.inline.url'],
    [['probe', '--probe-timeout-ms', '1s', '--', 'node'], '--probe-timeout-ms'],
    [['probe', '--probe-timeout-ms', '-1', '--', 'node'], '--probe-timeout-ms'],
    [['probe', '--probe-timeout-ms', '0', '--', 'node'], 'probeTimeoutMs'],
    [['probe', '--call-timeout-ms', '999999999', '--', 'node'], 'callTimeoutMs'],
    [['probe', '--collisions', 'overwrite', '--', 'node'], '--collisions'],
    [['probe', 'archive', '--', 'node'], 'only one'],
    [['call', 'x', '--args', SECRET, '--', 'node'], 'no JSON'],
    [['call', 'x', '--args', '[1]', '--', 'node'], 'JSON object'],
    [['call', 'x', '--args', 'null', '--', 'node'], 'JSON object'],
    [['call', 'x', '--args', '@/no/such/file', '--', 'node'], 'cannot be opened'],
    [['call', 'x', '--args', '@.', '--', 'node'], 'a folder'],
    [['call', 'x', '--args', '-', '--', 'node'], 'no JSON'],
  ])('%j is refused: %s', async (args, words) => {
    const result = await run(args);
    expect(result.code).toBe(2);
    expect(result.stderr).toContain(words);
    expect(result.stderr).not.toContain(SECRET);
    expect(result.stdout).toBe('');
    expect(result.options).toEqual([]);
  });

  it('allows legacy for an inline peer only', async () => {
    const refused = await run(withFile('probe', '--allow-legacy'));
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('put "allowLegacy": true on the peer');
    const inline = await run([
      'probe',
      '--allow-legacy',
      '--',
      'node',
      'server.mjs',
      '--allow-legacy',
      '--',
      '-x',
    ]);
    expect(inline.options[0]?.peers).toEqual({
      inline: { command: 'node', args: ['server.mjs', '--allow-legacy', '--', '-x'], allowLegacy: true },
    });
    const url = await run(['probe', '--url', 'http://localhost/', '--allow-legacy', '--header', 'X-A: b: c']);
    expect(url.options[0]?.peers).toEqual({
      inline: { url: 'http://localhost/', headers: { 'X-A': 'b: c' }, allowLegacy: true },
    });
    const own = await run(['probe', '--', 'node', '--allow-legacy']);
    expect(own.options[0]?.peers).toEqual({ inline: { command: 'node', args: ['--allow-legacy'] } });
  });

  it('reads ./peerage.json unasked and no other file', async () => {
    writeFileSync('.mcp.json', JSON.stringify({ mcpServers: { a: { command: 'x' } } }));
    expect((await run(['probe'])).code).toBe(2);
    writeFileSync('peerage.json', JSON.stringify({ peers: { mine: { command: 'x' } } }));
    const result = await run(['probe', '--json']);
    rmSync('peerage.json');
    expect(Object.keys(result.options[0]?.peers ?? {})).toEqual(['mine']);
    expect(result.stderr).toContain('peerage.json');
  });

  it('tells file, line and path of a wrong configuration, escaped', async () => {
    writeFileSync('bad.json', '{\n "peers": {"a\\u001b": {"command": "x"}}}');
    const result = await run(['probe', '--config', 'bad.json']);
    expect(result.code).toBe(2);
    expect(result.stderr).toContain('bad.json:2:12: peers["a\\u001b"]');
    expect(result.stderr).not.toContain('\x1b');
  });

  it('passes deadlines and policy over those of the file', async () => {
    const flags = ['--probe-timeout-ms', '11', '--legacy-probe-timeout-ms', '12', '--call-timeout-ms', '13'];
    const { options } = await run(withFile('probe', ...flags, '--collisions', 'reject'));
    expect(options[0]).toMatchObject({
      probeTimeoutMs: 11,
      legacyProbeTimeoutMs: 12,
      callTimeoutMs: 13,
      maxCallMs: 100_000,
      collisions: 'reject',
    });
  });

  it('looks once: no retry, and a start that is not cut short', async () => {
    const { options } = await run(withFile('probe'));
    expect(options[0]).toMatchObject({ maxAttempts: 0, retryUnavailableAfterMs: 0 });
    expect(options[0]?.startTimeoutMs).toBeGreaterThan(4 * 15_000 + 15_000 + 30_000);
  });

  it('warns of what it left out of a file', async () => {
    writeFileSync('other.json', JSON.stringify({ mcpServers: { a: { command: 'x', timeout: 5 } } }));
    const result = await run(['probe', '--json', '--config', 'other.json'], {
      host: { reports: [report('a')] },
    });
    expect(result.stderr).toContain('warning: mcpServers.a: ignored timeout');
    expect(result.code).toBe(0);
  });
});

describe('probe', () => {
  it('prints one stable document with --json, and the file on stderr', async () => {
    const result = await run(withFile('probe', '--json'), { host: { reports: all } });
    expect(result.code).toBe(1);
    expect(result.stderr).toBe(`peerage: using ${file}\n`);
    expect(JSON.parse(result.stdout)).toEqual({
      peers: [
        {
          name: 'archive',
          state: 'modern',
          era: 'modern',
          revision: '2026-07-28',
          server: { name: 'archive-server', version: '1.0.0' },
          reason: null,
          initializeSent: 0,
          ms: 12,
          tools: 2,
          record: [],
        },
        expect.objectContaining({ name: 'notes', state: 'legacy', era: 'legacy', tools: null }),
        expect.objectContaining({
          name: 'old',
          state: 'unavailable',
          era: 'unknown',
          revision: null,
          server: null,
          reason: { code: 'not-allowlisted', message: expect.any(String), fix: expect.any(String) },
          record: [
            {
              atMs: 2,
              sent: 'server/discover',
              id: 1,
              revision: '2026-07-28',
              outcome: 'error',
              detail: '-32601 Method not found',
              verdict: 'discover.ambiguous',
              rule: 'N5',
            },
          ],
        }),
      ],
    });
    expect(result.stdout.split('\n')).toHaveLength(2);
    expect(result.stops).toBe(1);
  });

  it('prints a table, and under a failed peer the reason and the fix', async () => {
    const result = await run(withFile('probe'), { host: { reports: all } });
    expect(result.code).toBe(1);
    expect(result.stdout.split('\n')).toEqual([
      '   PEER     STATE        ERA      REVISION    SERVER                TOOLS  MS',
      ' ● archive  modern       modern   2026-07-28  archive-server 1.0.0      2  12',
      ' ◐ notes    legacy       legacy   2025-11-25  notes-server 1.0.0        –  12',
      ' ✕ old      unavailable  unknown  –           –                         –  12',
      '   why     The probe was answered with -32601, which proves nothing.',
      '   fix     Add allowLegacy: true to old if you trust this command.',
      '',
      '2 of 3 callable',
      '',
    ]);
  });

  it('tells an inline peer the flag, not the key', async () => {
    const result = await run(['probe', '--', 'node'], { host: { reports: [failedReport('inline')] } });
    expect(result.stdout).toContain('add --allow-legacy');
    expect(result.stdout).not.toContain('allowLegacy');
    expect(result.stderr).toBe('');
  });

  it('ends with 0 where all are callable, also where a listing failed', async () => {
    const reports = [report('archive', { tools: null, listing: 'timeout' })];
    const result = await run(withFile('probe'), { host: { reports } });
    expect(result.code).toBe(0);
    expect(result.stdout).toContain('listing timeout');
  });

  it.each(['idle', 'probing', 'legacyProbe', 'reconnecting', 'unavailable', 'stopped'] as const)(
    'ends with 1 where a peer is %s',
    async (state) => {
      const result = await run(withFile('probe'), { host: { reports: [report('archive', { state })] } });
      expect(result.code).toBe(1);
      expect(result.stdout).toContain('why');
    },
  );

  it('probes only the peers that are named', async () => {
    const { options } = await run(withFile('probe', 'old', 'archive'));
    expect(Object.keys(options[0]?.peers ?? {})).toEqual(['archive', 'old']);
    const refused = await run(withFile('probe', 'nobody'));
    expect(refused.code).toBe(2);
    expect(refused.stderr).toContain('archive, notes, old');
    expect((await run(withFile('probe', 'toString'))).code).toBe(2);
  });

  it('reports all the same where a required peer failed or tools collide', async () => {
    for (const error of [
      new RequiredPeerError([failedReport('old')]),
      new CollisionError(['archive', 'notes'], 'read'),
    ]) {
      const start = () => Promise.reject(error);
      const result = await run(withFile('probe', '--json'), {
        host: { reports: [report('archive')], start },
      });
      expect(result.code).toBe(1);
      expect(result.stderr).toContain(error.message);
      expect(JSON.parse(result.stdout).peers).toHaveLength(1);
      expect(result.stops).toBe(1);
    }
  });

  it('has no raw control character of a server in its output', async () => {
    const evil = '\x1b]0;title\x07\x9b2J\u202e\u200b\r\nX';
    const reports = [
      report('archive', { server: { name: evil, version: evil }, listing: evil }),
      failedReport('old', { reason: { code: 'internal', message: evil, fix: evil } }),
    ];
    for (const flags of [[], ['--json']]) {
      const { stdout } = await run(withFile('probe', ...flags), { host: { reports } });
      expect(stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u);
    }
  });

  it('never shows a configured secret, though a server repeats it', async () => {
    const told = `got ${SECRET}, Bearer ${SECRET}-h and ${SECRET}-q`;
    const old = failedReport('old', { reason: { code: 'internal', message: told, fix: told } });
    const reports = [
      report('archive', { server: { name: told, version: SECRET }, listing: told }),
      { ...old, record: old.record.map((line) => ({ ...line, detail: told })) },
    ];
    const start = () => Promise.reject(new RequiredPeerError([old]));
    for (const flags of [[], ['--json']]) {
      const { stdout, stderr } = await run(withFile('probe', ...flags), { host: { reports, start } });
      expect(stdout + stderr).not.toContain(SECRET);
      expect(stdout).toContain('[redacted]');
    }
  });
});

describe('colour and progress', () => {
  it('are there on a terminal', async () => {
    const { stdout, stderr } = await run(withFile('probe'), { host: { reports: all }, tty: true });
    expect(stdout).toContain('\x1b[32m●\x1b[0m archive');
    expect(stderr).toContain('waiting for');
    expect(stderr.endsWith('\r\x1b[2K')).toBe(true);
  });

  it('are not there with NO_COLOR, in a pipe, or with --json', async () => {
    const env = { NO_COLOR: '1', TERM: 'dumb' };
    const plain: readonly [string[], RunOptions][] = [
      [withFile('probe'), { tty: true, env }],
      [withFile('probe'), {}],
    ];
    for (const [args, options] of plain) {
      const { stdout, stderr } = await run(args, { host: { reports: all }, ...options });
      expect(stdout + stderr).not.toContain('\x1b');
    }
    const json = await run(withFile('probe', '--json'), { host: { reports: all }, tty: true });
    expect(json.stdout).not.toContain('\x1b');
    expect(json.stderr).not.toContain('waiting for');
  });
});

describe('tools', () => {
  const entries = [
    entry('archive/read', 'archive', { local: 'read', description: undefined }),
    entry('read', 'notes', { description: 'Reads\na note.' }),
  ];
  const conflicts = [{ tool: 'read', owner: 'notes', peer: 'archive', exposedAs: 'archive/read' }];
  const quarantined = [
    { peer: 'notes', local: 'a\\u{a}', code: 'hostile-name', reason: 'control character' },
  ] as const;

  it('prints one stable document with --json', async () => {
    const reports = [report('archive'), report('notes')];
    const result = await run(withFile('tools', '--json'), {
      host: { reports, entries, conflicts, quarantined },
    });
    expect(result.code).toBe(0);
    const digest = `sha256:${'0'.repeat(64)}`;
    expect(JSON.parse(result.stdout)).toEqual({
      revision: 3,
      tools: [
        { name: 'archive/read', peer: 'archive', local: 'read', digest, description: null },
        { name: 'read', peer: 'notes', local: 'read', digest, description: 'Reads\na note.' },
      ],
      conflicts,
      quarantined,
    });
  });

  it('prints a table, conflicts, what was kept out, and what failed', async () => {
    const reports = [report('archive'), report('notes'), failedReport('old')];
    const result = await run(withFile('tools'), { host: { reports, entries, conflicts, quarantined } });
    expect(result.code).toBe(1);
    expect(result.stdout.split('\n')).toEqual([
      '   TOOL          PEER     DESCRIPTION',
      '   archive/read  archive',
      '   read          notes    Reads a note.',
      '',
      '   names declared twice',
      '   read: notes has it; of archive it is archive/read',
      '',
      '   kept out',
      '   notes → a\\u{a}: hostile-name, control character',
      '',
      ' ✕ old unavailable',
      '   why     The probe was answered with -32601, which proves nothing.',
      '   fix     Add allowLegacy: true to old if you trust this command.',
      '',
    ]);
  });

  it('ends with 1 where a listing failed or tools collide', async () => {
    const failed = [report('archive', { tools: null, listing: 'timeout' })];
    const result = await run(withFile('tools'), { host: { reports: failed } });
    expect(result.code).toBe(1);
    expect(result.stdout).toContain('no tools');
    expect(result.stdout).toContain('listing timeout');
    const start = () => Promise.reject(new CollisionError(['archive', 'notes'], 'read'));
    expect((await run(withFile('tools'), { host: { reports: [report('archive')], start } })).code).toBe(1);
  });

  it('has no raw control character of a server in its output', async () => {
    const evil = '\x1b[2J\u202e\u200b\r\n\x9b';
    const host = {
      reports: [report('notes')],
      entries: [entry(`x${evil}`, 'notes', { description: evil })],
      conflicts: [{ tool: evil, owner: 'notes', peer: 'archive', exposedAs: evil }],
      quarantined: [{ peer: 'notes', local: evil, code: 'hostile-name', reason: evil }] as const,
    };
    for (const flags of [[], ['--json']]) {
      const { stdout } = await run(withFile('tools', ...flags), { host });
      expect(stdout).not.toMatch(/(?!\n)[\p{Cc}\p{Cf}]/u);
    }
  });
});

describe('call', () => {
  const calling = (outcome: CallOutcome, reports = [report('notes')]) => ({
    host: { reports, call: async () => outcome },
  });

  it('prints the text of the result on stdout and all else on stderr', async () => {
    const result = await run(withFile('call', 'echo'), calling(answered('one\n\ttwo\x1b[2J')));
    expect(result).toMatchObject({ code: 0, stdout: 'one\n\ttwo\\u{1b}[2J\n', stops: 1 });
    expect(result.stderr).toContain('ok · echo · of notes · modern 2026-07-28 · 4 ms');
  });

  it('prints the outcome with --json', async () => {
    const outcome = answered('x\x9b');
    const result = await run(withFile('call', 'echo', '--json'), calling(outcome));
    expect(result.code).toBe(0);
    expect(result.stdout).not.toContain('\x9b');
    expect(JSON.parse(result.stdout)).toEqual(outcome);
  });

  it('passes name, arguments and signal', async () => {
    const seen: unknown[] = [];
    writeFileSync('args.json', '{"from": "file"}');
    const host = {
      call: async (name: string, args: unknown, options?: { signal?: AbortSignal }) => {
        seen.push([name, args, options?.signal?.aborted]);
        return answered('');
      },
    };
    await run(withFile('call', 'a/b'), { host });
    await run(withFile('call', 'a/b', '--args', '{"x": {"__proto__": 1}}'), { host });
    await run(withFile('call', 'a/b', '--args', '@args.json'), { host });
    await run(withFile('call', 'a/b', '--args', '-'), { host, stdin: '{"from": "stdin"}' });
    expect(seen).toEqual([
      ['a/b', {}, false],
      ['a/b', { x: JSON.parse('{"__proto__": 1}') }, false],
      ['a/b', { from: 'file' }, false],
      ['a/b', { from: 'stdin' }, false],
    ]);
  });

  it('ends with 1 for every status but ok', async () => {
    const statuses = [
      'invalid-arguments',
      'invalid-result',
      'denied',
      'not-found',
      'unavailable',
      'lost',
    ] as const;
    for (const status of [...statuses, 'protocol-error', 'timeout', 'cancelled', 'stale-route'] as const) {
      const { result: _, ...base } = answered('') as CallOutcome & { result: unknown };
      const outcome = {
        ...base,
        status,
        delivery: 'unknown',
        message: `why \x1b${SECRET}`,
      } as unknown as CallOutcome;
      const human = await run(withFile('call', 'echo'), calling(outcome));
      expect(human.code).toBe(1);
      expect(human.stdout).toBe('');
      expect(human.stderr).toContain(status);
      expect(human.stderr).toContain('why \\u{1b}[redacted]');
      expect(human.stderr).toContain('may have been executed');
      const json = await run(withFile('call', 'echo', '--json'), calling(outcome));
      expect(json.code).toBe(1);
      expect(JSON.parse(json.stdout).message).toBe('why \x1b[redacted]');
    }
    const toolError = await run(withFile('call', 'echo'), calling(answered('no', { status: 'tool-error' })));
    expect(toolError).toMatchObject({ code: 1, stdout: 'no\n' });
  });

  it('tells which peers failed where a tool is not found', async () => {
    const outcome = {
      ...answered(''),
      status: 'not-found',
      delivery: 'not-sent',
      peer: null,
      message: 'No such tool.',
    };
    const { result: _, ...notFound } = outcome as CallOutcome & { result: unknown };
    const result = await run(
      withFile('call', 'echo'),
      calling(notFound as CallOutcome, [failedReport('old')]),
    );
    expect(result.stderr).toContain('Nothing was sent.');
    expect(result.stderr).toContain('Add allowLegacy: true to old');
  });

  it('notes what is no text', async () => {
    const content = [
      { type: 'image', data: 'QUJD', mimeType: 'image/png' },
      { type: 'resource_link', uri: 'file:///x\u202e' },
      { type: 'resource', resource: { uri: 'note:1', text: 'inner' } },
      { type: 'resource', resource: { uri: 'note:2', blob: 'QUJD' } },
      { type: 'text' },
      { nothing: true },
    ];
    const result = await run(
      withFile('call', 'echo'),
      calling(answered('', { result: { content } } as never)),
    );
    expect(result.stdout.split('\n')).toEqual([
      '[image, image/png, 4 characters of base64]',
      '[resource_link, file:///x\\u{202e}]',
      'inner',
      '[resource, note:2]',
      '[text]',
      '[]',
      '',
    ]);
    const structured = answered('', { result: { content: [], structuredContent: { a: '\x9b' } } } as never);
    expect((await run(withFile('call', 'echo'), calling(structured))).stdout).toBe('{"a":"\\u009b"}\n');
  });

  it('calls nothing where the host may not be used', async () => {
    const host = { start: () => Promise.reject(new RequiredPeerError([failedReport('old')])) };
    const result = await run(withFile('call', 'echo', '--json'), { host });
    expect(result).toMatchObject({ code: 1, stdout: '', stops: 1 });
    expect(result.stderr).toContain('"old" is unavailable');
  });
});

describe('interruption', () => {
  const never = () => new Promise<never>(() => {});

  it('during the start stops the host and ends with 130', async () => {
    const interruption = new AbortController();
    const start = () => {
      interruption.abort();
      return never();
    };
    const result = await run(withFile('probe', '--json'), { host: { reports: all, start }, interruption });
    expect(result).toMatchObject({ code: 130, stdout: '', stops: 1 });
  });

  it('during a call stops the host and ends with 130, whether the call settles or not', async () => {
    for (const settle of [never, async () => answered('late')]) {
      const interruption = new AbortController();
      const call = () => {
        interruption.abort();
        return settle();
      };
      const result = await run(withFile('call', 'echo', '--json'), { host: { call }, interruption });
      expect(result).toMatchObject({ code: 130, stdout: '', stops: 1 });
    }
  });

  it('before the start makes no host', async () => {
    const interruption = new AbortController();
    interruption.abort();
    const result = await run(withFile('call', 'echo', '--args', '{}'), { interruption });
    expect(result).toMatchObject({ code: 130, stdout: '', stops: 0, options: [] });
  });
});

describe('faults', () => {
  it('stop the host, too', async () => {
    const start = () => Promise.reject(new Error('a bug'));
    const stopped: number[] = [];
    const host = { start, onStop: () => void stopped.push(1) };
    await expect(run(withFile('probe'), { host })).rejects.toThrow('a bug');
    expect(stopped).toEqual([1]);
  });

  it('of the configuration that only the host finds end with 2', async () => {
    const start = () =>
      Promise.reject(new ConfigurationError({ segments: ['peers'], came: 'x', allowed: 'y' }));
    expect(await run(withFile('probe'), { host: { start } })).toMatchObject({ code: 2, stops: 1 });
  });
});
