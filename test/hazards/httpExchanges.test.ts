/** Whole exchanges over modern HTTP, through a host and a real socket: what names look like in headers, and answers as streams. */
import { afterEach, describe, expect, test } from 'vitest';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { type Arrived, ModernHttpServer } from './modernHttpServer.js';

const hosts: Host[] = [];
afterEach(() => Promise.all(hosts.splice(0).map((host) => host.stop())));

/** Deadlines that a busy machine cannot reach. */
const PATIENT = { probeTimeoutMs: 60_000, listTimeoutMs: 60_000, startTimeoutMs: 60_000 };

async function over(server: ModernHttpServer): Promise<Host> {
  await server.listen();
  const host = createHost({ ...PATIENT, peers: { it: { url: server.url } } });
  hosts.push(host);
  await host.start();
  return host;
}

/** Node gives a header's bytes as Latin-1, and nothing but visible ASCII may have been sent. */
const isPlainAscii = (text: unknown): boolean => typeof text === 'string' && /^[\x21-\x7e]+$/.test(text);
const base64 = (text: string): string => `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`;

describe('a name in Mcp-Name', () => {
  const NAMES = ['zażółć', '検索', '=?base64?YWRk?=', 'naïve.tool'];

  test('of a tool is encoded where no header can carry it', async () => {
    const tools = [...NAMES, 'plain'].map((name) => ({ name, inputSchema: { type: 'object' } }));
    const server = new ModernHttpServer(tools);
    const host = await over(server);
    for (const { name } of tools) {
      const route = [...host.catalog().entries.values()].find(({ local }) => local === name);
      expect((await host.call(route?.name ?? '?')).status).toBe('ok');
    }
    const calls = server.of('tools/call');
    expect(calls.map(({ headers }) => headers['mcp-name'])).toEqual([...NAMES.map(base64), 'plain']);
    expect(calls.map(({ params }) => params['name'])).toEqual([...NAMES, 'plain']);
  });

  test.each([
    ['prompts/get', 'grüße'],
    ['prompts/get', ' outer space '],
    ['prompts/get', 'two\nlines'],
    ['resources/read', 'docs://größe'],
    ['resources/read', 'file:///path/to/file%20name.txt'],
  ])('of %s: %j', async (method, name) => {
    const server = new ModernHttpServer([]);
    server.handle = (request) => {
      if (request.method !== method) return false;
      if (method === 'prompts/get') request.result({ messages: [] });
      else request.result({ contents: [], ttlMs: 0, cacheScope: 'private' });
      return true;
    };
    const host = await over(server);
    const outcome =
      method === 'prompts/get' ? await host.getPrompt('it', name) : await host.readResource('it', name);
    expect(outcome.status).toBe('ok');
    const [request] = server.of(method);
    expect(request?.params[method === 'prompts/get' ? 'name' : 'uri']).toBe(name);
    const header = request?.headers['mcp-name'];
    expect(isPlainAscii(header)).toBe(true);
    // Percent encoding is part of a URI and no encoding of ours.
    expect(header).toBe(isPlainAscii(name) ? name : base64(name));
  });
});

