/** Responses of servers that may be used again: who may see them, for how long, and until what happens. */
import { randomUUID } from 'node:crypto';
import type { JsonValue } from '../protocol/jsonRpc.js';
import { MAX_TTL_MS } from '../protocol/listResults.js';
import type { Clock } from '../transports/clock.js';
import {
  type CacheableRequest,
  type CachePartition,
  type CacheScope,
  decodeEntry,
  type Entry,
  encodeEntry,
  entryKey,
} from './entry.js';
import { Invalidations } from './invalidations.js';
import type { Store } from './store.js';
import { type StoreFault, StoreGuard } from './storeGuard.js';

export interface CachedResponse {
  readonly value: JsonValue;
  readonly ageMs: number;
  /** More than 0, at most 24 h. */
  readonly freshForMs: number;
  readonly scope: CacheScope;
}

/** What a fetch is begun with and its answer written with. Good for the cache that gave it, once or not at all. */
export interface Ticket {
  readonly method: string;
  readonly keys: EntryKeys;
  /** The cache's count of events when the fetch began. */
  readonly order: number;
  /** Wall clock, epoch ms. */
  readonly begunAtMs: number;
}

export interface EntryKeys {
  readonly private: string;
  readonly public: string;
}

/** `cache-value`: a value that this package did not write for this key, or that is ahead of the clock. */
export type CacheFault = StoreFault | 'cache-value';

export interface ResponseCacheOptions {
  readonly store: Store;
  /** Wall clock, epoch ms: several processes may read what one wrote. */
  readonly now: () => number;
  /** Bounds each operation of the store. */
  readonly clock: Clock;
  /** For one operation of the store. Default 1,000. */
  readonly timeoutMs?: number | undefined;
  /** Must not throw. */
  readonly onFault?: ((kind: CacheFault) => void) | undefined;
}

/**
 * The closed list of what may be stored. `server/discover` may be cached by the specification, but opens each
 * negotiation here, so that it is always asked (N1).
 */
const STORED_METHODS: ReadonlySet<string> = new Set([
  'tools/list',
  'prompts/list',
  'resources/list',
  'resources/templates/list',
  'resources/read',
]);

/** A value that claims to be received later than this from now was written by a clock not to be compared with. */
const MAX_SKEW_MS = 60_000;

/**
 * Keeps responses in a {@link Store}, divided by server, by authorization context and by request. A response that the
 * server marked public is found by every context of that server; one that it marked private or not at all by the
 * context it was fetched in alone (basic/utilities/caching).
 *
 * Used in this order: `read`; if that gives nothing, `begin`, fetch, `write`. Who fetches although there may be an
 * entry (a forced refresh) calls `invalidate` first: an answer that may not be stored leaves an older one standing.
 * `write` is for answers to a first request only, never to a retry with `inputResponses` or `requestState`.
 *
 * What the store throws, what it returns in place of an entry and how long it takes reaches no caller: it is counted,
 * and there is a miss.
 */
export class ResponseCache {
  readonly #guard: StoreGuard;
  readonly #now: () => number;
  readonly #onFault: (kind: CacheFault) => void;
  readonly #invalidations = new Invalidations();
  /** Tells its own values from those of other instances. */
  readonly #writer = randomUUID();
  /** Counts fetches and invalidations, so that their order does not depend on a clock. */
  #order = 0;

  constructor({ store, now, clock, timeoutMs = 1_000, onFault = () => {} }: ResponseCacheOptions) {
    this.#guard = new StoreGuard({ store, clock, timeoutMs, onFault });
    this.#now = now;
    this.#onFault = onFault;
  }

  /** Before the request is sent: an invalidation from here on keeps the answer out of the store. */
  begin(partition: CachePartition, request: CacheableRequest): Ticket {
    this.#order += 1;
    return {
      method: request.method,
      keys: keysOf(partition, request),
      order: this.#order,
      begunAtMs: this.#now(),
    };
  }

  /** The context's own entry, else the public one, if it is fresh and was not invalidated. Never rejects. */
  async read(partition: CachePartition, request: CacheableRequest): Promise<CachedResponse | null> {
    if (!STORED_METHODS.has(request.method)) return null;
    const keys = keysOf(partition, request);
    const askedAt = this.#order;
    // Both are asked for at once: behind a network the second would double the wait.
    const shared = this.#fetch(keys, 'public');
    const own = this.#judge(await this.#fetch(keys, 'private'), askedAt);
    // Judged last of all: while the one was waited for, the other may have become invalid.
    return own ?? this.#judge(await shared, askedAt);
  }

