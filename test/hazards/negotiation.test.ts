/** How servers have answered, or not answered, a modern probe; and what becomes of it, allowlisted or not. */
import { describe, expect, test, vi } from 'vitest';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import { advance, quiet, settled } from '../../src/testing/drive.js';
import type { HttpAnswer, LifeScript, Reaction, Script, Step } from '../../src/testing/script.js';
import {
  DISCOVERED,
  end,
  error,
  http,
  INITIALIZED,
  legacySession,
  type NegotiateOptions,
  negotiate,
  on,
  once,
  result,
  TOOLS,
} from './negotiated.js';

// Loading the schema compiler is real I/O, which simulated time does not wait for.
vi.mock('../../src/calls/validate.js', () => import('../property/support/noSchemas.js'));

/** Parts for `server/discover`; `initialize` is accepted in all of them. */
const answering = (...steps: Step[]): LifeScript => ({
  reactions: [on('server/discover', ...steps), ...legacySession],
});
const httpAnswering = (answer: HttpAnswer): LifeScript => answering(http(answer));

const dies = (how: 'exit' | 'end-of-output' | 'reset') => ({
  lives: [
    { reactions: [on('server/discover', { closes: how })], goneAfterMs: 700 },
    { reactions: legacySession },
  ],
});
const message = (text: string): JsonValue => ({
  jsonrpc: '2.0',
  id: null,
  error: { code: -32000, message: text },
});

interface Row {
  readonly name: string;
  readonly script: Parameters<typeof negotiate>[0];
  readonly overHttp?: boolean;
  /** Connections that a legacy negotiation takes. Default 1. */
  readonly connections?: number;
}

const CODES = [
  -32601, -32600, -32602, -32603, -32700, -32000, -32001, -32002, -32003, -32004, -32019, -32023, 0, 1,
];
const STATUSES = [200, 400, 404, 405, 406, 415, 422];

const PIPES: Row[] = [
  { name: 'silence until initialize', script: answering() },
  { name: 'exit on anything but initialize', script: dies('exit'), connections: 2 },
  { name: 'stdout closed on the probe', script: dies('end-of-output'), connections: 2 },
  { name: 'pipes broken on the probe', script: dies('reset'), connections: 2 },
  { name: 'a result that is none of server/discover', script: answering(result(TOOLS)) },
  { name: 'an empty result', script: answering(result({})) },
  { name: 'null as the result', script: answering(result(null)) },
  {
    name: 'legacy revisions only',
    script: answering(result({ supportedVersions: ['2025-11-25', '2025-06-18'], capabilities: {} })),
  },
  {
    name: 'an empty list of revisions',
    script: answering(result({ supportedVersions: [], capabilities: {} })),
  },
  {
    name: 'revisions that are no texts',
    script: answering(result({ supportedVersions: [20251125, null], capabilities: {} })),
  },
  {
    name: 'an unknown resultType',
    script: answering(result({ resultType: 'banana', supportedVersions: ['2025-11-25'], capabilities: {} })),
  },
  {
    name: 'an error without a message',
    script: answering({ say: { jsonrpc: '2.0', id: '$id', error: { code: -32601 } } }),
  },
  {
    name: 'an error whose code is a text',
    script: answering({
      say: { jsonrpc: '2.0', id: '$id', error: { code: 'invalid_payload', message: 'x' } },
    }),
  },
  {
    name: 'an answer without "jsonrpc"',
    script: answering({ say: { id: '$id', result: DISCOVERED === null ? {} : {} } }),
  },
  ...CODES.map((code) => ({ name: `error ${code}`, script: answering(error(code, 'initialize first')) })),
];

