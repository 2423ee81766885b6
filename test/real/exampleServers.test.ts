// Each example server is spoken to in raw JSON, without this package: what the rest of the suite, the demo
// and the examples rely on is checked here against nothing but the specification.

import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';

interface Reply {
  readonly jsonrpc: string;
  readonly id: number | string | null;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly data?: unknown };
}

const modernMeta = {
  _meta: {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientCapabilities': {},
    'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '0' },
  },
};
const initializeParams = {
  protocolVersion: '2025-11-25',
  capabilities: {},
  clientInfo: { name: 'raw', version: '0' },
};

const running: ChildProcessWithoutNullStreams[] = [];

afterEach(() => {
  for (const child of running.splice(0)) child.kill('SIGKILL');
});

/** Starts an example server; `nextLine` resolves with its next line on stdout, `stderrLine` on stderr. */
function start(file: string, ...args: string[]) {
  const path = fileURLToPath(new URL(`../../examples/servers/${file}`, import.meta.url));
  const child = spawn(process.execPath, [path, ...args], { stdio: 'pipe' });
  running.push(child);
  const exited = once(child, 'close');
  const lines = lineReader(createInterface({ input: child.stdout }), 'stdout');
  const errors = lineReader(createInterface({ input: child.stderr }), 'stderr');
  const write = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  return {
    nextLine: lines,
    stderrLine: errors,
    write,
    async ask(id: number, method: string, params: object): Promise<Reply> {
      write({ id, method, params });
      const reply = JSON.parse(await lines()) as Reply;
      expect(reply.id).toBe(id);
      return reply;
    },
    /** Ends stdin; resolves with the exit code. */
    async end(): Promise<unknown> {
      child.stdin.end();
      return (await exited)[0];
    },
  };
}

function lineReader(source: Interface, name: string): () => Promise<string> {
  const lines = source[Symbol.asyncIterator]();
  return async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`the server ended before it wrote another line to ${name}`);
    return value;
  };
}

const toolNames = ({ result }: Reply) =>
  (result?.['tools'] as { name: string }[] | undefined)?.map(({ name }) => name);

/** The URL that a server announces as its first line. */
const announcedUrl = async (server: ReturnType<typeof start>) =>
  (JSON.parse(await server.nextLine()) as { url: string }).url;

/** One POST; the message of a JSON or SSE answer, and its status and headers. */
async function post(url: string, message: object, headers: Record<string, string> = {}) {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: '2.0', ...message }),
  });
  const body = await response.text();
  const data = body.match(/^data: ?(\{.*)$/m)?.[1] ?? (body || '{}');
  return { status: response.status, headers: response.headers, reply: JSON.parse(data) as Reply };
}

const modernHeaders = (method: string, name?: string) => ({
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': method,
  ...(name !== undefined && { 'mcp-name': name }),
});

describe('modern-stdio', () => {
  test('answers the probe, lists and runs its tools, and refuses initialize', async () => {
    const server = start('modern-stdio.mjs');
    const discovered = await server.ask(1, 'server/discover', modernMeta);
    expect(discovered.result).toMatchObject({
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
      capabilities: { tools: {} },
    });
    const listed = await server.ask(2, 'tools/list', modernMeta);
    expect(toolNames(listed)).toEqual(['search', 'summarize', 'echo', 'slow']);
    const found = await server.ask(3, 'tools/call', {
      name: 'search',
      arguments: { query: 'ocean' },
      ...modernMeta,
    });
    expect(found.result?.['structuredContent']).toEqual({
      hits: [
        { id: 'ocean', title: 'Ocean currents' },
        { id: 'tides', title: 'Tides' },
      ],
    });
    expect(await server.end()).toBe(0);

    const refused = start('modern-stdio.mjs');
    expect((await refused.ask(1, 'initialize', initializeParams)).error).toMatchObject({
      code: -32022,
      data: { supported: ['2026-07-28'] },
    });
    expect(await refused.end()).toBe(0);
  });

  test('slow reports on stderr that it was cancelled', async () => {
    const server = start('modern-stdio.mjs');
    await server.ask(1, 'server/discover', modernMeta);
    server.write({ id: 7, method: 'tools/call', params: { name: 'slow', arguments: {}, ...modernMeta } });
    server.write({ method: 'notifications/cancelled', params: { requestId: 7, ...modernMeta } });
    expect(await server.stderrLine()).toBe('cancelled 7');
    expect(await server.end()).toBe(0);
  });

  test('serves the legacy handshake too when told to', async () => {
    const server = start('modern-stdio.mjs', '--dual');
    expect((await server.ask(1, 'initialize', initializeParams)).result?.['protocolVersion']).toBe(
      '2025-11-25',
    );
    expect(await server.end()).toBe(0);
  });
});

describe('picky-modern-stdio', () => {
  test('refuses the first probe with the revision it supports, then works', async () => {
    const server = start('picky-modern-stdio.mjs');
    expect((await server.ask(1, 'server/discover', modernMeta)).error).toMatchObject({
      code: -32022,
      data: { supported: ['2026-07-28'], requested: '2026-07-28' },
    });
    expect((await server.ask(2, 'server/discover', modernMeta)).result).toMatchObject({
      resultType: 'complete',
      supportedVersions: ['2026-07-28'],
    });
    expect(toolNames(await server.ask(3, 'tools/list', modernMeta))).toEqual(['translate']);
    const call = { name: 'translate', arguments: { text: 'hello', to: 'fr' }, ...modernMeta };
    expect((await server.ask(4, 'tools/call', call)).result).toMatchObject({
      content: [{ type: 'text', text: 'bonjour' }],
    });
    expect((await server.ask(5, 'initialize', initializeParams)).error?.code).toBe(-32022);
    expect((await server.ask(6, 'prompts/list', modernMeta)).error?.code).toBe(-32601);
    expect(await server.end()).toBe(0);
  });

  test('answers a line that is no JSON without an id, and no notification', async () => {
    const server = start('picky-modern-stdio.mjs');
    server.write({ method: 'notifications/cancelled', params: { requestId: 1, ...modernMeta } });
    expect((await server.ask(1, 'server/discover', modernMeta)).error?.code).toBe(-32022);
    expect(await server.end()).toBe(0);
  });
});

