import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readRedirect } from '../../src/transports/httpRedirect.js';
import { answerJson, client, JSON_ANSWER, JSON_ERROR, serve } from './httpHarness.js';

const from = new URL('http://a.example/mcp?key=topsecret');

describe('which redirects are followed', () => {
  test.each([
    [307, '/mcp/', 'http://a.example/mcp/'],
    [308, '/mcp/', 'http://a.example/mcp/'],
    [307, 'other?x=1', 'http://a.example/other?x=1'],
    [308, 'http://a.example:80/x#part', 'http://a.example/x'],
    [307, 'http://user:pw@a.example/x', 'http://a.example/x'],
  ])('%i to %s', (status, location, target) => {
    const redirect = readRedirect(status, location, from, 0, true);
    expect(redirect?.kind === 'follow' && redirect.url.href).toBe(target);
  });

  test.each<[number, string | undefined, number, boolean, string]>([
    [301, '/mcp/', 0, true, 'http://a.example/mcp/ and would drop the message'],
    [302, '/mcp/', 0, true, 'http://a.example/mcp/ and would drop the message'],
    [303, '/mcp/', 0, true, 'http://a.example/mcp/ and would drop the message'],
    [307, 'http://b.example/login?secret=1', 0, true, 'http://b.example/login, another origin'],
    [308, '//b.example/x', 0, true, 'http://b.example/x, another origin'],
    [307, 'https://a.example/mcp', 0, true, 'https://a.example/mcp, another origin'],
    [307, 'http://a.example:8080/mcp', 0, true, 'http://a.example:8080/mcp, another origin'],
    [300, '/mcp/', 0, true, 'http://a.example/mcp/ and would drop the message'],
    [305, 'http://b.example/', 0, true, 'http://b.example/, another origin'],
    [300, undefined, 0, true, 'HTTP 300 where a message was due'],
    [304, undefined, 0, true, 'HTTP 304 where a message was due'],
    [306, undefined, 0, true, 'HTTP 306 where a message was due'],
    [307, 'http://user:pw@b.example/x', 0, true, 'http://b.example/x, another origin'],
    [307, '/mcp/', 0, false, 'this request follows no redirect'],
    [307, '/mcp/', 3, true, 'after 3 redirects'],
    [307, undefined, 0, true, 'without a usable Location'],
    [307, 'http://', 0, true, 'without a usable Location'],
    [307, 'javascript:alert(1)', 0, true, 'without a usable Location'],
    [307, 'file:///etc/passwd', 0, true, 'without a usable Location'],
  ])('%i to %s after %i (%s) is refused', (status, location, followed, mayFollow, detail) => {
    const redirect = readRedirect(status, location, from, followed, mayFollow);
    expect(redirect).toEqual({ kind: 'refuse', detail: expect.stringContaining(detail) });
    expect(JSON.stringify(redirect)).not.toMatch(/secret|user|pw/);
  });

  test.each([200, 204, 400, 404, 500])('%i is no redirect', (status) => {
    expect(readRedirect(status, '/x', from, 0, true)).toBeNull();
  });

  test('total, and never to another origin', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(301, 302, 303, 307, 308),
        fc.oneof(fc.webUrl(), fc.string()),
        (status, location) => {
          const redirect = readRedirect(status, location, from, 0, true);
          return (
            redirect?.kind === 'refuse' ||
            (redirect?.kind === 'follow' && redirect.url.origin === from.origin)
          );
        },
      ),
    );
  });
});