const STREAMS: Row[] = [
  ...STATUSES.flatMap((status) =>
    CODES.slice(0, 6).flatMap((code) =>
      ['$id', null, 'server-error'].map((id) => ({
        name: `HTTP ${status} with error ${code} under the id ${id}`,
        script: httpAnswering({
          status,
          type: 'json',
          body: [
            { jsonrpc: '2.0', id, error: { code, message: 'Unsupported protocol version: 2026-07-28' } },
          ],
        }),
      })),
    ),
  ),
  {
    name: 'HTTP 200 with an error as an event stream',
    script: httpAnswering({
      status: 200,
      type: 'sse',
      body: [{ jsonrpc: '2.0', id: '$id', error: { code: -32601, message: 'Method not found' } }],
    }),
  },
  {
    name: 'HTTP 400 with an error of another protocol',
    script: httpAnswering({
      status: 400,
      type: 'json',
      body: [{ error: { code: 'invalid_payload', message: 'server/discover', param: '$', details: [] } }],
    }),
  },
  {
    name: 'HTTP 404 as text',
    script: httpAnswering({ status: 404, type: 'text', text: 'Invalid session ID' }),
  },
  {
    name: 'HTTP 400 as text with a hint',
    script: httpAnswering({ status: 400, type: 'text', text: 'Bad Request: Unsupported protocol version' }),
  },
  { name: 'HTTP 405 without a body', script: httpAnswering({ status: 405, type: 'none' }) },
  { name: 'HTTP 200 with an empty event stream', script: httpAnswering({ status: 200, type: 'sse' }) },
  {
    name: 'HTTP 200 with JSON that is none',
    script: httpAnswering({ status: 200, type: 'json', text: '{"jsonrpc":' }),
  },
  {
    name: 'HTTP 200 with a batch array',
    script: httpAnswering({ status: 200, type: 'json', body: [[message('a'), message('b')]] }),
  },
  { name: 'an answer stream that breaks', script: answering({ ends: 'broken' }) },
  { name: 'silence over HTTP', script: answering() },
].map((row) => ({ ...row, overHttp: true }));

describe('proves nothing: one legacy probe, if the peer is allowlisted', () => {
  test.each([...PIPES, ...STREAMS])('$name', async ({ script, overHttp = false, connections = 1 }) => {
    const stranger = await negotiate(script, { overHttp });
    expect(stranger.report).toMatchObject({ state: 'unavailable', era: 'unknown', initializeSent: 0 });
    expect(stranger.report.reason?.fix).toContain('"allowLegacy": true');
    expect(stranger.written).toEqual(['server/discover']);
    await end(stranger);

    const trusted = await negotiate(script, { overHttp, allowLegacy: true });
    expect(trusted.report).toMatchObject({
      state: 'legacy',
      era: 'legacy',
      revision: '2025-11-25',
      initializeSent: 1,
      tools: 1,
    });
    expect(trusted.written).toEqual([
      'server/discover',
      'initialize',
      'notifications/initialized',
      'tools/list',
    ]);
    expect(trusted.connections).toBe(connections);
    await end(trusted);
  });
});

const refusal: JsonValue = {
  jsonrpc: '2.0',
  id: '$id',
  error: { code: -32601, message: 'Method not found' },
};
const NO_SIGNAL: readonly (readonly [string, HttpAnswer, string])[] = [
  ['401', { status: 401, type: 'none' }, 'unauthorized'],
  ['401 with a legacy error in it', { status: 401, type: 'json', body: [refusal] }, 'unauthorized'],
  ['403', { status: 403, type: 'json', body: [refusal] }, 'unauthorized'],
  ['408', { status: 408, type: 'none' }, 'unreachable'],
  ['425', { status: 425, type: 'none' }, 'unreachable'],
  ['429', { status: 429, type: 'json', body: [refusal] }, 'unreachable'],
  ['500 with a legacy error in it', { status: 500, type: 'json', body: [refusal] }, 'unreachable'],
  ['502 from a gateway', { status: 502, type: 'html', text: '<html>' }, 'unreachable'],
  ['503', { status: 503, type: 'text', text: 'later' }, 'unreachable'],
  ['a redirect that is not followed', { status: 302, type: 'none' }, 'unreachable'],
  [
    'a legacy error after a redirect',
    { status: 400, type: 'json', body: [refusal], redirected: true },
    'unreachable',
  ],
  ['a sign-in page', { status: 200, type: 'html', text: '<!doctype html>' }, 'unreachable'],
];

