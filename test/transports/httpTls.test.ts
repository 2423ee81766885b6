/** TLS to the endpoint and to the proxy, with an authority that Node is told of by its own means. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import { type BuiltPackage, buildPackage } from '../support/builtPackage.js';
import { client, listening, type SeenRequest } from './httpHarness.js';
import { CA_FILE, serveProxy, serverTls } from './httpProxyHarness.js';

let built: BuiltPackage;
beforeAll(() => {
  built = buildPackage();
}, 120_000);
afterAll(() => built.remove());

/** A modern server with one tool, behind TLS. */
async function secureServer() {
  const requests: SeenRequest[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server: Server = createServer(serverTls(), (raw, response) => {
    const chunks: Buffer[] = [];
    raw.on('data', (chunk: Buffer) => chunks.push(chunk));
    raw.on('end', () => {
      const body = Buffer.concat(chunks).toString();
      requests.push({ method: raw.method ?? '', url: raw.url ?? '', headers: raw.headers, body });
      const { id, method } = JSON.parse(body) as { id: number; method: string };
      const result = { resultType: 'complete', ...RESULTS[method] };
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    });
  });
  server.on('connection', (socket: Socket) => {
    connections += 1;
    sockets.add(socket);
    socket.on('error', () => {});
  });
  server.on('tlsClientError', () => {});
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  return { port: (server.address() as AddressInfo).port, requests, connections: () => connections };
}

const RESULTS: Record<string, object> = {
  'server/discover': {
    supportedVersions: ['2026-07-28'],
    capabilities: { tools: {} },
    serverInfo: { name: 'secure', version: '1.0.0' },
    ttlMs: 0,
    cacheScope: 'private',
  },
  'tools/list': {
    tools: [{ name: 'lock', inputSchema: { type: 'object' } }],
    ttlMs: 0,
    cacheScope: 'private',
  },
};

interface Probed {
  readonly state: string;
  readonly era: string;
  readonly tools: number | null;
  readonly initializeSent: number;
  readonly reason: { readonly message: string } | null;
}

/** `peerage probe` as a process of its own. */
async function probe(peer: object, trusted: boolean): Promise<{ peer: Probed; output: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'peerage-tls-'));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const config = join(folder, 'peerage.json');
  writeFileSync(config, JSON.stringify({ peers: { secure: peer } }));
  const { NODE_EXTRA_CA_CERTS: _own, ...rest } = process.env;
  const child = spawn(
    process.execPath,
    [join(built.folder, 'dist/cli/main.js'), 'probe', '--json', '--config', config],
    { env: trusted ? { ...rest, NODE_EXTRA_CA_CERTS: CA_FILE } : rest, stdio: ['ignore', 'pipe', 'pipe'] },
  );
  let stdout = '';
  let stderr = '';
  child.stdout.on('data', (chunk: Buffer) => {
    stdout += chunk.toString();
  });
  child.stderr.on('data', (chunk: Buffer) => {
    stderr += chunk.toString();
  });
  await once(child, 'close');
  const output = stdout + stderr;
  try {
    return { peer: (JSON.parse(stdout) as { peers: Probed[] }).peers[0] as Probed, output };
  } catch {
    throw new Error(`no JSON in: ${output}`);
  }
}

describe('an authority in NODE_EXTRA_CA_CERTS', () => {
  test.each(['localhost', '127.0.0.1'])('is trusted for https://%s', async (host) => {
    const server = await secureServer();
    const { peer } = await probe({ url: `https://${host}:${server.port}/mcp` }, true);
    expect(peer).toMatchObject({ state: 'modern', era: 'modern', tools: 1, initializeSent: 0 });
  });

  test.each([false, true])('is trusted behind a proxy, and by the proxy (secure: %s)', async (secure) => {
    const server = await secureServer();
    const proxy = await serveProxy({ secure });
    const { peer, output } = await probe(
      {
        url: `https://localhost:${server.port}/mcp?key=urlsecret`,
        headers: { 'x-api-key': 'endpointsecret' },
        proxy: proxy.origin.replace('//', '//proxyuser:proxysecret@'),
      },
      true,
    );
    expect(peer).toMatchObject({ state: 'modern', era: 'modern', tools: 1 });
    expect(proxy.tunnels.length).toBeGreaterThan(0);
    expect(server.connections()).toBe(proxy.tunnels.length);
    for (const { authority, headers, bytes } of proxy.tunnels) {
      expect(authority).toBe(`localhost:${server.port}`);
      expect(headers['proxy-authorization']).toBe(
        `Basic ${Buffer.from('proxyuser:proxysecret').toString('base64')}`,
      );
      // All that a proxy sees is where to, and TLS.
      expect(bytes).not.toMatch(/POST|endpointsecret|urlsecret|discover/);
      expect(JSON.stringify(headers)).not.toMatch(/endpointsecret|urlsecret/);
    }
    expect(server.requests[0]?.headers['x-api-key']).toBe('endpointsecret');
    expect(JSON.stringify(server.requests)).not.toMatch(/proxysecret|proxy-/);
    expect(output).not.toMatch(/proxysecret|endpointsecret|urlsecret/);
  });

  test('that is missing leaves the peer alone, whoever may be legacy', async () => {
    const server = await secureServer();
    const proxy = await serveProxy();
    const url = `https://localhost:${server.port}/mcp`;
    for (const more of [{}, { proxy: proxy.origin }]) {
      const { peer } = await probe({ url, allowLegacy: true, ...more }, false);
      expect(peer).toMatchObject({ era: 'unknown', initializeSent: 0 });
      expect(peer.state).not.toBe('modern');
      expect(peer.reason?.message).toContain('certificate');
    }
    expect(server.requests).toEqual([]);
  });
});

test('a certificate that nobody trusts is no connection, in words', async () => {
  const server = await secureServer();
  const proxy = await serveProxy();
  for (const options of [{}, { proxy: proxy.origin }]) {
    const sent = (await client({ url: `https://127.0.0.1:${server.port}`, ...options })).post();
    const end = await sent.ended;
    expect(end).toMatchObject({
      kind: 'unreachable',
      cause: { kind: 'connect-failed', terminal: false, detail: expect.stringContaining('certificate') },
    });
    expect(sent.written).toBe(false);
  }
  expect(server.requests).toEqual([]);
  await proxy.quiet();
});

test('a server that asks for a certificate of the client is no connection, though it says so late', async () => {
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
  onTestFinished(() => void vi.unstubAllEnvs());
  const asking = createTlsServer({ ...serverTls(), requestCert: true, ca: readFileSync(CA_FILE) });
  const server = await listening(asking, '127.0.0.1');
  const { post } = await client({ url: `https://127.0.0.1:${server.port}/` });
  const sent = post({ method: 'server/discover' });
  expect(await sent.ended).toMatchObject({
    kind: 'unreachable',
    cause: { kind: 'connect-failed', detail: expect.stringContaining('asks for a certificate') },
  });
  // TLS 1.3 has this side write first: it may have been executed.
  expect(sent.written).toBe(true);
});
