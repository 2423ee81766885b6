// Servers that die, hang, come late or forget, over real processes and sockets.

import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import http, { type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { PeerConfig } from '../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import { RequiredPeerError } from '../../src/host/errors.js';
import type { Host } from '../../src/host/facade.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { advance } from '../../src/testing/drive.js';
import { legacyFake, modernFake } from '../host/fakes.js';
import { listeningFake } from '../host/subscribingFakes.js';
import { noProcessWith, processesWith } from '../support/processes.js';
import { linesOf } from '../support/recording.js';
import { serve } from '../transports/httpHarness.js';

const fixture = (name: string): string => join(import.meta.dirname, '../fixtures', name);
const WINDOWS = process.platform === 'win32';

/** A busy machine takes its time. */
const eventually = <T>(look: () => T) => expect.poll(look, { timeout: 20_000, interval: 10 });

let folder = '';
let count = 0;
const hosts: Host[] = [];

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'peerage-hazards-'));
});
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  await noProcessWith(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const newFile = (): string => {
  count += 1;
  return join(folder, `file-${count}`);
};

function hostWith(peers: Record<string, PeerConfig>, options: Partial<CreateHostOptions> = {}): Host {
  const host = createHost({ backoffMinMs: 1, backoffMaxMs: 20, ...options, peers });
  hosts.push(host);
  return host;
}

const reaches = (host: Host, state: string) =>
  expect.poll(() => host.peer('one').state, { timeout: 20_000, interval: 5 }).toBe(state);

interface Message {
  readonly id?: number;
  readonly method: string;
}

const TOOLS = { tools: [{ name: 'search', inputSchema: { type: 'object' } }] };
const DISCOVERED = { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } };

const sendJson = (response: ServerResponse, status: number, body: object, headers: object = {}): void => {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify({ jsonrpc: '2.0', ...body }));
};

/** Answers as a modern server over HTTP. */
function modernAnswer({ id, method }: Message, response: ServerResponse): void {
  const results: Record<string, object> = {
    'server/discover': DISCOVERED,
    'tools/list': { ...TOOLS, ttlMs: 0, cacheScope: 'private' },
    'tools/call': { content: [] },
  };
  sendJson(response, 200, { id, result: { resultType: 'complete', ...results[method] } });
}