describe('does not come from the peer: no initialize, allowlisted or not', () => {
  test.each(NO_SIGNAL)('HTTP %s', async (_name, answer, code) => {
    for (const allowLegacy of [false, true]) {
      const negotiated = await negotiate(httpAnswering(answer), { overHttp: true, allowLegacy });
      expect(negotiated.report).toMatchObject({ state: 'unavailable', reason: { code }, initializeSent: 0 });
      expect(negotiated.written).toEqual(['server/discover']);
      await end(negotiated);
    }
  });

  test.each(['spawn-failed', 'connect-failed'] as const)('%s', async (fails) => {
    const negotiated = await negotiate({ opens: { fails }, reactions: legacySession }, { allowLegacy: true });
    expect(negotiated.report).toMatchObject({ state: 'unavailable', initializeSent: 0 });
    expect(negotiated.written).toEqual([]);
    await end(negotiated);
  });
});

describe('proves modern: no initialize, allowlisted or not', () => {
  const sign = {
    jsonrpc: '2.0',
    error: { code: -32022, message: 'no', data: { supported: ['2099-01-01'] } },
  };
  const ROWS: readonly (readonly [string, LifeScript, NegotiateOptions, string])[] = [
    [
      'no mutual revision',
      answering(result({ supportedVersions: ['2099-01-01'], capabilities: {} })),
      {},
      'no-mutual-version',
    ],
    ['-32022 without a mutual revision', answering({ say: { ...sign, id: '$id' } }), {}, 'no-mutual-version'],
    ['-32022 without data', answering(error(-32022)), {}, 'no-mutual-version'],
    [
      '-32021',
      answering(error(-32021, 'no', '$id', { requiredCapabilities: { sampling: {} } })),
      {},
      'missing-capability',
    ],
    ['-32020 on a pipe', answering(error(-32020)), {}, 'header-mismatch'],
    [
      '-32020 twice over HTTP',
      httpAnswering({
        status: 400,
        type: 'json',
        body: [{ ...sign, id: '$id', error: { code: -32020, message: 'x' } }],
      }),
      { overHttp: true },
      'header-mismatch',
    ],
    [
      '-32022 under null over HTTP',
      httpAnswering({ status: 400, type: 'json', body: [{ ...sign, id: null }] }),
      { overHttp: true },
      'modern-evidence',
    ],
    ['-32022 in a batch array', answering({ say: [{ ...sign, id: '$id' }] }), {}, 'modern-evidence'],
    ['-32022 without an id on a pipe', answering({ say: sign }), {}, 'modern-evidence'],
    [
      '-32022 in HTTP 503',
      httpAnswering({ status: 503, type: 'json', body: [{ ...sign, id: '$id' }] }),
      { overHttp: true },
      'unreachable',
    ],
  ];

  test.each(ROWS)('%s', async (_name, script, options, code) => {
    const negotiated = await negotiate(script, { ...options, allowLegacy: true });
    expect(negotiated.report).toMatchObject({ state: 'unavailable', reason: { code }, initializeSent: 0 });
    expect(negotiated.written).not.toContain('initialize');
    await end(negotiated);
  });

  test('an unsupported version in answer to initialize: a new probe on a fresh connection', async () => {
    const negotiated = await negotiate(
      {
        lives: [
          {
            reactions: [
              on('server/discover', error(-32601)),
              on('initialize', { say: { ...sign, id: '$id' } }),
            ],
          },
          { reactions: [on('server/discover', result(DISCOVERED)), on('tools/list', result(TOOLS))] },
        ],
      },
      { allowLegacy: true },
    );
    expect(negotiated.report).toMatchObject({ state: 'modern', tools: 1 });
    expect(negotiated.written).toEqual(['server/discover', 'initialize', 'server/discover', 'tools/list']);
    expect(negotiated.connections).toBe(2);
    await end(negotiated);
  });
});

