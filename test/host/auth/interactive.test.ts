/** A peer that needs a person: from the first refusal to calls, and what goes wrong on the way. */
import { beforeEach, describe, expect, test, vi } from 'vitest';
import { createOAuthProvider } from '../../../src/host/auth/oauthProvider.js';
import { AuthorizationError } from '../../../src/host/errors.js';
import type { Host } from '../../../src/host/facade.js';
import { createSimulatedClock } from '../../../src/testing/clock.js';
import { type AuthServer, authServer, type GuardedServer, guardedServer, guest } from './fakeAuthServer.js';
import { PlainProvider } from './plainProvider.js';

/** A busy machine is not to fail a test. */
const PATIENCE = { timeout: 20_000 };

// The official package tells of what it gives up.
beforeEach(() => {
  const warned = vi.spyOn(console, 'warn').mockImplementation(() => undefined);
  return () => warned.mockRestore();
});

interface Scene {
  readonly as: AuthServer;
  readonly server: GuardedServer;
  readonly provider: PlainProvider;
  readonly host: Host;
  readonly told: string[];
}

async function scene(
  provider = new PlainProvider(),
  prepare?: (as: AuthServer, server: GuardedServer) => void,
): Promise<Scene> {
  const as = await authServer();
  const server = await guardedServer(as);
  prepare?.(as, server);
  const { host, told } = guest({ p: { url: server.url, auth: provider } });
  await host.start();
  return { as, server, provider, host, told };
}

/** The same, with a person who agrees. */
async function granted(...args: Parameters<typeof scene>): Promise<Scene> {
  const it = await scene(...args);
  const report = await it.host
    .peer('p')
    .authorize(await it.as.visit(it.host.peer('p').report().authorizationUrl ?? ''));
  expect(report.tools).toBe(1);
  return it;
}

const call = (host: Host) => host.call('echo', { word: 'hello' });

describe('a peer that answers 401', () => {
  test('is unavailable, with the page where a person grants access, and never asked to initialize', async () => {
    const { host, told, server, provider } = await scene();
    const report = host.peer('p').report();
    expect(report).toMatchObject({
      state: 'unavailable',
      reason: { code: 'unauthorized' },
      initializeSent: 0,
    });
    expect(report.authorizationUrl).toBe(told[0]);
    expect(told).toHaveLength(1);
    expect(provider.opened).toEqual(told);
    expect(server.heard.map(({ method }) => method)).toEqual(['server/discover']);
    expect(host.peer('p').explain()).toContain('authorize');
  });

  test('serves once a person agreed: a new probe, then calls with the token', async () => {
    const { host, server } = await granted();
    expect(host.peer('p').report().authorizationUrl).toBeNull();
    expect(await call(host)).toMatchObject({ status: 'ok' });
    expect(server.heard.at(-1)?.token).toMatch(/^access-/);
    expect(server.count('initialize')).toBe(0);
  });

  test('works with a provider that answers later, and with the one of this package', async () => {
    class Later extends PlainProvider {
      override tokens() {
        return Promise.resolve(this.kept);
      }
    }
    expect(await call((await granted(new Later())).host)).toMatchObject({ status: 'ok' });
    const as = await authServer();
    const server = await guardedServer(as);
    const auth = createOAuthProvider({ redirectUrl: 'http://127.0.0.1:9/callback' });
    const { host } = guest({ p: { url: server.url, auth } });
    await host.start();
    await host.peer('p').authorize(await as.visit(host.peer('p').report().authorizationUrl ?? ''));
    expect(await call(host)).toMatchObject({ status: 'ok' });
    as.expire();
    expect(await call(host)).toMatchObject({ status: 'ok' });
    expect(as.authorizations).toHaveLength(1);
  });

  test('also by a provider that does not return before the person is back', async () => {
    let back: () => void = () => undefined;
    class Waiting extends PlainProvider {
      override redirectToAuthorization(url: URL) {
        super.redirectToAuthorization(url);
        return new Promise<void>((resolve) => {
          back = resolve;
        });
      }
    }
    const as = await authServer();
    const server = await guardedServer(as);
    const { host, told } = guest({ p: { url: server.url, auth: new Waiting() } });
    const started = host.start();
    await vi.waitFor(() => expect(told).toHaveLength(1), PATIENCE);
    await host.peer('p').authorize(await as.visit(told[0] ?? ''));
    await started;
    back();
    await host.peer('p').waitUntil('callable');
    expect(await call(host)).toMatchObject({ status: 'ok' });
  });

  test('is not asked to initialize while its authorization server hangs, though legacy is allowed', async () => {
    const as = await authServer();
    as.hanging.add('/.well-known/oauth-authorization-server');
    const server = await guardedServer(as);
    const clock = createSimulatedClock();
    const { host } = guest(
      { p: { url: server.url, auth: new PlainProvider(), allowLegacy: true } },
      { clock, probeTimeoutMs: 3000 },
    );
    const started = host.start();
    await vi.waitFor(() => expect(as.count('/.well-known/oauth-authorization-server')).toBe(1), PATIENCE);
    clock.advance(3000);
    await started;
    const report = host.peer('p').report();
    expect(report).toMatchObject({
      state: 'unavailable',
      reason: { code: 'unauthorized' },
      initializeSent: 0,
    });
    expect(server.count('initialize')).toBe(0);
  });

  test('is told why where the authorization server fails', async () => {
    const { host } = await scene(new PlainProvider(), (as) => {
      as.intercept = ({ url }, response) => {
        if (url !== '/register') return false;
        response.writeHead(400).end('{"error":"invalid_redirect_uri"}');
        return true;
      };
    });
    const { reason, authorizationUrl } = host.peer('p').report();
    expect(authorizationUrl).toBeNull();
    expect(reason?.message).toContain('does not register this client (HTTP 400, invalid_redirect_uri)');
  });
});

