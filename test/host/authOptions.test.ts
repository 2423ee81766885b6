/** `auth` and `proxy` of a peer: what is taken, what is refused and where, and that nothing of it is ever shown. */
import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { HostOptions, PeerConfig } from '../../src/host/config.js';
import { ConfigurationError } from '../../src/host/errors.js';
import { parseHostOptions } from '../../src/host/options.js';
import { REDACTED, redactor, secretsOf } from '../../src/host/redact.js';

const SECRET = 'sk-very-secret-value';
const URL_OF_PEER = 'https://notes.example.com/mcp';
const { privateKey } = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});
const { privateKey: otherKind } = generateKeyPairSync('ec', {
  namedCurve: 'P-256',
  privateKeyEncoding: { type: 'sec1', format: 'pem' },
  publicKeyEncoding: { type: 'spki', format: 'pem' },
});

const bearer = { type: 'bearer', token: SECRET } as const;
const client = {
  type: 'client-credentials',
  clientId: 'notes',
  clientSecret: SECRET,
  issuer: 'https://login.example.com',
} as const;
const jwt = {
  type: 'private-key-jwt',
  clientId: 'notes',
  privateKey,
  algorithm: 'ES256',
  issuer: 'https://login.example.com/tenant/',
} as const;

const resolved = (peer: object) =>
  parseHostOptions({ peers: { notes: { url: URL_OF_PEER, ...peer } as PeerConfig } }).peers[0];

const refused = (peer: object) => refusedPeer({ url: URL_OF_PEER, ...peer });

function refusedPeer(peer: object): ConfigurationError {
  try {
    parseHostOptions({ peers: { notes: peer } } as unknown as HostOptions);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    for (const secret of [SECRET, ...privateKey.trim().split('\n').slice(1, -1)]) {
      expect(error.message).not.toContain(secret);
    }
    return error;
  }
  throw new Error('was accepted');
}

test.each<[string, object]>([
  ['a bearer token', bearer],
  ['a token with all that RFC 6750 lets it have', { type: 'bearer', token: 'aZ09-._~+/==' }],
  ['client credentials', client],
  ['client credentials with a scope', { ...client, scope: 'read write:all' }],
  ['client credentials of a server on this machine', { ...client, issuer: 'http://127.0.0.1:8080' }],
  ['a private key', jwt],
  ['a private key with lines of another system', { ...jwt, privateKey: privateKey.replaceAll('\n', '\r\n') }],
])('takes %s as it is, and a copy of it, frozen', (_, auth) => {
  const peer = resolved({ auth: { ...auth, scope: undefined, ...auth } });
  const own = peer?.transport === 'streamable-http' ? peer.auth : undefined;
  expect(own).toEqual(auth);
  expect(own).not.toBe(auth);
  expect(Object.isFrozen(own)).toBe(true);
});

class Provider {
  #own = 1;
  tokens() {
    return this.#own > 1 ? { access_token: 'x', token_type: 'Bearer' } : undefined;
  }
  clientInformation() {
    return undefined;
  }
}

test.each<[string, object]>([
  ['an instance of a class', new Provider()],
  ['an object literal', { tokens: () => undefined, clientInformation: () => undefined }],
  ['one with a key of ours', { type: 'bearer', tokens: () => undefined, clientInformation: () => undefined }],
  ['one without a prototype', Object.assign(Object.create(null), { tokens() {}, clientInformation() {} })],
])('takes a provider as it is: %s', (_, auth) => {
  const peer = resolved({ auth });
  expect(peer).toMatchObject({ transport: 'streamable-http' });
  expect(peer?.transport === 'streamable-http' && peer.auth).toBe(auth);
  expect(Object.isFrozen(auth)).toBe(false);
  expect(secretsOf({ url: URL_OF_PEER, auth } as unknown as PeerConfig)).toEqual([]);
});

const without = <T extends object>(from: T, key: keyof T): object => ({ ...from, [key]: undefined });

