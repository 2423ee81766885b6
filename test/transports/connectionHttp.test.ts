/** Connections over real sockets. Their clock, and that of their transports, is moved by hand. */
import { getEventListeners } from 'node:events';
import type { ServerResponse } from 'node:http';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Dialect } from '../../src/protocol/dialect.js';
import { isJsonObject, type JsonObject } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { issueLegacyPermit } from '../../src/transports/permit.js';
import { streamableHttpTransport } from '../../src/transports/streamableHttp.js';
import { connectTo, legacy, modern } from './connectionHarness.js';
import { answerJson, type SeenRequest, serve } from './httpHarness.js';

const YEAR_MS = 365 * 24 * 3_600_000;

interface Arrived {
  readonly message: JsonObject;
  readonly id: number;
  readonly request: SeenRequest;
  readonly response: ServerResponse;
  /** Resolves when the answer is over or its socket is gone: true where this side had not ended it. */
  readonly over: Promise<boolean>;
  /** Sends messages as events of the answer. */
  say(...messages: readonly JsonObject[]): void;
}

/** A server that accepts notifications, answers `echo` and leaves everything else to the test. */
async function start(dialect: Dialect) {
  const arrived: Arrived[] = [];
  let waiting: (() => void)[] = [];
  const server = await serve((request, response) => {
    if (request.method === 'DELETE') {
      response.writeHead(204).end();
      return;
    }
    if (request.method === 'GET') {
      response.writeHead(405).end();
      return;
    }
    const message: unknown = JSON.parse(request.body);
    if (!isJsonObject(message)) throw new Error('no message');
    const { method, params = {} } = message;
    const id = message['id'] as number;
    const over = new Promise<boolean>((resolve) =>
      response.once('close', () => resolve(!response.writableEnded)),
    );
    const say = (...messages: readonly JsonObject[]): void => {
      if (!response.headersSent) response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(
        messages.map((one) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...one })}\n\n`).join(''),
      );
    };
    arrived.push({ message, id, request, response, over, say });
    const answer = (result: unknown): string => JSON.stringify({ jsonrpc: '2.0', id, result });
    if (id === undefined) response.writeHead(202).end();
    else if (method === 'echo') answerJson(response, answer(params));
    else if (method === 'initialize') answerJson(response, answer({}), { 'mcp-session-id': 'session-1' });
    for (const look of waiting) look();
  });
  const clock = createSimulatedClock();
  const { connection, heard } = await connectTo(
    streamableHttpTransport({ url: server.origin, clock }),
    clock,
  );
  if (dialect.era === 'legacy') {
    const permit = issueLegacyPermit(connection);
    await connection.initialize(dialect, '', () => permit, 1_000).outcome;
  }
  await connection.select(dialect);
  const arrivals = (method: string): Arrived[] =>
    arrived.filter(({ message }) => message['method'] === method);
  /** Resolves with so many requests of that method, or messages, once they are there. */
  const arrival = (method: string, count = 1): Promise<Arrived[]> =>
    new Promise((resolve) => {
      const look = (): void => {
        if (arrivals(method).length < count) return;
        waiting = waiting.filter((one) => one !== look);
        resolve(arrivals(method));
      };
      waiting.push(look);
      look();
    });
  const echo = () => connection.request('echo', '', { timeoutMs: YEAR_MS }).outcome;
  return { server, clock, connection, heard, arrivals, arrival, echo };
}

const result = (id: number): JsonObject => ({ id, result: { resultType: 'complete' } });
const progress = (progressToken: number): JsonObject => ({
  method: 'notifications/progress',
  params: { progressToken, progress: 1 },
});

describe('a request that is given up', () => {
  it.each(['deadline', 'signal'])(
    'modern: by its %s its stream is closed, and nothing is said',
    async (by) => {
      const { connection, clock, arrival, arrivals, echo, heard } = await start(modern);
      const controller = new AbortController();
      const { outcome } = connection.request('hang', '', { timeoutMs: 100, signal: controller.signal });
      const [hanging] = await arrival('hang');
      if (by === 'deadline') clock.advance(100);
      else controller.abort();
      expect(await outcome).toMatchObject({
        kind: by === 'deadline' ? 'timeout' : 'cancelled',
        written: true,
      });
      expect(await hanging!.over).toBe(true);
      expect(await echo()).toMatchObject({ kind: 'result' });
      expect(arrivals('notifications/cancelled')).toEqual([]);
      expect(heard.faults()).toEqual([]);
      expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
    },
  );

  it.each(['deadline', 'signal'])('legacy: by its %s the server is told, in its session', async (by) => {
    const { connection, clock, arrival, echo } = await start(legacy);
    const controller = new AbortController();
    const { id, outcome } = connection.request('hang', '', { timeoutMs: 100, signal: controller.signal });
    const [hanging] = await arrival('hang');
    if (by === 'deadline') clock.advance(100);
    else controller.abort();
    expect(await outcome).toMatchObject({ kind: by === 'deadline' ? 'timeout' : 'cancelled', written: true });
    expect(await hanging!.over).toBe(true);
    const [told] = await arrival('notifications/cancelled');
    expect(told!.message).toMatchObject({ params: { requestId: id } });
    expect(told!.request.headers).toMatchObject({
      'mcp-session-id': 'session-1',
      'mcp-protocol-version': '2025-11-25',
    });
    expect(await echo()).toMatchObject({ kind: 'result' });
  });

  it('ends at its deadline also where its answer has begun, and says nothing', async () => {
    const { connection, clock, arrival, heard } = await start(modern);
    const { outcome } = connection.request('hang', '', { timeoutMs: 100, onProgress: () => undefined });
    const [hanging] = await arrival('hang');
    hanging!.response.writeHead(200, { 'content-type': 'text/event-stream' });
    hanging!.response.write(': keep-alive\n\n');
    hanging!.say({ method: 'notifications/message', params: {} });
    await heard.until(() => heard.notifications().length > 0);
    clock.advance(100);
    expect(await outcome).toMatchObject({ kind: 'timeout', written: true });
    expect(await hanging!.over).toBe(true);
  });

  it('fifty in a row leave no timer, no listener and no socket', async () => {
    const { server, connection, clock, arrival } = await start(modern);
    const { signal } = new AbortController();
    const listeners = () => process.eventNames().map((name) => [name, process.listenerCount(name)]);
    const before = listeners();
    for (let n = 1; n <= 50; n += 1) {
      const { outcome } = connection.request('hang', '', { timeoutMs: 100, signal });
      await arrival('hang', n);
      clock.advance(100);
      expect(await outcome).toMatchObject({ kind: 'timeout' });
    }
    await server.quiet();
    expect(listeners()).toEqual(before);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('an answer stream', () => {
  it('that ends without its answer loses the request, whose outcome is unknown', async () => {
    const { connection, arrival } = await start(modern);
    const { outcome } = connection.request('call', '', { timeoutMs: 100 });
    const [call] = await arrival('call');
    call!.say({ method: 'notifications/message', params: {} });
    call!.response.end();
    expect(await outcome).toMatchObject({ kind: 'closed', written: true, cause: { kind: 'stream-ended' } });
  });

  it('brings progress of its own request only, and answers to it only', async () => {
    const { connection, clock, arrival, heard } = await start(modern);
    const told: string[] = [];
    const ask = (name: string, timeoutMs: number) =>
      connection.request('call', '', { timeoutMs, onProgress: () => told.push(name) });
    const one = ask('one', 100);
    const other = ask('other', 200);
    const arrivedCalls = await arrival('call', 2);
    const streamOf = (id: number) => arrivedCalls.find((call) => call.id === id)!;
    clock.advance(50);
    streamOf(other.id).say(progress(one.id), result(one.id), progress(other.id), result(other.id));
    expect(await other.outcome).toMatchObject({ kind: 'result' });
    expect(told).toEqual(['other']);
    expect(heard.faults()).toEqual(['foreign-progress', 'foreign']);
    clock.advance(50);
    expect(await one.outcome).toMatchObject({ kind: 'timeout' });
  });

  it('that reports progress right behind the result is heard without harm', async () => {
    const { connection, arrival, heard, echo } = await start(modern);
    const { id, outcome } = connection.request('call', '', {
      timeoutMs: 100,
      onProgress: () => expect.unreachable(),
    });
    const [call] = await arrival('call');
    call!.say(result(id), progress(id));
    call!.response.end();
    expect(await outcome).toMatchObject({ kind: 'result' });
    await heard.until(() => heard.faults().length > 0);
    expect(heard.faults()).toEqual(['foreign-progress']);
    expect(await echo()).toMatchObject({ kind: 'result' });
  });
});

describe('a subscription', () => {
  const LISTEN = 'subscriptions/listen';
  const announce = (method: string, id: number): JsonObject => ({
    method,
    params: { notifications: {}, _meta: { 'io.modelcontextprotocol/subscriptionId': id } },
  });

  async function listen(options: { readonly signal?: AbortSignal; readonly onWritten?: () => void } = {}) {
    const started = await start(modern);
    const { id, outcome } = started.connection.listen('"notifications":{}', options);
    const [stream] = await started.arrival(LISTEN);
    return { ...started, id, outcome, stream: stream! };
  }

  it('has the headers of its method, and is told written before the server has it', async () => {
    const writes: string[] = [];
    const { stream, connection } = await listen({ onWritten: () => writes.push('written') });
    expect(writes).toEqual(['written']);
    expect(stream.request.headers).toMatchObject({
      'mcp-method': LISTEN,
      'mcp-protocol-version': '2026-07-28',
      accept: 'application/json, text/event-stream',
    });
    expect(connection.inFlight).toBe(0);
  });

  it('is open for as long as the server likes, before and after its head, beside calls', async () => {
    const { stream, id, outcome, clock, connection, heard, echo } = await listen();
    clock.advance(YEAR_MS);
    stream.say(announce('notifications/subscriptions/acknowledged', id));
    await heard.until(() => heard.notifications().length === 1);
    clock.advance(YEAR_MS);
    expect(await echo()).toMatchObject({ kind: 'result' });
    stream.response.write(': keep-alive\n\n');
    stream.say(announce('notifications/tools/list_changed', id));
    await heard.until(() => heard.notifications().length === 2);
    await connection.whenIdle();
    stream.say(result(id));
    stream.response.end();
    expect(await outcome).toMatchObject({ kind: 'result', result: { resultType: 'complete' } });
    expect(heard.notifications().map(({ method }) => method)).toEqual([
      'notifications/subscriptions/acknowledged',
      'notifications/tools/list_changed',
    ]);
    expect(heard.faults()).toEqual([]);
  });

  it('whose stream stays open after its result is closed after a while', async () => {
    const { stream, id, outcome, clock } = await listen();
    stream.say(announce('notifications/subscriptions/acknowledged', id), result(id));
    expect(await outcome).toMatchObject({ kind: 'result' });
    clock.advance(2_000);
    expect(await stream.over).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('is lost with its socket, and calls are not', async () => {
    const { stream, id, outcome, heard, echo } = await listen();
    stream.say(announce('notifications/subscriptions/acknowledged', id));
    await heard.until(() => heard.notifications().length === 1);
    stream.response.destroy();
    expect(await outcome).toMatchObject({ kind: 'closed', written: true });
    expect(await echo()).toMatchObject({ kind: 'result' });
  });

  it('is lost with the end of its stream', async () => {
    const { stream, id, outcome } = await listen();
    stream.say(announce('notifications/subscriptions/acknowledged', id));
    stream.response.end();
    expect(await outcome).toMatchObject({ kind: 'closed', written: true, cause: { kind: 'stream-ended' } });
  });

  it('that is refused is settled by the error', async () => {
    const { stream, id, outcome } = await listen();
    stream.response
      .writeHead(404, { 'content-type': 'application/json' })
      .end(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } }));
    expect(await outcome).toMatchObject({ kind: 'error', correlated: true, error: { code: -32601 } });
  });

  it('that ends at once does so with a result', async () => {
    const { stream, id, outcome } = await listen();
    answerJson(stream.response, JSON.stringify({ jsonrpc: '2.0', id, result: {} }));
    expect(await outcome).toMatchObject({ kind: 'result' });
  });

  it.each(['signal', 'close'])('is ended by closing its stream: %s', async (by) => {
    const controller = new AbortController();
    const { stream, id, outcome, connection, arrivals, heard, server } = await listen({
      signal: controller.signal,
    });
    stream.say(announce('notifications/subscriptions/acknowledged', id));
    await heard.until(() => heard.notifications().length === 1);
    if (by === 'signal') controller.abort();
    else void connection.close();
    expect(await outcome).toMatchObject({ kind: by === 'signal' ? 'cancelled' : 'closed', written: true });
    expect(await stream.over).toBe(true);
    await connection.close();
    await server.quiet();
    expect(arrivals('notifications/cancelled')).toEqual([]);
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });
});

describe('one signal for a hundred calls', () => {
  it.each([
    ['modern', modern, 0],
    ['legacy', legacy, 100],
  ])('%s: has one listener, brings no warning, and cancels them all', async (_name, dialect, told) => {
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on('warning', warn);
    onTestFinished(() => void process.off('warning', warn));
    const { connection, arrival, arrivals, clock } = await start(dialect);
    const controller = new AbortController();
    const { signal } = controller;
    const ask = (method: string) =>
      Array.from({ length: 100 }, () => connection.request(method, '', { timeoutMs: 100, signal }).outcome);
    const echoes = ask('echo');
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    for (const outcome of await Promise.all(echoes)) expect(outcome).toMatchObject({ kind: 'result' });
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    const hanging = ask('hang');
    const calls = await arrival('hang', 100);
    controller.abort();
    for (const outcome of await Promise.all(hanging)) {
      expect(outcome).toMatchObject({ kind: 'cancelled', written: true });
    }
    for (const { over } of calls) expect(await over).toBe(true);
    await arrival('notifications/cancelled', told);
    await connection.close();
    expect(arrivals('notifications/cancelled')).toHaveLength(told);
    // A warning is emitted in a later tick than its cause.
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    expect(clock.pendingTimers).toBe(0);
  });
});
