import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, test, vi } from 'vitest';
import type { Clock } from '../../src/transports/clock.js';
import { streamableHttpTransport } from '../../src/transports/streamableHttp.js';
import { answerJson, client, exchange, JSON_ANSWER, JSON_ERROR, serve } from './httpHarness.js';

const MODERN = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'add' };

describe('a request', () => {
  test('is a POST with the headers of the message and the configured ones', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post } = await client({
      url: `${server.origin}/mcp?key=1#part`,
      headers: { Authorization: 'Bearer token', 'X-Trace': 'a' },
    });
    const sent = post({ headers: MODERN, text: '{"text":"grüße"}' });
    expect(await sent.ended).toEqual({ kind: 'complete', status: 200, redirected: false });
    expect(sent).toMatchObject({ written: true, redirected: false, messages: [JSON_ANSWER] });
    const [request] = server.requests;
    expect(request).toMatchObject({ method: 'POST', url: '/mcp?key=1', body: '{"text":"grüße"}' });
    expect(request?.headers).toEqual({
      accept: 'application/json, text/event-stream',
      'accept-encoding': 'identity',
      authorization: 'Bearer token',
      connection: 'keep-alive',
      'content-length': '18',
      'content-type': 'application/json',
      host: `127.0.0.1:${server.port}`,
      'user-agent': 'peerage',
      'x-trace': 'a',
      ...MODERN,
    });
  });

  test('credentials of the URL become basic authorization', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const url = new URL(server.origin);
    url.username = 'us er';
    url.password = 'pä:ss';
    await (await client({ url })).post().ended;
    await (await client({ url, headers: { authorization: 'Bearer own' } })).post().ended;
    expect(server.requests.map((request) => request.headers.authorization)).toEqual([
      `Basic ${Buffer.from('us er:pä:ss').toString('base64')}`,
      'Bearer own',
    ]);
    expect(server.requests.every((request) => request.url === '/')).toBe(true);
  });

  test('a notification is answered 202', async () => {
    const server = await serve((_request, response) => response.writeHead(202).end());
    const sent = (await client({ url: server.origin })).post({ id: null, method: 'notifications/x' });
    expect(await sent.ended).toEqual({ kind: 'complete', status: 202, redirected: false });
    expect(sent.messages).toEqual([]);
  });

  // Two, not one: an answer is told a moment before undici has its socket back.
  test('one after the other share connections', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post } = await client({ url: server.origin });
    for (let count = 0; count < 9; count += 1) await post().ended;
    expect(server.connections()).toBeLessThanOrEqual(2);
  });

  test('50 at once get their own answers, and no listener is left', async () => {
    const warnings: unknown[] = [];
    const warn = (warning: unknown) => warnings.push(warning);
    process.on('warning', warn);
    const waiting: (() => void)[] = [];
    const server = await serve((request, response) => {
      waiting.push(() => answerJson(response, request.body));
      if (waiting.length % 50 === 0) for (const answer of waiting.splice(0)) answer();
    });
    const { post } = await client({ url: server.origin });
    for (let round = 0; round < 3; round += 1) {
      const sent = Array.from({ length: 50 }, () => post());
      const ends = await Promise.all(sent.map((one) => one.ended));
      expect(ends.every((end) => end.kind === 'complete')).toBe(true);
      expect(sent.map((one) => JSON.parse(one.messages[0]!).id)).toEqual(sent.map((one) => one.id));
    }
    process.off('warning', warn);
    expect(warnings).toEqual([]);
    expect(server.connections()).toBeLessThanOrEqual(100);
  });

  test('messages reach one connection in call order', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post } = await client({ url: server.origin });
    const order: number[] = [];
    const sent = Array.from({ length: 20 }, (_, index) => post({ mayWrite: () => order.push(index) > 0 }));
    await Promise.all(sent.map((one) => one.ended));
    expect(order).toHaveLength(20);
    expect(order[0]).toBe(0);
  });

  test('is not written when it may not be, and is asked once', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post } = await client({ url: server.origin });
    const mayWrite = vi.fn(() => false);
    const sent = post({ mayWrite });
    expect(await sent.ended).toEqual({ kind: 'withheld' });
    expect(sent.written).toBe(false);
    expect(mayWrite).toHaveBeenCalledTimes(1);
    // Also on a connection that is in use.
    await post().ended;
    expect(await post({ mayWrite: () => false }).ended).toEqual({ kind: 'withheld' });
    await post().ended;
    expect(server.requests).toHaveLength(2);
  });

  test('before open and after close ends without a word on the wire', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const transport = streamableHttpTransport({ url: server.origin })({
      message: () => {},
      overheard: () => {},
      fault: () => {},
      closed: () => {},
    });
    const early = exchange();
    transport.send('{}', early);
    expect(early.ends).toEqual([]);
    expect(await early.ended).toMatchObject({ kind: 'broken', cause: { kind: 'host' } });
    await transport.open();
    await transport.close();
    const late = exchange();
    transport.send('{}', late);
    expect(await late.ended).toMatchObject({ kind: 'broken', cause: { kind: 'host' } });
    expect(early.written || late.written).toBe(false);
    expect(server.connections()).toBe(0);
  });
});