describe('a server that answers everything with an event stream', () => {
  const TOOL = { name: 'add', inputSchema: { type: 'object' } };
  const event = (message: JsonObject, lineEnd = '\n'): string =>
    `event: message${lineEnd}data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}${lineEnd}${lineEnd}`;
  const resultOf: Record<string, JsonObject> = {
    'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { tools: {}, prompts: {} } },
    'tools/list': { tools: [TOOL], ttlMs: 0, cacheScope: 'private' },
    'prompts/list': { prompts: [{ name: 'greet' }], ttlMs: 0, cacheScope: 'private' },
    'prompts/get': { messages: [] },
    'tools/call': { content: [{ type: 'text', text: 'done' }] },
  };
  const answerOf = ({ id, method }: Arrived): JsonObject => ({
    id,
    result: { resultType: 'complete', ...resultOf[method] },
  });

  async function streaming(before: (request: Arrived) => string, lineEnd = '\n') {
    const server = new ModernHttpServer([TOOL]);
    server.handle = (request) => {
      const { response } = request;
      response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
      response.end(before(request) + event(answerOf(request), lineEnd));
      return true;
    };
    return { server, host: await over(server) };
  }

  test.each([['\n'], ['\r'], ['\r\n']])('is as good as any, lines ending in %j', async (lineEnd) => {
    const { server, host } = await streaming(() => `: still here${lineEnd}${lineEnd}`, lineEnd);
    expect(host.peer('it').report()).toMatchObject({ state: 'modern', tools: 1, listing: null });
    expect(await host.call('add')).toMatchObject({ status: 'ok', delivery: 'answered' });
    expect((await host.listPrompts()).items).toHaveLength(1);
    expect((await host.getPrompt('it', 'greet')).status).toBe('ok');
    for (const { headers } of server.arrived)
      expect(headers.accept).toMatch(/application\/json.*text\/event-stream/);
  });

  test('may log, report and ask before: it is heard, and what it asks is not answered', async () => {
    const noise = ({ params }: Arrived): string =>
      event({ method: 'notifications/message', params: { level: 'info', data: 'working' } }) +
      event({
        method: 'notifications/progress',
        params: { progressToken: (params['_meta'] as JsonObject)?.['progressToken'] ?? 'none', progress: 1 },
      }) +
      event({ id: 'theirs', method: 'elicitation/create', params: { message: 'Your name?' } }) +
      event({ id: 'foreign', result: {} });
    const { server, host } = await streaming(noise);
    const progress: number[] = [];
    const outcome = await host.call('add', {}, { onProgress: (report) => progress.push(report.progress) });
    expect(outcome.status).toBe('ok');
    expect(progress).toEqual([1]);
    // Nothing but requests of this client: no answer to theirs, and no initialize because of the noise.
    expect(server.arrived.map(({ method }) => method)).toEqual([
      'server/discover',
      'tools/list',
      'tools/call',
    ]);
  });

  test('and a stream that ends early loses its own request only', async () => {
    const { server, host } = await streaming(() => '');
    const answer = server.handle;
    server.handle = (request) => {
      if (request.method !== 'tools/call' || server.of('tools/call').length > 1) return answer(request);
      request.response.writeHead(200, { 'content-type': 'text/event-stream' }).end(': nothing comes\n\n');
      return true;
    };
    expect(await host.call('add')).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 1 });
    expect(await host.call('add')).toMatchObject({ status: 'ok' });
    expect(server.of('server/discover')).toHaveLength(1);
  });

  test.each<[string, (id: JsonValue) => JsonValue]>([
    ['as a text', (id) => String(id)],
    ['null', () => null],
    ['of nobody', () => 0],
    ['in a list', (id) => [id]],
  ])('and gives the id %s, answers nothing', async (_what, other) => {
    const { server, host } = await streaming(() => '');
    const answer = server.handle;
    server.handle = (request) => {
      if (request.method !== 'tools/call' || server.of('tools/call').length > 1) return answer(request);
      const { response, id } = request;
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(event({ ...answerOf(request), id: other(id) }));
      return true;
    };
    const outcome = await host.call('add');
    expect(['lost', 'protocol-error']).toContain(outcome.status);
    expect(outcome.delivery).not.toBe('not-sent');
    expect(JSON.stringify(outcome)).not.toContain('done');
    expect(await host.call('add')).toMatchObject({ status: 'ok' });
    expect(host.peer('it').state).toBe('modern');
  });

  test('a session id that it gives is never sent back', async () => {
    const server = new ModernHttpServer([TOOL]);
    server.handle = ({ response }) => {
      response.setHeader('mcp-session-id', 'of-another-era');
      return false;
    };
    const host = await over(server);
    expect((await host.call('add')).status).toBe('ok');
    await host.stop();
    expect(server.arrived.map(({ headers }) => headers['mcp-session-id'])).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });
});

describe('fifty calls at once', () => {
  const TOOL = { name: 'echo', inputSchema: { type: 'object' } };
  const COUNT = 50;

  test('each get their own answer, in whatever order and form it comes', async () => {
    const server = new ModernHttpServer([TOOL]);
    const waiting: Arrived[] = [];
    server.handle = (request) => {
      if (request.method !== 'tools/call') return false;
      waiting.push(request);
      if (waiting.length < COUNT) return true;
      // All are there: the last one first, every second one as a stream.
      for (const [at, { id, params, response, say }] of waiting.reverse().entries()) {
        const content = [{ type: 'text', text: JSON.stringify(params['arguments']) }];
        const result = { resultType: 'complete', content };
        if (at % 2 === 0) say({ result });
        else {
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          response.end(`data: ${JSON.stringify({ jsonrpc: '2.0', id, result })}\n\n`);
        }
      }
      return true;
    };
    const host = await over(server);
    const outcomes = await Promise.all(
      Array.from({ length: COUNT }, (_, call) => host.call('echo', { call }, { timeoutMs: 60_000 })),
    );
    expect(outcomes.map(({ result }) => result?.content[0]?.['text'])).toEqual(
      Array.from({ length: COUNT }, (_, call) => JSON.stringify({ call })),
    );
    expect(new Set(waiting.map(({ id }) => id)).size).toBe(COUNT);
  });
});
