/** Answers of legacy servers whose stream ends before the response, over real sockets and in simulated time. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { legacyDialect } from '../../src/protocol/legacy.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { issueLegacyPermit } from '../../src/transports/permit.js';
import { streamableHttpTransport } from '../../src/transports/streamableHttp.js';
import { connectTo } from './connectionHarness.js';
import { type Answer, answerJson, serve } from './httpHarness.js';
import { CONNECT_TIMEOUT_MS, EVENTS, legacyPeer, openEvents, streamWaits } from './legacyHarness.js';

const RESULT = '{"jsonrpc":"2.0","id":1,"result":{"ok":true}}';
const progress = (value: number): string =>
  JSON.stringify({ jsonrpc: '2.0', method: 'notifications/progress', params: { progress: value } });

const event = (id: string | null, data = ''): string =>
  `${id === null ? '' : `id: ${id}\n`}data: ${data}\n\n`;
const stream =
  (text: string): Answer =>
  (_request, response) =>
    response.writeHead(200, EVENTS).end(text);

/** POSTs are answered with a stream that ends; GETs one after the other as told, the last for ever. */
async function polled(first: string, ...gets: Answer[]) {
  const peer = await legacyPeer({
    post: stream(first),
    get: (request, response, raw) =>
      gets[Math.min(peer.gets.length, gets.length) - 1]?.(request, response, raw),
  });
  const waits = (): Promise<number> => streamWaits(peer.clock);
  const goOn = async (): Promise<number> => {
    const ms = await waits();
    peer.clock.advance(ms);
    return ms;
  };
  return { ...peer, waits, goOn };
}

describe('is gone on with', () => {
  test('where it ended, after the time that the server asked for', async () => {
    const peer = await polled(`id: event-1\nretry: 500\ndata: \n\n`, (_request, response) =>
      openEvents(response, event('event-2', RESULT)),
    );
    const sent = peer.post();
    expect(await peer.waits()).toBe(500);
    peer.clock.advance(499);
    expect(peer.gets).toHaveLength(0);
    peer.clock.advance(1);
    expect(await sent.received(1)).toEqual([RESULT]);
    expect(peer.gets).toHaveLength(1);
    expect(peer.gets[0]?.url).toBe('/mcp');
    expect(peer.gets[0]?.headers).toMatchObject({
      accept: 'text/event-stream',
      'last-event-id': 'event-1',
      'mcp-session-id': 'session-1',
      'mcp-protocol-version': '2025-11-25',
    });
    expect(sent.ends).toEqual([]);
    // What is left open is closed by whoever settled it.
    peer.transport.abort(sent);
    expect(peer.clock.pendingTimers).toBe(0);
    expect(peer.faults).toEqual([]);
  });

  test('through several streams, with what the server says again', async () => {
    const peer = await polled(
      event('1', progress(1)),
      stream(`${event('2', progress(2))}${event('3', progress(3))}`),
      stream(event('4')),
      stream(event('5', RESULT)),
    );
    const sent = peer.post();
    expect(await peer.goOn()).toBe(1000);
    await sent.received(3);
    expect(await peer.goOn()).toBe(1000);
    await peer.seen(2);
    expect(await peer.goOn()).toBe(1000);
    expect(await sent.ended).toEqual({ kind: 'complete', status: 200, redirected: false });
    expect(sent.messages).toEqual([progress(1), progress(2), progress(3), RESULT]);
    expect(peer.gets.map(({ headers }) => headers['last-event-id'])).toEqual(['1', '3', '4']);
    expect(peer.clock.pendingTimers).toBe(0);
  });

  test('after the pause that the server named last', async () => {
    const peer = await polled(
      'retry: 500\nid: 1\ndata:\n\n',
      stream('retry: 2000\nid: 2\ndata:\n\n'),
      stream(event('3')),
      stream(event('4', RESULT)),
    );
    const sent = peer.post();
    expect(await peer.goOn()).toBe(500);
    await peer.seen(1);
    expect(await peer.goOn()).toBe(2000);
    await peer.seen(2);
    expect(await peer.goOn()).toBe(2000);
    expect(await sent.ended).toMatchObject({ kind: 'complete' });
    expect(sent.messages).toEqual([RESULT]);
  });

  test('for as long as something new comes now and then', async () => {
    const nothing = Array.from({ length: 4 }, () => stream(': nothing new\n\n'));
    const peer = await polled(
      event('1'),
      ...nothing,
      stream(event('2')),
      ...nothing,
      stream(event('3', RESULT)),
    );
    const sent = peer.post();
    for (let count = 1; count <= 10; count += 1) {
      await peer.goOn();
      await peer.seen(count);
    }
    expect(await sent.ended).toMatchObject({ kind: 'complete' });
    expect(sent.messages).toEqual([RESULT]);
  });

  test('after the connection broke in mid-event', async () => {
    const peer = await legacyPeer({
      post: (_request, response) => {
        openEvents(response);
        response.write(`${event('1', progress(1))}id: 2\ndata: {"half`, () =>
          response.socket?.resetAndDestroy(),
        );
      },
      get: stream(event('2', RESULT)),
    });
    const sent = peer.post();
    await sent.received(1);
    await streamWaits(peer.clock);
    peer.clock.advance(1000);
    await sent.ended;
    expect(sent.messages).toEqual([progress(1), RESULT]);
    expect(peer.gets[0]?.headers['last-event-id']).toBe('1');
  });

  test('beside the stream of the server', async () => {
    const peer = await legacyPeer({
      post: stream(event('p1')),
      get: ({ headers }, response) =>
        headers['last-event-id'] === undefined
          ? openEvents(response)
          : stream(event('p2', RESULT))({} as never, response, {} as never),
    });
    await peer.openStream();
    const sent = peer.post();
    await streamWaits(peer.clock);
    peer.clock.advance(1000);
    await sent.ended;
    expect(sent.messages).toEqual([RESULT]);
    expect(peer.unasked).toEqual([]);
    expect(peer.streams).toHaveLength(1);
  });
});

