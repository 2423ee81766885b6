import type { ServerResponse } from 'node:http';
import { gzipSync, constants as zlib } from 'node:zlib';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { createSimulatedClock } from '../../src/testing/clock.js';
import type { HttpAuthorizer, Refusal } from '../../src/transports/httpAuthorizer.js';
import type { HttpOptions } from '../../src/transports/httpOptions.js';
import { legacySseTransport } from '../../src/transports/legacySse.js';
import { Recorder } from './harness.js';
import { exchange, type Sent, serve, serveRaw } from './httpHarness.js';
import { ENDPOINT, openStream, sseServer } from './sseHarness.js';

async function client(options: HttpOptions) {
  const events = new Recorder();
  const transport = legacySseTransport(options)(events);
  onTestFinished(() => transport.close());
  const result = await transport.open();
  if (!result.ok) throw new Error(result.cause.detail);
  const send = (given: Parameters<typeof exchange>[0] & { text?: string } = {}): Sent => {
    const { text, ...rest } = given;
    const sent = exchange(rest);
    transport.send(text ?? JSON.stringify({ jsonrpc: '2.0', id: sent.id, method: sent.method }), sent);
    return sent;
  };
  return { transport, events, send };
}

const probe = { method: 'server/discover' };
const initialize = { method: 'initialize' };
const initialized = { id: null, method: 'notifications/initialized' };

const RESULT = '{"jsonrpc":"2.0","id":1,"result":{}}';

/** Lets everything that is under way on the loopback address arrive: one whole request and its answer. */
async function roundTrip(): Promise<void> {
  const server = await serve((_request, response) => response.end());
  await (await fetch(server.origin)).text();
}

