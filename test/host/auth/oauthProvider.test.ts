/** What `createOAuthProvider` keeps, for whom, and what it gives back to which request. */
import { auth, type OAuthClientProvider } from '@modelcontextprotocol/client';
import { afterEach, beforeEach, describe, expect, expectTypeOf, test, vi } from 'vitest';
import type { CredentialStore } from '../../../src/host/auth/credentialStore.js';
import {
  createOAuthProvider,
  isLockable,
  type LockableProvider,
} from '../../../src/host/auth/oauthProvider.js';
import type { OAuthProviderOptions } from '../../../src/host/auth/oauthProviderOptions.js';
import { ConfigurationError } from '../../../src/host/errors.js';
import { type GrantingServer, grantingServer } from './grantingServer.js';

const REDIRECT = 'http://127.0.0.1:7777/callback';
const A = 'https://a.example.com';
const B = 'https://b.example.com';
const SECRET = 'sk-very-secret-value';

const tokens = (word: string, issuer?: string) => ({
  access_token: `access-${word}`,
  refresh_token: `refresh-${word}`,
  token_type: 'Bearer',
  ...(issuer === undefined ? {} : { issuer }),
});

/** A store that processes share, without a lock. */
const shared = () => new Map<string, string>();
const on = (store: CredentialStore, options: Partial<OAuthProviderOptions> = {}): LockableProvider =>
  createOAuthProvider({ redirectUrl: REDIRECT, store, key: 'notes', ...options });

test('is what the official package takes', () => {
  const provider = createOAuthProvider({ redirectUrl: REDIRECT });
  expectTypeOf(provider).toExtend<OAuthClientProvider>();
  expect(isLockable(provider)).toBe(true);
  expect(isLockable({ tokens: () => undefined } as unknown as OAuthClientProvider)).toBe(false);
  expect(provider.redirectUrl).toBe(REDIRECT);
  expect(provider.clientMetadata).toEqual({
    client_name: 'peerage',
    redirect_uris: [REDIRECT],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  });
});

describe('credentials', () => {
  test('are kept by issuer, with their stamp, and never shown for another', async () => {
    const provider = createOAuthProvider({ redirectUrl: REDIRECT });
    expect(await provider.tokens()).toBeUndefined();
    expect(await provider.clientInformation({ issuer: A })).toBeUndefined();
    await provider.saveTokens(tokens('a', A), { issuer: A });
    await provider.saveTokens(tokens('b', B), { issuer: B });
    await provider.saveClientInformation?.({ client_id: 'client-a', issuer: A }, { issuer: A });
    expect(await provider.tokens({ issuer: A })).toEqual(tokens('a', A));
    expect(await provider.tokens({ issuer: B })).toEqual(tokens('b', B));
    expect(await provider.tokens({ issuer: 'https://c.example.com' })).toBeUndefined();
    expect(await provider.clientInformation({ issuer: A })).toEqual({ client_id: 'client-a', issuer: A });
    expect(await provider.clientInformation({ issuer: B })).toBeUndefined();
  });

  test('without a context are those that were saved last', async () => {
    const provider = createOAuthProvider({ redirectUrl: REDIRECT });
    await provider.saveTokens(tokens('b', B), { issuer: B });
    await provider.saveTokens(tokens('a', A), { issuer: A });
    expect(await provider.tokens()).toEqual(tokens('a', A));
    await provider.saveTokens(tokens('b2', B), { issuer: B });
    expect(await provider.tokens()).toEqual(tokens('b2', B));
  });

  test('of peers with other keys are others, and outlive the process in a store', async () => {
    const store = shared();
    await on(store).saveTokens(tokens('a', A), { issuer: A });
    expect(await on(store, { key: 'archive' }).tokens({ issuer: A })).toBeUndefined();
    expect(await on(store).tokens({ issuer: A })).toEqual(tokens('a', A));
    expect(await createOAuthProvider({ redirectUrl: REDIRECT }).tokens()).toBeUndefined();
  });

  test.each(['', 'not json', 'null', '[]', '"text"', '{}', '{"access_token":1,"token_type":"Bearer"}'])(
    'that lie in the store as %j are not there',
    async (text) => {
      const store = shared();
      await on(store).saveTokens(tokens('a', A), { issuer: A });
      for (const key of store.keys()) store.set(key, text);
      const provider = on(store);
      expect(await provider.tokens({ issuer: A })).toBeUndefined();
      expect(await provider.tokens()).toBeUndefined();
      expect(await provider.clientInformation({ issuer: A })).toBeUndefined();
      expect(await provider.discoveryState?.()).toBeUndefined();
      await expect(async () => provider.codeVerifier()).rejects.toThrow('no authorization was asked for');
    },
  );

  test('that were registered beforehand are given as they are, and cannot be registered anew', async () => {
    const provider = createOAuthProvider({
      redirectUrl: REDIRECT,
      client: { clientId: 'notes', clientSecret: SECRET, issuer: A },
    });
    const client = { client_id: 'notes', client_secret: SECRET, issuer: A };
    expect(await provider.clientInformation({ issuer: B })).toEqual(client);
    expect(provider.saveClientInformation).toBeUndefined();
  });
});

