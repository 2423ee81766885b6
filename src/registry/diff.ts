/** What is different between a lease and the next. */
import type { EntryChanges } from './entryTable.js';
import type { CatalogEntry } from './lease.js';

/** Canonical names, each list in code-unit order. */
export interface LeaseDiff {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Same name, another definition or another owner. */
  readonly changed: readonly string[];
}

export interface EntryDiff extends LeaseDiff {
  /** Without what changes nothing; an entry that became stale or fresh again is among them. In code-unit order. */
  readonly changes: EntryChanges;
}

export function diffEntries(
  before: ReadonlyMap<string, CatalogEntry>,
  noted: ReadonlyMap<string, CatalogEntry | null>,
): EntryDiff {
  const names: string[] = [];
  const entries: (CatalogEntry | null)[] = [];
  const added: string[] = [];
  const removed: string[] = [];
  const changed: string[] = [];
  // The default order of strings is code-unit order.
  for (const name of [...noted.keys()].sort()) {
    const after = noted.get(name) as CatalogEntry | null;
    const entry = before.get(name);
    if (after === null) {
      if (entry === undefined) continue;
      removed.push(name);
    } else if (entry === undefined) {
      added.push(name);
    } else if (!sameTool(entry, after)) {
      changed.push(name);
    } else if (entry.freshness === after.freshness) {
      continue;
    }
    names.push(name);
    entries.push(after);
  }
  const changes = { names, entries };
  return {
    changes,
    added: Object.freeze(added),
    removed: Object.freeze(removed),
    changed: Object.freeze(changed),
  };
}

function sameTool(a: CatalogEntry, b: CatalogEntry): boolean {
  return a.digest === b.digest && a.peer === b.peer && a.local === b.local;
}
