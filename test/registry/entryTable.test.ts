import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { EntryTable } from '../../src/registry/entryTable.js';
import type { CatalogEntry } from '../../src/registry/lease.js';
import { entryOf } from '../../src/registry/placement.js';
import { prepareCatalog } from '../../src/registry/prepare.js';
import { catalog } from './tools.js';

const [prepared] = prepareCatalog(catalog('p', ['x'])).tools;
const template = entryOf('p', prepared!, 'bare', 'fresh');
const entry = (name: string): CatalogEntry => ({ ...template, name });

/** Applies changes in code-unit order, as the table asks for. */
function changed(table: EntryTable, changes: ReadonlyMap<string, CatalogEntry | null>): EntryTable {
  const names = [...changes.keys()].sort();
  return table.with({ names, entries: names.map((name) => changes.get(name) ?? null) });
}

function expectSame(table: EntryTable, expected: ReadonlyMap<string, CatalogEntry>): void {
  const names = [...expected.keys()].sort();
  expect([...table.keys()]).toEqual(names);
  expect([...table].every(([name, value]) => value === expected.get(name))).toBe(true);
  expect([...table.values()].map((value) => value.name)).toEqual(names);
  expect(table.size).toBe(names.length);
  expect(names.filter((name) => table.get(name) !== expected.get(name))).toEqual([]);
}

describe('EntryTable', () => {
  it('is a map in code-unit order, and every earlier version stays what it was', () => {
    const name = fc.oneof(fc.string({ maxLength: 2 }), fc.nat({ max: 900 }).map(String));
    const step = fc.array(fc.tuple(name, fc.boolean()), { maxLength: 400, size: 'max' });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 6 }), (steps) => {
        let table = EntryTable.empty();
        let expected = new Map<string, CatalogEntry>();
        const versions = [{ table, expected }];
        for (const items of steps) {
          const changes = new Map(items.map(([item, stays]) => [item, stays ? entry(item) : null]));
          expected = new Map(expected);
          for (const [item, value] of changes) {
            if (value === null) expected.delete(item);
            else expected.set(item, value);
          }
          table = changed(table, changes);
          versions.push({ table, expected });
        }
        for (const version of versions) expectSame(version.table, version.expected);
        for (const version of versions) expect(version.table.has('no such name')).toBe(false);
      }),
      { numRuns: 30 },
    );
  });

  it('takes thousands at once and lets nearly all of them go again', () => {
    const names = Array.from({ length: 5_000 }, (_, i) => `tool${i}`);
    const full = changed(EntryTable.empty(), new Map(names.map((name) => [name, entry(name)])));
    const few = changed(full, new Map(names.slice(10).map((name) => [name, null])));
    expect(few.size).toBe(10);
    expect([...few.keys()]).toEqual(names.slice(0, 10).sort());
    expect(full.size).toBe(5_000);
    expect(full.get('tool4999')?.name).toBe('tool4999');
  });

  it('may branch', () => {
    const base = changed(EntryTable.empty(), new Map([['b', entry('b')]]));
    const left = changed(base, new Map([['a', entry('a')]]));
    const right = changed(base, new Map([['c', entry('c')]]));
    expect([...left.keys()]).toEqual(['a', 'b']);
    expect([...right.keys()]).toEqual(['b', 'c']);
    expect(left.has('c')).toBe(false);
    expect(right.has('a')).toBe(false);
    expect([...base.keys()]).toEqual(['b']);
  });

  it('cannot be changed by who holds it', () => {
    const table = changed(EntryTable.empty(), new Map([['a', entry('a')]]));
    expect(Object.isFrozen(table)).toBe(true);
    expect('set' in table || 'delete' in table || 'clear' in table).toBe(false);
    expect(table.with({ names: [], entries: [] })).toBe(table);
    expect(new Map(table).get('a')).toBe(table.get('a'));
  });

  it('calls back like a map', () => {
    const table = changed(EntryTable.empty(), new Map([['a', entry('a')]]));
    const seen: unknown[] = [];
    table.forEach((value, name, map) => {
      seen.push([value.name, name, map === table]);
    });
    expect(seen).toEqual([['a', 'a', true]]);
  });

  it('knows no name of Object.prototype', () => {
    for (const name of ['__proto__', 'constructor', 'toString'])
      expect(EntryTable.empty().has(name)).toBe(false);
  });
});
