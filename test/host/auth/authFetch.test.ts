import { gzipSync } from 'node:zlib';
import { expect, onTestFinished, test } from 'vitest';
import { AddressGuard } from '../../../src/host/auth/addressGuard.js';
import { AuthFetch, type AuthFetchOptions } from '../../../src/host/auth/authFetch.js';
import { newNotes } from '../../../src/host/auth/flowNotes.js';
import { createSimulatedClock } from '../../../src/testing/clock.js';
import { systemClock } from '../../../src/transports/clock.js';
import { serve, serveRaw } from '../../transports/httpHarness.js';

function fetching(options: Partial<AuthFetchOptions> = {}) {
  const endpoint = new URL('http://127.0.0.1:1/mcp');
  const authFetch = new AuthFetch({ endpoint, proxy: undefined, clock: systemClock, ...options });
  onTestFinished(() => authFetch.close());
  const notes = newNotes();
  return { authFetch, notes, fetch: authFetch.for(notes) };
}

const form = (values: Record<string, string>) => ({ method: 'POST', body: new URLSearchParams(values) });

test('gives a response of the platform, and sends only what it was given', async () => {
  const server = await serve((_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.setHeader('set-cookie', 'a=b');
    response.end('{"ok":true}');
  });
  const { fetch } = fetching();
  const response = await fetch(`${server.origin.replace('//', '//user:secret@')}/x`, {
    headers: { 'mcp-protocol-version': '2026-07-28' },
  });
  expect(response).toBeInstanceOf(Response);
  expect(await response.json()).toEqual({ ok: true });
  expect(response.headers.get('set-cookie')).toBeNull();
  expect(server.requests[0]?.headers).toMatchObject({ 'mcp-protocol-version': '2026-07-28' });
  expect(server.requests[0]?.headers.authorization).toBeUndefined();
});

test('reads what is compressed all the same', async () => {
  const server = await serve((_request, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync('{"ok":true}'));
  });
  expect(await (await fetching().fetch(server.origin)).json()).toEqual({ ok: true });
});

test('a POST is not redirected anywhere, and the other server hears nothing', async () => {
  const canary = await serve((_request, response) => response.end());
  const server = await serve(({ url }, response) => {
    response.writeHead(307, { location: url === '/near' ? '/other' : `${canary.origin}/token` }).end();
  });
  const { fetch } = fetching();
  for (const path of ['/near', '/far']) {
    const asked = fetch(server.origin + path, form({ grant_type: 'x', client_secret: 'a secret' }));
    await expect(asked).rejects.toThrow(/redirect/);
  }
  expect(canary.connections()).toBe(0);
  expect(server.requests).toHaveLength(2);
});

test('a GET is redirected within its origin, three times', async () => {
  const canary = await serve((_request, response) => response.end('{}'));
  const server = await serve(({ url }, response) => {
    const left = Number(url.slice(1));
    if (left === 0) response.end('{"ok":true}');
    else if (left > 90) response.writeHead(302, { location: canary.origin }).end();
    else response.writeHead(302, { location: `/${left - 1}` }).end();
  });
  const { fetch } = fetching();
  expect(await (await fetch(`${server.origin}/3`)).json()).toEqual({ ok: true });
  await expect(fetch(`${server.origin}/4`)).rejects.toThrow(/redirect/);
  await expect(fetch(`${server.origin}/99`)).rejects.toThrow(TypeError);
  expect(canary.connections()).toBe(0);
});

test('more than 1 MiB is refused, also where it was smaller on the wire', async () => {
  const server = await serve(({ url }, response) => {
    const huge = Buffer.alloc(1024 * 1024 + 1, ' ');
    if (url === '/plain') response.end(huge);
    else response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(huge));
  });
  await expect(fetching().fetch(`${server.origin}/plain`)).rejects.toThrow(/1 MiB/);
  await expect(fetching().fetch(`${server.origin}/packed`)).rejects.toThrow(/cannot be asked/);
});

