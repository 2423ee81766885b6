/** Peers that this host authorizes itself for, and those that are given a token. */
import { generateKeyPairSync } from 'node:crypto';
import { DpopSession, type StoredOAuthTokens } from '@modelcontextprotocol/client';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { createPeerAuthorization } from '../../../src/host/auth/createPeerAuthorization.js';
import { systemClock } from '../../../src/transports/clock.js';
import { MAX_REFUSALS, type Refusal } from '../../../src/transports/httpAuthorizer.js';
import { type Auth, authServer, guardedServer, guest } from './fakeAuthServer.js';
import { PlainProvider } from './plainProvider.js';

/** A busy machine is not to fail a test. */
const PATIENCE = { timeout: 20_000 };
const SECRET = 'a secret of the machine';

beforeEach(() => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  return () => warned.mockRestore();
});

async function machine(differences: Partial<Record<string, string>> = {}) {
  const as = await authServer();
  as.clients.set('machine', { secret: SECRET, method: 'client_secret_basic' });
  const server = await guardedServer(as);
  const auth = {
    type: 'client-credentials',
    clientId: 'machine',
    clientSecret: SECRET,
    issuer: as.issuer,
    ...differences,
  } as Auth;
  const { host, told } = guest({ p: { url: server.url, auth } });
  return { as, server, host, told, auth };
}

function alone(auth: Auth, url = 'http://127.0.0.1:1/mcp') {
  const told: string[] = [];
  const changes: string[] = [];
  const authorization = createPeerAuthorization({
    peer: 'p',
    auth,
    url,
    proxy: undefined,
    clock: systemClock,
    redact: (text) => text,
    onUrl: (to) => told.push(to),
    onContextChanged: () => changes.push(authorization.context),
  });
  return { authorization, told, changes };
}

const attempt = { method: 'POST', url: new URL('http://127.0.0.1:1/mcp') } as const;
const refusal = (differences: Partial<Refusal> = {}): Refusal => ({
  attempt,
  status: 401,
  challenge: null,
  credentials: null,
  count: 1,
  ...differences,
});

describe('client credentials', () => {
  test('are exchanged when the server wants a token, and again when that ran out', async () => {
    const { as, server, host, told } = await machine();
    await host.start();
    expect(host.peer('p').report()).toMatchObject({ tools: 1, authorizationUrl: null });
    as.expire();
    const calls = await Promise.all(Array.from({ length: 10 }, () => host.call('echo')));
    for (const outcome of calls) expect(outcome).toMatchObject({ status: 'ok' });
    expect(as.tokenRequests).toHaveLength(2);
    expect(as.tokenRequests[0]).toMatchObject({ grant_type: 'client_credentials', resource: server.url });
    expect(told).toEqual([]);
    await expect(host.peer('p').authorize({ code: 'x' })).rejects.toThrow(/authorizes itself/);
  });

  test('go to their issuer alone', async () => {
    const { as, server, host } = await machine();
    const other = await authServer();
    server.trusts = other;
    await host.start();
    expect(host.peer('p').report().reason?.message).toContain('another authorization server');
    expect(other.tokenRequests).toEqual([]);
    expect(as.tokenRequests).toEqual([]);
  });

  test('that are refused make the peer unavailable, and are not shown', async () => {
    const { as, host } = await machine({ clientSecret: 'another secret' });
    await host.start();
    const shown = JSON.stringify(host.peer('p').report()) + host.peer('p').explain();
    expect(shown).toContain('invalid_client');
    expect(shown).not.toMatch(/another secret|another%20secret/);
    expect(as.tokenRequests.length).toBeLessThanOrEqual(2);
  });

  test('a token that is refused for ever is asked for no more often than a message is', async () => {
    const { as, server, host } = await machine();
    server.intercept = ({ url }, response) => {
      if (url !== '/mcp') return false;
      response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
      return true;
    };
    await host.start();
    expect(host.peer('p').report()).toMatchObject({ state: 'unavailable', reason: { code: 'unauthorized' } });
    expect(as.tokenRequests.length).toBeLessThanOrEqual(MAX_REFUSALS);
  });

  test('ask for the scope that is configured, and for no more', async () => {
    const { as, server, host } = await machine({ scope: 'read' });
    server.scope = 'read write';
    server.callScope = 'write';
    await host.start();
    expect((await host.call('echo')).status).not.toBe('ok');
    expect(as.tokenRequests.map(({ scope }) => scope)).toEqual(['read']);
  });

  test('without a configured scope step up to what is wanted, once', async () => {
    const { as, server, host } = await machine();
    server.scope = 'read';
    server.callScope = 'write';
    await host.start();
    expect(await host.call('echo')).toMatchObject({ status: 'ok' });
    expect(as.tokenRequests.map(({ scope }) => scope)).toEqual(['read', 'read write']);
    server.neverEnough = true;
    for (let n = 0; n < 3; n += 1) expect((await host.call('echo')).status).not.toBe('ok');
    expect(as.tokenRequests).toHaveLength(2);
  });

  test('a redirect of the token endpoint is not followed', async () => {
    const { as, host } = await machine();
    const canary = await authServer();
    as.intercept = ({ url }, response) => {
      if (url !== '/token') return false;
      response.writeHead(307, { location: `${canary.issuer}/token` }).end();
      return true;
    };
    await host.start();
    expect(host.peer('p').report().reason?.message).toContain('redirect');
    expect(canary.tokenRequests).toEqual([]);
  });

  test('a private key signs for its issuer', async () => {
    const as = await authServer();
    const server = await guardedServer(as);
    const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
    const auth: Auth = {
      type: 'private-key-jwt',
      clientId: 'machine',
      privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      algorithm: 'ES256',
      issuer: as.issuer,
    };
    const { host } = guest({ p: { url: server.url, auth } });
    await host.start();
    expect(await host.call('echo')).toMatchObject({ status: 'ok' });
    const claims = (as.tokenRequests[0]?.['client_assertion'] ?? '').split('.')[1] ?? '';
    expect(JSON.parse(Buffer.from(claims, 'base64url').toString())).toMatchObject({
      iss: 'machine',
      aud: as.issuer,
    });
  });
});