test.each<[unknown, string]>([
  [SECRET, ''],
  [null, ''],
  [[bearer], ''],
  [() => undefined, ''],
  [{}, '.type'],
  [{ token: SECRET }, '.type'],
  [{ ...bearer, type: 'Bearer' }, '.type'],
  [{ ...bearer, type: SECRET }, '.type'],
  [{ ...bearer, type: ['bearer'] }, '.type'],
  [{ ...bearer, type: 'constructor' }, '.type'],
  [Object.create(bearer), '.type'],
  [{ tokens: () => undefined }, '.type'],
  [{ ...bearer, clientId: 'x' }, '.clientId'],
  [{ ...bearer, scheme: SECRET }, '.scheme'],
  [JSON.parse(`{"type":"bearer","token":"${SECRET}","__proto__":{"a":1}}`), '.__proto__'],
  [without(bearer, 'token'), '.token'],
  [{ ...bearer, token: '' }, '.token'],
  [{ ...bearer, token: 7 }, '.token'],
  [{ ...bearer, token: `Bearer ${SECRET}` }, '.token'],
  [{ ...bearer, token: `bearer\t${SECRET}` }, '.token'],
  [{ ...bearer, token: `${SECRET}\n` }, '.token'],
  [{ ...bearer, token: ` ${SECRET}` }, '.token'],
  [{ ...bearer, token: `${SECRET}\r\nX-Evil: 1` }, '.token'],
  [{ ...bearer, token: `${SECRET}ä` }, '.token'],
  [{ ...bearer, token: { [SECRET]: 1 } }, '.token'],
  [without(client, 'clientId'), '.clientId'],
  [{ ...client, clientId: '' }, '.clientId'],
  [{ ...client, clientId: 'a\n' }, '.clientId'],
  [without(client, 'clientSecret'), '.clientSecret'],
  [{ ...client, clientSecret: `${SECRET}\u20ac` }, '.clientSecret'],
  [without(client, 'issuer'), '.issuer'],
  [{ ...client, issuer: SECRET }, '.issuer'],
  [{ ...client, issuer: '/login' }, '.issuer'],
  [{ ...client, issuer: `${SECRET}:login` }, '.issuer'],
  [{ ...client, issuer: 'http://login.example.com' }, '.issuer'],
  [{ ...client, issuer: 'http://localhost.example.com' }, '.issuer'],
  [{ ...client, issuer: `https://a:${SECRET}@login.example.com` }, '.issuer'],
  [{ ...client, issuer: `https://login.example.com?key=${SECRET}` }, '.issuer'],
  [{ ...client, issuer: 'https://login.example.com#' }, '.issuer'],
  [{ ...client, issuer: ' https://login.example.com' }, '.issuer'],
  [{ ...client, scope: '' }, '.scope'],
  [{ ...client, scope: 'a  b' }, '.scope'],
  [{ ...client, scope: ['a'] }, '.scope'],
  [{ ...client, scope: 'a"b' }, '.scope'],
  [{ ...client, token: SECRET }, '.token'],
  [{ ...client, privateKey }, '.privateKey'],
  [without(jwt, 'privateKey'), '.privateKey'],
  [{ ...jwt, privateKey: SECRET }, '.privateKey'],
  [{ ...jwt, privateKey: privateKey.slice(0, 100) }, '.privateKey'],
  [{ ...jwt, privateKey: privateKey.replaceAll('\n', '\\n') }, '.privateKey'],
  [{ ...jwt, privateKey: otherKind }, '.privateKey'],
  [without(jwt, 'algorithm'), '.algorithm'],
  [{ ...jwt, algorithm: 'HS256' }, '.algorithm'],
  [{ ...jwt, algorithm: 'none' }, '.algorithm'],
  [{ ...jwt, algorithm: 'es256' }, '.algorithm'],
  [without(jwt, 'issuer'), '.issuer'],
  [{ ...jwt, clientSecret: SECRET }, '.clientSecret'],
])('refuses the auth %j at %s', (auth, path) => {
  expect(refused({ auth }).path).toBe(`peers.notes.auth${path}`);
});

test('says what is wrong with what people paste', () => {
  const { message: prefixed } = refused({ auth: { ...bearer, token: `Bearer ${SECRET}` } });
  expect(prefixed).toContain('the word "Bearer"');
  const { message: escaped } = refused({ auth: { ...jwt, privateKey: privateKey.replaceAll('\n', '\\n') } });
  expect(escaped).toContain('\\n written out');
  expect(refused({ auth: { ...jwt, privateKey: otherKind } }).message).toContain('openssl pkcs8');
});