describe('is not gone on with', () => {
  test.each<[string, string]>([
    ['without an id', event(null, progress(1))],
    ['with an id that was taken back', `${event('1', progress(1))}id\n\n`],
    ['with an id that no header can carry', `id: a\u0007b\ndata: ${progress(1)}\n\n`],
    ['with an endless id', `id: ${'x'.repeat(1025)}\ndata: ${progress(1)}\n\n`],
    ['with an id of an event that did not end', `data: ${progress(1)}\n\nid: 4\n`],
  ])('%s: it is over at once', async (_name, text) => {
    const peer = await polled(text);
    const sent = peer.post();
    expect(await sent.ended).toMatchObject({ kind: 'complete', status: 200 });
    expect(sent.messages).toEqual([progress(1)]);
    expect(peer.clock.pendingTimers).toBe(0);
    expect(peer.gets).toHaveLength(0);
  });

  test('once the response came, and where none is due', async () => {
    const peer = await polled(event('1', RESULT));
    expect(await peer.post().ended).toMatchObject({ kind: 'complete' });
    expect(await peer.post({ id: null, method: 'notifications/x' }).ended).toMatchObject({
      kind: 'complete',
    });
    expect(peer.clock.pendingTimers).toBe(0);
  });

  test('in a negotiation and in the modern era', async () => {
    const peer = await polled(event('1', progress(1)));
    const modern = { 'mcp-method': 'tools/call', 'mcp-protocol-version': '2026-07-28' };
    expect(await peer.post({ headers: modern }).ended).toMatchObject({ kind: 'complete' });
    const server = await serve(stream(event('1', progress(1))));
    const clock = createSimulatedClock();
    const other = await legacyPeer({ url: server.origin, clock });
    expect(await other.post({ method: 'initialize' }).ended).toMatchObject({ kind: 'complete' });
    expect(clock.pendingTimers).toBe(0);
    expect(peer.clock.pendingTimers).toBe(0);
  });

  test.each<[string, Answer, RegExp]>([
    ['400', (_request, response) => response.writeHead(400).end('{}'), /HTTP 400/],
    ['401', (_request, response) => response.writeHead(401).end(), /HTTP 401/],
    ['404', (_request, response) => response.writeHead(404).end(), /HTTP 404/],
    ['405', (_request, response) => response.writeHead(405).end(), /HTTP 405/],
    ['500', (_request, response) => response.writeHead(500).end(), /HTTP 500/],
    ['JSON', (_request, response) => answerJson(response), /HTTP 200 with application\/json/],
    ['a redirect', (_request, response) => response.writeHead(302, { location: '/' }).end(), /HTTP 302/],
    ['an id taken back', stream('id\n\n'), /cannot be resumed/],
  ])('refused with %s: what became of it is unknown', async (_name, answer, detail) => {
    const peer = await polled(event('1'), answer);
    const sent = peer.post();
    await peer.goOn();
    expect(await sent.ended).toEqual({
      kind: 'broken',
      redirected: false,
      cause: { kind: 'stream-ended', detail: expect.stringMatching(detail) },
    });
    expect(sent.written).toBe(true);
    expect(peer.gets).toHaveLength(1);
    expect(peer.clock.pendingTimers).toBe(0);
    await peer.transport.close();
    await peer.server.quiet();
  });

  test.each<[string, Answer, number]>([
    ['streams that bring nothing', stream(': hi\n\n'), 1],
    ['streams that bring the same again', stream(event('1', progress(1))), 1],
    ['a gateway that has no server', (_request, response) => response.writeHead(503).end(), 1],
    ['connections that break', (_request, response) => response.socket?.destroy(), 2],
  ])('after five %s', async (_name, answer, getsEach) => {
    const peer = await polled(event('1'), answer);
    const sent = peer.post();
    const waits: number[] = [];
    for (let count = 1; count <= 5; count += 1) {
      waits.push(await peer.goOn());
      await peer.seen(count * getsEach);
    }
    expect(waits).toEqual([1000, 1000, 2000, 4000, 8000]);
    expect(await sent.ended).toMatchObject({ kind: 'broken', cause: { kind: 'stream-ended' } });
    expect(peer.gets).toHaveLength(5 * getsEach);
    expect(peer.clock.pendingTimers).toBe(0);
  });

  test('when an event is too long', async () => {
    const peer = await legacyPeer({
      maxMessageBytes: 500,
      post: stream(event('1')),
      get: stream(event('2', 'x'.repeat(1000))),
    });
    const sent = peer.post();
    await streamWaits(peer.clock);
    peer.clock.advance(1000);
    expect(await sent.ended).toMatchObject({
      kind: 'malformed',
      detail: 'an event is longer than 500 bytes',
    });
  });
});