  /**
   * Stores an answer, in place of what either scope held for this request: the server may have changed its mind about
   * the scope. Does nothing for a `ttlMs` that is not above 0, or if the request was invalidated since `begin`.
   * `ttlMs` is clamped to 24 h. Resolves when the store has it or has failed.
   *
   * @throws RangeError (as a rejection) for a method whose answers are never stored
   */
  async write(
    ticket: Ticket,
    response: { readonly value: JsonValue; readonly ttlMs: number; readonly scope: CacheScope },
  ): Promise<void> {
    if (!STORED_METHODS.has(ticket.method)) {
      throw new RangeError(`answers to ${ticket.method} are never stored`);
    }
    const ttlMs = Math.floor(Math.min(response.ttlMs, MAX_TTL_MS));
    if (!(ttlMs > 0)) return;
    const scope = response.scope === 'public' ? 'public' : 'private';
    const key = ticket.keys[scope];
    const other = ticket.keys[scope === 'public' ? 'private' : 'public'];
    if (this.#isOutdated(key, ticket)) return;

    const text = this.#encode(ticket, scope, response.value, ttlMs);
    const [kept, removed] = await Promise.all([
      text === null ? ({ ok: false } as const) : this.#guard.set(key, text, ttlMs),
      this.#guard.delete(other),
    ]);
    // What could not be replaced in the store is at least not used here any more.
    const mark = { order: ticket.order, atMs: ticket.begunAtMs };
    if (!kept.ok) this.#invalidations.add(key, mark);
    if (!removed.ok) this.#invalidations.add(other, mark);
    // Invalidated while the value was on its way: the removal may have come to the store first.
    if (this.#isOutdated(key, ticket)) await this.#guard.delete(key);
  }

  /**
   * Makes the private and the public entry of a request invalid: at once for this cache, reads and fetches under way
   * included, whatever the store does; for others when the store has removed them. Never rejects.
   */
  async invalidate(partition: CachePartition, request: CacheableRequest): Promise<void> {
    this.#order += 1;
    const keys = keysOf(partition, request);
    const mark = { order: this.#order, atMs: this.#now() };
    this.#invalidations.add(keys.private, mark);
    this.#invalidations.add(keys.public, mark);
    await Promise.all([this.#guard.delete(keys.private), this.#guard.delete(keys.public)]);
  }

  #isOutdated(key: string, { order }: Ticket): boolean {
    return this.#invalidations.of(key).order > order;
  }

  #encode(ticket: Ticket, scope: CacheScope, value: JsonValue, ttlMs: number): string | null {
    const { order, begunAtMs } = ticket;
    // Whole, so that what is read back has exactly this ttl.
    const receivedAtMs = Math.floor(this.#now());
    const times = { begunAtMs, receivedAtMs, expiresAtMs: receivedAtMs + ttlMs };
    try {
      return encodeEntry({ key: ticket.keys[scope], scope, writer: this.#writer, order, ...times, value });
    } catch {
      this.#onFault('cache-value');
      return null;
    }
  }

  async #fetch(keys: EntryKeys, scope: CacheScope): Promise<Entry | null> {
    const answer = await this.#guard.get(keys[scope]);
    if (!answer.ok || answer.value === undefined || answer.value === null) return null;
    const entry = decodeEntry(answer.value, keys[scope], scope);
    if (entry !== null && entry.receivedAtMs <= this.#now() + MAX_SKEW_MS) return entry;
    this.#onFault('cache-value');
    return null;
  }

  #judge(entry: Entry | null, askedAt: number): CachedResponse | null {
    if (entry === null) return null;
    const { value, scope, receivedAtMs, expiresAtMs } = entry;
    const nowMs = this.#now();
    if (nowMs >= expiresAtMs || !this.#isValid(entry, askedAt)) return null;
    return {
      value,
      ageMs: Math.max(0, nowMs - receivedAtMs),
      freshForMs: Math.min(expiresAtMs - nowMs, expiresAtMs - receivedAtMs),
      scope,
    };
  }

  #isValid({ key, writer, order, begunAtMs }: Entry, askedAt: number): boolean {
    const mark = this.#invalidations.of(key);
    // Whoever wrote it: it was on its way here when it became invalid.
    if (mark.order > askedAt) return false;
    return writer === this.#writer ? order >= mark.order : begunAtMs > mark.atMs;
  }
}

function keysOf(partition: CachePartition, request: CacheableRequest): EntryKeys {
  return {
    private: entryKey('private', partition, request),
    public: entryKey('public', partition, request),
  };
}
