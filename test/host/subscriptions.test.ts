import { afterEach, describe, expect, it } from 'vitest';
import { createActor } from 'xstate';
import { type CreateHostOptions, createHost, hostLogic, hostOf } from '../../src/host/createHost.js';
import type { Host, HostEvents } from '../../src/host/facade.js';
import type { SubscriptionStatus } from '../../src/host/status.js';
import { ACK_TIMEOUT_MS, MAX_LISTEN_REFUSALS } from '../../src/machines/peerMachine.js';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { advance, quiet } from '../../src/testing/drive.js';
import { type Fake, methodNotFound } from './fakes.js';
import { ALL, agree, legacySubscribable, listeningFake } from './subscribingFakes.js';

const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

/** A started host with the peer `one`, in simulated time, without jitter. */
async function hostWith(fake: Fake, options: Omit<CreateHostOptions, 'peers'> = {}) {
  const clock = createSimulatedClock();
  const host = createHost({ clock, random: () => 0.5, ...options, peers: { one: fake.config } });
  hosts.push(host);
  const lists: string[] = [];
  const resources: string[] = [];
  host.on('listChanged', ({ peer, kind }) => lists.push(`${peer} ${kind}`));
  host.on('resourceUpdated', ({ peer, uri, certain }) => {
    resources.push(`${peer} ${uri} ${certain ? 'changed' : 'may have changed'}`);
  });
  await host.start();
  await quiet();
  return { host, clock, lists, resources, names: () => [...host.catalog().entries.keys()] };
}

const statusOf = (host: Host): SubscriptionStatus | null => host.status().peers[0]?.subscription ?? null;
/** Besides what the fakes leave out. */
const faultsOf = (host: Host) => {
  const { 'absent-result-type': _, ...faults } = host.status().peers[0]?.faults ?? {};
  return faults;
};
const askedBy = (fake: ReturnType<typeof listeningFake>): JsonValue[] =>
  fake.listens().map(({ params }) => params?.['notifications'] as JsonValue);
const count = (fake: Fake, method: string): number => fake.methods().filter((one) => one === method).length;

describe('what is listened to', () => {
  it('is exactly what the server declares to announce, and is asked for after the first listing', async () => {
    const cases = [
      [ALL, { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true }],
      [{ tools: { listChanged: true }, prompts: {} }, { toolsListChanged: true }],
      [{ tools: {}, resources: { listChanged: true } }, { resourcesListChanged: true }],
      [{ tools: { listChanged: false }, prompts: { listChanged: true } }, { promptsListChanged: true }],
    ] as const;
    for (const [capabilities, asked] of cases) {
      const fake = listeningFake({ capabilities });
      const { host } = await hostWith(fake);
      expect(fake.methods().slice(0, 3)).toEqual(['server/discover', 'tools/list', 'subscriptions/listen']);
      expect(askedBy(fake)).toEqual([asked]);
      expect(statusOf(host)).toEqual({ state: 'listening', missing: [], problem: null });
    }
  });

  it('is nothing where the server announces nothing', async () => {
    const fake = listeningFake({ capabilities: { tools: {}, prompts: {}, resources: { subscribe: true } } });
    const { host } = await hostWith(fake);
    expect(fake.listens()).toEqual([]);
    expect(statusOf(host)).toBeNull();
  });

  it('is shown as missing as far as the server does not acknowledge it', async () => {
    const fake = listeningFake();
    fake.onListen = () => ({
      // More than was asked for is no promise either.
      acknowledge: { promptsListChanged: true, resourceSubscriptions: ['file:///never-asked'] },
    });
    const { host } = await hostWith(fake);
    expect(statusOf(host)).toEqual({
      state: 'listening',
      missing: ['toolsListChanged', 'resourcesListChanged'],
      problem: null,
    });
  });

  it('is asked for as well where the first listing failed', async () => {
    const fake = listeningFake({
      on: ({ method }) => (method === 'tools/list' ? methodNotFound : undefined),
    });
    const { host } = await hostWith(fake);
    expect(statusOf(host)?.state).toBe('listening');
  });
});