describe('a person', () => {
  test('is not sent to a second page while one is open', async () => {
    const { host, told, as, provider } = await scene();
    host.peer('p').retry();
    await host.peer('p').waitUntil('settled');
    host.peer('p').retry();
    await host.peer('p').waitUntil('settled');
    expect(told).toHaveLength(1);
    expect(provider.opened).toHaveLength(1);
    expect(as.count('/register')).toBe(1);
    expect(host.peer('p').report().authorizationUrl).toBe(told[0]);
  });

  test('can begin anew where what came back was not good', async () => {
    const { host, told, as } = await scene();
    const back = new URL(await as.visit(told[0] ?? ''));
    back.searchParams.set('code', 'another-code-altogether');
    await expect(host.peer('p').authorize(back)).rejects.toThrow(/refused the code: invalid_grant/);
    expect(as.tokenRequests).toHaveLength(1);
    expect(host.peer('p').report().authorizationUrl).toBeNull();
    host.peer('p').retry();
    await host.peer('p').waitUntil('settled');
    expect(told).toHaveLength(2);
    await host.peer('p').authorize(await as.visit(told[1] ?? ''));
    expect(await call(host)).toMatchObject({ status: 'ok' });
  });

  test('who refuses is told so, and another state is refused without a request', async () => {
    const { host, told, as } = await scene();
    const back = new URL(await as.visit(told[0] ?? ''));
    const state = back.searchParams.get('state') ?? '';
    back.searchParams.set('state', 'another');
    await expect(host.peer('p').authorize(back)).rejects.toThrow(/another authorization request/);
    back.searchParams.delete('state');
    await expect(host.peer('p').authorize(back.href)).rejects.toThrow(AuthorizationError);
    await expect(host.peer('p').authorize({ code: 'c', state: 'another' })).rejects.toThrow(/state/);
    expect(host.peer('p').report().authorizationUrl).toBe(told[0]);
    const no = `http://127.0.0.1:9/callback?error=access_denied&state=${state}&iss=${encodeURIComponent(as.issuer)}`;
    await expect(host.peer('p').authorize(no)).rejects.toThrow(/answered access_denied/);
    expect(as.tokenRequests).toHaveLength(0);
  });

  test('an answer of another issuer is not believed, in no word of it', async () => {
    const { host, told, as } = await scene();
    const back = new URL(await as.visit(told[0] ?? ''));
    const state = back.searchParams.get('state') ?? '';
    const mixed = `http://127.0.0.1:9/callback?error=canary_error&state=${state}&iss=https%3A%2F%2Fevil.example`;
    const error = await host
      .peer('p')
      .authorize(mixed)
      .catch((thrown: unknown) => thrown);
    expect(String(error)).toContain('iss');
    expect(String(error)).not.toMatch(/canary|evil/);
    host.peer('p').retry();
    await host.peer('p').waitUntil('settled');
    const again = new URL(await as.visit(told[1] ?? ''));
    again.searchParams.set('iss', `${as.issuer}/`);
    await expect(host.peer('p').authorize(again)).rejects.toThrow(/\(iss\)/);
    expect(as.tokenRequests).toHaveLength(0);
  });

  test('an answer without an issuer is not believed, where the server says that it names itself', async () => {
    const { host, told, as } = await scene();
    const back = new URL(await as.visit(told[0] ?? ''));
    const state = back.searchParams.get('state') ?? '';
    const no = `http://127.0.0.1:9/callback?error=canary_error&state=${state}`;
    const error = await host
      .peer('p')
      .authorize(no)
      .catch((thrown: unknown) => thrown);
    expect(String(error)).toContain('(iss)');
    expect(String(error)).not.toContain('canary');
    expect(as.tokenRequests).toHaveLength(0);
  });

  test('what cannot be read, or holds no code, is told', async () => {
    const { host } = await scene();
    await expect(host.peer('p').authorize('nonsense')).rejects.toThrow(/neither the URL/);
    const state = new URL(host.peer('p').report().authorizationUrl ?? '').searchParams.get('state') ?? '';
    await expect(host.peer('p').authorize(`?state=${state}`)).rejects.toThrow(/holds no code/);
  });

  test('one answer is redeemed once, however often it is handed over', async () => {
    const { host, told, as } = await scene();
    const back = await as.visit(told[0] ?? '');
    const results = await Promise.allSettled([
      host.peer('p').authorize(back),
      host.peer('p').authorize(back),
    ]);
    expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected']);
    expect(as.tokenRequests).toHaveLength(1);
  });

  test('two flows at once redeem their own codes, also with one provider', async () => {
    const as = await authServer();
    const { url } = await guardedServer(as);
    const auth = new PlainProvider();
    const { host } = guest({ one: { url, auth }, two: { url: `${url}?two`, auth } });
    await host.start();
    const urls = ['one', 'two'].map((name) => host.peer(name).report().authorizationUrl ?? '');
    expect(new Set(urls).size).toBe(2);
    const backs = await Promise.all(urls.map((url) => as.visit(url)));
    await host.peer('one').authorize(backs[0]);
    await host.peer('two').authorize(backs[1]);
    expect(as.tokenRequests).toHaveLength(2);
    expect(as.access.size).toBe(2);
    expect(host.peer('two').callable).toBe(true);
  });
});

