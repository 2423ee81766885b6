/** How servers ask for input when they are odd, hostile or wrong, over real pipes and sockets. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { InputHandlers } from '../../src/calls/inputHandlers.js';
import type { PeerConfig } from '../../src/host/config.js';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { asks, done, form, roots } from '../host/asking.js';
import { stdioPeer } from '../host/demanding.js';
import { type BuiltPackage, buildPackage } from '../support/builtPackage.js';
import { answerJson, serve } from '../transports/httpHarness.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const PATIENT = {
  probeTimeoutMs: 60_000,
  legacyProbeTimeoutMs: 60_000,
  startTimeoutMs: 120_000,
  listTimeoutMs: 60_000,
  callTimeoutMs: 120_000,
  maxAttempts: 0,
};

/** The same habits as those of the server over stdio: the n-th request of a key gets the n-th result. */
async function modernHttpPeer(): Promise<PeerConfig> {
  const calls = new Map<string, string[]>();
  const { origin } = await serve(({ body }, response) => {
    const { id, method, params } = JSON.parse(body) as {
      id?: number;
      method: string;
      params?: { arguments?: { key: string; results: string[] } };
    };
    const say = (result: string) => answerJson(response, `{"jsonrpc":"2.0","id":${id},"result":${result}}`);
    if (id === undefined) {
      response.writeHead(202).end();
    } else if (method === 'server/discover') {
      say('{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete"}');
    } else if (method === 'tools/list') {
      say('{"tools":[{"name":"rounds","inputSchema":{"type":"object"}}],"resultType":"complete"}');
    } else {
      const { key, results } = params?.arguments ?? { key: '', results: [] };
      const lines = calls.get(key) ?? [];
      calls.set(key, lines);
      lines.push(body);
      say(results[lines.length - 1] ?? JSON.stringify(done(JSON.stringify(lines))));
    }
  });
  return { url: `${origin}/mcp` };
}

const REACH = { stdio: async () => stdioPeer('modern'), 'streamable-http': modernHttpPeer } as const;

async function started(reach: () => Promise<PeerConfig>, handlers: InputHandlers = {}): Promise<Host> {
  const host = createHost({ ...PATIENT, handlers, peers: { it: await reach() } });
  onTestFinished(() => host.stop());
  const { peers } = await host.start();
  expect(peers[0]).toMatchObject({ state: 'modern' });
  return host;
}

let keys = 0;

/** A call in rounds; each result is the JSON text that the server writes. Returns the requests as they came. */
async function rounds(host: Host, results: readonly string[]) {
  keys += 1;
  const outcome = await host.call('rounds', { key: `k${keys}`, results: [...results] });
  if (outcome.status !== 'ok') return { outcome, lines: [] as string[] };
  return { outcome, lines: JSON.parse(String(outcome.result.content[0]?.['text'])) as string[] };
}

const paramsOf = (line: string | undefined): Record<string, JsonValue> =>
  (JSON.parse(line ?? 'null') as { params: Record<string, JsonValue> }).params;

const STATES: readonly [what: string, state: string][] = [
  ['nothing', ''],
  ['a space', ' '],
  ['white space around', '\t a \r\n'],
  ['a NUL', 'a\u0000b'],
  ['every ASCII character', String.fromCharCode(...Array.from({ length: 128 }, (_, i) => i))],
  ['JSON', '{"requestState":"x","inputResponses":{}}'],
  ['what would end a string', '"}],\\"'],
  ['a high surrogate alone', 'a\ud83d'],
  ['a low surrogate alone', '\ude00a'],
  ['surrogates the wrong way round', '\ude00\ud83d'],
  ['an astral character', '😀𐍈'],
  ['line separators', '\u2028\u2029\u0085'],
  ['a byte order mark', '\ufeffa'],
  ['marks that could be composed', 'e\u0301 é \u212b'],
  ['right to left', '\u202eabc\u200f'],
  ['non-characters', '\ufffe\uffff\u{10ffff}'],
  ['100 KB of text', 'aé😀"\\\n'.repeat(10_240)],
  ['100 KB of base64', Buffer.alloc(75_000, 7).toString('base64')],
];

/** As another serializer would write it: everything escaped. */
const escaped = (value: string): string =>
  `"${[...Array(value.length).keys()].map((at) => `\\u${value.charCodeAt(at).toString(16).padStart(4, '0')}`).join('')}"`;

