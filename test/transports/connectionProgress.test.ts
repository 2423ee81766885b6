import { describe, expect, it } from 'vitest';
import type { Progress } from '../../src/transports/connection.js';
import { connect, legacy, modern } from './connectionHarness.js';

const progress = (token: unknown, more = '"progress":1'): string =>
  `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":${JSON.stringify(token)},${more}}}`;
const result = (id: number): string => `{"jsonrpc":"2.0","id":${id},"result":{}}`;

describe('a deadline', () => {
  it('is extended by progress by as much as the caller says, from the report on', async () => {
    const { connection, clock, control, heard } = await connect();
    connection.select(modern);
    const { id, outcome } = connection.request('tools/call', '', {
      timeoutMs: 100,
      extendByMs: 300,
      onProgress: () => undefined,
    });
    clock.advance(99);
    control.send(progress(id));
    clock.advance(299);
    expect(connection.inFlight).toBe(1);
    clock.advance(1);
    expect(connection.inFlight).toBe(0);
    expect(await outcome).toMatchObject({ kind: 'timeout', written: true });
    expect(heard.faults()).toEqual([]);
    expect(clock.pendingTimers).toBe(0);
  });

  it('is never brought nearer by progress', async () => {
    const { connection, clock, control } = await connect();
    connection.select(modern);
    connection.request('tools/call', '', { timeoutMs: 100, extendByMs: 5, onProgress: () => undefined });
    control.send(progress(7));
    clock.advance(99);
    expect(connection.inFlight).toBe(1);
    clock.advance(1);
    expect(connection.inFlight).toBe(0);
  });

  it.each([
    ['of the connection', undefined, 10_000],
    ['of the request', 250, 250],
  ])('is not extended beyond the longest life %s', async (_name, maxTotalMs, lifeMs) => {
    const { connection, clock, control } = await connect();
    connection.select(modern);
    connection.request('tools/call', '', { timeoutMs: 100, maxTotalMs, onProgress: () => undefined });
    for (let at = 0; at + 50 < lifeMs; at += 50) {
      clock.advance(50);
      control.send(progress(7));
    }
    clock.advance(49);
    expect(connection.inFlight).toBe(1);
    clock.advance(1);
    expect(connection.inFlight).toBe(0);
  });

  it('is the longest life of the request, where that is shorter', async () => {
    const { connection, clock } = await connect();
    connection.select(modern);
    const { outcome } = connection.request('tools/call', '', { timeoutMs: 100, maxTotalMs: 40 });
    clock.advance(40);
    expect(await outcome).toMatchObject({ kind: 'timeout', timeoutMs: 40 });
  });
});