describe('what contradicts auth', () => {
  test('a configured authorization header, however it is written', () => {
    for (const auth of [bearer, client, jwt, new Provider()]) {
      const error = refused({ auth, headers: { AUTHORIZATION: `Basic ${SECRET}` } });
      expect(error.path).toBe('peers.notes.auth');
      expect(error.message).toMatch(/auth .*authorization/);
    }
    expect(resolved({ auth: bearer, headers: { 'X-Tenant': '1' } })).toMatchObject({
      headers: { 'x-tenant': '1' },
    });
  });

  test('user information in the URL', () => {
    const error = refused({ auth: bearer, url: `https://a:${SECRET}@notes.example.com/` });
    expect(error.path).toBe('peers.notes.url');
    expect(error.message).toMatch(/user name or password beside auth/);
  });

  test.each([
    'http://notes.example.com/mcp',
    'http://10.0.0.1/',
    'http://localhost.example.com/',
    'http://[::2]/',
  ])('clear text to another machine: %s', (url) => {
    for (const auth of [bearer, client, jwt, new Provider()]) {
      const error = refused({ auth, url });
      expect(error.path).toBe('peers.notes.auth');
      expect(error.message).toContain('https:');
    }
  });

  test.each([
    'http://localhost:1/',
    'http://127.0.0.1/',
    'http://127.9.9.9/',
    'http://[::1]:1/',
    'http://a.localhost/',
  ])('not clear text on this machine: %s', (url) => {
    expect(resolved({ auth: bearer, url })).toMatchObject({ auth: bearer });
    // Behind a proxy elsewhere, the words mean that machine.
    expect(refused({ auth: bearer, url, proxy: 'http://proxy.example.com:3128' }).path).toBe(
      'peers.notes.auth',
    );
    expect(resolved({ auth: bearer, url, proxy: 'http://localhost:3128' })).toMatchObject({ auth: bearer });
  });
});

describe('proxy', () => {
  test.each([
    ['http://proxy.example.com:3128', 'http://proxy.example.com:3128/'],
    ['HTTPS://Proxy.example.com/', 'https://proxy.example.com/'],
    ['http://user:p%40ss@[::1]:3128', 'http://user:p%40ss@[::1]:3128/'],
  ])('takes %s', (proxy, normalized) => {
    expect(resolved({ proxy })).toMatchObject({ proxy: normalized });
  });

  test.each([
    '',
    7,
    null,
    SECRET,
    'proxy:3128',
    `${SECRET}:3128`,
    'socks5://proxy.example.com',
    'ftp://proxy.example.com',
    `http://proxy.example.com/${SECRET}`,
    `http://proxy.example.com?key=${SECRET}`,
    'http://proxy.example.com/?',
    'http://proxy.example.com/#a',
  ])('refuses %j', (proxy) => {
    expect(refused({ proxy }).path).toBe('peers.notes.proxy');
  });
});

test.each(['auth', 'proxy'])('%s is unknown where there is no endpoint', (key) => {
  for (const peer of [{ command: 'node' }, { createTransport: () => undefined, identity: 'x' }]) {
    const error = refusedPeer({ ...peer, [key]: bearer });
    expect([error.path, error.came]).toEqual([`peers.notes.${key}`, 'an unknown key']);
  }
});

describe('what is never shown', () => {
  const shown = (peer: object, text: string): string =>
    redactor(secretsOf({ url: URL_OF_PEER, ...peer } as PeerConfig))(text);
  const base64 = (text: string) => Buffer.from(text).toString('base64');

  test('a token, as it is and in a URL', () => {
    const auth = { type: 'bearer', token: 'tok/en+123=' };
    expect(shown({ auth }, 'Bearer tok/en+123= ?a=tok%2Fen%2B123%3D')).toBe(
      `Bearer ${REDACTED} ?a=${REDACTED}`,
    );
  });

  test('a client secret, as it is, in a form, and by HTTP Basic in both ways of writing it', () => {
    const auth = { ...client, clientSecret: 'p ss/word' };
    for (const text of ['p ss/word', 'p+ss%2Fword', base64('notes:p ss/word'), base64('notes:p+ss%2Fword')]) {
      expect(shown({ auth }, `<${text}>`)).toBe(`<${REDACTED}>`);
    }
    expect(shown({ auth }, 'notes')).toBe('notes');
  });

  test('a private key, whole and line by line', () => {
    const lines = privateKey.trim().split('\n').slice(1, -1);
    for (const text of [privateKey, privateKey.trim(), lines.join(''), ...lines]) {
      expect(shown({ auth: jwt }, `<${text}>`)).toBe(`<${REDACTED}>`);
    }
    expect(shown({ auth: jwt }, JSON.stringify(privateKey))).not.toContain(lines[0]);
  });

  test('the password of a proxy, as it is, as the URL writes it, and as it is sent', () => {
    const proxy = 'http://user:p%40ssword@proxy.example.com:3128/';
    const sent = base64('user:p@ssword');
    for (const text of ['p%40ssword', 'p@ssword', sent, `Basic ${sent}`]) {
      expect(shown({ proxy }, `<${text}>`)).toBe(`<${REDACTED}>`);
    }
    expect(shown({ proxy }, proxy)).toBe(`http://user:${REDACTED}@proxy.example.com:3128/`);
    expect(shown({ proxy: 'http://token-1@proxy.example.com' }, 'token-1')).toBe(REDACTED);
    expect(shown({ proxy: 'http://user:p%zzssword@proxy.example.com' }, 'p%zzssword')).toBe(REDACTED);
  });
});
