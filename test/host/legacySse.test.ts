// A host and a server of HTTP+SSE over real sockets: what goes over the wire, in which order, and what callers are told.
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { HttpPeerConfig } from '../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import { ConfigurationError } from '../../src/host/errors.js';
import type { Host } from '../../src/host/facade.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { serve } from '../transports/httpHarness.js';
import { legacyAnswers, openStream, type SseServer, sseServer } from '../transports/sseHarness.js';

vi.setConfig({ testTimeout: 60_000 });

const hosts: Host[] = [];
afterEach(() => Promise.all(hosts.splice(0).map((host) => host.stop())));

type Options = Omit<CreateHostOptions, 'peers'> & { readonly peer?: Partial<HttpPeerConfig> };

async function start(server: SseServer, { peer = {}, ...options }: Options = {}): Promise<Host> {
  const host = createHost({
    // Deadlines that a busy machine cannot reach.
    probeTimeoutMs: 60_000,
    legacyProbeTimeoutMs: 60_000,
    listTimeoutMs: 60_000,
    callTimeoutMs: 60_000,
    maxAttempts: 0,
    retryUnavailableAfterMs: 0,
    ...options,
    peers: { it: { transport: 'legacy-sse', url: server.url, allowLegacy: true, ...peer } },
  });
  hosts.push(host);
  await host.start();
  return host;
}

const eventually = <T>(value: () => T) => expect.poll(value, { timeout: 30_000, interval: 5 });

describe('a server of 2024-11-05', () => {
  it('is probed, then initialized, on the same stream; its tools are listed and called', async () => {
    const server = await sseServer({ answer: legacyAnswers() });
    const host = await start(server);
    const peer = host.peer('it').report();
    expect(peer).toMatchObject({ state: 'legacy', revision: '2024-11-05' });
    expect(await host.catalog().call('greet', {})).toMatchObject({ status: 'ok', delivery: 'answered' });
    expect(server.methods()).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
      'tools/list',
      'tools/call',
    ]);
    expect(server.streams).toHaveLength(1);
    expect(peer.initializeSent).toBe(1);
    for (const { headers } of server.requests) {
      expect(Object.keys(headers).filter((name) => name.startsWith('mcp-'))).toEqual([]);
    }
    const [, initialize] = server.heard;
    expect(initialize?.params).not.toHaveProperty('_meta');
    await host.stop();
    await server.quiet();
  });

  it('that does not answer the probe is initialized on the same stream after its deadline', async () => {
    const answer = legacyAnswers();
    const server = await sseServer({
      answer: (message) => (message.method === 'server/discover' ? undefined : answer(message)),
    });
    const host = await start(server, { probeTimeoutMs: 300 });
    expect(host.peer('it').state).toBe('legacy');
    expect(server.methods().slice(0, 2)).toEqual(['server/discover', 'initialize']);
    expect(server.streams).toHaveLength(1);
  });

  it.each([400, 404])('that answers the probe with HTTP %i is initialized', async (status) => {
    const server = await sseServer({
      answer: (message) => (message.method === 'server/discover' ? undefined : legacyAnswers()(message)),
      onPost: (request, response) =>
        response.writeHead(request.body.includes('server/discover') ? status : 202).end('no'),
    });
    const host = await start(server);
    expect(host.peer('it').report()).toMatchObject({ state: 'legacy', revision: '2024-11-05' });
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(1);
  });

  it('that dies of the probe is initialized on another stream', async () => {
    const answer = legacyAnswers();
    const server = await sseServer({
      answer: (message) => {
        if (message.method !== 'server/discover') return answer(message);
        server.streams.at(-1)?.end();
        return undefined;
      },
    });
    const host = await start(server);
    expect(host.peer('it').state).toBe('legacy');
    expect(server.methods().slice(0, 2)).toEqual(['server/discover', 'initialize']);
    expect(server.streams).toHaveLength(2);
  });

  it('gets answers to its own requests by POST', async () => {
    const server = await sseServer({
      answer: (message) => {
        if (message.method === 'notifications/initialized') return { id: 'ping-1', method: 'ping' };
        return legacyAnswers()(message);
      },
    });
    await start(server);
    await eventually(() => server.heard.find(({ id }) => id === 'ping-1')).toMatchObject({ result: {} });
  });

  it('is told of a call that is given up', async () => {
    const server = await sseServer({ answer: legacyAnswers(() => undefined) });
    const host = await start(server);
    const given = new AbortController();
    const call = host.catalog().call('greet', {}, { signal: given.signal });
    await server.heardAll(5);
    given.abort();
    expect(await call).toMatchObject({ status: 'cancelled', delivery: 'unknown' });
    await server.heardAll(6);
    expect(server.heard.at(-1)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: server.heard[4]?.id },
    });
  });

  it('may be silent for hours', async () => {
    const clock = createSimulatedClock();
    const server = await sseServer({ answer: legacyAnswers() });
    const host = await start(server, { clock });
    clock.advance(60 * 60 * 1000);
    expect(host.peer('it').state).toBe('legacy');
    expect(await host.catalog().call('greet', {})).toMatchObject({ status: 'ok' });
    expect(server.streams).toHaveLength(1);
  });
});

