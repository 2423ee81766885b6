// The stream of a legacy server over real sockets, and what its refusal says of the session.
import { afterEach, expect, it, vi } from 'vitest';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import { answerJson, serve } from '../transports/httpHarness.js';

vi.setConfig({ testTimeout: 60_000 });

const hosts: Host[] = [];
afterEach(() => Promise.all(hosts.splice(0).map((host) => host.stop())));

const eventually = <T>(value: () => T) => expect.poll(value, { timeout: 30_000, interval: 5 });

interface Sent {
  readonly id?: number;
  readonly method?: string;
}

const RESULTS: Record<string, object> = {
  initialize: {
    protocolVersion: '2025-11-25',
    capabilities: { tools: { listChanged: true } },
    serverInfo: { name: 'forgetful', version: '1' },
  },
  'tools/list': { tools: [] },
};

/** Its first stream ends at once, and every later one is refused with 404. */
async function forgetful(knows: (session: string) => boolean) {
  let sessions = 0;
  let streams = 0;
  const methods: string[] = [];
  const server = await serve((request, response) => {
    if (request.method === 'GET') {
      streams += 1;
      if (streams > 1) response.writeHead(404).end();
      else response.writeHead(200, { 'content-type': 'text/event-stream' }).end('retry: 0\n\n');
      return;
    }
    if (request.method === 'DELETE') {
      response.writeHead(204).end();
      return;
    }
    const { id, method = '' } = JSON.parse(request.body) as Sent;
    methods.push(method);
    const session = request.headers['mcp-session-id'];
    if (method === 'server/discover') {
      response.writeHead(400).end();
    } else if (typeof session === 'string' && streams > 1 && !knows(session)) {
      response.writeHead(404).end();
    } else if (id === undefined) {
      response.writeHead(202).end();
    } else {
      if (method === 'initialize') sessions += 1;
      const header = method === 'initialize' ? { 'mcp-session-id': `s${sessions}` } : undefined;
      answerJson(response, JSON.stringify({ jsonrpc: '2.0', id, result: RESULTS[method] ?? {} }), header);
    }
  });
  const host = createHost({
    probeTimeoutMs: 60_000,
    legacyProbeTimeoutMs: 60_000,
    listTimeoutMs: 60_000,
    peers: { it: { url: server.origin, allowLegacy: true } },
  });
  hosts.push(host);
  await host.start();
  return { host, methods };
}

it('a stream that is refused after it was there shows that the session is gone, though nobody calls', async () => {
  const { host, methods } = await forgetful((session) => session !== 's1');
  await eventually(() => methods.filter((method) => method === 'initialize').length).toBe(2);
  expect(methods).toContain('ping');
  await eventually(() => host.peer('it').report().state).toBe('legacy');
});

it('a session that is still known goes on without the stream', async () => {
  const { host, methods } = await forgetful(() => true);
  await eventually(() => methods.filter((method) => method === 'ping').length).toBe(1);
  await eventually(() => host.status().peers[0]?.subscription?.state).toBe('closed');
  expect(methods.filter((method) => method === 'initialize')).toHaveLength(1);
});
