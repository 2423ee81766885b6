// Servers of the official packages that speak HTTP+SSE (2024-11-05): as processes, and in this one.

import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server as McpServer } from '@modelcontextprotocol/sdk/server/index.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import {
  CallToolRequestSchema,
  InitializeRequestSchema,
  ListToolsRequestSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { PeerConfig } from '../../src/host/config.js';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import { type ServerProcess, startEverything } from '../support/serverProcess.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const hosts: Host[] = [];
const processes: ServerProcess[] = [];
const servers: Server[] = [];
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  await Promise.all(processes.splice(0).map((server) => server.kill()));
  await Promise.all(servers.splice(0).map(closed));
});

async function closed(server: Server): Promise<void> {
  server.close();
  server.closeAllConnections();
  if (server.listening) await once(server, 'close');
}

async function hostOf(peer: PeerConfig): Promise<Host> {
  const host = createHost({
    probeTimeoutMs: 60_000,
    legacyProbeTimeoutMs: 60_000,
    listTimeoutMs: 60_000,
    callTimeoutMs: 60_000,
    startTimeoutMs: 100_000,
    maxAttempts: 10,
    backoffMinMs: 10,
    backoffMaxMs: 100,
    peers: { it: peer },
  });
  hosts.push(host);
  await host.start();
  return host;
}

describe('server-everything, as a process', () => {
  it('is negotiated with, listed and called; killed in a call, that is lost', async () => {
    const server = await startEverything('sse');
    processes.push(server);
    const host = await hostOf({ transport: 'legacy-sse', url: server.url, allowLegacy: true });
    const report = host.peer('it').report();
    expect(report).toMatchObject({
      state: 'legacy',
      server: { name: 'mcp-servers/everything' },
      initializeSent: 1,
    });
    const tools = host.catalog();
    expect(await tools.call('echo', { message: 'hi' })).toMatchObject({
      status: 'ok',
      result: { content: [{ type: 'text', text: 'Echo: hi' }] },
    });
    const many = await Promise.all(
      Array.from({ length: 30 }, (_, index) => tools.call('get-sum', { a: index, b: 1 })),
    );
    many.forEach((outcome, index) => {
      expect(JSON.stringify(outcome)).toContain(` is ${index + 1}.`);
    });
    let begun: () => void = () => {};
    const isRunning = new Promise<void>((resolve) => {
      begun = resolve;
    });
    const long = tools.call(
      'trigger-long-running-operation',
      { duration: 60, steps: 600 },
      { onProgress: () => begun() },
    );
    await isRunning;
    await server.kill();
    expect(await long).toMatchObject({ status: 'lost', delivery: 'unknown' });
  });
});

/** One server a stream, as the package's own examples have it. `heard` is every message, in order. */
async function officialServer(revision = '2024-11-05') {
  const heard: string[] = [];
  const streams = new Map<string, SSEServerTransport>();
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    if (request.method === 'GET') {
      const transport = new SSEServerTransport('/messages', response);
      streams.set(transport.sessionId, transport);
      void mcpServer(revision).connect(transport);
      const onmessage = transport.onmessage;
      transport.onmessage = (message, extra) => {
        heard.push('method' in message ? message.method : 'response');
        onmessage?.(message, extra);
      };
      return;
    }
    const stream = streams.get(url.searchParams.get('sessionId') ?? '');
    if (stream === undefined) response.writeHead(404).end();
    else void stream.handlePostMessage(request, response);
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://localhost:${(server.address() as AddressInfo).port}/sse`;
  return { url, heard, end: () => streams.forEach((stream) => void stream.close()) };
}

function mcpServer(revision: string): McpServer {
  const server = new McpServer({ name: 'sse', version: '1' }, { capabilities: { tools: {} } });
  server.setRequestHandler(InitializeRequestSchema, () => ({
    protocolVersion: revision,
    capabilities: { tools: {} },
    serverInfo: { name: 'sse', version: '1' },
  }));
  server.setRequestHandler(ListToolsRequestSchema, () => ({
    tools: [{ name: 'ping-back', inputSchema: { type: 'object' } }],
  }));
  server.setRequestHandler(CallToolRequestSchema, async () => {
    await server.ping();
    return { content: [{ type: 'text', text: 'pinged' }] };
  });
  return server;
}

describe('SSEServerTransport of the 1.x package', () => {
  it.each(['2024-11-05', '2025-11-25'])(
    'in revision %s, with a request of its own in a call',
    async (revision) => {
      const server = await officialServer(revision);
      const host = await hostOf({ transport: 'legacy-sse', url: server.url, allowLegacy: true });
      expect(host.peer('it').report()).toMatchObject({ state: 'legacy', revision });
      expect(await host.catalog().call('ping-back', {})).toMatchObject({ status: 'ok' });
      expect(server.heard).toEqual([
        'server/discover',
        'initialize',
        'notifications/initialized',
        'tools/list',
        'tools/call',
        'response',
      ]);
    },
  );

  it('that ends its streams is negotiated with anew', async () => {
    const server = await officialServer();
    const host = await hostOf({ transport: 'legacy-sse', url: server.url, allowLegacy: true });
    server.heard.length = 0;
    server.end();
    await expect.poll(() => server.heard.includes('tools/list'), { timeout: 60_000, interval: 5 }).toBe(true);
    await host.peer('it').waitUntil('callable');
    expect(server.heard.slice(0, 4)).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
      'tools/list',
    ]);
    expect(await host.catalog().call('ping-back', {})).toMatchObject({ status: 'ok' });
  });

  it('is not spoken to in that way by a peer that does not name it', async () => {
    const server = await officialServer();
    const host = await hostOf({ url: server.url, allowLegacy: true });
    expect(host.peer('it').callable).toBe(false);
    expect(server.heard).toEqual([]);
  });
});