describe('a probe that is answered late', () => {
  const late = (atMs: number, inInitialize: Step[]): Script => ({
    lives: [
      {
        reactions: [
          on('server/discover', { ...result(DISCOVERED), afterMs: atMs }),
          on('initialize', ...inInitialize),
          on('tools/list', result(TOOLS)),
        ],
      },
      { reactions: [on('server/discover', result(DISCOVERED)), on('tools/list', result(TOOLS))] },
    ],
  });

  test('while initialize is under way: modern', async () => {
    const negotiated = await negotiate(late(16_000, []), { allowLegacy: true });
    expect(negotiated.report).toMatchObject({ state: 'modern' });
    expect(negotiated.connections).toBe(2);
    await end(negotiated);
  });

  test('after legacy was selected: modern on a fresh connection', async () => {
    const negotiated = await negotiate(late(20_000, [result(INITIALIZED)]), { allowLegacy: true });
    expect(negotiated.report.state).toBe('legacy');
    await advance(negotiated.clock, 6_000);
    expect(negotiated.report).toMatchObject({ state: 'modern', era: 'modern' });
    await end(negotiated);
  });
});

describe('a server that is strict about order', () => {
  test('gets notifications/initialized first and alone', async () => {
    const strict = [
      on('server/discover', error(-32601)),
      on('initialize', result(INITIALIZED)),
      on('notifications/initialized'),
      on('tools/list', result(TOOLS)),
    ];
    const negotiated = await negotiate(strict, { allowLegacy: true });
    expect(negotiated.written.slice(2)).toEqual(['notifications/initialized', 'tools/list']);
    await end(negotiated);
  });

  test('gets the whole handshake again after a restart', async () => {
    const life: LifeScript = {
      reactions: [
        on('server/discover', error(-32601)),
        ...legacySession,
        on('tools/call', { closes: 'exit' }),
      ],
    };
    const negotiated = await negotiate(life, { allowLegacy: true, options: { maxAttempts: 3 } });
    const { host, clock } = negotiated;
    const lost = await settled(clock, host.call('echo'), 60_000);
    expect(lost).toMatchObject({ status: 'lost', delivery: 'unknown' });
    await settled(clock, host.peer('archive').waitUntil('callable'), 60_000);
    const handshake = ['server/discover', 'initialize', 'notifications/initialized', 'tools/list'];
    expect(negotiated.written).toEqual([...handshake, 'tools/call', ...handshake]);
    await end(negotiated);
  });

  test('is asked anew which era it speaks after a restart: a rollout of a dual-era version', async () => {
    const first: Reaction[] = [
      on('server/discover', error(-32601)),
      ...legacySession,
      on('tools/call', { closes: 'exit' }),
    ];
    const second: Reaction[] = [on('server/discover', result(DISCOVERED)), ...legacySession];
    const negotiated = await negotiate(
      { lives: [{ reactions: first }, { reactions: second }] },
      { allowLegacy: true, options: { maxAttempts: 3 } },
    );
    expect(negotiated.report.state).toBe('legacy');
    await settled(negotiated.clock, negotiated.host.call('echo'), 60_000);
    await settled(negotiated.clock, negotiated.host.peer('archive').waitUntil('callable'), 60_000);
    expect(negotiated.report).toMatchObject({ state: 'modern', initializeSent: 0 });
    await end(negotiated);
  });
});

test('a server that answers tools/list to anyone is not asked before it proved an era', async () => {
  const negotiated = await negotiate([on('server/discover', error(-32601)), on('tools/list', result(TOOLS))]);
  expect(negotiated.written).toEqual(['server/discover']);
  await end(negotiated);
});

