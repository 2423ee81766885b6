import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { connect, legacy, modern } from './connectionHarness.js';

const FILTER = '"notifications":{"toolsListChanged":true}';
const YEAR_MS = 365 * 24 * 3_600_000;
const cancelled = (id: unknown): string =>
  `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":${JSON.stringify(id)},"reason":"r"}}`;
const result = (id: number): string => `{"jsonrpc":"2.0","id":${id},"result":{"resultType":"complete"}}`;

describe('a standing request', () => {
  it('is written in the selected modern dialect, and only there', async () => {
    const { connection, written } = await connect();
    expect(() => connection.listen(FILTER)).toThrow('no modern era');
    connection.select(modern);
    const { id } = connection.listen(FILTER);
    expect(JSON.parse(written[0]!)).toMatchObject({
      id,
      method: 'subscriptions/listen',
      params: {
        notifications: { toolsListChanged: true },
        _meta: { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' },
      },
    });
    const other = await connect();
    other.connection.select(legacy);
    expect(() => other.connection.listen(FILTER)).toThrow('no modern era');
  });

  it('has no deadline, and counts as nothing in flight', async () => {
    const { connection, clock, control } = await connect();
    connection.select(modern);
    const { id, outcome } = connection.listen(FILTER);
    expect(clock.pendingTimers).toBe(0);
    expect(connection.inFlight).toBe(0);
    await connection.whenIdle();
    const call = connection.request('tools/call', '', { timeoutMs: 100 });
    expect(connection.inFlight).toBe(1);
    const idle = connection.whenIdle();
    control.send(`{"jsonrpc":"2.0","id":${call.id},"result":{}}`);
    await idle;
    expect(connection.inFlight).toBe(0);
    clock.advance(YEAR_MS);
    control.send(result(id));
    expect(await outcome).toMatchObject({ kind: 'result', result: { resultType: 'complete' } });
    expect(connection.inFlight).toBe(0);
  });

  it('a probe is in flight, but is no call', async () => {
    const { connection, control } = await connect();
    const probe = connection.probe(modern, 100);
    expect(connection.inFlight).toBe(0);
    let isIdle = false;
    const idle = connection.whenIdle().then(() => {
      isIdle = true;
    });
    await Promise.resolve();
    expect(isIdle).toBe(false);
    control.send(result(probe.id));
    await idle;
    connection.select(modern);
    connection.request('tools/call', '', { timeoutMs: 100 });
    expect(connection.inFlight).toBe(1);
  });

  it.each([
    ['an error', '"error":{"code":-32601,"message":"m"}', { kind: 'error', correlated: true }],
    ['a message that is none', '"nothing":1', { kind: 'malformed' }],
  ])('is settled by %s', async (_name, member, expected) => {
    const { connection, control } = await connect();
    connection.select(modern);
    const { id, outcome } = connection.listen(FILTER);
    control.send(`{"jsonrpc":"2.0","id":${id},${member}}`);
    expect(await outcome).toMatchObject({ ...expected, written: true });
  });

  it('is settled by the loss of the connection', async () => {
    const { connection, control } = await connect();
    connection.select(modern);
    const { outcome } = connection.listen(FILTER);
    control.close({ kind: 'exit', detail: 'exit 1', exitCode: 1 });
    expect(await outcome).toMatchObject({ kind: 'closed', written: true, cause: { kind: 'exit' } });
    expect(await connection.listen(FILTER).outcome).toMatchObject({ kind: 'closed', written: false });
  });

  it('on a pipe is cancelled by a notification: by its signal, and when the host closes', async () => {
    const { connection, written } = await connect();
    connection.select(modern);
    const controller = new AbortController();
    const one = connection.listen(FILTER, { signal: controller.signal });
    const other = connection.listen(FILTER);
    controller.abort();
    expect(await one.outcome).toMatchObject({ kind: 'cancelled', written: true });
    expect(JSON.parse(written[2]!)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: one.id },
    });
    await connection.close();
    expect(await other.outcome).toMatchObject({ kind: 'closed', cause: { kind: 'host' } });
    expect(JSON.parse(written[3]!)).toMatchObject({ params: { requestId: other.id } });
    expect(getEventListeners(controller.signal, 'abort')).toEqual([]);
  });

  it('over HTTP is cancelled by closing its stream', async () => {
    const aborted: number[] = [];
    const { connection, written } = await connect({
      perRequestStreams: true,
      aborted: (id) => aborted.push(id),
    });
    connection.select(modern);
    const controller = new AbortController();
    const { id, outcome } = connection.listen(FILTER, { signal: controller.signal });
    controller.abort();
    expect(await outcome).toMatchObject({ kind: 'cancelled', written: true });
    expect(aborted).toEqual([id]);
    expect(written).toHaveLength(1);
  });

  it('over HTTP is settled by the end of its stream, and its stream is closed after a result', async () => {
    const aborted: number[] = [];
    const { connection, clock, control } = await connect({
      perRequestStreams: true,
      aborted: (id) => aborted.push(id),
    });
    connection.select(modern);
    const ended = connection.listen(FILTER);
    const answered = connection.listen(FILTER);
    clock.advance(YEAR_MS);
    control.end(ended.id, { kind: 'complete', status: 200, redirected: false });
    expect(await ended.outcome).toMatchObject({ kind: 'closed', cause: { kind: 'stream-ended' } });
    control.send(result(answered.id), answered.id);
    expect(await answered.outcome).toMatchObject({ kind: 'result' });
    expect(aborted).toEqual([]);
    clock.advance(2_000);
    expect(aborted).toEqual([answered.id]);
  });

  it('a response after its end is late', async () => {
    const { connection, control, heard } = await connect();
    connection.select(modern);
    const { id } = connection.listen(FILTER);
    control.send(result(id));
    control.send(result(id));
    expect(heard.faults()).toEqual(['late']);
  });
});