describe.skipIf(WINDOWS)('a process', () => {
  it.each([
    ['modern', 'after-1'],
    ['modern', 'after-2'],
    ['legacy', 'after-2'],
  ])('%s, that exits right after its handshake (%s), is started so often and no more', async (era, point) => {
    const record = newFile();
    const args = [fixture('mortalServer.mjs'), era, record, point];
    const host = hostWith(
      { one: { command: process.execPath, args, allowLegacy: era === 'legacy' } },
      { maxAttempts: 3, retryUnavailableAfterMs: 0 },
    );
    await host.start();
    await reaches(host, 'unavailable');
    // A legacy server may end before it hears of the negotiation's end, and is not started for the probe alone.
    expect(linesOf(record).filter((line) => line === 'start')).toHaveLength(4);
    const { reason } = host.peer('one').report();
    expect(reason?.code).toBe('connection-lost');
    expect(reason?.message).toContain('4 times in a row');
  });

  it('restarted fifty times in quick succession lives at most once', async () => {
    const env = { LOCK: newFile(), STARTS: newFile() };
    const config: PeerConfig = {
      command: process.execPath,
      args: [fixture('lockingServer.mjs'), folder],
      env,
      allowLegacy: true,
    };
    const host = hostWith({ one: config }, { maxAttempts: 0 });
    await host.start();
    let last: Promise<unknown> = Promise.resolve();
    for (let i = 0; i < 50; i += 1) {
      void host.removePeer('one');
      last = host.addPeer('one', config);
      last.catch(() => undefined);
      // Now and then one gets far enough to be a process.
      if (i % 10 === 0) await reaches(host, 'probing');
      if (i % 25 === 0) await reaches(host, 'legacy');
    }
    await last;
    expect(host.peer('one').state).toBe('legacy');
    const starts = linesOf(env.STARTS);
    expect(starts).not.toContain('refused');
    expect(starts.length).toBeGreaterThan(2);
    expect(processesWith(folder)).toHaveLength(1);
  });

  it('of a host that is started twenty times and stopped in the middle is not left', async () => {
    const record = newFile();
    for (const turns of [0, 1, 5, 50]) {
      const args = [fixture('mortalServer.mjs'), 'modern', record, 'never'];
      const host = hostWith({
        one: { command: process.execPath, args },
        two: { command: process.execPath, args },
      });
      const starts = Array.from({ length: 20 }, () => host.start());
      for (const start of starts) start.catch(() => undefined);
      for (let i = 0; i < turns; i += 1) await new Promise(setImmediate);
      await host.stop();
      expect(processesWith(folder)).toEqual([]);
      expect(new Set(starts).size).toBe(1);
    }
  });

  it('leaves no child, pipe or listener of this process behind, however often it is lost', async () => {
    const record = newFile();
    const args = [fixture('mortalServer.mjs'), 'modern', record, 'after-2'];
    const used = (): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (const name of process.getActiveResourcesInfo()) {
        if (name === 'ProcessWrap' || name === 'PipeWrap' || name.startsWith('TCP')) {
          counts[name] = (counts[name] ?? 0) + 1;
        }
      }
      return counts;
    };
    const listeners = (): number =>
      process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
    const before = { used: used(), listeners: listeners() };
    const host = hostWith(
      { one: { command: process.execPath, args } },
      { maxAttempts: 20, backoffMaxMs: 1, retryUnavailableAfterMs: 0 },
    );
    await host.start();
    await reaches(host, 'unavailable');
    expect(linesOf(record).filter((line) => line === 'start')).toHaveLength(21);
    const grown = (): string[] =>
      Object.entries(used()).flatMap(([name, now]) => (now > (before.used[name] ?? 0) ? [name] : []));
    await eventually(grown).toEqual([]);
    await host.stop();
    expect(listeners()).toBe(before.listeners);
  });
});