describe('configuration that cannot be used', () => {
  test.each([
    ['no URL', { url: 'not a url topsecret' }],
    ['another scheme', { url: 'ftp://topsecret.example/' }],
    ['a header of the protocol', { url: 'http://127.0.0.1/', headers: { 'Mcp-Session-Id': 'topsecret' } }],
    ['a header name', { url: 'http://127.0.0.1/', headers: { 'a b': 'topsecret' } }],
    ['a header value', { url: 'http://127.0.0.1/', headers: { 'x-a': 'topsecret\r\n' } }],
  ])('%s is told by open, without it', async (_name, options) => {
    const transport = streamableHttpTransport(options)({
      message: () => {},
      overheard: () => {},
      fault: () => {},
      closed: () => {},
    });
    const opened = await transport.open();
    expect(opened).toMatchObject({ ok: false, cause: { kind: 'connect-failed', terminal: true } });
    expect(JSON.stringify(opened)).not.toContain('topsecret');
    await transport.close();
  });
});

describe('sessions (legacy)', () => {
  const offer =
    (id: string | string[], status = 200) =>
    (response: ServerResponse) =>
      response
        .writeHead(status, { 'content-type': 'application/json', 'mcp-session-id': id })
        .end(JSON_ANSWER);

  async function legacy(answerInitialize: (response: ServerResponse) => void, revision = '2025-11-25') {
    const server = await serve((request, response) => {
      if (request.method === 'DELETE') response.writeHead(405).end();
      else if (request.body.includes('"initialize"')) answerInitialize(response);
      else answerJson(response);
    });
    const peer = await client({ url: server.origin });
    await peer.post({ method: 'initialize' }).ended;
    peer.transport.negotiated?.({ era: 'legacy', revision });
    await peer.post({ id: null, method: 'notifications/initialized' }).ended;
    await peer.post().ended;
    return { server, ...peer };
  }

  test('id and revision go with every request after initialize, and DELETE ends it', async () => {
    const { server, transport } = await legacy(offer('abc-123'));
    await transport.close();
    expect(server.requests.map(({ method }) => method)).toEqual(['POST', 'POST', 'POST', 'DELETE']);
    const [first, ...later] = server.requests;
    expect(first?.headers).not.toHaveProperty('mcp-session-id');
    expect(first?.headers).not.toHaveProperty('mcp-protocol-version');
    for (const { headers } of later) {
      expect(headers).toMatchObject({ 'mcp-session-id': 'abc-123', 'mcp-protocol-version': '2025-11-25' });
      expect(headers).not.toHaveProperty('mcp-method');
    }
  });

  test.each([
    ['2024-11-05', undefined],
    ['2025-03-26', undefined],
    ['2025-06-18', '2025-06-18'],
  ])('revision %s sends the version header %s', async (revision, header) => {
    const { server } = await legacy(offer('abc'), revision);
    expect(server.requests.at(-1)?.headers['mcp-protocol-version']).toBe(header);
    expect(server.requests.at(-1)?.headers['mcp-session-id']).toBe('abc');
  });

  test.each<[string, string | string[], number]>([
    ['with a space', 'a b', 200],
    ['outside ASCII', 'gr\u00fcn', 200],
    ['endless', 'x'.repeat(2000), 200],
    ['empty', '', 200],
    ['two of them', ['a', 'b'], 200],
    ['of an error', 'abc', 400],
    ['of a 500', 'abc', 500],
  ])('an id %s is not taken', async (_name, id, status) => {
    const { server, transport } = await legacy(offer(id, status));
    await transport.close();
    expect(server.requests).toHaveLength(3);
    expect(server.requests.some(({ headers }) => 'mcp-session-id' in headers)).toBe(false);
  });

  test('an id from any other answer is not taken', async () => {
    const server = await serve((_request, response) =>
      answerJson(response, JSON_ANSWER, { 'mcp-session-id': 'abc' }),
    );
    const { post, transport } = await client({ url: server.origin });
    await post({ method: 'server/discover', headers: MODERN }).ended;
    transport.negotiated?.({ era: 'legacy', revision: '2025-11-25' });
    await post().ended;
    await transport.close();
    expect(server.requests).toHaveLength(2);
    expect(server.requests[1]?.headers).not.toHaveProperty('mcp-session-id');
  });

  test('the modern era has none', async () => {
    const server = await serve((_request, response) =>
      answerJson(response, JSON_ANSWER, { 'mcp-session-id': 'abc' }),
    );
    const { post, transport } = await client({ url: server.origin });
    await post({ method: 'initialize' }).ended;
    transport.negotiated?.({ era: 'modern', revision: '2026-07-28' });
    await post({ headers: MODERN }).ended;
    await transport.close();
    expect(server.requests).toHaveLength(2);
    expect(server.requests[1]?.headers).toMatchObject(MODERN);
    expect(server.requests[1]?.headers).not.toHaveProperty('mcp-session-id');
  });

  test('404 with a session is told as such, settles nothing else, and ends it', async () => {
    const server = await serve((request, response) => {
      if (request.body.includes('"initialize"')) offer('abc')(response);
      else response.writeHead(404, { 'content-type': 'application/json' }).end(JSON_ANSWER);
    });
    const { post, transport, overheard } = await client({ url: server.origin });
    await post({ method: 'initialize' }).ended;
    transport.negotiated?.({ era: 'legacy', revision: '2025-11-25' });
    const before = overheard.length;
    const sent = post();
    expect(await sent.ended).toMatchObject({ kind: 'status', status: 404, hadSession: true });
    expect(sent.messages).toEqual([]);
    expect(overheard.slice(before)).toEqual([JSON_ANSWER]);
    await transport.close();
    expect(server.requests.map(({ method }) => method)).toEqual(['POST', 'POST']);
  });

  test.each<[string, (response: ServerResponse) => void]>([
    ['404', (response) => response.writeHead(404).end()],
    ['500', (response) => response.writeHead(500).end('oops')],
    ['a redirect', (response) => response.writeHead(307, { location: '/other' }).end()],
    ['a reset', (response) => response.socket?.destroy()],
    ['an endless body', (response) => response.writeHead(200).write('x')],
  ])('DELETE answered by %s fails nothing', async (_name, answer) => {
    const server = await serve((request, response) => {
      if (request.method === 'DELETE') answer(response);
      else offer('abc')(response);
    });
    const { post, transport } = await client({ url: server.origin });
    await post({ method: 'initialize' }).ended;
    await transport.close();
    expect(server.requests.map(({ method }) => method)).toEqual(['POST', 'DELETE']);
    await server.quiet();
  });

  test('DELETE that hangs is given up on', async () => {
    const timers: { fn: () => void; ms: number }[] = [];
    const clock: Clock = {
      now: () => 0,
      setTimeout: (fn, ms) => timers.push({ fn, ms }),
      clearTimeout: () => {},
    };
    let deleted = () => {};
    const hanging = new Promise<void>((resolve) => {
      deleted = resolve;
    });
    const server = await serve((request, response) => {
      if (request.method === 'DELETE') deleted();
      else offer('abc')(response);
    });
    const { post, transport, causes } = await client({ url: server.origin, clock });
    await post({ method: 'initialize' }).ended;
    const closed = transport.close();
    expect(causes).toHaveLength(1);
    await hanging;
    timers.find(({ ms }) => ms === 1000)?.fn();
    await closed;
    await server.quiet();
  });
});

