import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ByteLines, type ByteLinesOptions } from '../../src/transports/byteLines.js';

const LIMIT = 1024 * 1024;

interface Seen {
  readonly lines: string[];
  readonly faults: { readonly kind: string; readonly detail: string }[];
  readonly floods: string[];
  readonly heard: string[];
}

function read(chunks: readonly Buffer[], options: Partial<ByteLinesOptions> = {}, ended = true): Seen {
  const seen: Seen = { lines: [], faults: [], floods: [], heard: [] };
  const framing = new ByteLines(
    {
      line: (text) => void seen.lines.push(text),
      overheard: (text) => void seen.heard.push(text),
      fault: (fault) => void seen.faults.push(fault),
      flooded: (detail) => void seen.floods.push(detail),
    },
    { maxMessageBytes: LIMIT, ...options },
  );
  for (const chunk of chunks) framing.push(chunk);
  if (ended) framing.end();
  return seen;
}

const kinds = (seen: Seen): string[] => seen.faults.map((fault) => fault.kind);
const bytes = (text: string): Buffer => Buffer.from(text);

/** Cuts at the given places, in any order and with repetitions. */
function cut(whole: Buffer, places: readonly number[]): Buffer[] {
  const sorted = [0, ...places.map((place) => place % (whole.length + 1)), whole.length].sort(
    (a, b) => a - b,
  );
  return sorted.slice(1).map((end, index) => whole.subarray(sorted[index], end));
}

describe('lines', () => {
  it('are delivered without their ends, several from one chunk', () => {
    expect(read([bytes('{"a":1}\n{"b":2}\r\n[3]\n')]).lines).toEqual(['{"a":1}', '{"b":2}', '[3]']);
  });

  it('are the same wherever the stream is cut in two', () => {
    const whole = bytes('{"a":"ä€😀"}\r\n\n{"b":"\u2028\u2029\u0085"}\nnoise ü\n{"c":3}\n');
    for (let at = 0; at <= whole.length; at += 1) {
      const seen = read([whole.subarray(0, at), whole.subarray(at)]);
      expect(seen.lines).toEqual(['{"a":"ä€😀"}', '{"b":"\u2028\u2029\u0085"}', '{"c":3}']);
      expect(kinds(seen)).toEqual(['noise']);
    }
  });

  it('are the same if each byte comes alone', () => {
    const whole = bytes(`{"long":"${'é'.repeat(50_000)}"}\n{"a":1}\n`);
    const single = Array.from({ length: whole.length }, (_, at) => whole.subarray(at, at + 1));
    expect(read(single)).toEqual(read([whole]));
  });

  it('do not depend on chunking, whatever the bytes', () => {
    const piece = fc.oneof(
      fc.json().map(bytes),
      fc.constantFrom('\n', '\r\n', '{', '[', ' ', '{"a":1}\n', 'noise\n').map(bytes),
      fc.uint8Array({ maxLength: 12 }).map((array) => Buffer.from(array)),
      fc.integer({ min: 1, max: 120 }).map((size) => Buffer.alloc(size, 0x7b)),
    );
    fc.assert(
      fc.property(
        fc.array(piece, { maxLength: 30 }),
        fc.array(fc.nat(4000), { maxLength: 40 }),
        (pieces, places) => {
          const whole = Buffer.concat(pieces);
          const options = { maxMessageBytes: 64, maxNoiseBytes: 1e9 };
          const inOne = read([whole], options);
          const inMany = read(cut(whole, places), options);
          expect(inMany.lines).toEqual(inOne.lines);
          expect(kinds(inMany)).toEqual(kinds(inOne));
          expect(inMany.heard).toEqual(inOne.heard);
        },
      ),
      { numRuns: 2000 },
    );
  });

  it('agree with a simple model: split at line feeds, valid UTF-8, begins with a brace or bracket', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 20 }), { maxLength: 20 }), (arrays) => {
        const whole = Buffer.concat(
          arrays.flatMap((array) => [Buffer.from('{'), Buffer.from(array), bytes('\n')]),
        );
        const expected: string[] = [];
        for (const line of whole.toString('latin1').split('\n').slice(0, -1)) {
          const raw = Buffer.from(line.replace(/\r$/, ''), 'latin1');
          const text = raw.toString('utf8');
          if (/^[ \t\r]*[{[]/.test(text) && Buffer.from(text).equals(raw)) expected.push(text);
        }
        expect(read([whole]).lines).toEqual(expected);
      }),
      { numRuns: 2000 },
    );
  });

  it('keep line separators of Unicode as text', () => {
    expect(read([bytes('{"t":"a\u2028b\u2029c\u0085d"}\n')]).lines).toEqual([
      '{"t":"a\u2028b\u2029c\u0085d"}',
    ]);
  });

  it('lose one carriage return, not two', () => {
    expect(read([bytes('{}\r\r\n')]).lines).toEqual(['{}\r']);
  });

  it('may be blank, which is no fault', () => {
    expect(read([bytes('\n\r\n  \t\n{}\n')])).toEqual({ lines: ['{}'], faults: [], floods: [], heard: [] });
  });
});