describe('an HTTP server', () => {
  /** A port of a server that is not there yet. */
  async function lateServer(answer: (message: Message, response: ServerResponse) => void) {
    const server = http.createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => answer(JSON.parse(Buffer.concat(chunks).toString()) as Message, response));
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    const close = async (): Promise<void> => {
      server.closeAllConnections();
      if (!server.listening) return;
      server.close();
      await once(server, 'close');
    };
    const open = async (): Promise<void> => {
      server.listen(port, '127.0.0.1');
      await once(server, 'listening');
    };
    return { url: `http://127.0.0.1:${port}/mcp`, open, close };
  }

  it('that comes after its client is found by itself, and its reason until then says what was refused', async () => {
    const server = await lateServer(modernAnswer);
    await server.close();
    const clock = createSimulatedClock();
    const host = hostWith({ one: { url: server.url } }, { clock, maxAttempts: 2, backoffMaxMs: 500 });
    await host.start();
    await reaches(host, 'reconnecting');
    expect(host.peer('one').report().reason?.message).toContain('ECONNREFUSED');
    await eventually(() => advance(clock, 1_000).then(() => host.peer('one').state)).toBe('unavailable');
    await server.open();
    await eventually(() => advance(clock, 10_000).then(() => host.peer('one').state)).toBe('modern');
    expect((await host.call('search')).status).toBe('ok');
    await host.stop();
    await server.close();
  });

  it('that is gone while nothing is in flight is noticed by the next call, and found when it is back', async () => {
    const server = await lateServer(modernAnswer);
    const host = hostWith({ one: { url: server.url } }, { maxAttempts: 1_000 });
    await host.start();
    await server.close();
    const calls: ReturnType<Host['call']>[] = [];
    await expect
      .poll(
        () => {
          const { state } = host.peer('one');
          // The first may still be written into the socket that is closing.
          if (state === 'modern') calls.push(host.call('search'));
          return state;
        },
        { interval: 20, timeout: 10_000 },
      )
      .not.toBe('modern');
    expect(host.status().peers[0]?.lastError?.message).toMatch(/ECONN|socket|closed|ended/);
    await server.open();
    await reaches(host, 'modern');
    // Lost, or not sent and then repeated.
    for (const { status } of await Promise.all(calls)) expect(['ok', 'lost']).toContain(status);
    expect((await host.call('search')).status).toBe('ok');
    await host.stop();
    await server.close();
  });

  it('that asks for a pause gets one', async () => {
    let probes = 0;
    const server = await serve((request, response) => {
      probes += 1;
      if (probes === 1) response.writeHead(503, { 'retry-after': '30' }).end('overloaded');
      else modernAnswer(JSON.parse(request.body) as Message, response);
    });
    const clock = createSimulatedClock();
    const host = hostWith({ one: { url: `${server.origin}/mcp` } }, { clock });
    await host.start();
    await reaches(host, 'reconnecting');
    await advance(clock, 29_999);
    expect(host.peer('one').state).toBe('reconnecting');
    await advance(clock, 1);
    await reaches(host, 'modern');
  });

  it('that answers nothing: fifty starts that fail leave no listener and no socket', async () => {
    const server = await serve(() => undefined);
    const clock = createSimulatedClock();
    const listeners = (): number =>
      process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0);
    const warnings: Error[] = [];
    const note = (warning: Error): void => void warnings.push(warning);
    process.on('warning', note);
    const before = listeners();
    const host = hostWith(
      { one: { url: `${server.origin}/mcp` } },
      { clock, maxAttempts: 0, retryUnavailableAfterMs: 0, startTimeoutMs: 1 },
    );
    const starting = host.start();
    for (let i = 1; i <= 50; i += 1) {
      await eventually(() => server.requests.length).toBe(i);
      await advance(clock, 15_000);
      await reaches(host, 'unavailable');
      if (i < 50) host.peer('one').retry();
    }
    await starting;
    expect(listeners()).toBe(before);
    await host.stop();
    await server.quiet();
    expect(clock.pendingTimers).toBe(0);
    process.off('warning', note);
    expect(warnings).toEqual([]);
  });

  it('that forgot its sessions gets one new negotiation, whoever notices, and nothing loops', async () => {
    let session = 0;
    let isForgetful = false;
    const methods: string[] = [];
    const server = await serve((request, response) => {
      if (request.method === 'DELETE') {
        response.writeHead(204).end();
        return;
      }
      if (request.method === 'GET') {
        response.writeHead(405).end();
        return;
      }
      const { id, method } = JSON.parse(request.body) as Message;
      methods.push(method);
      const reply = (result: object, headers: object = {}): void =>
        sendJson(response, 200, { id, result }, headers);
      if (method === 'initialize') {
        session += 1;
        isForgetful = false;
        const serverInfo = { name: 'old', version: '1' };
        reply(
          { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo },
          { 'mcp-session-id': `session-${session}` },
        );
      } else if (method === 'server/discover') {
        sendJson(response, 400, { id: null, error: { code: -32600, message: 'no session' } });
      } else if (isForgetful || request.headers['mcp-session-id'] !== `session-${session}`) {
        sendJson(response, 404, { id: null, error: { code: -32001, message: 'Session not found' } });
      } else if (id === undefined) {
        response.writeHead(202).end();
      } else {
        reply(method === 'tools/list' ? TOOLS : { content: [] });
      }
    });
    const host = hostWith({ one: { url: `${server.origin}/mcp`, allowLegacy: true } });
    await host.start();
    expect(host.peer('one').state).toBe('legacy');
    isForgetful = true;
    methods.length = 0;
    const outcomes = await Promise.all(Array.from({ length: 10 }, () => host.call('search')));
    for (const { status, message } of outcomes as { status: string; message: string }[]) {
      expect(['ok', 'unavailable', 'lost']).toContain(status);
      expect(message).not.toBe('');
    }
    await reaches(host, 'legacy');
    await eventually(async () => (await host.call('search')).status).toBe('ok');
    expect(methods.filter((method) => method === 'initialize')).toHaveLength(1);
    expect(host.status().peers).toMatchObject([{ generation: 2, breaker: 'closed' }]);
  });
});

