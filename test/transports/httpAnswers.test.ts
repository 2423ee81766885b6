/** What an answer is read as: status, content type and body against each other, over real sockets. */
import { brotliCompressSync, constants, createGzip, deflateRawSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { client, JSON_ANSWER, JSON_ERROR, serve } from './httpHarness.js';

const JSON_TYPE = 'application/json';
const SSE_TYPE = 'text/event-stream';
const SSE_ANSWER = `event: message\ndata: ${JSON_ANSWER}\n\n`;
const SSE_ERROR = `data: ${JSON_ERROR}\n\n`;
const PAGE = '<!doctype html><title>Log in</title>';

type Headers = Record<string, string | string[]>;

async function answered(
  status: number,
  type: string | null,
  body: string | Buffer,
  {
    headers = {},
    id = 1,
    maxMessageBytes,
  }: { headers?: Headers; id?: number | null; maxMessageBytes?: number } = {},
) {
  const server = await serve((_request, response) => {
    response.writeHead(status, { ...(type === null ? {} : { 'content-type': type }), ...headers }).end(body);
  });
  const peer = await client({
    url: server.origin,
    ...(maxMessageBytes === undefined ? {} : { maxMessageBytes }),
  });
  const sent = peer.post({ id });
  const end = await sent.ended;
  expect(sent.ends).toHaveLength(1);
  return { end, messages: sent.messages, overheard: peer.overheard };
}

describe('status, content type and body', () => {
  const complete = (status: number) => ({ kind: 'complete', status });
  const malformed = { kind: 'malformed', status: 200 };
  const html = { kind: 'unreachable', cause: { kind: 'html', status: 200 } };
  const status = (code: number) => ({ kind: 'status', status: code, hadSession: false });
  const noSignal = (code: number) => ({
    kind: 'unreachable',
    cause: { kind: 'http-status', status: code, terminal: false },
  });
  const redirected = { kind: 'unreachable', cause: { kind: 'redirected', terminal: false } };
  const unauthorized = (code: number) => ({ kind: 'unauthorized', status: code });

  test.each<[number, string | null, string, object, string[], string[]]>([
    // status, type, body, end, messages, overheard
    [200, JSON_TYPE, JSON_ANSWER, complete(200), [JSON_ANSWER], []],
    [201, 'Application/JSON; Charset=UTF-8', JSON_ANSWER, complete(201), [JSON_ANSWER], []],
    [200, JSON_TYPE, `\ufeff${JSON_ANSWER}`, complete(200), [JSON_ANSWER], []],
    [200, JSON_TYPE, ` \r\n${JSON_ANSWER}\n`, complete(200), [` \r\n${JSON_ANSWER}\n`], []],
    [200, JSON_TYPE, '', complete(200), [], []],
    [200, JSON_TYPE, '\n', complete(200), [], []],
    [200, JSON_TYPE, 'garbage', complete(200), ['garbage'], []],
    [200, SSE_TYPE, SSE_ANSWER, complete(200), [JSON_ANSWER], []],
    [
      200,
      `${SSE_TYPE};charset=utf-8`,
      `${SSE_ANSWER}: bye\n\n${SSE_ERROR}`,
      complete(200),
      [JSON_ANSWER, JSON_ERROR],
      [],
    ],
    [200, SSE_TYPE, '', complete(200), [], []],
    [200, SSE_TYPE, ': only a comment\n\n', complete(200), [], []],
    [200, SSE_TYPE, 'data: {"cut":', complete(200), [], []],
    [202, null, '', complete(202), [], []],
    [204, null, '', complete(204), [], []],
    [202, 'text/html', '', complete(202), [], []],
    [200, null, '', complete(200), [], []],
    [200, 'text/html', PAGE, html, [], []],
    [200, 'text/html; charset=utf-8', JSON_ERROR, html, [], [JSON_ERROR]],
    [200, 'application/xhtml+xml', PAGE, html, [], []],
    [200, 'text/plain', JSON_ERROR, malformed, [], [JSON_ERROR]],
    [200, null, JSON_ERROR, malformed, [], [JSON_ERROR]],
    [200, null, `[${JSON_ERROR}]`, malformed, [], [`[${JSON_ERROR}]`]],
    [200, 'text/plain', 'OK', malformed, [], []],
    [200, 'application/json-rpc', JSON_ANSWER, malformed, [], [JSON_ANSWER]],
    [202, 'text/plain', 'Accepted', { kind: 'malformed', status: 202 }, [], []],
    [400, JSON_TYPE, JSON_ERROR, status(400), [JSON_ERROR], []],
    [400, SSE_TYPE, SSE_ERROR, status(400), [JSON_ERROR], []],
    [400, 'text/plain', JSON_ERROR, status(400), [], [JSON_ERROR]],
    [400, 'text/plain', 'Bad Request: no session', status(400), [], []],
    [400, JSON_TYPE, 'not JSON', status(400), [], []],
    [404, 'text/html', PAGE, status(404), [], []],
    [404, JSON_TYPE, JSON_ERROR, status(404), [JSON_ERROR], []],
    [405, null, '', status(405), [], []],
    [406, JSON_TYPE, JSON_ERROR, status(406), [JSON_ERROR], []],
    [410, JSON_TYPE, `[${JSON_ERROR}]`, status(410), [`[${JSON_ERROR}]`], []],
    [300, JSON_TYPE, JSON_ERROR, redirected, [], [JSON_ERROR]],
    [301, JSON_TYPE, JSON_ERROR, redirected, [], [JSON_ERROR]],
    [304, null, '', redirected, [], []],
    [305, SSE_TYPE, SSE_ERROR, redirected, [], [JSON_ERROR]],
    [306, 'text/plain', 'Switch Proxy', redirected, [], []],
    [399, 'text/html', PAGE, redirected, [], []],
    [401, JSON_TYPE, JSON_ERROR, unauthorized(401), [], [JSON_ERROR]],
    [401, null, '', unauthorized(401), [], []],
    [403, 'text/html', PAGE, unauthorized(403), [], []],
    [403, SSE_TYPE, SSE_ERROR, unauthorized(403), [], [JSON_ERROR]],
    [407, JSON_TYPE, JSON_ERROR, noSignal(407), [], [JSON_ERROR]],
    [407, null, '', noSignal(407), [], []],
    [408, JSON_TYPE, JSON_ERROR, noSignal(408), [], [JSON_ERROR]],
    [421, JSON_TYPE, JSON_ERROR, noSignal(421), [], [JSON_ERROR]],
    [425, null, '', noSignal(425), [], []],
    [429, JSON_TYPE, JSON_ERROR, noSignal(429), [], [JSON_ERROR]],
    [500, JSON_TYPE, JSON_ERROR, noSignal(500), [], [JSON_ERROR]],
    [502, 'text/html', PAGE, noSignal(502), [], []],
    [503, SSE_TYPE, SSE_ERROR, noSignal(503), [], [JSON_ERROR]],
    [599, 'text/plain', 'what', noSignal(599), [], []],
  ])('%i, %s, %j', async (code, type, body, end, messages, overheard) => {
    const answer = await answered(code, type, body);
    expect(answer).toMatchObject({ end: { redirected: false, ...end }, messages, overheard });
  });

  test('a word in answer to a notification is no matter, a page is', async () => {
    expect((await answered(202, 'text/plain', 'Accepted', { id: null })).end).toMatchObject(complete(202));
    expect((await answered(202, 'text/html', '<p>Accepted</p>', { id: null })).end).toMatchObject(
      complete(202),
    );
    expect((await answered(200, 'text/html', PAGE, { id: null })).end).toMatchObject(html);
  });

  test('headers of an interim answer are not the answer', async () => {
    const server = await serve((_request, response) => {
      response.writeEarlyHints({ link: '</x>; rel=preload' });
      response.writeHead(200, { 'content-type': JSON_TYPE }).end(JSON_ANSWER);
    });
    const sent = (await client({ url: server.origin })).post();
    expect(await sent.ended).toMatchObject(complete(200));
    expect(sent.messages).toEqual([JSON_ANSWER]);
  });
});

describe('what is told of an answer', () => {
  test.each([
    ['3', 3000],
    ['0', 0],
    ['1.5', 1500],
    ['999999999999', 86_400_000],
    ['Wed, 21 Oct 2015 07:28:00 GMT', 0],
    ['Wed, 21 Oct 2399 07:28:00 GMT', 86_400_000],
    ['soon', undefined],
    ['-1', undefined],
    ['2015', 2_015_000],
  ])('Retry-After: %s', async (value, retryAfterMs) => {
    const { end } = await answered(429, null, '', { headers: { 'retry-after': value } });
    expect(end.kind === 'unreachable' && end.cause.retryAfterMs).toBe(retryAfterMs);
  });

  test('the challenge, sanitized and bounded', async () => {
    const challenge = async (value?: string | string[]) => {
      const { end } = await answered(
        401,
        null,
        '',
        value === undefined ? {} : { headers: { 'www-authenticate': value } },
      );
      return end.kind === 'unauthorized' ? end.challenge : undefined;
    };
    expect(await challenge()).toBeNull();
    expect(await challenge('Bearer resource_metadata="https://a.example/x"')).toBe(
      'Bearer resource_metadata="https://a.example/x"',
    );
    expect(await challenge(['Basic realm="a"', 'Bearer scope="b"'])).toBe(
      'Basic realm="a", Bearer scope="b"',
    );
    expect(await challenge('x\u0080y')).toBe('x\\u{80}y');
    expect((await challenge('x'.repeat(5000)))?.length).toBe(2048);
  });

  test('a short and harmless reading of a bad body', async () => {
    const { end } = await answered(400, 'text/plain', `\u001b[2J\u202eevil\u200b ${'x'.repeat(1000)}`);
    if (end.kind !== 'status') throw new Error(end.kind);
    expect(end.detail.length).toBeLessThanOrEqual(300);
    expect(end.detail).toMatch(/^HTTP 400 with text\/plain: \\u\{1b\}\[2J\\u\{202e\}evil\\u\{200b\} x+…$/);
  });

  test('secrets of the configuration are blotted out where a server repeats them', async () => {
    const server = await serve((request, response) => {
      response.writeHead(400, { 'content-type': 'text/plain' });
      response.end(`${request.headers.authorization} ${request.headers['x-key']} ${request.url}`);
    });
    const headers = { Authorization: 'Bearer topsecret1', 'X-Key': 'topsecret2' };
    const { post } = await client({ url: `${server.origin}/topsecret3-topsecret3?key=topsecret4`, headers });
    const end = await post().ended;
    expect(end.kind === 'status' && end.detail).toBe(
      'HTTP 400 with text/plain: [redacted] [redacted] /[redacted]?[redacted]',
    );
  });
});

describe('limits', () => {
  const long = (bytes: number) => JSON.stringify({ x: 'x'.repeat(bytes - 8) });
  const limit = { maxMessageBytes: 100_000 };

  test('a message of the limit, and one byte more', async () => {
    const atLimit = await answered(200, JSON_TYPE, long(100_000), limit);
    expect(atLimit).toMatchObject({ end: { kind: 'complete' }, messages: [expect.any(String)] });
    const over = await answered(200, JSON_TYPE, long(100_001), limit);
    expect(over).toMatchObject({
      end: { kind: 'malformed', detail: 'the body is longer than 100000 bytes' },
      messages: [],
    });
  });

  test('an event of the limit, one byte more, and a stream that is longer', async () => {
    const events = (...sizes: number[]) => sizes.map((size) => `data: ${long(size)}\n\n`).join('');
    const many = await answered(200, SSE_TYPE, events(100_000, 100_000, 100_000), limit);
    expect(many).toMatchObject({
      end: { kind: 'complete' },
      messages: [1, 2, 3].map(() => expect.any(String)),
    });
    const over = await answered(200, SSE_TYPE, events(10, 100_001, 10), limit);
    expect(over).toMatchObject({
      end: { kind: 'malformed', detail: 'an event is longer than 100000 bytes' },
    });
    expect(over.messages).toHaveLength(1);
  });

  test('an endless body is cut at the limit', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': JSON_TYPE });
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(50_000)));
      };
      response.on('drain', more);
      more();
    });
    const { post } = await client({ url: server.origin, ...limit });
    expect(await post().ended).toMatchObject({ kind: 'malformed' });
    await server.quiet();
  });

  test('the body of an error over 64 KiB is not read', async () => {
    const error = await answered(400, JSON_TYPE, long(64 * 1024 + 1));
    expect(error).toMatchObject({ end: { kind: 'status', status: 400 }, messages: [], overheard: [] });
    const stream = await answered(401, SSE_TYPE, `data: ${long(64 * 1024 + 1)}\n\n`);
    expect(stream).toMatchObject({ end: { kind: 'unauthorized', status: 401 }, overheard: [] });
    const page = await answered(200, 'text/html', PAGE.padEnd(70_000));
    expect(page.end).toMatchObject({ kind: 'unreachable', cause: { kind: 'html' } });
  });

  test.each([
    [200, JSON_TYPE, { kind: 'malformed', detail: 'the body is not valid UTF-8' }],
    [200, SSE_TYPE, { kind: 'malformed', detail: 'an event is not valid UTF-8' }],
    [400, JSON_TYPE, { kind: 'status' }],
    [503, SSE_TYPE, { kind: 'unreachable' }],
  ])('bytes that are no UTF-8: %i %s', async (status, type, end) => {
    const bytes = Buffer.concat([Buffer.from('data: "'), Buffer.from([0xc3, 0x28]), Buffer.from('"\n\n')]);
    expect(await answered(status, type, bytes)).toMatchObject({ end, messages: [], overheard: [] });
  });
});

