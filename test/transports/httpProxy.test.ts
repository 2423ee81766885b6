/** Connections through a proxy that is configured. */
import { once } from 'node:events';
import net, { type AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Clock } from '../../src/transports/clock.js';
import { readHttpTarget } from '../../src/transports/httpTarget.js';
import { streamableHttpTransport } from '../../src/transports/streamableHttp.js';
import { answerJson, client, JSON_ANSWER, serve } from './httpHarness.js';
import { serveProxy } from './httpProxyHarness.js';

const withCredentials = (origin: string) => origin.replace('//', '//proxyuser:proxy%20secret@');
const TOKEN = Buffer.from('proxyuser:proxy secret').toString('base64');

async function unusedPort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A clock that stands still until it is told that time is up. */
function stoppedClock(): { clock: Clock; ring(ms: number): void } {
  const timers = new Map<object, { fn: () => void; ms: number }>();
  return {
    clock: {
      now: () => 0,
      setTimeout: (fn, ms) => {
        const handle = {};
        timers.set(handle, { fn, ms });
        return handle;
      },
      clearTimeout: (handle) => timers.delete(handle as object),
    },
    ring: (ms) => {
      for (const timer of [...timers.values()]) if (timer.ms === ms) timer.fn();
    },
  };
}

describe('a tunnel', () => {
  test('carries every message, and the credentials of the one side never reach the other', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const proxy = await serveProxy();
    const peer = await client({
      url: `${server.origin}/mcp?key=1`,
      headers: { authorization: 'Bearer endpointsecret' },
      proxy: withCredentials(proxy.origin),
    });
    for (let count = 0; count < 3; count += 1) {
      const sent = peer.post();
      expect(await sent.ended).toMatchObject({ kind: 'complete' });
      expect(sent.messages).toEqual([JSON_ANSWER]);
    }
    // An answer is told before its connection is free again, so the second message may take a second one.
    expect(proxy.tunnels.length).toBeLessThanOrEqual(2);
    expect(server.connections()).toBe(proxy.tunnels.length);
    for (const { authority, headers } of proxy.tunnels) {
      expect(authority).toBe(`127.0.0.1:${server.port}`);
      expect(headers).toMatchObject({ host: authority, 'proxy-authorization': `Basic ${TOKEN}` });
      expect(headers['authorization']).toBeUndefined();
    }
    expect(proxy.others).toEqual([]);
    expect(server.requests.map(({ url }) => url)).toEqual(Array(3).fill('/mcp?key=1'));
    expect(server.requests[0]?.headers).toMatchObject({
      host: `127.0.0.1:${server.port}`,
      authorization: 'Bearer endpointsecret',
    });
    expect(JSON.stringify(server.requests)).not.toContain('proxy');
  });

  test('is each call its own while its answer lasts', async () => {
    const waiting: (() => void)[] = [];
    const server = await serve((_request, response) => {
      waiting.push(() => answerJson(response));
      if (waiting.length === 20) for (const answer of waiting) answer();
    });
    const proxy = await serveProxy();
    const { post } = await client({ url: server.origin, proxy: proxy.origin });
    const ends = await Promise.all(Array.from({ length: 20 }, () => post().ended));
    expect(ends.map(({ kind }) => kind)).toEqual(Array(20).fill('complete'));
    expect(server.connections()).toBe(20);
    expect(proxy.tunnels).toHaveLength(20);
  });

  test('is closed by the abort of its call', async () => {
    let arrived: () => void = () => {};
    const request = new Promise<void>((resolve) => {
      arrived = resolve;
    });
    const server = await serve(() => arrived());
    const proxy = await serveProxy();
    const { post, transport } = await client({ url: server.origin, proxy: proxy.origin });
    const sent = post();
    await request;
    transport.abort(sent);
    await Promise.all([server.quiet(), proxy.quiet()]);
    expect(sent.ends).toEqual([]);
    expect(proxy.connections()).toBe(1);
  });

  test('that has died in the meantime is not used again', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const proxy = await serveProxy();
    const { post } = await client({ url: server.origin, proxy: proxy.origin });
    await post().ended;
    proxy.destroySockets();
    await Promise.all([server.quiet(), proxy.quiet()]);
    const sent = post();
    const end = await sent.ended;
    // Whether the close is seen before the message is handed over is a race; what is told must be true.
    if (end.kind === 'broken') expect(sent.written).toBe(true);
    else expect(end).toMatchObject({ kind: 'complete' });
  });

  test('is gone after close, whatever it was doing', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const proxy = await serveProxy();
    const idle = await client({ url: server.origin, proxy: proxy.origin });
    await idle.post().ended;
    await idle.transport.close();
    await Promise.all([server.quiet(), proxy.quiet()]);

    let asked: () => void = () => {};
    const connect = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const silent = await serveProxy({ answer: () => asked() });
    const waiting = await client({ url: server.origin, proxy: silent.origin });
    const sent = waiting.post();
    await connect;
    await waiting.transport.close();
    await silent.quiet();
    expect(sent).toMatchObject({ written: false, ends: [] });
  });

  test.each([
    ['http://example.invalid/x', 'example.invalid:80'],
    ['https://example.invalid/x', 'example.invalid:443'],
    ['http://[::1]/x', '[::1]:80'],
    ['https://[::1]:8443/x', '[::1]:8443'],
  ])('for %s is asked for as %s, without a look-up of the name on this side', async (url, authority) => {
    const proxy = await serveProxy({ answer: (socket) => socket.end('HTTP/1.1 502 Bad Gateway\r\n\r\n') });
    const end = await (await client({ url, proxy: proxy.origin })).post().ended;
    expect(end).toMatchObject({ kind: 'unreachable', cause: { kind: 'connect-failed' } });
    expect(proxy.tunnels).toMatchObject([{ authority, headers: { host: authority } }]);
  });
});

