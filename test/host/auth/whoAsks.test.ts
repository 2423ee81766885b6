/** What a server marks private is seen by whom it was given to: tokens are renewed for the same person, granted by another. */
import { afterEach, expect, test } from 'vitest';
import { createMemoryStore } from '../../../src/cache/memoryStore.js';
import type { Store } from '../../../src/cache/store.js';
import { createOAuthProvider, type LockableProvider } from '../../../src/host/auth/oauthProvider.js';
import type { PeerAuth } from '../../../src/host/config.js';
import { createHost } from '../../../src/host/createHost.js';
import type { Host } from '../../../src/host/facade.js';
import { type GrantingServer, grantingServer } from './grantingServer.js';

const hosts: Host[] = [];
afterEach(() => Promise.all(hosts.splice(0).map((host) => host.stop())));

async function started(server: GrantingServer, auth: PeerAuth, store: Store = createMemoryStore()) {
  const host = createHost({ peers: { notes: { url: server.url, auth } }, store });
  hosts.push(host);
  await host.start();
  return host;
}

const toolsOf = (host: Host): string[] => [...host.catalog().entries.keys()];
const bearer = (token: string) => ({ type: 'bearer', token }) as const;

async function granted(server: GrantingServer): Promise<{ provider: LockableProvider; token: string }> {
  const provider = createOAuthProvider({ redirectUrl: 'http://127.0.0.1:7777/callback' });
  const issuer = server.origin;
  const client = { client_id: 'seeded', token_endpoint_auth_method: 'none', issuer };
  await provider.saveClientInformation?.(client, { issuer });
  const tokens = server.issue();
  await provider.saveTokens({ ...tokens, issuer }, { issuer });
  return { provider, token: tokens.access_token };
}

test('over one store, each bearer token has its own entries, also when it comes back', async () => {
  const server = await grantingServer();
  const store = createMemoryStore();
  const [one, two] = [server.issue().access_token, server.issue().access_token];
  for (const [token, person] of [
    [one, 'person_1'],
    [two, 'person_2'],
    [one, 'person_1'],
  ] as const) {
    const host = await started(server, bearer(token), store);
    expect(toolsOf(host)).toEqual(['look', `of_${person}`]);
    await host.stop();
  }
  expect(server.lists).toEqual(['person_1', 'person_2']);
});

test('a token that is renewed is the same person: nothing is asked anew', async () => {
  const server = await grantingServer();
  const { provider, token } = await granted(server);
  const host = await started(server, provider);
  expect(toolsOf(host)).toEqual(['look', 'of_person_1']);
  server.expire(token);
  expect(await host.call('look')).toMatchObject({ status: 'ok' });
  expect(await host.call('look')).toMatchObject({ status: 'ok' });
  expect(server.grants).toEqual(['refresh_token']);
  expect([server.lists, toolsOf(host)]).toEqual([['person_1'], ['look', 'of_person_1']]);
});

test('tokens of somebody else are noticed: what was listed before is not theirs', async () => {
  const server = await grantingServer();
  const { provider } = await granted(server);
  const host = await started(server, provider);
  const changed = new Promise((resolve) => host.on('catalogChanged', resolve));
  const issuer = server.origin;
  await provider.saveTokens({ ...server.issue(), issuer }, { issuer });
  expect(await host.call('look')).toMatchObject({ status: 'ok' });
  await changed;
  expect([server.lists, toolsOf(host)]).toEqual([
    ['person_1', 'person_2'],
    ['look', 'of_person_2'],
  ]);
});

test('hosts of two people who are let in by a provider share nothing private over one store', async () => {
  const server = await grantingServer();
  const store = createMemoryStore();
  for (const person of ['person_1', 'person_2']) {
    const host = await started(server, (await granted(server)).provider, store);
    expect(toolsOf(host)).toEqual(['look', `of_${person}`]);
  }
  expect(server.lists).toEqual(['person_1', 'person_2']);
});
