/** What breaks below HTTP: connections that are not made, die, are reset in the middle, or speak something else. */

import { once } from 'node:events';
import net, { type AddressInfo, type Socket } from 'node:net';
import { describe, expect, test } from 'vitest';
import type { Clock } from '../../src/transports/clock.js';
import { closeCauseOf, describeError, readRetryAfter } from '../../src/transports/httpErrors.js';
import { answerJson, client, JSON_ANSWER, serve, serveRaw } from './httpHarness.js';

const HEAD = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';
const whole = (body: string) => `${HEAD}content-length: ${body.length}\r\n\r\n${body}`;

async function unusedPort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Calls `then` when a whole request has come on the socket. */
function onRequest(socket: Socket, then: (nth: number) => void): void {
  let count = 0;
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk.toString('latin1');
    for (let match = REQUEST.exec(text); match !== null; match = REQUEST.exec(text)) {
      const length = Number(match[1]);
      const end = match[0].length + length;
      if (text.length < end) return;
      text = text.slice(end);
      count += 1;
      then(count);
    }
  });
}

const REQUEST = /^POST [\s\S]*?content-length: (\d+)\r\n\r\n/;

describe('no connection', () => {
  test('refused', async () => {
    const port = await unusedPort();
    const sent = (await client({ url: `http://us:topsecret@127.0.0.1:${port}/x?key=topsecret` })).post();
    const end = await sent.ended;
    expect(end).toEqual({
      kind: 'unreachable',
      redirected: false,
      cause: {
        kind: 'connect-failed',
        terminal: false,
        detail: `127.0.0.1:${port}: connection refused (ECONNREFUSED)`,
      },
    });
    expect(sent.written).toBe(false);
  });

  test('every address of a name refused', async () => {
    const port = await unusedPort();
    const end = await (await client({ url: `http://localhost:${port}` })).post().ended;
    expect(end).toMatchObject({ kind: 'unreachable', cause: { kind: 'connect-failed' } });
    const detail = end.kind === 'unreachable' ? end.cause.detail : '';
    expect(detail).toContain(`127.0.0.1:${port}: connection refused (ECONNREFUSED)`);
    expect(detail).toMatch(/; .*\[::1\]/);
    expect(detail).not.toContain('AggregateError');
  });

  test('a name that does not exist', async () => {
    const sent = (await client({ url: 'http://nobody.invalid/' })).post();
    expect(await sent.ended).toMatchObject({
      kind: 'unreachable',
      cause: { kind: 'connect-failed', terminal: false },
    });
    expect(sent.written).toBe(false);
  });

  test('TLS where there is none', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const sent = (await client({ url: server.origin.replace('http:', 'https:') })).post();
    const end = await sent.ended;
    expect(end).toMatchObject({ kind: 'unreachable', cause: { kind: 'connect-failed' } });
    expect(sent.written).toBe(false);
    expect(server.requests).toEqual([]);
  });

  test('TLS that never answers is cut by the clock', async () => {
    const timers: { fn: () => void; ms: number }[] = [];
    const clock: Clock = {
      now: () => 0,
      setTimeout: (fn, ms) => timers.push({ fn, ms }),
      clearTimeout: () => {},
    };
    let accepted: (socket: Socket) => void = () => {};
    const connection = new Promise<Socket>((resolve) => {
      accepted = resolve;
    });
    const server = await serveRaw(accepted);
    const sent = (
      await client({ url: `https://127.0.0.1:${server.port}`, clock, connectTimeoutMs: 1234 })
    ).post();
    await connection;
    expect(timers.map(({ ms }) => ms)).toEqual([1234]);
    timers[0]?.fn();
    expect(await sent.ended).toMatchObject({
      kind: 'unreachable',
      cause: { kind: 'connect-failed', detail: 'no connection within 1234 ms (CONNECT_TIMEOUT)' },
    });
    await server.quiet();
  });

  test('closing does not wait for one that never comes about', async () => {
    let accepted: (socket: Socket) => void = () => {};
    const connection = new Promise<Socket>((resolve) => {
      accepted = resolve;
    });
    const server = await serveRaw(accepted);
    const { post, transport } = await client({ url: `https://127.0.0.1:${server.port}` });
    const sent = post();
    await connection;
    await transport.close();
    await server.quiet();
    expect(sent).toMatchObject({ written: false, ends: [] });
  });

  test.each(['127.0.0.1', '::1'])('localhost that listens on %s only', async (host) => {
    // Also where the hosts file gives that name one address only.
    const server = await serve((_request, response) => answerJson(response), host);
    const sent = (await client({ url: `http://localhost:${server.port}` })).post();
    expect(await sent.ended).toMatchObject({ kind: 'complete' });
  });

  test('an IPv6 address', async () => {
    const server = await serve((_request, response) => answerJson(response), '::1');
    expect(await (await client({ url: server.origin })).post().ended).toMatchObject({ kind: 'complete' });
  });
});

