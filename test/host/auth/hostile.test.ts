/** Servers that want to harm, or are merely broken: where they lead, what they repeat, and how often they have this host ask. */
import { generateKeyPairSync } from 'node:crypto';
import { beforeEach, describe, expect, test, vi } from 'vitest';
import type { CreateHostOptions } from '../../../src/host/createHost.js';
import { createSimulatedClock } from '../../../src/testing/clock.js';
import {
  type Auth,
  type AuthServer,
  authServer,
  type GuardedServer,
  guardedServer,
  guest,
} from './fakeAuthServer.js';
import { PlainProvider } from './plainProvider.js';

let printed: string[] = [];
beforeEach(() => {
  printed = [];
  const spies = (['warn', 'error', 'log', 'info', 'debug'] as const).map((name) =>
    vi.spyOn(console, name).mockImplementation((...words: unknown[]) => void printed.push(words.join(' '))),
  );
  return () => {
    for (const spy of spies) spy.mockRestore();
  };
});

type Prepare = (as: AuthServer, server: GuardedServer) => void;

async function scene(
  authOf: (as: AuthServer) => Auth,
  prepare: Prepare,
  options: Pick<CreateHostOptions, 'clock'> = {},
) {
  const as = await authServer();
  const server = await guardedServer(as);
  prepare(as, server);
  const { host, told } = guest({ p: { url: server.url, auth: authOf(as) } }, options);
  await host.start();
  const report = () => host.peer('p').report();
  return { as, server, host, told, report };
}

const nothing: Prepare = () => undefined;
const machineOf = (as: AuthServer): Auth => {
  as.clients.set('machine', { secret: 'secret of the machine', method: 'client_secret_basic' });
  return {
    type: 'client-credentials',
    clientId: 'machine',
    clientSecret: 'secret of the machine',
    issuer: as.issuer,
  };
};

/** What the token endpoint answers, in place of what it would. */
const tokens =
  (answer: (form: URLSearchParams) => readonly [status: number, body: string]): Prepare =>
  (as) => {
    as.intercept = (request, response) => {
      if (request.url !== '/token') return false;
      const [status, body] = answer(new URLSearchParams(request.body));
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
      return true;
    };
  };

function renewing(): PlainProvider {
  const provider = new PlainProvider();
  provider.client = { client_id: 'c', client_secret: 'client/secret+one' };
  provider.kept = {
    access_token: 'old-access-token',
    token_type: 'Bearer',
    refresh_token: 'refresh/token+one',
  };
  return provider;
}

test.each([
  ['a file', 'file:///etc/passwd'],
  ['a script', 'javascript:alert(1)'],
  ['a program of this machine', 'ms-msdt:/id'],
  ['clear text', 'http://as.example.com/authorize'],
  ['a private address', 'https://10.0.0.1/authorize'],
  ['another name than it seems', 'https://bank.example.com@as.example.com/authorize'],
  ['what is too long for a URL', `https://as.example.com/${'a'.repeat(20_000)}`],
])('a person is not sent to %s', async (_what, endpoint) => {
  const provider = new PlainProvider();
  const { told, report } = await scene(
    () => provider,
    (as) => {
      as.metadata = { authorization_endpoint: endpoint };
    },
  );
  expect([told, provider.opened, report().authorizationUrl]).toEqual([[], [], null]);
  expect(report()).toMatchObject({ state: 'unavailable', reason: { code: 'unauthorized' } });
  expect(report().reason?.message.length).toBeLessThan(500);
});

describe('what is repeated of a secret is shown nowhere', () => {
  const json = (error: string, text: string) => JSON.stringify({ error, error_description: `not ${text}` });
  const escaped = (text: string) => text.replaceAll('/', '\\/').replaceAll('e', '\\u0065');
  test.each<[string, number, (text: string) => string]>([
    ['in JSON', 400, (text) => json('invalid_grant', text)],
    ['in JSON that escapes', 400, (text) => escaped(json('invalid_grant', text))],
    ['in JSON that escapes, of a server that failed', 500, (text) => escaped(json('server_error', text))],
    ['in HTML', 500, (text) => `<p>${text.replaceAll('/', '&#x2F;').replaceAll('+', '&#43;')}</p>`],
    ['in Base64', 502, (text) => Buffer.from(text).toString('base64')],
    ['in JSON in Base64', 400, (text) => json('invalid_grant', Buffer.from(text).toString('base64'))],
    ['as the code of an error', 400, (text) => json(text.replaceAll(/\W/g, '.'), '')],
    ['with 200, in what is no JSON', 200, (text) => text],
    ['with 200, as a number would be', 200, (text) => `{"access_token":{"is":"${text}"}}`],
  ])('%s', async (_how, status, body) => {
    for (const parameter of ['refresh_token', 'client_secret']) {
      const provider = renewing();
      provider.client = { ...provider.client, token_endpoint_auth_method: 'client_secret_post' } as never;
      const secret = parameter === 'refresh_token' ? 'refresh/token+one' : 'client/secret+one';
      let heard = 0;
      const { host, as, report } = await scene(
        () => provider,
        (as, server) => {
          as.metadata = { token_endpoint_auth_methods_supported: ['client_secret_post'] };
          tokens((form) => {
            if (form.get(parameter) === secret) heard += 1;
            return [status, body(form.get(parameter) ?? '')];
          })(as, server);
        },
      );
      expect(heard).toBeGreaterThan(0);
      const back = report().authorizationUrl;
      const failure =
        back === null
          ? ''
          : await host
              .peer('p')
              .authorize(await as.visit(back))
              .catch((error: Error) => error.message);
      const shown = [...printed, JSON.stringify(report()), host.peer('p').explain(), failure].join('\n');
      const [word = ''] = /^\w+\W\w+/.exec(secret) ?? [];
      const forms = [word, word.replace('/', '&#x2F;'), Buffer.from(word).toString('base64').slice(0, 12)];
      for (const form of forms) expect(shown).not.toContain(form);
    }
  });
});

