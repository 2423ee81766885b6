/** Answers with wrong ids, answers that are none, and answers that come twice. */
import { describe, expect, test, vi } from 'vitest';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import { quiet, settled } from '../../src/testing/drive.js';
import type { Reaction } from '../../src/testing/script.js';
import {
  DISCOVERED,
  end,
  error,
  INITIALIZED,
  legacySession,
  negotiate,
  on,
  result,
  TOOLS,
} from './negotiated.js';

vi.mock('../../src/calls/validate.js', () => import('../property/support/noSchemas.js'));

const modern: readonly Reaction[] = [
  on('server/discover', result(DISCOVERED)),
  on('tools/list', result(TOOLS)),
];
const text = (words: string): JsonValue => ({ content: [{ type: 'text', text: words }] });

describe('a server that loses the id', () => {
  // The constant is noticed at the first exchange, since no request has the id 0.
  test.each<[string, JsonValue, string]>([
    ['a constant 0', 0, 'foreign'],
    ['null', null, 'malformed'],
    ['the id as a text', '$id:text', 'foreign'],
    ['a number that was never sent', '$id+1', 'foreign'],
  ])('%s is not taken for the answer to the probe', async (_name, id, fault) => {
    const negotiated = await negotiate([on('server/discover', result(DISCOVERED, id))], {
      allowLegacy: true,
    });
    expect(negotiated.report).toMatchObject({ state: 'unavailable', initializeSent: 0 });
    expect(negotiated.report.faults[fault]).toBeGreaterThan(0);
    expect(negotiated.written).toEqual(['server/discover']);
    await end(negotiated);
  });

  test('over HTTP its answer settles the request, and proves nothing', async () => {
    const reactions = [
      on('server/discover', {
        http: {
          status: 200,
          type: 'json',
          body: [{ jsonrpc: '2.0', id: 'server-error', error: { code: -32600, message: 'no' } }],
        },
      }),
    ];
    const negotiated = await negotiate([...reactions, ...legacySession], {
      allowLegacy: true,
      overHttp: true,
    });
    expect(negotiated.report.state).toBe('legacy');
    expect(negotiated.clock.now()).toBe(0);
    await end(negotiated);
  });

  test('an InitializeResult under another id does not select legacy', async () => {
    for (const id of [0, '$id:text', null, '$probe'] as const) {
      const negotiated = await negotiate(
        [on('server/discover', error(-32601)), on('initialize', result(INITIALIZED, id))],
        { allowLegacy: true },
      );
      expect(negotiated.report).toMatchObject({ state: 'unavailable', reason: { code: 'legacy-timeout' } });
      expect(negotiated.written).toEqual(['server/discover', 'initialize']);
      await end(negotiated);
    }
  });
});

test('an error without an id after notifications/initialized harms nothing', async () => {
  const complaining = on('notifications/initialized', error(-32600, 'unknown notification', null));
  const negotiated = await negotiate([on('server/discover', error(-32601)), complaining, ...legacySession], {
    allowLegacy: true,
  });
  expect(negotiated.report).toMatchObject({ state: 'legacy', tools: 1, faults: { uncorrelated: 1 } });
  await end(negotiated);
});

test('what comes before the InitializeResult is not taken for it', async () => {
  const chatty = on(
    'initialize',
    { say: { jsonrpc: '2.0', method: 'notifications/resources/list_changed' } },
    { say: { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'x' } } },
    { say: { jsonrpc: '2.0', id: '$id', method: 'ping' } },
    { ...result(INITIALIZED), afterMs: 20 },
  );
  const negotiated = await negotiate([on('server/discover', error(-32601)), chatty, ...legacySession], {
    allowLegacy: true,
  });
  expect(negotiated.report).toMatchObject({ state: 'legacy', tools: 1 });
  await end(negotiated);
});