describe('onWritten', () => {
  it('is called once, in the tick of the write, before anything can come back', async () => {
    const order: string[] = [];
    const { connection, control } = await connect({
      receive: () => {
        order.push('received');
      },
    });
    connection.select(modern);
    control.hold();
    connection.listen(FILTER, { onWritten: () => order.push('written') });
    expect(order).toEqual([]);
    control.release();
    expect(order).toEqual(['written', 'received']);
  });

  it('is not called where nothing is written', async () => {
    const { connection, control, written } = await connect();
    connection.select(modern);
    control.hold();
    const controller = new AbortController();
    const onWritten = () => expect.unreachable();
    const { outcome } = connection.listen(FILTER, { signal: controller.signal, onWritten });
    controller.abort();
    control.release();
    expect(await outcome).toMatchObject({ kind: 'cancelled', written: false });
    const aborted = connection.listen(FILTER, { signal: controller.signal, onWritten });
    expect(await aborted.outcome).toMatchObject({ kind: 'cancelled', written: false });
    expect(written).toEqual([]);
  });

  it('may throw, and may abort: then nothing is written', async () => {
    const { connection, written } = await connect();
    connection.select(modern);
    connection.listen(FILTER, {
      onWritten: () => {
        throw new Error('of the owner');
      },
    });
    expect(written).toHaveLength(1);
    const controller = new AbortController();
    const { outcome } = connection.listen(FILTER, {
      signal: controller.signal,
      onWritten: () => controller.abort(),
    });
    expect(await outcome).toMatchObject({ kind: 'cancelled', written: false });
    expect(written).toHaveLength(1);
  });
});

