import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { printable } from '../../src/transports/printable.js';
import { STDERR_TAIL_BYTES, StderrRing } from '../../src/transports/stderrRing.js';

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there
const UNSAFE = /[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]/;

describe('the tail of stderr', () => {
  it('is the end of what was written, whatever the chunks', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 40_000 }), { maxLength: 8 }), (sizes) => {
        const ring = new StderrRing();
        let all = '';
        sizes.forEach((size, n) => {
          const text = `${n}`.repeat(size);
          all += text;
          ring.push(Buffer.from(text));
        });
        expect(ring.tail()).toBe(all.slice(-STDERR_TAIL_BYTES));
      }),
    );
  });

  it('never grows over its size, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 9000 }), { maxLength: 4 }), (chunks) => {
        const ring = new StderrRing();
        for (const chunk of chunks) ring.push(Buffer.from(chunk));
        const tail = ring.tail();
        expect(Buffer.byteLength(tail)).toBeLessThanOrEqual(STDERR_TAIL_BYTES);
        expect(tail).not.toMatch(UNSAFE);
      }),
    );
  });

  it('shows names instead of configured values, the longest first', () => {
    const ring = new StderrRing({ SHORT: 'secret', LONG: 'secret-and-more', TINY: 'on', DOLLAR: '$&$&$&$&' });
    ring.push(Buffer.from('on: secret-and-more, then secret, then $&$&$&$&'));
    expect(ring.tail()).toBe('on: [LONG], then [SHORT], then [DOLLAR]');
  });

  it('shows nothing of a value that is cut by its beginning', () => {
    const ring = new StderrRing({ KEY: 'canary-canary-canary' });
    ring.push(Buffer.from(`canary-canary-canary${'x'.repeat(STDERR_TAIL_BYTES - 6)}`));
    expect(ring.tail()).not.toContain('anary');
  });
});

describe('printable text', () => {
  it('has no terminal sequences, carriage returns or bidi marks', () => {
    expect(
      printable(
        'a\x1b[31mred\x1b[0m \x1b]0;title\x07b\x1b]8;;http://x\x1b\\c\x1b(B d\r\ne\rf\tg\u202eh\x9b',
        100,
      ),
    ).toBe('ared bc d\ne?f g?h?');
  });

  it('is cut between characters, at either end', () => {
    expect(printable('ää😀', 7)).toBe('ää');
    expect(printable('😀ää', 7, 'tail')).toBe('ää');
    expect(printable('abc', 3)).toBe('abc');
  });
});
