/** The breaker of a peer, as callers see it. */
import { describe, expect, test } from 'vitest';
import type { InspectionEvent } from 'xstate';
import type { CallOutcome } from '../../src/calls/outcome.js';
import type { CreateHostOptions } from '../../src/host/createHost.js';
import type { StreamEnd } from '../../src/transports/transport.js';
import {
  broken,
  CallServer,
  type HeardCall,
  type ServerOptions,
  type Setting,
  setting,
  turns,
  unreachable,
} from '../calls/callHarness.js';

const OPEN_MS = 10_000;

function breakerSetting(server: ServerOptions = {}, options: Omit<CreateHostOptions, 'peers'> = {}) {
  return setting(new CallServer({ perRequestStreams: true, ...server }), {
    breakerThreshold: 3,
    breakerOpenMs: OPEN_MS,
    ...options,
  });
}

const breakerOf = ({ host }: Setting) => host.status().peers[0]?.breaker;

/** One call, and what the server does about it. */
async function one({ host, server }: Setting, act: (heard: HeardCall) => unknown): Promise<CallOutcome> {
  const call = host.call('work');
  const heard = await server.next();
  await act(heard);
  const outcome = await call;
  await turns();
  return outcome;
}

/** Calls that fail until it is open. */
async function open(at: Setting, failures = 3): Promise<void> {
  for (let count = 0; count < failures; count += 1) await one(at, (heard) => heard.end(broken));
  expect(breakerOf(at)).toBe('open');
}

describe('opens after so many in a row', () => {
  test.each<[string, (at: Setting) => (heard: HeardCall) => unknown]>([
    [
      'deadlines',
      ({ pass }) =>
        () =>
          pass(60_000),
    ],
    ['resets', () => (heard) => heard.end(broken)],
    ['answers of a gateway', () => (heard) => heard.end(unreachable(502))],
  ])('%s', async (_name, fail) => {
    const at = await breakerSetting();
    for (let count = 1; count <= 3; count += 1) {
      expect(breakerOf(at)).toBe('closed');
      expect((await one(at, fail(at))).delivery).toBe('unknown');
    }
    expect(breakerOf(at)).toBe('open');

    const refused = await at.host.call('work');
    expect(refused).toMatchObject({ status: 'unavailable', delivery: 'not-sent', attempts: 0 });
    expect('message' in refused && refused.message).toMatch(
      /^Calls to it are held back, .*; call again later\.$/,
    );
    expect(at.server.calls).toHaveLength(3);
    at.expectIdle();
    expect(at.host.status().peers[0]?.lastError).not.toBeNull();
  });

  test('deadlines in which the pipe took nothing', async () => {
    const at = await breakerSetting({ perRequestStreams: false });
    at.server.control.hold();
    const calls = [1, 2, 3].map((s) => at.host.call('work', {}, { timeoutMs: 1_000 * s }));
    await at.pass(3_000);
    for (const call of calls) expect(await call).toMatchObject({ status: 'timeout', delivery: 'not-sent' });
    expect(breakerOf(at)).toBe('open');
  });

  test('and whoever is in the queue is refused in turn: nothing is sent', async () => {
    const at = await breakerSetting({ more: { maxInFlight: 3 } });
    const calls = Array.from({ length: 8 }, () => at.host.call('work'));
    for (let count = 0; count < 3; count += 1) (await at.server.next()).end(broken);
    const outcomes = await Promise.all(calls);
    expect(outcomes.map(({ status, delivery }) => `${status} ${delivery}`)).toEqual([
      ...Array(3).fill('lost unknown'),
      ...Array(5).fill('unavailable not-sent'),
    ]);
    // Those that took the places of the first two came before it was open.
    expect(at.server.calls.length).toBeLessThanOrEqual(5);
  });
});

