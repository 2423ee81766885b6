import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createSseReader } from '../../src/transports/sseMessages.js';

function read(chunks: readonly (string | Buffer)[], maxEventBytes = 1000) {
  return reading(chunks, maxEventBytes).read;
}

function reading(chunks: readonly (string | Buffer)[], maxEventBytes = 1000) {
  const messages: string[] = [];
  const dropped: string[] = [];
  const reader = createSseReader(
    maxEventBytes,
    (text) => messages.push(text),
    (data) => dropped.push(data.toString()),
  );
  let problem: string | null = null;
  for (const chunk of chunks) {
    problem = reader.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
    if (problem !== null) break;
  }
  reader.end();
  return { read: { messages, problem }, dropped };
}

describe('where the reader is', () => {
  const place = (
    chunks: readonly (string | Buffer)[],
    from?: { lastEventId: string; retryMs: number | null },
  ) => {
    const reader = createSseReader(
      5000,
      () => {},
      () => {},
      from,
    );
    for (const chunk of chunks) reader.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk);
    reader.end();
    return [reader.lastEventId, reader.retryMs];
  };

  test.each<[string, string, string, number | null]>([
    ['nothing', '', '', null],
    ['an id', 'id: 7\ndata: {}\n\n', '7', null],
    ['an id without a space', 'id:7\n\n', '7', null],
    ['an event without data', 'id: 7\nretry: 500\n\n', '7', 500],
    ['a priming event', 'id: event-1\nretry: 500\ndata: \n\n', 'event-1', 500],
    ['an event that has not ended', 'id: 7\n\nid: 8\ndata: {}\n', '7', null],
    ['kept over events without one', 'id: 7\n\ndata: {}\n\n', '7', null],
    ['the last of several', 'id: 7\nid: 8\n\n', '8', null],
    ['taken back', 'id: 7\n\nid\n\n', '', null],
    ['taken back with a colon', 'id: 7\n\nid:\n\n', '', null],
    ['NUL', 'id: 7\n\nid: 8\u00009\n\n', '7', null],
    ['a control character', 'id: 7\n\nid: 8\u00019\n\n', '', null],
    ['a space at its end', 'id: 7 \n\n', '', null],
    ['spaces within', 'id: a b\tc\n\n', 'a b\tc', null],
    ['its bytes', 'id: grün\n\n', Buffer.from('grün').toString('latin1'), null],
    ['1024 bytes', `id: ${'x'.repeat(1024)}\n\n`, 'x'.repeat(1024), null],
    ['1025 bytes', `id: ${'x'.repeat(1025)}\n\n`, '', null],
    ['in a foreign event', 'event: ping\nid: 3\ndata: {}\n\n', '3', null],
    ['other names', 'ID: 1\nids: 2\nretries: 3\nRetry: 4\n\n', '', null],
    ['retry at once', 'retry: 0\n', '', 0],
    ['the last retry', 'retry: 5\nretry: 0070\n\n', '', 70],
    ['no digits', 'retry: 5\nretry: 1.5\nretry: -1\nretry: 1e3\nretry: ٣\nretry:\nretry: 5 \n\n', '', 5],
    ['a long time', `retry: ${'9'.repeat(400)}\n\n`, '', Number.POSITIVE_INFINITY],
  ])('%s', (_name, text, id, retryMs) => {
    expect(place([text])).toEqual([id, retryMs]);
    const bytes = Buffer.from(text);
    expect(place(Array.from(bytes, (byte) => Buffer.from([byte])))).toEqual([id, retryMs]);
    expect(place([text.replaceAll('\n', '\r\n')])).toEqual([id, retryMs]);
    expect(place([text.replaceAll('\n', '\r')])).toEqual([id, retryMs]);
  });

  test('goes on from where the stream before was left', () => {
    const from = { lastEventId: '7', retryMs: 500 };
    expect(place(['data: {}\n\n'], from)).toEqual(['7', 500]);
    expect(place(['id: 8\nretry: 1\n\n'], from)).toEqual(['8', 1]);
    expect(place(['id\n\n'], from)).toEqual(['', 500]);
  });
});

