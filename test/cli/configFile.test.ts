/* biome-ignore-all lint/suspicious/noTemplateCurlyInString: these are the texts that people write */

import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readConfigFile } from '../../src/cli/configFile.js';
import { MAX_FILE_BYTES } from '../../src/cli/document.js';
import { ConfigurationError } from '../../src/host/errors.js';

const SECRET = 'sk-very-secret-value';
const env = { TOKEN: SECRET, NAME: 'files', EMPTY: '' };

let folder = '';
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'peerage-config-'));
});
afterAll(() => {
  rmSync(folder, { recursive: true, force: true });
});

const read = (content: unknown) => {
  const file = join(folder, 'peerage.json');
  writeFileSync(
    file,
    typeof content === 'string' || content instanceof Buffer ? content : JSON.stringify(content),
  );
  return readConfigFile(file, env);
};
const refused = async (content: unknown): Promise<ConfigurationError> => {
  const error: unknown = await read(content).then(
    () => new Error('was accepted'),
    (thrown: unknown) => thrown,
  );
  if (!(error instanceof ConfigurationError)) throw error;
  expect(error.file).toBe(join(folder, 'peerage.json'));
  expect(error.message).toContain('peerage.json');
  expect(error.message).not.toContain(SECRET);
  return error;
};

describe('the own shape', () => {
  it('is read, with comments and trailing commas', async () => {
    const { options, warnings, file } = await read(`\uFEFF// peers
      {
        "$schema": "x",
        "peers": {
          "archive": { "command": "node", "args": ["server.js",], "allowLegacy": true }, /* old */
          "notes": { "url": "http://localhost:1/mcp", "headers": { "X-A": "1" } },
        },
        "collisions": "reject",
        "callTimeoutMs": 5,
      }`);
    expect(file).toBe(join(folder, 'peerage.json'));
    expect(warnings).toEqual([]);
    expect(options).toEqual({
      peers: {
        archive: { command: 'node', args: ['server.js'], allowLegacy: true },
        notes: { url: 'http://localhost:1/mcp', headers: { 'X-A': '1' } },
      },
      collisions: 'reject',
      callTimeoutMs: 5,
    });
  });

  it('expands variables in command, args, cwd, env, url and headers, and nowhere else', async () => {
    const { options } = await read({
      peers: {
        a: {
          command: '${NAME}-server',
          args: ['--as=${NAME}', '${MISSING:-none}'],
          cwd: '${NAME}',
          env: { TOKEN: '${env:TOKEN}', PLAIN: '$${NAME}' },
          labels: { note: '${NAME}' },
        },
        b: { url: 'http://localhost/${NAME}', headers: { Authorization: 'Bearer ${TOKEN}' } },
      },
    });
    expect(options.peers).toEqual({
      a: {
        command: 'files-server',
        args: ['--as=files', 'none'],
        cwd: join(folder, 'files'),
        env: { TOKEN: SECRET, PLAIN: '${NAME}' },
        labels: { note: '${NAME}' },
      },
      b: { url: 'http://localhost/files', headers: { Authorization: `Bearer ${SECRET}` } },
    });
  });

  it('expands what authorizes, and the proxy', async () => {
    const issuer = 'https://login.example.com';
    const client = { type: 'client-credentials', clientId: '${NAME}', clientSecret: '${TOKEN}', issuer };
    const url = 'https://notes.example.com/mcp';
    const { options } = await read({
      peers: {
        a: {
          url,
          auth: { type: 'bearer', token: '${TOKEN}' },
          proxy: 'http://${NAME}:${TOKEN}@localhost:3128',
        },
        b: { url, auth: client },
      },
    });
    expect(options.peers).toEqual({
      a: { url, auth: { type: 'bearer', token: SECRET }, proxy: `http://files:${SECRET}@localhost:3128` },
      b: { url, auth: { ...client, clientId: 'files', clientSecret: SECRET } },
    });
  });

  it.each([
    [{ type: 'bearer', token: '${EMPTY}' }, 'token'],
    [{ type: 'bearer', token: 'Bearer ${TOKEN}' }, 'token'],
    [{ type: 'bearer', token: '${GONE}' }, 'token'],
    [{ type: 'private-key-jwt', clientId: 'a', privateKey: '${TOKEN}' }, 'privateKey'],
    [{ tokens: '${TOKEN}', clientInformation: {} }, 'type'],
  ])('refuses the auth %j, and shows no value', async (auth, key) => {
    const error = await refused({ peers: { a: { url: 'https://notes.example.com/mcp', auth } } });
    expect(error.path).toBe(`peers.a.auth.${key}`);
    expect(error.position?.line).toBe(1);
  });

  it.each([
    [{ peers: { a: { command: '${GONE}' } } }, 'peers.a.command'],
    [{ peers: { a: { url: 'http://x/', proxy: 'http://${GONE}' } } }, 'peers.a.proxy'],
    [{ peers: { a: { command: 'x', args: ['ok', '${GONE}'] } } }, 'peers.a.args[1]'],
    [{ peers: { a: { command: 'x', cwd: '${GONE}/x' } } }, 'peers.a.cwd'],
    [{ peers: { a: { command: 'x', env: { KEY: '${TOKEN}${GONE}' } } } }, 'peers.a.env.KEY'],
    [{ peers: { a: { url: 'http://x/${GONE}' } } }, 'peers.a.url'],
    [{ peers: { a: { url: 'http://x/', headers: { 'x-a': 'Bearer ${GONE}' } } } }, 'peers.a.headers.x-a'],
  ])('names a variable that is not set: %j', async (content, path) => {
    const error = await refused(content);
    expect(error.path).toBe(path);
    expect(error.message).toContain('GONE');
  });

  it('checks what came of the expansion, without showing it', async () => {
    expect((await refused({ peers: { a: { url: '${TOKEN}' } } })).path).toBe('peers.a.url');
    expect((await refused({ peers: { a: { command: '${EMPTY}' } } })).path).toBe('peers.a.command');
    expect((await refused({ peers: { a: { command: 'x', allowLegacy: '${TRUE:-true}' } } })).path).toBe(
      'peers.a.allowLegacy',
    );
  });

  it('takes no keys of other hosts', async () => {
    for (const key of ['disabled', 'autoApprove', 'type', 'timeout', 'shell']) {
      expect((await refused({ peers: { a: { command: 'x', [key]: false } } })).path).toBe(`peers.a.${key}`);
    }
    expect((await refused({ peers: { a: { command: 'x' } }, inputs: [] })).path).toBe('inputs');
  });
});