describe('progress', () => {
  it('is told to who asked for it, and a listener that throws harms nothing', async () => {
    const { connection, control, heard } = await connect();
    connection.select(modern);
    const told: Progress[] = [];
    const { id, outcome } = connection.request('tools/call', '', {
      timeoutMs: 100,
      onProgress: (one) => {
        told.push(one);
        throw new Error('of the caller');
      },
    });
    control.send(progress(id, '"progress":1,"total":3,"message":"one"'));
    control.send(progress(id, '"progress":2.5,"total":null,"message":null'));
    control.send(result(id));
    expect(await outcome).toMatchObject({ kind: 'result' });
    expect(told).toEqual([
      { progress: 1, total: 3, message: 'one' },
      { progress: 2.5, total: undefined, message: undefined },
    ]);
    expect(heard.faults()).toEqual([]);
  });

  it.each([
    ['of a token that was never given', progress('abc')],
    ['of the token as a string', progress('7')],
    ['of no token', '{"jsonrpc":"2.0","method":"notifications/progress"}'],
    ['of a request that did not ask', progress(8)],
    ['without a number', progress(7, '"total":3')],
    ['of text', progress(7, '"progress":"1"')],
    ['without bounds', progress(7, '"progress":1e999')],
    ['with a total that is none', progress(7, '"progress":1,"total":"many"')],
    ['with a message that is none', progress(7, '"progress":1,"message":{}')],
  ])('%s is counted once and extends nothing', async (_name, text) => {
    const { connection, clock, control, heard } = await connect();
    connection.select(modern);
    const told: Progress[] = [];
    connection.request('tools/call', '', { timeoutMs: 100, onProgress: (one) => told.push(one) });
    connection.request('tools/call', '', { timeoutMs: 100 });
    clock.advance(99);
    control.send(text);
    expect(heard.faults()).toEqual(['foreign-progress']);
    expect(told).toEqual([]);
    clock.advance(1);
    expect(connection.inFlight).toBe(0);
  });

  it('after the end of its request is counted once, whatever that end was', async () => {
    const { connection, clock, control, heard } = await connect();
    connection.select(modern);
    const options = { timeoutMs: 100, onProgress: () => expect.unreachable() };
    const answered = connection.request('tools/call', '', options);
    const late = connection.request('tools/call', '', options);
    control.send(result(answered.id));
    control.send(progress(answered.id));
    clock.advance(100);
    control.send(progress(late.id));
    expect(heard.faults()).toEqual(['foreign-progress', 'foreign-progress']);
    expect(clock.pendingTimers).toBe(0);
  });

  it('of a request that was not written yet is foreign', async () => {
    const { connection, clock, control, heard } = await connect();
    connection.select(modern);
    control.hold();
    connection.request('tools/call', '', { timeoutMs: 100, onProgress: () => expect.unreachable() });
    clock.advance(50);
    control.send(progress(7));
    clock.advance(50);
    expect(connection.inFlight).toBe(0);
    expect(heard.faults()).toEqual(['foreign-progress']);
  });

  it('in the answer to another request is foreign, also where its token is good', async () => {
    const { connection, clock, control, heard } = await connect({ perRequestStreams: true });
    connection.select(modern);
    const told: number[] = [];
    const onProgress = ({ progress }: Progress) => told.push(progress);
    const one = connection.request('tools/call', '', { timeoutMs: 100, onProgress });
    const other = connection.request('tools/call', '', { timeoutMs: 100, onProgress });
    clock.advance(99);
    control.send(progress(one.id, '"progress":1'), other.id);
    control.send(progress(one.id, '"progress":2'), one.id);
    clock.advance(1);
    expect(await other.outcome).toMatchObject({ kind: 'timeout' });
    expect(connection.inFlight).toBe(1);
    expect(told).toEqual([2]);
    expect(heard.faults()).toEqual(['foreign-progress']);
  });
});

describe('responses that nobody waits for', () => {
  it('are counted once each: late, twice, foreign', async () => {
    const { connection, clock, control, heard } = await connect();
    connection.select(modern);
    const { id, outcome } = connection.request('tools/call', '', { timeoutMs: 100 });
    clock.advance(100);
    control.send(`{"jsonrpc":"2.0","id":${id},"error":{"code":0,"message":"Request cancelled"}}`);
    control.send(result(id));
    control.send(result(id + 1_000));
    expect(await outcome).toMatchObject({ kind: 'timeout' });
    expect(heard.faults()).toEqual(['late', 'late', 'foreign']);
    expect(connection.isOpen).toBe(true);
  });

  it('over HTTP, in the answer to another request, neither settle their own nor spoil the other', async () => {
    const { connection, control, heard } = await connect({ perRequestStreams: true });
    connection.select(modern);
    const one = connection.request('tools/call', '', { timeoutMs: 100 });
    const other = connection.request('tools/call', '', { timeoutMs: 100 });
    control.send('{"jsonrpc":"2.0","id":7,"result":{"of":"one, in the wrong stream"}}', other.id);
    control.send('{"jsonrpc":"2.0","id":7,"result":{"of":"one"}}', one.id);
    control.send('{"jsonrpc":"2.0","id":8,"result":{"of":"other"}}', other.id);
    control.send('{"jsonrpc":"2.0","id":8,"result":{"of":"other, again"}}', other.id);
    expect(await one.outcome).toMatchObject({ kind: 'result', result: { of: 'one' } });
    expect(await other.outcome).toMatchObject({ kind: 'result', result: { of: 'other' } });
    expect(heard.faults()).toEqual(['foreign', 'late']);
  });

  it('do not add up to a flood of rubbish while messages come in between', async () => {
    const { connection, control } = await connect();
    connection.select(legacy);
    for (let i = 0; i < 20_002; i += 1) {
      control.send('{"nothing":1}');
      if (i % 10_000 === 0) control.send('{"jsonrpc":"2.0","method":"notifications/message","params":{}}');
    }
    expect(connection.isOpen).toBe(true);
  });
});
