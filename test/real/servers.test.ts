// Real servers of both eras, allowlisted and not: what the host says of them, and what they were told.

import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { CallOutcome } from '../../src/calls/outcome.js';
import type { PeerConfig } from '../../src/host/config.js';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { noProcessWith } from '../support/processes.js';
import { type RecordingProxy, readLives, recordingProxy, teePeer } from '../support/recording.js';
import {
  example,
  packageFile,
  type ServerProcess,
  startEverything,
  startExample,
} from '../support/serverProcess.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

/** Generous: a busy machine takes seconds to start a process, and no test here is about a deadline. */
const PATIENT = {
  probeTimeoutMs: 60_000,
  legacyProbeTimeoutMs: 60_000,
  listTimeoutMs: 60_000,
  startTimeoutMs: 100_000,
  maxAttempts: 0,
};

let folder = '';
let files = '';
let count = 0;
const hosts: Host[] = [];
const servers: ServerProcess[] = [];
const proxies: RecordingProxy[] = [];

beforeAll(() => {
  // Servers resolve links, and compare.
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'peerage-real-')));
  files = join(folder, 'files');
  mkdirSync(files);
  writeFileSync(join(files, 'hello.txt'), 'hello from a file');
});
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  await Promise.all(proxies.splice(0).map((proxy) => proxy.close()));
  await Promise.all(servers.splice(0).map((server) => server.kill()));
  await noProcessWith(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function hostOf(config: PeerConfig): Promise<Host> {
  const host = createHost({ ...PATIENT, peers: { it: config } });
  hosts.push(host);
  await host.start();
  return host;
}

async function proxyOf(server: ServerProcess): Promise<RecordingProxy> {
  servers.push(server);
  const proxy = await recordingProxy(server.url);
  proxies.push(proxy);
  return proxy;
}

interface Call {
  readonly name: string;
  readonly args: () => JsonObject;
  readonly says: string;
}

/** A server, and a way to reach it that tells what it heard. */
interface Subject {
  readonly title: string;
  readonly reach: () => Promise<{ readonly config: PeerConfig; readonly heard: () => string[] }>;
  /** Self-reported. */
  readonly server: string;
  readonly tools: readonly string[];
  readonly call: Call;
}

/** A server file over stdio, behind a tee. The folder of this run is in its command line. */
function overStdio(file: string, args: () => readonly string[] = () => []): Subject['reach'] {
  return async () => {
    count += 1;
    const record = join(folder, `${count}.jsonl`);
    return {
      config: teePeer(record, file, args()),
      heard: () => readLives(record).flatMap(({ heard }) => heard.map(({ method }) => method)),
    };
  };
}

/** A server over HTTP, behind a proxy. */
function overHttp(start: () => Promise<ServerProcess>): Subject['reach'] {
  return async () => {
    const proxy = await proxyOf(await start());
    return { config: { url: proxy.url }, heard: () => proxy.methods() };
  };
}

const readFile: Call = {
  name: 'read_text_file',
  args: () => ({ path: join(files, 'hello.txt') }),
  says: 'hello from a file',
};
const echo: Call = { name: 'echo', args: () => ({ message: 'hi' }), says: 'hi' };
const search: Call = { name: 'search', args: () => ({ query: 'ocean' }), says: 'ocean' };
const readNote: Call = { name: 'read_note', args: () => ({ name: 'groceries' }), says: 'olives' };
const everything = packageFile('@modelcontextprotocol/server-everything', 'dist/index.js');

const legacy: readonly Subject[] = [
  {
    title: 'server-filesystem 2026.8.31 over stdio',
    reach: overStdio(
      packageFile('legacy-servers/node_modules/@modelcontextprotocol/server-filesystem', 'dist/index.js'),
      () => [files],
    ),
    server: 'secure-filesystem-server',
    tools: ['list_directory', 'read_text_file', 'write_file'],
    call: readFile,
  },
  {
    title: 'server-everything 2026.8.31 over stdio',
    reach: overStdio(everything, () => ['stdio']),
    server: 'mcp-servers/everything',
    tools: ['echo', 'get-sum'],
    call: echo,
  },
  {
    title: 'server-everything 2026.8.31 over Streamable HTTP',
    reach: overHttp(startEverything),
    server: 'mcp-servers/everything',
    tools: ['echo', 'get-sum'],
    call: echo,
  },
  {
    title: 'the 1.x server package over HTTP with sessions',
    reach: overHttp(() => startExample('legacy-http.mjs')),
    server: 'legacy-http-example',
    tools: ['list_notes', 'read_note'],
    call: readNote,
  },
  {
    title: 'the 1.x server package over HTTP without sessions',
    reach: overHttp(() => startExample('legacy-http.mjs', ['--stateless'])),
    server: 'legacy-http-example',
    tools: ['list_notes', 'read_note'],
    call: readNote,
  },
];

const modern: readonly Subject[] = [
  {
    title: 'server-filesystem 2.0.1 over stdio, which serves both eras',
    reach: overStdio(packageFile('@modelcontextprotocol/server-filesystem', 'dist/index.js'), () => [files]),
    server: 'secure-filesystem-server',
    tools: ['list_directory', 'read_text_file', 'write_file'],
    call: readFile,
  },
  {
    title: 'the 2.x server package over stdio',
    reach: overStdio(example('modern-stdio.mjs')),
    server: 'modern-stdio-example',
    tools: ['echo', 'search', 'slow', 'summarize'],
    call: search,
  },
  {
    title: 'the 2.x server package over stdio, serving both eras',
    reach: overStdio(example('modern-stdio.mjs'), () => ['--dual']),
    server: 'modern-stdio-example',
    tools: ['echo', 'search', 'slow', 'summarize'],
    call: search,
  },
  {
    title: 'createMcpHandler over HTTP',
    reach: overHttp(() => startExample('modern-http.mjs')),
    server: 'modern-http-example',
    tools: ['search', 'weather'],
    call: search,
  },
  {
    title: 'createMcpHandler over HTTP, serving both eras',
    reach: overHttp(() => startExample('modern-http.mjs', ['--dual'])),
    server: 'modern-http-example',
    tools: ['search', 'weather'],
    call: search,
  },
];

function textOf(outcome: CallOutcome): string {
  if (outcome.status !== 'ok') throw new Error(`${outcome.status}: ${JSON.stringify(outcome)}`);
  return outcome.result.content.map((block) => String(block['text'])).join('\n');
}

async function expectCall(host: Host, call: Call, era: 'modern' | 'legacy'): Promise<void> {
  const outcome = await host.catalog().call(call.name, call.args());
  expect(textOf(outcome).toLowerCase()).toContain(call.says);
  expect(outcome).toMatchObject({ peer: 'it', local: call.name, era, delivery: 'answered', attempts: 1 });
}

describe.each(legacy)('$title', ({ reach, server, tools, call }) => {
  it('allowlisted: gets one initialize, is legacy and serves calls', async () => {
    const { config, heard } = await reach();
    const host = await hostOf({ ...config, allowLegacy: true });
    const report = host.peer('it').report();
    expect(report).toMatchObject({
      state: 'legacy',
      era: 'legacy',
      revision: '2025-11-25',
      reason: null,
      listing: null,
      initializeSent: 1,
      path: ['idle', 'probing', 'legacyProbe', 'legacy'],
    });
    expect(report.server?.name).toBe(server);
    expect([...host.catalog().entries.keys()]).toEqual(expect.arrayContaining([...tools]));
    expect(report.tools).toBe(host.catalog().entries.size);
    await expectCall(host, call, 'legacy');
    expect(heard().slice(0, 4)).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
      'tools/list',
    ]);
    expect(heard().filter((method) => method === 'initialize')).toHaveLength(1);
    expect(heard()).toContain('tools/call');
    await host.stop();
  });

  it('not allowlisted: is told nothing but the probe', async () => {
    const { config, heard } = await reach();
    const host = await hostOf(config);
    expect(host.peer('it').report()).toMatchObject({
      state: 'unavailable',
      era: 'unknown',
      revision: null,
      reason: { code: 'not-allowlisted', fix: expect.stringContaining('"allowLegacy": true') },
      initializeSent: 0,
      tools: null,
    });
    expect(host.catalog().entries.size).toBe(0);
    await host.stop();
    expect(heard()).toEqual(['server/discover']);
  });
});