describe('a connection that breaks', () => {
  const reset = (socket: Socket) => socket.resetAndDestroy();
  const close = (socket: Socket) => socket.end();

  test.each<[string, string, (socket: Socket) => void, object]>([
    ['closed before the answer', '', close, { kind: 'reset' }],
    ['reset before the answer', '', reset, { kind: 'reset' }],
    ['closed within the head', 'HTTP/1.1 200 OK\r\ncontent-', close, { kind: 'reset' }],
    ['closed within the body', `${HEAD}content-length: 100\r\n\r\n{"a":`, close, { kind: 'stream-ended' }],
    [
      'reset within the body',
      `${HEAD}content-length: 100\r\n\r\n{"a":`,
      reset,
      { kind: expect.stringMatching(/^(reset|stream-ended)$/) },
    ],
    [
      'closed within a chunk',
      `${HEAD}transfer-encoding: chunked\r\n\r\n40\r\n{"a":`,
      close,
      { kind: 'stream-ended' },
    ],
    [
      'closed between chunks',
      `${HEAD}transfer-encoding: chunked\r\n\r\n2\r\n{}\r\n`,
      close,
      { kind: 'stream-ended' },
    ],
    ['something that is not HTTP', 'SSH-2.0-OpenSSH_9.6\r\n', close, { kind: 'protocol' }],
    ['a bad chunk length', `${HEAD}transfer-encoding: chunked\r\n\r\nxyz\r\n`, close, { kind: 'protocol' }],
    ['a head without end', `HTTP/1.1 200 OK\r\nx: ${'y'.repeat(20_000)}`, close, { kind: 'protocol' }],
    [
      'an upgrade',
      'HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
      close,
      { kind: 'reset' },
    ],
  ])('%s', async (_name, bytes, then, cause) => {
    const server = await serveRaw((socket) => {
      onRequest(socket, () => {
        if (bytes === '') then(socket);
        else socket.write(bytes, 'latin1', () => then(socket));
      });
    });
    const sent = (await client({ url: server.origin })).post();
    const end = await sent.ended;
    expect(end).toMatchObject({ kind: 'broken', redirected: false, cause });
    expect(end.kind === 'broken' && end.cause.detail.length).toBeGreaterThan(10);
    expect(sent).toMatchObject({ written: true, messages: [] });
    // Written once is written once: a POST is never repeated.
    expect(server.received().match(/POST /g)).toHaveLength(1);
  });

  test('events before the break are delivered', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write('data: 1\n\ndata: 2\n', () => response.socket?.destroy());
    });
    const sent = (await client({ url: server.origin })).post();
    expect(await sent.ended).toMatchObject({
      kind: 'broken',
      cause: { kind: expect.stringMatching(/stream-ended|reset/) },
    });
    expect(sent.messages).toEqual(['1']);
  });

  test.each([
    ['HTTP/1.1 404 No\r\ncontent-length: 9\r\n\r\n{"a"', { kind: 'status', status: 404 }],
    ['HTTP/1.1 401 No\r\ncontent-length: 9\r\n\r\n{"a"', { kind: 'unauthorized' }],
    [
      'HTTP/1.1 503 No\r\ncontent-length: 9\r\n\r\n{"a"',
      { kind: 'unreachable', cause: { kind: 'http-status' } },
    ],
  ])('the status of an error is enough: %j', async (bytes, expected) => {
    const server = await serveRaw((socket) => {
      onRequest(socket, () => socket.end(bytes));
    });
    const peer = await client({ url: server.origin });
    const sent = peer.post();
    expect(await sent.ended).toMatchObject(expected);
    expect([...sent.messages, ...peer.overheard]).toEqual([]);
  });

  test('a body that ends with its connection is whole', async () => {
    const server = await serveRaw((socket) => {
      onRequest(socket, () => socket.end(`${HEAD}connection: close\r\n\r\n${JSON_ANSWER}`));
    });
    const sent = (await client({ url: server.origin })).post();
    expect(await sent.ended).toMatchObject({ kind: 'complete' });
    expect(sent.messages).toEqual([JSON_ANSWER]);
  });
});

