import { afterEach, describe, expect, it } from 'vitest';
import type { CustomPeerConfig } from '../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host, PeerStateName } from '../../src/host/facade.js';
import type { UnreachableCause } from '../../src/protocol/exchange.js';
import { createSimulatedClock, type SimulatedClock } from '../../src/testing/clock.js';
import { advance, quiet, settled } from '../../src/testing/drive.js';
import { memoryTransport } from '../../src/transports/memory.js';
import type { Transport, TransportEvents, TransportFactory } from '../../src/transports/transport.js';
import { type Fake, type FakeOptions, legacyFake, modernFake, tool } from './fakes.js';
import { listeningFake } from './subscribingFakes.js';

const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

function make(peers: Record<string, CustomPeerConfig>, options: Omit<CreateHostOptions, 'peers'> = {}) {
  const clock = createSimulatedClock();
  const host = createHost({ clock, ...options, peers });
  hosts.push(host);
  return { host, clock };
}

async function started(fake: Fake, options: Omit<CreateHostOptions, 'peers'> = {}) {
  const made = make({ one: fake.config }, options);
  await made.host.start();
  await quiet();
  return made;
}

const EXIT = { kind: 'exit', detail: 'the process exited with code 1', exitCode: 1 } as const;
const lose = (fake: Fake): void => fake.connections.at(-1)?.close(EXIT);

/** `transport`, closed only when the function that `held` is given is called. */
function closedLater(transport: Transport, held: (close: () => void) => void): Transport {
  return {
    kind: transport.kind,
    perRequestStreams: false,
    open: () => transport.open(),
    send: (text, exchange) => transport.send(text, exchange),
    abort: (exchange) => transport.abort(exchange),
    close: () =>
      new Promise((resolve) => {
        held(() => void transport.close().then(resolve));
      }),
  };
}

/** A peer that is never reached, and when that was tried. */
function unreachable(clock: () => SimulatedClock, cause: Partial<UnreachableCause> = {}) {
  const tried: number[] = [];
  const config: CustomPeerConfig = {
    identity: 'unreachable',
    createTransport: memoryTransport({
      peer: () => ({
        open: () => {
          tried.push(clock().now());
          const refused = { kind: 'connect-failed', detail: 'ECONNREFUSED', terminal: false } as const;
          return { ok: false, cause: { ...refused, ...cause } };
        },
        receive: () => undefined,
      }),
    }),
  };
  return { config, tried };
}

const gaps = (times: readonly number[]): number[] =>
  times.slice(1).map((time, index) => time - (times[index] ?? 0));