describe('allowLegacy', () => {
  it.each([
    ['{"allowLegacy": true, "peers": {"a": {"command": "x"}}}', 'allowLegacy'],
    ['{"peers": {"allowLegacy": true, "a": {"command": "x"}}}', 'peers.allowLegacy'],
    ['{"peers": {"allowLegacy": {"command": "x"}}}', 'peers.allowLegacy'],
    ['{"peers": {"a": {"command": "x", "env": {"allowLegacy": "true"}}}}', 'peers.a.env.allowLegacy'],
    ['{"peers": {"a": {"command": "x", "labels": {"allowLegacy": "true"}}}}', 'peers.a.labels.allowLegacy'],
    ['{"peers": {"a": {"command": "x", "args": [{"allowLegacy": true}]}}}', 'peers.a.args[0].allowLegacy'],
    [
      '{"mcpServers": {"a": {"command": "x", "metadata": {"allowLegacy": true}}}}',
      'mcpServers.a.metadata.allowLegacy',
    ],
    ['{"mcpServers": {"a": {"command": "x"}}, "inputs": [{"allowLegacy": true}]}', 'inputs[0].allowLegacy'],
    ['{"servers": {"a": {"command": "x"}}, "allowLegacy": true}', 'allowLegacy'],
  ])('stands on a peer and nowhere else: %s', async (content, path) => {
    const error = await refused(content);
    expect(error.path).toBe(path);
    expect(error.allowed).toContain('on one peer');
    expect(error.position).toBeDefined();
  });

  it.each(['"yes"', '1', 'null', '"true"'])('is no %s', async (value) => {
    const error = await refused(`{"mcpServers": {"a": {"command": "x", "allowLegacy": ${value}}}}`);
    expect(error.path).toBe('mcpServers.a.allowLegacy');
    expect(error.allowed).toBe('true or false');
  });

  it('may stand on a peer of either foreign shape', async () => {
    for (const key of ['mcpServers', 'servers']) {
      const { options } = await read({
        [key]: { a: { command: 'x', allowLegacy: true }, b: { command: 'x' } },
      });
      expect(options.peers).toEqual({ a: { command: 'x', allowLegacy: true }, b: { command: 'x' } });
    }
  });
});

