/** What modern servers, gateways and mistakes answer to a call over HTTP, and what callers are told of it. */
import { afterEach, describe, expect, test } from 'vitest';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { type Arrived, ModernHttpServer, regional } from './modernHttpServer.js';

const hosts: Host[] = [];
afterEach(() => Promise.all(hosts.splice(0).map((host) => host.stop())));

/** A host with a modern peer whose calls are answered by `act`. */
async function calling(act: (call: Arrived) => void, options: Omit<CreateHostOptions, 'peers'> = {}) {
  const server = await new ModernHttpServer([regional(null)]).listen();
  server.handle = (request) => {
    if (request.method !== 'tools/call') return false;
    act(request);
    return true;
  };
  const host = createHost({
    probeTimeoutMs: 60_000,
    listTimeoutMs: 60_000,
    startTimeoutMs: 60_000,
    backoffMinMs: 10,
    backoffMaxMs: 50,
    ...options,
    peers: { it: { url: server.url } },
  });
  hosts.push(host);
  await host.start();
  return { server, host, call: () => host.call('query', { region: 'eu' }) };
}

describe('404', () => {
  test('with -32601 is a method that the server does not know', async () => {
    const { call, host } = await calling((request) => request.refuse(-32601, {}, 404));
    expect(await call()).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      message: expect.stringContaining('does not offer this method'),
      error: { code: -32601 },
    });
    expect(host.peer('it').state).toBe('modern');
  });

  test.each<[number, string, string]>([
    [404, 'text/plain', 'not found'],
    [404, 'text/html', '<h1>Not Found</h1>'],
    [404, 'application/json', '{"detail":"Not Found"}'],
    [404, 'application/json', ''],
    [405, 'text/plain', ''],
    [410, 'application/problem+json', '{"status":410}'],
  ])('HTTP %i with %s %s is an endpoint that is not there', async (status, type, body) => {
    const { call, host } = await calling((request) => request.raw(status, type, body));
    const outcome = await call();
    // A gateway that lost its server says the same after the tool was executed.
    expect(outcome).toMatchObject({ status: 'unavailable', delivery: 'unknown', attempts: 1 });
    expect(outcome.message).toContain(`Nothing answers MCP at this URL (HTTP ${status}): check the URL`);
    expect(host.peer('it').state).toBe('modern');
    expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
  });

  test('other refusals without an answer keep their words', async () => {
    const { call } = await calling((request) => request.raw(422, 'text/plain', 'unprocessable'));
    const outcome = await call();
    expect(outcome).toMatchObject({ status: 'protocol-error', delivery: 'answered' });
    expect(outcome.message).toContain('unprocessable');
  });

  test('in answer to a listing it says the same', async () => {
    const { server, host } = await calling(() => undefined);
    server.handle = (request) => {
      if (request.method !== 'prompts/list') return false;
      request.raw(404, 'text/plain', 'not found');
      return true;
    };
    const { problems } = await host.listPrompts();
    expect(problems).toEqual([
      { peer: 'it', message: expect.stringContaining('Nothing answers MCP at this URL (HTTP 404)') },
    ]);
  });
});

describe('-32021', () => {
  const required = (requiredCapabilities: JsonValue) => (request: Arrived) =>
    request.refuse(-32021, { data: { requiredCapabilities } });

  test.each<[JsonValue, string, string]>([
    [{ elicitation: { form: {} } }, 'elicitation.form', 'elicitForm'],
    [{ elicitation: {} }, 'elicitation', 'elicitForm or elicitUrl'],
    [{ sampling: { tools: {} } }, 'sampling.tools', 'sample, with sampling.tools'],
    [{ sampling: {}, roots: {} }, 'sampling, roots', 'sample; listRoots'],
    [{ telepathy: {} }, '"telepathy"', 'cannot offer'],
  ])('for %j names what is missing, and which handler that takes', async (asked, name, handler) => {
    const { call, host } = await calling(required(asked));
    const outcome = await call();
    expect(outcome).toMatchObject({ status: 'protocol-error', delivery: 'answered', attempts: 1 });
    expect(outcome.message).toContain(`it needs ${name}`);
    expect(outcome.message).toContain(handler);
    expect(host.peer('it').state).toBe('modern');
  });

  test.each<[JsonValue]>([[null], ['all'], [{}], [[]]])('for %j says that it does not say', async (asked) => {
    const { call } = await calling(required(asked));
    expect((await call()).message).toContain('does not say which');
  });

  test('what a server makes up is bounded and harmless', async () => {
    const names = Array.from({ length: 80 }, (_, at) => [`x${at}\u001b[31m${'y'.repeat(500)}`, {}]);
    const { call } = await calling(required(Object.fromEntries(names) as JsonObject));
    const { message } = await call();
    expect(message?.length).toBeLessThan(1_000);
    expect(message).not.toMatch(/\p{Cc}/u);
    expect(message).toContain('and 76 more');
  });
});

