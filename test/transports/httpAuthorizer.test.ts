/** Credentials of an endpoint: what each attempt carries, and what is done when they are refused. */
import type { ServerResponse } from 'node:http';
import { describe, expect, it, onTestFinished, test, vi } from 'vitest';
import { createSimulatedClock } from '../../src/testing/clock.js';
import type {
  Credentials,
  HttpAttempt,
  HttpAuthorizer,
  Refusal,
} from '../../src/transports/httpAuthorizer.js';
import { MAX_REFUSALS } from '../../src/transports/httpAuthorizer.js';
import { streamableHttpTransport } from '../../src/transports/streamableHttp.js';
import { connectTo, modern } from './connectionHarness.js';
import { type Answer, answerJson, client, JSON_ANSWER, JSON_ERROR, serve } from './httpHarness.js';

const bearer = (token: string): Credentials => ({ headers: { authorization: `Bearer ${token}` } });

interface Recorded extends HttpAuthorizer {
  readonly asked: HttpAttempt[];
  readonly refusals: Refusal[];
  readonly nonces: string[];
  /** Resolves with the next refusal. */
  readonly nextRefusal: () => Promise<Refusal>;
}

/** Gives `t1`, `t2`, … one a time of asking. */
function authorizer(given: Partial<Pick<HttpAuthorizer, 'credentials' | 'refused'>> = {}): Recorded {
  const asked: HttpAttempt[] = [];
  const refusals: Refusal[] = [];
  const nonces: string[] = [];
  let waiting: ((refusal: Refusal) => void)[] = [];
  return {
    asked,
    refusals,
    nonces,
    nextRefusal: () => new Promise((resolve) => waiting.push(resolve)),
    credentials(attempt) {
      asked.push(attempt);
      return given.credentials === undefined ? bearer(`t${asked.length}`) : given.credentials(attempt);
    },
    refused(refusal) {
      refusals.push(refusal);
      for (const resolve of waiting) resolve(refusal);
      waiting = [];
      return given.refused === undefined ? Promise.resolve(true) : given.refused(refusal);
    },
    heardNonce: (_attempt, nonce) => nonces.push(nonce),
  };
}

function refuse(response: ServerResponse, status = 401, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'www-authenticate': 'Bearer error="invalid_token"', ...headers }).end();
}

/** Refuses so many requests, answers the others. */
function refusing(times: number, status = 401): Answer {
  let count = 0;
  return (_request, response) => {
    count += 1;
    if (count > times) answerJson(response);
    else refuse(response, status);
  };
}

const tokens = (requests: readonly { headers: { authorization?: string | undefined } }[]) =>
  requests.map(({ headers }) => headers.authorization);

