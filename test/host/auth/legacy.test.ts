/** Authorization of legacy peers, whose handshake may be refused: `initialize` is sent once a negotiation, whatever is granted. */
import type { ServerResponse } from 'node:http';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { SeenRequest } from '../../transports/httpHarness.js';
import { type AuthServer, authServer, type GuardedServer, guardedServer, guest } from './fakeAuthServer.js';
import { PlainProvider } from './plainProvider.js';

const PATIENCE = { timeout: 20_000 };

beforeEach(() => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  return () => warned.mockRestore();
});

interface Told {
  readonly method: string;
  readonly token: string | undefined;
}

interface LegacyScene {
  readonly as: AuthServer;
  readonly server: GuardedServer;
  readonly told: Told[];
  /** Which methods are answered without a token. */
  open: string[];
  /** Requests other than POST that carried a valid token, by verb. */
  readonly verbs: string[];
}

/** A legacy server with a session. What it lets in without a token is up to the test. */
async function legacyScene(open: string[]): Promise<LegacyScene> {
  const as = await authServer();
  const server = await guardedServer(as);
  const scene: LegacyScene = { as, server, told: [], open, verbs: [] };
  server.intercept = (request, response) => request.url === '/mcp' && answer(scene, request, response);
  return scene;
}

function answer({ as, server, told, ...scene }: LegacyScene, request: SeenRequest, response: ServerResponse) {
  const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1];
  const isKnown = as.access.get(token ?? '')?.valid === true;
  if (request.method !== 'POST') {
    if (isKnown) scene.verbs.push(request.method);
    response.writeHead(405).end();
    return true;
  }
  const { id = null, method } = JSON.parse(request.body) as { id?: number; method: string };
  told.push({ method, token });
  if (!isKnown && !scene.open.includes(method)) {
    const named = `resource_metadata="${server.origin}/.well-known/oauth-protected-resource/mcp"`;
    response.writeHead(401, { 'www-authenticate': `Bearer ${named}` }).end();
    return true;
  }
  const results: Record<string, object> = {
    initialize: {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'old', version: '1' },
    },
    'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
    'tools/call': { content: [] },
  };
  const result = results[method];
  if (id === null) response.writeHead(202).end();
  else if (result === undefined) {
    response.writeHead(400, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } }));
  } else {
    response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's-1' });
    response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
  }
  return true;
}

const machine = (as: AuthServer) => {
  as.clients.set('robot', { secret: 'a-secret-word', method: 'client_secret_basic' });
  return {
    type: 'client-credentials',
    clientId: 'robot',
    clientSecret: 'a-secret-word',
    issuer: as.issuer,
  } as const;
};

const methods = ({ told }: LegacyScene) => told.map(({ method }) => method);

describe('a legacy peer', () => {
  test('that refuses the probe is probed again with a token, and then asked to initialize', async () => {
    const scene = await legacyScene([]);
    const { host } = guest({ p: { url: scene.server.url, allowLegacy: true, auth: machine(scene.as) } });
    await host.start();
    expect(host.peer('p').report()).toMatchObject({ state: 'legacy', initializeSent: 1, reason: null });
    expect(methods(scene)).toEqual([
      'server/discover',
      'server/discover',
      'initialize',
      'notifications/initialized',
      'tools/list',
    ]);
    expect(scene.told.slice(1).every(({ token }) => scene.as.access.has(token ?? ''))).toBe(true);
    expect(await host.call('echo')).toMatchObject({ status: 'ok', era: 'legacy' });
    await host.stop();
    expect(scene.verbs).toEqual(['GET', 'DELETE']);
  });

  test('that refuses initialize only gets another one in another negotiation, after another probe', async () => {
    const scene = await legacyScene(['server/discover']);
    const { host } = guest({ p: { url: scene.server.url, allowLegacy: true, auth: machine(scene.as) } });
    await host.start();
    const report = await host.peer('p').waitUntil('callable');
    expect(report).toMatchObject({
      state: 'legacy',
      initializeSent: 1,
      path: ['idle', 'probing', 'legacyProbe', 'unavailable', 'probing', 'legacyProbe', 'legacy'],
    });
    expect(methods(scene).slice(0, 5)).toEqual([
      'server/discover',
      'initialize',
      'server/discover',
      'initialize',
      'notifications/initialized',
    ]);
  });

  test('that refuses initialize with every token is left alone after a few', async () => {
    const scene = await legacyScene(['server/discover']);
    const intercept = scene.server.intercept;
    scene.server.intercept = (request, response) => {
      // Good for nothing, from the moment on that it is issued.
      scene.as.expire();
      return intercept(request, response);
    };
    const { host } = guest({ p: { url: scene.server.url, allowLegacy: true, auth: machine(scene.as) } });
    await host.start();
    const initialized = () => methods(scene).filter((method) => method === 'initialize').length;
    await vi.waitFor(() => expect(scene.as.tokenRequests).toHaveLength(3), PATIENCE);
    await vi.waitFor(() => expect(host.peer('p').state).toBe('unavailable'), PATIENCE);
    expect(initialized()).toBe(3);
    expect(host.peer('p').report()).toMatchObject({ reason: { code: 'unauthorized' }, initializeSent: 1 });
  });

  test('that refuses initialize and needs a person is asked again when that person agreed', async () => {
    const scene = await legacyScene(['server/discover']);
    const { host, told } = guest({
      p: { url: scene.server.url, allowLegacy: true, auth: new PlainProvider() },
    });
    await host.start();
    await vi.waitFor(() => expect(told).toHaveLength(1), PATIENCE);
    expect(host.peer('p').report()).toMatchObject({
      state: 'unavailable',
      reason: { code: 'unauthorized' },
      authorizationUrl: told[0],
    });
    const report = await host.peer('p').authorize(await scene.as.visit(told[0] ?? ''));
    expect(report).toMatchObject({ state: 'legacy', tools: 1, authorizationUrl: null });
  });

  test('that is not allowlisted gets no initialize, authorized or not', async () => {
    const scene = await legacyScene([]);
    const { host } = guest({ p: { url: scene.server.url, auth: machine(scene.as) } });
    await host.start();
    expect(host.peer('p').report()).toMatchObject({ reason: { code: 'not-allowlisted' }, initializeSent: 0 });
    expect(methods(scene)).toEqual(['server/discover', 'server/discover']);
  });
});

test('authorize harms nobody who does not wait for it', async () => {
  const as = await authServer();
  const server = await guardedServer(as);
  const { host } = guest({ p: { url: server.url, auth: new PlainProvider() } });
  await host.start();
  const waiting = host.peer('p').authorize();
  await host.stop();
  expect(await waiting).toMatchObject({ name: 'p', state: 'stopped' });
});