describe('a token that runs out', () => {
  test('is renewed within the call, once for ten calls, also of two peers with one provider', async () => {
    const as = await authServer();
    const server = await guardedServer(as);
    const provider = new PlainProvider();
    const peer = { url: server.url, auth: provider };
    const { host, told } = guest({ p: peer, q: peer });
    await host.start();
    await host.peer('p').authorize(await as.visit(told[0] ?? ''));
    await host.peer('q').authorize();
    as.expire();
    const names = [...host.catalog().entries.keys()];
    expect(names).toHaveLength(2);
    const calls = Array.from({ length: 10 }, (_, n) => host.call(names[n % 2] ?? ''));
    for (const outcome of await Promise.all(calls)) expect(outcome).toMatchObject({ status: 'ok' });
    expect(as.tokenRequests.map((one) => one['grant_type'])).toEqual(['authorization_code', 'refresh_token']);
    expect(told).toHaveLength(2);
    expect(new Set(told).size).toBe(1);
  });

  test('and cannot be renewed: the call is unavailable, a person is asked, the peer stays callable', async () => {
    const { host, told, as } = await granted();
    as.revoke();
    const outcomes = await Promise.all([call(host), call(host), call(host)]);
    for (const outcome of outcomes) expect(outcome.status).toBe('unavailable');
    expect(told).toHaveLength(2);
    expect(host.peer('p').callable).toBe(true);
    expect((await call(host)).status).toBe('unavailable');
    expect(told).toHaveLength(2);
    await host.peer('p').authorize(await as.visit(told[1] ?? ''));
    expect(await call(host)).toMatchObject({ status: 'ok' });
  });

  test('and was renewed by another process meanwhile: that one is used, and not deleted', async () => {
    const { host, told, as, provider } = await granted();
    as.expire();
    const theirs = { ...(provider.kept as NonNullable<typeof provider.kept>) };
    const family = as.refresh.get(theirs.refresh_token ?? '')?.family ?? { revoked: false };
    as.intercept = ({ url, body }, response) => {
      if (url !== '/token' || !body.includes('refresh_token')) return false;
      // Between the reading of the old one and its use.
      as.access.set('access-of-another', { scope: '', family, valid: true });
      provider.kept = { ...theirs, access_token: 'access-of-another', refresh_token: 'refresh-of-another' };
      response.writeHead(400, { 'content-type': 'application/json' }).end('{"error":"invalid_grant"}');
      return true;
    };
    expect(await call(host)).toMatchObject({ status: 'ok' });
    expect(provider.kept?.access_token).toBe('access-of-another');
    expect(told).toHaveLength(1);
  });
});

