/**
 * An immutable map of entries by canonical name whose next version shares what did not change. A lease holds one
 * version for as long as it likes; a change of a hundred names among a hundred thousand copies a few thousand
 * references instead of all.
 *
 * The entries stand in runs, in code-unit order. A version is found in by halving; the newest one, which nearly every
 * lookup is about, has a hash index besides, which moves on to its successor.
 */
import type { CatalogEntry } from './lease.js';

/** A run is cut when it is longer than twice this, and joined with its neighbour when both fit into one. */
const RUN_LENGTH = 128;

type Run = readonly CatalogEntry[];

/** What becomes of each of some names, which are in code-unit order; `null`: it goes. */
export interface EntryChanges {
  readonly names: readonly string[];
  /** One for each name. */
  readonly entries: readonly (CatalogEntry | null)[];
}

/** Says what one version holds: the one that `owner` names, and no other. */
interface Index {
  owner: EntryTable | null;
  readonly entries: Map<string, CatalogEntry>;
}

export class EntryTable implements ReadonlyMap<string, CatalogEntry> {
  readonly #runs: readonly Run[];
  readonly #index: Index;
  readonly size: number;

  private constructor(runs: readonly Run[], index: Index) {
    this.#runs = runs;
    this.#index = index;
    this.size = index.entries.size;
    index.owner = this;
    Object.freeze(this);
  }

  static empty(): EntryTable {
    return new EntryTable([], { owner: null, entries: new Map() });
  }

  get(name: string): CatalogEntry | undefined {
    const index = this.#index;
    return index.owner === this ? index.entries.get(name) : findInRuns(this.#runs, name);
  }

  has(name: string): boolean {
    return this.get(name) !== undefined;
  }

  forEach(fn: (entry: CatalogEntry, name: string, map: ReadonlyMap<string, CatalogEntry>) => void): void {
    for (const entry of this.values()) fn(entry, entry.name, this);
  }

  *keys(): Generator<string, undefined> {
    for (const run of this.#runs) for (const entry of run) yield entry.name;
    return undefined;
  }

  *values(): Generator<CatalogEntry, undefined> {
    for (const run of this.#runs) yield* run;
    return undefined;
  }

  *entries(): Generator<[string, CatalogEntry], undefined> {
    for (const run of this.#runs) for (const entry of run) yield [entry.name, entry];
    return undefined;
  }

  [Symbol.iterator](): Generator<[string, CatalogEntry], undefined> {
    return this.entries();
  }

  /** The version with these changes. Each entry stands under its own name. Takes this version's index over. */
  with(changes: EntryChanges): EntryTable {
    const { names, entries } = changes;
    if (names.length === 0) return this;
    const runs = mergeRuns(this.#runs, changes);
    const index =
      this.#index.owner === this ? this.#index : { owner: null, entries: new Map(this.entries()) };
    index.owner = null;
    for (let i = 0; i < names.length; i += 1) {
      const entry = entries[i] as CatalogEntry | null;
      if (entry === null) index.entries.delete(names[i]!);
      else index.entries.set(names[i]!, entry);
    }
    return new EntryTable(runs, index);
  }
}

function findInRuns(runs: readonly Run[], name: string): CatalogEntry | undefined {
  const run = runs[lastNotAfter(runs, (item) => item[0]!.name, name)];
  if (run === undefined) return undefined;
  const entry = run[lastNotAfter(run, (item) => item.name, name)];
  return entry?.name === name ? entry : undefined;
}

/** Index of the last item whose name is not after `name`, or -1. */
function lastNotAfter<T>(items: readonly T[], nameOf: (item: T) => string, name: string): number {
  let low = 0;
  let high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (nameOf(items[middle]!) <= name) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Runs that no change falls into are kept as they are. */
function mergeRuns(runs: readonly Run[], changes: EntryChanges): readonly Run[] {
  const { names } = changes;
  const result: Run[] = [];
  let next = 0;
  for (let i = 0; i < runs.length || next < names.length; i += 1) {
    const run = runs[i] ?? [];
    const following = runs[i + 1]?.[0]?.name;
    const first = next;
    while (next < names.length && (following === undefined || names[next]! < following)) next += 1;
    pushRun(result, first === next ? run : mergeRun(run, changes, first, next));
  }
  return result;
}

/** One run with the changes from `first` to before `end`. */
function mergeRun(run: Run, { names, entries }: EntryChanges, first: number, end: number): Run {
  const result: CatalogEntry[] = [];
  let i = 0;
  for (let next = first; next < end; next += 1) {
    const name = names[next]!;
    const entry = entries[next] as CatalogEntry | null;
    while (i < run.length && run[i]!.name < name) result.push(run[i++]!);
    if (i < run.length && run[i]!.name === name) i += 1;
    if (entry !== null) result.push(entry);
  }
  while (i < run.length) result.push(run[i++]!);
  return result;
}

function pushRun(runs: Run[], run: Run): void {
  if (run.length === 0) return;
  const last = runs[runs.length - 1];
  if (last !== undefined && last.length + run.length <= RUN_LENGTH) {
    runs[runs.length - 1] = [...last, ...run];
  } else if (run.length <= 2 * RUN_LENGTH) {
    runs.push(run);
  } else {
    for (let i = 0; i < run.length; i += RUN_LENGTH) runs.push(run.slice(i, i + RUN_LENGTH));
  }
}