describe('a fixed token', () => {
  test('is presented as it is, and a refusal is the answer', async () => {
    const as = await authServer();
    const server = await guardedServer(as);
    as.access.set('token-of-the-operator', { scope: '', family: { revoked: false }, valid: true });
    const { host } = guest({
      p: { url: server.url, auth: { type: 'bearer', token: 'token-of-the-operator' } },
    });
    await host.start();
    expect(await host.call('echo')).toMatchObject({ status: 'ok' });
    as.expire();
    expect((await host.call('echo')).status).toBe('unavailable');
    expect(server.requests.every(({ url }) => url === '/mcp')).toBe(true);
    await expect(host.peer('p').authorize({ code: 'x' })).rejects.toThrow(/fixed token/);
  });

  test('stands for its owner by a word that does not show it', () => {
    const word = (token: string) => alone({ type: 'bearer', token }).authorization.context;
    expect(word('one token')).toBe(word('one token'));
    expect(word('one token')).not.toBe(word('two token'));
    expect(word('one token')).not.toContain('token');
  });
});

describe('whom requests are made for', () => {
  test('of a machine is told by what it is, whatever its tokens are', () => {
    const auth = {
      type: 'client-credentials',
      clientId: 'a',
      clientSecret: 's',
      issuer: 'https://as',
    } as const;
    const word = (one: Auth) => alone(one).authorization.context;
    expect(word(auth)).toBe(word({ ...auth, clientSecret: 'rotated' }));
    expect(word(auth)).not.toBe(word({ ...auth, clientId: 'b' }));
    expect(word(auth)).not.toBe(word({ ...auth, issuer: 'https://other' }));
    expect(word(auth)).not.toBe(word({ ...auth, scope: 'all' }));
  });

  test('changes with tokens from somewhere else, not with the first ones', async () => {
    const provider = new PlainProvider();
    const { authorization, changes } = alone(provider);
    const before = authorization.context;
    provider.kept = { access_token: 'first-token', token_type: 'Bearer' };
    expect(authorization.credentials(attempt)).toEqual({ headers: { authorization: 'Bearer first-token' } });
    expect(authorization.context).toBe(before);
    provider.kept = { access_token: 'another-token', token_type: 'Bearer' };
    authorization.credentials(attempt);
    expect(authorization.context).not.toBe(before);
    await Promise.resolve();
    expect(changes).toHaveLength(1);
    expect(authorization.withoutSecrets('an another-token')).toBe('an [redacted]');
  });

  test('changes when a person granted access, not when that is renewed', async () => {
    const as = await authServer();
    const server = await guardedServer(as);
    const { authorization, changes, told } = alone(new PlainProvider(), server.url);
    const before = authorization.context;
    expect(await authorization.refused(refusal())).toBe(false);
    await authorization.redeem(await as.visit(told[0] ?? ''));
    const granted = authorization.context;
    expect(granted).not.toBe(before);
    const credentials = await authorization.credentials(attempt);
    expect(await authorization.refused(refusal({ credentials }))).toBe(true);
    expect(await authorization.credentials(attempt)).not.toEqual(credentials);
    expect(authorization.context).toBe(granted);
    expect(changes).toHaveLength(1);
    authorization.close();
  });
});