describe('the wait before each attempt', () => {
  it.each([
    [0, [0, 0, 0, 0, 0, 0]],
    [0.5, [250, 500, 1_000, 2_000, 2_500, 2_500]],
    [1 - 2 ** -32, [500, 1_000, 2_000, 4_000, 5_000, 5_000]],
  ])('is drawn from all of the time up to a bound that doubles (%f of it)', async (chance, waits) => {
    const options = { random: () => chance, backoffMinMs: 500, backoffMaxMs: 5_000, maxAttempts: 6 };
    let clock = createSimulatedClock();
    const { config, tried } = unreachable(() => clock);
    const made = make({ one: config }, { ...options, retryUnavailableAfterMs: 0 });
    clock = made.clock;
    await made.host.start();
    await advance(clock, 100_000);
    expect(gaps(tried)).toEqual(waits);
    expect(made.host.peer('one').report()).toMatchObject({
      state: 'unavailable',
      reason: { code: 'unreachable' },
    });
    expect(clock.pendingTimers).toBe(0);
  });

  it('is at least what a server asks for, also where the attempts are used up', async () => {
    const probes: number[] = [];
    const fake = modernFake({
      perRequestStreams: true,
      on: ({ method, id }, self) => {
        if (method !== 'server/discover') return undefined;
        probes.push(clock.now());
        const detail = 'HTTP 503 Service Unavailable';
        const cause = { kind: 'http-status', detail, terminal: false, retryAfterMs: 90_000 } as const;
        queueMicrotask(() =>
          self.connections.at(-1)?.end(id ?? 0, { kind: 'unreachable', redirected: false, cause }),
        );
        return null;
      },
    });
    const { host, clock } = make({ one: fake.config }, { maxAttempts: 2, retryUnavailableAfterMs: 60_000 });
    await host.start();
    await advance(clock, 3 * 90_000);
    expect(gaps(probes)).toEqual([90_000, 90_000, 90_000]);
    expect(
      host
        .peer('one')
        .report()
        .path.filter((state) => state === 'unavailable'),
    ).toHaveLength(1);
  });

  it('is none for a command that does not exist: it is not tried again', async () => {
    const { host, clock } = make({
      one: { command: '/no/such/command', args: [] } as unknown as CustomPeerConfig,
    });
    const { peers } = await host.start();
    expect(peers).toMatchObject([
      { path: ['idle', 'probing', 'unavailable'], reason: { message: expect.stringContaining('not found') } },
    ]);
    await advance(clock, 3_600_000);
    expect(host.peer('one').report().path).toEqual(['idle', 'probing', 'unavailable']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('starts small again after a connection that was stable, and only then', async () => {
    const fake = modernFake();
    const { host, clock } = await started(fake, {
      random: () => 1 - 2 ** -32,
      backoffMinMs: 1_000,
      backoffMaxMs: 64_000,
      stableAfterMs: 30_000,
    });
    const waits: number[] = [];
    const after = async (livedMs: number): Promise<void> => {
      await advance(clock, livedMs);
      lose(fake);
      const from = clock.now();
      await advance(clock, 0);
      while (host.peer('one').state === 'reconnecting') await advance(clock, 1);
      waits.push(clock.now() - from);
      await quiet();
    };
    for (const livedMs of [29_999, 29_999, 29_000, 30_000, 0]) await after(livedMs);
    expect(waits).toEqual([1_000, 2_000, 4_000, 1_000, 2_000]);
  });
});

describe('a server that starts and dies again and again', () => {
  const mortal = (options: FakeOptions = {}) =>
    modernFake({
      ...options,
      on: ({ method }, self) => {
        if (method !== 'tools/list') return undefined;
        lose(self);
        return null;
      },
    });

  it('is started so often and no more, and the reason says what it does', async () => {
    const fake = mortal();
    const { host, clock } = make({ one: fake.config }, { maxAttempts: 3, retryUnavailableAfterMs: 0 });
    await host.start();
    await advance(clock, 600_000);
    expect(fake.connections).toHaveLength(4);
    const { state, reason } = host.peer('one').report();
    expect(state).toBe('unavailable');
    expect(reason?.message).toContain('4 times in a row');
    expect(reason?.message).toContain('30000 ms (stableAfterMs)');
    expect(reason?.message).toContain('code 1');
  });

  it('that recovers in time is as any other', async () => {
    let deaths = 2;
    const fake = modernFake({
      on: ({ method }, self) => {
        if (method !== 'tools/list' || deaths === 0) return undefined;
        deaths -= 1;
        lose(self);
        return null;
      },
    });
    const { host, clock } = make({ one: fake.config }, { maxAttempts: 3 });
    await host.start();
    await advance(clock, 30_000 + 60_000);
    expect(fake.connections).toHaveLength(3);
    expect(host.peer('one').report()).toMatchObject({ state: 'modern', reason: null });
    lose(fake);
    await quiet();
    expect(host.peer('one').report().reason?.message).not.toContain('in a row');
  });
});

describe('the order on the wire after a loss', () => {
  it.each([
    [
      'modern',
      () => listeningFake(),
      ['server/discover', 'tools/list', 'subscriptions/listen', 'tools/call'],
    ],
    [
      'legacy',
      () => legacyFake(),
      ['server/discover', 'initialize', 'notifications/initialized', 'tools/list', 'tools/call'],
    ],
  ] as const)('%s: the negotiation, the list, the subscription, then calls', async (_, create, order) => {
    const fake = create();
    const { host, clock } = await started(fake);
    // The pipe takes nothing, so that nothing of these calls is sent.
    fake.connections[0]?.hold();
    const pending = [1, 2, 3].map((q) => host.call('search', { q: String(q) }));
    while ((host.status().peers[0]?.inFlight ?? 0) < 3) await quiet();
    const before = fake.heard.length;
    lose(fake);
    await advance(clock, 1_000);
    const outcomes = await Promise.all(pending);
    expect(outcomes).toMatchObject(
      [1, 2, 3].map(() => ({ status: 'ok', delivery: 'answered', attempts: 1 })),
    );
    const methods = fake.methods().slice(before);
    // The acknowledgement of the subscription brings another list, before or after the first call.
    expect([...new Set(methods)]).toEqual(order);
    expect(methods.filter((method) => method === 'tools/call')).toHaveLength(3);
  });

  it('a call that is made while the lists are fetched anew waits for them', async () => {
    let listings = 0;
    const fake = modernFake({
      on: ({ method }) => {
        listings += method === 'tools/list' ? 1 : 0;
        return method === 'tools/list' && listings === 2 ? null : undefined;
      },
    });
    const { host, clock } = await started(fake);
    lose(fake);
    await advance(clock, 1_000);
    expect(host.peer('one').state).toBe('modern');
    const pending = host.call('search', {});
    await quiet();
    expect(fake.methods().at(-1)).toBe('tools/list');
    fake.say({ id: fake.heard.at(-1)?.id as number, result: { tools: [tool('search')] } });
    expect(await pending).toMatchObject({ status: 'ok', attempts: 1 });
  });
});

describe('what belongs to the connection before', () => {
  it('is gone: era, revision, server, lists, and what the server declared', async () => {
    const clock = createSimulatedClock();
    const old = legacyFake();
    const renewed = modernFake({ tools: ['other'] });
    let factory: TransportFactory = old.config.createTransport;
    const host = createHost({
      clock,
      peers: {
        one: { identity: 'one', allowLegacy: true, createTransport: (events) => factory(events) },
      },
    });
    hosts.push(host);
    await host.start();
    expect(host.status().peers).toMatchObject([{ era: 'legacy', revision: '2025-11-25', generation: 1 }]);
    factory = renewed.config.createTransport;
    lose(old);
    await quiet();
    expect(host.status().peers).toMatchObject([{ state: 'reconnecting', era: 'unknown', revision: null }]);
    expect(host.peer('one').report().server).toBeNull();
    expect(host.catalog().entries.get('search')?.freshness).toBe('stale');
    await advance(clock, 1_000);
    expect(host.status().peers).toMatchObject([{ era: 'modern', revision: '2026-07-28', generation: 2 }]);
    expect([...host.catalog().entries.keys()]).toEqual(['other']);
    expect(renewed.methods()).not.toContain('initialize');
  });

  it('changes nothing when it comes late: ends, messages, answers, faults', async () => {
    const lives: TransportEvents[] = [];
    const fake = listeningFake();
    const inner = fake.config.createTransport;
    const { host, clock } = make({
      one: {
        ...fake.config,
        createTransport: (events) => {
          lives.push(events);
          return inner(events);
        },
      },
    });
    await host.start();
    host.subscribeResource('one', 'file:///a');
    await quiet();
    const listened = fake.lastId();
    lose(fake);
    await advance(clock, 2_000);
    const told: unknown[] = [];
    host.on('listChanged', (change) => told.push(change));
    host.on('resourceUpdated', (update) => told.push(update));
    host.on('catalogChanged', (change) => told.push(change));
    host.on('peer', (report) => told.push(report.state));
    const before = { heard: fake.heard.length, status: host.status() };

    const meta = { 'io.modelcontextprotocol/subscriptionId': listened };
    const say = (message: object): void =>
      lives[0]?.message(JSON.stringify({ jsonrpc: '2.0', ...message }), null);
    for (let i = 0; i < 3; i += 1) {
      lives[0]?.closed(EXIT);
      say({ method: 'notifications/tools/list_changed', params: { _meta: meta } });
      say({ method: 'notifications/resources/updated', params: { uri: 'file:///a', _meta: meta } });
      say({ id: fake.lastId(), result: { resultType: 'complete' } });
      say({ id: listened, result: { resultType: 'complete' } });
      say({ id: 7, method: 'ping' });
    }
    await quiet();
    expect(told).toEqual([]);
    expect(fake.heard).toHaveLength(before.heard);
    expect(host.status()).toEqual(before.status);
    expect(fake.connections).toHaveLength(2);
    expect(host.status().peers[0]).toMatchObject({ state: 'modern', generation: 2 });
    expect((await host.call('search')).status).toBe('ok');
  });

  it('says nothing while it is being closed, and the next one is opened only then', async () => {
    let release: () => void = () => undefined;
    const events: TransportEvents[] = [];
    const fake = legacyFake();
    const inner = fake.config.createTransport;
    const { host, clock } = make({
      one: {
        ...fake.config,
        createTransport: (own) => {
          events.push(own);
          const transport = inner(own);
          if (events.length > 1) return transport;
          return closedLater(transport, (close) => {
            release = close;
          });
        },
      },
    });
    await host.start();
    const listed: unknown[] = [];
    host.on('listChanged', (change) => listed.push(change));
    // Modern proof on a legacy connection: a new negotiation on a fresh one, while the old one lingers.
    const proof = { jsonrpc: '2.0', id: 1, error: { code: -32022, message: 'no' } };
    events[0]?.message(JSON.stringify(proof), null);
    await quiet();
    expect(host.peer('one').state).toBe('probing');
    expect(fake.connections).toHaveLength(1);
    const late = { jsonrpc: '2.0', method: 'notifications/prompts/list_changed' };
    events[0]?.message(JSON.stringify(late), null);
    await advance(clock, 5_000);
    expect(events).toHaveLength(1);
    release();
    await quiet();
    expect(events).toHaveLength(2);
    expect(listed).toEqual([]);
  });
});

describe('one flight at a time', () => {
  it('however often a peer is told to retry', async () => {
    let isUp = false;
    const fake = modernFake({
      on: (_message, self) => {
        if (isUp) return undefined;
        lose(self);
        return null;
      },
    });
    const { host } = await started(fake, { maxAttempts: 0, retryUnavailableAfterMs: 0 });
    expect(host.peer('one').state).toBe('unavailable');
    expect(fake.connections).toHaveLength(1);
    isUp = true;
    for (let i = 0; i < 50; i += 1) {
      host.peer('one').retry();
      if (i % 10 === 0) await Promise.resolve();
    }
    await quiet();
    expect(host.peer('one').state).toBe('modern');
    expect(fake.connections).toHaveLength(2);
    for (let i = 0; i < 50; i += 1) host.peer('one').retry();
    await quiet();
    expect(fake.connections).toHaveLength(2);
    expect(fake.methods().filter((method) => method === 'server/discover')).toHaveLength(2);
  });

  it('a retry ends the wait, and the wait that was planned starts nobody later', async () => {
    const fake = modernFake();
    const { host, clock } = await started(fake, { random: () => 0.9 });
    lose(fake);
    await quiet();
    expect(host.peer('one').state).toBe('reconnecting');
    host.peer('one').retry();
    await quiet();
    expect(host.peer('one').state).toBe('modern');
    await advance(clock, 20_000);
    expect(fake.connections).toHaveLength(2);
  });

  it('a peer that was removed is gone before one of its name is started', async () => {
    let release: () => void = () => undefined;
    const first = modernFake({ identity: 'same' });
    const inner = first.config.createTransport;
    const second = modernFake({ identity: 'same' });
    const { host } = make({
      one: {
        ...first.config,
        createTransport: (events) => {
          const transport = inner(events);
          return closedLater(transport, (close) => {
            release = close;
          });
        },
      },
    });
    await host.start();
    const removed = host.removePeer('one');
    const added = host.addPeer('one', second.config);
    await quiet();
    expect(second.connections).toEqual([]);
    const stopped = host.stop();
    let isStopped = false;
    void stopped.then(() => {
      isStopped = true;
    });
    expect((await added).state).toBe('stopped');
    await quiet();
    // What was removed belongs to the host until it is gone.
    expect(isStopped).toBe(false);
    release();
    await Promise.all([removed, stopped]);
    expect(second.connections).toEqual([]);
  });

  it('a host that is stopped starts nothing: not again, not what waits, not what is added', async () => {
    const fakes = Array.from({ length: 20 }, () => modernFake());
    const peers = Object.fromEntries(fakes.map((fake, i) => [`p${i}`, fake.config]));
    const { host, clock } = make(peers, { maxSimultaneousStarts: 1 });
    const starting = host.start();
    starting.catch(() => undefined);
    await Promise.resolve();
    const stopping = host.stop();
    await expect(host.addPeer('more', modernFake().config)).rejects.toMatchObject({ code: 'stopped' });
    await expect(host.start()).rejects.toMatchObject({ code: 'stopped' });
    await stopping;
    await expect(starting).rejects.toMatchObject({ code: 'stopped' });
    await advance(clock, 600_000);
    expect(fakes.reduce((sum, fake) => sum + fake.connections.length, 0)).toBeLessThanOrEqual(2);
    expect(fakes.every((fake) => fake.connections.every((connection) => connection.closed))).toBe(true);
    expect(host.peers().every(({ state }) => state === 'stopped')).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('a hundred peers', () => {
  /** Peers whose probes are answered when a test says so. */
  function herd(size: number, options: Omit<CreateHostOptions, 'peers'> = {}) {
    const waiting: (() => void)[] = [];
    let most = 0;
    let isDown = false;
    const fakes = Array.from({ length: size }, () =>
      modernFake({
        perRequestStreams: true,
        on: ({ method, id }, self) => {
          if (method !== 'server/discover') return undefined;
          const control = self.connections.at(-1);
          const isRefused = isDown;
          waiting.push(() => {
            if (isRefused) {
              const cause = { kind: 'http-status', detail: 'HTTP 503', terminal: false } as const;
              control?.end(id ?? 0, { kind: 'unreachable', redirected: false, cause });
              return;
            }
            const result = {
              supportedVersions: ['2026-07-28'],
              capabilities: { tools: {} },
              resultType: 'complete',
            };
            control?.send(JSON.stringify({ jsonrpc: '2.0', id: id as number, result }), id);
          });
          most = Math.max(most, waiting.length);
          return null;
        },
      }),
    );
    const peers = Object.fromEntries(fakes.map((fake, i) => [`p${i}`, fake.config]));
    const made = make(peers, { maxSimultaneousStarts: 8, probeTimeoutMs: 600_000, ...options });
    return {
      ...made,
      fakes,
      /** Answers probes until none is outstanding. Returns how many there were. */
      async answerAll(): Promise<number> {
        let answered = 0;
        for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
          next();
          answered += 1;
          await quiet();
        }
        return answered;
      },
      get outstanding() {
        return waiting.length;
      },
      takeMost() {
        const taken = most;
        most = 0;
        return taken;
      },
      goDown() {
        isDown = true;
      },
      comeUp() {
        isDown = false;
      },
      states: () => new Set<PeerStateName>(made.host.peers().map(({ state }) => state)),
    };
  }

  it('that are lost at once start again a few at a time', async () => {
    const them = herd(100);
    const starting = them.host.start();
    await quiet();
    expect(them.outstanding).toBe(8);
    expect(await them.answerAll()).toBe(100);
    await starting;
    expect(them.takeMost()).toBe(8);
    for (const fake of them.fakes) lose(fake);
    await advance(them.clock, 30_000);
    expect(them.outstanding).toBe(8);
    expect(await them.answerAll()).toBe(100);
    expect(them.takeMost()).toBe(8);
    expect(them.states()).toEqual(new Set(['modern']));
    expect(them.fakes.every((fake) => fake.connections.length === 2)).toBe(true);
  });

  it('that are due by retryUnavailableAfterMs as well', async () => {
    const them = herd(100, { maxAttempts: 0, retryUnavailableAfterMs: 60_000 });
    them.goDown();
    const starting = them.host.start();
    await quiet();
    await them.answerAll();
    await starting;
    expect(them.states()).toEqual(new Set(['unavailable']));
    them.comeUp();
    them.takeMost();
    await advance(them.clock, 60_000);
    expect(them.outstanding).toBe(8);
    await them.answerAll();
    expect(them.takeMost()).toBe(8);
    expect(them.states()).toEqual(new Set(['modern']));
  });

  it('one that is removed, or told to retry, while it waits for its turn keeps nobody from theirs', async () => {
    const them = herd(6, { maxSimultaneousStarts: 2, random: () => 0.5 });
    const starting = them.host.start();
    starting.catch(() => undefined);
    await quiet();
    await them.answerAll();
    await starting;
    for (const fake of them.fakes) lose(fake);
    await advance(them.clock, 30_000);
    expect(them.outstanding).toBe(2);
    const probing = them.host.peers().filter(({ state }) => state === 'probing');
    const waiting = them.host.peers().filter(({ state }) => state === 'reconnecting');
    expect([probing.length, waiting.length]).toEqual([2, 4]);
    const removed = waiting[0];
    const retried = waiting.at(-1);
    await them.host.removePeer(removed?.name ?? '');
    await them.host.removePeer(probing[0]?.name ?? '');
    them.host.peer(retried?.name ?? '').retry();
    await quiet();
    // The place that became free is taken; the one that was told waits for its turn like the others.
    expect(them.host.peers().filter(({ state }) => state === 'probing')).toHaveLength(2);
    await them.answerAll();
    await advance(them.clock, 30_000);
    await them.answerAll();
    expect(them.states()).toEqual(new Set(['modern']));
  });
});

describe('told to retry, all at once', () => {
  it('peers start again a few at a time', async () => {
    let probing = 0;
    let most = 0;
    let isUp = false;
    const answers: (() => void)[] = [];
    const fakes = Array.from({ length: 12 }, () =>
      modernFake({
        on: ({ id, method }, self) => {
          if (method !== 'server/discover') return undefined;
          if (!isUp) {
            lose(self);
            return null;
          }
          probing += 1;
          most = Math.max(most, probing);
          answers.push(() => {
            probing -= 1;
            const result = { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } };
            self.say({ id: id as number, result });
          });
          return null;
        },
      }),
    );
    const peers = Object.fromEntries(fakes.map((fake, i) => [`p${i}`, fake.config]));
    const { host } = make(peers, {
      maxSimultaneousStarts: 2,
      maxAttempts: 0,
      retryUnavailableAfterMs: 0,
    });
    await host.start();
    expect(host.peers().every(({ state }) => state === 'unavailable')).toBe(true);
    isUp = true;
    for (const { name } of host.peers()) host.peer(name).retry();
    for (let i = 0; i < 12; i += 1) {
      await quiet();
      answers.shift()?.();
    }
    await quiet();
    expect(host.peers().every(({ state }) => state === 'modern')).toBe(true);
    expect(most).toBe(2);
  });
});

describe('nothing grows', () => {
  it('300 reconnects of one peer leave as many timers as one', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    const fake = listeningFake();
    const { host, clock } = await started(fake, { maxAttempts: 1_000, random: () => 0.5 });
    const leave = host.subscribeResource('one', 'file:///a');
    await advance(clock, 40_000);
    const timers = clock.pendingTimers;
    for (let i = 0; i < 300; i += 1) {
      lose(fake);
      await advance(clock, 40_000);
    }
    expect(fake.connections).toHaveLength(301);
    expect(clock.pendingTimers).toBe(timers);
    expect(fake.listens()).toHaveLength(302);
    leave();
    await settled(clock, host.stop(), 60_000);
    expect(clock.pendingTimers).toBe(0);
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });
});