describe('invalidateCredentials', () => {
  const filled = async (store: CredentialStore): Promise<LockableProvider> => {
    const provider = on(store);
    await provider.saveTokens(tokens('a', A), { issuer: A });
    await provider.saveClientInformation?.({ client_id: 'a', issuer: A }, { issuer: A });
    await provider.saveDiscoveryState?.({ authorizationServerUrl: A });
    await provider.clientInformation({ issuer: A });
    await provider.tokens({ issuer: A });
    return provider;
  };
  const kept = async (provider: OAuthClientProvider) => ({
    tokens: (await provider.tokens({ issuer: A })) !== undefined,
    client: (await provider.clientInformation({ issuer: A })) !== undefined,
    discovery: (await provider.discoveryState?.()) !== undefined,
  });

  test.each([
    ['tokens', { tokens: false, client: true, discovery: true }],
    ['client', { tokens: true, client: false, discovery: true }],
    ['discovery', { tokens: true, client: true, discovery: false }],
    ['verifier', { tokens: true, client: true, discovery: true }],
    ['all', { tokens: false, client: false, discovery: false }],
  ] as const)('of %s deletes that, and nothing else', async (what, left) => {
    const provider = await filled(shared());
    await provider.invalidateCredentials?.(what);
    expect(await kept(provider)).toEqual(left);
  });

  test('never deletes what another process has saved since', async () => {
    const store = shared();
    const provider = await filled(store);
    await on(store).saveTokens(tokens('newer', A), { issuer: A });
    await on(store).saveClientInformation?.({ client_id: 'newer', issuer: A }, { issuer: A });
    await provider.invalidateCredentials?.('all');
    expect(await on(store).tokens()).toEqual(tokens('newer', A));
    expect(await on(store).clientInformation({ issuer: A })).toMatchObject({ client_id: 'newer' });
  });

  test('never deletes what was not given out, nor those of another issuer', async () => {
    const store = shared();
    await filled(store);
    await on(store).saveTokens(tokens('b', B), { issuer: B });
    await on(store).invalidateCredentials?.('all');
    const provider = on(store);
    await provider.tokens({ issuer: B });
    await provider.invalidateCredentials?.('tokens');
    expect(await provider.tokens({ issuer: B })).toBeUndefined();
    expect(await provider.tokens({ issuer: A })).toEqual(tokens('a', A));
  });
});

