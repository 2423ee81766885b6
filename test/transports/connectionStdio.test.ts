/** Connections to real processes. Their clock is moved by hand; that of their transports is the real one. */
import { getEventListeners } from 'node:events';
import { fileURLToPath } from 'node:url';
import { describe, expect, it, onTestFinished } from 'vitest';
import type { Dialect } from '../../src/protocol/dialect.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { stdioTransport } from '../../src/transports/stdio.js';
import { connectTo, legacy, modern } from './connectionHarness.js';

const SERVER = fileURLToPath(new URL('../fixtures/callServer.mjs', import.meta.url));
const LISTEN = 'subscriptions/listen';

async function start(dialect: Dialect, ...args: string[]) {
  const clock = createSimulatedClock();
  const transport = stdioTransport({ command: process.execPath, args: [SERVER, ...args] });
  const { connection, heard } = await connectTo(transport, clock);
  await connection.select(dialect);
  /** What the server has heard so far. */
  const reached = (): JsonObject[] =>
    heard.notifications().flatMap(({ method, params }) => (method === 'test/heard' ? [params!] : []));
  /** Resolves with the message of that method once the server has heard it. */
  const arrival = async (method: string, id?: number): Promise<JsonObject> => {
    const found = (): JsonObject | undefined =>
      reached().find((one) => one['method'] === method && (id === undefined || one['id'] === id));
    await heard.until(() => found() !== undefined || !connection.isOpen);
    return found()!;
  };
  return { connection, clock, heard, reached, arrival };
}

