import { describe, expect, it } from 'vitest';
import { createIdSource } from '../../src/protocol/jsonRpc.js';
import { modernDialect } from '../../src/protocol/modern.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { Connection } from '../../src/transports/connection.js';
import { type MemoryPeer, memoryTransport } from '../../src/transports/memory.js';
import { issueLegacyPermit, LegacyPermit } from '../../src/transports/permit.js';
import { connect, legacy, modern } from './connectionHarness.js';

describe('before an era is selected', () => {
  it('nothing but the negotiation can be written (N17)', async () => {
    const { connection, written } = await connect();
    expect(() => connection.request('tools/call', '', { timeoutMs: 1 })).toThrow('no era');
    expect(() => connection.notify('notifications/cancelled', '')).toThrow('no era');
    connection.respond(1, { result: {} });
    expect(written).toEqual([]);
  });

  it('initialize needs a permit for this very connection, in the tick of the write, once', async () => {
    const { connection, written } = await connect();
    const other = {};
    const permit = issueLegacyPermit(connection);
    const tries = [null, new LegacyPermit(), issueLegacyPermit(other), permit, permit];
    const outcomes = [];
    for (const offered of tries) outcomes.push(connection.initialize(legacy, '', () => offered, 10).outcome);
    expect(written).toHaveLength(1);
    expect(written[0]).toContain('"method":"initialize"');
    for (const index of [0, 1, 2, 4])
      expect(await outcomes[index]).toEqual({ kind: 'withheld', written: false });
  });

  it('after initialize it is not probed any more', async () => {
    const { connection } = await connect();
    connection.initialize(legacy, '', () => issueLegacyPermit(connection), 10);
    expect(connection.mayBeProbed).toBe(false);
    expect(() => connection.probe(modern, 10)).toThrow('not probed');
  });

  it('a server request is dropped and counted, an uncorrelated modern error is heard', async () => {
    const { connection, control, events, written } = await connect();
    connection.probe(modern, 10);
    control.send('{"jsonrpc":"2.0","id":1,"method":"ping"}');
    control.send('{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"no"}}');
    control.send('[{"id":99,"error":{"code":-32020}}]');
    control.send('not json');
    expect(events.map(([name, first]) => [name, first])).toEqual([
      ['fault', 'server-request'],
      ['modernSign', { kind: 'code', value: '-32022' }],
      ['fault', 'uncorrelated'],
      ['modernSign', { kind: 'code', value: '-32020' }],
      ['fault', 'malformed'],
      ['fault', 'noise'],
    ]);
    expect(written).toHaveLength(1);
  });

  it('a probe that got no answer is neither cancelled nor given up: a late answer is heard (N9)', async () => {
    const { connection, clock, control, events, written } = await connect();
    const { id, outcome } = connection.probe(modern, 50);
    clock.advance(50);
    expect(await outcome).toMatchObject({ kind: 'timeout', written: true });
    control.send(
      `{"jsonrpc":"2.0","id":${id},"result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}`,
    );
    expect(events.map(([name]) => name)).toEqual(['modernSign', 'fault']);
    expect(written).toHaveLength(1);
  });
});

describe('an era', () => {
  it('is selected once, but for another modern revision', async () => {
    const { connection } = await connect();
    connection.select(modern);
    connection.select(
      modernDialect({
        revision: '2027-01-01',
        clientInfo: { name: 't', version: '1' },
        clientCapabilities: {},
      }),
    );
    await expect(connection.select(legacy)).rejects.toThrow('once');
    expect(connection.agreed?.revision).toBe('2027-01-01');
    expect(() => connection.request('initialize', '', { timeoutMs: 1 })).toThrow('negotiation');
  });

  it('legacy: initialized goes first, and server/discover is refused (N11)', async () => {
    const { connection, written } = await connect();
    connection.select(legacy);
    expect(written).toEqual(['{"jsonrpc":"2.0","method":"notifications/initialized"}']);
    expect(() => connection.request('server/discover', '', { timeoutMs: 1 })).toThrow('negotiation');
    await expect(connection.select(legacy)).rejects.toThrow('once');
  });
});

