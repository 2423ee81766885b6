import { describe, expect, test } from 'vitest';
import { fillSections, markdownTable, sectionNames } from '../../scripts/lib/sections.mjs';

const document = [
  'before',
  '<!-- generated:one -->',
  'old',
  '<!-- /generated -->',
  'between',
  '<!-- generated:two --><!-- /generated -->',
  'after',
].join('\n');

describe('generated sections', () => {
  test('are found in their order and filled, the rest untouched', () => {
    expect(sectionNames(document)).toEqual(['one', 'two']);
    const filled = fillSections(
      document,
      new Map([
        ['one', 'costs $& or $1\n'],
        ['two', '2'],
      ]),
    );
    expect(filled).toBe(
      'before\n<!-- generated:one -->\n\ncosts $& or $1\n\n<!-- /generated -->\nbetween\n' +
        '<!-- generated:two -->\n\n2\n\n<!-- /generated -->\nafter',
    );
  });

  test('filling twice changes nothing more', () => {
    const contents = new Map([
      ['one', '1'],
      ['two', '2'],
    ]);
    const once = fillSections(document, contents);
    expect(fillSections(once, contents)).toBe(once);
  });

  test.each([
    ['never closed', '<!-- generated:a -->\ntext'],
    ['never opened', 'text\n<!-- /generated -->'],
    ['opened twice', '<!-- generated:a --><!-- generated:b --><!-- /generated -->'],
  ])('one that is %s is an error', (_name, text) => {
    expect(() => sectionNames(text)).toThrow(/are opened/);
  });

  test('a table keeps every value in its cell', () => {
    expect(
      markdownTable(
        ['a', 'b'],
        [
          [true, 'x | y'],
          [undefined, 'two\n  lines'],
          [false, 0],
        ],
      ),
    ).toBe('| a | b |\n| --- | --- |\n| yes | x \\| y |\n| – | two lines |\n| no | 0 |');
  });
});
