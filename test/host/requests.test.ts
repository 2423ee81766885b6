/** Resources, prompts and completions through the host: in both eras, from the cache, and when something is wrong. */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { completable, createMcpHandler, McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { afterEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import type { PeerConfig } from '../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { example, packageFile, startEverything } from '../support/serverProcess.js';
import { CHANGING, idle, type Library, library, pass } from './library.js';

const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

async function hostOf(
  peers: Readonly<Record<string, PeerConfig>>,
  options: Omit<CreateHostOptions, 'peers'> = {},
): Promise<Host> {
  const host = createHost({ ...options, peers });
  hosts.push(host);
  await host.start();
  return host;
}

const hostOn = (lib: Library, options: Omit<CreateHostOptions, 'peers'> = {}) =>
  hostOf({ lib: lib.config }, options);

describe.each(['modern', 'legacy'] as const)('over memory, %s', (era) => {
  const revision = era === 'modern' ? '2026-07-28' : '2025-11-25';
  const facts = {
    status: 'ok',
    delivery: 'answered',
    peer: 'lib',
    era,
    revision,
    attempts: 1,
    cached: false,
  };

  test('a resource is read', async () => {
    const lib = library({ era });
    const host = await hostOn(lib);
    expect(await host.readResource('lib', 'note:///a')).toMatchObject({
      ...facts,
      method: 'resources/read',
      target: 'note:///a',
      value: { contents: [{ uri: 'note:///a', text: 'one' }] },
    });
    expect(lib.fake.heard.at(-1)?.params).toMatchObject({ uri: 'note:///a' });
  });

  test('a prompt is got, with and without arguments', async () => {
    const lib = library({ era });
    const host = await hostOn(lib);
    expect(await host.getPrompt('lib', 'greet', { who: 'wörld "q"' })).toMatchObject({
      ...facts,
      method: 'prompts/get',
      target: 'greet',
      value: { messages: [{ role: 'user', content: { text: 'hello {"who":"wörld \\"q\\""}' } }] },
    });
    await host.getPrompt('lib', 'greet');
    expect(lib.fake.heard.at(-1)?.params).not.toHaveProperty('arguments');
  });

  test('an argument is completed', async () => {
    const lib = library({ era });
    const host = await hostOn(lib);
    const request = {
      ref: { type: 'ref/prompt', name: 'greet' },
      argument: { name: 'who', value: 'w' },
      context: { arguments: { other: 'x' } },
    } as const;
    expect(await host.complete('lib', request)).toMatchObject({
      ...facts,
      method: 'completion/complete',
      target: 'greet',
      value: { values: ['world'], total: 1, hasMore: false },
    });
    expect(lib.fake.heard.at(-1)?.params).toMatchObject(request);
    const ref = { type: 'ref/resource', uri: 'note:///{id}' } as const;
    expect(await host.complete('lib', { ref, argument: { name: 'id', value: '' } })).toMatchObject({
      target: 'note:///{id}',
    });
  });

  test('what is not there is not asked for', async () => {
    const lib = library({ era, capabilities: { tools: {} } });
    const host = await hostOn(lib);
    const argument = { name: 'who', value: '' };
    const outcomes = await Promise.all([
      host.readResource('lib', 'note:///a'),
      host.getPrompt('lib', 'greet'),
      host.complete('lib', { ref: { type: 'ref/prompt', name: 'greet' }, argument }),
      host.readResource('nobody', 'note:///a'),
      host.getPrompt('nobody', 'greet'),
    ]);
    for (const outcome of outcomes) {
      expect(outcome).toMatchObject({ status: 'not-found', delivery: 'not-sent', attempts: 0 });
    }
    expect(outcomes.map((outcome) => 'message' in outcome && outcome.message)).toEqual([
      'The peer lib does not offer resources.',
      'The peer lib does not offer prompts.',
      'The peer lib does not offer completions.',
      'There is no peer "nobody".',
      'There is no peer "nobody".',
    ]);
    for (const method of ['resources/read', 'prompts/get', 'completion/complete']) {
      expect(lib.count(method)).toBe(0);
    }
  });

  test('a peer that is gone is unavailable, and nothing is sent', async () => {
    const lib = library({ era });
    const host = await hostOn(lib, { maxAttempts: 0 });
    lib.die();
    await idle();
    const outcome = await host.readResource('lib', 'note:///a');
    expect(outcome).toMatchObject({ status: 'unavailable', delivery: 'not-sent', attempts: 0 });
    await host.stop();
    expect(await host.getPrompt('lib', 'greet')).toMatchObject({
      status: expect.any(String),
      delivery: 'not-sent',
    });
  });

  test.each<[string, JsonObject]>([
    ['resources/read', { contents: [{ uri: 'note:///a' }] }],
    ['resources/read', {}],
    ['prompts/get', { messages: [{ role: 'system', content: { type: 'text', text: 'x' } }] }],
    ['prompts/get', { messages: {} }],
    ['completion/complete', { completion: { values: [1] } }],
    ['completion/complete', { resultType: 'input_required', requestState: 's' }],
  ])('%s that answers with something else is an invalid result (%j)', async (method, result) => {
    const lib = library({ era, on: (message) => (message.method === method ? result : undefined) });
    const host = await hostOn(lib);
    const outcome = await ask(host, method);
    expect(outcome).toMatchObject({ status: 'invalid-result', delivery: 'answered' });
    expect('message' in outcome && outcome.message).toBeTruthy();
  });

  test('an error of the server is told with its code', async () => {
    const error = { code: -32002, message: 'Resource not found' };
    const host = await hostOn(
      library({ era, on: ({ method }) => (method === 'resources/read' ? { error } : undefined) }),
    );
    expect(await host.readResource('lib', 'note:///nope')).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      error: { code: -32002 },
    });
  });

  test('an abort and a deadline reach the wire', async () => {
    const silent = ['resources/read', 'prompts/get', 'completion/complete'];
    const clock = createSimulatedClock();
    const lib = library({ era, on: ({ method = '' }) => (silent.includes(method) ? null : undefined) });
    const host = await hostOn(lib, { clock });
    for (const method of silent) {
      const control = new AbortController();
      const aborted = ask(host, method, { signal: control.signal });
      await idle();
      const { id } = lib.fake.heard.at(-1) ?? {};
      control.abort();
      expect(await aborted).toMatchObject({ status: 'cancelled', delivery: 'unknown' });
      expect(lib.fake.heard.at(-1)).toMatchObject({
        method: 'notifications/cancelled',
        params: { requestId: id },
      });
      const late = ask(host, method, { timeoutMs: 50 });
      await idle();
      const { id: lateId } = lib.fake.heard.at(-1) ?? {};
      await pass(clock, 50);
      expect(await late).toMatchObject({ status: 'timeout', delivery: 'unknown' });
      expect(lib.fake.heard.at(-1)).toMatchObject({ params: { requestId: lateId } });
      const before = lib.fake.heard.length;
      expect(await ask(host, method, { signal: AbortSignal.abort() })).toMatchObject({ status: 'cancelled' });
      expect(await ask(host, method, { timeoutMs: 0 })).toMatchObject({
        status: 'timeout',
        delivery: 'not-sent',
      });
      expect(lib.fake.heard).toHaveLength(before);
    }
    expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
  });

  test('what was under way is asked for again after a reconnect: reading changes nothing', async () => {
    const clock = createSimulatedClock();
    let isDying = true;
    const lib: Library = library({
      era,
      on: ({ method }) => {
        if (method !== 'resources/read' || !isDying) return undefined;
        isDying = false;
        lib.die();
        return null;
      },
    });
    const host = await hostOn(lib, { clock });
    const reading = host.readResource('lib', 'note:///a');
    await pass(clock, 40_000);
    expect(await reading).toMatchObject({
      status: 'ok',
      attempts: 2,
      value: { contents: [{ text: 'one' }] },
    });
  });
});

