/** What a cache remembers of the keys that became invalid, so that no store can bring the old values back. */

/** Values whose fetch began before this are not used. */
export interface Mark {
  /** The cache's own count of events. */
  readonly order: number;
  /** Wall clock, for values of other processes, which count for themselves. */
  readonly atMs: number;
}

/** A mark takes some 200 bytes. */
const MAX_MARKS = 10_000;

const NEVER: Mark = { order: 0, atMs: Number.NEGATIVE_INFINITY };

/**
 * The latest mark of each key, bounded: when there are too many, the oldest is taken to hold for every key without
 * one. That costs a few hits and lets no stale value through.
 */
export class Invalidations {
  readonly #marks = new Map<string, Mark>();
  readonly #maxMarks: number;
  #floor = NEVER;

  constructor(maxMarks = MAX_MARKS) {
    this.#maxMarks = maxMarks;
  }

  get size(): number {
    return this.#marks.size;
  }

  of(key: string): Mark {
    return this.#marks.get(key) ?? this.#floor;
  }

  add(key: string, mark: Mark): void {
    const merged = later(this.of(key), mark);
    this.#marks.delete(key);
    this.#marks.set(key, merged);
    for (const [oldest, dropped] of this.#marks) {
      if (this.#marks.size <= this.#maxMarks) break;
      this.#marks.delete(oldest);
      this.#floor = later(this.#floor, dropped);
    }
  }
}

function later(one: Mark, other: Mark): Mark {
  return { order: Math.max(one.order, other.order), atMs: Math.max(one.atMs, other.atMs) };
}
