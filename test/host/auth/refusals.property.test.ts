/** Whatever a server answers in whatever order: `initialize` follows an answer that was ambiguous by itself, never a refusal. */
import type { ServerResponse } from 'node:http';
import { array, assert, asyncProperty, constantFrom } from 'fast-check';
import { beforeEach, expect, test, vi } from 'vitest';
import { createHost } from '../../../src/host/createHost.js';
import { createSimulatedClock } from '../../../src/testing/clock.js';
import { serve } from '../../transports/httpHarness.js';
import type { Auth } from './fakeAuthServer.js';
import { PlainProvider } from './plainProvider.js';

beforeEach(() => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  return () => warned.mockRestore();
});

const ANSWERS = [
  '401',
  '401 with a body',
  '401 cut off',
  '401 unended',
  '403 for scope',
  '403',
  '400',
  '200',
  'hang',
  'reset',
] as const;
type Answer = (typeof ANSWERS)[number];
const SERVED: Readonly<Record<string, object>> = {
  'server/discover': { supportedVersions: ['2026-07-28'], capabilities: {}, resultType: 'complete' },
  initialize: { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'old', version: '1' } },
};
/** Says nothing for itself, so that a legacy server may be behind it. */
const mayBeLegacy = (answer: string | undefined): boolean =>
  answer === '400' || answer === 'hang' || answer === 'reset';

/** A server that answers the handshakes as the script has it, and the last answer of it for ever. */
async function scripted(script: readonly Answer[], grants: readonly boolean[], advance: () => void) {
  const log: { method: string; answer: string }[] = [];
  let step = 0;
  let asked = 0;
  const later = () => void setImmediate(advance);
  const server = await serve(({ url, body }, response, raw) => {
    const json = (status: number, value: object) =>
      void response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    const { origin } = server;
    if (url.startsWith('/.well-known/oauth-protected-resource')) {
      return json(200, { resource: `${origin}/mcp`, authorization_servers: [origin] });
    }
    if (url.startsWith('/.well-known/')) {
      return json(200, {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
      });
    }
    if (url === '/register')
      return json(201, { client_id: 'c', redirect_uris: ['http://127.0.0.1:9/callback'] });
    if (url === '/token') {
      const granted = grants[asked % Math.max(1, grants.length)];
      asked += 1;
      if (granted === undefined) return later();
      return granted
        ? json(200, { access_token: `token-${asked}`, token_type: 'Bearer' })
        : json(400, { error: 'invalid_client' });
    }
    if (raw.method !== 'POST') return json(405, {});
    const { id, method } = JSON.parse(body) as { id?: number; method: string };
    const served = SERVED[method];
    if (served === undefined) return id === undefined ? void response.writeHead(202).end() : json(404, {});
    const answer = script[Math.min(step, script.length - 1)] ?? '400';
    step += 1;
    log.push({ method, answer });
    give(answer, response, () => json(200, { jsonrpc: '2.0', id, result: served }), later);
  });
  return { server, log };
}

function give(answer: Answer, response: ServerResponse, fine: () => void, later: () => void): void {
  const challenge = { 'www-authenticate': 'Bearer scope="a"' };
  const noMethod = '{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"unknown"}}';
  const json = { 'content-type': 'application/json' };
  switch (answer) {
    case '401':
      return void response.writeHead(401, challenge).end();
    case '401 with a body':
      return void response.writeHead(401, { ...challenge, ...json }).end(noMethod);
    case '401 cut off':
      response.writeHead(401, { ...challenge, ...json, 'content-length': 500 });
      return void response.write('{"jsonrpc":', () => response.destroy());
    case '401 unended':
      response.writeHead(401, { ...challenge, ...json });
      return void response.write('{"jsonrpc":', later);
    case '403 for scope': {
      const wanted = `Bearer error="insufficient_scope", scope="s${Math.random()}"`;
      return void response.writeHead(403, { 'www-authenticate': wanted }).end();
    }
    case '403':
      return void response.writeHead(403, json).end(noMethod);
    case '400':
      return void response.writeHead(400).end('what is this');
    case '200':
      fine();
      return;
    case 'hang':
      later();
      return;
    case 'reset':
      return void response.destroy();
  }
}

const auths: Readonly<Record<string, (issuer: string) => Auth>> = {
  person: () => new PlainProvider(),
  machine: (issuer) => ({ type: 'client-credentials', clientId: 'c', clientSecret: 'secret', issuer }),
  bearer: () => ({ type: 'bearer', token: 'a-fixed-token' }),
};

test('initialize only after an answer that is ambiguous by itself', async () => {
  let initialized = 0;
  const property = asyncProperty(
    array(constantFrom(...ANSWERS), { minLength: 1, maxLength: 6 }),
    array(constantFrom(true, true, false, undefined as never), { minLength: 1, maxLength: 4 }),
    constantFrom('person', 'machine', 'machine', 'bearer'),
    async (script, grants, kind) => {
      const clock = createSimulatedClock();
      const { server, log } = await scripted(script, grants, () => clock.advance(20_000));
      const url = `${server.origin}/mcp`;
      const auth = auths[kind]?.(server.origin) as Auth;
      const host = createHost({
        peers: { p: { url, auth, allowLegacy: true } },
        clock,
        maxAttempts: 1,
        retryUnavailableAfterMs: 0,
      });
      try {
        await host.start();
        for (let n = 0; n < 2; n += 1) await host.peer('p').authorize();
      } finally {
        await host.stop();
        await server.close();
      }
      log.forEach(({ method }, n) => {
        if (method !== 'initialize') return;
        initialized += 1;
        const before = log[n - 1];
        expect(before).toMatchObject({ method: 'server/discover' });
        expect(mayBeLegacy(before?.answer), JSON.stringify(log)).toBe(true);
      });
    },
  );
  await assert(property, { numRuns: 60 });
  expect(initialized).toBeGreaterThan(0);
}, 120_000);