function ask(host: Host, method: string, options: Parameters<Host['readResource']>[2] = {}) {
  const ref = { type: 'ref/prompt', name: 'greet' } as const;
  switch (method) {
    case 'resources/read':
      return host.readResource('lib', 'note:///a', options);
    case 'prompts/get':
      return host.getPrompt('lib', 'greet', {}, options);
    default:
      return host.complete('lib', { ref, argument: { name: 'who', value: '' } }, options);
  }
}

describe('what is read is kept as long as the server says', () => {
  async function reading(options: Parameters<typeof library>[0] = {}, hostOptions = {}) {
    const clock = createSimulatedClock();
    const lib = library({ hints: () => ({ ttlMs: 60_000 }), ...options });
    const host = await hostOn(lib, { clock, ...hostOptions });
    const read = async (uri = 'note:///a', requestOptions = {}) => {
      const outcome = await host.readResource('lib', uri, requestOptions);
      if (outcome.status !== 'ok') throw new Error(outcome.status);
      return [outcome.value.contents[0]?.['text'], outcome.cached];
    };
    return { clock, lib, host, read, count: () => lib.count('resources/read') };
  }

  test('and no longer', async () => {
    const { clock, lib, host, read, count } = await reading();
    expect(await read()).toEqual(['one', false]);
    lib.text = 'two';
    await pass(clock, 59_999);
    expect(await read()).toEqual(['one', true]);
    expect(await read('note:///b')).toEqual(['two', false]);
    expect(await host.readResource('lib', 'note:///a')).toMatchObject({
      requestId: null,
      attempts: 0,
      durationMs: 0,
    });
    await pass(clock, 1);
    expect(await read()).toEqual(['two', false]);
    expect(count()).toBe(3);
  });

  test.each([{}, { ttlMs: 0 }, { ttlMs: -1 }, { ttlMs: 'x' }])('not at all by the hint %j', async (hint) => {
    const { read, count } = await reading({ hints: () => hint as JsonObject });
    for (let i = 0; i < 3; i += 1) expect(await read()).toEqual(['one', false]);
    expect(count()).toBe(3);
  });

  test('not at all by a legacy server, which has no such word', async () => {
    const { read, count } = await reading({ era: 'legacy' });
    for (let i = 0; i < 3; i += 1) expect(await read()).toEqual(['one', false]);
    expect(count()).toBe(3);
  });

  test('and is everybody’s own', async () => {
    const { host, read } = await reading();
    await read();
    const first = await host.readResource('lib', 'note:///a');
    if (first.status === 'ok') Object.assign(first.value.contents[0] ?? {}, { text: 'evil' });
    expect(await read()).toEqual(['one', true]);
  });

  test('until the server says that it changed', async () => {
    const { lib, host, read } = await reading({ capabilities: CHANGING });
    host.subscribeResource('lib', 'note:///a');
    await idle();
    await read();
    await read('note:///b');
    lib.text = 'two';
    lib.updated('note:///a');
    expect(await read()).toEqual(['two', false]);
    expect(await read('note:///b')).toEqual(['one', true]);
  });

  test('and an answer that was on its way when it changed is not kept', async () => {
    const { lib, host, read } = await reading({
      capabilities: CHANGING,
      on: ({ method }) => {
        if (method === 'resources/read') queueMicrotask(() => lib.updated('note:///a'));
        return undefined;
      },
    });
    host.subscribeResource('lib', 'note:///a');
    await idle();
    expect(await read()).toEqual(['one', false]);
    lib.text = 'two';
    expect(await read()).toEqual(['two', false]);
  });

  test('and never across a reconnect', async () => {
    const { clock, lib, read } = await reading();
    await read();
    lib.text = 'two';
    lib.die();
    await pass(clock, 40_000);
    expect(await read()).toEqual(['two', false]);
    lib.text = 'three';
    expect(await read()).toEqual(['two', true]);
  });

  test('nor what a server of another version answered meanwhile', async () => {
    const store = new Map<string, string>();
    let isDying = true;
    const { clock, lib, host } = await reading(
      {
        on: ({ method }) => {
          if (method !== 'resources/read' || !isDying) return undefined;
          isDying = false;
          lib.version = '2.0.0';
          lib.die();
          return null;
        },
      },
      {
        store: {
          get: async (key: string) => store.get(key),
          set: async (key: string, value: string) => void store.set(key, value),
          delete: async (key: string) => void store.delete(key),
        },
      },
    );
    store.clear();
    const outcome = host.readResource('lib', 'note:///a');
    await pass(clock, 40_000);
    expect(await outcome).toMatchObject({ status: 'ok', attempts: 2 });
    expect([...store.values()].filter((value) => value.includes('note:///a'))).toEqual([]);
  });

  test.each([
    ['a state', { requestState: 'r1' }],
    ['an input', { inputRequests: { q: { method: 'roots/list', params: {} } } }],
  ])('unless it came after a round with %s', async (_, asked) => {
    const { lib, read, count } = await reading(
      {
        on: ({ method, params }) =>
          method === 'resources/read' &&
          params?.['requestState'] === undefined &&
          params?.['inputResponses'] === undefined
            ? { resultType: 'input_required', ...asked }
            : undefined,
      },
      { handlers: { listRoots: async () => [] } },
    );
    expect(await read()).toEqual(['one', false]);
    lib.text = 'two';
    expect(await read()).toEqual(['two', false]);
    expect(count()).toBe(4);
  });

  test('unless its caller added something that may decide the answer', async () => {
    const { read, count } = await reading();
    await read();
    expect(await read('note:///a', { meta: { tenant: 'x' } })).toEqual(['one', false]);
    expect(await read('note:///a', { meta: { traceparent: '00-0-0-00' } })).toEqual(['one', true]);
    expect(count()).toBe(2);
  });

  test('and a store that hangs counts against the deadline, and is no obstacle to an abort', async () => {
    let hangs = false;
    const store = {
      get: (): Promise<undefined> => (hangs ? new Promise(() => {}) : Promise.resolve(undefined)),
      set: async () => {},
      delete: async () => {},
    };
    const { clock, host, count } = await reading({}, { store });
    hangs = true;
    const control = new AbortController();
    const aborted = host.readResource('lib', 'note:///a', { signal: control.signal });
    control.abort();
    expect(await aborted).toMatchObject({ status: 'cancelled', delivery: 'not-sent' });
    const late = host.readResource('lib', 'note:///a', { timeoutMs: 300 });
    await pass(clock, 300);
    expect(await late).toMatchObject({ status: 'timeout', delivery: 'not-sent' });
    expect(count()).toBe(0);
    const patient = host.readResource('lib', 'note:///a', { timeoutMs: 5_000 });
    await pass(clock, 1_000);
    expect(await patient).toMatchObject({ status: 'ok', cached: false });
    expect(host.status().cacheFaults['cache-read']).toBeGreaterThan(0);
  });
});