describe('with an authorization server', () => {
  let server: GrantingServer;
  const opened: URL[] = [];
  const open = (url: URL) => opened.push(url);

  beforeEach(async () => {
    server = await grantingServer();
    opened.length = 0;
    vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  });
  afterEach(() => vi.restoreAllMocks());

  const ask = (provider: OAuthClientProvider) => auth(provider, { serverUrl: server.url, scope: 'read' });
  const redeem = (provider: OAuthClientProvider, back: URL) =>
    auth(provider, { serverUrl: server.url, authorizationCode: back.searchParams.get('code') ?? '' });
  const stateOf = (url: URL | undefined) => url?.searchParams.get('state') ?? '';

  test('a person is asked, what came back is redeemed, and tokens are renewed from then on', async () => {
    const provider = createOAuthProvider({ redirectUrl: REDIRECT, clientName: 'Notes', open });
    expect(await ask(provider)).toBe('REDIRECT');
    const [page] = opened;
    expect(page?.searchParams.get('scope')).toBe('read offline_access');
    expect(page?.searchParams.get('redirect_uri')).toBe(REDIRECT);
    expect(Buffer.from(stateOf(page), 'base64url')).toHaveLength(16);
    expect(await redeem(provider, server.grant(page ?? ''))).toBe('AUTHORIZED');
    const first = await provider.tokens();
    expect(first).toMatchObject({ issuer: server.origin });
    expect(await ask(provider)).toBe('AUTHORIZED');
    const second = await provider.tokens();
    expect(second?.access_token).not.toBe(first?.access_token);
    expect(server.isValid(second?.access_token)).toBe(true);
    expect(server.registered).toEqual(['Notes']);
    expect(opened).toHaveLength(1);
  });

  test('the process that redeems may be another one than the one that asked', async () => {
    const store = shared();
    await ask(on(store, { open }));
    expect(await redeem(on(store), server.grant(opened[0] ?? ''))).toBe('AUTHORIZED');
    expect(server.isValid((await on(store).tokens())?.access_token)).toBe(true);
  });

  test.each([
    ['in the order they were asked', false],
    ['in the other order', true],
  ])('flows that overlap each redeem their own code, %s', async (_, isReversed) => {
    const store = shared();
    const provider = on(store, { open });
    await ask(provider);
    await ask(provider);
    await Promise.all([ask(provider), ask(on(store, { open }))]);
    expect(new Set(opened.map(stateOf)).size).toBe(4);
    for (const page of isReversed ? opened.toReversed() : opened) {
      const back = server.grant(page);
      expect(await provider.redeeming(stateOf(page), () => redeem(provider, back))).toBe('AUTHORIZED');
    }
    expect(server.grants.filter((grant) => grant === 'authorization_code')).toHaveLength(4);
    expect(server.grants.filter((grant) => grant.endsWith('refused'))).toEqual([]);
  });

  test('what was redeemed, or never asked for, is not redeemed', async () => {
    const provider = createOAuthProvider({ redirectUrl: REDIRECT, open });
    await ask(provider);
    const state = stateOf(opened[0]);
    await provider.redeeming(state, () => redeem(provider, server.grant(opened[0] ?? '')));
    const work = vi.fn(() => Promise.resolve());
    for (const other of [state, 'another', '']) {
      await expect(provider.redeeming(other, work)).rejects.toThrow('with this state');
    }
    expect(work).not.toHaveBeenCalled();
  });

  test('a code goes to the server that was asked, also when the peer has moved to another since', async () => {
    const provider = createOAuthProvider({ redirectUrl: REDIRECT, open });
    await ask(provider);
    await provider.saveDiscoveryState?.({ authorizationServerUrl: A });
    const state = stateOf(opened[0]);
    await provider.redeeming(state, async () => {
      expect(await provider.discoveryState?.()).toMatchObject({
        authorizationServerMetadata: { issuer: server.origin },
      });
    });
    expect(await provider.discoveryState?.()).toEqual({ authorizationServerUrl: A });
  });

  test('requests of which nothing came are forgotten in the end', async () => {
    const store = shared();
    for (let asked = 0; asked < 20; asked += 1) await ask(on(store, { open }));
    expect([...store.keys()].filter((key) => key.startsWith('notes flow '))).toHaveLength(8);
    const provider = on(store);
    await expect(provider.redeeming(stateOf(opened[0]), async () => undefined)).rejects.toThrow();
    await provider.redeeming(stateOf(opened[19]), () => redeem(provider, server.grant(opened[19] ?? '')));
    expect(server.isValid((await provider.tokens())?.access_token)).toBe(true);
  });

  test('where opening the page fails, the authorization fails, and is not tried again', async () => {
    const provider = createOAuthProvider({
      redirectUrl: REDIRECT,
      open: (url) => {
        open(url);
        throw new Error('EADDRINUSE');
      },
    });
    await expect(ask(provider)).rejects.toThrow('EADDRINUSE');
    expect(opened).toHaveLength(1);
  });

  test('a client that is registered with another server is not shown to this one', async () => {
    const client = { clientId: 'notes', clientSecret: SECRET, issuer: A };
    await expect(ask(createOAuthProvider({ redirectUrl: REDIRECT, client, open }))).rejects.toThrow();
    expect([opened, server.registered, server.grants]).toEqual([[], [], []]);
  });

  test('tokens that are refused are deleted, and a person is asked', async () => {
    const provider = createOAuthProvider({ redirectUrl: REDIRECT, open });
    await ask(provider);
    await redeem(provider, server.grant(opened[0] ?? ''));
    await provider.saveTokens({ ...tokens('stale', server.origin) }, { issuer: server.origin });
    expect(await ask(provider)).toBe('REDIRECT');
    expect(await provider.tokens()).toBeUndefined();
    expect(server.grants).toEqual(['authorization_code', 'refresh_token refused']);
  });
});