describe('an attempt carries', () => {
  test.each<[string, HttpAuthorizer['credentials'], string | undefined]>([
    ['what is at hand', () => bearer('now'), 'Bearer now'],
    ['what comes later', async () => bearer('later'), 'Bearer later'],
    ['what is configured where there is nothing', () => null, 'Bearer configured'],
    ['what is configured where nothing comes later', async () => null, 'Bearer configured'],
    [
      'what is configured where nothing can be had',
      () => Promise.reject(new Error('no')),
      'Bearer configured',
    ],
    [
      'what is configured where asking fails',
      () => {
        throw new Error('no');
      },
      'Bearer configured',
    ],
  ])('%s', async (_name, credentials, expected) => {
    const server = await serve((_request, response) => answerJson(response));
    const { post } = await client({
      url: server.origin,
      headers: { authorization: 'Bearer configured' },
      authorizer: authorizer({ credentials }),
    });
    const sent = post();
    expect(await sent.ended).toMatchObject({ kind: 'complete' });
    expect(sent.messages).toEqual([JSON_ANSWER]);
    expect(tokens(server.requests)).toEqual([expected]);
  });

  test('its own, whatever it is, also behind a redirect within the origin', async () => {
    const server = await serve((request, response) => {
      if (request.url === '/mcp') response.writeHead(307, { location: '/other?x=1' }).end();
      else answerJson(response);
    });
    const auth = authorizer();
    const { post } = await client({ url: `${server.origin}/mcp`, authorizer: auth });
    await post().ended;
    await post({ id: null, method: 'notifications/x' }).ended;
    expect(tokens(server.requests)).toEqual(['Bearer t1', 'Bearer t2', 'Bearer t3', 'Bearer t4']);
    expect(auth.asked.map(({ method, url }) => `${method} ${url.pathname}${url.search}`)).toEqual([
      'POST /mcp',
      'POST /other?x=1',
      'POST /mcp',
      'POST /other?x=1',
    ]);
  });

  test.each([301, 302, 303, 307, 308])('nothing to another origin (%i)', async (status) => {
    const canary = await serve((_request, response) => answerJson(response));
    const server = await serve((_request, response) => {
      response.writeHead(status, { location: `${canary.origin}/mcp` }).end();
    });
    const auth = authorizer();
    const { post } = await client({ url: server.origin, authorizer: auth });
    expect(await post().ended).toMatchObject({ kind: 'unreachable', cause: { kind: 'redirected' } });
    expect(canary.connections()).toBe(0);
    expect(auth.asked.map(({ url }) => url.origin)).toEqual([server.origin]);
    expect(auth.refusals).toEqual([]);
  });

  test('the check before the write is made after they were obtained, in the tick of the write', async () => {
    const server = await serve((_request, response) => answerJson(response));
    let give: (credentials: Credentials) => void = () => {};
    const auth = authorizer({
      credentials: () =>
        new Promise((resolve) => {
          give = resolve;
        }),
    });
    const { post } = await client({ url: server.origin, authorizer: auth });
    const mayWrite = vi.fn(() => false);
    const sent = post({ mayWrite });
    expect(mayWrite).not.toHaveBeenCalled();
    give(bearer('late'));
    expect(await sent.ended).toEqual({ kind: 'withheld' });
    expect(mayWrite).toHaveBeenCalledTimes(1);
    expect(server.requests).toEqual([]);
  });

  test('nothing where the message was given up, or all is closed, while they were obtained', async () => {
    const server = await serve((_request, response) => answerJson(response));
    const gives: ((credentials: Credentials) => void)[] = [];
    const auth = authorizer({ credentials: () => new Promise((resolve) => gives.push(resolve)) });
    const { post, transport } = await client({ url: server.origin, authorizer: auth });
    const mayWrite = vi.fn(() => true);
    const aborted = post({ mayWrite });
    const closed = post({ mayWrite });
    transport.abort(aborted);
    gives[0]?.(bearer('late'));
    const closing = transport.close();
    gives[1]?.(bearer('late'));
    await closing;
    expect(mayWrite).not.toHaveBeenCalled();
    expect([...aborted.ends, ...closed.ends]).toEqual([]);
    expect(server.connections()).toBe(0);
  });
});