describe.each(modern)('$title', ({ reach, server, tools, call }) => {
  it.each([false, true])('is modern and never sees initialize (allowLegacy: %s)', async (allowLegacy) => {
    const { config, heard } = await reach();
    const host = await hostOf({ ...config, allowLegacy });
    const report = host.peer('it').report();
    expect(report).toMatchObject({
      state: 'modern',
      era: 'modern',
      revision: '2026-07-28',
      reason: null,
      listing: null,
      initializeSent: 0,
      path: ['idle', 'probing', 'modern'],
    });
    expect(report.server?.name).toBe(server);
    expect([...host.catalog().entries.keys()]).toEqual(expect.arrayContaining([...tools]));
    expect(report.tools).toBe(host.catalog().entries.size);
    await expectCall(host, call, 'modern');
    await host.stop();
    // They all announce changes: so they are listened to, and listed once more when they have agreed.
    const [first, second, ...rest] = heard().filter((method) => method !== 'notifications/cancelled');
    expect([first, second]).toEqual(['server/discover', 'tools/list']);
    const again = rest.filter((method) => method === 'tools/list');
    expect(rest.filter((method) => method !== 'tools/list').sort()).toEqual([
      'subscriptions/listen',
      'tools/call',
    ]);
    expect(again.length).toBeLessThanOrEqual(1);
  });
});
