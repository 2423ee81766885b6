/** What the requests of a legacy session carry, and how it ends (2025-11-25, basic/transports, "Session Management"). */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { legacyDialect } from '../../src/protocol/legacy.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { issueLegacyPermit } from '../../src/transports/permit.js';
import { streamableHttpTransport } from '../../src/transports/streamableHttp.js';
import { connectTo, modern } from './connectionHarness.js';
import { type Answer, answerJson, client, JSON_ANSWER, type SeenRequest, serve } from './httpHarness.js';
import { CONNECT_TIMEOUT_MS, EVENTS, legacyPeer, openEvents, streamWaits } from './legacyHarness.js';

const MODERN_ONLY = ['mcp-method', 'mcp-name'];
const LEGACY_ONLY = ['mcp-session-id', 'last-event-id'];

function carries({ headers }: SeenRequest, names: readonly string[]): string[] {
  return names.filter((name) => name in headers);
}

describe('requests of a session', () => {
  /** One of each kind: request, notification, answer, the stream of the server, a resumed answer, the end. */
  async function everything(revision: string, session: string | null) {
    const peer = await legacyPeer({
      revision,
      session,
      get: ({ headers }, response) => {
        if (headers['last-event-id'] === undefined) openEvents(response);
        else response.writeHead(200, EVENTS).end(`data: ${JSON_ANSWER}\n\n`);
      },
      post: ({ body }, response) => {
        if (body.includes('"slow"')) response.writeHead(200, EVENTS).end('id: 1\n\n');
        else if (body.includes('"id":null')) response.writeHead(202).end();
        else answerJson(response);
      },
    });
    await peer.post({ id: null, method: 'notifications/initialized' }).ended;
    await peer.openStream();
    await peer.post().ended;
    await peer.post({ id: null, method: null }).ended;
    const slow = peer.post({ method: 'slow' });
    await streamWaits(peer.clock);
    peer.clock.advance(1000);
    await slow.ended;
    await peer.transport.close();
    return peer.server.requests;
  }

  test.each([
    ['2025-11-25', '2025-11-25'],
    ['2025-06-18', '2025-06-18'],
    ['2025-03-26', undefined],
    ['2024-11-05', undefined],
  ])('%s: all that follow initialize carry the id, and the version as %s', async (revision, version) => {
    const [first, ...later] = await everything(revision, 'id-!~');
    expect(carries(first as SeenRequest, [...LEGACY_ONLY, ...MODERN_ONLY, 'mcp-protocol-version'])).toEqual(
      [],
    );
    expect(later.map(({ method }) => method)).toEqual([
      'POST',
      'GET',
      'POST',
      'POST',
      'POST',
      'GET',
      'DELETE',
    ]);
    for (const request of later) {
      expect(request.headers['mcp-session-id']).toBe('id-!~');
      expect(request.headers['mcp-protocol-version']).toBe(version);
      expect(carries(request, MODERN_ONLY)).toEqual([]);
    }
    expect(later.map(({ headers }) => headers['last-event-id'])).toEqual([
      ...Array(5).fill(undefined),
      '1',
      undefined,
    ]);
  });

  test('a server without sessions gets the version, no id, and no DELETE', async () => {
    const [, ...later] = await everything('2025-11-25', null);
    expect(later.map(({ method }) => method)).toEqual(['POST', 'GET', 'POST', 'POST', 'POST', 'GET']);
    for (const request of later) {
      expect(request.headers['mcp-protocol-version']).toBe('2025-11-25');
      expect(carries(request, ['mcp-session-id', ...MODERN_ONLY])).toEqual([]);
    }
  });

  test('no other answer changes the id', async () => {
    const peer = await legacyPeer({
      post: (_request, response) => answerJson(response, JSON_ANSWER, { 'mcp-session-id': 'another' }),
      get: (_request, response) => response.writeHead(200, { ...EVENTS, 'mcp-session-id': 'third' }).end(),
    });
    await peer.post().ended;
    await peer.openStream();
    await peer.post().ended;
    expect(peer.server.requests.at(-1)?.headers['mcp-session-id']).toBe('session-1');
  });

  test('an id in the refusal of a probe is never sent', async () => {
    const server = await serve((request, response) => {
      if (request.body.includes('server/discover')) {
        response.writeHead(404, { 'content-type': 'application/json', 'mcp-session-id': 'early' }).end('{}');
      } else answerJson(response);
    });
    const { post, transport } = await client({ url: server.origin });
    await post({ method: 'server/discover', headers: { 'mcp-method': 'server/discover' } }).ended;
    await post({ method: 'initialize' }).ended;
    transport.negotiated?.({ era: 'legacy', revision: '2025-11-25' });
    await transport.openServerStream?.();
    await post().ended;
    await transport.close();
    expect(server.requests.map(({ method }) => method)).toEqual(['POST', 'POST', 'GET', 'POST']);
    expect(server.requests.filter((request) => carries(request, LEGACY_ONLY).length > 0)).toEqual([]);
  });
});