describe('more scope', () => {
  test('is asked for with all that was granted, and then the same call goes through', async () => {
    const { host, told, as } = await granted(new PlainProvider(), (_as, server) => {
      server.scope = 'basic';
      server.callScope = 'write';
    });
    expect(as.authorizations[0]?.['scope']).toBe('basic');
    expect((await call(host)).status).toBe('unavailable');
    expect(host.peer('p').callable).toBe(true);
    expect(told).toHaveLength(2);
    await host.peer('p').authorize(await as.visit(told[1] ?? ''));
    expect(as.authorizations[1]?.['scope']).toBe('basic write');
    expect(await call(host)).toMatchObject({ status: 'ok' });
  });

  test('that a person has not granted yet keeps no token from being renewed', async () => {
    const { host, told, as, server } = await granted(new PlainProvider(), (_as, guarded) => {
      guarded.scope = 'basic';
      guarded.callScope = 'write';
    });
    expect((await call(host)).status).toBe('unavailable');
    server.callScope = undefined;
    as.expire();
    expect(await call(host)).toMatchObject({ status: 'ok' });
    expect(as.tokenRequests.at(-1)?.['grant_type']).toBe('refresh_token');
    expect(host.peer('p').report().authorizationUrl).toBe(told[1]);
    as.revoke();
    for (let n = 0; n < 2; n += 1) expect((await call(host)).status).toBe('unavailable');
    expect(told).toHaveLength(2);
    await host.peer('p').authorize(await as.visit(told[1] ?? ''));
    expect(await call(host)).toMatchObject({ status: 'ok' });
  });

  test('that is never enough is asked for once', async () => {
    const { host, told, as } = await granted(new PlainProvider(), (_as, server) => {
      server.scope = 'basic';
      server.neverEnough = true;
    });
    expect((await call(host)).status).not.toBe('ok');
    await host.peer('p').authorize(await as.visit(told[1] ?? ''));
    for (let n = 0; n < 5; n += 1) expect((await call(host)).status).not.toBe('ok');
    expect(told).toHaveLength(2);
  });

  test('that grows with every call is followed a few times, while nobody has granted any', async () => {
    const { host, told, server } = await granted(new PlainProvider(), (_as, guarded) => {
      guarded.scope = 'basic';
    });
    for (let n = 1; n <= 8; n += 1) {
      server.callScope = Array.from({ length: n }, (_, at) => `more-${at}`).join(' ');
      expect((await call(host)).status).toBe('unavailable');
    }
    // The first page; one for more, which three others took the place of.
    expect(told).toHaveLength(5);
    expect(host.peer('p').report().authorizationUrl).toBe(told[4]);
    expect(host.peer('p').callable).toBe(true);
  });

  test('another 403 asks for nothing', async () => {
    const { host, told, as, server } = await granted();
    server.intercept = ({ body }, response) => {
      if (!body.includes('tools/call')) return false;
      response.writeHead(403, { 'www-authenticate': 'Bearer error="invalid_token", scope="x"' }).end();
      return true;
    };
    expect((await call(host)).status).not.toBe('ok');
    expect(told).toHaveLength(1);
    expect(as.authorizations).toHaveLength(1);
  });
});

