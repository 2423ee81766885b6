/** Keyv 5 as a store, so that several processes can share one. */
import type { Store } from './store.js';

/** What is used of a `Keyv` (version 5). Nothing is imported from it: which one, and whether any, is the host's choice. */
export interface KeyvLike {
  get(key: string): Promise<unknown>;
  set(key: string, value: string, ttl?: number): Promise<unknown>;
  delete(key: string): Promise<unknown>;
  on?(event: 'error', listener: (error: unknown) => void): unknown;
}

/** How many errors a Keyv has reported. */
interface Reports {
  count: number;
}

/** One listener for each Keyv, however many stores are made of it: Keyv has no way to tell that a store is gone. */
const reportsOf = new WeakMap<KeyvLike, Reports>();

/**
 * Keeps responses in a Keyv. The host owns it: it chooses backend and namespace, and disconnects it after the host has
 * stopped.
 *
 * By default Keyv tells nobody that its backend failed, except by `error` events: a failed read looks like a miss and
 * a failed write may look like a success. With `throwOnErrors: true` it rejects. Both are understood here: an operation
 * without a result during which an error was reported counts as failed. A listener for `error` is attached here, so
 * that an error nobody listens for crashes nothing; a host that wants to know attaches its own.
 *
 * A backend that hangs is bounded by the cache that uses the store, not here. So that commands do not pile up
 * meanwhile, switch the queue for offline times off where the backend has one (`disableOfflineQueue: true` for Redis).
 */
export function createKeyvStore(keyv: KeyvLike): Store {
  const reports = reportsOf.get(keyv) ?? listen(keyv);

  /** Runs one operation; rejects if `failed` says so of its result, or if it had none and an error was reported. */
  const attempt = async (operation: () => Promise<unknown>, failed: (result: unknown) => boolean) => {
    const before = reports.count;
    const result = await operation();
    if (failed(result) || (typeof result !== 'string' && reports.count !== before)) {
      throw new Error('the Keyv reported an error');
    }
    return result;
  };

  return {
    async get(key) {
      const value = await attempt(() => keyv.get(key), isForeign);
      return typeof value === 'string' ? value : undefined;
    },
    async set(key, value, ttlMs) {
      await attempt(
        () => keyv.set(key, value, ttlMs),
        (kept) => kept === false,
      );
    },
    async delete(key) {
      // `false` says no more than that there was nothing to delete.
      await attempt(
        () => keyv.delete(key),
        () => false,
      );
    },
  };
}

/** Neither a text nor nothing: not written by this package. */
function isForeign(value: unknown): boolean {
  return value !== undefined && value !== null && typeof value !== 'string';
}

function listen(keyv: KeyvLike): Reports {
  const reports: Reports = { count: 0 };
  reportsOf.set(keyv, reports);
  keyv.on?.('error', () => {
    reports.count += 1;
  });
  return reports;
}