describe('a proxy that makes no tunnel', () => {
  const ends = (text: string) => (socket: Duplex) => void socket.end(text);

  test.each<[string, (socket: Duplex) => void, RegExp]>([
    [
      'wants other credentials',
      ends('HTTP/1.1 407 No\r\nproxy-authenticate: Basic realm="proxyuser"\r\ncontent-length: 0\r\n\r\n'),
      /credentials \(HTTP 407\)/,
    ],
    ['forbids', ends('HTTP/1.1 403 No\r\n\r\nproxy secret'), /refused the connection \(HTTP 403\)/],
    ['cannot reach it', ends('HTTP/1.1 502 No\r\ncontent-length: 9\r\n\r\n<html>'), /HTTP 502/],
    ['redirects', ends('HTTP/1.1 302 No\r\nlocation: http://127.0.0.1:1/\r\n\r\n'), /HTTP 302/],
    ['says nothing', (socket) => void socket.end(), /closed/],
    ['breaks', (socket) => void (socket as net.Socket).resetAndDestroy(), /reset|closed/],
    ['stops within its head', ends('HTTP/1.1 200 OK\r\nx: '), /closed|Invalid|Parse/],
    ['speaks something else', ends('SSH-2.0-OpenSSH_9.6\r\n'), /HTTP/],
  ])('%s', async (_name, answer, detail) => {
    const server = await serve((_request, response) => answerJson(response));
    const proxy = await serveProxy({ answer });
    let asked = 0;
    const peer = await client({ url: server.origin, proxy: withCredentials(proxy.origin) });
    const sent = peer.post({
      mayWrite: () => {
        asked += 1;
        return true;
      },
    });
    const end = await sent.ended;
    expect(end).toMatchObject({
      kind: 'unreachable',
      cause: { kind: 'connect-failed', terminal: false, detail: expect.stringMatching(detail) },
    });
    expect(JSON.stringify(end)).toContain(`the proxy 127.0.0.1:${proxy.port}`);
    expect(JSON.stringify(end)).not.toMatch(/proxyuser|secret|cHJveHl/);
    // Told once, for one attempt: no way round the proxy is looked for either.
    expect(proxy.connections()).toBe(1);
    expect(server.connections()).toBe(0);
    expect({ asked, written: sent.written }).toEqual({ asked: 0, written: false });
    await proxy.quiet();
  });

  test('is not there', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const port = await unusedPort();
    const sent = (
      await client({ url: server.origin, proxy: withCredentials(`http://127.0.0.1:${port}`) })
    ).post();
    const end = await sent.ended;
    expect(end).toMatchObject({
      kind: 'unreachable',
      cause: {
        kind: 'connect-failed',
        detail: `the proxy 127.0.0.1:${port}: 127.0.0.1:${port}: connection refused (ECONNREFUSED)`,
      },
    });
    expect(sent.written).toBe(false);
    expect(server.connections()).toBe(0);
  });

  test('never answers', async () => {
    const server = await serve((_request, response) => answerJson(response));
    let asked: () => void = () => {};
    const connect = new Promise<void>((resolve) => {
      asked = resolve;
    });
    const proxy = await serveProxy({ answer: () => asked() });
    const { clock, ring } = stoppedClock();
    const sent = (
      await client({ url: server.origin, proxy: proxy.origin, clock, connectTimeoutMs: 1234 })
    ).post();
    await connect;
    ring(1234);
    expect(await sent.ended).toMatchObject({
      kind: 'unreachable',
      cause: {
        kind: 'connect-failed',
        detail: `the proxy 127.0.0.1:${proxy.port}: no connection within 1234 ms (CONNECT_TIMEOUT)`,
      },
    });
    expect(sent.written).toBe(false);
    await proxy.quiet();
  });

  test('speaks no TLS, or has a certificate that nobody trusts', async () => {
    const plain = await serveProxy();
    const server = await serve((_request, response) => answerJson(response));
    const first = await client({ url: server.origin, proxy: plain.origin.replace('http:', 'https:') });
    const secure = await serveProxy({ secure: true });
    const second = await client({ url: server.origin, proxy: secure.origin });
    const shown = [await first.post().ended, await second.post().ended].map((end) => JSON.stringify(end));
    expect(shown[0]).toMatch(/connect-failed.*the proxy .* does not speak TLS/);
    expect(shown[1]).toMatch(/connect-failed.*the proxy .*certificate/);
    expect(server.connections()).toBe(0);
  });
});

