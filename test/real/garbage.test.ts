// Servers that answer with what is no message: a typed reason within the deadline, and nobody else is disturbed.

import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import type { PeerConfig } from '../../src/host/config.js';
import { createHost } from '../../src/host/createHost.js';
import type { Host, ReasonCode } from '../../src/host/facade.js';
import { noProcessWith } from '../support/processes.js';
import { linesOf } from '../support/recording.js';
import { example } from '../support/serverProcess.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const BABBLING = join(import.meta.dirname, '../fixtures/babblingServer.mjs');
/**
 * Short: some of them say nothing that ends the wait. The reasons are the same whether a busy machine was in time or
 * not, since neither silence nor noise proves anything.
 */
const SHORT = {
  probeTimeoutMs: 5_000,
  legacyProbeTimeoutMs: 5_000,
  maxAttempts: 0,
  maxMessageBytes: 64 * 1024,
};

const LONG = { ...SHORT, probeTimeoutMs: 60_000, legacyProbeTimeoutMs: 60_000 };

let folder = '';
const hosts: Host[] = [];
const servers: Server[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'peerage-garbage-'));
  // What the first HTTP peer loads is not to be waited for within a deadline.
  await import('undici');
});
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  for (const server of servers.splice(0)) {
    server.close();
    server.closeAllConnections();
  }
  await noProcessWith(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function hostWith(options: Parameters<typeof createHost>[0]): Host {
  const host = createHost(options);
  hosts.push(host);
  return host;
}

const UNUSABLE = [
  'text',
  'binary',
  'framed',
  'oversize',
  'endless',
  'flood',
  'unterminated',
  'array',
  'silent',
] as const;

describe('on stdout', () => {
  it.each([false, true])(
    'no message: unavailable for a typed reason (allowLegacy: %s)',
    async (allowLegacy) => {
      const recordOf = (kind: string): string => join(folder, `${allowLegacy}-${kind}.log`);
      const peers = Object.fromEntries(
        UNUSABLE.map((kind): [string, PeerConfig] => [
          kind,
          { command: process.execPath, args: [BABBLING, recordOf(kind), kind], allowLegacy },
        ]),
      );
      // Another host of the same process, which has all the time it needs.
      const other = hostWith({
        peers: { good: { command: process.execPath, args: [example('picky-modern-stdio.mjs')] } },
        probeTimeoutMs: 60_000,
      });
      const host = hostWith({ ...SHORT, peers });
      const [{ peers: reports }] = await Promise.all([host.start(), other.start()]);

      for (const { name, state, reason, initializeSent, record } of reports) {
        expect(state, name).toBe('unavailable');
        const codes: readonly ReasonCode[] = allowLegacy
          ? ['legacy-rejected', 'legacy-timeout']
          : ['not-allowlisted'];
        expect(codes, `${name}: ${reason?.message}`).toContain(reason?.code);
        expect(record[0]?.verdict, name).toBe('discover.ambiguous');
        expect(record[0]?.rule, name).toBe('N5');
        expect(initializeSent, name).toBe(allowLegacy ? 1 : 0);
        const asked = linesOf(recordOf(name)).filter((method) => method === 'initialize');
        expect(asked.length, name).toBeLessThanOrEqual(allowLegacy ? 1 : 0);
        // What came from a server is nowhere shown raw.
        // biome-ignore lint/suspicious/noControlCharactersInRegex: none of them may be there
        expect(JSON.stringify(reason) + JSON.stringify(record)).not.toMatch(/[\x00-\x1f\x7f-\x9f]/);
      }
      expect(other.peer('good').report().path).toEqual(['idle', 'probing', 'modern']);
      expect(await other.call('translate', { text: 'hello', to: 'fr' })).toMatchObject({ status: 'ok' });
      await host.stop();
      await noProcessWith(folder);
    },
  );

  it('noise between answers does not harm', async () => {
    const record = join(folder, 'noisy.log');
    const host = hostWith({
      peers: { noisy: { command: process.execPath, args: [BABBLING, record, 'noisy'] } },
      probeTimeoutMs: 60_000,
      maxAttempts: 0,
    });
    await host.start();
    expect(host.peer('noisy').report()).toMatchObject({ state: 'modern', tools: 1, reason: null });
    expect(await host.call('ping')).toMatchObject({ status: 'ok', delivery: 'answered' });
    expect(linesOf(record)).toEqual(['server/discover', 'tools/list', 'tools/call']);
  });
});

interface Body {
  readonly title: string;
  readonly answer: (response: ServerResponse) => void;
  /** The verdict of the probe, the rule, and the reason without and with the allowlist. */
  readonly expected: readonly ['discover.ambiguous' | 'discover.noSignal', string, ReasonCode, ReasonCode];
}

const AMBIGUOUS = ['discover.ambiguous', 'N5', 'not-allowlisted', 'legacy-rejected'] as const;
const SILENT = ['discover.ambiguous', 'N5', 'not-allowlisted', 'legacy-timeout'] as const;
const NO_SIGNAL = ['discover.noSignal', 'N6', 'unreachable', 'unreachable'] as const;
const json = { 'content-type': 'application/json' };
const events = { 'content-type': 'text/event-stream' };

const BODIES: readonly Body[] = [
  {
    title: 'text that calls itself JSON',
    answer: (response) => response.writeHead(200, json).end('certainly!'),
    expected: AMBIGUOUS,
  },
  {
    title: 'half a JSON document',
    answer: (response) => response.writeHead(200, json).end('{"jsonrpc":"2.0","id":1,"resu'),
    expected: AMBIGUOUS,
  },
  {
    title: 'no body',
    answer: (response) => response.writeHead(200, json).end(),
    expected: AMBIGUOUS,
  },
  {
    title: 'JSON that is no JSON-RPC',
    answer: (response) => response.writeHead(200, json).end('{"ok":true}'),
    expected: AMBIGUOUS,
  },
  {
    title: 'a body above the limit',
    answer: (response) => response.writeHead(200, json).end(`{"padding":"${'x'.repeat(256 * 1024)}"}`),
    expected: AMBIGUOUS,
  },
  {
    title: 'a body that breaks off',
    answer: (response) => {
      response.writeHead(200, { ...json, 'content-length': '1000' });
      response.write('{"jsonrpc":', () => response.destroy());
    },
    expected: AMBIGUOUS,
  },
  {
    title: 'an event stream of nonsense that ends',
    answer: (response) => response.writeHead(200, events).end('data: nonsense\n\n: ping\n\n'),
    expected: AMBIGUOUS,
  },
  {
    title: 'an event stream that says nothing',
    answer: (response) => void response.writeHead(200, events).write(': ping\n\n'),
    expected: SILENT,
  },
  {
    title: 'silence',
    answer: () => {},
    expected: SILENT,
  },
  {
    title: 'a connection that is closed',
    answer: (response) => void response.destroy(),
    expected: AMBIGUOUS,
  },
  {
    title: 'a page of text with status 400',
    answer: (response) => response.writeHead(400, { 'content-type': 'text/plain' }).end('what?'),
    expected: AMBIGUOUS,
  },
  {
    title: 'a web page',
    answer: (response) => response.writeHead(200, { 'content-type': 'text/html' }).end('<p>Sign in</p>'),
    expected: NO_SIGNAL,
  },
  {
    title: 'a failing gateway',
    answer: (response) => response.writeHead(502, { 'content-type': 'text/html' }).end('Bad Gateway'),
    expected: NO_SIGNAL,
  },
];

describe('over HTTP', () => {
  it.each([false, true])(
    'no message: unavailable for a typed reason (allowLegacy: %s)',
    async (allowLegacy) => {
      const heard = new Map<string, string[]>();
      const server = createServer((request, response) => {
        void methodOf(request).then((method) => {
          const path = request.url ?? '';
          heard.set(path, [...(heard.get(path) ?? []), method]);
          BODIES[Number(path.slice(1))]?.answer(response);
        });
      });
      servers.push(server);
      await new Promise<void>((resolve) => {
        server.listen(0, '127.0.0.1', resolve);
      });
      const { port } = server.address() as AddressInfo;
      const peersOf = (isSilent: boolean): Record<string, PeerConfig> =>
        Object.fromEntries(
          BODIES.flatMap((body, at): [string, PeerConfig][] =>
            (body.expected === SILENT) === isSilent
              ? [[String(at), { url: `http://127.0.0.1:${port}/${at}`, allowLegacy }]]
              : [],
          ),
        );
      // Only silence has to wait for the end of a deadline.
      const both = [
        hostWith({ ...SHORT, peers: peersOf(true) }),
        hostWith({ ...LONG, peers: peersOf(false) }),
      ];
      const reports = (await Promise.all(both.map((host) => host.start()))).flatMap(({ peers }) => peers);
      expect(reports).toHaveLength(BODIES.length);
      for (const report of reports) {
        const { title, expected } = BODIES[Number(report.name)] as Body;
        const [verdict, rule, refused, rejected] = expected;
        expect(report.state, title).toBe('unavailable');
        expect(report.record[0], title).toMatchObject({ verdict, rule });
        expect(report.reason?.code, title).toBe(allowLegacy ? rejected : refused);
        const isAsked = allowLegacy && verdict === 'discover.ambiguous';
        expect(report.initializeSent, title).toBe(isAsked ? 1 : 0);
        const all = isAsked ? ['server/discover', 'initialize'] : ['server/discover'];
        const told = heard.get(`/${report.name}`) ?? [];
        // A deadline may pass before the server, which is in this process, has come to read.
        expect(told, title).toEqual(expected === SILENT ? all.slice(0, told.length) : all);
      }
      await Promise.all(both.map((host) => host.stop()));
      // Nothing of it holds a socket any more.
      server.close();
      await expect
        .poll(() => new Promise((resolve) => server.getConnections((_, open) => resolve(open))), {
          timeout: 30_000,
        })
        .toBe(0);
    },
  );
});

async function methodOf(request: IncomingMessage): Promise<string> {
  let body = '';
  for await (const chunk of request) body += String(chunk);
  return (JSON.parse(body) as { method: string }).method;
}