describe('-32022 to a call', () => {
  test('is that call’s error, and the peer negotiates anew, once', async () => {
    const { call, host, server } = await calling((request) =>
      request.refuse(-32022, { data: { supported: ['2026-07-28'], requested: '2026-07-28' } }),
    );
    const first = await call();
    expect(first).toMatchObject({ status: 'protocol-error', delivery: 'answered', attempts: 1 });
    await expect.poll(() => server.of('tools/list').length, { timeout: 20_000 }).toBe(2);
    await host.peer('it').waitUntil('callable');
    expect(server.of('server/discover').length).toBeGreaterThan(1);
    const probes = server.of('server/discover').length;
    expect(await call()).toMatchObject({ status: 'protocol-error', delivery: 'answered' });
    expect(host.peer('it').state).toBe('modern');
    expect(server.of('server/discover')).toHaveLength(probes);
    expect(server.of('initialize')).toHaveLength(0);
  });
});

describe('a refusal of the credentials', () => {
  test.each([401, 403] as const)('HTTP %i points to the report, and names no place', async (status) => {
    const challenge = 'Bearer resource_metadata="https://auth.example/secret-place"';
    const { call } = await calling(({ response }) => {
      response.writeHead(status, { 'www-authenticate': challenge }).end();
    });
    const outcome = await call();
    expect(outcome).toMatchObject({ status: 'unavailable', delivery: 'answered' });
    expect(outcome.message).toContain(`HTTP ${status}`);
    expect(outcome.message).toContain("see the peer's report");
    expect(JSON.stringify(outcome)).not.toContain('auth.example');
  });
});

describe('an answer in a wrong envelope', () => {
  const result = { resultType: 'complete', content: [{ type: 'text', text: 'not this' }] };
  const json = (body: (id: JsonValue) => JsonValue) => (request: Arrived) =>
    request.raw(200, 'application/json', JSON.stringify(body(request.id)));
  const answer = (id: JsonValue, more: JsonObject): JsonObject => ({ jsonrpc: '2.0', id, ...more });

  test.each<[string, (id: JsonValue) => JsonValue]>([
    ['a batch array', (id) => [answer(id, { result }), answer(id, { result })]],
    ['an empty array', () => []],
    ['the id as a text', (id) => answer(String(id), { result })],
    ['the id as a list', (id) => answer([id], { result })],
    ['the id null', () => answer(null, { result })],
    ['a constant id', () => answer(0, { result })],
    ['no id', () => ({ jsonrpc: '2.0', result })],
    ['a result and an error', (id) => answer(id, { result, error: { code: -32603, message: 'no' } })],
    ['neither', (id) => answer(id, {})],
    ['no version', (id) => ({ id, result })],
    ['a request', (id) => answer(id, { method: 'tools/call', params: {} })],
    ['an error that is a text', (id) => answer(id, { error: 'no' })],
    ['a number', () => 7],
  ])('%s is no answer, and nothing of it is used', async (_what, body) => {
    const { call, host } = await calling(json(body));
    const outcome = await call();
    expect(['protocol-error', 'lost']).toContain(outcome.status);
    expect(outcome.delivery).not.toBe('not-sent');
    expect(JSON.stringify(outcome)).not.toContain('not this');
    expect(host.peer('it').state).toBe('modern');
    expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
  });

  test.each<[string, number]>([
    ['200', 200],
    ['400', 400],
  ])('an error without an id settles the call (HTTP %s)', async (_status, status) => {
    const { call } = await calling((request) =>
      request.say({ id: null, error: { code: -32600, message: 'Invalid Request' } }, status),
    );
    expect(await call()).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      error: { code: -32600 },
      message: expect.stringContaining('without the id'),
    });
  });

  test('a tool result of the oldest shape is told by name', async () => {
    const { call } = await calling((request) => request.result({ toolResult: { content: [] } }));
    expect(await call()).toMatchObject({
      status: 'invalid-result',
      delivery: 'answered',
      tool: 'query',
      peer: 'it',
    });
  });

  test('an answer that comes twice, and that of another call, are used once and for their own', async () => {
    const waiting: Arrived[] = [];
    const { host } = await calling((request) => {
      waiting.push(request);
      if (waiting.length < 2) return;
      for (const one of waiting) {
        const { response } = one;
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        const words = (one.params['arguments'] as JsonObject)['region'] as string;
        const event = (id: JsonValue, text: string): string =>
          `data: ${JSON.stringify(answer(id, { result: { resultType: 'complete', content: [{ type: 'text', text }] } }))}\n\n`;
        const other = waiting.find((each) => each !== one) as Arrived;
        response.write(event(other.id, 'of another call'));
        response.write(event(one.id, words));
        response.end(event(one.id, 'again'));
      }
    });
    const [a, b] = await Promise.all([
      host.call('query', { region: 'a' }),
      host.call('query', { region: 'b' }),
    ]);
    expect([a, b].map((one) => one.result?.content)).toEqual([
      [{ type: 'text', text: 'a' }],
      [{ type: 'text', text: 'b' }],
    ]);
  });
});