describe('answers', () => {
  it('are correlated by type and value of the id (N16)', async () => {
    const { connection, control, events } = await connect();
    connection.select(modern);
    const { id, outcome } = connection.request('tools/list', '', { timeoutMs: 100 });
    control.send(`{"jsonrpc":"2.0","id":"${id}","result":{}}`);
    control.send(`{"jsonrpc":"2.0","id":${id + 50},"result":{}}`);
    control.send(`{"jsonrpc":"2.0","id":${id},"result":{"ok":true}}`);
    control.send(`{"jsonrpc":"2.0","id":${id},"result":{"ok":false}}`);
    expect(await outcome).toMatchObject({ kind: 'result', result: { ok: true } });
    expect(events.map(([, kind]) => kind)).toEqual(['foreign', 'foreign', 'late']);
  });

  it('a malformed one that carries the id settles at once', async () => {
    const { connection, control } = await connect();
    connection.select(modern);
    const { id, outcome } = connection.request('tools/list', '', { timeoutMs: 100 });
    control.send(`{"jsonrpc":"1.0","id":${id},"result":{}}`);
    expect(await outcome).toMatchObject({ kind: 'malformed' });
  });

  it.each([
    [
      'an error with a null id',
      '{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"m"}}',
      { kind: 'error', correlated: false },
    ],
    [
      'an error with a foreign id',
      '{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"m"}}',
      { kind: 'error', correlated: false },
    ],
    ['a result with a foreign id', '{"jsonrpc":"2.0","id":"x","result":{}}', { kind: 'malformed' }],
    ['a batch', '[]', { kind: 'malformed' }],
    ['no JSON', '{', { kind: 'malformed' }],
  ])('over HTTP %s settles the lone request (N20)', async (_name, text, expected) => {
    const { connection } = await connect({
      perRequestStreams: true,
      receive: (_message, reply, control, request) => {
        reply(text);
        control.end(request.id as number, { kind: 'complete', status: 200, redirected: false });
      },
    });
    const { outcome } = connection.probe(modern, 100);
    expect(await outcome).toMatchObject(expected);
  });

  it('over HTTP the right answer counts although another came first in its stream', async () => {
    const { connection } = await connect({
      perRequestStreams: true,
      receive: (_message, reply, control, request) => {
        reply('{"jsonrpc":"2.0","id":"x","result":{}}');
        reply(`{"jsonrpc":"2.0","id":${request.id},"result":{"ok":true}}`);
        control.end(request.id as number, { kind: 'complete', status: 200, redirected: false });
      },
    });
    connection.select(modern);
    expect(await connection.request('tools/list', '', { timeoutMs: 100 }).outcome).toMatchObject({
      kind: 'result',
    });
  });

  it('over HTTP a notification that is not accepted is given up after a while, and initialized is awaited', async () => {
    const aborted: unknown[] = [];
    const { connection, clock } = await connect({
      perRequestStreams: true,
      receive: () => undefined,
      aborted: (id) => aborted.push(id),
    });
    let isSelected = false;
    const selected = connection.select(legacy).then(() => {
      isSelected = true;
    });
    await Promise.resolve();
    await connection.close();
    await selected;
    expect(isSelected).toBe(true);
    expect(clock.pendingTimers).toBe(0);
  });

  it('over HTTP a stream that stays open after the response is closed after a while', async () => {
    const aborted: number[] = [];
    const { connection, clock } = await connect({
      perRequestStreams: true,
      receive: (_message, reply, _control, request) =>
        reply(`{"jsonrpc":"2.0","id":${request.id},"result":{}}`),
      aborted: (id) => aborted.push(id),
    });
    connection.select(modern);
    const { id, outcome } = connection.request('tools/list', '', { timeoutMs: 100 });
    expect(await outcome).toMatchObject({ kind: 'result' });
    expect(aborted).toEqual([]);
    clock.advance(2_000);
    expect(aborted).toEqual([id]);
    await connection.close();
    expect(clock.pendingTimers).toBe(0);
  });
});

describe('the end', () => {
  it('settles what is in flight, is told once, and nothing is written after it', async () => {
    const { connection, control, events, written, clock } = await connect();
    connection.select(modern);
    const { outcome } = connection.request('tools/list', '', { timeoutMs: 100 });
    const idle = connection.whenIdle();
    control.close({ kind: 'exit', detail: 'exit 1', exitCode: 1 });
    expect(await outcome).toMatchObject({ kind: 'closed', written: true, cause: { kind: 'exit' } });
    await idle;
    expect(await connection.request('tools/list', '', { timeoutMs: 1 }).outcome).toMatchObject({
      written: false,
    });
    connection.notify('notifications/x', '');
    await connection.close();
    await connection.close();
    expect(events.filter(([name]) => name === 'closed')).toHaveLength(1);
    expect(written).toHaveLength(1);
    expect(clock.pendingTimers).toBe(0);
  });

  it('comes with a flood of messages that are none', async () => {
    const { connection, control, events } = await connect();
    connection.select(modern);
    for (let i = 0; i <= 10_000; i += 1) control.send('{"nothing":1}');
    expect(connection.isOpen).toBe(false);
    expect(events.at(-1)).toMatchObject(['closed', { kind: 'protocol' }]);
    await connection.close();
  });

  it('a listener of the caller is removed when the request is settled', async () => {
    const { connection, control } = await connect();
    connection.select(modern);
    const controller = new AbortController();
    let listeners = 0;
    const { signal } = controller;
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = (...args: Parameters<typeof add>) => {
      listeners += 1;
      add(...args);
    };
    signal.removeEventListener = (...args: Parameters<typeof remove>) => {
      listeners -= 1;
      remove(...args);
    };
    for (let i = 0; i < 100; i += 1) {
      const { id, outcome } = connection.request('tools/list', '', { timeoutMs: 100, signal });
      control.send(`{"jsonrpc":"2.0","id":${id},"result":{}}`);
      await outcome;
    }
    expect(listeners).toBe(0);
  });

  it('a transport that never opens, or fails to, does not hang it', async () => {
    const clock = createSimulatedClock();
    const make = (open: MemoryPeer['open']) =>
      new Connection({
        clock,
        ids: createIdSource(),
        maxTotalMs: 1,
        events: {
          modernSign() {},
          notification() {},
          serverRequest() {},
          serverCancelled() {},
          fault() {},
          closed() {},
        },
        transport: memoryTransport({
          peer: () => ({ ...(open === undefined ? {} : { open }), receive: () => undefined }),
        }),
      });
    const never = make(() => new Promise(() => undefined)).open(100);
    clock.advance(100);
    expect(await never).toMatchObject({ ok: false, cause: { kind: 'connect-failed' } });
    const broken = make(() => Promise.reject(new Error('boom'))).open(100);
    expect(await broken).toMatchObject({ ok: false, cause: { detail: expect.stringContaining('boom') } });
  });
});