const PATIENT = {
  probeTimeoutMs: 60_000,
  legacyProbeTimeoutMs: 60_000,
  listTimeoutMs: 60_000,
  startTimeoutMs: 100_000,
};

describe('real servers', { timeout: 120_000 }, () => {
  const everything = packageFile('@modelcontextprotocol/server-everything', 'dist/index.js');

  test('the official example server over stdio, modern', async () => {
    const command = process.execPath;
    const host = await hostOf({ it: { command, args: [example('modern-stdio.mjs')] } }, PATIENT);
    expect(host.peer('it').era).toBe('modern');
    const { items, problems } = await host.listResources();
    expect(problems).toEqual([]);
    const uri = items[0]?.uri ?? '';
    expect(uri).toMatch(/^docs:/);
    expect(await host.listResourceTemplates()).toEqual({ items: [], problems: [] });
    expect(await host.readResource('it', uri)).toMatchObject({
      status: 'ok',
      value: { contents: [{ uri, text: expect.any(String) }] },
    });
    const [explain] = (await host.listPrompts()).items;
    expect(explain).toMatchObject({ name: 'explain', arguments: [{ name: 'id', required: true }] });
    const completed = await host.complete('it', {
      ref: { type: 'ref/prompt', name: 'explain' },
      argument: { name: 'id', value: '' },
    });
    const [id = ''] = completed.status === 'ok' ? completed.value.values : [];
    expect(await host.getPrompt('it', 'explain', { id })).toMatchObject({
      status: 'ok',
      value: { messages: [{ role: 'user' }] },
    });
    expect(await host.readResource('it', 'docs://nope')).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
    });
  });

  test.each(['stdio', 'HTTP'])('the reference server over %s, legacy', async (way) => {
    let config: PeerConfig = { command: process.execPath, args: [everything, 'stdio'], allowLegacy: true };
    if (way === 'HTTP') {
      const server = await startEverything();
      onTestFinished(() => server.kill());
      config = { url: server.url, allowLegacy: true };
    }
    const host = await hostOf({ it: config }, PATIENT);
    expect(host.peer('it').era).toBe('legacy');
    const prompts = await host.listPrompts();
    const resources = await host.listResources();
    const templates = await host.listResourceTemplates();
    expect([...prompts.problems, ...resources.problems, ...templates.problems]).toEqual([]);
    expect(templates.items.length).toBeGreaterThan(0);
    const uri = resources.items[0]?.uri ?? '';
    expect(await host.readResource('it', uri)).toMatchObject({
      status: 'ok',
      value: { contents: [{ uri }] },
    });
    const simple = prompts.items.find((item) => item.arguments.length === 0);
    expect(await host.getPrompt('it', simple?.name ?? '')).toMatchObject({
      status: 'ok',
      value: { messages: [{ content: { type: 'text' } }] },
    });
    const completions = await Promise.all(
      prompts.items
        .flatMap((item) => item.arguments.map((argument) => ({ name: item.name, argument: argument.name })))
        .map(({ name, argument }) =>
          host.complete('it', { ref: { type: 'ref/prompt', name }, argument: { name: argument, value: '' } }),
        ),
    );
    expect(completions.some((it) => it.status === 'ok' && it.value.values.length > 0)).toBe(true);
  });

  test('the official package over HTTP, modern', async () => {
    vi.spyOn(console, 'warn').mockImplementation(() => {});
    const names = ['größe', 'grün'];
    let reads = 0;
    const handler = createMcpHandler(
      () => {
        const server = new McpServer(
          { name: 'official', version: '1.0.0' },
          { capabilities: { completions: {} } },
        );
        server.registerPrompt(
          'grüße',
          {
            argsSchema: z.object({
              wer: completable(z.string(), (value) => names.filter((name) => name.startsWith(value))),
            }),
          },
          async ({ wer }) => ({
            messages: [{ role: 'user', content: { type: 'text', text: `Hallo ${wer}` } }],
          }),
        );
        server.registerResource(
          'kept',
          'note://kept/a',
          { cacheHint: { ttlMs: 60_000, cacheScope: 'private' } },
          async (uri) => {
            reads += 1;
            return { contents: [{ uri: uri.href, text: `read ${reads}` }] };
          },
        );
        server.registerResource(
          'note',
          new ResourceTemplate('note://{name}', { list: undefined, complete: { name: () => names } }),
          {},
          async (uri, { name }) => ({ contents: [{ uri: uri.href, text: String(name) }] }),
        );
        return server;
      },
      { legacy: 'reject' },
    );
    const server = createServer(toNodeHandler(handler) as unknown as RequestListener);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    onTestFinished(async () => {
      await handler.close();
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    });
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    const host = await hostOf({ it: { url } }, PATIENT);
    expect(await host.listPrompts()).toMatchObject({ items: [{ name: 'grüße' }], problems: [] });
    expect(await host.listResourceTemplates()).toMatchObject({
      items: [{ uriTemplate: 'note://{name}' }],
      problems: [],
    });
    const [kept] = (await host.listResources()).items;
    const uri = kept?.uri ?? '';
    for (const cached of [false, true]) {
      expect(await host.readResource('it', uri)).toMatchObject({
        status: 'ok',
        cached,
        value: { contents: [{ text: 'read 1' }] },
      });
    }
    expect(await host.readResource('it', 'note://other')).toMatchObject({
      status: 'ok',
      value: { contents: [{ text: 'other' }] },
    });
    expect(await host.getPrompt('it', 'grüße', { wer: 'Welt' })).toMatchObject({
      status: 'ok',
      value: { messages: [{ content: { text: 'Hallo Welt' } }] },
    });
    const argument = { name: 'wer', value: 'gr' };
    expect(await host.complete('it', { ref: { type: 'ref/prompt', name: 'grüße' }, argument })).toMatchObject(
      {
        status: 'ok',
        value: { values: names },
      },
    );
    expect(
      await host.complete('it', {
        ref: { type: 'ref/resource', uri: 'note://{name}' },
        argument: { name: 'name', value: '' },
      }),
    ).toMatchObject({ status: 'ok', value: { values: names } });
    expect(await host.getPrompt('it', 'nope')).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
    });
  });
});