test('a grant that says that there is no error is kept as it came', async () => {
  const provider = renewing();
  const { report } = await scene(
    () => provider,
    (as, server) => {
      tokens((form) => {
        as.access.set('new-token', { scope: '', family: { revoked: false }, valid: true });
        const refresh = form.get('refresh_token');
        const grant = { access_token: 'new-token', token_type: 'Bearer', refresh_token: refresh };
        return [200, JSON.stringify({ ...grant, error: null })];
      })(as, server);
    },
  );
  expect(report().state).toBe('modern');
  expect(provider.kept).toMatchObject({ access_token: 'new-token', refresh_token: 'refresh/token+one' });
});

test.each(['a\nb', 'tökén', '', 'two words'])(
  'a token that no header can carry is none (%j)',
  async (token) => {
    const grant = tokens(() => [200, JSON.stringify({ access_token: token, token_type: 'Bearer' })]);
    const { as, server, report } = await scene(machineOf, grant);
    expect(report()).toMatchObject({ state: 'unavailable', reason: { code: 'unauthorized' } });
    expect(report().reason?.message).toContain('no header can carry');
    expect(as.count('/token')).toBe(1);
    expect(server.heard).toEqual([{ method: 'server/discover', token: undefined }]);
  },
);

test('a stored token that no header can carry is replaced', async () => {
  const provider = renewing();
  provider.kept = { access_token: 'a\nb', token_type: 'Bearer' };
  const { told, server } = await scene(() => provider, nothing);
  expect(told).toHaveLength(1);
  expect(server.heard).toEqual([{ method: 'server/discover', token: undefined }]);
});

test('a provider that gives null for what it has not is served as well', async () => {
  class Sparse extends PlainProvider {
    override tokens() {
      return this.kept ?? (null as never);
    }
    override clientInformation() {
      return this.client ?? (null as never);
    }
    discoveryState() {
      return null as never;
    }
    saveDiscoveryState() {
      // Keeps nothing.
    }
  }
  const { as, host, told, report } = await scene(() => new Sparse(), nothing);
  await host.peer('p').authorize(await as.visit(told[0] ?? ''));
  expect(report()).toMatchObject({ state: 'modern', tools: 1 });
});

test('a code is sent once, also when it is handed over after it was redeemed', async () => {
  const { as, host, told } = await scene(() => new PlainProvider(), nothing);
  const back = await as.visit(told[0] ?? '');
  await host.peer('p').authorize(back);
  await expect(host.peer('p').authorize(back)).rejects.toThrow(/redeemed already/);
  expect(as.count('/token')).toBe(1);
  expect(await host.call('echo')).toMatchObject({ status: 'ok' });
});

test('a code that has the value of an earlier one is another where another request is open', async () => {
  const { as, host, told, report } = await scene(
    () => new PlainProvider(),
    (as) => {
      as.redirecting = (parameters) => parameters.set('code', 'the-same-code');
      tokens(() => {
        const access_token = `token-${as.count('/token')}`;
        as.access.set(access_token, { scope: '', family: { revoked: false }, valid: true });
        return [200, JSON.stringify({ access_token, token_type: 'Bearer' })];
      })(as, undefined as never);
    },
  );
  await host.peer('p').authorize(await as.visit(told[0] ?? ''));
  as.expire();
  await host.call('echo');
  await host.peer('p').authorize(await as.visit(told[1] ?? ''));
  expect(report().state).toBe('modern');
  expect(as.count('/token')).toBe(2);
});

test('secrets that are in use are taken out of texts, however many flows there were', async () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const { as, host, server } = await scene(
    ({ issuer }) => ({
      type: 'private-key-jwt',
      clientId: 'machine',
      privateKey: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
      algorithm: 'ES256',
      issuer,
    }),
    nothing,
  );
  const token = server.heard.at(-1)?.token ?? '';
  server.intercept = ({ url, body }, response) => {
    if (url !== '/mcp' || !body.includes('tools/call')) return false;
    response
      .writeHead(403, { 'www-authenticate': `Bearer error="insufficient_scope", scope="s${Math.random()}"` })
      .end();
    return true;
  };
  tokens(() => [400, '{"error":"invalid_scope"}'])(as, server);
  for (let n = 0; n < 70; n += 1) {
    await host.call('echo');
    await host.peer('p').authorize();
  }
  server.intercept = ({ url, body, headers }, response) => {
    if (url !== '/mcp' || !body.includes('tools/call')) return false;
    const { id } = JSON.parse(body) as { id: number };
    const error = { code: -32000, message: `no ${headers.authorization}` };
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ jsonrpc: '2.0', id, error }));
    return true;
  };
  const shown = JSON.stringify(await host.call('echo'));
  expect(token).not.toBe('');
  expect(shown).not.toContain(token);
});