describe('what is announced', () => {
  it('tools: the lease changes; other lists: listChanged, once until they are asked for', async () => {
    const fake = listeningFake();
    const { host, clock, lists, names } = await hostWith(fake);
    fake.tools = ['search', 'added'];
    fake.announce('notifications/tools/list_changed');
    for (let i = 0; i < 3; i += 1) fake.announce('notifications/prompts/list_changed');
    await advance(clock, 1_000);
    expect(names()).toEqual(['added', 'search']);
    expect(lists).toEqual(['one prompts']);
    await host.listPrompts();
    fake.announce('notifications/prompts/list_changed');
    // Two lists: the templates have no announcement of their own.
    fake.announce('notifications/resources/list_changed');
    await advance(clock, 1_000);
    expect(new Set(lists.slice(1))).toEqual(new Set(['one resources', 'one resourceTemplates']));
    expect((await host.listPrompts()).items).toHaveLength(1);
  });

  it('belongs to the subscription whose id it has; what has a foreign one is counted and dropped', async () => {
    const fake = listeningFake();
    const { host, clock, resources } = await hostWith(fake);
    host.subscribeResource('one', 'file:///a');
    await quiet();
    const before = { listed: count(fake, 'tools/list'), told: resources.length };
    const id = fake.lastId();
    const earlier = fake.listens()[0]?.id ?? 0;
    for (const foreign of [earlier, id + 1, String(id), null, {}]) {
      fake.announce('notifications/tools/list_changed', {}, foreign);
      fake.announce('notifications/resources/updated', { uri: 'file:///a' }, foreign);
      fake.announce('notifications/subscriptions/acknowledged', { notifications: {} }, foreign);
    }
    await advance(clock, 1_000);
    expect(faultsOf(host)).toEqual({ 'foreign-notification': 15 });
    expect({ listed: count(fake, 'tools/list'), told: resources.length }).toEqual(before);
    expect(statusOf(host)?.missing).toEqual([]);
  });

  it('outside a subscription: counted; a list is looked at all the same, a resource is not believed', async () => {
    const fake = listeningFake();
    const { host, clock, resources } = await hostWith(fake);
    host.subscribeResource('one', 'file:///a');
    await quiet();
    resources.length = 0;
    fake.say({ method: 'notifications/resources/updated', params: { uri: 'file:///a' } });
    fake.tools = ['search', 'added'];
    const listed = count(fake, 'tools/list');
    fake.say({ method: 'notifications/tools/list_changed' });
    await advance(clock, 1_000);
    expect(faultsOf(host)).toEqual({ 'unsubscribed-notification': 2 });
    expect(count(fake, 'tools/list')).toBe(listed + 1);
    expect(resources).toEqual([]);
  });

  it('for a resource that nobody subscribed to, or without one, is counted and dropped', async () => {
    const fake = listeningFake();
    const { host, resources } = await hostWith(fake);
    host.subscribeResource('one', 'file:///a');
    await quiet();
    resources.length = 0;
    for (const uri of ['file:///b', 'file:///ab', 5, null]) {
      fake.announce('notifications/resources/updated', { uri });
    }
    fake.announce('notifications/resources/updated');
    expect(resources).toEqual([]);
    expect(faultsOf(host)).toEqual({ 'foreign-notification': 5 });
    // A part of what is subscribed to.
    fake.announce('notifications/resources/updated', { uri: 'file:///a/part' });
    expect(resources).toEqual(['one file:///a/part changed']);
  });
});

