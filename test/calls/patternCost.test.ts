import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_PATTERN_LENGTH, readPattern } from '../../src/calls/patternCost.js';

/** Steps that one check may spend on patterns; see `schemaEngine.ts`. */
const BUDGET = 10_000_000;

describe('readPattern', () => {
  it.each([
    '(a+)+$',
    '^(a*)*$',
    '^(a|a)*$',
    '^(a|aa)+$',
    '(?:x+x+)+y',
    '^(([a-z])+.)+[A-Z]([a-z])+$',
    '^(?:(?:a?)+)+$',
    '^(a{1,5})*$',
    '^(a+){2,}$',
    '(?=(a+)+)b',
    '^(?<name>a+)+$',
    '(.)\\1+$',
  ])('does not run %j', (source) => {
    expect(readPattern(source)).toBeNull();
  });

  it.each([
    ['^a+a+a+a+a+a+a+$', 50],
    ['(.*)(.*)(.*)(.*)=', 100],
    [`^${'a?'.repeat(30)}${'a'.repeat(30)}$`, 30],
    [`^${'(a|b|ab)'.repeat(20)}$`, 20],
    ['^(a?){40}$', 40],
    ['^(?:a+){9}$', 30],
    ['\\s+$', 10_000],
  ])('reckons %j against %i characters dearer than a check may be', (source, length) => {
    const pattern = readPattern(source);
    if (pattern !== null) expect(pattern.worstCase(length)).toBeGreaterThan(BUDGET);
  });

  it.each([
    ['^[a-z][a-z0-9_-]{0,62}$', 'my-name'],
    ['^\\d{4}-\\d{2}-\\d{2}$', '2026-07-28'],
    [
      '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$',
      '01234567-89ab-cdef-0123-456789abcdef',
    ],
    ['^https?://', 'https://example.com'],
    ['^(GET|POST|PUT)$', 'POST'],
    ['^[^\\s@]+@[^\\s@]+\\.[^\\s@]+$', 'someone@example.com'],
    ['^\\p{L}+$', 'Żółć'],
    ['^\\u{1F600}$', '😀'],
    ['^[\\]\\[]+$', '[]'],
    ['^(?<!x)(?!y)(?<=)a(?:b)?$', 'ab'],
    ['^(?<year>\\d+)$', '2026'],
    // Not valid with the flag u, and common in the field.
    ['^[\\w\\-\\.]+$', 'a-b.c'],
    ['^\\@[a-z]{2,}$', '@ab'],
    ['^a{,3}$', 'a{,3}'],
    ['', ''],
  ])('runs %j on %j', (source, text) => {
    const pattern = readPattern(source);
    expect(pattern?.test(text)).toBe(true);
    expect(pattern!.worstCase(text.length)).toBeLessThan(BUDGET / 10);
  });

  it.each(['(?P<year>\\d+)', '[', '(', 'a**', '\\', 'a'.repeat(MAX_PATTERN_LENGTH + 1)])(
    'leaves what is no expression of this language, or too long: %j',
    (source) => {
      expect(readPattern(source)).toBeNull();
    },
  );

  it('tells an anchor of one alternative from one of all', () => {
    expect(readPattern('^a*')!.worstCase(1_000)).toBeLessThan(readPattern('a*')!.worstCase(1_000));
    expect(readPattern('^a*|b*')!.worstCase(1_000)).toBeGreaterThan(1_000_000);
    expect(readPattern('^(a|[|)])\\|*$')!.worstCase(10)).toBeLessThan(1_000);
  });

  it('reads anything without throwing, and never reckons less than a step', () => {
    const piece = fc.constantFrom(
      ...[
        'a',
        '.',
        '\\d',
        '\\',
        '[',
        ']',
        '[a-z]',
        '[^)]',
        '(',
        ')',
        '(?:',
        '(?=',
        '(?<n>',
        '|',
        '*',
        '+',
        '?',
      ],
      ...['{2}', '{1,}', '{1,3}', '{', '}', '^', '$', '\\1', '\\k<n>', '\\u{41}', '\\u0041', '\\x41', '😀'],
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 30 }), fc.nat({ max: 50 }), (pieces, length) => {
        const pattern = readPattern(pieces.join(''));
        if (pattern !== null) expect(pattern.worstCase(length)).toBeGreaterThanOrEqual(0);
      }),
      { numRuns: 2_000 },
    );
  });
});
