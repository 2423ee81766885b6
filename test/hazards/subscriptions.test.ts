// Subscriptions that real servers close, refuse, cut short or lose, over real processes and sockets.

import { appendFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { advance } from '../../src/testing/drive.js';
import { noProcessWith } from '../support/processes.js';
import { serve, type TestServer } from '../transports/httpHarness.js';

const ANNOUNCING = join(import.meta.dirname, '../fixtures/announcingServer.mjs');
const WINDOWS = process.platform === 'win32';

/** A busy machine takes its time. */
const eventually = <T>(look: () => T) => expect.poll(look, { timeout: 20_000, interval: 10 });

let folder = '';
const hosts: Host[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'peerage-subscriptions-'));
});
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  await noProcessWith(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const names = (host: Host): string[] => [...host.catalog().entries.keys()];
const subscriptionOf = (host: Host) => host.status().peers[0]?.subscription;

interface Heard {
  readonly id: number;
  readonly method: string;
  readonly params: { readonly notifications?: Readonly<Record<string, unknown>>; readonly name?: string };
}

/** What a modern HTTP server does with one listen request. Its stream is open. */
type OnListen = (stream: Stream, message: Heard, count: number) => void;

class Stream {
  readonly response: ServerResponse;
  readonly id: number;

  constructor(response: ServerResponse, id: number) {
    this.response = response;
    this.id = id;
  }

  say(method: string, params: object = {}): void {
    const _meta = { 'io.modelcontextprotocol/subscriptionId': this.id };
    this.write({ jsonrpc: '2.0', method, params: { ...params, _meta } });
  }

  acknowledge(notifications: unknown): void {
    this.say('notifications/subscriptions/acknowledged', { notifications });
  }

  result(): void {
    const _meta = { 'io.modelcontextprotocol/subscriptionId': this.id };
    this.write({ jsonrpc: '2.0', id: this.id, result: { resultType: 'complete', _meta } });
    this.response.end();
  }

  error(code: number, message: string): void {
    this.write({ jsonrpc: '2.0', id: this.id, error: { code, message } });
    this.response.end();
  }

  private write(message: object): void {
    this.response.write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  }
}

interface ListServer extends TestServer {
  tools: string[];
  /** Listen requests that came. */
  listens: Heard[];
  /** Ends of listen streams that the client brought about. */
  closed: number[];
  isHoldingCalls: boolean;
  /** Answers to calls that wait. */
  held: (() => void)[];
  stream(): Stream;
  listed(): number;
}

async function listServer(onListen: OnListen): Promise<ListServer> {
  const listens: Heard[] = [];
  const closed: number[] = [];
  let listed = 0;
  let stream: Stream | null = null;
  const server = await serve((request, response) => {
    const message = JSON.parse(request.body) as Heard;
    const { id, method } = message;
    const reply = (result: object): void => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } }));
    };
    switch (method) {
      case 'server/discover':
        reply({ supportedVersions: ['2026-07-28'], capabilities: { tools: { listChanged: true } } });
        break;
      case 'tools/list': {
        listed += 1;
        const tools = self.tools.map((name) => ({ name, inputSchema: { type: 'object' } }));
        reply({ tools, ttlMs: 86_400_000, cacheScope: 'private' });
        break;
      }
      case 'subscriptions/listen':
        listens.push(message);
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.flushHeaders();
        response.on('close', () => {
          if (!response.writableEnded) closed.push(id);
        });
        stream = new Stream(response, id);
        onListen(stream, message, listens.length);
        break;
      default:
        if (self.isHoldingCalls) self.held.push(() => reply({ content: [] }));
        else reply({ content: [] });
    }
  });
  const self: ListServer = Object.assign(server, {
    tools: ['first'],
    isHoldingCalls: false,
    held: [],
    listens,
    closed,
    stream: () => stream as Stream,
    listed: () => listed,
  });
  return self;
}

function hostOn(server: TestServer, options: Partial<CreateHostOptions> = {}) {
  const clock = createSimulatedClock();
  const host = createHost({
    clock,
    random: () => 0.5,
    ...options,
    peers: { one: { url: `${server.origin}/mcp` } },
  });
  hosts.push(host);
  return { host, clock };
}

const agree: OnListen = (stream, { params }) => stream.acknowledge(params.notifications);