describe.each([
  ['modern', modern],
  ['legacy', legacy],
])('a request that is given up (%s)', (_name, dialect) => {
  it.each(['deadline', 'signal'])('by its %s is cancelled by a notification', async (by) => {
    const { connection, clock, heard, arrival } = await start(dialect);
    const controller = new AbortController();
    const { id, outcome } = connection.request('hang', '', { timeoutMs: 100, signal: controller.signal });
    await arrival('hang');
    if (by === 'deadline') clock.advance(100);
    else controller.abort();
    expect(await outcome).toMatchObject({
      kind: by === 'deadline' ? 'timeout' : 'cancelled',
      written: true,
    });
    expect(await arrival('notifications/cancelled')).toMatchObject({ params: { requestId: id } });
    // The error that comes in answer to the cancellation is ignored, and the connection is of use.
    expect(await connection.request('echo', '"a":1', { timeoutMs: 100 }).outcome).toMatchObject({
      kind: 'result',
      result: { a: 1 },
    });
    expect(heard.faults()).toEqual(['late']);
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('a server', () => {
  it('that dies of a cancellation takes the other calls with it, and their outcome is unknown', async () => {
    const { connection, clock, arrival } = await start(modern, 'mortal');
    const one = connection.request('hang', '', { timeoutMs: 100 });
    const other = connection.request('hang', '', { timeoutMs: 200 });
    await arrival('hang', other.id);
    clock.advance(100);
    expect(await one.outcome).toMatchObject({ kind: 'timeout' });
    expect(await other.outcome).toMatchObject({
      kind: 'closed',
      written: true,
      cause: { kind: 'exit', exitCode: 4 },
    });
    expect(clock.pendingTimers).toBe(0);
  });

  it('that reports progress right behind the result is heard without harm', async () => {
    const { connection, clock, heard } = await start(modern);
    const { outcome } = connection.request('burst', '', {
      timeoutMs: 100,
      onProgress: () => expect.unreachable(),
    });
    expect(await outcome).toMatchObject({ kind: 'result' });
    await connection.request('echo', '', { timeoutMs: 100 }).outcome;
    expect(heard.faults()).toEqual(['foreign-progress']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('that reports progress with tokens nobody gave extends no deadline with them', async () => {
    const { connection, clock, heard, arrival } = await start(modern);
    const onProgress = () => expect.unreachable();
    const waits = connection.request('hang', '', { timeoutMs: 100, onProgress: () => undefined });
    const silent = connection.request('hang', '', { timeoutMs: 100 });
    await arrival('hang', silent.id);
    clock.advance(99);
    const { outcome } = connection.request('tokens', `"tokens":["x",0,"${waits.id}",${silent.id},null]`, {
      timeoutMs: 100,
      onProgress,
    });
    expect(await outcome).toMatchObject({ kind: 'result' });
    clock.advance(1);
    expect(await waits.outcome).toMatchObject({ kind: 'timeout' });
    expect(await silent.outcome).toMatchObject({ kind: 'timeout' });
    expect(heard.faults().filter((kind) => kind === 'foreign-progress')).toHaveLength(5);
  });

  it('that answers twice is heard once', async () => {
    const { connection, heard } = await start(modern);
    const both = [1, 2].map(() => connection.request('twice', '', { timeoutMs: 100 }).outcome);
    for (const outcome of await Promise.all(both)) expect(outcome).toMatchObject({ kind: 'result' });
    await connection.request('echo', '', { timeoutMs: 100 }).outcome;
    expect(heard.faults()).toEqual(['late', 'late']);
  });
});

describe('a subscription', () => {
  it('brings its notifications beside calls', async () => {
    const { connection, clock, heard, arrival } = await start(modern);
    let writes = 0;
    const { id } = connection.listen('', {
      onWritten: () => {
        writes += 1;
      },
    });
    expect(writes).toBe(1);
    await arrival(LISTEN);
    const isOf = (method: string) =>
      heard.notifications().some((one) => {
        const meta = one.params?.['_meta'] as JsonObject | undefined;
        return one.method === method && meta?.['io.modelcontextprotocol/subscriptionId'] === id;
      });
    await heard.until(
      () => isOf('notifications/subscriptions/acknowledged') && isOf('notifications/tools/list_changed'),
    );
    await connection.request('echo', '', { timeoutMs: 100 }).outcome;
    await connection.whenIdle();
    clock.advance(1e9);
    expect(connection.isOpen).toBe(true);
    expect(heard.faults()).toEqual([]);
  });

  it.each([
    ['a result', 'result', { kind: 'result', result: { resultType: 'complete' } }],
    ['a cancellation', 'cancel', { kind: 'cancelled', detail: 'the server ended it' }],
    ['its exit', 'exit', { kind: 'closed', cause: { kind: 'exit', exitCode: 3 } }],
  ])('is ended by the server with %s', async (_name, then, expected) => {
    const { connection, heard } = await start(modern);
    const { outcome } = connection.listen(`"then":"${then}"`);
    expect(await outcome).toMatchObject({ ...expected, written: true });
    expect(heard.notifications().map(({ method }) => method)).toContain('notifications/tools/list_changed');
    expect(heard.faults()).toEqual([]);
  });

  it('is ended by its signal, and the server is told', async () => {
    const { connection, heard, arrival } = await start(modern);
    const controller = new AbortController();
    const { id, outcome } = connection.listen('', { signal: controller.signal });
    await arrival(LISTEN);
    controller.abort();
    expect(await outcome).toMatchObject({ kind: 'cancelled', written: true });
    expect(await arrival('notifications/cancelled')).toMatchObject({ params: { requestId: id } });
    await heard.until(() => heard.faults().length > 0);
    expect(heard.faults()).toEqual(['late']);
  });
});

describe('one signal for a hundred calls', () => {
  it('over two connections has one listener, brings no warning, and cancels them all', async () => {
    const warnings: Error[] = [];
    const warn = (warning: Error) => warnings.push(warning);
    process.on('warning', warn);
    onTestFinished(() => void process.off('warning', warn));
    const servers = [await start(modern), await start(legacy)];
    const controller = new AbortController();
    const { signal } = controller;
    const ask = (method: string) =>
      Array.from({ length: 100 }, (_, n) =>
        servers[n % 2]!.connection.request(method, '', { timeoutMs: 100, signal }),
      );
    const echoes = ask('echo');
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    for (const { outcome } of echoes) expect(await outcome).toMatchObject({ kind: 'result' });
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    const hanging = ask('hang');
    for (const [n, { arrival }] of servers.entries()) await arrival('hang', hanging.at(n - 2)!.id);
    controller.abort();
    for (const { outcome } of hanging) {
      expect(await outcome).toMatchObject({ kind: 'cancelled', written: true });
    }
    for (const { connection, reached } of servers) {
      await connection.request('echo', '', { timeoutMs: 100 }).outcome;
      expect(reached().filter(({ method }) => method === 'notifications/cancelled')).toHaveLength(50);
    }
    // A warning is emitted in a later tick than its cause.
    await new Promise((resolve) => setImmediate(resolve));
    expect(warnings).toEqual([]);
    expect(getEventListeners(signal, 'abort')).toHaveLength(0);
    expect(servers.map(({ clock }) => clock.pendingTimers)).toEqual([0, 0]);
  });
});
