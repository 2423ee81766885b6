/** The store that is used where a host gives none: this process's memory, bounded. */
import type { Store } from './store.js';

export interface MemoryStoreOptions {
  /** Default 1,000. */
  readonly maxEntries?: number | undefined;
  /** Of all keys and values together, two bytes a UTF-16 code unit. Default 32 MiB. */
  readonly maxBytes?: number | undefined;
  /** Milliseconds on a scale that never goes back. Default: this process's monotonic time. */
  readonly now?: (() => number) | undefined;
}

/** As many as a host with a few hundred peers lists; a listed catalog is rarely above some ten KiB. */
const DEFAULT_MAX_ENTRIES = 1_000;
const DEFAULT_MAX_BYTES = 32 * 1024 * 1024;

interface Kept {
  readonly value: string;
  readonly bytes: number;
  readonly expiresAtMs: number;
}

/**
 * A store in memory, bounded in entries and in bytes: what was not used for longest goes first. A value that does not
 * fit at all is not kept, and neither is the one it would have replaced. There is no timer: what has expired is never
 * returned, and leaves when it is asked for or pushed out.
 *
 * @throws RangeError for a bound that is no whole number from 0 on
 */
export function createMemoryStore(options: MemoryStoreOptions = {}): Store {
  const {
    maxEntries = DEFAULT_MAX_ENTRIES,
    maxBytes = DEFAULT_MAX_BYTES,
    now = () => performance.now(),
  } = options;
  for (const [name, bound] of Object.entries({ maxEntries, maxBytes })) {
    if (!Number.isSafeInteger(bound) || bound < 0) {
      throw new RangeError(`${name}: expected a whole number from 0 on, got ${bound}`);
    }
  }
  /** In order of last use: a Map keeps the order of insertion. */
  const entries = new Map<string, Kept>();
  let bytes = 0;

  const remove = (key: string): void => {
    bytes -= entries.get(key)?.bytes ?? 0;
    entries.delete(key);
  };

  return {
    async get(key) {
      const kept = entries.get(key);
      if (kept === undefined) return undefined;
      if (!(now() < kept.expiresAtMs)) {
        remove(key);
        return undefined;
      }
      entries.delete(key);
      entries.set(key, kept);
      return kept.value;
    },
    async set(key, value, ttlMs) {
      remove(key);
      const size = 2 * (key.length + value.length);
      if (!(ttlMs > 0) || size > maxBytes || maxEntries === 0) return;
      entries.set(key, { value, bytes: size, expiresAtMs: now() + ttlMs });
      bytes += size;
      for (const oldest of entries.keys()) {
        if (entries.size <= maxEntries && bytes <= maxBytes) break;
        remove(oldest);
      }
    },
    async delete(key) {
      remove(key);
    },
  };
}
