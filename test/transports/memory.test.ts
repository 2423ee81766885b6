import { describe, expect, it } from 'vitest';
import {
  type MemoryControl,
  type MemoryOptions,
  type MemoryPeer,
  memoryTransport,
} from '../../src/transports/memory.js';
import type { StreamEnd, Transport } from '../../src/transports/transport.js';
import { exchange, Recorder } from './harness.js';

interface Both {
  readonly transport: Transport;
  readonly events: Recorder;
  readonly record: string[];
  control: MemoryControl;
}

async function connect(peer: Partial<MemoryPeer>, options: Partial<MemoryOptions> = {}): Promise<Both> {
  const record: string[] = [];
  const events = new Recorder();
  let control: MemoryControl | undefined;
  const transport = memoryTransport({
    peer: () => ({
      receive: () => {},
      ...peer,
      opened: (given) => {
        control = given;
        peer.opened?.(given);
      },
    }),
    record: (direction, text) => void record.push(`${direction} ${text}`),
    ...options,
  })(events);
  expect(await transport.open()).toEqual({ ok: true });
  return { transport, events, record, control: control! };
}

const DONE: StreamEnd = { kind: 'complete', status: 200, redirected: false };

describe('a shared stream', () => {
  it('delivers replies at once or later, and what comes unasked', async () => {
    const replies: ((text: string) => void)[] = [];
    const both = await connect({
      receive: (text, reply) => {
        replies.push(reply);
        if (text === '1') reply('answer 1');
      },
    });
    both.transport.send('1', exchange());
    both.transport.send('2', exchange());
    both.control.send('unasked');
    replies[1]!('answer 2');
    expect(both.record).toEqual(['out 1', 'in answer 1', 'out 2', 'in unasked', 'in answer 2']);
    expect(both.events.messages).toEqual(['answer 1', 'unasked', 'answer 2']);
    expect(both.events.exchanges).toEqual([null, null, null]);
  });

  it('keeps early messages until it is open, and withholds what may not be written', async () => {
    const record: string[] = [];
    const events = new Recorder();
    const transport = memoryTransport({
      peer: () => ({ receive: (text, reply) => reply(text) }),
      record: (direction, text) => void record.push(`${direction} ${text}`),
    })(events);
    const early = exchange();
    const refused = exchange({ mayWrite: () => false });
    transport.send('1', early);
    transport.send('2', refused);
    expect([early.written, record.length]).toEqual([false, 0]);
    await transport.open();
    expect(record).toEqual(['out 1', 'in 1']);
    expect(refused).toMatchObject({ written: false, ends: [{ kind: 'withheld' }] });
  });

  it('can be held, and then checks each message when it is released', async () => {
    const both = await connect({});
    let allowed = true;
    const held = [exchange(), exchange({ mayWrite: () => allowed })];
    both.control.hold();
    both.transport.send('1', held[0]!);
    both.transport.send('2', held[1]!);
    allowed = false;
    expect(held.map((one) => one.written)).toEqual([false, false]);
    both.control.release();
    expect(held.map((one) => one.written)).toEqual([true, false]);
    expect(both.record).toEqual(['out 1']);
  });

  it('takes bytes, in any chunks', async () => {
    const { control, events } = await connect({}, { maxMessageBytes: 16 });
    for (const byte of Buffer.from('{"a":1}\nnoise\n[')) control.sendBytes(Buffer.from([byte]));
    control.sendBytes(Buffer.from(`${'x'.repeat(20)}\n{"b":2}\n{"c"`));
    expect(events.messages).toEqual(['{"a":1}', '{"b":2}']);
    control.close({ kind: 'exit', detail: 'gone', exitCode: 0, signal: null });
    expect(events.faultKinds()).toEqual(['noise', 'oversize', 'unterminated']);
    expect(events.causes).toEqual([{ kind: 'exit', detail: 'gone', exitCode: 0, signal: null }]);
  });

  it('is closed by a flood of bytes', async () => {
    const { control, events } = await connect({}, { maxMessageBytes: 4 });
    control.sendBytes(Buffer.alloc(100, 0x78));
    expect(events.causes).toMatchObject([{ kind: 'protocol' }]);
  });
});