test('silence ends at the deadline, and with close', async () => {
  let heard: () => void = () => undefined;
  const server = await serve(() => heard());
  const arrival = () =>
    new Promise<void>((resolve) => {
      heard = resolve;
    });
  const clock = createSimulatedClock();
  const one = fetching({ clock });
  let arrived = arrival();
  const late = expect(one.fetch(server.origin)).rejects.toThrow(/does not answer within 10 s/);
  await arrived;
  clock.advance(10_000);
  await late;
  expect(clock.pendingTimers).toBe(0);
  arrived = arrival();
  const ended = expect(one.fetch(server.origin)).rejects.toThrow(/removed or stopped/);
  await arrived;
  one.authFetch.close();
  await ended;
  await server.quiet();
  await expect(one.fetch(server.origin)).rejects.toThrow(/removed or stopped/);
});

test('of what an error says nothing is passed on, whatever it repeats', async () => {
  const server = await serve(({ body, headers }, response) => {
    response.writeHead(400).end(`${body} ${decodeURIComponent(body)} ${headers.authorization}`);
  });
  const { fetch, notes } = fetching();
  const values = {
    code: 'the code/1',
    code_verifier: 'verifier-1',
    refresh_token: 'refresh-1',
    grant_type: 'g',
  };
  const authorization = `Basic ${Buffer.from('me:my%20secret').toString('base64')}`;
  const response = await fetch(server.origin, { ...form(values), headers: { authorization } });
  expect(await response.text()).toBe('');
  for (const secret of ['the code/1', 'verifier-1', 'refresh-1', authorization.slice(6), 'my secret']) {
    expect(notes.secrets).toContain(secret);
  }
  expect(notes).toMatchObject({ grant: 'g', scope: null, refusal: { status: 400, code: null } });
});

test('but the code, also of an error that comes with 200', async () => {
  const server = await serve(({ url, body }, response) => {
    const token = new URLSearchParams(body).get('refresh_token');
    const bad = { error: 'invalid_grant', error_description: `not ${token}`, token };
    response.end(JSON.stringify(url === '/bad' ? bad : { token }));
  });
  const { fetch, notes } = fetching();
  const values = { grant_type: 'refresh_token', refresh_token: 'refresh-1' };
  expect(await (await fetch(`${server.origin}/good`, form(values))).json()).toEqual({ token: 'refresh-1' });
  expect(notes.refusal).toBeNull();
  const bad = await fetch(`${server.origin}/bad`, form(values));
  expect(await bad.json()).toEqual({ error: 'invalid_grant' });
  expect(notes.refusal).toEqual({ status: 200, code: 'invalid_grant', description: 'not refresh-1' });
});

test('what is not admitted is not contacted, by address or by name', async () => {
  const canary = await serve((_request, response) => response.end('{}'));
  const endpoint = new URL('https://93.184.216.34/mcp');
  const { fetch } = fetching({ endpoint });
  await expect(fetch(canary.origin)).rejects.toThrow(TypeError);
  await expect(fetch(canary.origin.replace('http:', 'https:'))).rejects.toThrow(/loopback/);
  const guard = new AddressGuard(endpoint, (_name, _options, callback) =>
    callback(null, [{ address: '127.0.0.1', family: 4 }]),
  );
  const byName = fetching({ endpoint, guard });
  await expect(byName.fetch(`https://as.example.com:${canary.port}/`)).rejects.toThrow(/is loopback/);
  expect(canary.connections()).toBe(0);
});

test('goes through the proxy that is configured, in a tunnel', async () => {
  const proxy = await serveRaw((socket) => {
    socket.once('data', () => socket.end('HTTP/1.1 403 Forbidden\r\n\r\n'));
  });
  const endpoint = new URL('https://mcp.example.com/mcp');
  const { fetch } = fetching({ endpoint, proxy: proxy.origin });
  await expect(fetch('https://as.example.com/token')).rejects.toThrow(/cannot be asked/);
  expect(proxy.received()).toMatch(/^CONNECT as\.example\.com:443 HTTP/);
  await expect(fetch('https://10.0.0.1/token')).rejects.toThrow(/private/);
});

test('who cannot be reached is named by origin and code alone', async () => {
  const server = await serve((_request, response) => response.end());
  await server.close();
  const failed = fetching().fetch(`${server.origin}/token?key=secret`);
  await expect(failed).rejects.toThrow(`${server.origin} cannot be asked: ECONNREFUSED`);
});
