/** How a host stands: what `host.status()` returns. A copy; nothing in it changes afterwards. */
import type { ListKind } from '../protocol/lists.js';
import type { Era } from '../protocol/revisions.js';
import type { PeerStateName } from './peerStates.js';

/** One list of one peer. */
export interface CatalogStatus {
  /** `fetching`, `fresh`, `stale` (known to be out of date), `failed`. */
  readonly state: string;
  /** Items, or null where no listing succeeded. */
  readonly count: number | null;
  /** Milliseconds since the list that is served was received; null where there is none. */
  readonly ageMs: number | null;
  /** Why the last refetch failed; the list before it is served. */
  readonly problem: string | null;
}

export interface SubscriptionStatus {
  /** `opening`, `awaitingAck`, `listening`, `backoff`, `closed`; legacy peers: `listening`, needing no subscription. */
  readonly state: string;
  /** Asked for and not acknowledged: changes of these are seen by `ttlMs` alone. */
  readonly missing: readonly string[];
  readonly problem: string | null;
}

/** Durations of answered calls, in milliseconds, since the peer was added. Accurate to 1 %. */
export interface LatencyStatus {
  readonly count: number;
  readonly meanMs: number;
  readonly p50Ms: number;
  readonly p90Ms: number;
  readonly p99Ms: number;
  readonly maxMs: number;
}

export interface PeerStatus {
  readonly name: string;
  readonly state: PeerStateName;
  readonly era: Era | 'unknown';
  readonly revision: string | null;
  /** Connections made so far: each is a generation, and nothing of an earlier one is believed. */
  readonly generation: number;
  /**
   * Requests on the wire: of callers, and lists; also those that an earlier connection is left open for (HTTP). Not those
   * of a negotiation, and not what is listened to.
   */
  readonly inFlight: number;
  /** Calls that wait for their turn. */
  readonly queued: number;
  readonly breaker: 'closed' | 'open' | 'halfOpen';
  /** What was wrong on the wire and belongs to no request, by kind, since the peer was added. */
  readonly faults: Readonly<Record<string, number>>;
  /** The last loss, refusal or failed call; sanitized. `agoMs` ago. Null: none so far. */
  readonly lastError: { readonly message: string; readonly agoMs: number } | null;
  /** Null before the first answered call. */
  readonly latency: LatencyStatus | null;
  /** Only lists that were asked for. */
  readonly catalogs: Readonly<Partial<Record<ListKind, CatalogStatus>>>;
  /** Null where nothing is listened to. */
  readonly subscription: SubscriptionStatus | null;
}

export interface HostStatus {
  /** Revision of the current lease. */
  readonly revision: number;
  readonly tools: number;
  readonly inFlight: number;
  readonly queued: number;
  /** What went wrong with the cache's store, by kind. It harms nothing but speed. */
  readonly cacheFaults: Readonly<Record<string, number>>;
  readonly peers: readonly PeerStatus[];
}