describe('the gap before each acknowledgement', () => {
  it('is closed by a new listing, also the first', async () => {
    let listings = 0;
    const fake = listeningFake({
      on: ({ method }, self) => {
        // Changed after the listing was answered and before anybody listened: no announcement tells.
        if (method === 'subscriptions/listen') (self as Fake).tools = ['search', 'added'];
        if (method === 'tools/list') listings += 1;
        return undefined;
      },
    });
    const { names } = await hostWith(fake);
    await quiet();
    expect(listings).toBe(2);
    expect(names()).toEqual(['added', 'search']);
  });

  it('a second acknowledgement on the same subscription is no gap', async () => {
    const fake = listeningFake();
    const { host } = await hostWith(fake);
    const listed = count(fake, 'tools/list');
    fake.acknowledge({ toolsListChanged: true });
    await quiet();
    expect(count(fake, 'tools/list')).toBe(listed);
    expect(statusOf(host)?.missing).toEqual(['promptsListChanged', 'resourcesListChanged']);
  });

  it('asks the server even where its list is fresh for long', async () => {
    const fake = listeningFake({
      on: ({ method }, self) =>
        method === 'tools/list'
          ? {
              tools: self.tools.map((name) => ({ name: String(name), inputSchema: { type: 'object' } })),
              ttlMs: 3_600_000,
              cacheScope: 'public',
              resultType: 'complete',
            }
          : undefined,
    });
    const { clock, names } = await hostWith(fake, { backoffMinMs: 1_000 });
    fake.tools = ['search', 'added'];
    fake.say({ id: fake.lastId(), result: { resultType: 'complete' } });
    await advance(clock, 1_000);
    expect(fake.listens()).toHaveLength(2);
    expect(names()).toEqual(['added', 'search']);
  });

  it('tells whoever saw another list that it may have changed', async () => {
    let prompts = ['explain'];
    const fake = listeningFake({
      on: ({ method }) =>
        method === 'prompts/list' ? { prompts: prompts.map((name) => ({ name })) } : undefined,
    });
    const { host, clock, lists } = await hostWith(fake, { backoffMinMs: 1_000 });
    await host.listPrompts();
    lists.length = 0;
    prompts = ['explain', 'new'];
    fake.say({ id: fake.lastId(), result: { resultType: 'complete' } });
    await advance(clock, 1_000);
    expect(lists).toEqual(['one prompts']);
    expect((await host.listPrompts()).items.map(({ name }) => name)).toEqual(['explain', 'new']);
  });
});