describe('stays closed', () => {
  test.each<[string, ServerOptions, (heard: HeardCall) => unknown, string]>([
    ['errors of the tool', {}, (heard) => heard.answer({ isError: true }), 'tool-error'],
    ['JSON-RPC errors', {}, (heard) => heard.refuse(-32603), 'protocol-error'],
    ['results that are none', {}, (heard) => heard.answer({ content: 7 }), 'invalid-result'],
    [
      'answers that are none',
      {},
      (heard) => heard.end({ kind: 'malformed', status: 200, redirected: false, detail: 'no JSON' }),
      'protocol-error',
    ],
    [
      'refused credentials',
      {},
      (heard) => heard.end({ kind: 'unauthorized', status: 401, redirected: false, challenge: null }),
      'unavailable',
    ],
  ])('on %s', async (_name, server, act, status) => {
    const at = await breakerSetting(server);
    for (let count = 0; count < 5; count += 1) expect((await one(at, act)).status).toBe(status);
    expect(breakerOf(at)).toBe('closed');
    expect((await one(at, (heard) => heard.answer())).status).toBe('ok');
  });

  test('on calls that their callers gave up', async () => {
    const at = await breakerSetting();
    for (let count = 0; count < 5; count += 1) {
      const control = new AbortController();
      const call = at.host.call('work', {}, { signal: control.signal });
      await at.server.next();
      control.abort();
      expect((await call).status).toBe('cancelled');
    }
    expect(breakerOf(at)).toBe('closed');
  });

  test('on sessions that are lost, time and again', async () => {
    const at = await breakerSetting({ era: 'legacy' }, { breakerThreshold: 1 });
    const gone: StreamEnd = { kind: 'status', status: 404, redirected: false, detail: '', hadSession: true };
    for (let count = 0; count < 3; count += 1) {
      expect(await one(at, (heard) => heard.end(gone))).toMatchObject({ delivery: 'unknown' });
      expect(breakerOf(at)).toBe('closed');
      expect(at.host.peer('it').state).toBe('reconnecting');
      await at.pass(1_000);
      expect(at.host.peer('it').state).toBe('legacy');
    }
    expect((await one(at, (heard) => heard.answer())).status).toBe('ok');
  });

  test.each<[string, (heard: HeardCall) => unknown]>([
    ['a result', (heard) => heard.answer()],
    ['an error of the tool', (heard) => heard.answer({ isError: true })],
    ['a JSON-RPC error', (heard) => heard.refuse(-32603)],
    [
      'an answer that is none',
      (heard) => heard.end({ kind: 'malformed', status: 200, redirected: false, detail: '' }),
    ],
  ])('where %s comes between the failures', async (_name, act) => {
    const at = await breakerSetting();
    for (let count = 0; count < 3; count += 1) {
      await one(at, (heard) => heard.end(broken));
      await one(at, (heard) => heard.end(broken));
      await one(at, act);
    }
    expect(breakerOf(at)).toBe('closed');
  });

  test('for ever where the threshold is 0', async () => {
    const at = await breakerSetting({}, { breakerThreshold: 0 });
    for (let count = 0; count < 20; count += 1) await one(at, (heard) => heard.end(broken));
    expect(breakerOf(at)).toBe('closed');
    expect(at.server.calls).toHaveLength(20);
  });
});

describe('half open', () => {
  test('lets exactly one of fifty through; a success closes it for all', async () => {
    const at = await breakerSetting();
    await open(at);
    await at.pass(OPEN_MS - 1);
    expect(breakerOf(at)).toBe('open');
    await at.pass(1);
    expect(breakerOf(at)).toBe('halfOpen');
    const calls = Array.from({ length: 50 }, () => at.host.call('work'));
    await turns();
    expect(at.server.calls).toHaveLength(4);
    (await at.server.next()).answer();
    const outcomes = (await Promise.all(calls)).map(({ status, delivery }) => `${status} ${delivery}`);
    expect(outcomes.filter((outcome) => outcome === 'ok answered')).toHaveLength(1);
    expect(outcomes.filter((outcome) => outcome === 'unavailable not-sent')).toHaveLength(49);
    expect(breakerOf(at)).toBe('closed');

    const after = Array.from({ length: 50 }, () => at.host.call('work'));
    await turns();
    for (let count = 0; count < 50; count += 1) (await at.server.next()).answer();
    expect((await Promise.all(after)).every(({ status }) => status === 'ok')).toBe(true);
    at.expectIdle();
  });

  test('a failure opens it again, for twice as long', async () => {
    const at = await breakerSetting();
    await open(at);
    await at.pass(OPEN_MS);
    await one(at, (heard) => heard.end(broken));
    expect(breakerOf(at)).toBe('open');
    await at.pass(2 * OPEN_MS - 1);
    expect(breakerOf(at)).toBe('open');
    await at.pass(1);
    expect(breakerOf(at)).toBe('halfOpen');
  });

  test.each<[string, (at: Setting, control: AbortController) => unknown]>([
    ['that its caller gives up', (_at, control) => control.abort()],
    ['that was given up before it was sent', () => {}],
  ])('a trial %s gives its place back', async (name, act) => {
    const at = await breakerSetting();
    await open(at);
    await at.pass(OPEN_MS);
    const control = new AbortController();
    if (name.includes('before')) control.abort();
    const call = at.host.call('work', {}, { signal: control.signal });
    await turns();
    act(at, control);
    expect((await call).status).toBe('cancelled');
    expect(breakerOf(at)).toBe('halfOpen');
    const before = at.server.calls.length;
    const next = at.host.call('work');
    await turns();
    expect(at.server.calls).toHaveLength(before + 1);
    at.server.calls.at(-1)?.answer();
    expect((await next).status).toBe('ok');
    expect(breakerOf(at)).toBe('closed');
  });

  test.each<[string, (heard: HeardCall) => unknown]>([
    ['a JSON-RPC error', (heard) => heard.refuse(-32603)],
    ['an error of the tool', (heard) => heard.answer({ isError: true })],
  ])('%s is an answer: it closes', async (_name, act) => {
    const at = await breakerSetting();
    await open(at);
    await at.pass(OPEN_MS);
    await one(at, act);
    expect(breakerOf(at)).toBe('closed');
  });
});