describe('shapes of other hosts', () => {
  it('reads mcpServers and warns of what it leaves out', async () => {
    const { options, warnings } = await read({
      mcpServers: {
        files: {
          command: 'npx',
          args: ['-y', 'x'],
          autoApprove: ['read'],
          timeout: 60,
          description: 'd',
          trust: true,
        },
        remote: {
          type: 'http',
          url: 'http://localhost/mcp',
          alwaysAllow: [],
          oauth: { clientId: 'x' },
          disabled: false,
        },
        old: { command: '${GONE}', disabled: true },
        off: { command: 'x', enabled: false },
      },
      globalShortcut: 'x',
      collisions: 'prefix-always',
    });
    expect(options).toEqual({
      peers: {
        files: { command: 'npx', args: ['-y', 'x'] },
        remote: { url: 'http://localhost/mcp', transport: 'streamable-http' },
      },
      collisions: 'prefix-always',
    });
    expect(warnings).toEqual([
      'ignored globalShortcut',
      'mcpServers.files: ignored autoApprove, timeout, description, trust',
      'mcpServers.remote: ignored alwaysAllow, oauth',
      'mcpServers.old: skipped, since it is disabled',
      'mcpServers.off: skipped, since it is disabled',
    ]);
  });

  it('reads servers', async () => {
    const { options, warnings } = await read({
      inputs: [],
      servers: {
        a: { type: 'stdio', command: 'node', envFile: '.env' },
        b: { type: 'http', url: 'http://localhost/' },
      },
    });
    expect(options.peers).toEqual({
      a: { command: 'node', transport: 'stdio' },
      b: { url: 'http://localhost/', transport: 'streamable-http' },
    });
    expect(warnings).toEqual(['ignored inputs', 'servers.a: ignored envFile']);
  });

  it.each([
    [{ url: 'http://x/', type: 'sse' }, 'type'],
    [{ url: 'http://x/', type: 'sse', allowLegacy: false }, 'type'],
    [{ url: 'http://x/', transport: 'legacy-sse' }, 'transport'],
    [{ command: 'x', type: 'sse', allowLegacy: true }, 'type'],
    [{ url: 'http://x/', type: 'stdio' }, 'type'],
    [{ url: 'http://x/', type: 7 }, 'type'],
    [{ command: 'x', type: 'http' }, 'type'],
    [{ command: 'x', disabled: 'yes' }, 'disabled'],
    [{ command: 'x', shell: true }, 'shell'],
    [{ command: 'x', headers: {} }, 'headers'],
    [{ command: 'x', trust: 'maybe' }, 'trust'],
    [{ url: 'http://x/', headers: { a: '${input:token}' } }, 'headers.a'],
  ])('refuses %j', async (server, key) => {
    expect((await refused({ mcpServers: { a: server } })).path).toBe(`mcpServers.a.${key}`);
  });

  it('reads sse as the legacy transport, where the peer allows legacy', async () => {
    const peer = { url: 'http://x/sse', allowLegacy: true };
    const { options } = await read({
      mcpServers: { a: { ...peer, type: 'sse' }, b: { ...peer, transport: 'legacy-sse' } },
    });
    const expected = { ...peer, transport: 'legacy-sse' };
    expect(options.peers).toEqual({ a: expected, b: expected });
    const error = await refused({ mcpServers: { a: { type: 'sse', url: 'http://x/sse' } } });
    expect(error.message).toContain('got "sse" without allowLegacy: true');
    const native = await refused({ peers: { a: { transport: 'legacy-sse', url: 'http://x/sse' } } });
    expect(native.path).toBe('peers.a.transport');
    expect(native.message).toContain('allowLegacy: true');
  });

  it('refuses a command beside a url, and names the peer', async () => {
    const error = await refused({ mcpServers: { both: { command: 'x', url: 'http://x/' } } });
    expect(error.path).toBe('mcpServers.both');
    const typed = await refused({ mcpServers: { both: { command: 'x', url: 'http://x/', type: 'http' } } });
    expect(typed.path).toBe('mcpServers.both');
    expect(error.message).toContain('"both"');
  });

  it('refuses an unknown key beside the servers', async () => {
    expect((await refused({ mcpServers: { a: { command: 'x' } }, wildcard: true })).path).toBe('wildcard');
  });
});

