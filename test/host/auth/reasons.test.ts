/** What the report of a peer says that is not authorized: what happened, and what a person can do about it. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createOAuthProvider } from '../../../src/host/auth/oauthProvider.js';
import type { PeerAuth } from '../../../src/host/config.js';
import { createHost } from '../../../src/host/createHost.js';
import type { Host } from '../../../src/host/facade.js';
import { type GrantingServer, grantingServer } from './grantingServer.js';

const hosts: Host[] = [];
beforeEach(() => {
  // The official package says there that it tries once more.
  vi.spyOn(console, 'warn').mockImplementation(() => undefined);
});
afterEach(() => vi.restoreAllMocks());
afterEach(() => Promise.all(hosts.splice(0).map((host) => host.stop())));

const SECRET = 'sk-very-secret-value';
const REFUSED = 'HTTP 401 in answer to server/discover.';
const CONFIGURE = 'Configure credentials for this peer (auth, or headers) that the server takes, then retry.';

async function peerOf(server: GrantingServer, auth?: PeerAuth, headers: Record<string, string> = {}) {
  const host = createHost({ peers: { notes: { url: server.url, headers, ...(auth && { auth }) } } });
  hosts.push(host);
  await host.start();
  return host.peer('notes');
}

test('without credentials, or with some that are refused: what to configure', async () => {
  const server = await grantingServer();
  const peers = [
    { peer: await peerOf(server), fix: CONFIGURE },
    { peer: await peerOf(server, undefined, { authorization: `Bearer ${SECRET}` }), fix: CONFIGURE },
    {
      peer: await peerOf(server, { type: 'bearer', token: SECRET }),
      fix: 'Configure another token for this peer: the server does not take the one in auth.',
    },
  ];
  for (const { peer, fix } of peers) {
    expect(peer.report()).toMatchObject({
      state: 'unavailable',
      reason: { code: 'unauthorized', message: REFUSED, fix },
      authorizationUrl: null,
      initializeSent: 0,
    });
  }
});

test('where this host authorizes itself and cannot: why', async () => {
  const server = await grantingServer();
  const issuer = 'https://login.example.com';
  const client = { type: 'client-credentials', clientId: 'agent', clientSecret: SECRET } as const;
  const elsewhere = (await peerOf(server, { ...client, issuer })).report();
  expect(elsewhere.reason?.message).toMatch(/^HTTP 401 in answer to server\/discover\. [A-Z].*[.]$/);
  expect(elsewhere).toMatchObject({ reason: { fix: CONFIGURE }, authorizationUrl: null, initializeSent: 0 });
  // Not even its token endpoint was contacted: the secret is another server's.
  expect(server.grants).toEqual([]);
  const refused = (await peerOf(server, { ...client, issuer: server.origin })).report();
  expect(refused.reason?.message).toMatch(/^HTTP 401 in answer to server\/discover\. [A-Z].*[.]$/);
  expect(server.grants).toEqual(expect.arrayContaining(['client_credentials refused']));
  expect(JSON.stringify([elsewhere, refused])).not.toContain(SECRET);
});

test('where a person can grant access: the page, until that was done', async () => {
  const server = await grantingServer();
  const peer = await peerOf(server, createOAuthProvider({ redirectUrl: 'http://127.0.0.1:7777/callback' }));
  const { reason, authorizationUrl } = peer.report();
  expect(authorizationUrl).toContain(`${server.origin}/authorize?`);
  expect(reason).toEqual({
    code: 'unauthorized',
    message: REFUSED,
    fix: `Open ${authorizationUrl} and grant access, then hand what comes back to authorize().`,
  });
  expect(peer.explain()).toContain(authorizationUrl);
  const report = await peer.authorize(server.grant(authorizationUrl ?? ''));
  expect(report).toMatchObject({ state: 'modern', reason: null, authorizationUrl: null, tools: 2 });
});

test('where a person did not grant access: that, and how to ask anew', async () => {
  const server = await grantingServer();
  const peer = await peerOf(server, createOAuthProvider({ redirectUrl: 'http://127.0.0.1:7777/callback' }));
  const back = new URL(server.grant(peer.report().authorizationUrl ?? ''));
  back.searchParams.delete('code');
  back.searchParams.set('error', 'access_denied');
  await expect(peer.authorize(back)).rejects.toThrow(/access_denied/);
  expect(peer.report()).toMatchObject({
    reason: {
      message: `${REFUSED} The authorization server answered access_denied.`,
      fix: 'Call retry() to ask for access anew, or authorize() if credentials are there by now.',
    },
    authorizationUrl: null,
  });
  peer.retry();
  await vi.waitFor(() => expect(peer.report().authorizationUrl).not.toBeNull());
  const report = await peer.authorize(server.grant(peer.report().authorizationUrl ?? ''));
  expect(report).toMatchObject({ state: 'modern', reason: null });
});