describe('a batch array', () => {
  test('is refused, and no element of it is used', async () => {
    const answer: JsonValue = { jsonrpc: '2.0', id: '$id', result: TOOLS };
    const negotiated = await negotiate([
      on('server/discover', result(DISCOVERED)),
      on('tools/list', { say: [answer, answer] }),
    ]);
    expect(negotiated.report).toMatchObject({ state: 'modern', tools: null });
    expect(negotiated.report.listing).not.toBeNull();
    expect(negotiated.host.catalog().entries.size).toBe(0);
    await end(negotiated);
  });

  test('is no answer to the probe either', async () => {
    const answer: JsonValue = { jsonrpc: '2.0', id: '$id', error: { code: -32601, message: 'no' } };
    const negotiated = await negotiate([on('server/discover', { say: [answer] }), ...legacySession], {
      allowLegacy: true,
    });
    expect(negotiated.report.record[0]).toMatchObject({ sent: 'server/discover', outcome: 'timeout' });
    expect(negotiated.report.state).toBe('legacy');
    await end(negotiated);
  });
});

test('a tool result of the oldest shape is told by name', async () => {
  const negotiated = await negotiate([...modern, on('tools/call', result({ toolResult: { content: [] } }))]);
  const outcome = await settled(negotiated.clock, negotiated.host.call('echo'), 1);
  expect(outcome).toMatchObject({
    status: 'invalid-result',
    delivery: 'answered',
    tool: 'echo',
    peer: 'archive',
  });
  await end(negotiated);
});

test('each of many calls at once gets its own answer, whatever their order', async () => {
  const count = 40;
  const calls = Array.from(
    { length: count },
    (_, index): Reaction => ({
      on: 'tools/call',
      times: 1,
      steps: [{ ...result(text(`answer ${index}`)), afterMs: 1 + ((index * 7) % count) }],
    }),
  );
  const negotiated = await negotiate([...modern, ...calls]);
  const { host, clock } = negotiated;
  const outcomes = await settled(clock, Promise.all(calls.map(() => host.call('echo'))), 1_000);
  expect(outcomes.map((one) => (one.status === 'ok' ? one.result.content[0]?.['text'] : one.status))).toEqual(
    calls.map((_, index) => `answer ${index}`),
  );
  expect(new Set(outcomes.map((one) => one.requestId)).size).toBe(count);
  await end(negotiated);
});

test('an answer that comes twice is used once', async () => {
  const twice = (words: string): Reaction => ({
    on: 'tools/call',
    times: 1,
    steps: [result(text(words)), result(text('again')), { ...result(text('much later')), afterMs: 100 }],
  });
  const negotiated = await negotiate([...modern, twice('first'), twice('second')]);
  const { host, clock } = negotiated;
  const first = host.call('echo');
  await quiet();
  const second = host.call('echo');
  const outcomes = await settled(clock, Promise.all([first, second]), 1_000);
  expect(outcomes.map((one) => (one.status === 'ok' ? one.result.content : one.status))).toEqual([
    [{ type: 'text', text: 'first' }],
    [{ type: 'text', text: 'second' }],
  ]);
  clock.advance(1_000);
  expect(negotiated.report.faults['late']).toBe(4);
  await end(negotiated);
});

test('ids are not used again after a reconnect', async () => {
  const life = { reactions: [...modern, on('tools/call', { closes: 'exit' } as const)] };
  const negotiated = await negotiate(life, { options: { maxAttempts: 3 } });
  const { host, clock, trace } = negotiated;
  for (let n = 0; n < 3; n += 1) {
    await settled(clock, host.call('echo'), 1_000);
    await settled(clock, host.peer('archive').waitUntil('callable'), 60_000);
  }
  const ids = trace.events
    .flatMap((event) => (event.kind === 'out' ? [(JSON.parse(event.text) as { id?: number }).id] : []))
    .filter((id) => id !== undefined);
  expect(new Set(ids).size).toBe(ids.length);
  await end(negotiated);
});
