/** Answers whose head says all and whose body hangs: no deadline may read them as silence (N5, N6, N8). */
import { expect, onTestFinished, test } from 'vitest';
import { judgeProbe, type ProbeContext } from '../../src/protocol/evidence.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import type { Clock } from '../../src/transports/clock.js';
import { legacySseTransport } from '../../src/transports/legacySse.js';
import { streamableHttpTransport } from '../../src/transports/streamableHttp.js';
import type { TransportFactory } from '../../src/transports/transport.js';
import { connectTo, modern } from './connectionHarness.js';
import { type Answer, serve } from './httpHarness.js';
import { sseServer } from './sseHarness.js';

const CONTEXT: ProbeContext = {
  modernRevisions: ['2026-07-28'],
  legacyRevisions: ['2025-11-25'],
  asked: '2026-07-28',
  refused: [],
  hasHeaders: true,
  declaredCapabilities: {},
  availableCapabilities: {},
  sign: null,
  peer: 'it',
};

/** So long the body of such an answer is waited for; its timer tells that the head is there. */
const PATIENCE_MS = 1000;

function watchedClock() {
  const clock = createSimulatedClock();
  let heard: () => void = () => {};
  const headCame = new Promise<void>((resolve) => {
    heard = resolve;
  });
  return {
    headCame,
    advance: (ms: number) => clock.advance(ms),
    now: () => clock.now(),
    setTimeout(fn: (...args: unknown[]) => void, ms: number) {
      if (ms === PATIENCE_MS) heard();
      return clock.setTimeout(fn, ms);
    },
    clearTimeout: (handle: unknown) => clock.clearTimeout(handle),
  };
}

const hanging =
  (status: number, headers: Record<string, string> = {}, body = 'the begin'): Answer =>
  (_request, response) => {
    response.writeHead(status, { 'content-length': '1000', ...headers });
    response.flushHeaders();
    if (body !== '') response.write(body);
  };

async function probed(make: (clock: Clock) => TransportFactory, end: 'deadline' | 'patience') {
  const clock = watchedClock();
  const { connection } = await connectTo(make(clock), clock);
  onTestFinished(() => connection.close());
  const { outcome } = connection.probe(modern, end === 'deadline' ? PATIENCE_MS - 1 : PATIENCE_MS * 2);
  await clock.headCame;
  clock.advance(end === 'deadline' ? PATIENCE_MS - 1 : PATIENCE_MS);
  const settled = await outcome;
  return { settled, verdict: judgeProbe(settled, CONTEXT) };
}

const HTML = { 'content-type': 'text/html; charset=utf-8' };

const HEADS: readonly [string, Answer, string][] = [
  ['401', hanging(401), 'discover.unauthorized'],
  [
    '403, an event stream',
    hanging(403, { 'content-type': 'text/event-stream' }, ': x\n'),
    'discover.unauthorized',
  ],
  ['429', hanging(429), 'discover.noSignal'],
  ['503, compressed', hanging(503, { 'content-encoding': 'gzip' }, ''), 'discover.noSignal'],
  ['302 to elsewhere', hanging(302, { location: 'https://example.com/' }), 'discover.noSignal'],
  ['307 within the origin', hanging(307, { location: '/there' }), 'discover.noSignal'],
  ['a page', hanging(200, HTML, '<html>'), 'discover.noSignal'],
  ['a page of which there is nothing', hanging(200, HTML, ''), 'discover.noSignal'],
];

test.each(HEADS)('%s, and the deadline comes before the body', async (_name, answer, type) => {
  const server = await serve(answer);
  const make = (clock: Clock) => streamableHttpTransport({ url: server.origin, clock: clock });
  const { settled, verdict } = await probed(make, 'deadline');
  expect(verdict).toMatchObject({ type });
  expect(settled.written).toBe(true);
});

test.each(HEADS.filter(([name]) => !name.startsWith('307')))(
  '%s: the body is not waited for without end',
  async (_name, answer, type) => {
    const server = await serve(answer);
    const make = (clock: Clock) => streamableHttpTransport({ url: server.origin, clock: clock });
    const { verdict } = await probed(make, 'patience');
    expect(verdict).toMatchObject({ type });
  },
);

test('a POST of HTTP+SSE that is refused', async () => {
  const server = await sseServer({ onPost: hanging(503) });
  const make = (clock: Clock) => legacySseTransport({ url: server.url, clock: clock });
  const { verdict } = await probed(make, 'deadline');
  expect(verdict).toMatchObject({ type: 'discover.noSignal' });
});

test('a POST of HTTP+SSE that is taken, with a page: the answer is awaited on the stream', async () => {
  const server = await sseServer({ onPost: hanging(200, HTML) });
  const make = (clock: Clock) => legacySseTransport({ url: server.url, clock: clock });
  const { settled } = await probed(make, 'deadline');
  expect(settled).toMatchObject({ kind: 'timeout', written: true });
});
