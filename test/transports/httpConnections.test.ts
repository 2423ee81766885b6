/** How connections are used: how many, for how long, and that nothing below this package has deadlines of its own. */
import type { ServerResponse } from 'node:http';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { systemClock } from '../../src/transports/clock.js';
import { createBodyDecoder } from '../../src/transports/httpBody.js';
import { answerJson, client, JSON_ANSWER, serve } from './httpHarness.js';

const seen = vi.hoisted(() => ({
  pools: [] as object[],
  connectors: [] as object[],
  requests: [] as object[],
}));

/** undici itself; what it is given is written down. */
vi.mock('undici', async (importOriginal) => {
  const undici = await importOriginal<typeof import('undici')>();
  class Pool extends undici.Pool {
    constructor(origin: string | URL, options: ConstructorParameters<typeof undici.Pool>[1]) {
      super(origin, options);
      seen.pools.push(options ?? {});
    }
    override dispatch(...[options, handler]: Parameters<InstanceType<typeof undici.Pool>['dispatch']>) {
      seen.requests.push(options);
      return super.dispatch(options, handler);
    }
  }
  const buildConnector = (options: object) => {
    seen.connectors.push(options);
    return undici.buildConnector(options);
  };
  return { ...undici, Pool, buildConnector };
});

afterEach(() => {
  for (const list of [seen.pools, seen.connectors, seen.requests]) list.length = 0;
});

describe('what undici is given', () => {
  test('no deadline for head, body and connection, no limit on connections, and a short keep-alive', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post, transport } = await client({ url: server.origin });
    const initialize = post({ method: 'initialize' });
    await initialize.ended;
    await post().ended;
    await transport.close();
    expect(seen.requests.length).toBeGreaterThanOrEqual(2);
    for (const request of seen.requests) expect(request).toMatchObject({ headersTimeout: 0, bodyTimeout: 0 });
    expect(seen.connectors).toMatchObject([{ timeout: 0, autoSelectFamily: true }]);
    const [pool] = seen.pools as [{ connections?: number; keepAliveTimeout?: number }];
    expect(pool.connections).toBeUndefined();
    // Servers on Node close an idle connection after 5 s.
    expect(pool.keepAliveTimeout).toBeLessThan(5000);
    expect(pool.keepAliveTimeout).toBeGreaterThan(0);
  });
});

describe('how many', () => {
  test('two hundred calls wait beside streams that are open, none for another', async () => {
    const waiting: (() => void)[] = [];
    const server = await serve((request, response) => {
      if (request.body === 'stream') {
        response.writeHead(200, { 'content-type': 'text/event-stream' }).write('data: 1\n\n');
        return;
      }
      waiting.push(() => answerJson(response, request.body));
      // Answered when all are here: with a limit they would never be.
      if (waiting.length === 200) for (const answer of waiting) answer();
    });
    const { post, transport } = await client({ url: server.origin });
    const streams = [post({ text: 'stream' }), post({ text: 'stream' })];
    await Promise.all(streams.map((one) => one.received(1)));
    const sent = Array.from({ length: 200 }, () => post());
    const ends = await Promise.all(sent.map((one) => one.ended));
    expect(ends.every(({ kind }) => kind === 'complete')).toBe(true);
    expect(sent.map((one) => JSON.parse(one.messages[0] ?? '').id)).toEqual(sent.map((one) => one.id));
    expect(server.connections()).toBe(202);
    expect(streams.flatMap((one) => one.ends)).toEqual([]);
    await transport.close();
    await server.quiet();
  });

  test('a connection that its server will close soon is not kept', async () => {
    const server = await serve((_request, response) => {
      answerJson(response, JSON_ANSWER, { connection: 'keep-alive', 'keep-alive': 'timeout=1' });
    });
    const { post } = await client({ url: server.origin });
    for (let count = 1; count <= 3; count += 1) {
      expect(await post().ended).toMatchObject({ kind: 'complete' });
      // This side closes it, with no timer.
      await server.quietAfterFirst();
      expect(server.connections()).toBe(count);
    }
  });
});

describe('a connection that was used long ago', () => {
  test('is not used again, also where this process was too busy to close it in time', async () => {
    const server = await serve((_request, response) => answerJson(response));
    // undici's timer follows real time and has not run out: it is as late as it can be.
    let offsetMs = 0;
    const clock = { ...systemClock, now: () => performance.now() + offsetMs };
    const { post } = await client({ url: server.origin, clock });
    const waits: [number, number][] = [
      [0, 1],
      [0, 1],
      [4_500, 2],
      [0, 2],
      [4_500, 3],
    ];
    for (const [waitMs, expected] of waits) {
      offsetMs += waitMs;
      expect(await post().ended).toMatchObject({ kind: 'complete' });
      expect(server.connections()).toBe(expected);
      // undici gives a connection back a turn after its answer.
      await nextTurn();
    }
  });

  test('is another one than one that is old, and used often', async () => {
    const server = await serve((_request, response) => answerJson(response));
    let offsetMs = 0;
    const clock = { ...systemClock, now: () => offsetMs };
    const { post } = await client({ url: server.origin, clock });
    for (let count = 0; count < 4; count += 1) {
      expect(await post().ended).toMatchObject({ kind: 'complete' });
      await nextTurn();
      offsetMs += 2_100;
    }
    expect(server.connections()).toBe(1);
  });

  test('is left alone while a request is on it', async () => {
    const waiting: ServerResponse[] = [];
    const server = await serve((request, response) => {
      if (request.body === 'waits') waiting.push(response);
      else answerJson(response);
    });
    let offsetMs = 0;
    const clock = { ...systemClock, now: () => performance.now() + offsetMs };
    const { post } = await client({ url: server.origin, clock });
    const slow = post({ text: 'waits' });
    await vi.waitFor(() => expect(waiting).toHaveLength(1));
    offsetMs += 60_000;
    expect(await post().ended).toMatchObject({ kind: 'complete' });
    for (const response of waiting) answerJson(response);
    expect(await slow.ended).toMatchObject({ kind: 'complete' });
    expect(server.connections()).toBe(2);
  });
});