describe('the document', () => {
  it.each([
    ['{\n  "peers": {\n    "a": {"command": "x",, }\n}}', 3],
    ['{"peers": {}', 1],
    ['', 1],
    ['{"peers": {"a": {"command": "x"}}} trailing', 1],
    ["{'peers': {}}", 1],
  ])('tells where a syntax error is: %j', async (content, line) => {
    const error = await refused(content);
    expect(error.position?.line).toBe(line);
    expect(error.message).toMatch(/peerage\.json:\d+:\d+: got a syntax error/);
  });

  it('tells where a wrong value is', async () => {
    const error = await refused('{\n "peers": {\n  "a": {\n   "command": "x",\n   "args": [1]\n  }\n }\n}');
    expect(error.position).toEqual({ line: 5, column: 13 });
    expect(error.message).toContain('peerage.json:5:13: peers.a.args[0]: got 1; allowed: a text');
  });

  it.each([
    '{"peers": {"a": {"command": "x", "command": "y"}}}',
    '{"peers": {"a": {"command": "x"}, "a": {"command": "y"}}}',
    '{"peers": {"a": {"command": "x", "allowLegacy": false, "allowLegacy": true}}}',
    '{"peers": {"a": {"command": "x", "env": {"A": "1", "\\u0041": "2"}}}}',
    '{"peers": {"a": {"command": "x"}}, "peers": {}}',
  ])('refuses a key that is there twice: %s', async (content) => {
    expect((await refused(content)).message).toContain('a second time');
  });

  it.each([
    ['[]', ''],
    ['"x"', ''],
    ['null', ''],
    ['{}', ''],
    ['{"peers": []}', 'peers'],
    ['{"peers": {}}', 'peers'],
    ['{"mcpServers": {"a": {"command": "x", "disabled": true}}}', 'mcpServers'],
    ['{"mcpServers": null}', 'mcpServers'],
    ['{"peers": {"a": null}}', 'peers.a'],
    ['{"peers": {"a": {"command": "x"}}, "mcpServers": {}}', 'mcpServers'],
    ['{"peers": {"__proto__": {"command": "x"}}}', 'peers.__proto__'],
    ['{"mcpServers": {"__proto__": {"command": "x"}}}', 'mcpServers.__proto__'],
    [
      '{"peers": {"a": {"command": "x", "__proto__": {"allowLegacy": false}}}}',
      'peers.a.__proto__.allowLegacy',
    ],
    ['{"__proto__": {"peers": {"a": {"command": "x"}}}}', ''],
    ['{"peers": {"a b": {"command": "x"}}}', 'peers["a b"]'],
  ])('refuses %s', async (content, path) => {
    expect((await refused(content)).path).toBe(path);
  });

  it('is bounded in size and depth', async () => {
    expect((await refused(' '.repeat(MAX_FILE_BYTES + 1))).allowed).toContain('1048576 bytes');
    expect((await refused('['.repeat(100) + ']'.repeat(100))).came).toContain('too deep');
    expect((await refused('['.repeat(500_000))).path).toBe('');
    expect((await refused(`{"peers": ${'['.repeat(100_000)}${']'.repeat(100_000)}}`)).came).toContain(
      'too deep',
    );
  });

  it('is UTF-8', async () => {
    expect((await refused(Buffer.from([0x7b, 0xff, 0x7d]))).came).toContain('UTF-8');
  });

  it('is a file', async () => {
    const thing = join(folder, 'thing');
    const kindOf = (file: string) =>
      readConfigFile(file, env).catch((error: ConfigurationError) => error.came);
    expect(await kindOf(thing)).toBe('no such file');
    mkdirSync(thing);
    expect(await kindOf(thing)).toBe('a folder');
    expect(await kindOf(join(folder, 'no', 'such'))).toBe('no such file');
  });

  it.skipIf(process.platform === 'win32')(
    'is no pipe, and a pipe without a writer hangs nothing',
    async () => {
      const pipe = join(folder, 'pipe');
      execFileSync('mkfifo', [pipe]);
      await expect(readConfigFile(pipe, env)).rejects.toThrow('no file');
    },
  );
});