describe('noise', () => {
  it('is reported without its text', () => {
    const seen = read([
      bytes('API_KEY=canary\nServing {"secret":"canary"}\n\x1b[2mcanary\n"canary"\n{"ok":1}\n'),
    ]);
    expect(seen.lines).toEqual(['{"ok":1}']);
    expect(kinds(seen)).toEqual(['noise', 'noise', 'noise', 'noise']);
    expect(JSON.stringify(seen.faults)).not.toContain('canary');
    expect(seen.faults[1]?.detail).toContain('a brace follows after 8 bytes');
    expect(seen.faults[2]?.detail).toContain('terminal escape');
  });

  it('names the framing of language servers, and the byte order mark', () => {
    const seen = read([bytes('Content-Length: 20\r\n\r\n{"jsonrpc":"2.0"}'), bytes('\n\ufeff{}\n')]);
    expect(seen.faults[0]?.detail).toContain('Content-Length');
    expect(seen.faults[1]?.detail).toContain('byte order mark');
    expect(seen.lines).toEqual(['{"jsonrpc":"2.0"}']);
  });

  it('is a flood once it has more lines than allowed between two messages', () => {
    const noise = bytes('x\n'.repeat(5));
    const message = bytes('{}\n');
    const options = { maxNoiseLines: 9 };
    expect(read([noise, message, noise, message, noise], options).floods).toEqual([]);
    const seen = read([noise, noise, message], options);
    expect(seen.floods).toHaveLength(1);
    expect(seen.lines).toEqual([]);
    expect(seen.faults).toHaveLength(10);
  });

  it('is a flood once it has more bytes than allowed, also if it is one line or blank ones', () => {
    const block = Buffer.alloc(100, 0x78);
    const options = { maxMessageBytes: 50 };
    for (const chunk of [block, Buffer.alloc(100, 0x0a)]) {
      expect(read([chunk, chunk, chunk], options).floods).toEqual([]);
      expect(read([chunk, chunk, chunk, chunk, chunk], options).floods).toHaveLength(1);
    }
  });
});

describe('a line over the limit', () => {
  const options = { maxMessageBytes: 32 };
  const fits = `{"a":"${'x'.repeat(24)}"}`;
  const over = `{"a":"${'x'.repeat(25)}"}`;

  it('is counted without its line end', () => {
    expect(fits).toHaveLength(32);
    for (const size of [1, 7, 1000]) {
      const whole = bytes(`${fits}\r\n${over}\r\n${fits}\n`);
      const chunks = Array.from({ length: Math.ceil(whole.length / size) }, (_, at) =>
        whole.subarray(at * size, (at + 1) * size),
      );
      const seen = read(chunks, options);
      expect(seen.lines).toEqual([fits, fits]);
      expect(kinds(seen)).toEqual(['oversize']);
    }
  });

  it('is dropped to its end, and what looks like a message in it is not read', () => {
    const seen = read([bytes(`{"a":"${'x'.repeat(40)}`), bytes('{"id":1}'), bytes('"}\n{"b":1}\n')], options);
    expect(seen.lines).toEqual(['{"b":1}']);
    expect(kinds(seen)).toEqual(['oversize']);
  });
});