test('a server without tools is callable, and is not asked for them', async () => {
  const negotiated = await negotiate([
    on('server/discover', result({ supportedVersions: ['2026-07-28'], capabilities: {} })),
  ]);
  expect(negotiated.report).toMatchObject({ state: 'modern', tools: 0 });
  expect(negotiated.written).toEqual(['server/discover']);
  await end(negotiated);
});

test('bad cache hints do not spoil a modern answer', async () => {
  for (const hints of [{}, { ttlMs: -1 }, { ttlMs: 'soon', cacheScope: 7 }]) {
    const negotiated = await negotiate([
      on('server/discover', result({ supportedVersions: ['2026-07-28'], capabilities: {}, ...hints })),
    ]);
    expect(negotiated.report.state).toBe('modern');
    await end(negotiated);
  }
});

test('a call without an answer ends at its deadline and harms no other', async () => {
  const call = (text: string): Reaction => ({
    on: 'tools/call',
    times: 1,
    steps: text === '' ? [] : [result({ content: [{ type: 'text', text }] })],
  });
  const negotiated = await negotiate([
    on('server/discover', result(DISCOVERED)),
    on('tools/list', result(TOOLS)),
    call(''),
    call('second'),
  ]);
  const { host, clock } = negotiated;
  const mute = host.call('echo', {}, { timeoutMs: 500 });
  await quiet();
  expect(await settled(clock, host.call('echo'), 100)).toMatchObject({ status: 'ok' });
  expect(await settled(clock, mute, 600)).toMatchObject({ status: 'timeout', delivery: 'unknown' });
  expect(negotiated.report.state).toBe('modern');
  await end(negotiated);
});

test('a rollback to a legacy server takes a word of the operator', async () => {
  const modern: Reaction[] = [
    on('server/discover', result(DISCOVERED)),
    on('tools/list', result(TOOLS)),
    on('tools/call', { closes: 'exit' }),
  ];
  const old: Reaction[] = [on('server/discover', error(-32601)), ...legacySession];
  const negotiated = await negotiate(
    { lives: [{ reactions: modern }, { reactions: old }] },
    { allowLegacy: true, options: { maxAttempts: 3 } },
  );
  const { host, clock, trace } = negotiated;
  await settled(clock, host.call('echo'), 60_000);
  await advance(clock, 10_000);
  expect(negotiated.report).toMatchObject({ state: 'unavailable', reason: { code: 'modern-evidence' } });
  expect(host.peer('archive').explain()).toContain('host.forget("archive")');
  trace.command('forget', 'archive', 'archive');
  host.forget('archive');
  trace.command('retry', 'archive');
  host.peer('archive').retry();
  await settled(clock, host.peer('archive').waitUntil('callable'), 60_000);
  expect(negotiated.report).toMatchObject({ state: 'legacy', initializeSent: 1 });
  await end(negotiated);
});

test('a rollback behind an open connection is found out as well', async () => {
  const life: Reaction[] = [
    once('server/discover', result(DISCOVERED)),
    on('server/discover', error(-32601)),
    on('tools/call', error(-32022, 'no', '$id', { supported: [] })),
    ...legacySession,
  ];
  const negotiated = await negotiate(life, { allowLegacy: true, options: { maxAttempts: 3 } });
  const { host, clock, trace } = negotiated;
  trace.command('forget', 'archive', 'archive');
  host.forget('archive');
  expect(await settled(clock, host.call('echo'), 60_000)).toMatchObject({ status: 'protocol-error' });
  await settled(clock, host.peer('archive').waitUntil('callable'), 60_000);
  expect(negotiated.report).toMatchObject({ state: 'legacy', initializeSent: 1 });
  expect(negotiated.connections).toBe(2);
  await end(negotiated);
});