describe('over the wire', () => {
  async function redirecting(status: number, location: (canary: string) => string, method = 'tools/call') {
    const canary = await serve((_request, response) => answerJson(response));
    const server = await serve((request, response) => {
      if (request.url === '/start') {
        response.writeHead(status, { location: location(canary.origin), 'content-type': 'application/json' });
        response.end(JSON_ERROR);
      } else answerJson(response);
    });
    const peer = await client({
      url: `${server.origin}/start`,
      headers: { authorization: 'Bearer topsecret' },
    });
    const sent = peer.post({ method, headers: { 'mcp-method': method } });
    const end = await sent.ended;
    return { server, canary, sent, end, overheard: peer.overheard };
  }

  test.each([307, 308])('%i within the origin keeps method, body and headers', async (status) => {
    const { server, canary, sent, end, overheard } = await redirecting(status, () => '/target?x=1');
    expect(end).toEqual({ kind: 'complete', status: 200, redirected: true });
    expect(sent).toMatchObject({ messages: [JSON_ANSWER], redirected: true, written: true });
    expect(overheard).toEqual([]);
    const [first, second] = server.requests;
    expect(second).toMatchObject({ method: 'POST', url: '/target?x=1', body: first?.body });
    expect(second?.headers).toEqual(first?.headers);
    expect(canary.connections()).toBe(0);
  });

  test.each<[number, string, (canary: string) => string]>([
    [301, 'tools/call', () => '/target'],
    [302, 'tools/call', () => '/target'],
    [303, 'tools/call', () => '/target'],
    [307, 'initialize', () => '/target'],
    [308, 'initialize', () => '/target'],
    [301, 'tools/call', (canary) => canary],
    [302, 'initialize', (canary) => canary],
    [303, 'tools/call', (canary) => `${canary}/x`],
    [307, 'server/discover', (canary) => `${canary}/x?y=1`],
    [308, 'tools/call', (canary) => canary.replace('http://', '//')],
    [307, 'tools/call', (canary) => canary.replace('127.0.0.1', 'localhost')],
  ])('%i in answer to %s is no signal, and nobody is contacted', async (status, method, location) => {
    const { server, canary, sent, end, overheard } = await redirecting(status, location, method);
    expect(end).toMatchObject({
      kind: 'unreachable',
      redirected: false,
      cause: { kind: 'redirected', terminal: false },
    });
    expect(JSON.stringify(end)).toContain('configure');
    expect(sent).toMatchObject({ messages: [], written: true, redirected: false });
    expect(overheard).toEqual([JSON_ERROR]);
    expect(server.requests).toHaveLength(1);
    expect(canary.connections()).toBe(0);
  });

  test('three are followed, the fourth is not, and a loop ends', async () => {
    const server = await serve((request, response) => {
      const left = Number(request.url.slice(1));
      if (left === 0) answerJson(response);
      else response.writeHead(307, { location: left > 9 ? request.url : `/${left - 1}` }).end();
    });
    const run = async (path: string) => (await client({ url: server.origin + path })).post().ended;
    expect(await run('/3')).toMatchObject({ kind: 'complete', redirected: true });
    expect(server.requests).toHaveLength(4);
    const refused = { kind: 'unreachable', redirected: true, cause: { kind: 'redirected' } };
    expect(await run('/4')).toMatchObject(refused);
    expect(server.requests).toHaveLength(8);
    expect(await run('/99')).toMatchObject(refused);
    expect(server.requests).toHaveLength(12);
  });

  test('whether it may be written is asked once', async () => {
    const server = await serve((request, response) => {
      if (request.url === '/') response.writeHead(308, { location: '/x' }).end();
      else answerJson(response);
    });
    let asked = 0;
    const { post } = await client({ url: server.origin });
    await post({ mayWrite: () => ++asked === 1 }).ended;
    expect(asked).toBe(1);
    expect(server.requests).toHaveLength(2);
  });

  test('an error behind a redirect says that there was one', async () => {
    const server = await serve((request, response) => {
      if (request.url === '/') response.writeHead(307, { location: '/x' }).end();
      else response.writeHead(Number(request.body)).end();
    });
    const { post } = await client({ url: server.origin });
    for (const status of [200, 400, 401, 500]) {
      expect(await post({ text: String(status) }).ended).toMatchObject({ redirected: true });
    }
  });

  test('the body of a redirect may be endless or cut', async () => {
    const server = await serve((request, response) => {
      if (request.url === '/x') return answerJson(response);
      response.writeHead(307, { location: '/x' });
      if (request.body === 'cut') return response.write('x', () => response.socket?.destroy());
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
      };
      response.on('drain', more);
      more();
    });
    const { post } = await client({ url: server.origin });
    for (const text of ['cut', 'endless'])
      expect(await post({ text }).ended).toMatchObject({ kind: 'complete' });
  });

  test('a message aborted while its redirect is on the way goes no further', async () => {
    const server = await serve((request, response) => {
      if (request.body !== 'follow') return answerJson(response);
      response.writeHead(307, { location: '/x' }).write('x');
      transport.abort(sent);
    });
    const { post, transport } = await client({ url: server.origin });
    const sent = post({ text: 'follow' });
    await server.quietAfterFirst();
    await post().ended;
    expect(server.requests).toHaveLength(2);
    expect(sent.ends).toEqual([]);
  });
});