describe('the stream', () => {
  test('is opened by the first message, which waits for the endpoint', async () => {
    const server = await sseServer({ onGet: (_request, response) => openStream(response, '') });
    const { send } = await client({
      url: `${server.url}?key=1#part`,
      headers: { Authorization: 'Bearer token', 'X-Trace': 'a' },
    });
    expect(server.requests).toEqual([]);
    const mayWrite = vi.fn(() => true);
    const sent = send({ ...probe, mayWrite, text: '{"text":"grüße"}' });
    await server.opened(1);
    expect(mayWrite).not.toHaveBeenCalled();
    expect(sent.written).toBe(false);
    server.write(`event: endpoint\ndata: ${ENDPOINT}\n\n`);
    await server.heardAll(1);
    expect(mayWrite).toHaveBeenCalledTimes(1);
    expect(sent).toMatchObject({ written: true, ends: [] });
    const [get, post] = server.requests;
    const common = {
      'accept-encoding': 'identity',
      authorization: 'Bearer token',
      connection: 'keep-alive',
      host: `127.0.0.1:${server.port}`,
      'user-agent': 'peerage',
      'x-trace': 'a',
    };
    expect(get).toMatchObject({ method: 'GET', url: '/sse?key=1', body: '' });
    expect(get?.headers).toEqual({ ...common, accept: 'text/event-stream' });
    expect(post).toMatchObject({ method: 'POST', url: ENDPOINT, body: '{"text":"grüße"}' });
    expect(post?.headers).toEqual({
      ...common,
      accept: 'application/json, text/event-stream',
      'content-length': '18',
      'content-type': 'application/json',
    });
  });

  test('brings messages, and nothing that comes back from a POST settles any', async () => {
    const bodies = [
      (response: ServerResponse) => response.writeHead(202).end('Accepted'),
      (response: ServerResponse) => response.writeHead(204).end(),
      (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'),
      (response: ServerResponse) => response.writeHead(200, { 'content-type': 'application/json' }).end('{'),
      (response: ServerResponse) =>
        response.writeHead(200, { 'content-type': 'application/json' }).end(RESULT),
    ];
    let count = 0;
    const server = await sseServer({ onPost: (_request, response) => void bodies[count++]?.(response) });
    const { send, events } = await client({ url: server.url });
    const sent: Sent[] = [];
    for (const _body of bodies) {
      sent.push(send());
      await server.heardAll(sent.length);
    }
    server.write(`data: ${RESULT}\n\n`);
    expect(await events.nextMessages(1)).toEqual([RESULT]);
    await events.until(() => events.heard.includes(RESULT));
    expect(events).toMatchObject({ exchanges: [null], faults: [], causes: [] });
    expect(sent.flatMap(({ ends }) => ends)).toEqual([]);
  });

  test('messages are posted in call order', async () => {
    const server = await sseServer();
    const { send } = await client({ url: server.url });
    const order: number[] = [];
    const all = Array.from({ length: 20 }, (_, index) => send({ mayWrite: () => order.push(index) > 0 }));
    await server.heardAll(20);
    expect(order).toEqual(Array.from({ length: 20 }, (_, index) => index));
    expect(all.every(({ written }) => written)).toBe(true);
    expect(server.streams).toHaveLength(1);
  });

  test('nothing overtakes notifications/initialized', async () => {
    let answer: () => void = () => {};
    const server = await sseServer({
      onPost: (request, response) => {
        const reply = () => response.writeHead(202).end();
        if (request.body.includes('initialized')) answer = reply;
        else reply();
      },
    });
    const { send } = await client({ url: server.url });
    send(initialize);
    await server.heardAll(1);
    send(initialized);
    const after = send({ method: 'tools/list' });
    await server.heardAll(2);
    await roundTrip();
    expect(after.written).toBe(false);
    answer();
    await server.heardAll(3);
    expect(server.methods()).toEqual(['initialize', 'notifications/initialized', 'tools/list']);
  });

  test('a server that does not answer notifications/initialized is not waited for without end', async () => {
    const clock = createSimulatedClock();
    const server = await sseServer({
      onPost: (request, response) => {
        if (!request.body.includes('initialized')) response.writeHead(202).end();
      },
    });
    const { send, events } = await client({ url: server.url, clock });
    send(initialized);
    send({ method: 'tools/list' });
    await server.heardAll(1);
    clock.advance(9_999);
    await roundTrip();
    expect(server.heard).toHaveLength(1);
    clock.advance(1);
    await server.heardAll(2);
    server.destroySockets();
    await events.cause();
  });

  test('is silent for as long as the server likes', async () => {
    const clock = createSimulatedClock();
    const server = await sseServer();
    const { send, events } = await client({ url: server.url, clock });
    send();
    await server.heardAll(1);
    await roundTrip();
    expect(clock.pendingTimers).toBe(0);
    clock.advance(24 * 60 * 60 * 1000);
    server.write(`data: ${RESULT}\n\n`);
    expect(await events.nextMessages(1)).toEqual([RESULT]);
    expect(events.causes).toEqual([]);
  });

  test('that is compressed is read', async () => {
    const text = `event: endpoint\ndata: ${ENDPOINT}\n\ndata: ${RESULT}\n\n`;
    const server = await sseServer({
      onGet: (_request, response) => {
        response.writeHead(200, {
          'content-type': 'text/event-stream; charset=utf-8',
          'content-encoding': 'gzip',
        });
        response.write(gzipSync(text, { finishFlush: zlib.Z_SYNC_FLUSH }));
      },
    });
    const { send, events } = await client({ url: server.url });
    send();
    await server.heardAll(1);
    expect(await events.nextMessages(1)).toEqual([RESULT]);
  });
});

describe('the endpoint event', () => {
  test.each([
    ['data before event', `data: ${ENDPOINT}\nevent: endpoint\n\n`],
    ['CRLF', `event: endpoint\r\ndata: ${ENDPOINT}\r\n\r\n`],
    ['CR', `event:endpoint\rdata:${ENDPOINT}\r\r`],
    [
      'behind comments, a retry and an id',
      `: hi\n\nretry: 5\nid: 1\n\nevent: endpoint\ndata: ${ENDPOINT}\n\n`,
    ],
  ])('%s', async (_name, text) => {
    const server = await sseServer({ onGet: (_request, response) => openStream(response, text) });
    const { send } = await client({ url: server.url });
    send();
    await server.heardAll(1);
    expect(server.posts()[0]?.url).toBe(ENDPOINT);
  });

  test('cut at every byte', async () => {
    const text = `\ufeffevent: endpoint\r\ndata: ${ENDPOINT}\r\n\r\ndata: ${RESULT}\r\n\r\n`;
    const server = await sseServer({
      onGet: async (_request, response) => {
        response.socket?.setNoDelay(true);
        openStream(response, '');
        for (const byte of Buffer.from(text)) {
          await new Promise((resolve) => response.write(Buffer.from([byte]), resolve));
        }
      },
    });
    const { send, events } = await client({ url: server.url });
    send();
    await server.heardAll(1);
    expect(await events.nextMessages(1)).toEqual([RESULT]);
    expect(server.posts()[0]?.url).toBe(ENDPOINT);
  });

  test('an absolute URL', async () => {
    const server = await sseServer({
      onGet: (request, response) =>
        openStream(response, `event: endpoint\ndata: http://${request.headers.host}/m?x=1\n\n`),
    });
    const { send } = await client({ url: server.url });
    send();
    await server.heardAll(1);
    expect(server.posts()[0]?.url).toBe('/m?x=1');
  });

  test('another origin is never contacted', async () => {
    const canary = await serve((_request, response) => response.writeHead(202).end());
    const server = await sseServer({
      onGet: (_request, response) =>
        openStream(response, `event: endpoint\ndata: ${canary.origin}/messages\n\n`),
    });
    const { send, events } = await client({ url: server.url, headers: { authorization: 'Bearer secret' } });
    const end = await send().ended;
    expect(end).toMatchObject({ kind: 'unreachable', cause: { kind: 'redirected', terminal: false } });
    const detail = end.kind === 'unreachable' ? end.cause.detail : '';
    expect(detail).toContain(canary.origin);
    expect(detail).toContain('not contacted');
    expect(detail).toContain('legacy-sse');
    expect(await events.cause()).toMatchObject({ kind: 'reset' });
    await server.quiet();
    expect(server.posts()).toEqual([]);
    expect(canary.connections()).toBe(0);
  });

  test.each(['', 'https://', 'http://user:pass@HOST/m', 'mailto:a@b'])('%j is no endpoint', async (data) => {
    const server = await sseServer({
      onGet: (request, response) =>
        openStream(
          response,
          `event: endpoint\ndata: ${data.replace('HOST', String(request.headers.host))}\n\n`,
        ),
    });
    const { send } = await client({ url: server.url });
    expect(await send().ended).toMatchObject({ kind: 'unreachable', cause: { kind: 'no-event-stream' } });
    await server.quiet();
    expect(server.posts()).toEqual([]);
  });

  test('a second one changes nothing', async () => {
    const server = await sseServer();
    const { send, events } = await client({ url: server.url });
    send();
    await server.heardAll(1);
    server.write(`event: endpoint\ndata: /other\n\ndata: ${RESULT}\n\n`);
    await events.nextMessages(1);
    send();
    await server.heardAll(2);
    expect(server.posts().map(({ url }) => url)).toEqual([ENDPOINT, ENDPOINT]);
    expect(events.faultKinds()).toEqual(['stream']);
  });

  test('that does not come is not waited for without end', async () => {
    const clock = createSimulatedClock();
    const server = await sseServer({ onGet: (_request, response) => openStream(response, ': hello\n\n') });
    const { send, events } = await client({ url: server.url, clock });
    const sent = send(probe);
    await server.opened(1);
    await roundTrip();
    clock.advance(9_999);
    expect(sent.ends).toEqual([]);
    clock.advance(1);
    expect(sent.ends).toMatchObject([{ kind: 'unreachable', cause: { kind: 'no-event-stream' } }]);
    expect(events.causes).toHaveLength(1);
    expect(clock.pendingTimers).toBe(0);
    await server.quiet();
  });

  test('that comes late is in time for those who still wait', async () => {
    const server = await sseServer({ onGet: (_request, response) => openStream(response, '') });
    const { transport, send } = await client({ url: server.url });
    const first = send({ mayWrite: () => false });
    const second = send();
    const third = send();
    transport.abort(second);
    await server.opened(1);
    server.write(`event: endpoint\ndata: ${ENDPOINT}\n\n`);
    await server.heardAll(1);
    expect(await first.ended).toEqual({ kind: 'withheld' });
    expect(second).toMatchObject({ written: false, ends: [] });
    expect(server.heard.map(({ id }) => id)).toEqual([third.id]);
  });

  test('N1: initialize is not sent where the probe before it could not be', async () => {
    const server = await sseServer({ onGet: (_request, response) => openStream(response, '') });
    const { send } = await client({ url: server.url });
    let isAwaited = true;
    const first = send({ ...probe, mayWrite: () => isAwaited });
    await server.opened(1);
    isAwaited = false;
    const second = send(initialize);
    expect(await second.ended).toMatchObject({ kind: 'unreachable' });
    server.write(`event: endpoint\ndata: ${ENDPOINT}\n\n`);
    expect(await first.ended).toEqual({ kind: 'withheld' });
    expect(await send(initialize).ended).toMatchObject({ kind: 'unreachable' });
    expect(server.heard).toEqual([]);
  });
});

describe('GET fails', () => {
  test.each<[string, number, Record<string, string>, object]>([
    ['404', 404, {}, { kind: 'no-event-stream', status: 404 }],
    ['405', 405, { 'content-type': 'application/json' }, { kind: 'no-event-stream', status: 405 }],
    ['503', 503, { 'retry-after': '7' }, { kind: 'http-status', status: 503, retryAfterMs: 7000 }],
    ['408', 408, {}, { kind: 'http-status', status: 408 }],
    ['425', 425, {}, { kind: 'http-status', status: 425 }],
    ['429', 429, { 'retry-after': '7' }, { kind: 'http-status', status: 429, retryAfterMs: 7000 }],
    ['JSON', 200, { 'content-type': 'application/json' }, { kind: 'no-event-stream', status: 200 }],
    ['HTML', 200, { 'content-type': 'text/html' }, { kind: 'no-event-stream', status: 200 }],
    ['no content type', 204, {}, { kind: 'no-event-stream', status: 204 }],
    ['a redirect', 307, { location: '/other' }, { kind: 'redirected' }],
    ['a redirect elsewhere', 302, { location: 'https://evil.example/' }, { kind: 'redirected' }],
    [
      'a foreign content coding',
      200,
      { 'content-type': 'text/event-stream', 'content-encoding': 'zstd' },
      { kind: 'no-event-stream' },
    ],
  ])('%s', async (_name, status, headers, cause) => {
    const server = await sseServer({
      onGet: (_request, response) => response.writeHead(status, headers).end(),
    });
    const { transport, send, events } = await client({ url: server.url });
    const sent = send(probe);
    const other = send();
    expect(await sent.ended).toMatchObject({ kind: 'unreachable', cause: { ...cause, terminal: false } });
    const [end] = sent.ends;
    expect(end?.kind === 'unreachable' ? end.cause.detail : '').toContain('configured as legacy-sse');
    expect(other.ends).toHaveLength(1);
    expect(sent.written).toBe(false);
    expect(await events.cause()).toMatchObject({ kind: 'reset' });
    expect(await send().ended).toMatchObject({ kind: 'broken' });
    await transport.close();
    await server.quiet();
    expect(server.requests).toHaveLength(1);
    expect(events.causes).toHaveLength(1);
  });

  test.each([401, 403] as const)('%i', async (status) => {
    const server = await sseServer({
      onGet: (_request, response) => response.writeHead(status, { 'www-authenticate': 'Bearer' }).end(),
    });
    const { send, events } = await client({ url: server.url });
    expect(await send(probe).ended).toEqual({
      kind: 'unauthorized',
      status,
      redirected: false,
      challenge: 'Bearer',
    });
    expect(events.causes).toHaveLength(1);
    await server.quiet();
  });

  test('nobody listens', async () => {
    const server = await serve(() => {});
    await server.close();
    const { send, events } = await client({ url: `${server.origin}/sse` });
    expect(await send(probe).ended).toMatchObject({
      kind: 'unreachable',
      cause: { kind: 'connect-failed', detail: expect.stringContaining('ECONNREFUSED') },
    });
    expect(events.causes).toHaveLength(1);
  });

  test.each([
    ['reset', (socket: import('node:net').Socket) => socket.resetAndDestroy()],
    ['closed', (socket: import('node:net').Socket) => socket.end()],
    ['no HTTP', (socket: import('node:net').Socket) => socket.end('SSH-2.0-x\r\n')],
  ])('the connection is %s', async (_name, hangUp) => {
    const server = await serveRaw((socket) => socket.once('data', () => hangUp(socket)));
    const { send } = await client({ url: `${server.origin}/sse` });
    expect(await send(probe).ended).toMatchObject({ kind: 'unreachable', cause: { kind: 'connect-failed' } });
  });

  test('secrets of the configuration are not shown', async () => {
    const server = await sseServer({
      onGet: (request, response) =>
        response.writeHead(307, { location: `/sse-secret?token=${request.headers['x-key']}` }).end(),
    });
    const { send } = await client({
      url: `${server.url}?token=topsecret1`,
      headers: { 'x-key': 'topsecret2' },
    });
    const end = await send().ended;
    expect(JSON.stringify(end)).not.toMatch(/topsecret/);
  });
});

describe('credentials', () => {
  function authorizer(answers: readonly boolean[]) {
    const refusals: Refusal[] = [];
    let granted = 0;
    const made: HttpAuthorizer = {
      credentials: () => ({ headers: { authorization: `Bearer ${granted}` } }),
      refused: async (refusal) => {
        refusals.push(refusal);
        granted += 1;
        return answers[refusals.length - 1] ?? false;
      },
      heardNonce: () => {},
    };
    return { made, refusals };
  }

  test('a GET that is refused is sent again, and what waits is not silence meanwhile', async () => {
    const server = await sseServer({
      onGet: (request, response) => {
        if (request.headers.authorization === 'Bearer 2') openStream(response);
        else response.writeHead(401, { 'www-authenticate': 'Bearer scope="a"' }).end('{}');
      },
    });
    const { made, refusals } = authorizer([true, true]);
    const seen: unknown[] = [];
    const { send } = await client({
      url: server.url,
      authorizer: {
        ...made,
        refused: (refusal) => {
          seen.push(sent.refusal);
          return made.refused(refusal);
        },
      },
    });
    const sent = send(probe);
    await server.heardAll(1);
    expect(seen).toEqual(Array(2).fill({ status: 401, challenge: 'Bearer scope="a"' }));
    expect(sent).toMatchObject({ written: true, refusal: null, ends: [] });
    expect(refusals).toMatchObject([
      {
        attempt: { method: 'GET' },
        status: 401,
        count: 1,
        credentials: { headers: { authorization: 'Bearer 0' } },
      },
      { count: 2, credentials: { headers: { authorization: 'Bearer 1' } } },
    ]);
    expect(server.posts()[0]?.headers.authorization).toBe('Bearer 2');
  });

  test('a GET is refused so often at most', async () => {
    const server = await sseServer({ onGet: (_request, response) => response.writeHead(403).end() });
    const { made, refusals } = authorizer([true, true, true, true, true]);
    const { send } = await client({ url: server.url, authorizer: made });
    expect(await send(probe).ended).toMatchObject({ kind: 'unauthorized', status: 403 });
    expect(refusals).toHaveLength(3);
    expect(server.streams).toHaveLength(4);
  });

  test('a nonce is told, of every answer to GET', async () => {
    const server = await sseServer({
      onGet: (request, response) => {
        if (request.headers.authorization === 'Bearer 0') {
          response.writeHead(401, { 'dpop-nonce': 'n1' }).end();
          return;
        }
        response.setHeader('dpop-nonce', 'n2');
        openStream(response);
      },
    });
    const nonces: string[] = [];
    const { made } = authorizer([true]);
    const heardNonce = (attempt: { readonly method: string }, nonce: string): void =>
      void nonces.push(`${attempt.method} ${nonce}`);
    const { send } = await client({ url: server.url, authorizer: { ...made, heardNonce } });
    send(probe);
    await server.heardAll(1);
    expect(nonces).toEqual(['GET n1', 'GET n2']);
  });

  test('no others to be had: unauthorized', async () => {
    const server = await sseServer({ onGet: (_request, response) => response.writeHead(401).end() });
    const { made } = authorizer([]);
    const { send } = await client({ url: server.url, authorizer: made });
    expect(await send(probe).ended).toMatchObject({ kind: 'unauthorized', status: 401 });
    expect(server.streams).toHaveLength(1);
  });

  test('a POST that is refused is sent again, but never initialize', async () => {
    const server = await sseServer({
      onPost: (request, response) =>
        response.writeHead(request.headers.authorization === 'Bearer 0' ? 401 : 202).end(),
    });
    const { made } = authorizer([true]);
    const { send } = await client({ url: server.url, authorizer: made });
    expect(await send(initialize).ended).toMatchObject({ kind: 'unauthorized', status: 401 });
    const sent = send();
    await server.heardAll(3);
    await roundTrip();
    expect(sent.ends).toEqual([]);
    expect(server.methods()).toEqual(['initialize', 'test/method', 'test/method']);
  });

  test('closed while they are obtained', async () => {
    const server = await sseServer({ onGet: (_request, response) => response.writeHead(401).end() });
    let asked: () => void = () => {};
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const { transport, send, events } = await client({
      url: server.url,
      authorizer: {
        credentials: () => null,
        refused: () => {
          asked();
          return new Promise(() => {});
        },
        heardNonce: () => {},
      },
    });
    const sent = send(probe);
    await isAsked;
    expect(sent.refusal).toEqual({ status: 401, challenge: null });
    await transport.close();
    await server.quiet();
    expect(events.causes).toMatchObject([{ kind: 'host' }]);
  });
});

describe('a POST that is not taken ends its message', () => {
  test.each<[number, object]>([
    [400, { kind: 'status', status: 400, hadSession: false }],
    [404, { kind: 'status', status: 404, hadSession: false }],
    [401, { kind: 'unauthorized', status: 401 }],
    [403, { kind: 'unauthorized', status: 403 }],
    [500, { kind: 'unreachable', cause: { kind: 'http-status', status: 500 } }],
    [503, { kind: 'unreachable', cause: { kind: 'http-status', status: 503 } }],
    [302, { kind: 'unreachable', cause: { kind: 'redirected' } }],
  ])('%i', async (status, end) => {
    const body = '{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no"}}';
    const server = await sseServer({
      onPost: (_request, response) =>
        response
          .writeHead(status, { 'content-type': 'application/json', location: 'https://evil.example/' })
          .end(body),
    });
    const { send, events } = await client({ url: server.url });
    const sent = send();
    expect(await sent.ended).toMatchObject(end);
    expect(sent.written).toBe(true);
    expect(events).toMatchObject({ messages: [], causes: [] });
    expect(events.heard).toEqual([body]);
    // The stream goes on.
    server.write(`data: ${RESULT}\n\n`);
    expect(await events.nextMessages(1)).toEqual([RESULT]);
    expect(sent.ends).toHaveLength(1);
  });

  test('307 within the origin is followed, but not for initialize', async () => {
    const server = await sseServer({
      onPost: (request, response) =>
        request.url === ENDPOINT
          ? response.writeHead(307, { location: '/moved' }).end()
          : response.writeHead(202).end(),
    });
    const { send } = await client({ url: server.url });
    expect(await send(initialize).ended).toMatchObject({
      kind: 'unreachable',
      cause: { kind: 'redirected' },
    });
    const sent = send();
    await server.heardAll(3);
    expect(sent).toMatchObject({ redirected: true, ends: [] });
    expect(server.posts().map(({ url }) => url)).toEqual([ENDPOINT, ENDPOINT, '/moved']);
  });

  test('the connection of the POST breaks', async () => {
    const server = await sseServer({ onPost: (_request, _response, raw) => void raw.socket.destroy() });
    const { send, events } = await client({ url: server.url });
    const sent = send();
    expect(await sent.ended).toMatchObject({ kind: 'broken', cause: { kind: 'reset' } });
    expect(sent.written).toBe(true);
    expect(events.causes).toEqual([]);
  });

  test('without notifications/initialized the connection is of no use', async () => {
    const server = await sseServer({ onPost: (_request, response) => response.writeHead(502).end() });
    const { send, events } = await client({ url: server.url });
    send(initialized);
    const after = send();
    expect(await events.cause()).toMatchObject({
      kind: 'reset',
      detail: expect.stringContaining('notifications/initialized was not delivered'),
    });
    expect(after.written).toBe(false);
    await server.quiet();
  });

  test('the session in the endpoint is not shown', async () => {
    const server = await sseServer({
      onPost: (_request, response) => response.writeHead(400).end('no session abcdef123456'),
    });
    const { send } = await client({ url: server.url });
    const end = await send().ended;
    expect(end).toMatchObject({ detail: expect.stringContaining('no session [redacted]') });
  });
});

describe('the stream ends', () => {
  test('in good order', async () => {
    const server = await sseServer();
    const { send, events } = await client({ url: server.url });
    const sent = send();
    await server.heardAll(1);
    server.streams[0]?.end();
    expect(await events.cause()).toMatchObject({ kind: 'stream-ended' });
    expect(sent).toMatchObject({ written: true, ends: [] });
    expect(await send().ended).toMatchObject({ kind: 'broken' });
    await server.quiet();
    expect(server.streams).toHaveLength(1);
  });

  test('by a reset', async () => {
    const server = await sseServer();
    const { send, events } = await client({ url: server.url });
    send();
    await server.heardAll(1);
    server.streams[0]?.socket?.resetAndDestroy();
    expect(await events.cause()).toMatchObject({ kind: 'reset' });
  });

  test('before the endpoint was named', async () => {
    const server = await sseServer({
      onGet: (_request, response) => {
        openStream(response, '');
        response.end();
      },
    });
    const { send, events } = await client({ url: server.url });
    const sent = send(probe);
    expect(await sent.ended).toMatchObject({ kind: 'unreachable', cause: { kind: 'no-event-stream' } });
    expect(events.causes).toMatchObject([{ kind: 'stream-ended' }]);
  });

  test.each([
    ['an event that is too long', `data: ${'a'.repeat(2000)}\n\n`],
    ['an event that is no UTF-8', Buffer.from('data: \xe9\n\n', 'latin1')],
  ])('with %s', async (_name, bytes) => {
    const server = await sseServer();
    const { send, events } = await client({ url: server.url, maxMessageBytes: 1024 });
    send();
    await server.heardAll(1);
    server.streams[0]?.write(bytes);
    expect(await events.cause()).toMatchObject({ kind: 'protocol' });
    await server.quiet();
  });

  test('what is cut off or of a foreign type is overheard', async () => {
    const server = await sseServer();
    const { send, events } = await client({ url: server.url });
    send();
    await server.heardAll(1);
    server.streams[0]?.end('event: error\ndata: {"a":1}\n\nevent: ping\ndata: hi\n\ndata: {"b":2}\n');
    await events.cause();
    expect(events).toMatchObject({ heard: ['{"a":1}', '{"b":2}'], messages: [], late: [] });
  });
});

describe('close', () => {
  test('before anything was sent', async () => {
    const server = await sseServer();
    const { transport, events } = await client({ url: server.url });
    await transport.close();
    await transport.close();
    expect(events.causes).toMatchObject([{ kind: 'host' }]);
    expect(server.connections()).toBe(0);
  });

  test.each(['connecting', 'waiting for the endpoint', 'in use'])('while it is %s', async (when) => {
    const clock = createSimulatedClock();
    const server = await sseServer({
      onGet: (_request, response) => openStream(response, when === 'in use' ? undefined : ''),
      onPost: () => {},
    });
    const { transport, send, events } = await client({ url: server.url, clock });
    const sent = send();
    if (when !== 'connecting') await server.opened(1);
    if (when === 'in use') await server.heardAll(1);
    await transport.close();
    await server.quiet();
    expect(events.causes).toMatchObject([{ kind: 'host' }]);
    expect(sent.ends).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
    expect(await send().ended).toMatchObject({ kind: 'broken' });
  });

  test('last notifications arrive while the stream is still there, and nothing is delivered', async () => {
    let answer: () => void = () => {};
    const server = await sseServer({
      onPost: (_request, response) => {
        answer = () => response.writeHead(202).end();
      },
    });
    const clock = createSimulatedClock();
    const { transport, send, events } = await client({ url: server.url, clock });
    send();
    await server.heardAll(1);
    send({ id: null, method: 'notifications/cancelled' });
    const closing = transport.close();
    await server.heardAll(2);
    expect(server.streams[0]?.destroyed).toBe(false);
    server.write(`data: ${RESULT}\n\nevent: x\ndata: {}\n\nevent: endpoint\ndata: /x\n\n`);
    await roundTrip();
    answer();
    await closing;
    await server.quiet();
    expect(events).toMatchObject({ late: [], messages: [] });
    expect(clock.pendingTimers).toBe(0);
  });

  test('does not wait without end for last notifications', async () => {
    const clock = createSimulatedClock();
    const server = await sseServer({ onPost: () => {} });
    const { transport, send } = await client({ url: server.url, clock });
    send({ id: null, method: 'notifications/cancelled' });
    await server.heardAll(1);
    const closing = transport.close();
    clock.advance(1000);
    await closing;
    await server.quiet();
  });

  test('after the far side has ended it, tells nothing more', async () => {
    const server = await sseServer();
    const { transport, send, events } = await client({ url: server.url });
    send();
    await server.heardAll(1);
    server.destroySockets();
    await events.cause();
    await transport.close();
    expect(events.causes).toHaveLength(1);
  });
});

test('a configuration that cannot be used is told by open', async () => {
  for (const options of [
    { url: 'ftp://127.0.0.1/' },
    { url: 'http://127.0.0.1/', headers: { 'mcp-method': 'x' } },
  ]) {
    const transport = legacySseTransport(options)(new Recorder());
    expect(await transport.open()).toMatchObject({ ok: false, cause: { terminal: true } });
    await transport.close();
  }
});

test('POSTs that are never answered do not pile up without end', async () => {
  const server = await sseServer({ onPost: () => {} });
  const { send, events } = await client({ url: server.url });
  for (let count = 0; count < 256; count += 1) send();
  await server.heardAll(256);
  expect(events.faults).toEqual([]);
  const last = send();
  await server.heardAll(257);
  expect(events.faultKinds()).toEqual(['stream']);
  expect(last).toMatchObject({ written: true, ends: [] });
});