describe('abort', () => {
  test('closes the socket of a request that waits, and says nothing', async () => {
    let arrived: (response: ServerResponse) => void;
    const waiting = new Promise<ServerResponse>((resolve) => {
      arrived = resolve;
    });
    const server = await serve((_request, response) => arrived(response));
    const { post, transport } = await client({ url: server.origin });
    const sent = post();
    const response = await waiting;
    const closed = once(response, 'close');
    transport.abort(sent);
    await closed;
    await server.quiet();
    expect(sent.ends).toEqual([]);
    transport.abort(sent);
  });

  test('closes an event stream in the middle, also from within a message', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\ndata: 2\n\n');
    });
    const { post, transport } = await client({ url: server.origin });
    const sent = post({ onMessage: (one) => transport.abort(one) });
    expect(await sent.received(1)).toEqual(['1']);
    await server.quiet();
    expect(sent.messages).toEqual(['1']);
    expect(sent.ends).toEqual([]);
  });

  test('before the request is written leaves it unwritten', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post, transport } = await client({ url: server.origin });
    const mayWrite = vi.fn(() => true);
    const sent = post({ mayWrite });
    transport.abort(sent);
    await post().ended;
    await transport.close();
    expect(mayWrite).not.toHaveBeenCalled();
    expect(sent).toMatchObject({ written: false, ends: [] });
    expect(server.requests).toHaveLength(1);
  });

  test('of a foreign or finished exchange does nothing', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post, transport } = await client({ url: server.origin });
    const sent = post();
    await sent.ended;
    transport.abort(sent);
    transport.abort(exchange());
    await post().ended;
    await post().ended;
    expect(server.connections()).toBeLessThanOrEqual(2);
  });
});

