// What the run of the conformance suite says about the wire is only worth something if it would say the opposite.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';
import { judgeWire, readRecord, requestsTo, type Write } from './wireCheck.mjs';

const PORT = 4000;
const url = `http://localhost:${PORT}/mcp`;
const MODERN = '2026-07-28';
const LEGACY = '2025-11-25';

interface Post {
  readonly method: string;
  readonly params?: object;
  readonly id?: number;
}

const meta = {
  'io.modelcontextprotocol/protocolVersion': MODERN,
  'io.modelcontextprotocol/clientCapabilities': {},
};
const modernParams = { _meta: meta };

function request(line: string, headers: Record<string, string | number>, body = ''): string {
  const all = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${line} HTTP/1.1\r\nhost: localhost\r\n${all.join('')}\r\n${body}`;
}

function post(message: Post | readonly Post[], headers: Record<string, string>, path = '/mcp'): string {
  const body = JSON.stringify(Array.isArray(message) ? message : { jsonrpc: '2.0', ...(message as Post) });
  return request(`POST ${path}`, { ...headers, 'content-length': Buffer.byteLength(body) }, body);
}

const modern = (method: string, extra: Record<string, string> = {}) =>
  post(
    { method, id: 1, params: modernParams },
    { 'mcp-protocol-version': MODERN, 'mcp-method': method, ...extra },
  );
const legacy = (method: string, extra: Record<string, string> = {}) =>
  post({ method, id: 1 }, { 'mcp-protocol-version': LEGACY, 'mcp-session-id': 's', ...extra });
const initialize = (extra: Record<string, string> = {}) =>
  post({ method: 'initialize', id: 2, params: { protocolVersion: LEGACY } }, extra);
const get = (extra: Record<string, string> = {}) =>
  request('GET /mcp', { 'mcp-protocol-version': LEGACY, 'mcp-session-id': 's', ...extra });

/** Each text on a socket of its own, in order. */
const wire = (...texts: readonly string[]): Write[] =>
  texts.map((text, socket) => ({ socket, port: PORT, data: Buffer.from(text).toString('base64') }));
const problems = (leg: string, ...texts: readonly string[]) =>
  judgeWire({ leg, writes: wire(...texts), url }).problems;

const probe = modern('server/discover');
const handshake = [probe, initialize(), legacy('notifications/initialized')] as const;

describe('a modern leg', () => {
  test('modern requests are all it may hold', () => {
    expect(problems('modern', probe, modern('tools/list'), modern('tools/call'))).toEqual([]);
  });

  test.each([
    ['initialize', initialize(), /initialize was written/],
    [
      'notifications/initialized',
      legacy('notifications/initialized'),
      /notifications\/initialized was written/,
    ],
    ['a GET to the endpoint', get(), /GET to the MCP endpoint/],
    ['a DELETE to the endpoint', request('DELETE /mcp', {}), /DELETE to the MCP endpoint/],
    ['a session', modern('tools/list', { 'mcp-session-id': 's' }), /mcp-session-id/],
    ['another revision', modern('tools/list', { 'mcp-protocol-version': LEGACY }), /mcp-protocol-version/],
    ['another Mcp-Method', modern('tools/list', { 'mcp-method': 'tools/call' }), /mcp-method/],
    ['no _meta', post({ method: 'tools/list' }, { 'mcp-protocol-version': MODERN }), /_meta of tools\/list/],
    ['a batch', post([{ method: 'initialize' }, { method: 'ping' }], {}), /initialize was written/],
    ['a half-written initialize', initialize().slice(0, -10), /broken body with a message of the legacy era/],
    ['what is no HTTP', 'hello\r\n\r\n', /no HTTP/],
  ])('fails on %s', (_what, text, said) => {
    expect(problems('modern', probe, text).join('\n')).toMatch(said);
  });

  test('fails without a probe', () => {
    expect(problems('modern')).toEqual(['no probe was written']);
  });

  test('metadata of the endpoint may be read, and other ports are not looked at', () => {
    const elsewhere = { socket: 9, port: PORT + 1, data: Buffer.from(initialize()).toString('base64') };
    const writes = [...wire(probe, request('GET /.well-known/oauth-protected-resource/mcp', {})), elsewhere];
    expect(judgeWire({ leg: 'modern', writes, url }).problems).toEqual([]);
  });
});

describe('a leg of legacy servers that are refused', () => {
  test('probes are all it may hold', () => {
    expect(problems('legacy-refused', probe, probe)).toEqual([]);
    expect(problems('legacy-refused', ...handshake).join('\n')).toMatch(/initialize was written/);
    expect(problems('legacy-refused', probe, modern('tools/list')).join('\n')).toMatch(/neither modern nor/);
  });
});

describe('a leg of legacy servers', () => {
  test('a probe, one initialize, and what is legacy', () => {
    expect(problems('legacy', ...handshake, get(), legacy('tools/list'))).toEqual([]);
    expect(problems('legacy', ...handshake, ...handshake)).toEqual([]);
  });

  test.each([
    ['initialize before the probe', [initialize(), probe], /before any probe/],
    ['initialize twice', [probe, initialize(), initialize()], /twice after one probe/],
    ['a version header', [probe, initialize({ 'mcp-protocol-version': LEGACY })], /on initialize/],
    ['a session', [probe, initialize({ 'mcp-session-id': 's' })], /mcp-session-id on initialize/],
    [
      'a modern header',
      [...handshake, legacy('tools/list', { 'mcp-method': 'tools/list' })],
      /mcp-method on/,
    ],
    ['a modern revision', [...handshake, legacy('ping', { 'mcp-protocol-version': MODERN })], /of ping/],
    ['a GET before it', [probe, get()], /GET before initialize/],
    [
      'a legacy header on a probe',
      [modern('server/discover', { 'mcp-session-id': 's' })],
      /mcp-session-id on/,
    ],
    [
      'initialize that asks for a modern revision',
      [probe, post({ method: 'initialize', params: { protocolVersion: MODERN } }, {})],
      /not legacy/,
    ],
    [
      'initialize with the _meta of the modern era',
      [probe, post({ method: 'initialize', params: { protocolVersion: LEGACY, ...modernParams } }, {})],
      /_meta with/,
    ],
  ])('fails on %s', (_what, texts, said) => {
    expect(problems('legacy', ...texts).join('\n')).toMatch(said);
  });
});

describe('requests in what was written', () => {
  test('several on a socket, in pieces of any size', () => {
    const bytes = Buffer.from(probe + initialize() + get());
    for (let size = 1; size < 40; size += 1) {
      const writes: Write[] = [];
      for (let at = 0; at < bytes.length; at += size)
        writes.push({ socket: 1, port: PORT, data: bytes.subarray(at, at + size).toString('base64') });
      const requests = requestsTo(writes, PORT);
      expect(requests.map(({ method, path }) => `${method} ${path}`)).toEqual([
        'POST /mcp',
        'POST /mcp',
        'GET /mcp',
      ]);
      expect(JSON.parse(requests[1]?.body ?? '')).toMatchObject({ method: 'initialize' });
    }
  });

  test('a chunked body', () => {
    const body = '{"method":"initialize"}';
    const chunks = `5\r\n${body.slice(0, 5)}\r\n${(body.length - 5).toString(16)}\r\n${body.slice(5)}\r\n0\r\n\r\n`;
    const writes = wire(request('POST /mcp', { 'transfer-encoding': 'chunked' }, chunks) + get());
    expect(requestsTo(writes, PORT).map((one) => one.body)).toEqual([body, '']);
  });
});

describe('the recorder', () => {
  const dir = mkdtempSync(join(tmpdir(), 'peerage-wire-'));
  afterEach(() => rmSync(dir, { recursive: true, force: true }));

  test('sees what HTTP clients write to real sockets, and how the process ended', async () => {
    const server = createServer((incoming, response) => {
      incoming.resume().on('end', () => response.end('{}'));
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const file = join(dir, 'record.jsonl');
    const client = `
      import { request } from 'undici';
      import http from 'node:http';
      const url = process.argv.at(-1);
      const body = JSON.stringify({ method: 'initialize', by: 'undici' });
      await (await request(url, { method: 'POST', body })).body.text();
      await (await fetch(url, { method: 'POST', body: body.replace('undici', 'fetch') })).text();
      await new Promise((resolve) =>
        http.request(url, { method: 'POST' }, (answer) => answer.resume().on('end', resolve))
          .end(body.replace('undici', 'node:http')),
      );
      process.exit(7);
    `;
    const wirePath = fileURLToPath(new URL('wire.mjs', import.meta.url));
    const child = spawn(
      process.execPath,
      ['--import', wirePath, '--input-type=module', '-e', client, `http://127.0.0.1:${port}/mcp`],
      {
        cwd: fileURLToPath(new URL('.', import.meta.url)),
        env: { ...process.env, PEERAGE_CONFORMANCE_RECORD: file },
        stdio: ['ignore', 'inherit', 'inherit'],
      },
    );
    const [code] = await once(child, 'exit');
    server.close();
    server.closeAllConnections();
    expect(code).toBe(7);

    const record = readRecord(readFileSync(file, 'utf8'));
    expect(record.exitCode).toBe(7);
    expect(record.url).toBe(`http://127.0.0.1:${port}/mcp`);
    expect(requestsTo(record.writes, port).map(({ body }) => JSON.parse(body).by)).toEqual([
      'undici',
      'fetch',
      'node:http',
    ]);
    const { problems: found } = judgeWire({ leg: 'modern', writes: record.writes, url: record.url ?? '' });
    expect(found.filter((problem) => problem.startsWith('initialize was written'))).toHaveLength(3);
  });
});
