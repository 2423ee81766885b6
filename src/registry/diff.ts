/** What is different between a lease and the next. */
import type { EntryChanges } from './entryTable.js';
import type { CatalogEntry } from './lease.js';
import { compareNames } from './names.js';

/** Canonical names, each list in code-unit order. */
export interface LeaseDiff {
  readonly added: readonly string[];
  readonly removed: readonly string[];
  /** Same name, another definition or another owner. */
  readonly changed: readonly string[];
}

/** `changes`: without those that change nothing, an entry that became stale or fresh again among them. */
export interface EntryDiff extends LeaseDiff {
  readonly changes: EntryChanges;
}

export function diffEntries(before: ReadonlyMap<string, CatalogEntry>, noted: EntryChanges): EntryDiff {
  const changes = new Map<string, CatalogEntry | null>();
  const added: string[] = [];
  const removed: string[] = [];
  const changed: string[] = [];
  for (const [name, after] of noted) {
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
    changes.set(name, after);
  }
  for (const names of [added, removed, changed]) Object.freeze(names.sort(compareNames));
  return { changes, added, removed, changed };
}

function sameTool(a: CatalogEntry, b: CatalogEntry): boolean {
  return a.digest === b.digest && a.peer === b.peer && a.local === b.local;
}