test('another authorization server is asked anew, and never sees the client of the first', async () => {
  const { host, told, as, server } = await granted();
  const other = await authServer();
  server.trusts = other;
  as.expire();
  expect((await call(host)).status).toBe('unavailable');
  expect(told[1]).toContain(other.issuer);
  expect(other.registrations).toHaveLength(1);
  await host.peer('p').authorize(await other.visit(told[1] ?? ''));
  expect(await call(host)).toMatchObject({ status: 'ok' });
  expect(as.tokenRequests).toHaveLength(1);
});

test('access that was granted elsewhere ends the waiting for a person', async () => {
  const { host, told, as, provider } = await scene();
  as.access.set('token-of-elsewhere', { scope: '', family: { revoked: false }, valid: true });
  provider.kept = { access_token: 'token-of-elsewhere', token_type: 'Bearer' };
  await host.peer('p').authorize();
  expect(await call(host)).toMatchObject({ status: 'ok' });
  expect(host.peer('p').report().authorizationUrl).toBeNull();
  expect(told).toHaveLength(1);
});

test('what was listed for one owner is listed anew for the next', async () => {
  const { host, as, provider, server } = await granted();
  expect(server.count('tools/list')).toBe(1);
  as.access.set('token-of-another', { scope: '', family: { revoked: false }, valid: true });
  provider.kept = { access_token: 'token-of-another', token_type: 'Bearer' };
  expect(await call(host)).toMatchObject({ status: 'ok' });
  await vi.waitFor(() => expect(server.count('tools/list')).toBe(2), PATIENCE);
  as.expire();
});

describe('a server that leads elsewhere', () => {
  test.each([
    'http://169.254.169.254',
    'https://169.254.169.254',
    'https://10.0.0.1',
    'http://as.example.com',
  ])('to %s for authorization is not followed', async (issuer) => {
    const { host, told } = await scene(new PlainProvider(), (as, server) => {
      server.trusts = { ...as, issuer };
    });
    expect(told).toEqual([]);
    expect(host.peer('p').report().reason?.message).toContain('not contacted');
  });

  test('by its challenge is not followed either', async () => {
    const { host, server } = await scene(new PlainProvider(), (_as, guarded) => {
      guarded.intercept = ({ url }, response) => {
        if (url !== '/mcp') return false;
        const named = 'Bearer resource_metadata="https://169.254.169.254/latest/meta-data"';
        response.writeHead(401, { 'www-authenticate': named }).end();
        return true;
      };
    });
    expect(host.peer('p').report().reason?.message).toContain('not contacted');
    expect(server.requests.every(({ url }) => url === '/mcp')).toBe(true);
  });

  test('with a redirect of what carries a token is not followed', async () => {
    const { host, as, server } = await granted();
    const canary = await guardedServer(as);
    server.intercept = (_request, response) => {
      response.writeHead(307, { location: canary.url }).end();
      return true;
    };
    expect((await call(host)).status).not.toBe('ok');
    expect(canary.requests).toEqual([]);
  });

  test('whose metadata name another issuer gives it nothing', async () => {
    const { host, as } = await scene(new PlainProvider(), (one) => {
      one.metadata = { issuer: 'https://evil.example' };
    });
    expect(host.peer('p').report().reason?.message).toContain('another issuer');
    expect(as.registrations).toEqual([]);
  });

  test('whose metadata are of another resource leads nobody to a page', async () => {
    const { told, as, host } = await scene(new PlainProvider(), (_as, server) => {
      server.intercept = (request, response) => {
        if (!request.url.startsWith('/.well-known')) return false;
        const resource = 'https://evil.example/mcp';
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify({ resource, authorization_servers: [server.trusts.issuer] }));
        return true;
      };
    });
    expect(told).toEqual([]);
    expect(as.registrations).toEqual([]);
    expect(host.peer('p').report().reason?.message).toContain('does not match');
  });
});

