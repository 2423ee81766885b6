import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createJsonEnd, holdsWholeJson } from '../../src/transports/jsonEnd.js';

describe('the end of a JSON value', () => {
  test.each([
    ['{}', true],
    [' \r\n\t[1, {"a": "}"}]', true],
    ['\ufeff{"a": "\\"}"}', true],
    ['{"a": "\\\\"}', true],
    ['{} and more', true],
    ['{"a": [}', false],
    ['{"a": "}', false],
    ['{"a": "\\"}', false],
    ['<p>{}</p>', false],
    ['}{}', false],
    ['"{}"', false],
    ['1', false],
    ['', false],
  ])('%j: %s', (text, whole) => {
    expect(holdsWholeJson(Buffer.from(text))).toBe(whole);
  });

  test('is with its last byte, told once, wherever it is cut', () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.dictionary(fc.string(), fc.jsonValue()), fc.array(fc.jsonValue())),
        fc.nat(),
        (value, at) => {
          const bytes = Buffer.from(JSON.stringify(value));
          const cut = at % bytes.length;
          const end = createJsonEnd();
          expect(end.push(bytes.subarray(0, cut))).toBe(false);
          expect(end.push(bytes.subarray(cut))).toBe(true);
          expect(end.push(bytes)).toBe(false);
        },
      ),
    );
  });
});