describe('close', () => {
  test('ends what is open, tells it once, leaves nothing', async () => {
    let arrivals = 0;
    let allArrived = () => {};
    const all = new Promise<void>((resolve) => {
      allArrived = resolve;
    });
    const server = await serve((_request, response) => {
      arrivals += 1;
      if (arrivals === 1) answerJson(response);
      else response.writeHead(200, { 'content-type': 'text/event-stream' }).write(': here\n\n');
      if (arrivals === 4) allArrived();
    });
    const { post, transport, causes } = await client({ url: server.origin });
    await post().ended;
    const sent = [post(), post(), post()];
    await all;
    const closing = transport.close();
    expect(causes).toEqual([{ kind: 'host', detail: expect.any(String) }]);
    expect(transport.close()).toBe(closing);
    await closing;
    await server.quiet();
    expect(causes).toHaveLength(1);
    expect(sent.flatMap((one) => one.ends)).toEqual([]);
    expect(server.requests.every(({ method }) => method === 'POST')).toBe(true);
  });

  test('an idle transport leaves no socket, and one that was never opened nothing either', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post, transport } = await client({ url: server.origin });
    await post().ended;
    await transport.close();
    await server.quiet();
    const causes: unknown[] = [];
    const never = streamableHttpTransport({ url: server.origin })({
      message: () => {},
      overheard: () => {},
      fault: () => {},
      closed: (cause) => causes.push(cause),
    });
    const opening = never.open();
    await never.close();
    expect(await opening).toMatchObject({ ok: false });
    expect(await never.open()).toMatchObject({ ok: false });
    expect(causes).toHaveLength(1);
  });

  test('notifications that were just sent arrive, before the session ends, and nothing of them is told', async () => {
    const server = await serve((request, response) => {
      if (request.method !== 'POST') response.writeHead(200).end();
      else if (request.body.includes('initialize'))
        answerJson(response, JSON_ANSWER, { 'mcp-session-id': 'abc' });
      // Whatever a server makes of a notification: what counts is that it has it.
      else if (request.body === '"0"') response.writeHead(202).end();
      else if (request.body === '"1"') answerJson(response, JSON_ERROR);
      else if (request.body === '"2"')
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write(':');
      else if (request.body === '"3"') response.writeHead(307, { location: '/x' }).end();
      else response.socket?.destroy();
    });
    const { post, transport, causes, overheard } = await client({ url: server.origin });
    await post({ method: 'initialize' }).ended;
    transport.negotiated?.({ era: 'legacy', revision: '2025-11-25' });
    const before = overheard.length;
    const texts = ['"0"', '"1"', '"2"', '"3"', '"4"'];
    const sent = texts.map((text) => post({ id: null, method: 'notifications/cancelled', text }));
    await transport.close();
    const bodies = server.requests.map(({ method, body }) => (method === 'DELETE' ? method : body)).slice(1);
    expect(bodies.at(-1)).toBe('DELETE');
    expect([...new Set(bodies.slice(0, -1))].sort()).toEqual(texts);
    expect(sent.map(({ ends, messages }) => ends.length + messages.length)).toEqual([0, 0, 0, 0, 0]);
    expect(overheard).toHaveLength(before);
    expect(causes).toHaveLength(1);
    await server.quiet();
  });

  test('a notification whose answer has begun is not waited for', async () => {
    let begun: (response: ServerResponse) => void;
    const answering = new Promise<ServerResponse>((resolve) => {
      begun = resolve;
    });
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\n');
      begun(response);
    });
    const { post, transport } = await client({ url: server.origin });
    const sent = post({ id: null, method: 'notifications/cancelled' });
    await answering;
    await sent.received(1);
    await transport.close();
    await server.quiet();
    expect(sent.ends).toEqual([]);
  });

  test('a notification that gets no answer is given up on', async () => {
    const timers: { fn: () => void; ms: number }[] = [];
    const clock: Clock = {
      now: () => 0,
      setTimeout: (fn, ms) => timers.push({ fn, ms }),
      clearTimeout: () => {},
    };
    let arrived = () => {};
    const hanging = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const server = await serve(() => arrived());
    const { post, transport, causes } = await client({ url: server.origin, clock });
    const sent = post({ id: null, method: 'notifications/cancelled' });
    const closed = transport.close();
    expect(causes).toHaveLength(1);
    await hanging;
    timers.find(({ ms }) => ms === 1000)?.fn();
    await closed;
    await server.quiet();
    expect(sent).toMatchObject({ written: true, ends: [], messages: [] });
  });

  test('a request that is still connecting goes with it', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post, transport } = await client({ url: server.origin });
    const sent = post();
    await transport.close();
    await server.quiet();
    expect(sent).toMatchObject({ written: false, ends: [] });
    expect(server.requests).toEqual([]);
  });
});