describe('a refusal', () => {
  test.each([401, 403] as const)('%i: the same bytes go again, with what is had by then', async (status) => {
    const server = await serve(refusing(1, status));
    const auth = authorizer();
    const { post, overheard } = await client({ url: server.origin, authorizer: auth });
    const mayWrite = vi.fn(() => true);
    const text = '{"jsonrpc":"2.0", "id":77,"method":"tools/call","params":{"x":"grüße"}}';
    const sent = post({ text, headers: { 'mcp-method': 'tools/call' }, mayWrite });
    expect(await sent.ended).toEqual({ kind: 'complete', status: 200, redirected: false });
    expect(sent).toMatchObject({ messages: [JSON_ANSWER], written: true, refusal: null });
    expect(sent.ends).toHaveLength(1);
    expect(overheard).toEqual([]);
    expect(server.requests.map(({ body }) => body)).toEqual([text, text]);
    expect(tokens(server.requests)).toEqual(['Bearer t1', 'Bearer t2']);
    expect(server.requests[1]?.headers['mcp-method']).toBe('tools/call');
    expect(mayWrite).toHaveBeenCalledTimes(2);
    expect(auth.refusals).toEqual([
      {
        attempt: { method: 'POST', url: new URL(server.origin) },
        status,
        challenge: 'Bearer error="invalid_token"',
        credentials: bearer('t1'),
        count: 1,
      },
    ]);
  });

  test('is the answer where nothing else can be had', async () => {
    for (const refused of [async () => false, () => Promise.reject(new Error('no')), throwing]) {
      const server = await serve(refusing(9));
      const auth = authorizer({ refused });
      const sent = (await client({ url: server.origin, authorizer: auth })).post();
      expect(await sent.ended).toEqual({
        kind: 'unauthorized',
        status: 401,
        redirected: false,
        challenge: 'Bearer error="invalid_token"',
      });
      expect(sent.ends).toHaveLength(1);
      expect(server.requests).toHaveLength(1);
      expect(auth.refusals).toHaveLength(1);
    }
  });

  const throwing = (): Promise<boolean> => {
    throw new Error('no');
  };

  test('is the answer when it comes again and again', async () => {
    const server = await serve(refusing(99));
    const auth = authorizer();
    const sent = (await client({ url: server.origin, authorizer: auth })).post();
    expect(await sent.ended).toMatchObject({ kind: 'unauthorized', status: 401 });
    expect(auth.refusals.map(({ count }) => count)).toEqual([1, 2, 3]);
    expect(auth.refusals).toHaveLength(MAX_REFUSALS);
    expect(auth.refusals.map(({ credentials }) => credentials)).toEqual(['t1', 't2', 't3'].map(bearer));
    expect(server.requests).toHaveLength(MAX_REFUSALS + 1);
  });

  test('of `initialize` is the answer: it is sent once', async () => {
    const server = await serve(refusing(9));
    const auth = authorizer();
    const sent = (await client({ url: server.origin, authorizer: auth })).post({ method: 'initialize' });
    expect(await sent.ended).toMatchObject({ kind: 'unauthorized' });
    expect(tokens(server.requests)).toEqual(['Bearer t1']);
    expect(auth.refusals).toEqual([]);
  });

  test('of a notification that nobody waits for any more is not asked about', async () => {
    let arrived: (response: ServerResponse) => void = () => {};
    const request = new Promise<ServerResponse>((resolve) => {
      arrived = resolve;
    });
    const server = await serve((_request, response) => arrived(response));
    const auth = authorizer();
    const { post, transport } = await client({ url: server.origin, authorizer: auth });
    const sent = post({ id: null, method: 'notifications/cancelled' });
    const response = await request;
    const closing = transport.close();
    refuse(response);
    await closing;
    expect(auth.refusals).toEqual([]);
    expect(server.requests).toHaveLength(1);
    expect(sent.ends).toEqual([]);
  });

  test('of a notification is asked about while the connection lives', async () => {
    let count = 0;
    const server = await serve((_request, response) => {
      count += 1;
      if (count === 1) refuse(response);
      else response.writeHead(202).end();
    });
    const { post } = await client({ url: server.origin, authorizer: authorizer() });
    const sent = post({ id: null, method: 'notifications/x' });
    expect(await sent.ended).toMatchObject({ kind: 'complete', status: 202 });
    expect(server.requests).toHaveLength(2);
  });

  test('that says more than is read, or never ends saying it, is one all the same', async () => {
    const server = await serve((request, response) => {
      if (request.headers.authorization === 'Bearer t2') return answerJson(response);
      response.writeHead(401, { 'content-type': 'application/json' });
      const more = () => {
        while (!response.destroyed && response.write('x'.repeat(10_000)));
      };
      response.on('drain', more);
      more();
    });
    const auth = authorizer();
    const { post } = await client({ url: server.origin, authorizer: auth });
    expect(await post().ended).toMatchObject({ kind: 'complete' });
    expect(auth.refusals).toHaveLength(1);
  });

  test('whose body is cut off is one all the same', async () => {
    const server = await serve((request, response) => {
      if (request.headers.authorization === 'Bearer t2') return answerJson(response);
      response.writeHead(401, { 'content-length': '100' });
      response.write('{', () => response.socket?.destroy());
    });
    const { post } = await client({ url: server.origin, authorizer: authorizer() });
    expect(await post().ended).toMatchObject({ kind: 'complete' });
  });

  test('whose body is silent is one after a moment, on a connection that is given up', async () => {
    let hung: () => void = () => {};
    const hanging = new Promise<void>((resolve) => {
      hung = resolve;
    });
    const server = await serve((request, response) => {
      if (request.headers.authorization === 'Bearer t2') return answerJson(response);
      response.writeHead(401, { 'content-type': 'application/json' });
      response.write(JSON_ERROR);
      hung();
    });
    const clock = watchedClock();
    const auth = authorizer();
    const { post, overheard } = await client({ url: server.origin, authorizer: auth, clock });
    const sent = post();
    await Promise.all([hanging, clock.timer(1000)]);
    const heard = auth.nextRefusal();
    clock.advance(1000);
    await heard;
    expect(await sent.ended).toMatchObject({ kind: 'complete' });
    // Whether its body had come by then is a race; it settles nothing either way.
    expect([[], [JSON_ERROR]]).toContainEqual(overheard);
    expect(sent.messages).toEqual([JSON_ANSWER]);
    expect(server.connections()).toBe(2);
  });

  test('may carry evidence, which is overheard before credentials are sought', async () => {
    const order: string[] = [];
    let count = 0;
    const server = await serve((_request, response) => {
      count += 1;
      if (count > 1) return answerJson(response);
      response.writeHead(401, { 'content-type': 'application/json' }).end(JSON_ERROR);
    });
    const auth = authorizer({
      refused: async () => {
        order.push(`sought, overheard ${peer.overheard.length}`);
        return true;
      },
    });
    const peer = await client({ url: server.origin, authorizer: auth });
    const sent = peer.post({ method: 'server/discover' });
    expect(await sent.ended).toMatchObject({ kind: 'complete' });
    expect(order).toEqual(['sought, overheard 1']);
    expect(peer.overheard[0]).toBe(JSON_ERROR);
    expect(sent.messages).toEqual([JSON_ANSWER]);
  });

  test('leads to nothing where the message may not be written any more', async () => {
    const server = await serve(refusing(1));
    let allowed = true;
    const auth = authorizer({
      refused: async () => {
        allowed = false;
        return true;
      },
    });
    const sent = (await client({ url: server.origin, authorizer: auth })).post({ mayWrite: () => allowed });
    expect(await sent.ended).toEqual({ kind: 'withheld' });
    expect(server.requests).toHaveLength(1);
  });

  test('leads to nothing after abort, whatever is granted then', async () => {
    const server = await serve(refusing(1));
    let grant: (again: boolean) => void = () => {};
    const auth = authorizer({
      refused: () =>
        new Promise((resolve) => {
          grant = resolve;
        }),
    });
    const { post, transport } = await client({ url: server.origin, authorizer: auth });
    const sent = post();
    await auth.nextRefusal();
    expect(sent.refusal).toMatchObject({ status: 401 });
    transport.abort(sent);
    grant(true);
    // A message sent after it is answered; had the refused one been sent again, it would have been before.
    expect(await post().ended).toMatchObject({ kind: 'complete' });
    await transport.close();
    expect(server.requests).toHaveLength(2);
    expect(sent.ends).toEqual([]);
  });

  test('leads to an attempt that may break', async () => {
    let count = 0;
    const server = await serve((_request, response) => {
      count += 1;
      if (count === 1) refuse(response);
      else response.socket?.resetAndDestroy();
    });
    const sent = (await client({ url: server.origin, authorizer: authorizer() })).post();
    expect(await sent.ended).toMatchObject({ kind: 'broken', cause: { kind: 'reset' } });
    expect(sent.written).toBe(true);
    expect(server.requests).toHaveLength(2);
  });

  test('a challenge is handed on as it came, bounded; what is told of it is sanitized', async () => {
    const server = await serve((_request, response) => {
      response.writeHead(401, {
        'www-authenticate': ['Bearer scope="a"', `Basic realm="${'x'.repeat(9000)}"`],
      });
      response.end();
    });
    const auth = authorizer({ refused: async () => false });
    await (await client({ url: server.origin, authorizer: auth })).post().ended;
    expect(auth.refusals[0]?.challenge).toHaveLength(8192);
    expect(auth.refusals[0]?.challenge).toMatch(/^Bearer scope="a", Basic realm="x/);
  });
});

test('nonces are told, of every answer', async () => {
  let count = 0;
  const server = await serve((_request, response) => {
    count += 1;
    if (count === 1) refuse(response, 401, { 'dpop-nonce': 'n1' });
    else answerJson(response, JSON_ANSWER, { 'dpop-nonce': 'n2' });
  });
  const auth = authorizer({
    refused: async () => {
      expect(auth.nonces).toEqual(['n1']);
      return true;
    },
  });
  await (await client({ url: server.origin, authorizer: auth })).post().ended;
  expect(auth.nonces).toEqual(['n1', 'n2']);
});

test('one that throws at everything harms nothing', async () => {
  const server = await serve((_request, response) =>
    answerJson(response, JSON_ANSWER, { 'dpop-nonce': 'n' }),
  );
  const fail = (): never => {
    throw new Error('broken authorizer');
  };
  const { post } = await client({
    url: server.origin,
    authorizer: { credentials: fail, refused: fail, heardNonce: fail },
  });
  const sent = post();
  expect(await sent.ended).toMatchObject({ kind: 'complete' });
  expect(sent.messages).toEqual([JSON_ANSWER]);
});

describe('a request of a connection whose credentials are being obtained', () => {
  async function refusedForEver() {
    const server = await serve(refusing(99));
    const auth = authorizer({ refused: () => new Promise(() => {}) });
    const clock = createSimulatedClock();
    const { connection } = await connectTo(
      streamableHttpTransport({ url: server.origin, clock, authorizer: auth }),
      clock,
    );
    await connection.select(modern);
    return { server, auth, clock, connection };
  }
  const unauthorized = { kind: 'unauthorized', written: true, status: 401 };

  it('is unauthorized at its deadline, not silent', async () => {
    const { auth, clock, connection, server } = await refusedForEver();
    const { outcome } = connection.request('tools/list', '', { timeoutMs: 100 });
    await auth.nextRefusal();
    clock.advance(100);
    expect(await outcome).toMatchObject(unauthorized);
    expect(server.requests).toHaveLength(1);
  });

  it('is unauthorized when the connection is closed', async () => {
    const { auth, connection } = await refusedForEver();
    const { outcome } = connection.request('tools/list', '', { timeoutMs: 100 });
    await auth.nextRefusal();
    await connection.close();
    expect(await outcome).toMatchObject(unauthorized);
  });

  it('is cancelled by its caller', async () => {
    const { auth, connection, server } = await refusedForEver();
    const controller = new AbortController();
    const { outcome } = connection.request('tools/list', '', { timeoutMs: 100, signal: controller.signal });
    await auth.nextRefusal();
    controller.abort();
    expect(await outcome).toMatchObject({ kind: 'cancelled' });
    expect(server.requests).toHaveLength(1);
  });
});

/** A clock that tells when a timer of that length is set. */
function watchedClock() {
  const clock = createSimulatedClock();
  const set: number[] = [];
  let waiting: { ms: number; resolve: () => void }[] = [];
  onTestFinished(() => expect(waiting).toEqual([]));
  return {
    now: () => clock.now(),
    setTimeout(fn: (...args: unknown[]) => void, ms: number) {
      set.push(ms);
      for (const one of waiting) if (one.ms === ms) one.resolve();
      waiting = waiting.filter((one) => one.ms !== ms);
      return clock.setTimeout(fn, ms);
    },
    clearTimeout: (handle: unknown) => clock.clearTimeout(handle),
    advance: (ms: number) => clock.advance(ms),
    timer: (ms: number): Promise<void> =>
      set.includes(ms) ? Promise.resolve() : new Promise((resolve) => waiting.push({ ms, resolve })),
  };
}
