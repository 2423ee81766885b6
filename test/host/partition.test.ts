/** Whose answers may be mixed in a cache: equal where they may, different with everything that may make a difference. */
import { delimiter } from 'node:path';
import { describe, expect, test, vi } from 'vitest';
import { createPeerAuthorization } from '../../src/host/auth/createPeerAuthorization.js';
import type { PeerAuth, PeerConfig } from '../../src/host/config.js';
import { parsePeer } from '../../src/host/options.js';
import { partitionOf } from '../../src/host/partition.js';
import { systemClock } from '../../src/transports/clock.js';
import { memoryTransport } from '../../src/transports/memory.js';

const of = (config: PeerConfig, { name = 'peer', host = 'host-1', capabilities = {} } = {}) =>
  partitionOf(parsePeer(name, config, ['2025-11-25']), host, capabilities);

const stdio = { command: process.execPath, args: ['server.mjs', 'x'], cwd: '/tmp', env: { TOKEN: 's3cret' } };
const http = { url: 'https://example.com/mcp', headers: { Authorization: 'Bearer s3cret' } };
const custom = { identity: 'archive', createTransport: memoryTransport({ peer: () => ({ receive() {} }) }) };

describe.each<[string, PeerConfig]>([
  ['a process', stdio],
  ['an endpoint', http],
  ['a transport of the host', { ...custom, authorizationContext: 'alice' }],
])('%s', (_, config) => {
  test('is the same under another name, in another host, and whatever policy says of it', () => {
    const other = {
      ...config,
      allowLegacy: true,
      trust: 'trusted',
      labels: { a: 'b' },
      maxInFlight: 3,
    } as const;
    expect(of(other, { name: 'other', host: 'host-2' })).toEqual(of(config));
  });

  test('is another one where another client is declared to it', () => {
    const known = of(config, { capabilities: { roots: {} } });
    expect(known.identity).not.toBe(of(config).identity);
    expect(known.context).toBe(of(config).context);
  });

  test('shows nothing of what it was made of', () => {
    for (const part of Object.values(of(config))) expect(part).toMatch(/^[0-9a-f]{64}$/);
  });
});

test.each<[string, PeerConfig, PeerConfig]>([
  ['another command', stdio, { ...stdio, command: '/bin/sh' }],
  ['another argument', stdio, { ...stdio, args: ['server.mjs', 'y'] }],
  ['arguments cut elsewhere', stdio, { ...stdio, args: ['server.mjs x'] }],
  ['another folder', stdio, { ...stdio, cwd: '/' }],
  ['another URL', http, { ...http, url: 'https://example.com/mcp?tenant=1' }],
  ['another transport', http, { ...custom, identity: 'https://example.com/mcp' }],
  ['another identity', custom, { ...custom, identity: 'attic' }],
])('is another server: %s', (_, one, other) => {
  expect(of(other).identity).not.toBe(of(one).identity);
});

test.each<[string, PeerConfig, PeerConfig]>([
  ['another value in the environment', stdio, { ...stdio, env: { TOKEN: 'other' } }],
  ['one more in the environment', stdio, { ...stdio, env: { ...stdio.env, TENANT: '' } }],
  ['another token', http, { ...http, headers: { Authorization: 'Bearer other' } }],
  ['another header', http, { ...http, headers: { ...http.headers, 'X-Tenant': '1' } }],
  ['no header', http, { url: http.url }],
  [
    'another word of the host',
    { ...custom, authorizationContext: 'a' },
    { ...custom, authorizationContext: 'b' },
  ],
  ['no word of the host', { ...custom, authorizationContext: 'a' }, custom],
])('is the same server for somebody else: %s', (_, one, other) => {
  expect(of(other).identity).toBe(of(one).identity);
  expect(of(other).context).not.toBe(of(one).context);
});

test('headers are the same however their names are written', () => {
  expect(of({ ...http, headers: { AUTHORIZATION: 'Bearer s3cret' } })).toEqual(of(http));
});

test('a process inherits who it runs for', () => {
  const before = of({ ...stdio, env: {} });
  vi.stubEnv('HOME', `/somebody/else${delimiter}`);
  try {
    expect(of({ ...stdio, env: {} }).context).not.toBe(before.context);
    expect(of({ ...stdio, env: {} }).identity).toBe(before.identity);
  } finally {
    vi.unstubAllEnvs();
  }
});

test('of a transport of the host nothing private is shared, unless the host says for whom it is', () => {
  const context = (name: string, ownWord: string) => of(custom, { name, host: ownWord }).context;
  // Not even under the same name: it may have been added anew for somebody else.
  expect(context('a', 'word-2')).not.toBe(context('a', 'word-1'));
  expect(context('a', 'word-1')).toBe(context('a', 'word-1'));
  // One cannot be made to look like another by its word.
  const word = { ...custom, authorizationContext: 'word-1' };
  expect(of(word).context).not.toBe(context('peer', 'word-1'));
});

describe('what authorizes', () => {
  const url = 'https://example.com/mcp';
  const issuer = 'https://login.example.com';
  const machine = { type: 'client-credentials', clientId: 'a', clientSecret: 's3cret', issuer } as const;
  const word = (auth: PeerAuth): string => {
    const redact = (text: string): string => text;
    const none = (): void => undefined;
    const options = { peer: 'peer', auth, url, proxy: undefined, clock: systemClock, redact };
    const authorization = createPeerAuthorization({ ...options, onUrl: none, onContextChanged: none });
    const { context } = authorization;
    authorization.close();
    return context;
  };
  const under = (auth: PeerAuth) =>
    partitionOf(parsePeer('peer', { url, auth }, []), 'host-1', {}, word(auth));
  const bearer = (token: string): PeerAuth => ({ type: 'bearer', token });

  test.each<[string, PeerAuth, PeerAuth]>([
    ['another token', bearer('one'), bearer('two')],
    ['a client in place of a token', bearer('s3cret'), machine],
    ['another client', machine, { ...machine, clientId: 'b' }],
    ['another authorization server', machine, { ...machine, issuer: `${issuer}/tenant` }],
    ['another scope', machine, { ...machine, scope: 'read' }],
  ])('is the same server for somebody else: %s', (_, one, other) => {
    expect(under(other).identity).toBe(under(one).identity);
    expect(under(other).context).not.toBe(under(one).context);
  });

  test('is the same as long as it is the same', () => {
    for (const auth of [bearer('one'), machine]) expect(under(auth)).toEqual(under(auth));
    // A secret that was changed is still that client's.
    expect(under({ ...machine, clientSecret: 'other' })).toEqual(under(machine));
    expect(under(bearer('one')).context).not.toBe(of({ url }).context);
  });

  test('shows no token', () => {
    expect(JSON.stringify([word(bearer('s3cret')), word(machine)])).not.toContain('s3cret');
  });
});
