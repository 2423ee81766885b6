// Calls over real sockets that break at every point: what callers are told, and what was executed.
import { getEventListeners } from 'node:events';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { type Arrived, HttpToolServer } from './httpToolServer.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const ERAS = ['modern', 'legacy'] as const;
const hosts: Host[] = [];
afterEach(() => Promise.all(hosts.splice(0).map((host) => host.stop())));

type Options = Omit<CreateHostOptions, 'peers'> & { readonly repeatable?: readonly string[] };

async function start(era: (typeof ERAS)[number], { repeatable = [], ...options }: Options = {}) {
  const server = await new HttpToolServer(era).listen();
  const host = createHost({
    // Deadlines that a busy machine cannot reach, and no long wait before a new attempt.
    probeTimeoutMs: 60_000,
    legacyProbeTimeoutMs: 60_000,
    listTimeoutMs: 60_000,
    startTimeoutMs: 100_000,
    callTimeoutMs: 100_000,
    backoffMinMs: 10,
    backoffMaxMs: 50,
    maxAttempts: 1_000,
    ...options,
    peers: { it: { url: server.url, allowLegacy: era === 'legacy', repeatable } },
  });
  hosts.push(host);
  await host.start();
  expect(host.peer('it').state).toBe(era);
  return { server, host };
}

const eventually = <T>(value: () => T) => expect.poll(value, { timeout: 60_000, interval: 5 });

/** What a server does after it executed a tool, in place of an answer. */
const BREAKS: readonly [string, (call: Arrived) => void][] = [
  ['resets the connection', (call) => call.socket.resetAndDestroy()],
  ['closes the connection', (call) => call.socket.destroy()],
  [
    'ends an empty event stream',
    (call) => {
      call.stream();
      call.response.end();
    },
  ],
  [
    'ends an event stream after progress',
    (call) => {
      call.stream(call.progress());
      call.response.end();
    },
  ],
  [
    'resets the connection in the midst of an event stream',
    (call) => {
      call.stream(call.progress());
      call.response.write('data: {"jsonrpc":"2.0","id":', () => call.socket.resetAndDestroy());
    },
  ],
  ['is behind a gateway that says 502', (call) => call.status(502)],
];

describe.each(ERAS)('a %s server that executed the call and', (era) => {
  it.each(BREAKS)('%s: unknown at once, executed once, and the peer goes on', async (_how, act) => {
    const { server, host } = await start(era);
    server.onCall = (call) => {
      server.executed.push(call.key);
      if (call.key === 'x') act(call);
      else call.answer();
    };
    expect(host.catalog().entries.get('work')?.annotations).toMatchObject({ idempotentHint: true });
    const outcome = await host.call('work', { key: 'x' }, { onProgress: () => {} });
    expect(outcome).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 1 });
    expect('message' in outcome && outcome.message).toContain('may have been executed');
    await host.peer('it').waitUntil('callable');
    expect(await host.call('work', { key: 'y' })).toMatchObject({ status: 'ok' });
    expect(server.executed).toEqual(['x', 'y']);
    expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
  });

  it.each(BREAKS)('%s: sent again where the host calls it repeatable', async (_how, act) => {
    const { server, host } = await start(era, { repeatable: ['work'] });
    const ids = new Set<number>();
    server.onCall = (call) => {
      server.executed.push(call.key);
      ids.add(call.id);
      if (ids.size === 1) act(call);
      else call.answer();
    };
    const outcome = await host.call('work', { key: 'x' });
    expect(outcome).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 2 });
    expect(server.executed).toEqual(['x', 'x']);
    expect(ids.size).toBe(2);
  });
});

describe.each(ERAS)('a %s server that stalls after a report of progress', (era) => {
  it.each(['deadline', 'signal'])('by its %s the call ends, also on the wire', async (by) => {
    const clock = createSimulatedClock();
    const { server, host } = await start(era, { clock });
    const calls: Arrived[] = [];
    server.onCall = (call) => {
      call.stream(call.progress());
      calls.push(call);
    };
    const control = new AbortController();
    let report: () => void = () => {};
    const reported = new Promise<void>((resolve) => {
      report = resolve;
    });
    const pending = host.call(
      'work',
      {},
      { timeoutMs: 5_000, signal: control.signal, onProgress: () => report() },
    );
    await reported;
    if (by === 'deadline') clock.advance(5_000);
    else control.abort();
    const [call] = calls;
    expect(await call?.over).toBe(true);
    expect(await pending).toMatchObject({
      status: by === 'deadline' ? 'timeout' : 'cancelled',
      delivery: 'unknown',
    });
    if (era === 'legacy') await eventually(() => server.cancelled).toMatchObject([{ requestId: call?.id }]);
    else expect(server.cancelled).toEqual([]);
    expect(getEventListeners(control.signal, 'abort')).toEqual([]);
  });
});