describe('bytes that are no UTF-8', () => {
  it('spoil their own line only', () => {
    const bad = Buffer.concat([bytes('{"t":"'), Buffer.from([0xc3, 0x28]), bytes('"}\n')]);
    const seen = read([Buffer.concat([bytes('{"a":"ä"}\n'), bad, bytes('{"b":2}\n')])]);
    expect(seen.lines).toEqual(['{"a":"ä"}', '{"b":2}']);
    expect(kinds(seen)).toEqual(['invalid-utf8']);
  });
});

describe('what is no valid line', () => {
  it('is overheard where it begins like JSON and is short, and nowhere else', () => {
    const bad = Buffer.concat([bytes('{"code":-32022,"m":"'), Buffer.from([0xff]), bytes('"}\n')]);
    expect(read([bad])).toMatchObject({ lines: [], heard: ['{"code":-32022,"m":"\ufffd"}'] });
    expect(read([bytes('\ufeff{"code":-32022}\n')])).toMatchObject({ lines: [], heard: ['{"code":-32022}'] });
    expect(read([bytes('{"code":-32022}')])).toMatchObject({ lines: [], heard: ['{"code":-32022}'] });
    expect(read([bytes('Serving {"code":-32022}\nSer')]).heard).toEqual([]);
    expect(read([bytes(`{"code":"${'x'.repeat(64 * 1024)}"}`)]).heard).toEqual([]);
    expect(read([bytes('{"code":-32022}')], { maxMessageBytes: 8 }).heard).toEqual([]);
  });
});

describe('the end', () => {
  it('reports what has no line end, once, and delivers nothing of it', () => {
    const seen = read([bytes('{"a":1}\n{"b":2}')]);
    expect(seen.lines).toEqual(['{"a":1}']);
    expect(seen.faults).toEqual([
      {
        kind: 'unterminated',
        detail: 'the output ended without a line end: its last 7 bytes begin like a message',
      },
    ]);
  });

  it('is silent after a whole line', () => {
    expect(read([bytes('{}\n')]).faults).toEqual([]);
  });

  it('stops what is being read, in the middle of a chunk', () => {
    const lines: string[] = [];
    const framing: ByteLines = new ByteLines(
      {
        line: (text) => {
          lines.push(text);
          framing.stop();
        },
        overheard: () => expect.unreachable(),
        fault: () => expect.unreachable(),
        flooded: () => expect.unreachable(),
      },
      { maxMessageBytes: LIMIT },
    );
    framing.push(bytes('{"a":1}\n{"b":2}\nrest'));
    framing.push(bytes('{"c":3}\n'));
    framing.end();
    expect(lines).toEqual(['{"a":1}']);
  });
});

describe('cost', () => {
  it('keeps a line that trickles in byte by byte in a few buffers', () => {
    const framing = new ByteLines(
      { line: () => {}, overheard: () => {}, fault: () => {}, flooded: () => {} },
      { maxMessageBytes: 4 * LIMIT },
    );
    framing.push(bytes('{'));
    for (let at = 0; at < LIMIT; at += 1) framing.push(Buffer.from([0x78]));
    const pieces = (framing as unknown as { pieces: Buffer[] }).pieces;
    expect(pieces.length).toBeLessThanOrEqual(17);
  });

  it('copies no more than twice what comes in, whatever the chunks', () => {
    let copied = 0;
    const concat = Buffer.concat;
    Buffer.concat = ((list: readonly Uint8Array[]) => {
      const joined = concat(list);
      copied += joined.length;
      return joined;
    }) as typeof Buffer.concat;
    try {
      const chunk = Buffer.alloc(64 * 1024, 0x78);
      const seen = read([bytes('{'), ...Array.from({ length: 320 }, () => chunk), bytes('\n')], {
        maxMessageBytes: 32 * LIMIT,
      });
      expect(seen.lines[0]).toHaveLength(1 + 320 * 64 * 1024);
      expect(copied).toBe(1 + 320 * 64 * 1024);
    } finally {
      Buffer.concat = concat;
    }
  });
});
