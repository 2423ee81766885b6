import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  cutTo,
  displayWidth,
  manyLines,
  mapStrings,
  oneLine,
  renderTable,
  toJson,
  wrap,
} from '../../src/cli/output.js';
import { themeOf } from '../../src/cli/theme.js';

const plain = themeOf({ write: () => {}, isTTY: false, columns: undefined }, {});
/** What must not reach a terminal raw, but for line feed and tab. */
const RAW = /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u;
const nasty = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc
    .array(
      fc.constantFrom(
        '\x1b[31m',
        '\x1b]0;t\x07',
        '\x9b2J',
        '\u202e',
        '\u200b',
        '\u{e0041}',
        '\ufeff',
        '\r',
        '\n',
        'a',
        '\x7f',
      ),
    )
    .map((parts) => parts.join('')),
);

describe('toJson', () => {
  it('is the same document to a program and harmless to a terminal', () => {
    fc.assert(
      fc.property(fc.oneof(nasty, fc.jsonValue()), (value) => {
        const text = toJson({ value });
        expect(RAW.test(text)).toBe(false);
        expect(text).not.toContain('\n');
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify({ value })));
      }),
    );
  });

  it('escapes both halves of a tag character', () => {
    expect(toJson('\u{e0041}\x9b')).toBe('"\\udb40\\udc41\\u009b"');
  });

  it('shows what is nested deeper than any recursion goes', () => {
    const deep = JSON.parse('['.repeat(200_000) + ']'.repeat(200_000));
    expect(toJson({ deep })).toContain('nested too deep');
    expect(JSON.parse(toJson(mapStrings({ deep }, (text) => text)))).toBeDefined();
  });
});

describe('mapStrings', () => {
  it('changes values, not keys', () => {
    const value = JSON.parse('{"secret": ["secret", 1, null, {"__proto__": "secret"}]}');
    const mapped = mapStrings(value, (text) => text.replace('secret', 'x'));
    expect(JSON.stringify(mapped)).toBe('{"secret":["x",1,null,{"__proto__":"x"}]}');
  });
});

describe('server text', () => {
  it('comes out on one line, escaped', () => {
    fc.assert(fc.property(nasty, (text) => !RAW.test(oneLine(text)) && !/[\n\t]/.test(oneLine(text))));
    expect(oneLine(' a\r\n\tb  c ')).toBe('a b c');
    expect(oneLine('\x1b[31mred')).toBe('\\u{1b}[31mred');
  });

  it('keeps its line breaks and tabs where it is content', () => {
    fc.assert(fc.property(nasty, (text) => !RAW.test(manyLines(text))));
    expect(manyLines('a\r\n\tb\n\x1b]0;x\x07')).toBe('a\n\tb\n\\u{1b}]0;x\\u{7}');
  });
});

describe('layout', () => {
  it('knows how wide a text is', () => {
    expect(displayWidth('abc')).toBe(3);
    expect(displayWidth('漢字')).toBe(4);
    expect(displayWidth('e\u0301')).toBe(1);
    expect(displayWidth('🙂')).toBe(2);
  });

  it('cuts to columns', () => {
    expect(cutTo('abcdef', 4)).toBe('abc…');
    expect(cutTo('漢字漢字', 5)).toBe('漢字…');
    expect(cutTo('abc', 3)).toBe('abc');
    fc.assert(
      fc.property(
        fc.string({ unit: 'grapheme' }),
        fc.integer({ min: 1, max: 20 }),
        (text, columns) => displayWidth(cutTo(text, columns)) <= columns,
      ),
    );
  });

  it('wraps between words', () => {
    expect(wrap('one two three', 7, '> ')).toBe('one two\n> three');
    expect(wrap('one two', Number.POSITIVE_INFINITY, '> ')).toBe('one two');
    expect(wrap('enormously', 3, '')).toBe('enormously');
  });

  it('aligns a table', () => {
    const columns = [{ title: 'A' }, { title: 'NUMBER', align: 'right' }, { title: 'LAST', max: 5 }] as const;
    const rows = [
      { glyph: '*', cells: ['漢字', '1', 'x'], below: ['why'] },
      { glyph: 'x', cells: ['b', '1234567', 'long text'] },
    ];
    expect(renderTable(columns, rows, plain).split('\n')).toEqual([
      '   A      NUMBER  LAST',
      ' * 漢字        1  x',
      '   why',
      ' x b     1234567  long…',
    ]);
  });
});

describe('themeOf', () => {
  const theme = (isTTY: boolean, env: Record<string, string>) =>
    themeOf({ write: () => {}, isTTY, columns: 300 }, env);

  it('paints on a terminal only, unless NO_COLOR is set', () => {
    expect(theme(true, {}).paint('red', 'x')).toBe('\x1b[31mx\x1b[0m');
    expect(theme(true, { NO_COLOR: '' }).paint('red', 'x')).toBe('\x1b[31mx\x1b[0m');
    expect(theme(true, { NO_COLOR: '1' }).paint('red', 'x')).toBe('x');
    expect(theme(true, { TERM: 'dumb' }).paint('red', 'x')).toBe('x');
    expect(theme(false, { FORCE_COLOR: '1' }).paint('red', 'x')).toBe('x');
  });

  it('falls back to ASCII where the locale cannot show more', () => {
    expect(theme(false, {}).glyph('modern')).toBe('●');
    expect(theme(false, { LANG: 'C.UTF-8' }).glyph('modern')).toBe('●');
    expect(theme(false, { LANG: 'C.UTF-8', LC_ALL: 'C' }).glyph('modern')).toBe('*');
    expect(theme(false, { TERM: 'linux' }).dash).toBe('-');
  });

  it('has a width on a terminal only', () => {
    expect(theme(true, {}).width).toBe(160);
    expect(theme(false, {}).width).toBe(Number.POSITIVE_INFINITY);
  });
});