describe.each(Object.keys(REACH) as (keyof typeof REACH)[])('over %s', (transport) => {
  test('a state goes back as it came, whatever it is and however it was written', async () => {
    const host = await started(REACH[transport]);
    for (const [what, state] of STATES) {
      for (const written of [JSON.stringify(state), escaped(state)]) {
        const { outcome, lines } = await rounds(host, [
          `{"resultType":"input_required","requestState":${written}}`,
        ]);
        expect({ what, status: outcome.status, lines: lines.length }).toEqual({
          what,
          status: 'ok',
          lines: 2,
        });
        expect({ what, state: paramsOf(lines[1])['requestState'] === state }).toEqual({ what, state: true });
        expect(paramsOf(lines[1])).not.toHaveProperty('inputResponses');
      }
    }
  });

  test('rounds without a state have none, also after one with it', async () => {
    const host = await started(REACH[transport], { listRoots: () => [] });
    const { lines } = await rounds(host, [
      '{"resultType":"input_required","requestState":"first"}',
      '{"resultType":"input_required","inputRequests":{"r":{"method":"roots/list"}}}',
      '{"resultType":"input_required","inputRequests":{"s":{"method":"roots/list"}},"requestState":null}',
    ]);
    expect(lines.map((line) => line.includes('"requestState":"first"'))).toEqual([false, true, false, false]);
    expect(lines.map((line) => 'requestState' in paramsOf(line))).toEqual([false, true, false, false]);
    expect(lines.map((line) => paramsOf(line)['inputResponses'])).toEqual([
      undefined,
      undefined,
      { r: { roots: [] } },
      { s: { roots: [] } },
    ]);
  });

  test('keys are the server’s, whatever they are', async () => {
    const host = await started(REACH[transport], { listRoots: () => [] });
    const names = [
      ...['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', 'valueOf', 'then', 'toJSON'],
      ...['', ' ', '0', '01', '-1', '"', '\\', '\u0000', '\ud800', '\u2028', '😀', 'a.b', '_meta'],
      'k'.repeat(10_000),
    ];
    const requests = names.map((name) => `${JSON.stringify(name)}:{"method":"roots/list"}`).join(',');
    const { outcome, lines } = await rounds(host, [
      `{"resultType":"input_required","inputRequests":{${requests}}}`,
    ]);
    expect(outcome.status).toBe('ok');
    const responses = paramsOf(lines[1])['inputResponses'] as JsonObject;
    expect(Object.keys(responses).sort()).toEqual([...names].sort());
    for (const name of names) {
      expect(Object.getOwnPropertyDescriptor(responses, name)?.value).toEqual({ roots: [] });
    }
    // Nothing of it got where every object would have it.
    expect(Object.prototype).not.toHaveProperty('roots');
    expect(Object.prototype).not.toHaveProperty('method');
  });

  test('two calls of one tool with a form each: ids, answers and states are not mixed up', async () => {
    const host = await started(REACH[transport], {
      elicitForm: ({ message }) => ({ action: 'accept', content: { name: message } }),
    });
    const both = await Promise.all(
      ['one', 'two'].map((who) => rounds(host, [JSON.stringify(asks({ [who]: form(who) }, who))])),
    );
    for (const [at, who] of ['one', 'two'].entries()) {
      expect(paramsOf(both[at]?.lines[1])).toMatchObject({
        inputResponses: { [who]: { action: 'accept', content: { name: who } } },
        requestState: who,
      });
    }
    const ids = both.flatMap(({ lines }) => lines.map((line) => (JSON.parse(line) as { id: number }).id));
    expect(new Set(ids).size).toBe(4);
  });

  test.each<[what: string, result: string, says: RegExp]>([
    ['neither inputs nor state', '{"resultType":"input_required"}', /neither/],
    ['an unknown type', '{"resultType":"foo","content":[]}', /"foo"/],
    ['a type that is no text', '{"resultType":7,"content":[]}', /result/],
    [
      '101 requests',
      JSON.stringify(asks(Object.fromEntries(Array.from({ length: 101 }, (_, i) => [i, roots])))),
      /101/,
    ],
    ['what only a peer’s own requests are', JSON.stringify(asks({ a: { method: 'ping' } })), /"ping"/],
  ])('%s is no success, and nobody is asked', async (_, result, says) => {
    const listRoots = vi.fn(() => []);
    const host = await started(REACH[transport], { listRoots });
    const { outcome } = await rounds(host, [result]);
    expect(['protocol-error', 'invalid-result']).toContain(outcome.status);
    expect(outcome).toMatchObject({
      delivery: 'answered',
      attempts: 1,
      message: expect.stringMatching(says),
    });
    expect(listRoots).not.toHaveBeenCalled();
  });

  test('rounds without an end are ended', async () => {
    const host = await started(REACH[transport]);
    const state = '{"resultType":"input_required","requestState":"again"}';
    const { outcome } = await rounds(
      host,
      Array.from({ length: 100 }, () => state),
    );
    expect(outcome).toMatchObject({ status: 'protocol-error', delivery: 'answered', attempts: 17 });
  });

  test('a form that nobody can show is no decline: it is not declared, and the call fails at once', async () => {
    const host = await started(REACH[transport]);
    const { outcome } = await rounds(host, [JSON.stringify(asks({ name: form() }, 's'))]);
    expect(outcome).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      attempts: 1,
      message: 'The server asked for "elicitation/create", which this host did not offer.',
    });
  });
});

