/** Lists that are asked for, walked or served while something else happens to their peer. */
import { afterEach, expect, test } from 'vitest';
import { createActor, setup } from 'xstate';
import { createMemoryStore } from '../../src/cache/memoryStore.js';
import { type CreateHostOptions, createHost, hostLogic, hostOf } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { tool } from './fakes.js';
import { idle, type Library, library, prompt } from './library.js';

const hosts: Host[] = [];
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

async function started(lib: Library, options: Omit<CreateHostOptions, 'peers'> = {}): Promise<Host> {
  const host = createHost({ peers: { lib: lib.config }, ...options });
  hosts.push(host);
  await host.start();
  return host;
}

test('a walk ends where its peer leaves service: no page is asked for while an era is negotiated', async () => {
  let discovers = 0;
  let answerPage: (() => void) | undefined;
  const lib: Library = library({
    on: ({ id, method, params }, fake) => {
      if (method === 'server/discover') {
        discovers += 1;
        return discovers > 1 ? null : undefined;
      }
      if (method === 'tools/call') {
        const data = { supported: ['2026-07-28'], requested: '2026-07-28' };
        return { error: { code: -32022, message: 'Unsupported protocol version', data } };
      }
      if (method !== 'tools/list') return undefined;
      if (params?.['cursor'] === undefined) {
        const more = fake.methods().filter((heard) => heard === 'tools/list').length > 1;
        return { tools: [tool('search')], ...(more ? { nextCursor: 'second' } : {}) };
      }
      answerPage = () =>
        fake.say({ id: id as number, result: { tools: [], nextCursor: 'third' } as JsonValue } as never);
      return null;
    },
  });
  const host = await started(lib, { probeTimeoutMs: 60_000, backoffMinMs: 1, backoffMaxMs: 1 });
  host.peer('lib').refresh();
  await idle();
  await host.call('search', {});
  await expect.poll(() => host.peer('lib').state).toBe('probing');
  answerPage?.();
  await idle();
  expect(lib.fake.methods().slice(lib.fake.methods().lastIndexOf('server/discover'))).toEqual([
    'server/discover',
  ]);
});

test('a list that is asked for in a listener is fetched, not called out of reach', async () => {
  const host = createHost({ peers: { lib: library().config } });
  hosts.push(host);
  const asked = new Promise<unknown>((resolve) => {
    host.on('peer', ({ state }) => {
      if (state === 'modern') resolve(host.listPrompts());
    });
  });
  await host.start();
  expect(await asked).toMatchObject({ items: [{ name: 'greet' }], problems: [] });
});

test('a first list that is asked for anew is not answered from a store', async () => {
  const store = createMemoryStore();
  const hints = () => ({ ttlMs: 60_000, cacheScope: 'public' });
  const first = library({ identity: 'one server', hints });
  await (await started(first, { store })).listPrompts();
  const second = library({ identity: 'one server', hints });
  second.items.prompts = [prompt('newer')];
  const host = await started(second, { store });
  expect(await host.listPrompts({ refresh: true })).toMatchObject({
    items: [{ name: 'newer', freshness: 'fresh' }],
  });
});

test('a peer that is added anew under its old name sees nothing private of the one before', async () => {
  const hints = () => ({ ttlMs: 60_000, cacheScope: 'private' });
  const of = (name: string): Library => {
    const lib = library({ identity: 'one server', hints });
    lib.items.tools = [tool(name)];
    return lib;
  };
  const host = await started(of('secret-of-alice'));
  await host.removePeer('lib');
  await host.addPeer('lib', of('secret-of-bob').config);
  await idle();
  expect([...host.catalog().entries.keys()]).toEqual(['secret-of-bob']);
});

test('a list that is awaited ends with the machine that the host is a part of', async () => {
  const lib = library({ on: ({ method }) => (method === 'prompts/list' ? null : undefined) });
  const application = setup({ actors: { host: hostLogic({ peers: { lib: lib.config } }) } }).createMachine({
    invoke: { src: 'host', id: 'host' },
  });
  const parent = createActor(application).start();
  const host = hostOf(parent.getSnapshot().children['host'] as never);
  await host.start();
  const listing = host.listPrompts();
  await idle();
  parent.stop();
  expect(await listing).toMatchObject({ items: [], problems: [{ peer: 'lib' }] });
});

test('a list that changed during every walk is served, and is not called fresh', async () => {
  const lib: Library = library({
    capabilities: { tools: {}, prompts: { listChanged: true } },
    on: ({ method }) => {
      if (method === 'prompts/list') lib.announce('prompts');
      return undefined;
    },
  });
  const host = await started(lib);
  expect(await host.listPrompts()).toMatchObject({
    items: [{ name: 'greet', freshness: 'stale' }],
    problems: [{ message: expect.stringContaining('faster than it can be listed') }],
  });
});

test('calls send no event to a chart while a list is being renewed', async () => {
  let isSlow = false;
  const lib = library({
    hints: () => ({ ttlMs: 1 }),
    on: ({ method }) => (method === 'tools/list' && isSlow ? null : undefined),
  });
  const clock = createSimulatedClock();
  let events = 0;
  const host = await started(lib, {
    clock,
    inspect: ({ type }) => {
      if (type === '@xstate.event') events += 1;
    },
  });
  isSlow = true;
  clock.advance(5);
  await host.call('search', {});
  await idle();
  const before = events;
  for (let i = 0; i < 20; i += 1) await host.call('search', {});
  expect(events - before).toBe(0);
});