describe('an authorization server', () => {
  test('that is down is not asked for every message, but when the pause is over or somebody acts', async () => {
    const clock = createSimulatedClock();
    const { as, host, server } = await scene(machineOf, nothing, { clock });
    as.expire();
    tokens(() => [503, 'down'])(as, server);
    const before = as.count('/token');
    const calls = async () => {
      for (const outcome of await Promise.all(Array.from({ length: 100 }, () => host.call('echo')))) {
        expect(outcome.status).toBe('unavailable');
      }
      await host.call('echo');
      return as.count('/token') - before;
    };
    expect(await calls()).toBe(1);
    clock.advance(999);
    expect(await calls()).toBe(1);
    clock.advance(1);
    expect(await calls()).toBe(2);
    clock.advance(1000);
    expect(await calls()).toBe(2);
    await host.peer('p').authorize();
    expect(await calls()).toBe(3);
    as.intercept = () => false;
    clock.advance(60_000);
    expect(await host.call('echo')).toMatchObject({ status: 'ok' });
  });

  test('that is there again is asked at once where somebody retries', async () => {
    const down: Prepare = (as) => {
      as.intercept = ({ url }, response) => {
        if (url !== '/register') return false;
        response.writeHead(503).end();
        return true;
      };
    };
    const clock = createSimulatedClock();
    const { as, host, told } = await scene(() => new PlainProvider(), down, { clock });
    expect(told).toEqual([]);
    as.intercept = () => false;
    host.peer('p').retry();
    await vi.waitFor(() => expect(told).toHaveLength(1), { timeout: 20_000 });
  });

  test('that renews nothing while a person is asked is not asked each time either', async () => {
    const provider = new PlainProvider();
    const { as, host, server, told } = await scene(() => provider, nothing, {
      clock: createSimulatedClock(),
    });
    await host.peer('p').authorize(await as.visit(told[0] ?? ''));
    as.expire();
    tokens(() => [503, 'down'])(as, server);
    const before = as.count('/token');
    for (let n = 0; n < 10; n += 1) expect((await host.call('echo')).status).toBe('unavailable');
    expect(told).toHaveLength(2);
    // Once before the person was asked, and once after.
    expect(as.count('/token') - before).toBeLessThanOrEqual(2);
  });

  test('whose tokens are worth nothing is asked less and less', async () => {
    const clock = createSimulatedClock();
    const { as, host, server } = await scene(machineOf, nothing, { clock });
    server.intercept = ({ url }, response) => {
      if (url !== '/mcp') return false;
      const scope = `s${Math.random()}`;
      response.writeHead(401, { 'www-authenticate': `Bearer scope="${scope}"` }).end();
      return true;
    };
    for (let n = 0; n < 20; n += 1) await host.call('echo');
    expect(as.count('/token')).toBeLessThanOrEqual(5);
    for (let n = 0; n < 120; n += 1) {
      clock.advance(1000);
      await host.call('echo');
    }
    expect(as.count('/token')).toBeLessThanOrEqual(13);
  });
});

test('a token never reaches a peer at another origin that was given the same provider', async () => {
  const provider = new PlainProvider();
  const [as, other] = [await authServer(), await authServer()];
  const [server, stranger] = [await guardedServer(as), await guardedServer(other)];
  const peers = { p: { url: server.url, auth: provider }, q: { url: stranger.url, auth: provider } };
  const { host, told } = guest(peers);
  await host.start();
  await host.peer('p').authorize(await as.visit(told[0] ?? ''));
  await host.peer('q').authorize();
  expect(await host.call('echo')).toMatchObject({ status: 'ok' });
  expect(host.peer('q').report().reason?.message).toContain('a provider of its own');
  await expect(host.peer('q').authorize({ code: 'x' })).rejects.toThrow(/a provider of its own/);
  expect(stranger.heard.filter(({ token }) => token !== undefined)).toEqual([]);
  expect(stranger.heard.length).toBeGreaterThan(0);
  expect(other.authorizations.length + other.tokenRequests.length).toBe(0);
});

test('tokens of somebody else are looked at when authorize says that they are there', async () => {
  const provider = new PlainProvider();
  const { as, host, told, server } = await scene(() => provider, nothing);
  await host.peer('p').authorize(await as.visit(told[0] ?? ''));
  as.access.set('token-of-another', { scope: '', family: { revoked: false }, valid: true });
  const before = server.count('tools/list');
  provider.kept = { access_token: 'token-of-another', token_type: 'Bearer' };
  await host.peer('p').authorize();
  await vi.waitFor(() => expect(server.count('tools/list')).toBeGreaterThan(before), { timeout: 20_000 });
});
