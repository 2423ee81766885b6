import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { sanitizeText } from '../../src/protocol/sanitize.js';
import {
  compareNames,
  displayName,
  isPeerName,
  localNameProblem,
  MAX_LOCAL_NAME_LENGTH,
  mayBeBare,
  prefixedName,
} from '../../src/registry/names.js';

describe('peer names', () => {
  it.each(['a', 'A9', 'my-server_2.x', 'constructor', 'x'.repeat(64)])('accepts %s', (name) => {
    expect(isPeerName(name)).toBe(true);
  });

  it.each(['', '.a', '-a', '_a', 'a/b', 'a b', 'ä', 'a\n', 'a\u200b', '__proto__', 'x'.repeat(65)])(
    'refuses %j',
    (name) => {
      expect(isPeerName(name)).toBe(false);
    },
  );
});

describe('local names', () => {
  it.each([
    'search',
    'admin.tools.list',
    'user-profile/update',
    'a b',
    'ä',
    '検索',
    'a__b',
    '__proto__',
    '/',
    '😀',
    'x'.repeat(MAX_LOCAL_NAME_LENGTH),
  ])('accepts %s', (name) => {
    expect(localNameProblem(name)).toBeNull();
  });

  it.each([
    ['nothing at all', ''],
    ['a line feed', 'a\nb'],
    ['an escape', '\u001b[31mred'],
    ['DEL', 'a\u007f'],
    ['a C1 control', 'a\u009bb'],
    ['a right-to-left override', 'a\u202eb'],
    ['a direction isolate', 'a\u2066b'],
    ['a direction mark', 'a\u200f'],
    ['a zero-width space', 'a\u200bb'],
    ['a zero-width joiner', 'a\u200db'],
    ['a byte order mark', '\ufeffa'],
    ['a soft hyphen', 'a\u00adb'],
    ['a tag character', 'a\u{E0041}'],
    ['a variation selector', 'a\ufe0f'],
    ['a supplementary variation selector', 'a\u{E0100}'],
    ['a Hangul filler', '\u3164'],
    ['a line separator', 'a\u2028b'],
    ['a lone surrogate', 'a\ud800b'],
    ['a leading space', ' a'],
    ['a trailing space', 'a '],
    ['a trailing no-break space', 'a\u00a0'],
    ['white space only', '\u3000'],
    ['too many characters', 'x'.repeat(MAX_LOCAL_NAME_LENGTH + 1)],
  ])('refuses %s', (_what, name) => {
    expect(localNameProblem(name)).toMatch(/^the name /);
  });

  it('refuses at least all that has to be escaped on a screen', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', minLength: 1, maxLength: 20 }), (name) => {
        if (sanitizeText(name, 10_000) !== name) expect(localNameProblem(name)).not.toBeNull();
        expect(localNameProblem(`a${displayName(name)}z`)).toBeNull();
      }),
    );
  });
});

describe('canonical names', () => {
  it('prefixes', () => {
    expect(prefixedName('archive', 'search')).toBe('archive/search');
    expect(mayBeBare('search')).toBe(true);
    expect(mayBeBare('user/update')).toBe(false);
  });

  it('are one for each peer and local name, and never a bare one', () => {
    const peer = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,4}$/);
    const local = fc.string({ unit: fc.constantFrom('a', '/', '_', '.', '-'), maxLength: 6 });
    fc.assert(
      fc.property(peer, local, peer, local, (peerA, localA, peerB, localB) => {
        const [a, b] = [prefixedName(peerA, localA), prefixedName(peerB, localB)];
        expect(a === b).toBe(peerA === peerB && localA === localB);
        expect(mayBeBare(a)).toBe(false);
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('displayName', () => {
  it('escapes and cuts', () => {
    expect(displayName('a\u202eb')).toBe('a\\u{202e}b');
    expect(displayName('x'.repeat(5_000))).toHaveLength(200);
  });
});

describe('compareNames', () => {
  it('is code-unit order', () => {
    expect(['b', 'a', 'B', 'ä', 'a'].sort(compareNames)).toEqual(['B', 'a', 'a', 'b', 'ä']);
  });
});