describe('ends', () => {
  /** Over streams of their own a stream can break by itself. */
  const http = () => listeningFake({ perRequestStreams: true });

  it('on purpose and torn off are told apart; both are listened to again, under a new id', async () => {
    const fake = http();
    const { host, clock } = await hostWith(fake, { backoffMinMs: 1_000 });
    const control = () => fake.connections.at(-1);
    const first = fake.lastId();
    control()?.send(JSON.stringify({ jsonrpc: '2.0', id: first, result: { resultType: 'complete' } }), first);
    await quiet();
    expect(statusOf(host)).toMatchObject({ state: 'backoff', problem: 'the server ended the subscription' });
    await advance(clock, 1_000);
    const second = fake.lastId();
    expect(second).not.toBe(first);
    expect(statusOf(host)).toMatchObject({ state: 'listening', problem: null });
    control()?.end(second, { kind: 'complete', status: 200, redirected: false });
    await quiet();
    expect(statusOf(host)).toMatchObject({
      state: 'backoff',
      problem: expect.stringContaining('connection ended'),
    });
    await advance(clock, 2_000);
    expect(new Set(fake.listens().map(({ id }) => id)).size).toBe(3);
    expect(fake.connections).toHaveLength(1);
    expect(host.peer('one').state).toBe('modern');
  });

  it('on a pipe the server may cancel it', async () => {
    const fake = listeningFake();
    const { host, clock } = await hostWith(fake, { backoffMinMs: 1_000 });
    fake.say({ method: 'notifications/cancelled', params: { requestId: fake.lastId() } });
    await quiet();
    expect(statusOf(host)).toMatchObject({ state: 'backoff', problem: 'the server ended the subscription' });
    await advance(clock, 1_000);
    expect(statusOf(host)?.state).toBe('listening');
    expect(faultsOf(host)).toEqual({});
  });

  it('losses are retried for ever with a bounded delay, which starts anew only after a stable time', async () => {
    const fake = http();
    fake.onListen = () => null;
    const at: number[] = [];
    const options = { backoffMinMs: 1_000, backoffMaxMs: 8_000, stableAfterMs: 30_000, random: () => 0.999 };
    const { clock } = await hostWith(fake, options);
    const lose = async (after: number): Promise<void> => {
      fake.acknowledge({ toolsListChanged: true });
      await advance(clock, after);
      const listens = fake.listens().length;
      const from = clock.now();
      fake.connections.at(-1)?.end(fake.lastId(), { kind: 'complete', status: 200, redirected: false });
      await quiet();
      while (fake.listens().length === listens) await advance(clock, 1);
      at.push(clock.now() - from);
    };
    for (let i = 0; i < 20; i += 1) await lose(29_000);
    expect(at.slice(0, 5)).toEqual([999, 1_998, 3_996, 7_992, 7_992]);
    expect(Math.max(...at)).toBeLessThanOrEqual(8_000);
    await lose(30_000);
    await lose(0);
    expect(at.slice(-2)).toEqual([999, 1_998]);
  });

  it('refusals are bounded, and so is silence', async () => {
    for (const answer of [{ error: { code: -32603, message: 'busy' } }, null] as const) {
      const fake = listeningFake();
      fake.onListen = () => answer;
      const { host, clock } = await hostWith(fake);
      await advance(clock, 20 * (ACK_TIMEOUT_MS + 30_000));
      expect(fake.listens()).toHaveLength(MAX_LISTEN_REFUSALS);
      expect(statusOf(host)).toMatchObject({
        state: 'closed',
        problem: expect.stringMatching(/-32603 \(busy\)|no acknowledgement within/),
      });
      expect((await host.call('search')).status).toBe('ok');
      // A silent one was taken back each time.
      expect(count(fake, 'notifications/cancelled')).toBe(answer === null ? MAX_LISTEN_REFUSALS : 0);
    }
  });

  it('an unknown method is asked for once', async () => {
    const fake = listeningFake();
    fake.onListen = () => methodNotFound;
    const { host, clock } = await hostWith(fake);
    await advance(clock, 600_000);
    expect(fake.listens()).toHaveLength(1);
    expect(statusOf(host)).toMatchObject({ state: 'closed', problem: expect.stringContaining('-32601') });
  });

  it('a refused revision is what it is for every request: a new negotiation, then a new subscription', async () => {
    const fake = listeningFake();
    fake.onListen = (message) =>
      fake.listens().length === 1
        ? { error: { code: -32022, message: 'no', data: { supported: ['2026-07-28'], requested: '' } } }
        : agree(message);
    const { host, clock } = await hostWith(fake);
    await advance(clock, 1_000);
    expect(host.peer('one').report().path).toEqual([
      'idle',
      'probing',
      'modern',
      'reconnecting',
      'probing',
      'modern',
    ]);
    expect(statusOf(host)?.state).toBe('listening');
  });

  it('with the host: on a pipe it is cancelled before the connection is closed', async () => {
    const fake = listeningFake();
    const { host, clock } = await hostWith(fake);
    await host.stop();
    expect(fake.heard.at(-1)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: fake.lastId() },
    });
    expect(fake.connections[0]?.closed).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('a failing subscription never touches calls', async () => {
    let answer: (() => void) | undefined;
    const fake = listeningFake({
      perRequestStreams: true,
      on: ({ method, id }, self) => {
        if (method !== 'tools/call') return undefined;
        answer = () => {
          const result = { content: [{ type: 'text', text: 'late' }] };
          self.connections[0]?.send(JSON.stringify({ jsonrpc: '2.0', id: id as number, result }), id);
        };
        return null;
      },
    });
    const { host, clock } = await hostWith(fake, { callTimeoutMs: 600_000 });
    const pending = host.call('search');
    while (answer === undefined) await quiet();
    const ends = [
      { kind: 'unauthorized', status: 401, redirected: false, challenge: null },
      { kind: 'malformed', status: 200, redirected: false, detail: 'no event stream' },
      {
        kind: 'unreachable',
        redirected: false,
        cause: { kind: 'http-status', detail: 'HTTP 503', terminal: false },
      },
      { kind: 'broken', redirected: false, cause: { kind: 'reset', detail: 'ECONNRESET' } },
    ] as const;
    for (const end of [...ends].reverse()) {
      fake.connections[0]?.end(fake.lastId(), end);
      await advance(clock, 20_000);
    }
    expect(host.status().peers[0]).toMatchObject({ state: 'modern', inFlight: 1, breaker: 'closed' });
    answer?.();
    expect(await pending).toMatchObject({ status: 'ok', attempts: 1 });
    expect(statusOf(host)).toMatchObject({ state: 'closed', problem: 'HTTP 401' });
  });
});