describe('event streams', () => {
  test.each([['\n'], ['\r'], ['\r\n']])('cut at every byte, lines ending in %j', async (end) => {
    const text = '{"text":"grüße 👍🏽"}';
    const bytes = Buffer.from(['\ufeff: hi', 'event: message', `data: ${text}`, '', ''].join(end));
    const server = await serve((request, response) => {
      const cut = Number(request.body);
      response.writeHead(200, { 'content-type': SSE_TYPE });
      response.write(bytes.subarray(0, cut), () => response.end(bytes.subarray(cut)));
    });
    const { post } = await client({ url: server.origin });
    for (let cut = 1; cut < bytes.length; cut += 1) {
      const sent = post({ text: String(cut) });
      await sent.ended;
      expect(sent.messages).toEqual([text]);
    }
  });

  test('events are delivered when they come, not at the end', async () => {
    let finish = () => {};
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': SSE_TYPE });
      response.write('data: 1\r\n\r\n');
      finish = () => response.end('data: 2\n\n');
    });
    const sent = (await client({ url: server.origin })).post();
    expect(await sent.received(1)).toEqual(['1']);
    expect(sent.ends).toEqual([]);
    finish();
    await sent.ended;
    expect(sent.messages).toEqual(['1', '2']);
  });
});

describe('content codings that were not asked for', () => {
  const large = JSON.stringify({ text: 'grüße '.repeat(50_000) });

  test.each<[string, (body: string) => Buffer]>([
    ['gzip', gzipSync],
    ['x-gzip', gzipSync],
    ['deflate', deflateSync],
    ['deflate', deflateRawSync],
    ['br', brotliCompressSync],
    ['identity', (body) => Buffer.from(body)],
  ])('%s', async (coding, compress) => {
    const headers = { 'content-encoding': coding };
    for (const body of [JSON_ANSWER, large]) {
      const json = await answered(200, JSON_TYPE, compress(body), { headers });
      expect(json).toMatchObject({ end: { kind: 'complete' }, messages: [body] });
      const events = await answered(200, SSE_TYPE, compress(`data: ${body}\n\ndata: 2\n\n`), { headers });
      expect(events).toMatchObject({ end: { kind: 'complete' }, messages: [body, '2'] });
    }
    const error = await answered(401, JSON_TYPE, compress(JSON_ERROR), { headers });
    expect(error).toMatchObject({ end: { kind: 'unauthorized' }, overheard: [JSON_ERROR] });
    expect(await answered(200, JSON_TYPE, '', { headers })).toMatchObject({
      end: { kind: 'complete' },
      messages: [],
    });
  });

  test('a compressed stream that is flushed is delivered as it comes', async () => {
    let finish = () => {};
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': SSE_TYPE, 'content-encoding': 'gzip' });
      const gzip = createGzip();
      gzip.pipe(response);
      gzip.write('data: 1\n\n');
      gzip.flush(constants.Z_SYNC_FLUSH);
      finish = () => gzip.end('data: 2\n\n');
    });
    const sent = (await client({ url: server.origin })).post();
    expect(await sent.received(1)).toEqual(['1']);
    finish();
    expect(await sent.ended).toMatchObject({ kind: 'complete' });
    expect(sent.messages).toEqual(['1', '2']);
  });

  test('a bomb is stopped at the limit', async () => {
    const bomb = gzipSync(Buffer.alloc(100 * 1024 * 1024, 0x20));
    const headers = { 'content-encoding': 'gzip' };
    const json = await answered(200, JSON_TYPE, bomb, { headers, maxMessageBytes: 1024 * 1024 });
    expect(json.end).toMatchObject({ kind: 'malformed', detail: 'the body is longer than 1048576 bytes' });
    const events = await answered(200, SSE_TYPE, bomb, { headers, maxMessageBytes: 1024 * 1024 });
    expect(events.end).toMatchObject({ kind: 'malformed', detail: 'an event is longer than 1048576 bytes' });
    expect((await answered(500, JSON_TYPE, bomb, { headers })).end).toMatchObject({ kind: 'unreachable' });
  });

  test.each<[string, string, Buffer]>([
    ['one that is no gzip', 'gzip', Buffer.from(JSON_ANSWER)],
    ['one that is cut', 'gzip', gzipSync(large).subarray(0, 100)],
    ['an unknown coding', 'zstd', Buffer.from(JSON_ANSWER)],
    ['two codings', 'gzip, br', Buffer.from(JSON_ANSWER)],
  ])('%s spoils a good answer and no bad one', async (_name, coding, body) => {
    const headers = { 'content-encoding': coding };
    expect(await answered(200, JSON_TYPE, body, { headers })).toMatchObject({
      end: { kind: 'malformed', status: 200 },
      messages: [],
    });
    expect((await answered(404, JSON_TYPE, body, { headers })).end).toMatchObject({
      kind: 'status',
      status: 404,
    });
  });

  test('what a cut stream had brought is delivered before its end is told', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': SSE_TYPE, 'content-encoding': 'gzip' });
      const gzip = createGzip();
      gzip.write('data: 1\n\n');
      gzip.flush(constants.Z_SYNC_FLUSH, () => response.write(gzip.read(), () => response.socket?.end()));
    });
    const sent = (await client({ url: server.origin })).post();
    expect(await sent.ended).toMatchObject({ kind: 'broken' });
    expect(sent.messages).toEqual(['1']);
  });

  test('abort stops the decoder', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': SSE_TYPE, 'content-encoding': 'gzip' });
      response.end(gzipSync(`data: 1\n\n${': ping\n'.repeat(1_000_000)}\ndata: 2\n\n`));
    });
    const { post, transport } = await client({ url: server.origin });
    const sent = post({ onMessage: (one) => transport.abort(one) });
    await sent.received(1);
    await server.quiet();
    expect(sent).toMatchObject({ messages: ['1'], ends: [] });
  });
});