describe('an answer that hangs behind its head', () => {
  const statuses: [number, Record<string, string>, object][] = [
    [401, { 'www-authenticate': 'Bearer' }, { kind: 'unauthorized', status: 401, challenge: 'Bearer' }],
    [403, {}, { kind: 'unauthorized', status: 403 }],
    [
      429,
      { 'retry-after': '7' },
      { kind: 'unreachable', cause: { kind: 'http-status', retryAfterMs: 7000 } },
    ],
    [502, {}, { kind: 'unreachable', cause: { kind: 'http-status', status: 502 } }],
    [503, {}, { kind: 'unreachable', cause: { kind: 'http-status', status: 503 } }],
    [301, { location: 'https://127.0.0.1:1/' }, { kind: 'unreachable', cause: { kind: 'redirected' } }],
  ];

  test.each(statuses)('is what its status says (%i), after a moment', async (status, headers, expected) => {
    const server = await serve((_request, response) => {
      response.writeHead(status, { 'content-type': 'text/html', ...headers });
      response.write('<html>');
    });
    const timer = manualTimer();
    const sent = (await client({ url: server.origin, clock: timer.clock })).post({
      method: 'server/discover',
    });
    (await timer.set(1000))();
    expect(await sent.ended).toMatchObject(expected);
    expect(sent.messages).toEqual([]);
    await server.quiet();
  });

  test('is followed where it redirects', async () => {
    const server = await serve((request, response) => {
      if (request.url === '/x') return answerJson(response);
      response.writeHead(307, { location: '/x' }).write('x');
    });
    const timer = manualTimer();
    const sent = (await client({ url: server.origin, clock: timer.clock })).post();
    (await timer.set(1000))();
    expect(await sent.ended).toEqual({ kind: 'complete', status: 200, redirected: true });
  });

  test.each([200, 400, 404])('is waited for where it may still be an answer (%i)', async (status) => {
    let finish: (response: ServerResponse) => void = () => {};
    const begun = new Promise<ServerResponse>((resolve) => {
      finish = resolve;
    });
    const server = await serve((_request, response) => {
      response.writeHead(status, { 'content-type': 'application/json' });
      response.write('{"jsonrpc"', () => finish(response));
    });
    const timer = manualTimer();
    const sent = (await client({ url: server.origin, clock: timer.clock })).post();
    const response = await begun;
    response.end(':"2.0","id":1,"error":{"code":1,"message":"m"}}');
    await sent.ended;
    expect(sent.messages).toHaveLength(1);
    expect(timer.lengths).not.toContain(1000);
  });
});

test('of a bomb no more is decoded than its limit and a piece', async () => {
  const bomb = gzipSync(Buffer.alloc(100 * 1024 * 1024, 0x20));
  expect(bomb.length).toBeLessThan(110_000);
  let decoded = 0;
  await new Promise<void>((resolve, reject) => {
    const decoder = createBodyDecoder('gzip', {
      data(chunk) {
        decoded += chunk.length;
        if (decoded <= 1024 * 1024) return;
        if (decoder !== null && typeof decoder !== 'string') decoder.destroy();
        setImmediate(resolve);
      },
      end: () => reject(new Error('decoded to its end')),
      fail: (detail) => reject(new Error(detail)),
      pause: () => {},
      resume: () => {},
    });
    if (decoder === null || typeof decoder === 'string') throw new Error('no decoder');
    decoder.push(bomb);
  });
  expect(decoded).toBeLessThan(1024 * 1024 + 64 * 1024);
});

/** A clock whose timers are rung by hand. */
function manualTimer() {
  const timers: { readonly ms: number; readonly fn: () => void }[] = [];
  let look = (): void => {};
  return {
    clock: {
      now: () => 0,
      setTimeout(fn: () => void, ms: number) {
        const timer = { ms, fn };
        timers.push(timer);
        look();
        return timer;
      },
      clearTimeout: () => {},
    },
    get lengths() {
      return timers.map(({ ms }) => ms);
    },
    /** Resolves with the timer of that length when it is set. */
    set: (ms: number): Promise<() => void> =>
      new Promise((resolve) => {
        look = () => {
          const timer = timers.find((one) => one.ms === ms);
          if (timer !== undefined) resolve(timer.fn);
        };
        look();
      }),
  };
}