describe('events', () => {
  test.each<[string, string, string[]]>([
    ['one', 'data: {"a":1}\n\n', ['{"a":1}']],
    ['no space after the colon', 'data:{}\n\n', ['{}']],
    ['only one space is taken', 'data:  {}\n\n', [' {}']],
    ['lines joined by LF', 'data: {"a":\ndata: 1}\n\n', ['{"a":\n1}']],
    ['a data line without a colon', 'data: {\ndata\ndata: }\n\n', ['{\n\n}']],
    ['comments', ': ping\n\n:\n\ndata: {}\n: in between\n\n', ['{}']],
    ['type after data', 'data: {}\nevent: message\nid: 4\n\n', ['{}']],
    ['id and retry', 'id: 7\nretry: 500\nevent: message\ndata: {}\n\n', ['{}']],
    ['priming event', 'id: 7\nretry: 500\ndata:\n\ndata: \n\ndata: {}\n\n', ['{}']],
    ['foreign type', 'event: ping\ndata: {}\n\nevent: endpoint\ndata: /x\n\ndata: {}\n\n', ['{}']],
    ['foreign type with JSON-RPC', 'event: error\ndata: {"jsonrpc":"2.0"}\n\n', ['{"jsonrpc":"2.0"}']],
    ['the type is forgotten after an event', 'event: ping\n\ndata: {}\n\n', ['{}']],
    ['unknown fields', 'dat: x\ndatax: y\nfoo\ndata: {}\n\n', ['{}']],
    ['byte order mark', '\ufeffdata: {}\n\n', ['{}']],
    ['an unfinished event is none', 'data: {}\n\ndata: {"lost":1}\n', ['{}']],
    ['nothing', '', []],
    ['empty lines', '\n\n\r\r\r\n\r\n', []],
    [
      'mixed line ends',
      'data: 1\r\rdata: 2\n\ndata: 3\r\n\r\ndata: 4\n\r\ndata: 5\r\n\n',
      ['1', '2', '3', '4', '5'],
    ],
  ])('%s', (_name, stream, messages) => {
    expect(read([stream])).toEqual({ messages, problem: null });
  });

  const stream = (end: string) =>
    Buffer.from(
      [
        '\ufeff: hi',
        'event: message',
        'data: {"text":"grüße 👍🏽",',
        'data: "b":2}',
        '',
        'data: [1]',
        '',
        '',
      ].join(end),
    );
  const expected = ['{"text":"grüße 👍🏽",\n"b":2}', '[1]'];

  test.each([['\n'], ['\r'], ['\r\n']])('cut at every byte, lines ending in %j', (end) => {
    const bytes = stream(end);
    for (let cut = 0; cut <= bytes.length; cut += 1) {
      expect(read([bytes.subarray(0, cut), bytes.subarray(cut)])).toEqual({
        messages: expected,
        problem: null,
      });
    }
    expect(read(Array.from(bytes, (byte) => Buffer.from([byte])))).toEqual({
      messages: expected,
      problem: null,
    });
  });

  test('however the lines end and wherever the stream is cut', () => {
    const value = fc
      .string({ unit: 'binary' })
      .filter((text) => !/[\r\n]/.test(text) && /\S/.test(text) && text[0] !== ' ');
    fc.assert(
      fc.property(
        fc.array(fc.array(value, { minLength: 1, maxLength: 3 }), { maxLength: 4 }),
        fc.infiniteStream(fc.constantFrom('\n', '\r', '\r\n')),
        fc.array(fc.nat(200)),
        (events, ends, cuts) => {
          const end = () => ends.next().value;
          // CR followed by a lone LF would read as one line end.
          let text = '';
          const add = (line: string) => {
            const next = end();
            text += line === '' && text.endsWith('\r') && next === '\n' ? '\r' : line + next;
          };
          for (const lines of events) {
            for (const line of lines) add(`data: ${line}`);
            add('');
          }
          const bytes = Buffer.from(text);
          const points = [0, ...cuts.filter((cut) => cut < bytes.length).sort((a, b) => a - b), bytes.length];
          const chunks = points.slice(1).map((point, index) => bytes.subarray(points[index], point));
          const wellFormed = (line: string) => Buffer.from(line).toString();
          expect(read(chunks, 100_000)).toEqual({
            messages: events.map((lines) => lines.map(wellFormed).join('\n')),
            problem: null,
          });
        },
      ),
    );
  });

  test('an event is delivered with its last CR, before anything follows', () => {
    const messages: string[] = [];
    const reader = createSseReader(
      100,
      (text) => messages.push(text),
      () => {},
    );
    reader.push(Buffer.from('data: 1\r\r'));
    expect(messages).toEqual(['1']);
    reader.push(Buffer.from('\ndata: 2\r\n\r'));
    expect(messages).toEqual(['1', '2']);
  });

  test('total', () => {
    const piece = fc.oneof(
      fc.constantFrom('data: ', 'data', ':', '\r', '\n', 'event: x', '\ufeff'),
      fc.string(),
    );
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        expect(read(pieces, 20).messages.every((text) => Buffer.byteLength(text) <= 20)).toBe(true);
      }),
    );
  });
});