describe('the response comes by another way', () => {
  test('while it waits: nothing is asked for any more', async () => {
    const peer = await polled(event('1', progress(1)), stream(event('2', RESULT)));
    const sent = peer.post();
    await peer.waits();
    // It was delivered on the stream of the server, say.
    sent.messages.push(RESULT);
    await peer.goOn();
    expect(await sent.ended).toEqual({ kind: 'complete', status: 200, redirected: false });
    expect(peer.gets).toHaveLength(0);
    expect(peer.clock.pendingTimers).toBe(0);
  });
});

describe('is given up', () => {
  test('in the wait', async () => {
    const peer = await polled(event('1'));
    const sent = peer.post();
    await peer.waits();
    peer.transport.abort(sent);
    expect(peer.clock.pendingTimers).toBe(0);
    expect(sent.ends).toEqual([]);
  });

  test('while the rest comes', async () => {
    const peer = await polled(event('1'), (_request, response) =>
      openEvents(response, event('2', progress(1))),
    );
    const sent = peer.post();
    await peer.goOn();
    await sent.received(1);
    peer.transport.abort(sent);
    await peer.server.quiet();
    expect(sent.ends).toEqual([]);
    expect(peer.clock.pendingTimers).toBe(0);
  });

  test.each([['in the wait'], ['while the rest comes']])('by closing, %s', async (when) => {
    const peer = await polled(event('1'), (_request, response) =>
      openEvents(response, event('2', progress(1))),
    );
    const sent = peer.post();
    if (when === 'in the wait') await peer.waits();
    else {
      await peer.goOn();
      await sent.received(1);
    }
    await peer.transport.close();
    expect(peer.clock.pendingTimers).toBe(0);
    await peer.server.quiet();
    expect(peer.gets).toHaveLength(when === 'in the wait' ? 0 : 1);
  });
});