describe('resources', () => {
  it('subscribed in one turn are one listen; each once, however often', async () => {
    const fake = listeningFake({ capabilities: { tools: {}, resources: {} } });
    const { host, resources } = await hostWith(fake);
    expect(fake.listens()).toEqual([]);
    host.subscribeResource('one', 'file:///b');
    host.subscribeResource('one', 'file:///a');
    await Promise.resolve();
    host.subscribeResource('one', 'file:///b');
    await quiet();
    await quiet();
    expect(askedBy(fake)).toEqual([{ resourceSubscriptions: ['file:///a', 'file:///b'] }]);
    // What happened before the acknowledgement is unknown.
    expect(resources.sort()).toEqual(['one file:///a may have changed', 'one file:///b may have changed']);
    fake.announce('notifications/resources/updated', { uri: 'file:///a' });
    expect(resources.at(-1)).toBe('one file:///a changed');
  });

  it('the last to leave ends it: with others there is another listen, alone there is none', async () => {
    const fake = listeningFake({ capabilities: { tools: {}, resources: {} } });
    const { host } = await hostWith(fake);
    const [a, b, again] = ['file:///a', 'file:///b', 'file:///a'].map((uri) =>
      host.subscribeResource('one', uri),
    );
    await quiet();
    a?.();
    a?.();
    await quiet();
    expect(fake.listens()).toHaveLength(1);
    b?.();
    await quiet();
    expect(askedBy(fake).at(-1)).toEqual({ resourceSubscriptions: ['file:///a'] });
    again?.();
    await quiet();
    expect(fake.listens()).toHaveLength(2);
    expect(fake.heard.at(-1)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: fake.lastId() },
    });
    expect(statusOf(host)).toBeNull();
    host.subscribeResource('one', 'file:///a');
    await quiet();
    expect(fake.listens()).toHaveLength(3);
    expect(statusOf(host)?.state).toBe('listening');
  });

  it('subscribed and left in one turn are told to nobody', async () => {
    const fake = listeningFake();
    const { host } = await hostWith(fake);
    host.subscribeResource('one', 'file:///a')();
    await quiet();
    expect(fake.listens()).toHaveLength(1);
  });

  it('that the server does not offer are shown as missing', async () => {
    const fake = listeningFake({ capabilities: { tools: { listChanged: true } } });
    const { host } = await hostWith(fake);
    host.subscribeResource('one', 'file:///a');
    await quiet();
    expect(fake.listens()).toHaveLength(1);
    expect(statusOf(host)).toEqual({
      state: 'listening',
      missing: ['file:///a'],
      problem: 'The server offers no resources.',
    });
  });

  it('subscribed before the start are listened to from the start, and again after a reconnect', async () => {
    const clock = createSimulatedClock();
    const fake = listeningFake();
    const host = createHost({ clock, peers: { one: fake.config } });
    hosts.push(host);
    host.subscribeResource('one', 'file:///a');
    await host.start();
    await quiet();
    const all = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
    expect(askedBy(fake)).toEqual([{ ...all, resourceSubscriptions: ['file:///a'] }]);
    const told: HostEvents['resourceUpdated'][] = [];
    host.on('resourceUpdated', (update) => told.push(update));
    fake.connections.at(-1)?.close({ kind: 'exit', detail: 'gone' });
    await advance(clock, 1_000);
    expect(fake.connections).toHaveLength(2);
    expect(askedBy(fake)).toHaveLength(2);
    expect(told).toEqual([{ peer: 'one', uri: 'file:///a', certain: false }]);
  });

  it('what is kept of a resource is dropped when it is announced or a gap is closed', async () => {
    let version = 0;
    const fake = listeningFake({
      on: ({ method, params }) => {
        if (method !== 'resources/read') return undefined;
        version += 1;
        const contents = [{ uri: String(params?.['uri']), text: `version ${version}` }];
        return { contents, ttlMs: 3_600_000, cacheScope: 'private', resultType: 'complete' };
      },
    });
    const { host, clock } = await hostWith(fake, { backoffMinMs: 1_000 });
    const read = async (): Promise<unknown> => {
      const outcome = await host.readResource('one', 'file:///a');
      await quiet();
      return outcome.status === 'ok' ? outcome.value.contents[0] : outcome;
    };
    host.subscribeResource('one', 'file:///a');
    await quiet();
    expect(await read()).toMatchObject({ text: 'version 1' });
    expect(await read()).toMatchObject({ text: 'version 1' });
    fake.announce('notifications/resources/updated', { uri: 'file:///a' });
    expect(await read()).toMatchObject({ text: 'version 2' });
    fake.say({ method: 'notifications/cancelled', params: { requestId: fake.lastId() } });
    await advance(clock, 1_000);
    expect(await read()).toMatchObject({ text: 'version 3' });
  });
});

