import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { sanitizeText } from '../../src/protocol/sanitize.js';

const anyText = fc.string({ unit: 'binary' });

describe('sanitizeText', () => {
  test.each([
    ['plain text stays', 'Grüße, 世界 👍🏽', 'Grüße, 世界 👍🏽'],
    ['ESC and line ends', 'a\u001b[31mred\r\n', 'a\\u{1b}[31mred\\u{d}\\u{a}'],
    ['C1', '\u009b2J', '\\u{9b}2J'],
    ['bidirectional override', 'user\u202egpj', 'user\\u{202e}gpj'],
    ['zero width', 'pay\u200bpal\ufeff', 'pay\\u{200b}pal\\u{feff}'],
    ['tag characters', `x${String.fromCodePoint(0xe0041)}`, 'x\\u{e0041}'],
    ['lone surrogate', 'x\ud800y', 'x\\u{d800}y'],
    ['empty', '', ''],
  ])('%s', (_name, text, expected) => {
    expect(sanitizeText(text, 100)).toBe(expected);
  });

  test('cuts with an ellipsis inside the limit', () => {
    expect(sanitizeText('abcdef', 6)).toBe('abcdef');
    expect(sanitizeText('abcdefg', 6)).toBe('abcde…');
    expect(sanitizeText('ab👍👍', 5)).toBe('ab👍…');
    expect(sanitizeText('\u0000\u0000', 7)).toBe('\\u{0}…');
    expect(sanitizeText('\u0000', 3)).toBe('…');
    expect(sanitizeText('abc', 0)).toBe('');
    expect(sanitizeText('abc', Number.NaN)).toBe('');
  });

  test('never longer than asked, never unsafe, idempotent', () => {
    fc.assert(
      fc.property(anyText, fc.integer({ min: -1, max: 40 }), (text, limit) => {
        const safe = sanitizeText(text, limit);
        expect(safe.length).toBeLessThanOrEqual(Math.max(0, limit));
        expect(safe).not.toMatch(/\p{Surrogate}/u);
        expect(safe).not.toMatch(/[\p{Cc}\u200b-\u200f\u202a-\u202e\u2066-\u2069]/u);
        expect(sanitizeText(safe, limit)).toBe(safe);
      }),
    );
  });

  test('a text that fits and is safe is returned as it is', () => {
    fc.assert(fc.property(fc.string(), (text) => sanitizeText(text, 1000) === text));
  });

  test('a text that fits escapes one to one', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const safe = sanitizeText(text, 100_000);
        const back = safe.replace(/\\u\{([0-9a-f]+)\}/g, (_all, hex: string) =>
          String.fromCodePoint(Number.parseInt(hex, 16)),
        );
        return text.includes('\\u{') || back === text;
      }),
    );
  });
});