describe('over HTTP, a subscription', () => {
  it('that ends with a result before any acknowledgement is not offered: asked for once, tools stay usable', async () => {
    const server = await listServer((stream) => stream.result());
    const { host, clock } = hostOn(server);
    await host.start();
    await eventually(() => subscriptionOf(host)?.state).toBe('closed');
    await advance(clock, 600_000);
    expect(server.listens).toHaveLength(1);
    expect(subscriptionOf(host)?.problem).toBe('the server ended the subscription');
    expect((await host.call('first')).status).toBe('ok');
  });

  it('that is refused now and then is asked for again, and what was not agreed to is told apart', async () => {
    const server = await listServer((stream, message, count) => {
      if (count % 2 === 1) stream.error(-32603, 'busy');
      else stream.acknowledge({ ...message.params.notifications, toolsListChanged: count > 2 });
    });
    const { host, clock } = hostOn(server, { backoffMinMs: 1_000 });
    await host.start();
    await eventually(() => subscriptionOf(host)?.state).toBe('backoff');
    expect(subscriptionOf(host)?.problem).toBe('error -32603 (busy)');
    await advance(clock, 1_000);
    await eventually(() => subscriptionOf(host)?.state).toBe('listening');
    expect(subscriptionOf(host)?.missing).toEqual(['toolsListChanged']);
  });

  it('tells of a list that was not complete at first', async () => {
    const server = await listServer(agree);
    const { host, clock } = hostOn(server);
    await host.start();
    await eventually(() => server.listed()).toBe(2);
    server.tools = Array.from({ length: 10 }, (_, i) => `tool-${i}`);
    server.stream().say('notifications/tools/list_changed');
    await eventually(() =>
      clock.pendingTimers > 0 ? advance(clock, 250).then(() => names(host).length) : 0,
    ).toBe(10);
  });

  it.each([
    ['its stream ends without a word', (stream: Stream) => void stream.response.end()],
    ['its socket is destroyed', (stream: Stream) => void stream.response.destroy()],
    ['the server ends it with a result', (stream: Stream) => stream.result()],
  ])('is listened to again when %s, and the lease has what came in the gap', async (_, lose) => {
    const server = await listServer(agree);
    const { host, clock } = hostOn(server, { backoffMinMs: 1_000 });
    await host.start();
    await eventually(() => server.listed()).toBe(2);
    lose(server.stream());
    await eventually(() => subscriptionOf(host)?.state).toBe('backoff');
    // Changed while nobody listened: no announcement of it will ever come, and the list is fresh for a day.
    server.tools = ['first', 'gap'];
    expect(names(host)).toEqual(['first']);
    await advance(clock, 1_000);
    await eventually(() => names(host)).toEqual(['first', 'gap']);
    expect(server.listens).toHaveLength(2);
    expect(new Set(server.listens.map(({ id }) => id)).size).toBe(2);
    expect(host.peer('one').report().path).toEqual(['idle', 'probing', 'modern']);
  });

  it('that is ended at once again and again is asked for ever more slowly, and leaves no listener behind', async () => {
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    const server = await listServer((stream, message) => {
      stream.acknowledge(message.params.notifications);
      stream.response.end();
    });
    const { host, clock } = hostOn(server, { random: () => 0.999 });
    await host.start();
    // Ten minutes, in which each loss is real: the clock waits for it.
    for (const end = clock.now() + 600_000; clock.now() < end; ) {
      await eventually(() => subscriptionOf(host)?.state).toBe('backoff');
      await advance(clock, 10_000);
    }
    // 0.5 + 1 + 2 + … + 30 s, then one each 30 s.
    expect(server.listens.length).toBeLessThanOrEqual(8 + 600 / 30);
    expect(server.listens.length).toBeGreaterThanOrEqual(10);
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });

  it('that says nothing for a day is left alone, and a call in flight is untouched when it breaks', async () => {
    const server = await listServer(agree);
    const { host, clock } = hostOn(server, { callTimeoutMs: 300_000 });
    await host.start();
    await eventually(() => server.listed()).toBe(2);
    await advance(clock, 24 * 3_600_000);
    expect(subscriptionOf(host)?.state).toBe('listening');
    expect(server.listens).toHaveLength(1);
    expect(server.closed).toEqual([]);
    server.isHoldingCalls = true;
    const call = host.call('first');
    await eventually(() => server.held.length).toBe(1);
    server.stream().response.destroy();
    await eventually(() => subscriptionOf(host)?.state).toBe('backoff');
    server.held[0]?.();
    expect(await call).toMatchObject({ status: 'ok', attempts: 1 });
  });

  it('ends with the host: its stream is closed', async () => {
    const server = await listServer(agree);
    const { host } = hostOn(server);
    await host.start();
    await eventually(() => subscriptionOf(host)?.state).toBe('listening');
    await host.stop();
    await eventually(() => server.closed).toEqual([server.listens[0]?.id]);
    await server.quiet();
  });
});

describe.skipIf(WINDOWS)('over a pipe, a subscription', () => {
  function newState(...tools: string[]): string {
    const state = mkdtempSync(join(folder, 'state-'));
    writeFileSync(join(state, 'tools'), tools.map((name) => `${name}\n`).join(''));
    return state;
  }

  function hostOf(state: string): Host {
    const host = createHost({
      backoffMinMs: 1,
      backoffMaxMs: 20,
      peers: { one: { command: process.execPath, args: [ANNOUNCING, state] } },
    });
    hosts.push(host);
    return host;
  }

  it('tells upwards of a tool that a call adds', async () => {
    const host = hostOf(newState('add'));
    await host.start();
    await eventually(() => subscriptionOf(host)?.state).toBe('listening');
    const added: string[] = [];
    host.on('catalogChanged', (change) => added.push(...change.added));
    expect((await host.call('add', { name: 'new-tool' })).status).toBe('ok');
    await expect.poll(() => names(host), { timeout: 10_000 }).toEqual(['add', 'new-tool']);
    expect(added).toEqual(['new-tool']);
    expect((await host.call('new-tool')).status).toBe('ok');
  });

  it.each(['end', 'cancel', 'die'])(
    'that ends by %s is replaced, and the lease has what came in the gap',
    async (how) => {
      const state = newState(how);
      const host = hostOf(state);
      await host.start();
      await eventually(() => subscriptionOf(host)?.state).toBe('listening');
      appendFileSync(join(state, 'tools'), 'gap\n');
      const { status } = await host.call(how);
      expect(status).toBe(how === 'die' ? 'lost' : 'ok');
      await expect.poll(() => names(host), { timeout: 20_000 }).toEqual([how, 'gap'].sort());
      await expect.poll(() => subscriptionOf(host)?.state, { timeout: 20_000 }).toBe('listening');
      const starts = readFileSync(join(state, 'starts'), 'utf8').split('\n').filter(Boolean);
      expect(starts).toHaveLength(how === 'die' ? 2 : 1);
    },
  );
});
