import { describe, expect, it } from 'vitest';
import { diffEntries } from '../../src/registry/diff.js';
import type { CatalogEntry } from '../../src/registry/lease.js';
import { entryOf } from '../../src/registry/placement.js';
import { prepareCatalog } from '../../src/registry/prepare.js';
import { catalog, tool } from './tools.js';

function entry(local: string, over: Partial<CatalogEntry> = {}, description?: string): CatalogEntry {
  const [prepared] = prepareCatalog(catalog('p', [tool(local, { description })])).tools;
  return { ...entryOf('p', prepared!, 'bare', 'fresh'), ...over };
}

describe('diffEntries', () => {
  it('sorts what was noted into what was added, removed and changed, and drops the rest', () => {
    const before = new Map(['gone', 'moved', 'new text', 'same', 'stale'].map((name) => [name, entry(name)]));
    const noted = new Map<string, CatalogEntry | null>([
      ['stale', entry('stale', { freshness: 'stale' })],
      ['same', entry('same')],
      ['new text', entry('new text', {}, 'other')],
      ['moved', entry('moved', { peer: 'q' })],
      ['gone', null],
      ['never there', null],
      ['b', entry('b')],
      ['a', entry('a')],
    ]);
    const { changes, ...lists } = diffEntries(before, noted);
    expect(lists).toEqual({ added: ['a', 'b'], removed: ['gone'], changed: ['moved', 'new text'] });
    expect(changes.names).toEqual(['a', 'b', 'gone', 'moved', 'new text', 'stale']);
    expect(changes.entries).toEqual(changes.names.map((name) => noted.get(name)));
  });
});