describe('limits', () => {
  test.each<[string, string[]]>([
    ['one line', ['data: 12345678901\n\n']],
    ['a line without an end', ['data: 1234', '56789012345']],
    ['many lines', ['data: 12345\n', 'data: 12345\n', '\n']],
    ['a comment without an end', [': 123456', '789012345678']],
  ])('%s over the limit', (_name, chunks) => {
    expect(read(chunks, 10)).toEqual({ messages: [], problem: 'an event is longer than 10 bytes' });
  });

  test.each<[string, string[]]>([
    ['one line', ['data: 1234567890\n\n']],
    ['two lines', ['data: 1234\ndata: 56789\n\n']],
    ['a line in pieces', ['data: 12345', '67890', '\n\n']],
  ])('%s at the limit', (_name, chunks) => {
    expect(read(chunks, 10)).toEqual({ messages: [expect.any(String)], problem: null });
  });

  test('events before the one that is too long are delivered', () => {
    expect(read(['data: 1\n\ndata: 12345678901\n\n'], 10)).toEqual({
      messages: ['1'],
      problem: 'an event is longer than 10 bytes',
    });
  });

  test('bytes that are no UTF-8', () => {
    expect(read([Buffer.from([0x64, 0x61, 0x74, 0x61, 0x3a, 0xff, 0x0a, 0x0a])])).toEqual({
      messages: [],
      problem: 'an event is not valid UTF-8',
    });
  });
});

describe('what is dropped', () => {
  test.each<[string, (string | Buffer)[], string[], string[]]>([
    [
      'events of a foreign type',
      ['event: error\ndata: {"a":\ndata: 1}\n\ndata: 2\n\n'],
      ['2'],
      ['{"a":\n1}'],
    ],
    ['an event without its blank line', ['data: 1\n\ndata: 2\n'], ['1'], ['2']],
    ['an event without the end of its line', ['data: 1\n\ndata: 2\nda', 'ta: 3'], ['1'], ['2\n3']],
    [
      'an event that is no UTF-8, and those behind it',
      [Buffer.from('data: 1\n\ndata: \xe9\n\ndata: 2\n\n', 'latin1')],
      ['1'],
      ['\ufffd', '2'],
    ],
    [
      'events behind one that is too long, without it',
      ['data: 123456\ndata: 7\n\ndata: 2\n\ndata: 3\n'],
      [],
      ['2', '3'],
    ],
    ['nothing', ['data: 1\n\n'], ['1'], []],
  ])('%s', (_name, chunks, messages, dropped) => {
    const all = reading(chunks, _name.includes('too long') ? 5 : 1000);
    expect(all.read.messages).toEqual(messages);
    expect(all.dropped).toEqual(dropped);
  });
});