describe('a token that is bound to a key', () => {
  async function bound() {
    const session = await DpopSession.create();
    class Bound extends PlainProvider {
      override kept: StoredOAuthTokens | undefined = { access_token: 'bound-token', token_type: 'DPoP' };
      dpop() {
        return session;
      }
    }
    return alone(new Bound()).authorization;
  }
  const claims = (proof: string | undefined) =>
    JSON.parse(Buffer.from((proof ?? '').split('.')[1] ?? '', 'base64url').toString()) as Record<
      string,
      string
    >;

  test('is presented with a proof of its own for each attempt', async () => {
    const authorization = await bound();
    const one = await authorization.credentials(attempt);
    const two = await authorization.credentials(attempt);
    expect(one?.headers['authorization']).toBe('DPoP bound-token');
    const [first, second] = [claims(one?.headers['dpop']), claims(two?.headers['dpop'])];
    expect(first).toMatchObject({ htm: 'POST', htu: attempt.url.href });
    expect(first['ath']).toBeDefined();
    expect(first['jti']).not.toBe(second['jti']);
  });

  test('is presented again where a nonce is wanted, if there is one', async () => {
    const authorization = await bound();
    const credentials = await authorization.credentials(attempt);
    const challenge = 'DPoP error="use_dpop_nonce"';
    expect(await authorization.refused(refusal({ challenge, credentials }))).toBe(false);
    authorization.heardNonce(attempt, 'a-nonce');
    expect(await authorization.refused(refusal({ challenge, credentials }))).toBe(true);
    expect(claims((await authorization.credentials(attempt))?.headers['dpop'])['nonce']).toBe('a-nonce');
  });
});

describe('after close', () => {
  test('nothing is given, asked or redeemed, and what was under way is given up', async () => {
    const as = await authServer();
    as.hanging.add('/.well-known/oauth-authorization-server');
    const server = await guardedServer(as);
    const provider = new PlainProvider();
    provider.kept = { access_token: 'a-token', token_type: 'Bearer' };
    const { authorization } = alone(provider, server.url);
    const credentials = await authorization.credentials(attempt);
    const refused = authorization.refused(refusal({ credentials }));
    await vi.waitFor(() => expect(as.count('/.well-known/oauth-authorization-server')).toBe(1), PATIENCE);
    authorization.close();
    expect(await refused).toBe(false);
    expect(authorization.credentials(attempt)).toBeNull();
    expect(await authorization.refused(refusal())).toBe(false);
    await expect(authorization.redeem({ code: 'x' })).rejects.toThrow(/removed or stopped/);
    authorization.close();
  });

  test('of one peer, another one with the same provider goes on by itself', async () => {
    const as = await authServer();
    as.hanging.add('/.well-known/oauth-authorization-server');
    const server = await guardedServer(as);
    const provider = new PlainProvider();
    const [one, two] = [alone(provider, server.url), alone(provider, server.url)];
    const first = one.authorization.refused(refusal());
    const second = two.authorization.refused(refusal());
    await vi.waitFor(() => expect(as.count('/.well-known/oauth-authorization-server')).toBe(1), PATIENCE);
    as.hanging.clear();
    one.authorization.close();
    expect(await first).toBe(false);
    expect(await second).toBe(false);
    expect(two.authorization.pendingUrl).toBe(two.told[0]);
    expect(two.told).toHaveLength(1);
    two.authorization.close();
  });
});