describe('connections that were kept', () => {
  test('one that the server has closed is not used again', async () => {
    const server = await serveRaw((socket) => {
      onRequest(socket, () => socket.end(whole(JSON_ANSWER)));
    });
    const { post } = await client({ url: server.origin });
    for (let count = 1; count <= 5; count += 1) {
      expect(await post().ended).toMatchObject({ kind: 'complete' });
      await server.quiet();
    }
    expect(server.connections()).toBe(5);
  });

  test.each<[string, (socket: Socket) => void]>([
    ['closes', (socket) => socket.end()],
    ['resets', (socket) => socket.resetAndDestroy()],
  ])(
    'a server that %s them right after its answer loses no message and gets none twice',
    async (_name, end) => {
      const server = await serveRaw((socket) => {
        onRequest(socket, () => socket.write(whole(JSON_ANSWER), () => end(socket)));
      });
      const { post } = await client({ url: server.origin });
      let written = 0;
      for (let count = 0; count < 30; count += 1) {
        const sent = post();
        const told = await sent.ended;
        written += sent.written ? 1 : 0;
        // Whether the close is seen before the next message is handed over is a race; what is told must be true.
        if (told.kind === 'broken') expect(sent.written).toBe(true);
        else expect(told.kind).toBe('complete');
      }
      expect(server.received().match(/POST /g)?.length ?? 0).toBeLessThanOrEqual(written);
    },
  );

  test('one that dies with the next message in it is not repeated', async () => {
    const server = await serveRaw((socket) => {
      onRequest(socket, (nth) => {
        if (nth === 1) socket.write(whole(JSON_ANSWER));
        else socket.resetAndDestroy();
      });
    });
    const { post } = await client({ url: server.origin });
    await post().ended;
    await post().ended;
    const third = post();
    expect(await third.ended).toMatchObject({ kind: 'broken', cause: { kind: 'reset' } });
    expect(third.written).toBe(true);
    expect(server.received().match(/POST /g)).toHaveLength(3);
  });
});

