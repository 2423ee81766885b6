/**
 * An immutable map of entries by canonical name whose next version shares what did not change. A lease holds one
 * version for as long as it likes; a change of a hundred names among a hundred thousand copies a few thousand
 * references instead of all.
 *
 * Two structures over the same entries: shards by a hash of the name, for lookup; and runs in code-unit order, for
 * iteration.
 */
import type { CatalogEntry } from './lease.js';
import { compareNames } from './names.js';

const SHARDS = 1_024;
/** A run is cut when it is longer than twice this, and joined with its neighbour when both fit into one. */
const RUN_LENGTH = 128;

type Shard = ReadonlyMap<string, CatalogEntry>;
type Run = readonly CatalogEntry[];

const EMPTY_SHARD: Shard = new Map();

/** What becomes of each name; `null`: it goes. */
export type EntryChanges = ReadonlyMap<string, CatalogEntry | null>;

export class EntryTable implements ReadonlyMap<string, CatalogEntry> {
  static readonly empty = new EntryTable(new Array<Shard>(SHARDS).fill(EMPTY_SHARD), [], 0);

  readonly #shards: readonly Shard[];
  readonly #runs: readonly Run[];
  readonly size: number;

  private constructor(shards: readonly Shard[], runs: readonly Run[], size: number) {
    this.#shards = shards;
    this.#runs = runs;
    this.size = size;
    Object.freeze(this);
  }

  get(name: string): CatalogEntry | undefined {
    return this.#shards[shardOf(name)]!.get(name);
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

  /** The version with these changes. Each entry stands under its own name. */
  with(changes: EntryChanges): EntryTable {
    if (changes.size === 0) return this;
    const shards = this.#changedShards(changes);
    const runs = mergeRuns(
      this.#runs,
      [...changes].sort(([a], [b]) => compareNames(a, b)),
    );
    let size = this.size;
    for (const [name, entry] of changes) size += (entry === null ? 0 : 1) - (this.has(name) ? 1 : 0);
    return new EntryTable(shards, runs, size);
  }

  #changedShards(changes: EntryChanges): readonly Shard[] {
    const shards = [...this.#shards];
    const copies = new Map<number, Map<string, CatalogEntry>>();
    for (const [name, entry] of changes) {
      const index = shardOf(name);
      let copy = copies.get(index);
      if (copy === undefined) {
        copy = new Map(shards[index]);
        copies.set(index, copy);
        shards[index] = copy;
      }
      if (entry === null) copy.delete(name);
      else copy.set(name, entry);
    }
    return shards;
  }
}

/** FNV-1a over code units. */
function shardOf(name: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < name.length; i += 1) hash = Math.imul(hash ^ name.charCodeAt(i), 0x01000193);
  return (hash ^ (hash >>> 15)) & (SHARDS - 1);
}

/** Runs that no change falls into are kept as they are. `changes`: in code-unit order. */
function mergeRuns(runs: readonly Run[], changes: readonly [string, CatalogEntry | null][]): readonly Run[] {
  const result: Run[] = [];
  let next = 0;
  for (let i = 0; i < runs.length || next < changes.length; i += 1) {
    const run = runs[i] ?? [];
    const following = runs[i + 1]?.[0]?.name;
    let end = next;
    while (end < changes.length && (following === undefined || changes[end]![0] < following)) end += 1;
    pushRun(result, end === next ? run : mergeRun(run, changes.slice(next, end)));
    next = end;
  }
  return result;
}

function mergeRun(run: Run, changes: readonly [string, CatalogEntry | null][]): Run {
  const result: CatalogEntry[] = [];
  let i = 0;
  for (const [name, entry] of changes) {
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