describe('its end', () => {
  it('is told once, and nothing comes after it', async () => {
    let ended = 0;
    const both = await connect({
      closed: () => {
        ended += 1;
      },
    });
    const held = exchange();
    both.control.hold();
    both.transport.send('1', held);
    const closing = both.transport.close();
    expect(both.transport.close()).toBe(closing);
    await closing;
    both.control.send('late');
    both.control.sendBytes(Buffer.from('{}\n'));
    both.control.fault({ kind: 'stream', detail: 'late' });
    both.control.close({ kind: 'reset', detail: 'late' });
    both.control.release();
    const late = exchange();
    both.transport.send('2', late);
    expect(both.control.closed).toBe(true);
    expect(both.events).toMatchObject({ causes: [{ kind: 'host' }], messages: [], faults: [], late: [] });
    expect([held, late]).toMatchObject([
      { written: false, ends: [{ kind: 'broken', cause: { kind: 'host' } }] },
      { written: false, ends: [{ kind: 'broken', cause: { kind: 'host' } }] },
    ]);
    expect([ended, both.record]).toEqual([1, []]);
  });

  it('may take its time on the far side', async () => {
    let release: (() => void) | undefined;
    const { transport, events } = await connect({
      closed: () => new Promise((resolve) => (release = resolve)),
    });
    let over = false;
    const closing = transport.close().then(() => {
      over = true;
    });
    await Promise.resolve();
    expect([events.causes.length, over]).toEqual([1, false]);
    release!();
    await closing;
  });

  it('may come while it opens, and opening may fail', async () => {
    const failure = { ok: false, cause: { kind: 'spawn-failed', detail: 'no', terminal: true } } as const;
    const failing = memoryTransport({ peer: () => ({ receive: () => {}, open: () => failure }) })(
      new Recorder(),
    );
    expect(await failing.open()).toEqual(failure);

    const transport = memoryTransport({
      peer: () => ({
        receive: () => {},
        open: () => Promise.resolve({ ok: true }),
        opened: () => expect.unreachable(),
      }),
    })(new Recorder());
    const opening = transport.open();
    await transport.close();
    expect(await opening).toMatchObject({ ok: false });
  });
});

describe('one stream a request', () => {
  it('delivers messages with their exchange until it is ended', async () => {
    const { transport, events, control } = await connect({}, { perRequestStreams: true });
    const [first, second] = [exchange(), exchange()];
    transport.send('1', first);
    transport.send('2', second);
    control.send('b', second.id!);
    control.send('a', first.id!);
    control.send('get stream');
    control.end(first.id!, DONE);
    control.end(first.id!, DONE);
    control.send('late', first.id!);
    expect(events.messages).toEqual(['b', 'a', 'get stream']);
    expect(events.exchanges).toEqual([second, first, null]);
    expect([first.ends, second.ends]).toEqual([[DONE], []]);
    await transport.close();
    expect(second.ends).toMatchObject([{ kind: 'broken', cause: { kind: 'host' } }]);
    expect(first.ends).toHaveLength(1);
  });

  it('ends notifications by itself', async () => {
    const { transport } = await connect({}, { perRequestStreams: true });
    const notification = exchange({ id: null });
    transport.send('n', notification);
    expect(notification.ends).toEqual([{ kind: 'complete', status: 202, redirected: false }]);
  });

  it('is given up by abort: the far side hears it, the exchange hears nothing more', async () => {
    const aborted: number[] = [];
    const { transport, events, control } = await connect(
      { aborted: (id) => void aborted.push(id) },
      { perRequestStreams: true },
    );
    const [open, waiting] = [exchange(), exchange()];
    transport.send('1', open);
    control.hold();
    transport.send('2', waiting);
    transport.abort(open);
    transport.abort(waiting);
    control.release();
    control.send('late', open.id!);
    control.end(open.id!, DONE);
    await transport.close();
    expect([aborted, events.messages, open.ends, waiting.ends, waiting.written]).toEqual([
      [open.id],
      [],
      [],
      [],
      false,
    ]);
  });
});