describe('a server of another kind than before', () => {
  it('is asked again after every loss: legacy at first, modern after its redeploy, as the status shows', async () => {
    const old = legacyFake();
    const renewed = modernFake();
    let isRenewed = false;
    const host = hostWith({
      one: {
        identity: 'redeployed',
        allowLegacy: true,
        createTransport: (events) => (isRenewed ? renewed : old).config.createTransport(events),
      },
    });
    await host.start();
    expect(host.status().peers).toMatchObject([{ era: 'legacy', revision: '2025-11-25' }]);
    isRenewed = true;
    old.connections[0]?.close({ kind: 'exit', detail: 'redeployed' });
    await reaches(host, 'modern');
    expect(host.status().peers).toMatchObject([{ era: 'modern', revision: '2026-07-28' }]);
    expect(renewed.methods()[0]).toBe('server/discover');
  });
});

describe('a server', () => {
  it('that ignores what it does not know: that request times out and says so, calls are unaffected', async () => {
    const clock = createSimulatedClock();
    const fake = listeningFake({ on: ({ method }) => (method === 'prompts/list' ? null : undefined) });
    const host = hostWith({ one: fake.config }, { clock, listTimeoutMs: 5_000 });
    await host.start();
    const listing = host.listPrompts();
    expect((await host.call('search')).status).toBe('ok');
    await advance(clock, 5_000);
    const { items, problems } = await listing;
    expect(items).toEqual([]);
    expect(problems).toMatchObject([
      { peer: 'one', message: expect.stringMatching(/prompts\/list.*5000 ms/) },
    ]);
    expect(host.peer('one').state).toBe('modern');
    expect((await host.call('search')).status).toBe('ok');
  });

  it('that is slow is pending in the catalog, and can be waited for', async () => {
    let answer: () => void = () => undefined;
    const fake = modernFake({
      on: ({ method, id }, self) => {
        if (method !== 'server/discover') return undefined;
        answer = () => self.say({ id: id as number, result: { resultType: 'complete', ...DISCOVERED } });
        return null;
      },
    });
    const host = hostWith({ one: fake.config, fast: modernFake({ tools: ['fast'] }).config });
    const starting = host.start();
    await host.peer('fast').waitUntil('settled');
    expect(host.catalog().pending).toEqual(['one']);
    const ready = host.peer('one').waitUntil('callable');
    answer();
    expect(await ready).toMatchObject({ state: 'modern' });
    await starting;
    expect(host.catalog().pending).toEqual([]);
    expect([...host.catalog().entries.keys()]).toEqual(['fast', 'search']);
  });

  it('that is down fails the start if it is required, and is shown if it is not', async () => {
    const server = http.createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
    server.close();
    await once(server, 'close');
    const optional = hostWith({ one: { url }, other: modernFake().config }, { maxAttempts: 1 });
    const { peers } = await optional.start();
    expect(peers).toMatchObject([{ reason: { code: 'unreachable' } }, { state: 'modern' }]);
    expect(optional.status().peers[0]?.lastError?.message).toContain('ECONNREFUSED');
    const required = hostWith({ one: { url, required: true } }, { maxAttempts: 1 });
    await expect(required.start()).rejects.toBeInstanceOf(RequiredPeerError);
  });

  it('is not asked for a tool that it does not have, and the next call is as any other', async () => {
    const fake = modernFake();
    const host = hostWith({ one: fake.config });
    await host.start();
    const before = fake.heard.length;
    const outcomes = await Promise.all(Array.from({ length: 100 }, () => host.call('missing')));
    expect(new Set(outcomes.map(({ status, delivery }) => `${status} ${delivery}`))).toEqual(
      new Set(['not-found not-sent']),
    );
    expect(fake.heard).toHaveLength(before);
    expect(host.status().peers).toMatchObject([{ state: 'modern', generation: 1, breaker: 'closed' }]);
    expect((await host.call('search')).status).toBe('ok');
  });
});