describe('what may not be written', () => {
  test('not a byte of it reaches the server', async () => {
    const server = await serveRaw((socket) => {
      onRequest(socket, () => socket.write(whole(JSON_ANSWER)));
    });
    const { post, transport } = await client({ url: server.origin });
    // On a new connection, and on kept ones.
    for (let round = 0; round < 3; round += 1) {
      const withheld = post({ text: '{"withheld":true}', mayWrite: () => false });
      expect(await withheld.ended).toEqual({ kind: 'withheld' });
      expect(withheld.written).toBe(false);
      await post().ended;
    }
    await transport.close();
    await server.quiet();
    expect(server.received()).not.toContain('withheld');
    expect(server.received().match(/POST /g)).toHaveLength(3);
  });

  test('the check is made in the tick of the write', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post } = await client({ url: server.origin });
    const sent = post({
      mayWrite: () => {
        expect(sent?.written ?? false).toBe(false);
        queueMicrotask(() => order.push(`microtask, written ${sent.written}`));
        return true;
      },
    });
    const order: string[] = [];
    await sent.ended;
    expect(order).toEqual(['microtask, written true']);
  });

  test('a check that throws ends the exchange', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post } = await client({ url: server.origin });
    const sent = post({
      mayWrite: () => {
        throw new Error('broken check');
      },
    });
    expect(await sent.ended).toMatchObject({ kind: expect.any(String) });
    expect(sent.written).toBe(false);
    expect(server.requests).toEqual([]);
  });

  test('a header that cannot be written ends the exchange', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const { post } = await client({ url: server.origin });
    const sent = post({ headers: { 'mcp-name': 'a\r\nx-evil: topsecret' } });
    const end = await sent.ended;
    expect(end).toMatchObject({ kind: 'broken', cause: { kind: 'host' } });
    expect(JSON.stringify(end)).not.toContain('topsecret');
    expect(sent.written).toBe(false);
    expect(server.connections()).toBe(0);
  });
});

describe('errors as sentences', () => {
  test.each<[unknown, string]>([
    [new AggregateError([]), 'AggregateError'],
    [
      new AggregateError([Object.assign(new Error(''), { code: 'ECONNREFUSED' })]),
      'connection refused (ECONNREFUSED)',
    ],
    [
      new AggregateError([
        Object.assign(new Error('x'), { code: 'ECONNREFUSED', address: '::1', port: 7 }),
        Object.assign(new Error('x'), { code: 'ETIMEDOUT', address: '127.0.0.1', port: 7 }),
      ]),
      '[::1]:7: connection refused (ECONNREFUSED); 127.0.0.1:7: the connection timed out (ETIMEDOUT)',
    ],
    [
      Object.assign(new Error('x'), { code: 'ENOTFOUND', hostname: 'a.invalid' }),
      'a.invalid: the host name is unknown (ENOTFOUND)',
    ],
    [new Error('something else'), 'something else'],
    [Object.assign(new Error('something else'), { code: 'X1' }), 'something else (X1)'],
    [new Error('', { cause: new Error('inner') }), 'inner'],
    [Object.assign(new Error(''), { code: 'X1' }), 'X1'],
    ['no error at all', 'unknown error'],
    [null, 'unknown error'],
  ])('%s', (error, sentence) => {
    expect(describeError(error)).toBe(sentence);
  });

  test('causes of a broken exchange', () => {
    const error = (code: string) => Object.assign(new Error('x'), { code });
    expect(closeCauseOf(error('UND_ERR_SOCKET'), true).kind).toBe('stream-ended');
    expect(closeCauseOf(error('UND_ERR_SOCKET'), false).kind).toBe('reset');
    expect(closeCauseOf(error('ECONNRESET'), true).kind).toBe('reset');
    expect(closeCauseOf(undefined, true).kind).toBe('reset');
  });

  test('Retry-After against a wall clock', () => {
    const now = Date.parse('2026-07-28T00:00:00Z');
    expect(readRetryAfter('Tue, 28 Jul 2026 00:00:10 GMT', now)).toBe(10_000);
    expect(readRetryAfter('Tuesday, 28-Jul-26 00:00:10 GMT', now)).toBe(10_000);
    expect(readRetryAfter('Tue Jul 28 00:00:10 2026 GMT', now)).toBe(10_000);
    expect(readRetryAfter(' 7 ', now)).toBe(7000);
    expect(readRetryAfter('', now)).toBeUndefined();
  });
});