describe('over a connection', () => {
  async function connected(later: Answer) {
    const server = await serve((request, response, raw) => {
      if (request.method !== 'POST') response.writeHead(request.method === 'GET' ? 405 : 204).end();
      else if (request.body.includes('"initialize"')) {
        answerJson(response, '{"jsonrpc":"2.0","id":8,"result":{}}', { 'mcp-session-id': 'abc' });
      } else if (request.body.includes('server/discover')) {
        answerJson(response, '{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}');
      } else later(request, response, raw);
    });
    const clock = createSimulatedClock();
    const options = { url: server.origin, clock, connectTimeoutMs: CONNECT_TIMEOUT_MS };
    const { connection } = await connectTo(streamableHttpTransport(options), clock);
    await connection.probe(modern, 1000).outcome;
    const dialect = legacyDialect({ revision: '2025-11-25' });
    const permit = issueLegacyPermit(connection);
    await connection.initialize(dialect, '', () => permit, 1000).outcome;
    await connection.select(dialect);
    return { server, connection };
  }

  test('the stream of the server is opened once the server knows of the session', async () => {
    const { server, connection } = await connected((_request, response) => response.writeHead(202).end());
    expect(connection.serverStream).toEqual({ state: 'none', detail: 'HTTP 405' });
    expect(
      server.requests.map(({ method, body }) => (body === '' ? method : JSON.parse(body).method)),
    ).toEqual(['server/discover', 'initialize', 'notifications/initialized', 'GET']);
    const [probe, ...rest] = server.requests;
    expect(carries(probe as SeenRequest, LEGACY_ONLY)).toEqual([]);
    expect(carries(probe as SeenRequest, MODERN_ONLY)).toEqual(['mcp-method']);
    for (const request of rest) expect(carries(request, MODERN_ONLY)).toEqual([]);
  });

  test('404 is the loss of the session, and no DELETE follows', async () => {
    const { server, connection } = await connected(({ body }, response) => {
      if (body.includes('notifications/')) response.writeHead(202).end();
      else response.writeHead(404, { 'content-type': 'application/json' }).end(JSON_ANSWER);
    });
    const { outcome } = connection.request('tools/list', '', { timeoutMs: 1000 });
    expect(await outcome).toMatchObject({ kind: 'session-lost', status: 404 });
    await connection.close();
    expect(server.requests.filter(({ method }) => method === 'DELETE')).toEqual([]);
  });

  test('an error with the code 404 is none', async () => {
    const { connection } = await connected(({ body }, response) => {
      if (body.includes('notifications/')) response.writeHead(202).end();
      else answerJson(response, '{"jsonrpc":"2.0","id":9,"error":{"code":404,"message":"no such tool"}}');
    });
    const { outcome } = connection.request('tools/list', '', { timeoutMs: 1000 });
    expect(await outcome).toMatchObject({ kind: 'error', error: { code: 404 } });
  });
});

describe('the end of a session', () => {
  const status =
    (code: number) =>
    (_request: SeenRequest, response: ServerResponse): void =>
      void response.writeHead(code).end('so');

  test.each([200, 204, 301, 400, 401, 404, 405, 500])('DELETE may be answered with %i', async (code) => {
    const peer = await legacyPeer({ delete: status(code) });
    await peer.transport.close();
    expect(peer.server.requests.map(({ method }) => method)).toEqual(['POST', 'DELETE']);
    expect(peer.clock.pendingTimers).toBe(0);
    await peer.server.quiet();
  });

  test('DELETE may break', async () => {
    const peer = await legacyPeer({ delete: (_request, response) => response.socket?.destroy() });
    await peer.transport.close();
    expect(peer.clock.pendingTimers).toBe(0);
  });

  test('DELETE may hang', async () => {
    let arrived: () => void = () => {};
    const there = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const peer = await legacyPeer({ delete: () => arrived() });
    const closed = peer.transport.close();
    await there;
    peer.clock.advance(1000);
    await closed;
    expect(peer.clock.pendingTimers).toBe(0);
    await peer.server.quiet();
  });

  test('credentials that never come keep nobody waiting', async () => {
    const peer = await legacyPeer({
      authorizer: {
        credentials: ({ method }) => (method === 'DELETE' ? new Promise(() => {}) : null),
        refused: () => Promise.resolve(false),
        heardNonce: () => {},
      },
    });
    const closed = peer.transport.close();
    await streamWaits(peer.clock);
    peer.clock.advance(1000);
    await closed;
    expect(peer.server.requests.map(({ method }) => method)).toEqual(['POST']);
  });
});