describe("a server's notifications/cancelled", () => {
  it('ends a standing request, once, and nothing else', async () => {
    const { connection, control, heard, written } = await connect();
    connection.select(modern);
    const call = connection.request('tools/call', '', { timeoutMs: 100 });
    const { id, outcome } = connection.listen(FILTER);
    control.send(cancelled(call.id));
    control.send(cancelled(String(id)));
    control.send('{"jsonrpc":"2.0","method":"notifications/cancelled"}');
    control.send(cancelled({}));
    expect(heard.faults()).toEqual(Array(4).fill('foreign-cancel'));
    expect(connection.inFlight).toBe(1);
    control.send(cancelled(id));
    expect(await outcome).toEqual({ kind: 'cancelled', written: true, detail: 'the server ended it' });
    control.send(cancelled(id));
    expect(heard.faults()).toHaveLength(5);
    expect(heard.notifications()).toEqual([]);
    expect(written).toHaveLength(2);
    control.send(result(call.id));
    expect(await call.outcome).toMatchObject({ kind: 'result' });
  });

  it('over HTTP does not end what another stream is for, nor a call', async () => {
    const { connection, control, heard } = await connect({ perRequestStreams: true });
    connection.select(modern);
    const call = connection.request('tools/call', '', { timeoutMs: 100 });
    const one = connection.listen(FILTER);
    const other = connection.listen(FILTER);
    control.send(cancelled(one.id), other.id);
    control.send(cancelled(one.id), call.id);
    control.send(cancelled(call.id), call.id);
    expect(heard.faults()).toEqual(Array(3).fill('foreign-cancel'));
    expect(connection.inFlight).toBe(1);
    control.send(cancelled(one.id), one.id);
    expect(await one.outcome).toMatchObject({ kind: 'cancelled', written: true });
  });

  it('takes back a request of a legacy server, which is not answered any more', async () => {
    const { connection, control, events, heard, written } = await connect();
    connection.select(legacy);
    const call = connection.request('tools/call', '', { timeoutMs: 100 });
    for (const id of ['"a"', '1', '"1"']) {
      control.send(`{"jsonrpc":"2.0","id":${id},"method":"sampling/createMessage","params":{}}`);
    }
    control.send(cancelled('a'));
    control.send(cancelled('a'));
    connection.respond('a', { result: { late: true } });
    connection.respond(1, { result: {} });
    control.send(cancelled(1));
    connection.respond('1', { code: -32601, message: 'no' });
    control.send(cancelled(call.id));
    expect(events.filter(([name]) => name === 'serverCancelled')).toEqual([['serverCancelled', 'a']]);
    expect(heard.faults()).toEqual(Array(3).fill('foreign-cancel'));
    expect(written.slice(2).map((text) => JSON.parse(text))).toEqual([
      { jsonrpc: '2.0', id: 1, result: {} },
      { jsonrpc: '2.0', id: '1', error: { code: -32601, message: 'no' } },
    ]);
    expect(connection.inFlight).toBe(1);
  });

  it('before an era is selected ends nothing', async () => {
    const { connection, control, heard } = await connect();
    const { id } = connection.probe(modern, 100);
    control.send(cancelled(id));
    expect(heard.faults()).toEqual(['foreign-cancel']);
    let isIdle = false;
    void connection.whenIdle().then(() => {
      isIdle = true;
    });
    await Promise.resolve();
    expect(isIdle).toBe(false);
  });
});

describe("a legacy server's own requests", () => {
  it('are answered once each, in any order', async () => {
    const { connection, control, events, heard, written } = await connect();
    connection.select(legacy);
    const ask = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
    control.send(ask);
    control.send(ask);
    connection.respond(1, { result: {} });
    connection.respond(1, { result: {} });
    connection.respond(99, { result: {} });
    control.send(ask);
    connection.respond(1, { result: {} });
    expect(events.filter(([name]) => name === 'serverRequest')).toHaveLength(2);
    expect(heard.faults()).toEqual(['server-request']);
    expect(written).toHaveLength(3);
  });

  it('are bounded where nobody answers', async () => {
    const { connection, control, events, heard } = await connect();
    connection.select(legacy);
    for (let id = 0; id < 1_030; id += 1) control.send(`{"jsonrpc":"2.0","id":${id},"method":"roots/list"}`);
    expect(events.filter(([name]) => name === 'serverRequest')).toHaveLength(1_024);
    expect(heard.faults()).toEqual(Array(6).fill('server-request'));
  });

  it('an answer after the end of the connection is dropped', async () => {
    for (const perRequestStreams of [false, true]) {
      const { connection, clock, control, written } = await connect({ perRequestStreams });
      connection.select(legacy);
      control.send('{"jsonrpc":"2.0","id":1,"method":"ping"}');
      control.send('{"jsonrpc":"2.0","id":2,"method":"ping"}');
      control.close({ kind: 'exit', detail: 'exit 1', exitCode: 1 });
      connection.respond(1, { result: {} });
      await connection.close();
      connection.respond(2, { code: -32603, message: 'm' });
      expect(written).toHaveLength(1);
      expect(clock.pendingTimers).toBe(0);
    }
  });
});