describe('what comes to a call from before', () => {
  async function withOld(threshold: number) {
    const at = await breakerSetting({}, { breakerThreshold: threshold });
    const old = at.host.call('work', {}, { timeoutMs: 1_000_000 });
    return { at, old, heard: await at.server.next() };
  }

  test('while it is open says nothing, good or bad', async () => {
    const bad = await withOld(1);
    await open(bad.at, 1);
    bad.heard.end(broken);
    await bad.old;
    await bad.at.pass(OPEN_MS);
    expect(breakerOf(bad.at)).toBe('halfOpen');

    const good = await withOld(1);
    await open(good.at, 1);
    good.heard.answer();
    expect((await good.old).status).toBe('ok');
    await turns();
    expect(breakerOf(good.at)).toBe('open');
  });

  test('while a trial is out says nothing', async () => {
    const { at, old, heard } = await withOld(1);
    await open(at, 1);
    await at.pass(OPEN_MS);
    const trial = at.host.call('work');
    await turns();
    heard.end(broken);
    await old;
    await turns();
    expect(breakerOf(at)).toBe('halfOpen');
    expect((await at.host.call('work')).status).toBe('unavailable');
    at.server.calls.at(-1)?.answer();
    expect((await trial).status).toBe('ok');
    expect(breakerOf(at)).toBe('closed');
  });

  test('after it closed again says nothing', async () => {
    const { at, old, heard } = await withOld(1);
    await open(at, 1);
    await at.pass(OPEN_MS);
    await one(at, (trial) => trial.answer());
    expect(breakerOf(at)).toBe('closed');
    heard.end(broken);
    expect((await old).status).toBe('lost');
    await turns();
    expect(breakerOf(at)).toBe('closed');
    // A new one counts.
    await at.pass(1);
    await one(at, (fresh) => fresh.end(broken));
    expect(breakerOf(at)).toBe('open');
  });
});

test('a reconnect starts closed', async () => {
  const at = await breakerSetting();
  await open(at);
  at.server.lose();
  await turns();
  expect(breakerOf(at)).toBe('closed');
  await at.pass(1_000);
  expect(at.host.peer('it').state).toBe('modern');
  expect((await one(at, (heard) => heard.answer())).status).toBe('ok');
  // Two of the failures that are needed: nothing of the old connection is counted.
  await one(at, (heard) => heard.end(broken));
  await one(at, (heard) => heard.end(broken));
  expect(breakerOf(at)).toBe('closed');
});

test('a reconnect in the midst of a trial leaves no trial behind', async () => {
  const at = await breakerSetting();
  await open(at);
  await at.pass(OPEN_MS);
  const trial = at.host.call('work');
  await at.server.next();
  at.server.lose();
  expect((await trial).status).toBe('lost');
  await at.pass(1_000);
  await open(at);
  await at.pass(OPEN_MS);
  expect((await one(at, (heard) => heard.answer())).status).toBe('ok');
  expect(breakerOf(at)).toBe('closed');
});

test('breakers of two peers know nothing of each other', async () => {
  const at = await breakerSetting();
  const other = new CallServer({ tools: ['play'] });
  await at.host.addPeer('other', other.config);
  await open(at);
  const call = at.host.call('play');
  (await other.next()).answer();
  expect((await call).status).toBe('ok');
  expect(at.host.status().peers.map(({ breaker }) => breaker)).toEqual(['open', 'closed']);
});

test('while it is closed no call passes an event of XState, nor after it was open', async () => {
  const seen: string[] = [];
  const at = await breakerSetting(
    {},
    {
      inspect: (event: InspectionEvent) => {
        if (event.type === '@xstate.event') seen.push(event.event.type);
        else seen.push(event.type);
      },
    },
  );
  const hundred = async (): Promise<void> => {
    const calls = Array.from({ length: 100 }, (_, at) =>
      // Also with all that a call can bring.
      at % 2 === 0 ? undefined : { onProgress: () => {}, signal: new AbortController().signal },
    ).map((options) => at.host.call('work', {}, options));
    for (let count = 0; count < 100; count += 1) {
      const heard = await at.server.next();
      heard.progress();
      heard.answer(count % 3 === 0 ? { isError: true } : {});
    }
    await Promise.all(calls);
    await turns();
  };
  seen.length = 0;
  await hundred();
  expect(seen).toEqual([]);

  await open(at);
  expect(seen).toContain('breaker.wanted');
  await at.pass(OPEN_MS);
  await one(at, (heard) => heard.answer());
  expect(breakerOf(at)).toBe('closed');
  seen.length = 0;
  await hundred();
  expect(seen).toEqual([]);
});