describe('Retry-After', () => {
  it.each([429, 503])('of HTTP %i is waited for, where the call is repeatable', async (code) => {
    const clock = createSimulatedClock();
    const { server, host } = await start('modern', { clock, repeatable: ['work'] });
    const times: number[] = [];
    server.onCall = (call) => {
      times.push(clock.now());
      if (times.length === 1) call.status(code, { 'retry-after': '20' });
      else call.answer();
    };
    const call = host.call('work');
    await eventually(() => times.length).toBe(1);
    while (times.length === 1) {
      clock.advance(250);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(await call).toMatchObject({ status: 'ok', attempts: 2 });
    expect((times[1] as number) - (times[0] as number)).toBeGreaterThanOrEqual(20_000);
  });
});

describe('an endpoint that is not there', () => {
  it.each(ERAS)('%s: calls in the queue wait for it and are sent once', async (era) => {
    const { server, host } = await start(era, { maxInFlight: 1 });
    let stopped: Promise<void> | null = null;
    server.onCall = () => {
      // The whole endpoint goes, with the call in its hands.
      stopped = server.stop();
    };
    const calls = ['a', 'b', 'c'].map((key) => host.call('work', { key }));
    expect(await calls[0]).toMatchObject({ status: 'lost', delivery: 'unknown' });
    await stopped;
    await eventually(() => host.peer('it').state).toBe('reconnecting');
    server.onCall = (call) => {
      server.executed.push(call.key);
      call.answer();
    };
    const before = server.methods.length;
    await server.listen();
    for (const call of calls.slice(1)) expect(await call).toMatchObject({ status: 'ok', attempts: 1 });
    expect(server.executed).toEqual(['b', 'c']);
    const after = server.methods.slice(before);
    expect(after.indexOf('tools/list')).toBeLessThan(after.indexOf('tools/call'));
  });
});

describe('a session that is gone (legacy)', () => {
  it('after the tool was executed: unknown, executed once, one new negotiation for ten calls', async () => {
    const { server, host } = await start('legacy');
    const keys = Array.from({ length: 10 }, (_, at) => `k${at}`);
    const together: Arrived[] = [];
    server.onCall = (call) => {
      server.executed.push(call.key);
      if (together.push(call) === keys.length) for (const one of together) one.status(404);
      else if (together.length > keys.length) call.answer();
    };
    const outcomes = await Promise.all(keys.map((key) => host.call('work', { key })));
    for (const outcome of outcomes) {
      // Those whose answers did not come before the connection was given up are lost with it.
      expect(['unavailable', 'lost']).toContain(outcome.status);
      expect(outcome.delivery).toBe('unknown');
    }
    await eventually(() => host.peer('it').state).toBe('legacy');
    await eventually(async () => (await host.call('work', { key: 'after' })).status).toBe('ok');
    expect(server.count('initialize')).toBe(2);
    expect(server.executed.sort()).toEqual(['after', ...keys]);
  });

  it('before each call, with sockets reset besides: healed each time, the breaker stays closed', async () => {
    const { server, host } = await start('legacy', { breakerThreshold: 2 });
    for (let round = 1; round <= 4; round += 1) {
      server.expire();
      server.reset();
      await eventually(() => server.sockets.size).toBe(0);
      const outcome = await host.call('work', { key: `lost-${round}` });
      // The 404 says nothing about the transport. Lost: it was written before the reset was heard of.
      expect(['unavailable', 'lost']).toContain(outcome.status);
      expect(outcome.message?.length).toBeGreaterThan(20);
      expect(host.status().peers[0]?.breaker).toBe('closed');
      await eventually(() => host.peer('it').state).toBe('legacy');
      await eventually(async () => (await host.call('work', { key: `ok-${round}` })).status).toBe('ok');
      expect(server.count('initialize')).toBe(1 + round);
    }
    expect(server.executed.filter((key) => key.startsWith('lost'))).toEqual([]);
  });
});

describe('calls to a tool that is not there', () => {
  it('a hundred at once send nothing and disturb nothing', async () => {
    const { server, host } = await start('modern');
    const before = server.methods.length;
    const outcomes = await Promise.all(Array.from({ length: 100 }, () => host.call('missing')));
    expect(outcomes.every(({ status, delivery }) => status === 'not-found' && delivery === 'not-sent')).toBe(
      true,
    );
    expect(server.methods.length).toBe(before);
    expect(host.status().peers[0]).toMatchObject({ generation: 1, state: 'modern', breaker: 'closed' });
    expect(await host.call('work', { key: 'x' })).toMatchObject({ status: 'ok' });
  });
});

describe('one signal for a hundred calls', () => {
  it.each(ERAS)('%s: cancels them all, warns of nothing and keeps no listener', async (era) => {
    const warnings: Error[] = [];
    const hear = (warning: Error): void => void warnings.push(warning);
    process.on('warning', hear);
    const { server, host } = await start(era, { maxInFlight: 40 });
    const arrivedCalls: Arrived[] = [];
    server.onCall = (call) => void arrivedCalls.push(call);
    const control = new AbortController();
    const calls = Array.from({ length: 100 }, (_, at) =>
      host.call('work', { key: String(at) }, { signal: control.signal }),
    );
    await eventually(() => arrivedCalls.length).toBe(40);
    expect(host.status()).toMatchObject({ inFlight: 40, queued: 60 });
    control.abort();
    const outcomes = await Promise.all(calls);
    expect(outcomes.every(({ status }) => status === 'cancelled')).toBe(true);
    expect(outcomes.filter(({ delivery }) => delivery === 'unknown')).toHaveLength(40);
    expect(outcomes.filter(({ delivery }) => delivery === 'not-sent')).toHaveLength(60);
    expect((await Promise.all(arrivedCalls.map(({ over }) => over))).every(Boolean)).toBe(true);
    expect(getEventListeners(control.signal, 'abort')).toEqual([]);
    expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
    await new Promise((resolve) => setImmediate(resolve));
    process.off('warning', hear);
    expect(warnings).toEqual([]);
  });
});