describe('a legacy peer', () => {
  it('tells by the same events', async () => {
    const fake = legacySubscribable();
    const { host, clock, lists, resources, names } = await hostWith(fake);
    expect(statusOf(host)).toEqual({ state: 'listening', missing: [], problem: null });
    host.subscribeResource('one', 'file:///a');
    await quiet();
    expect(fake.subscriptions()).toEqual(['+file:///a']);
    expect(resources).toEqual(['one file:///a may have changed']);
    fake.tools = ['search', 'added'];
    fake.say({ method: 'notifications/tools/list_changed' });
    fake.say({ method: 'notifications/prompts/list_changed' });
    fake.say({ method: 'notifications/resources/updated', params: { uri: 'file:///a' } });
    fake.say({ method: 'notifications/resources/updated', params: { uri: 'file:///b' } });
    await advance(clock, 1_000);
    expect(lists).toEqual(['one prompts']);
    expect(resources.slice(1)).toEqual(['one file:///a changed']);
    expect(faultsOf(host)).toEqual({ 'foreign-notification': 1 });
    expect(names()).toEqual(['added', 'search']);
  });

  it('is asked once for each resource, and told when the last leaves', async () => {
    const fake = legacySubscribable();
    const { host } = await hostWith(fake);
    const ends = [1, 2].map(() => host.subscribeResource('one', 'file:///a'));
    host.subscribeResource('one', 'file:///b');
    await quiet();
    expect(fake.subscriptions()).toEqual(['+file:///a', '+file:///b']);
    ends[0]?.();
    await quiet();
    expect(fake.subscriptions()).toHaveLength(2);
    ends[1]?.();
    await quiet();
    expect(fake.subscriptions().slice(2)).toEqual(['-file:///a']);
  });

  it('has one request about a resource at a time: what is wanted last is what it hears last', async () => {
    const answers: (() => void)[] = [];
    const fake = legacySubscribable({
      on: ({ method, id }, self) => {
        if (method?.startsWith('resources/') !== true) return undefined;
        answers.push(() => self.say({ id: id as number, result: {} }));
        return null;
      },
    });
    const { host } = await hostWith(fake);
    const next = async (): Promise<void> => {
      answers.shift()?.();
      await quiet();
    };
    const leave = host.subscribeResource('one', 'file:///a');
    await quiet();
    leave();
    await quiet();
    expect(fake.subscriptions()).toEqual(['+file:///a']);
    await next();
    expect(fake.subscriptions()).toEqual(['+file:///a', '-file:///a']);
    host.subscribeResource('one', 'file:///a');
    await quiet();
    expect(fake.subscriptions()).toHaveLength(2);
    await next();
    expect(fake.subscriptions()).toEqual(['+file:///a', '-file:///a', '+file:///a']);
    await next();
    expect(answers).toEqual([]);
  });

  it('is subscribed to again after a reconnect, and what happened meanwhile is uncertain', async () => {
    const fake = legacySubscribable();
    const { host, clock, resources } = await hostWith(fake);
    host.subscribeResource('one', 'file:///a');
    await quiet();
    resources.length = 0;
    fake.connections.at(-1)?.close({ kind: 'exit', detail: 'gone' });
    await quiet();
    expect(resources).toEqual([]);
    await advance(clock, 1_000);
    expect(fake.subscriptions()).toEqual(['+file:///a', '+file:///a']);
    expect(resources).toEqual(['one file:///a may have changed']);
  });

  it('that refuses, or offers none, shows what is missing and why', async () => {
    const refusing = legacySubscribable({
      on: ({ method }) =>
        method === 'resources/subscribe' ? { error: { code: -32002, message: 'no such' } } : undefined,
    });
    const { host } = await hostWith(refusing);
    const leave = host.subscribeResource('one', 'file:///a');
    await quiet();
    expect(statusOf(host)).toEqual({
      state: 'listening',
      missing: ['file:///a'],
      problem: 'resources/subscribe: error -32002 (no such)',
    });
    leave();
    await quiet();
    expect(statusOf(host)).toEqual({ state: 'listening', missing: [], problem: null });
    expect(refusing.subscriptions()).toEqual(['+file:///a']);

    const none = legacySubscribable({ capabilities: { tools: {}, resources: {} } });
    const { host: other } = await hostWith(none);
    other.subscribeResource('one', 'file:///a');
    await quiet();
    expect(none.subscriptions()).toEqual([]);
    expect(statusOf(other)).toMatchObject({
      missing: ['file:///a'],
      problem: expect.stringContaining('offers no'),
    });
  });

  it('that does not answer may have subscribed all the same: it is unsubscribed from', async () => {
    const fake = legacySubscribable({
      on: ({ method }) => (method === 'resources/subscribe' ? null : undefined),
    });
    const { host, clock } = await hostWith(fake);
    const leave = host.subscribeResource('one', 'file:///a');
    await advance(clock, 15_000);
    expect(statusOf(host)).toMatchObject({
      missing: ['file:///a'],
      problem: expect.stringContaining('no answer'),
    });
    leave();
    await quiet();
    expect(fake.subscriptions()).toEqual(['+file:///a', '-file:///a']);
  });
});