describe('what may forbid `initialize` is overheard where it is no answer', () => {
  const latin1 = (text: string) => Buffer.from(text.replace('"no"', '"non support\u00e9e"'), 'latin1');
  const REPLACED = JSON_ERROR.replace('"no"', '"non support\ufffde"');
  const UNTAGGED = '{"id":1,"error":{"code":-32022,"message":"no"}}';

  test.each<[number, string, string | Buffer, string]>([
    [200, JSON_TYPE, latin1(JSON_ERROR), REPLACED],
    [400, JSON_TYPE, latin1(JSON_ERROR), REPLACED],
    [503, 'text/plain', latin1(JSON_ERROR), REPLACED],
    [200, SSE_TYPE, latin1(SSE_ERROR), REPLACED],
    [400, SSE_TYPE, latin1(SSE_ERROR), REPLACED],
    [200, SSE_TYPE, Buffer.concat([latin1('data: "no"\n\n'), Buffer.from(SSE_ERROR)]), JSON_ERROR],
    [200, SSE_TYPE, `data: ${JSON_ERROR}\n`, JSON_ERROR],
    [400, SSE_TYPE, `data: ${JSON_ERROR}`, JSON_ERROR],
    [200, SSE_TYPE, `event: error\ndata: ${UNTAGGED}\n\n`, UNTAGGED],
    [403, SSE_TYPE, `event: error\ndata: ${UNTAGGED}\n\n`, UNTAGGED],
  ])('%i, %s, %s', async (status, type, body, overheard) => {
    const answer = await answered(status, type, body);
    expect(answer).toMatchObject({ messages: [], overheard: [overheard] });
  });

  test('unless it is over 64 KiB', async () => {
    const big = JSON_ERROR.replace('"no"', `"\u00e9${'x'.repeat(64 * 1024)}"`);
    expect(await answered(200, JSON_TYPE, Buffer.from(big, 'latin1'))).toMatchObject({ overheard: [] });
    expect(await answered(200, SSE_TYPE, `data: ${big}\n`)).toMatchObject({ overheard: [] });
  });

  const breaking = (status: number, type: string, body: string, headers: Headers = {}) =>
    serve((_request, response) => {
      response.writeHead(status, { 'content-type': type, ...headers });
      response.write(body, () => response.socket?.end());
    });

  test.each<[number, string, string, object]>([
    [200, JSON_TYPE, JSON_ERROR, { kind: 'broken' }],
    [400, JSON_TYPE, JSON_ERROR, { kind: 'status' }],
    [401, 'text/plain', JSON_ERROR, { kind: 'unauthorized' }],
    [200, SSE_TYPE, `data: ${JSON_ERROR}\n`, { kind: 'broken' }],
    [503, SSE_TYPE, `data: ${JSON_ERROR}`, { kind: 'unreachable' }],
  ])('%i, %s, cut behind %j', async (status, type, body, end) => {
    const server = await breaking(status, type, body);
    for (const method of ['test/method', 'server/discover']) {
      const peer = await client({ url: server.origin });
      const sent = peer.post({ method });
      expect(await sent.ended).toMatchObject(end);
      expect(sent.messages).toEqual([]);
      expect(peer.overheard).toEqual([JSON_ERROR]);
    }
  });

  test('what is cut within it is not', async () => {
    for (const [type, body] of [
      [JSON_TYPE, JSON_ERROR.slice(0, -1)],
      [SSE_TYPE, `data: ${JSON_ERROR.slice(0, -1)}`],
    ] as const) {
      const server = await breaking(200, type, body);
      const peer = await client({ url: server.origin });
      await peer.post().ended;
      expect(peer.overheard).toEqual([]);
    }
  });

  test.each([
    ['server/discover', 400, {}],
    ['server/discover', 200, { 'content-length': '1000' }],
    ['initialize', 500, {}],
  ])('the body of an answer to %s (%i, %j) that never ends', async (method, status, headers) => {
    const server = await serve((_request, response) => {
      response.writeHead(status, { 'content-type': JSON_TYPE, ...headers });
      response.write(JSON_ERROR.slice(0, 20), () => response.write(JSON_ERROR.slice(20)));
    });
    const peer = await client({ url: server.origin });
    const sent = peer.post({ method });
    expect(await peer.nextOverheard()).toBe(JSON_ERROR);
    expect(sent).toMatchObject({ messages: [], ends: [] });
    peer.transport.abort(sent);
    await server.quiet();
    expect(peer.overheard).toEqual([JSON_ERROR]);
  });

  test.each(['abort', 'close'] as const)('an event without its end, at %s', async (how) => {
    const server = await serve((_request, response) => {
      response.writeHead(200, { 'content-type': SSE_TYPE });
      response.write(`data: 1\n\ndata: ${JSON_ERROR}\n`);
    });
    const peer = await client({ url: server.origin });
    const sent = peer.post({ method: 'server/discover' });
    await sent.received(1);
    expect(peer.overheard).toEqual([]);
    if (how === 'abort') peer.transport.abort(sent);
    else await peer.transport.close();
    expect(peer.overheard).toEqual([JSON_ERROR]);
    expect(sent.ends).toEqual([]);
  });

  test('a body that is a good answer is delivered once it ends, and refused ones are overheard once', async () => {
    for (const [status, messages] of [
      [200, [JSON_ERROR]],
      [400, [JSON_ERROR]],
      [503, []],
    ] as const) {
      const server = await serve((_request, response) => {
        response.writeHead(status, { 'content-type': JSON_TYPE }).end(JSON_ERROR);
      });
      const peer = await client({ url: server.origin });
      const sent = peer.post({ method: 'server/discover' });
      await sent.ended;
      expect(sent.messages).toEqual(messages);
      expect(peer.overheard).toEqual([JSON_ERROR]);
    }
  });
});