test('a provider that throws leaves requests without credentials, and says so', async () => {
  class Broken extends PlainProvider {
    override tokens(): never {
      throw new Error('the key ring is locked');
    }
  }
  const { host } = await scene(new Broken());
  const report = host.peer('p').report();
  expect(report).toMatchObject({ state: 'unavailable', reason: { code: 'unauthorized' } });
  expect(report.reason?.message.toLowerCase()).toContain('the key ring is locked');
});

test('nothing secret is shown anywhere', async () => {
  const { host, as, provider, server } = await granted();
  const shown: string[] = [];
  const warned = vi.spyOn(console, 'warn').mockImplementation((...words) => void shown.push(words.join(' ')));
  const written = vi
    .spyOn(process.stderr, 'write')
    .mockImplementation((text) => shown.push(String(text)) > 0);
  try {
    for (const event of ['peer', 'call', 'catalogChanged'] as const)
      host.on(event, (detail) => shown.push(JSON.stringify(detail)));
    const secrets = [
      provider.kept?.access_token ?? '',
      provider.kept?.refresh_token ?? '',
      provider.verifier,
    ];
    server.intercept = ({ body, headers }, response) => {
      if (!body.includes('tools/call')) return false;
      const { id } = JSON.parse(body) as { id: number };
      const error = { code: -32000, message: `no ${headers.authorization}` };
      response.setHeader('content-type', 'application/json');
      response.end(JSON.stringify({ jsonrpc: '2.0', id, error }));
      return true;
    };
    shown.push(JSON.stringify(await call(host)));
    server.intercept = () => false;
    as.intercept = ({ url, body }, response) => {
      if (url !== '/token') return false;
      response.writeHead(500).end(`what is ${decodeURIComponent(body)}`);
      return true;
    };
    as.expire();
    shown.push(
      JSON.stringify(await call(host)),
      JSON.stringify(host.peer('p').report()),
      host.peer('p').explain(),
    );
    as.intercept = () => false;
    const url = host.peer('p').report().authorizationUrl ?? '';
    const back = new URL(await as.visit(url));
    const code = back.searchParams.get('code') ?? '';
    as.intercept = ({ url: path, body }, response) => {
      if (path !== '/token') return false;
      response.writeHead(400, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: 'invalid_grant', error_description: decodeURIComponent(body) }));
      return true;
    };
    shown.push(
      String(
        await host
          .peer('p')
          .authorize(back)
          .catch((error: unknown) => error),
      ),
    );
    shown.push(JSON.stringify(host.peer('p').report()), host.peer('p').explain());
    secrets.push(code, provider.verifier);
    for (const secret of secrets) {
      expect(secret).not.toBe('');
      expect(shown.filter((text) => text.includes(secret))).toEqual([]);
    }
    expect(shown.length).toBeGreaterThan(6);
  } finally {
    warned.mockRestore();
    written.mockRestore();
  }
});