describe('after a reconnect', () => {
  it.each([
    ['legacy', () => legacySubscribable()],
    ['modern, which announces nothing', () => listeningFake({ capabilities: { tools: {}, prompts: {} } })],
    ['modern', () => listeningFake()],
  ])('a %s peer: a list that was seen may be another one now, and that is told once', async (_, make) => {
    const fake = make();
    const { host, clock, lists } = await hostWith(fake);
    await host.listPrompts();
    lists.length = 0;
    fake.connections.at(-1)?.close({ kind: 'exit', detail: 'gone' });
    await advance(clock, 2_000);
    expect(fake.connections).toHaveLength(2);
    expect(lists).toEqual(['one prompts']);
    expect((await host.listPrompts()).items).toMatchObject([{ name: 'explain', freshness: 'fresh' }]);
  });
});

it('an embedded host emits the same events', async () => {
  const fake = listeningFake();
  const actor = createActor(hostLogic({ peers: { one: fake.config } }));
  const told: unknown[] = [];
  actor.on('listChanged', (event) => told.push(event));
  actor.on('resourceUpdated', (event) => told.push(event));
  actor.start();
  const host = hostOf(actor);
  hosts.push(host);
  await host.start();
  host.subscribeResource('one', 'file:///a');
  await quiet();
  fake.announce('notifications/prompts/list_changed');
  fake.announce('notifications/resources/updated', { uri: 'file:///a' });
  expect(told).toEqual([
    { type: 'resourceUpdated', peer: 'one', uri: 'file:///a', certain: false },
    { type: 'listChanged', peer: 'one', kind: 'prompts' },
    { type: 'resourceUpdated', peer: 'one', uri: 'file:///a', certain: true },
  ]);
});
