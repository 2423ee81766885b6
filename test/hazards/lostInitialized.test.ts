/** A legacy server behind HTTP that never got `notifications/initialized`. */
import { once } from 'node:events';
import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';

const ended: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ended.splice(0).reverse()) await end();
});

/** Refuses every request of a session that it did not see initialized. `lose` answers the first notification of each. */
async function strictServer(lose: (response: ServerResponse, session: number) => boolean) {
  let sessions = 0;
  const initialized = new Set<string>();
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      if (request.method !== 'POST') return response.writeHead(405).end();
      const { id, method } = JSON.parse(body) as { id?: number; method: string };
      const session = String(request.headers['mcp-session-id']);
      const answer = (message: object, headers = {}) => {
        response.writeHead(200, { 'content-type': 'application/json', ...headers });
        return response.end(JSON.stringify({ jsonrpc: '2.0', id, ...message }));
      };
      if (method === 'server/discover')
        return answer({ error: { code: -32601, message: 'Method not found' } });
      if (method === 'initialize') {
        sessions += 1;
        const serverInfo = { name: 'strict', version: '1.0.0' };
        const result = { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo };
        return answer({ result }, { 'mcp-session-id': `s${sessions}` });
      }
      if (method === 'notifications/initialized') {
        if (lose(response, sessions)) return undefined;
        initialized.add(session);
      }
      if (id === undefined) return response.writeHead(202).end();
      if (!initialized.has(session)) return answer({ error: { code: -32600, message: 'not initialized' } });
      return answer({ result: { tools: [{ name: 'search', inputSchema: { type: 'object' } }] } });
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  ended.push(() => new Promise((resolve) => server.close(resolve)));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, sessions: () => sessions };
}

function hostOf(url: string): Host {
  const host = createHost({
    peers: { archive: { url, allowLegacy: true } },
    backoffMinMs: 1,
    backoffMaxMs: 5,
  });
  ended.push(() => host.stop());
  return host;
}

it.each([
  ['reset', (response: ServerResponse) => void response.socket?.resetAndDestroy()],
  ['answered with 503', (response: ServerResponse) => void response.writeHead(503).end()],
])('a lost notifications/initialized (%s) is a lost connection: there is a new session', async (_, lose) => {
  const server = await strictServer((response, session) => {
    if (session > 1) return false;
    lose(response);
    return true;
  });
  const host = hostOf(server.url);
  await host.start();
  const report = await host.peer('archive').waitUntil('callable');
  await expect.poll(() => host.catalog().entries.size).toBe(1);
  expect(report.state).toBe('legacy');
  expect(server.sessions()).toBe(2);
});

it('a notification that the server refuses is its own affair: some answer 400 to all of them', async () => {
  const server = await strictServer((response) => {
    response.writeHead(400).end();
    return true;
  });
  const host = hostOf(server.url);
  const { peers } = await host.start();
  expect(peers[0]).toMatchObject({ state: 'legacy', listing: expect.stringContaining('not initialized') });
  expect(server.sessions()).toBe(1);
});