describe('over a connection', () => {
  async function connected(get: Answer) {
    let answered = 0;
    const server = await serve((request, response, raw) => {
      if (request.method === 'DELETE') response.writeHead(204).end();
      else if (request.method === 'GET') {
        if (request.headers['last-event-id'] === undefined) response.writeHead(405).end();
        else get(request, response, raw);
      } else if (request.body.includes('"initialize"'))
        answerJson(response, '{"jsonrpc":"2.0","id":7,"result":{}}');
      else if (request.body.includes('"work"')) {
        answered += 1;
        stream(event('1'))(request, response, raw);
      } else response.writeHead(202).end();
    });
    const clock = createSimulatedClock();
    const { connection, heard } = await connectTo(
      streamableHttpTransport({ url: server.origin, clock, connectTimeoutMs: CONNECT_TIMEOUT_MS }),
      clock,
    );
    const dialect = legacyDialect({ revision: '2025-11-25' });
    const permit = issueLegacyPermit(connection);
    await connection.initialize(dialect, '', () => permit, 1000).outcome;
    await connection.select(dialect);
    // What lingers after `initialize`.
    clock.advance(2000);
    /** Resolves when the wait for the rest has begun: its timer is there beside that of the deadline. */
    const waiting = async (): Promise<void> => {
      while (answered === 0 || clock.pendingTimers < 2) await new Promise((resolve) => setImmediate(resolve));
    };
    return { server, clock, connection, heard, waiting };
  }

  test('the request is answered, and its stream is closed a moment later', async () => {
    let response: ServerResponse | undefined;
    const { connection, clock, waiting, server } = await connected((_request, answer) => {
      response = answer;
      openEvents(answer);
    });
    const request = connection.request('work', '', { timeoutMs: 60_000 });
    await waiting();
    clock.advance(1000);
    while (response === undefined) await new Promise((resolve) => setImmediate(resolve));
    response.write(event('2', JSON.stringify({ jsonrpc: '2.0', id: request.id, result: { ok: 1 } })));
    expect(await request.outcome).toMatchObject({ kind: 'result', result: { ok: 1 } });
    clock.advance(2000);
    expect(clock.pendingTimers).toBe(0);
    await connection.close();
    await server.quiet();
  });

  test('its deadline ends the wait', async () => {
    const { connection, clock, waiting } = await connected(() => {});
    const request = connection.request('work', '', { timeoutMs: 900 });
    await waiting();
    clock.advance(900);
    expect(await request.outcome).toMatchObject({ kind: 'timeout', written: true });
    await connection.close();
    expect(clock.pendingTimers).toBe(0);
  });

  test('what cannot be gone on with is lost, after it was written', async () => {
    const { connection, clock, waiting } = await connected((_request, response) =>
      response.writeHead(404).end(),
    );
    const request = connection.request('work', '', { timeoutMs: 60_000 });
    await waiting();
    clock.advance(1000);
    expect(await request.outcome).toMatchObject({
      kind: 'closed',
      written: true,
      cause: { kind: 'stream-ended' },
    });
    expect(clock.pendingTimers).toBe(0);
    expect(connection.isOpen).toBe(true);
  });
});
