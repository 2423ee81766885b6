/** The stream on which a legacy server speaks by itself, over real sockets and in simulated time. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { HttpAuthorizer } from '../../src/transports/httpAuthorizer.js';
import { type Answer, answerJson, serve } from './httpHarness.js';
import { EVENTS, legacyPeer, openEvents, streamWaits } from './legacyHarness.js';

const NOTE = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}';
const event = (text: string, id?: string): string =>
  `${id === undefined ? '' : `id: ${id}\n`}data: ${text}\n\n`;

describe('is opened', () => {
  test('with the headers of the session, and brings messages', async () => {
    const peer = await legacyPeer({
      headers: { 'x-key': 'k' },
      get: (_request, response) => openEvents(response, event(NOTE)),
    });
    await peer.openStream();
    expect(peer.streams).toEqual([{ state: 'open', resumed: false }]);
    await peer.until(() => peer.unasked.length === 1);
    expect(peer.unasked).toEqual([NOTE]);
    const [{ headers, url } = { headers: {}, url: '' }] = peer.gets;
    expect(url).toBe('/mcp');
    expect(headers).toMatchObject({
      accept: 'text/event-stream',
      'mcp-session-id': 'session-1',
      'mcp-protocol-version': '2025-11-25',
      'x-key': 'k',
    });
    for (const name of ['mcp-method', 'mcp-name', 'content-type', 'content-length', 'last-event-id']) {
      expect(headers).not.toHaveProperty(name);
    }
    expect(peer.clock.pendingTimers).toBe(0);
    await peer.transport.close();
    expect(peer.clock.pendingTimers).toBe(0);
    await peer.server.quiet();
  });

  test('once, and never in the modern era', async () => {
    const peer = await legacyPeer({ get: (_request, response) => openEvents(response) });
    await peer.openStream();
    await peer.openStream();
    expect(peer.gets).toHaveLength(1);
    const modern = await legacyPeer({ session: null });
    modern.transport.negotiated?.({ era: 'modern', revision: '2026-07-28' });
    await modern.openStream();
    await modern.post({ headers: { 'mcp-method': 'test/method' } }).ended;
    expect(modern.gets).toHaveLength(0);
    expect(modern.streams).toEqual([]);
  });

  test('a server that says nothing is not waited for, and is heard later', async () => {
    let response: ServerResponse | undefined;
    const peer = await legacyPeer({
      get: (_request, answer) => {
        response = answer;
      },
    });
    const opened = peer.openStream();
    await peer.seen(1);
    peer.clock.advance(300);
    await opened;
    expect(peer.streams).toEqual([]);
    peer.clock.advance(24 * 3_600_000);
    if (response !== undefined) openEvents(response, event(NOTE));
    await peer.until(() => peer.unasked.length === 1);
    expect(peer.streams).toEqual([{ state: 'open', resumed: false }]);
    expect(peer.gets).toHaveLength(1);
  });

  test('a silent stream stays, and calls go on beside it', async () => {
    const peer = await legacyPeer({ get: (_request, response) => openEvents(response) });
    await peer.openStream();
    peer.clock.advance(7 * 24 * 3_600_000);
    expect(await peer.post().ended).toMatchObject({ kind: 'complete' });
    expect(peer.gets).toHaveLength(1);
    expect(peer.streams).toHaveLength(1);
    expect(peer.faults).toEqual([]);
  });

  test.each([['\n'], ['\r'], ['\r\n']])('events cut at every byte, lines ending in %j', async (end) => {
    const bytes = Buffer.from(`id: 1${end}event: message${end}data: ${NOTE}${end}${end}`.repeat(2));
    const peer = await legacyPeer({
      get: (_request, response) => {
        openEvents(response);
        response.socket?.setNoDelay(true);
        const next = (index: number): void => {
          if (index < bytes.length) response.write(bytes.subarray(index, index + 1), () => next(index + 1));
        };
        next(0);
      },
    });
    await peer.openStream();
    await peer.until(() => peer.unasked.length === 2);
    expect(peer.unasked).toEqual([NOTE, NOTE]);
  });

  test('307 within the origin is followed, another origin is not', async () => {
    const other = await serve((_request, response) => openEvents(response));
    const peer = await legacyPeer({
      get: ({ url }, response) => {
        if (url === '/mcp/') openEvents(response);
        else response.writeHead(307, { location: '/mcp/' }).end('moved');
      },
    });
    await peer.openStream();
    expect(peer.streams).toEqual([{ state: 'open', resumed: false }]);
    expect(peer.gets[1]?.headers['mcp-session-id']).toBe('session-1');
    const away = await legacyPeer({
      get: (_request, response) => response.writeHead(307, { location: `${other.origin}/mcp` }).end(),
    });
    await away.openStream();
    expect(away.streams).toMatchObject([{ state: 'none' }]);
    expect(other.requests).toEqual([]);
  });

  test('a compressed stream is read', async () => {
    const { gzipSync, constants } = await import('node:zlib');
    const peer = await legacyPeer({
      get: (_request, response) => {
        response.writeHead(200, { ...EVENTS, 'content-encoding': 'gzip' });
        response.write(gzipSync(event(NOTE), { finishFlush: constants.Z_SYNC_FLUSH }));
      },
    });
    await peer.openStream();
    await peer.until(() => peer.unasked.length === 1);
    await peer.transport.close();
    await peer.server.quiet();
  });
});

describe('a server that has none', () => {
  const status =
    (code: number, type?: string, body = ''): Answer =>
    (_request, response) =>
      response.writeHead(code, type === undefined ? {} : { 'content-type': type }).end(body);
  const json = '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"no"}}';

  test.each<[string, Answer, number]>([
    ['400', status(400, 'application/json', json), 0],
    ['401', status(401), 0],
    ['403', status(403), 0],
    ['404', status(404, 'text/html', '<p>no</p>'), 0],
    ['405', status(405), 0],
    ['405 with an event stream', status(405, 'text/event-stream', 'data: {}\n\n'), 0],
    ['406', status(406), 0],
    ['429', status(429), 1],
    ['500', status(500, 'text/plain', 'oops'), 1],
    ['501', status(501), 0],
    ['503', status(503), 1],
    ['200 with JSON', status(200, 'application/json', json), 0],
    ['200 with HTML', status(200, 'text/html; charset=utf-8', '<html></html>'), 0],
    ['200 without a type', status(200), 0],
    ['202', status(202), 0],
    ['204', status(204), 0],
    ['301', (_request, response) => response.writeHead(301, { location: '/mcp/' }).end(), 0],
    ['a loop of redirects', (_request, response) => response.writeHead(307, { location: '/mcp' }).end(), 0],
    [
      'an unknown coding',
      (_request, response) => response.writeHead(200, { ...EVENTS, 'content-encoding': 'zip' }).end(),
      0,
    ],
    ['a closed connection', (_request, response) => response.socket?.destroy(), 1],
  ])('%s', async (_name, get, faults) => {
    const peer = await legacyPeer({ get });
    await peer.openStream();
    expect(peer.streams).toEqual([{ state: 'none', detail: expect.stringMatching(/\S/) }]);
    const count = peer.gets.length;
    expect(await peer.post().ended).toMatchObject({ kind: 'complete' });
    peer.clock.advance(24 * 3_600_000);
    expect(await peer.post().ended).toMatchObject({ kind: 'complete' });
    expect(peer.server.requests.at(-1)?.headers['mcp-session-id']).toBe('session-1');
    expect(peer.gets).toHaveLength(count);
    expect(peer.streams).toHaveLength(1);
    expect(peer.faults).toHaveLength(faults);
    expect(peer.clock.pendingTimers).toBe(0);
    await peer.transport.close();
    await peer.server.quiet();
    expect(peer.server.requests.at(-1)?.method).toBe('DELETE');
  });

  test('its connection is used again, and a body without end is not waited for', async () => {
    const peer = await legacyPeer();
    await peer.openStream();
    const before = peer.server.connections();
    for (let count = 0; count < 3; count += 1) await peer.post().ended;
    expect(peer.server.connections()).toBe(before);
    const endless = await legacyPeer({
      get: (_request, response) => response.writeHead(404).write('…'),
    });
    const opened = endless.openStream();
    await endless.until(() => endless.streams.length === 1);
    endless.clock.advance(300);
    await opened;
    await endless.server.quiet();
  });

  test('401 starts no authorization; a nonce is told', async () => {
    const told: string[] = [];
    const authorizer: HttpAuthorizer = {
      credentials: ({ method }) => ({ headers: { authorization: `Bearer for-${method}` } }),
      refused: ({ attempt }) => {
        told.push(`refused ${attempt.method}`);
        return Promise.resolve(true);
      },
      heardNonce: ({ method }, nonce) => told.push(`${method} ${nonce}`),
    };
    const peer = await legacyPeer({
      authorizer,
      get: (_request, response) =>
        response.writeHead(401, { 'www-authenticate': 'Bearer', 'dpop-nonce': 'n1' }).end(),
    });
    await peer.openStream();
    await peer.transport.close();
    expect(told).toEqual(['GET n1']);
    expect(peer.server.requests.map(({ headers }) => headers.authorization)).toEqual([
      'Bearer for-POST',
      'Bearer for-GET',
      'Bearer for-DELETE',
    ]);
  });
});

describe('ends, and is opened again', () => {
  test('in less and less of a hurry, and no call is harmed', async () => {
    let running: ServerResponse | undefined;
    const peer = await legacyPeer({
      get: (_request, response) => response.writeHead(200, EVENTS).end(),
      post: (_request, response) => {
        running = response;
      },
    });
    const call = peer.post();
    await peer.openStream();
    const waits: (number | null)[] = [];
    for (let count = 1; count <= 9; count += 1) {
      await peer.until(() => peer.streams.length === 2 * count);
      const { nextDueMs } = peer.clock;
      waits.push(nextDueMs === null ? null : nextDueMs - peer.clock.now());
      if (nextDueMs !== null) peer.clock.advanceTo(nextDueMs);
      await peer.seen(count + 1);
    }
    expect(waits).toEqual([1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000, 30_000]);
    expect(call.ends).toEqual([]);
    if (running !== undefined) answerJson(running);
    expect(await call.ended).toMatchObject({ kind: 'complete' });
    expect(peer.faults).toEqual([]);
  });

  test('a message, or a long life, is a new beginning; where it was left is told', async () => {
    const open: ServerResponse[] = [];
    const peer = await legacyPeer({
      get: (_request, response) => {
        open.push(response);
        openEvents(response);
      },
    });
    const again = async (): Promise<number> => {
      const states = peer.streams.length;
      open.at(-1)?.end();
      await peer.until(() => peer.streams.length === states + 1);
      const wait = (peer.clock.nextDueMs ?? 0) - peer.clock.now();
      peer.clock.advance(wait);
      await peer.until(() => peer.streams.length === states + 2);
      return wait;
    };
    await peer.openStream();
    expect(await again()).toBe(1000);
    expect(await again()).toBe(2000);
    open.at(-1)?.write(event(NOTE, '7'));
    await peer.until(() => peer.unasked.length === 1);
    expect(await again()).toBe(1000);
    expect(peer.gets.at(-1)?.headers['last-event-id']).toBe('7');
    expect(peer.streams.at(-1)).toEqual({ state: 'open', resumed: true });
    expect(await again()).toBe(2000);
    expect(peer.gets.at(-1)?.headers['last-event-id']).toBe('7');
    peer.clock.advance(30_000);
    expect(await again()).toBe(1000);
    open.at(-1)?.write('id\nretry: 5000\n\n');
    open.at(-1)?.write(event(NOTE));
    await peer.until(() => peer.unasked.length === 2);
    expect(await again()).toBe(5000);
    expect(peer.gets.at(-1)?.headers).not.toHaveProperty('last-event-id');
    expect(peer.streams.at(-1)).toEqual({ state: 'open', resumed: false });
  });

  test.each([
    ['0', 100],
    ['500', 500],
    ['99999999999999999999999', 600_000],
    ['-5', 1000],
    ['5s', 1000],
    ['', 1000],
  ])('retry: %s is waited for, in bounds', async (retry, wait) => {
    const peer = await legacyPeer({
      get: (_request, response) => response.writeHead(200, EVENTS).end(`id: 1\nretry: ${retry}\n\n`),
    });
    await peer.openStream();
    await peer.until(() => peer.streams.length === 2);
    expect(peer.clock.nextDueMs).toBe(peer.clock.now() + wait);
  });

  test('without an id no retry is shorter than a second, also after messages: each stream has all listed anew', async () => {
    const peer = await legacyPeer({
      get: (_request, response) => response.writeHead(200, EVENTS).end(`retry: 0\n\n${event(NOTE)}`),
    });
    await peer.openStream();
    for (const count of [1, 2, 3]) {
      await peer.until(() => peer.streams.length === 2 * count);
      expect(await streamWaits(peer.clock)).toBe(1000);
      peer.clock.advance(1000);
    }
  });

  test('retry: 0 and an end at once make no loop', async () => {
    const peer = await legacyPeer({
      get: (_request, response) => response.writeHead(200, EVENTS).end('retry: 0\n\n'),
    });
    await peer.openStream();
    const start = peer.clock.now();
    for (let count = 1; peer.clock.now() - start < 60_000; count += 1) {
      await peer.until(() => peer.streams.length === 2 * count);
      peer.clock.advanceTo(peer.clock.nextDueMs ?? Number.NaN);
      await peer.seen(count + 1);
    }
    expect(peer.gets.length).toBeLessThan(10);
  });

  /** The first stream ends at once; what comes then is answered one after the other, the last for ever. */
  async function reopening(...answers: Answer[]) {
    const peer = await legacyPeer({
      get: (request, response, raw) => {
        const answer =
          peer.gets.length === 1 ? undefined : answers[Math.min(peer.gets.length - 2, answers.length - 1)];
        if (answer === undefined) response.writeHead(200, EVENTS).end('id: 1\n\n');
        else answer(request, response, raw);
      },
    });
    await peer.openStream();
    await peer.until(() => peer.streams.length === 2);
    const next = (): void => peer.clock.advanceTo(peer.clock.nextDueMs ?? Number.NaN);
    next();
    return { ...peer, next };
  }
  const say =
    (code: number, headers = {}): Answer =>
    (_request, response) =>
      response.writeHead(code, headers).end();

  test('405 ends it', async () => {
    const peer = await reopening(say(405));
    await peer.until(() => peer.streams.length === 3);
    expect(peer.streams.at(-1)).toMatchObject({ state: 'none' });
    expect(peer.clock.pendingTimers).toBe(0);
  });

  test.each([400, 401, 404, 501])(
    '%i twice in a row ends it, the second time without the id',
    async (code) => {
      const peer = await reopening(say(code));
      await streamWaits(peer.clock);
      peer.next();
      await peer.until(() => peer.streams.length === 3);
      expect(peer.streams.at(-1)).toMatchObject({ state: 'none' });
      expect(peer.gets.map(({ headers }) => headers['last-event-id'])).toEqual([undefined, '1', undefined]);
      expect(peer.faults).toEqual([]);
      expect(await peer.post().ended).toMatchObject({ kind: 'complete' });
      expect(peer.clock.pendingTimers).toBe(0);
    },
  );

  test('once refused, it may be there again', async () => {
    const open: Answer = (_request, response) => openEvents(response, event(NOTE));
    const peer = await reopening(say(400), open);
    await streamWaits(peer.clock);
    peer.next();
    await peer.until(() => peer.unasked.length === 1);
    expect(peer.streams.at(-1)).toEqual({ state: 'open', resumed: false });
  });

  test('a refusal long after another one is not the second in a row', async () => {
    const open: Answer = (_request, response) => openEvents(response, event(NOTE));
    const ends: Answer = (_request, response) => response.writeHead(200, EVENTS).end();
    const peer = await reopening(say(400), ends, say(400), open);
    for (let count = 3; count <= 5; count += 1) {
      await streamWaits(peer.clock);
      peer.next();
      await peer.seen(count);
    }
    await peer.until(() => peer.unasked.length === 1);
    expect(peer.streams.map(({ state }) => state)).toEqual(['open', 'waiting', 'open', 'waiting', 'open']);
  });

  test('a silence that breaks was a stream, if it was a long one', async () => {
    const held: ServerResponse[] = [];
    const peer = await legacyPeer({
      get: (_request, response) => {
        if (held.length === 0) held.push(response);
        // A request that got no word is sent once more before it counts as failed.
        else if (peer.gets.length === 2) response.socket?.destroy();
        else openEvents(response, event(NOTE));
      },
    });
    const opened = peer.openStream();
    await peer.seen(1);
    peer.clock.advance(300);
    await opened;
    peer.clock.advance(30_000);
    held[0]?.socket?.destroy();
    await peer.until(() => peer.streams.length === 1);
    peer.clock.advance(await streamWaits(peer.clock));
    await peer.until(() => peer.unasked.length === 1);
    expect(peer.streams.map(({ state }) => state)).toEqual(['waiting', 'open']);
  });

  test('500, 429 and a broken connection are waited for, a fault each; Retry-After is kept', async () => {
    const cut: Answer = (_request, response) => response.socket?.destroy();
    const open: Answer = (_request, response) => openEvents(response, event(NOTE));
    const peer = await reopening(say(500), say(429, { 'retry-after': '100' }), cut, cut, open);
    await peer.until(() => peer.faults.length === 1);
    peer.next();
    await peer.until(() => peer.faults.length === 2);
    expect(peer.clock.nextDueMs).toBe(peer.clock.now() + 100_000);
    peer.next();
    await peer.until(() => peer.faults.length === 3);
    peer.next();
    await peer.until(() => peer.unasked.length === 1);
    expect(peer.faults.map(({ kind }) => kind)).toEqual(['stream', 'stream', 'stream']);
    expect(peer.streams.map(({ state }) => state)).toEqual(['open', 'waiting', 'open']);
    expect(peer.gets.at(-1)?.headers['last-event-id']).toBe('1');
  });

  test('an event that is too long ends it, and is not asked for again', async () => {
    const peer = await legacyPeer({
      maxMessageBytes: 1000,
      get: (_request, response) => openEvents(response, `${event(NOTE, '1')}${event('x'.repeat(2000), '2')}`),
    });
    await peer.openStream();
    await peer.until(() => peer.streams.length === 2);
    expect(peer.streams.at(-1)).toEqual({ state: 'waiting', detail: 'an event is longer than 1000 bytes' });
    expect(peer.faults).toMatchObject([{ kind: 'stream' }]);
    peer.clock.advance(1000);
    await peer.seen(2);
    expect(peer.gets[1]?.headers).not.toHaveProperty('last-event-id');
  });

  test('what is no message is overheard', async () => {
    const peer = await legacyPeer({
      get: (_request, response) => openEvents(response, `event: ping\ndata: {"a":1}\n\n${event(NOTE)}`),
    });
    await peer.openStream();
    await peer.until(() => peer.unasked.length === 1);
    expect(peer.overheard.at(-1)).toBe('{"a":1}');
  });

  test('closing ends the wait', async () => {
    const peer = await legacyPeer({ get: (_request, response) => response.writeHead(200, EVENTS).end() });
    await peer.openStream();
    await peer.until(() => peer.streams.length === 2);
    await peer.transport.close();
    expect(peer.clock.pendingTimers).toBe(0);
    peer.clock.advance(3_600_000);
    await peer.server.quiet();
    expect(peer.gets).toHaveLength(1);
    expect(peer.streams).toHaveLength(2);
  });

  test('closing while the first answer is waited for', async () => {
    const peer = await legacyPeer({ session: null, get: () => {} });
    const opened = peer.openStream();
    await peer.seen(1);
    const closed = peer.transport.close();
    await opened;
    await closed;
    expect(peer.clock.pendingTimers).toBe(0);
    await peer.server.quiet();
  });
});