describe('exclusively', () => {
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  test('is one after the other, also after one that failed, within itself at once', async () => {
    const provider = createOAuthProvider({ redirectUrl: REDIRECT });
    const seen: string[] = [];
    const work = (name: string) => async () => {
      seen.push(`${name} begins`);
      await turn();
      await provider.exclusively(async () => {
        seen.push(`${name} within`);
        await turn();
      });
      seen.push(`${name} ends`);
      if (name === 'a') throw new Error('a');
      return name;
    };
    const results = await Promise.allSettled(['a', 'b', 'c'].map((name) => provider.exclusively(work(name))));
    expect(seen).toEqual(
      ['a', 'b', 'c'].flatMap((name) => [`${name} begins`, `${name} within`, `${name} ends`]),
    );
    expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled', 'fulfilled']);
  });

  test('takes the lock of the store once, under the key, and what goes on afterwards holds none', async () => {
    const locks: string[] = [];
    const store = {
      ...mapStore(),
      lock: async <T>(key: string, work: () => Promise<T>): Promise<T> => {
        locks.push(`${key} taken`);
        const result = await work();
        locks.push(`${key} given back`);
        return result;
      },
    };
    const provider = on(store);
    await provider.saveTokens(tokens('a', A), { issuer: A });
    await provider.tokens();
    let goOn: () => void = () => undefined;
    let later: Promise<void> | undefined;
    await provider.exclusively(async () => {
      await provider.exclusively(() => Promise.resolve());
      const gate = new Promise<void>((resolve) => {
        goOn = resolve;
      });
      later = gate.then(() => provider.exclusively(async () => void locks.push('later')));
    });
    goOn();
    await later;
    await provider.invalidateCredentials?.('tokens');
    const once = ['notes taken', 'notes given back'];
    expect(locks).toEqual([...once, 'notes taken', 'later', 'notes given back', ...once]);
    expect(await provider.tokens()).toBeUndefined();
  });

  test('a store that fails is told, and the next may try', async () => {
    let isBroken = true;
    const store = {
      ...mapStore(),
      lock: <T>(_: string, work: () => Promise<T>): Promise<T> => {
        if (isBroken) throw new Error('the disk is full');
        return work();
      },
    };
    const provider = on(store);
    await expect(provider.exclusively(() => Promise.resolve(1))).rejects.toThrow('the disk is full');
    isBroken = false;
    expect(await provider.exclusively(() => Promise.resolve(2))).toBe(2);
  });
});

function mapStore(): CredentialStore {
  const map = new Map<string, string>();
  return {
    get: async (key) => map.get(key) ?? null,
    set: async (key, value) => void map.set(key, value),
    delete: async (key) => map.delete(key),
  };
}

describe('options', () => {
  const client = { clientId: 'notes', issuer: A };

  test.each([
    REDIRECT,
    new URL(REDIRECT),
    'https://app.example.com/callback',
    'com.example.app:/callback',
    'http://localhost/',
    'http://[::1]:1/a?b=c',
  ])('take the redirect URL %s', (redirectUrl) => {
    expect(createOAuthProvider({ redirectUrl }).redirectUrl).toBe(String(redirectUrl));
  });

  test.each<[object, string]>([
    [{ redirectUrl: undefined }, 'redirectUrl'],
    [{ redirectUrl: 'callback' }, 'redirectUrl'],
    [{ redirectUrl: 'http://app.example.com/callback' }, 'redirectUrl'],
    [{ redirectUrl: `${REDIRECT}#x` }, 'redirectUrl'],
    [{ redirectUrl: 'javascript:1' }, 'redirectUrl'],
    [{ redirectURL: REDIRECT }, 'redirectURL'],
    [{ clientName: '' }, 'clientName'],
    [{ clientMetadataUrl: 'https://app.example.com' }, 'clientMetadataUrl'],
    [{ clientMetadataUrl: 'http://app.example.com/client.json' }, 'clientMetadataUrl'],
    [{ client: SECRET }, 'client'],
    [{ client: { clientId: 'x' } }, 'client.issuer'],
    [{ client: { ...client, issuer: 'http://a.example.com' } }, 'client.issuer'],
    [{ client: { issuer: A } }, 'client.clientId'],
    [{ client: { ...client, clientSecret: '' } }, 'client.clientSecret'],
    [{ client: { ...client, secret: SECRET } }, 'client.secret'],
    [{ scope: ' ' }, 'scope'],
    [{ open: SECRET }, 'open'],
    [{ store: new Map() }, 'key'],
    [{ store: {}, key: 'a' }, 'store'],
    [{ key: 'a\n' }, 'key'],
  ])('%j are refused at %s', (options, path) => {
    try {
      createOAuthProvider({ redirectUrl: REDIRECT, ...options } as OAuthProviderOptions);
    } catch (error) {
      expect(error).toBeInstanceOf(ConfigurationError);
      expect((error as ConfigurationError).path).toBe(path);
      expect((error as Error).message).not.toContain(SECRET);
      return;
    }
    throw new Error('was accepted');
  });
});