test('a modern process that asks by itself gets no answer, and its calls go on', async () => {
  const asked = vi.fn(() => []);
  const host = await started(REACH.stdio, { listRoots: asked });
  const say = [
    { id: 'r', ...roots },
    { id: 1, method: 'ping' },
  ];
  expect(await host.call('demand', { say, answers: 0 })).toMatchObject({ status: 'ok' });
  // Were it answered, the answers would be there before the next call is.
  const outcome = await host.call('demand', { say: [], answers: 0 });
  expect(outcome.status === 'ok' && outcome.result.content[0]?.['text']).toBe('[]');
  expect(asked).not.toHaveBeenCalled();
  expect(host.peer('it').report().faults).toMatchObject({ 'server-request': 2 });
});

test('a process that ends while a form is open: the answer goes to the next one, which was never asked', async () => {
  const asked = vi.fn();
  let free: () => void = () => undefined;
  const open = new Promise<void>((resolve) => {
    free = resolve;
  });
  const host = createHost({
    ...PATIENT,
    maxAttempts: 3,
    backoffMinMs: 1,
    backoffMaxMs: 1,
    peers: { it: stdioPeer('modern') },
    handlers: {
      elicitForm: async () => {
        asked();
        await open;
        return { action: 'accept', content: { name: 'octocat' } };
      },
    },
  });
  onTestFinished(() => host.stop());
  await host.start();
  const call = rounds(host, [JSON.stringify(asks({ name: form() }, 'all that is needed'))]);
  await vi.waitFor(() => expect(asked).toHaveBeenCalledTimes(1), { timeout: 60_000 });
  // It ends without an answer, and only this call may have been executed.
  expect(await host.call('exit')).toMatchObject({ status: 'lost', delivery: 'unknown' });
  free();
  // The new process has not heard of the key, so the round that came is its first, and it asks once more.
  const { outcome, lines } = await call;
  expect(outcome).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 3 });
  expect(lines).toHaveLength(2);
  for (const line of lines) {
    expect(paramsOf(line)).toMatchObject({
      inputResponses: { name: { action: 'accept', content: { name: 'octocat' } } },
      requestState: 'all that is needed',
    });
  }
  expect(asked).toHaveBeenCalledTimes(2);
});

describe('the command line, where nobody can be asked', () => {
  let built: BuiltPackage;
  beforeAll(() => {
    built = buildPackage();
  });
  afterAll(() => built.remove());

  test('declares nothing, and a tool that asks fails at once with a reason', async () => {
    const server = fileURLToPath(new URL('../fixtures/inputServer.mjs', import.meta.url));
    const args = JSON.stringify({ key: 'cli', results: [JSON.stringify(asks({ name: form() }))] });
    const child = spawn(
      process.execPath,
      [
        join(built.folder, 'dist/cli/main.js'),
        'call',
        'rounds',
        '--args',
        args,
        '--json',
        '--',
        process.execPath,
        server,
        'modern',
      ],
      { stdio: ['ignore', 'pipe', 'pipe'], cwd: built.folder, env: { PATH: process.env['PATH'] } },
    );
    const [stdout, , [code]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'exit') as Promise<[number | null]>,
    ]);
    expect(code).toBe(1);
    expect(JSON.parse(stdout)).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      message: 'The server asked for "elicitation/create", which this host did not offer.',
    });
  });
});