describe('what is configured', () => {
  test.each([['socks5://u:topsecret@127.0.0.1:1'], ['127.0.0.1:topsecret'], ['http://'], ['']])(
    '%j cannot be used, and is told without itself',
    async (proxy) => {
      const transport = streamableHttpTransport({ url: 'http://127.0.0.1:1/', proxy })({
        message: () => {},
        overheard: () => {},
        fault: () => {},
        closed: () => {},
      });
      onTestFinished(() => transport.close());
      const opened = await transport.open();
      expect(opened).toMatchObject({
        ok: false,
        cause: { kind: 'connect-failed', terminal: true, detail: expect.stringContaining('the proxy') },
      });
      expect(JSON.stringify(opened)).not.toContain('topsecret');
    },
  );

  test('its secrets are shown nowhere', () => {
    const reading = readHttpTarget('http://a/', {}, withCredentials('http://127.0.0.1:1'));
    if (!reading.ok) throw new Error(reading.problem);
    const said = reading.target.show(`proxyuser proxy secret proxy%20secret Basic ${TOKEN}`, 200);
    expect(said).not.toMatch(new RegExp(`proxyuser|secret|${TOKEN}`));
    expect(reading.target.headers).toEqual({});
    expect(reading.target.proxy?.url.href).toBe('http://127.0.0.1:1/');
  });

  test('the variables of the environment are not read', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const proxy = await serveProxy();
    const names = ['HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'HTTPS_PROXY', 'https_proxy'];
    const before = names.map((name) => process.env[name]);
    onTestFinished(() => {
      for (const [index, name] of names.entries()) {
        const value = before[index];
        if (value === undefined) delete process.env[name];
        else process.env[name] = value;
      }
    });
    for (const name of names) process.env[name] = proxy.origin;
    expect(await (await client({ url: server.origin })).post().ended).toMatchObject({ kind: 'complete' });
    expect(proxy.connections()).toBe(0);
  });
});