describe('legacy-stdio', () => {
  test('answers the probe with an error that proves nothing, and initialize properly', async () => {
    const server = start('legacy-stdio.mjs');
    expect((await server.ask(1, 'server/discover', modernMeta)).error?.code).toBe(-32601);
    expect((await server.ask(2, 'initialize', initializeParams)).result).toMatchObject({
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 'legacy-stdio-example', version: '1.0.0' },
    });
    server.write({ method: 'notifications/initialized' });
    expect(toolNames(await server.ask(3, 'tools/list', {}))).toEqual(['list_notes', 'read_note']);
    const call = { name: 'read_note', arguments: { name: 'groceries' } };
    expect((await server.ask(4, 'tools/call', call)).result).toMatchObject({
      content: [{ type: 'text', text: 'Bread, olives, a lemon.' }],
    });
    expect(await server.end()).toBe(0);
  });
});

describe('modern-http', () => {
  test('answers the probe, lists and runs its tools, and refuses initialize', async () => {
    const server = start('modern-http.mjs');
    const url = await announcedUrl(server);
    const probe = { id: 1, method: 'server/discover', params: modernMeta };
    const discovered = await post(url, probe, modernHeaders('server/discover'));
    expect(discovered.status).toBe(200);
    expect(discovered.reply.result).toMatchObject({ supportedVersions: ['2026-07-28'] });
    const list = { id: 2, method: 'tools/list', params: modernMeta };
    const listed = await post(url, list, modernHeaders('tools/list'));
    expect(toolNames(listed.reply)).toEqual(['search', 'weather']);
    const call = {
      id: 3,
      method: 'tools/call',
      params: { name: 'weather', arguments: { city: 'Graz' }, ...modernMeta },
    };
    const called = await post(url, call, modernHeaders('tools/call', 'weather'));
    expect(called.reply.result?.['structuredContent']).toEqual({ city: 'Graz', celsius: 18 });
    const refused = await post(url, { id: 4, method: 'initialize', params: initializeParams });
    expect(refused.status).toBe(400);
    expect(refused.reply.error?.code).toBe(-32022);
    expect(await server.end()).toBe(0);
  });

  test('serves nobody who calls it by a foreign name', async () => {
    const server = start('modern-http.mjs');
    const { port } = new URL(await announcedUrl(server));
    // fetch sets Host by itself, so the request is written by hand.
    const { connect } = await import('node:net');
    const socket = connect(Number(port), '127.0.0.1');
    socket.write(
      'POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n',
    );
    const [first] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    expect(first.toString('latin1')).toMatch(/^HTTP\/1\.1 403 /);
    expect(await server.end()).toBe(0);
  });
});

describe('legacy-http', () => {
  test('knows no probe, holds a session from initialize to DELETE', async () => {
    const server = start('legacy-http.mjs');
    const url = await announcedUrl(server);
    const probe = { id: 1, method: 'server/discover', params: modernMeta };
    const probed = await post(url, probe, modernHeaders('server/discover'));
    expect(probed.status).toBe(400);
    expect(probed.reply.error?.code).toBe(-32000);

    const opened = await post(url, { id: 2, method: 'initialize', params: initializeParams });
    expect(opened.reply.result).toMatchObject({
      protocolVersion: '2025-11-25',
      serverInfo: { name: 'legacy-http-example' },
    });
    const session = {
      'mcp-session-id': opened.headers.get('mcp-session-id') ?? '',
      'mcp-protocol-version': '2025-11-25',
    };
    expect((await post(url, { method: 'notifications/initialized' }, session)).status).toBe(202);
    const list = { id: 3, method: 'tools/list', params: {} };
    expect(toolNames((await post(url, list, session)).reply)).toEqual(['list_notes', 'read_note']);

    const ended = await fetch(url, { method: 'DELETE', headers: session });
    expect(ended.status).toBe(200);
    expect((await post(url, list, session)).status).toBe(404);
    expect(await server.end()).toBe(0);
  });

  test('gives no session id when stateless', async () => {
    const server = start('legacy-http.mjs', '--stateless');
    const url = await announcedUrl(server);
    const opened = await post(url, { id: 1, method: 'initialize', params: initializeParams });
    expect(opened.reply.result).toMatchObject({ protocolVersion: '2025-11-25' });
    expect(opened.headers.get('mcp-session-id')).toBeNull();
    const call = { id: 2, method: 'tools/call', params: { name: 'list_notes', arguments: {} } };
    const called = await post(url, call, { 'mcp-protocol-version': '2025-11-25' });
    expect(called.reply.result).toMatchObject({ content: [{ type: 'text', text: 'groceries\nideas' }] });
    expect((await fetch(url, { headers: { accept: 'text/event-stream' } })).status).toBe(405);
    expect(await server.end()).toBe(0);
  });
});