describe('what is lost', () => {
  it.each([
    ['ends', (server: SseServer) => server.streams.at(-1)?.end()],
    ['is reset', (server: SseServer) => server.streams.at(-1)?.socket?.resetAndDestroy()],
  ])('a call whose stream %s: lost, and perhaps executed; then a new negotiation', async (_name, end) => {
    let calls = 0;
    const server = await sseServer({
      answer: legacyAnswers(() => {
        calls += 1;
        if (calls > 1) return { result: { content: [] } };
        end(server);
        return undefined;
      }),
    });
    const host = await start(server, { maxAttempts: 5, backoffMinMs: 1, backoffMaxMs: 5 });
    expect(await host.catalog().call('greet', {})).toMatchObject({ status: 'lost', delivery: 'unknown' });
    await host.peer('it').waitUntil('callable');
    expect(await host.catalog().call('greet', {})).toMatchObject({ status: 'ok' });
    expect(server.methods().filter((method) => method === 'initialize')).toHaveLength(2);
    expect(server.methods().filter((method) => method === 'server/discover')).toHaveLength(2);
    expect(calls).toBe(2);
  });

  it.each([
    [400, 'protocol-error'],
    [404, 'unavailable'],
    [500, 'lost'],
    [401, 'unavailable'],
  ])('a call whose POST is answered with %i is told at once', async (status, told) => {
    const server = await sseServer({
      answer: legacyAnswers(() => undefined),
      onPost: (request, response) =>
        response.writeHead(request.body.includes('tools/call') ? status : 202).end(),
    });
    const host = await start(server);
    expect(await host.catalog().call('greet', {})).toMatchObject({ status: told });
  });
});

describe('what is no signal', () => {
  it('a stream that ends before the probe is sent: initialize is not the first that goes out (N1)', async () => {
    const server = await sseServer({
      answer: legacyAnswers(),
      onGet: (_request, response) => {
        openStream(response);
        if (server.streams.length === 1) response.end();
      },
    });
    const host = await start(server, { maxAttempts: 5, backoffMinMs: 1, backoffMaxMs: 5 });
    await host.peer('it').waitUntil('callable');
    expect(server.methods().slice(0, 2)).toEqual(['server/discover', 'initialize']);
  });

  it('an endpoint of another origin: not contacted, no initialize', async () => {
    const canary = await serve((_request, response) => response.writeHead(202).end());
    const server = await sseServer({
      onGet: (_request, response) => openStream(response, `event: endpoint\ndata: ${canary.origin}/m\n\n`),
    });
    const host = await start(server, { peer: { headers: { authorization: 'Bearer secret' } } });
    const peer = host.peer('it').report();
    expect(peer).toMatchObject({ state: 'unavailable', reason: { code: 'unreachable' } });
    expect(peer.reason?.message).toContain('not contacted');
    expect(peer.initializeSent).toBe(0);
    expect(canary.connections()).toBe(0);
    expect(server.posts()).toEqual([]);
  });

  it('an endpoint that speaks Streamable HTTP only: told what to change', async () => {
    const server = await sseServer({
      onGet: (_request, response) => response.writeHead(405).end(),
    });
    const host = await start(server);
    const { reason } = host.peer('it').report();
    expect(reason?.message).toContain('HTTP 405');
    expect(reason?.fix).toContain('legacy-sse');
    expect(server.requests).toHaveLength(1);
  });

  it('an endpoint that is told after the deadline of the probe: no initialize', async () => {
    const server = await sseServer({ onGet: (_request, response) => openStream(response, '') });
    const host = await start(server, { probeTimeoutMs: 200 });
    expect(host.peer('it').state).toBe('unavailable');
    expect(server.heard).toEqual([]);
  });

  it('401 to GET: unauthorized, no initialize', async () => {
    const server = await sseServer({ onGet: (_request, response) => response.writeHead(401).end() });
    const host = await start(server);
    expect(host.peer('it').report()).toMatchObject({
      state: 'unavailable',
      reason: { code: 'unauthorized' },
    });
    expect(server.requests).toHaveLength(1);
  });
});

it('modern evidence in answer to the POST of the probe forbids initialize', async () => {
  const server = await sseServer({
    onPost: (_request, response) =>
      response
        .writeHead(400, { 'content-type': 'application/json' })
        .end('{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no"}}'),
  });
  const host = await start(server);
  expect(host.peer('it').state).toBe('unavailable');
  expect(server.methods()).toEqual(['server/discover']);
});

it('without allowLegacy: true it is a wrong configuration', () => {
  for (const more of [{}, { allowLegacy: false }]) {
    const wrong = () =>
      createHost({ peers: { it: { transport: 'legacy-sse', url: 'http://127.0.0.1/sse', ...more } } });
    expect(wrong).toThrow(ConfigurationError);
    expect(wrong).toThrow(/^peers\.it\.transport: got "legacy-sse" without allowLegacy: true/);
  }
});
