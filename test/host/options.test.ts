import { readFileSync } from 'node:fs';
import { isAbsolute, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import type { HostOptions, PeerConfig } from '../../src/host/config.js';
import { LIMITS } from '../../src/host/configChecks.js';
import { ConfigurationError, formatPath } from '../../src/host/errors.js';
import { parseHostOptions, parsePeer } from '../../src/host/options.js';
import { PACKAGE_NAME, PACKAGE_VERSION } from '../../src/host/version.js';
import { LEGACY_REVISIONS, MODERN_REVISIONS } from '../../src/protocol/revisions.js';

const SECRET = 'sk-very-secret-value';

/** What a host author without TypeScript, or a file, may hand in. */
function refused(options: unknown): ConfigurationError {
  try {
    parseHostOptions(options as HostOptions);
  } catch (error) {
    if (error instanceof ConfigurationError) {
      expect(error.message).not.toContain(SECRET);
      return error;
    }
    throw error;
  }
  throw new Error('was accepted');
}

const one = (peer: unknown) => refused({ peers: { archive: peer } });
const resolvedPeer = (peer: PeerConfig) => parseHostOptions({ peers: { archive: peer } }).peers[0];

describe('defaults', () => {
  it('fills in every limit, policy, revision and identity', () => {
    const { peers, ...rest } = parseHostOptions({ peers: {} });
    expect(peers).toEqual([]);
    expect(rest).toEqual({
      probeTimeoutMs: 15_000,
      legacyProbeTimeoutMs: 15_000,
      listTimeoutMs: 30_000,
      callTimeoutMs: 60_000,
      maxCallMs: 600_000,
      startTimeoutMs: 30_000,
      stableAfterMs: 30_000,
      backoffMinMs: 500,
      backoffMaxMs: 30_000,
      maxAttempts: 8,
      retryUnavailableAfterMs: 60_000,
      maxInFlight: 64,
      maxQueue: 1_024,
      maxRounds: 16,
      breakerThreshold: 5,
      breakerOpenMs: 10_000,
      maxSimultaneousStarts: 8,
      maxMessageBytes: 16 * 1024 * 1024,
      shutdownGraceMs: 2_000,
      collisions: 'prefix',
      clientInfo: { name: PACKAGE_NAME, version: PACKAGE_VERSION },
      modernRevisions: MODERN_REVISIONS,
      legacyRevisions: LEGACY_REVISIONS,
    });
  });

  it('names this package as package.json does', () => {
    const manifest = JSON.parse(readFileSync(join(import.meta.dirname, '../../package.json'), 'utf8'));
    expect([PACKAGE_NAME, PACKAGE_VERSION]).toEqual([manifest.name, manifest.version]);
  });

  it('are told in docs/configuration.md, with their bounds', () => {
    const file = join(import.meta.dirname, '../../docs/configuration.md');
    // The formatter pads the columns.
    const page = readFileSync(file, 'utf8').replace(/ +/g, ' ');
    const written = (value: number) => value.toLocaleString('en');
    for (const [key, { byDefault, min, max }] of Object.entries(LIMITS)) {
      expect(page).toContain(`| \`${key}\` | ${written(byDefault)} | ${written(min)} to ${written(max)} |`);
    }
  });

  it('makes a peer complete: never allowlisted, never required, never trusted by default', () => {
    expect(resolvedPeer({ command: 'node' })).toEqual({
      name: 'archive',
      transport: 'stdio',
      command: 'node',
      args: [],
      cwd: process.cwd(),
      env: {},
      allowLegacy: false,
      required: false,
      trust: 'untrusted',
      labels: {},
      serialize: [],
      repeatable: [],
    });
    expect(resolvedPeer({ url: 'HTTP://Example.COM:80/mcp#part' })).toEqual({
      name: 'archive',
      transport: 'streamable-http',
      url: 'http://example.com/mcp',
      headers: {},
      allowLegacy: false,
      required: false,
      trust: 'untrusted',
      labels: {},
      serialize: [],
      repeatable: [],
    });
  });

  it('makes the working directory absolute', () => {
    const peer = resolvedPeer({ command: 'node', cwd: 'data' });
    expect(peer?.transport === 'stdio' && isAbsolute(peer.cwd)).toBe(true);
  });

  it('treats undefined as absent', () => {
    const options = {
      peers: { a: { command: 'x', cwd: undefined, env: { A: undefined } } },
      callTimeoutMs: undefined,
    };
    const parsed = parseHostOptions(options as unknown as HostOptions);
    expect(parsed.callTimeoutMs).toBe(60_000);
    expect(parsed.peers[0]).toMatchObject({ env: {} });
  });

  it('lets a default give way to the number that was configured beside it', () => {
    expect(parseHostOptions({ peers: {}, callTimeoutMs: 700_000 }).maxCallMs).toBe(700_000);
    expect(parseHostOptions({ peers: {}, maxCallMs: 1_000 }).callTimeoutMs).toBe(1_000);
    expect(parseHostOptions({ peers: {}, backoffMaxMs: 10 }).backoffMinMs).toBe(10);
    expect(refused({ peers: {}, callTimeoutMs: 20, maxCallMs: 10 }).path).toBe('maxCallMs');
    expect(refused({ peers: {}, backoffMinMs: 20, backoffMaxMs: 10 }).path).toBe('backoffMaxMs');
  });
});

describe('what comes out', () => {
  it('is frozen all the way down and shares nothing with what came in', () => {
    const peer = { command: 'node', args: ['a'], env: { A: '1' }, labels: { risk: 'low' } };
    const options = { peers: { archive: peer }, modernRevisions: ['2026-07-28'] };
    const parsed = parseHostOptions(options);
    peer.args.push('b');
    peer.env.A = '2';
    options.modernRevisions.push('2027-01-01');
    expect(parsed.peers[0]).toMatchObject({ args: ['a'], env: { A: '1' } });
    expect(parsed.modernRevisions).toEqual(['2026-07-28']);
    const walk = (value: unknown): void => {
      if (typeof value !== 'object' || value === null) return;
      expect(Object.isFrozen(value)).toBe(true);
      Object.values(value).forEach(walk);
    };
    walk(parsed);
    expect(() => {
      (parsed.peers[0] as { allowLegacy: boolean }).allowLegacy = true;
    }).toThrow(TypeError);
  });

  it('keeps the factory a host supplies as it is', () => {
    const createTransport = () => {
      throw new Error('not called');
    };
    const peer = resolvedPeer({ createTransport, identity: 'memory:one' });
    expect(peer).toMatchObject({ transport: 'custom', identity: 'memory:one', createTransport });
    expect(Object.isFrozen(createTransport)).toBe(false);
  });

  it('sorts revisions and drops repetitions', () => {
    const parsed = parseHostOptions({
      peers: {},
      modernRevisions: ['2027-01-01', '2026-07-28', '2027-01-01'],
      legacyRevisions: ['2025-11-25', '2025-06-18'],
    });
    expect(parsed.modernRevisions).toEqual(['2026-07-28', '2027-01-01']);
    expect(parsed.legacyRevisions).toEqual(['2025-06-18', '2025-11-25']);
  });
});

describe('peer names', () => {
  it.each(['a', 'A', '0', 'a.b-c_d', 'constructor', 'toString', 'hasOwnProperty', 'x'.repeat(64)])(
    'takes %s',
    (name) => {
      const parsed = parseHostOptions({ peers: { [name]: { command: 'node' } } });
      expect(parsed.peers.map((peer) => peer.name)).toEqual([name]);
    },
  );

  it.each(['', '_a', '.a', '-a', 'a/b', 'a b', 'a\n', 'ä', 'x'.repeat(65), '*'])('refuses %j', (name) => {
    const error = refused({ peers: { [name]: { command: 'node' } } });
    expect(error.segments).toEqual(['peers', name]);
  });

  it('refuses __proto__ as an own key and ignores what a prototype brings', () => {
    const peers = JSON.parse('{"__proto__": {"command": "node", "allowLegacy": true}}');
    expect(refused({ peers }).segments).toEqual(['peers', '__proto__']);
    const inherited = Object.assign(Object.create(null), { peers: { a: { command: 'node' } } });
    expect(parseHostOptions(inherited).peers).toHaveLength(1);
  });

  it('takes names that are equal but for letter case', () => {
    const parsed = parseHostOptions({ peers: { Notes: { command: 'a' }, notes: { command: 'b' } } });
    expect(parsed.peers.map((peer) => peer.name)).toEqual(['Notes', 'notes']);
  });
});

describe('allowLegacy', () => {
  it.each([['yes'], [1], [0], [null], [[]], ['true'], [{}]])('refuses %j', (allowLegacy) => {
    const error = one({ command: 'node', allowLegacy });
    expect(error.path).toBe('peers.archive.allowLegacy');
    expect(error.allowed).toBe('true or false');
  });

  it('does not exist for the whole host, nor under other names', () => {
    expect(refused({ peers: {}, allowLegacy: true }).path).toBe('allowLegacy');
    expect(refused({ peers: { allowLegacy: true } }).path).toBe('peers.allowLegacy');
    for (const key of ['allowlegacy', 'allow_legacy', 'legacy']) {
      expect(one({ command: 'node', [key]: true }).path).toBe(`peers.archive.${key}`);
    }
  });

  it('contradicts a host without legacy revisions', () => {
    const error = refused({ peers: { a: { command: 'node', allowLegacy: true } }, legacyRevisions: [] });
    expect(error.path).toBe('peers.a.allowLegacy');
    expect(() => parsePeer('a', { command: 'node', allowLegacy: true }, [])).toThrow(ConfigurationError);
    expect(parsePeer('a', { command: 'node', allowLegacy: true }, ['2025-11-25']).allowLegacy).toBe(true);
  });
});

describe('which transport', () => {
  it('refuses a peer with a command and a url, and names it', () => {
    const error = one({ command: 'node', url: 'http://localhost/', transport: 'streamable-http' });
    expect(error.path).toBe('peers.archive');
    expect(error.message).toContain('command and url');
    expect(error.message).toContain('"archive"');
  });

  it('refuses a peer with neither', () => {
    expect(one({}).path).toBe('peers.archive');
    expect(one({ command: undefined }).path).toBe('peers.archive');
  });

  it.each(['sse', 'http', 'websocket', 'streamableHttp', 7, null])(
    'refuses the transport %j and says what is allowed',
    (transport) => {
      const url = one({ url: 'http://localhost/', transport });
      expect(url.path).toBe('peers.archive.transport');
      expect(url.allowed).toContain('streamable-http');
      expect(one({ command: 'node', transport }).allowed).toContain('stdio');
    },
  );

  it('takes legacy-sse only where the peer allows legacy', () => {
    const error = one({ url: 'http://localhost/', transport: 'legacy-sse' });
    expect(error.path).toBe('peers.archive.transport');
    expect(error.message).toContain('allowLegacy: true');
    const config = { url: 'http://localhost/', transport: 'legacy-sse', allowLegacy: true };
    expect(parsePeer('a', config, ['2025-11-25']).transport).toBe('legacy-sse');
  });

  it('refuses a transport that contradicts the other keys', () => {
    expect(one({ command: 'node', transport: 'streamable-http' }).path).toBe('peers.archive.transport');
    expect(one({ url: 'http://localhost/', transport: 'stdio' }).path).toBe('peers.archive.transport');
    expect(one({ url: 'http://localhost/', args: [] }).path).toBe('peers.archive.args');
    expect(one({ command: 'node', headers: {} }).path).toBe('peers.archive.headers');
  });

  it.each([
    'ftp://localhost/',
    'file:///etc/passwd',
    'localhost:80',
    '/mcp',
    '',
    'ws://localhost/',
    'javascript:1',
    `http://user:${SECRET}@localhost/`,
    `http://${SECRET}@localhost/`,
  ])('refuses the URL %s', (url) => {
    expect(one({ url }).path).toBe('peers.archive.url');
  });
});

describe('headers', () => {
  const headers = (map: Record<string, unknown>) => one({ url: 'http://localhost/', headers: map });

  it('takes ordinary ones, names in lower case', () => {
    const peer = resolvedPeer({
      url: 'https://localhost/',
      headers: { Authorization: 'Bearer x', 'X-Empty': '', 'x-latin': 'caf\u00e9' },
    });
    expect(peer).toMatchObject({
      headers: { authorization: 'Bearer x', 'x-empty': '', 'x-latin': 'caf\u00e9' },
    });
  });

  it.each([
    'Mcp-Method',
    'mcp-session-id',
    'MCP-Protocol-Version',
    'mcp-param-x',
    'Content-Type',
    'accept',
    'Host',
    'content-length',
    'Content-Encoding',
    'Transfer-Encoding',
    'connection',
    'Upgrade',
    'Last-Event-ID',
  ])('refuses %s', (name) => {
    expect(headers({ [name]: 'x' }).segments).toEqual(['peers', 'archive', 'headers', name]);
  });

  it.each(['', 'a b', 'a:b', 'é', 'a\r\nb', `Authorization: Bearer ${SECRET}`])(
    'refuses the name %j without showing it',
    (name) => {
      expect(headers({ [name]: 'x' }).path).toBe('peers.archive.headers');
    },
  );

  it('refuses __proto__', () => {
    expect(headers(JSON.parse('{"__proto__":"x"}')).path).toBe('peers.archive.headers');
  });

  it.each([
    `${SECRET}\r\nX-Evil: 1`,
    `${SECRET}\n`,
    ` ${SECRET}`,
    `${SECRET}\t`,
    `${SECRET}\0`,
    `${SECRET}\u0100`,
    '\x7f',
    5,
  ])('refuses the value %j without showing it', (value) => {
    expect(headers({ 'x-key': value }).path).toBe('peers.archive.headers.x-key');
  });

  it('refuses one header in two spellings', () => {
    expect(headers({ 'X-A': '1', 'x-a': '2' }).message).toContain('second time');
  });
});

describe('the rest', () => {
  it.each(Object.keys(LIMITS) as (keyof typeof LIMITS)[])('bounds %s', (key) => {
    const { min, max } = LIMITS[key];
    for (const value of [min - 1, max + 1, 1.5, Number.NaN, Number.POSITIVE_INFINITY, '5', null, true]) {
      const error = refused({ peers: {}, [key]: value });
      expect(error.path).toBe(key);
      expect(error.allowed).toBe(`a whole number from ${min} to ${max}`);
    }
    expect(parseHostOptions({ peers: {}, [key]: max })[key]).toBe(max);
    expect(parseHostOptions({ peers: {}, [key]: min })[key]).toBe(min);
  });

  it.each([
    [{ peers: {}, wildcard: true }, 'wildcard'],
    [{ peers: [] }, 'peers'],
    [{ peers: null }, 'peers'],
    [{}, 'peers'],
    [null, ''],
    [[], ''],
    ['x', ''],
    [{ peers: { a: 'node' } }, 'peers.a'],
    [{ peers: { a: { command: 'node', args: 'x' } } }, 'peers.a.args'],
    [{ peers: { a: { command: 'node', args: ['x', 1] } } }, 'peers.a.args[1]'],
    [{ peers: { a: { command: '' } } }, 'peers.a.command'],
    [{ peers: { a: { command: 'a\0b' } } }, 'peers.a.command'],
    [{ peers: { a: { command: 'node', args: ['\0'] } } }, 'peers.a.args[0]'],
    [{ peers: { a: { command: 'node', cwd: '' } } }, 'peers.a.cwd'],
    [{ peers: { a: { command: 'node', env: { A: 1 } } } }, 'peers.a.env.A'],
    [{ peers: { a: { command: 'node', env: { [`A=${SECRET}`]: '' } } } }, 'peers.a.env'],
    [{ peers: { a: { command: 'node', env: JSON.parse('{"__proto__":"x"}') } } }, 'peers.a.env'],
    [{ peers: { a: { command: 'node', env: [] } } }, 'peers.a.env'],
    [{ peers: { a: { command: 'node', trust: true } } }, 'peers.a.trust'],
    [{ peers: { a: { command: 'node', required: 'yes' } } }, 'peers.a.required'],
    [{ peers: { a: { command: 'node', labels: { x: 1 } } } }, 'peers.a.labels.x'],
    [{ peers: { 'a.b': { command: 'node', shell: true } } }, 'peers["a.b"].shell'],
    [
      { peers: { a: JSON.parse('{"command":"node","__proto__":{"allowLegacy":true}}') } },
      'peers.a.__proto__',
    ],
    [{ peers: { a: { createTransport: 1, identity: 'x' } } }, 'peers.a.createTransport'],
    [{ peers: { a: { createTransport: () => {} } } }, 'peers.a.identity'],
    [{ peers: { a: { createTransport: () => {}, identity: '' } } }, 'peers.a.identity'],
    [{ peers: {}, collisions: 'overwrite' }, 'collisions'],
    [{ peers: {}, clientInfo: { name: 'x' } }, 'clientInfo.version'],
    [{ peers: {}, clientInfo: { name: 'x\u001b', version: '1' } }, 'clientInfo.name'],
    [{ peers: {}, modernRevisions: [] }, 'modernRevisions'],
    [{ peers: {}, modernRevisions: ['2025-11-25'] }, 'modernRevisions[0]'],
    [{ peers: {}, modernRevisions: ['latest'] }, 'modernRevisions[0]'],
    [{ peers: {}, legacyRevisions: ['2026-07-28'] }, 'legacyRevisions[0]'],
    [{ peers: {}, legacyRevisions: '2025-11-25' }, 'legacyRevisions'],
  ])('refuses %j at %s', (options, path) => {
    expect(refused(options).path).toBe(path);
  });

  it('never shows a text that may be a secret', () => {
    one({ command: 'node', args: { [SECRET]: 1 } });
    one({ command: 'node', args: SECRET });
    one({ command: 'node', cwd: [SECRET] });
    one({ command: 'node', allowLegacy: SECRET });
    one({ command: 'node', env: SECRET });
    one({ url: SECRET });
    one({ url: 'http://localhost/', headers: SECRET });
    refused({ peers: { transport: SECRET } });
    refused({ peers: { transport: { command: 'node', args: SECRET, trust: false } } });
  });

  it('shows words of ours', () => {
    expect(refused({ peers: {}, collisions: 'overwrite' }).message).toBe(
      'collisions: got "overwrite"; allowed: "prefix" or "prefix-always" or "reject"',
    );
  });
});

describe('formatPath', () => {
  it('writes a path as one would in code', () => {
    expect(formatPath(['peers', 'a', 'args', 0])).toBe('peers.a.args[0]');
    expect(formatPath(['peers', 'a"b\u202e'])).toBe('peers["a\\"b\\u{202e}"]');
    expect(formatPath([])).toBe('');
  });
});
