/** What a listening stream meets: servers that ask for patience, listeners that subscribe anew, transports without one. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { advance, quiet } from '../../src/testing/drive.js';
import { listeningFake } from '../host/subscribingFakes.js';

const hosts: Host[] = [];
const servers: Server[] = [];
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  for (const server of servers.splice(0)) server.close();
});

function hostOf(options: Parameters<typeof createHost>[0]): Host {
  const host = createHost(options);
  hosts.push(host);
  return host;
}

it('a listener that ends and renews its subscription when it is told of a gap is told once', async () => {
  const fake = listeningFake();
  const host = hostOf({ peers: { one: fake.config } });
  let told = 0;
  let end = (): void => {};
  host.on('resourceUpdated', () => {
    told += 1;
    if (told > 100) throw new Error('without end');
    end();
    end = host.subscribeResource('one', 'file:///a');
  });
  await host.start();
  end = host.subscribeResource('one', 'file:///a');
  await expect.poll(() => told).toBeGreaterThan(0);
  await quiet();
  expect(told).toBeLessThan(10);
});

it('a server that says when to listen again is not asked before', async () => {
  const clock = createSimulatedClock();
  const fake = listeningFake({ perRequestStreams: true });
  fake.onListen = (message) => {
    const cause = {
      kind: 'http-status',
      detail: 'HTTP 429',
      terminal: false,
      status: 429,
      retryAfterMs: 3_600_000,
    } as const;
    queueMicrotask(() => {
      fake.connections.at(-1)?.end(message.id ?? 0, { kind: 'unreachable', redirected: false, cause });
    });
    return null;
  };
  const host = hostOf({ peers: { one: fake.config }, clock, random: () => 0.5 });
  await host.start();
  await quiet();
  await advance(clock, 3_599_000);
  expect(fake.listens()).toHaveLength(1);
  await advance(clock, 2_000);
  expect(fake.listens()).toHaveLength(2);
});

it('the status of a legacy server behind HTTP does not claim to hear what it says by itself', async () => {
  const server = createServer((request, response) => {
    let body = '';
    request.on('data', (chunk: Buffer) => {
      body += chunk.toString();
    });
    request.on('end', () => {
      if (request.method !== 'POST') return response.writeHead(405).end();
      const { id, method } = JSON.parse(body) as { id?: number; method: string };
      if (id === undefined) return response.writeHead(202).end();
      const serverInfo = { name: 'old', version: '1.0.0' };
      const capabilities = { tools: { listChanged: true } };
      const answers: Record<string, object> = {
        initialize: { result: { protocolVersion: '2025-11-25', capabilities, serverInfo } },
        'tools/list': { result: { tools: [] } },
      };
      const answer = answers[method] ?? { error: { code: -32601, message: 'Method not found' } };
      response.writeHead(200, { 'content-type': 'application/json' });
      return response.end(JSON.stringify({ jsonrpc: '2.0', id, ...answer }));
    });
  });
  servers.push(server.listen(0, '127.0.0.1'));
  await once(server, 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
  const host = hostOf({ peers: { old: { url, allowLegacy: true } } });
  await host.start();
  expect(host.status().peers[0]).toMatchObject({
    state: 'legacy',
    subscription: { state: 'closed', problem: expect.stringContaining('in its answers only') },
  });
});
