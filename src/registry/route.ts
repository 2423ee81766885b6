/** From a canonical name to who serves it. Always by exact lookup; no name is ever taken apart. */
import type { CatalogEntry, Lease, Route } from './lease.js';

/** Whether a bound route still means what it meant. */
export type RouteCheck =
  | { readonly status: 'current'; readonly entry: CatalogEntry }
  /** `current`: what the name means now, or `null` where it is gone. */
  | { readonly status: 'stale'; readonly current: CatalogEntry | null };

/** What a canonical name means in a lease; `undefined` where there is no such tool. */
export function resolveRoute(lease: Lease, name: string): CatalogEntry | undefined {
  return lease.entries.get(name);
}

/** Whether a bound entry still is what its name means; what {@link checkRoute} says in more words. */
export function isCurrentRoute(bound: CatalogEntry, current: Lease): boolean {
  const entry = current.entries.get(bound.name);
  return entry === bound || (entry !== undefined && isSameRoute(entry, bound));
}

/**
 * Looks a route that was bound to an earlier lease up in the current one. It is stale when the name is gone, belongs
 * to another peer or local name, or stands for another definition. A definition that merely became `stale` (its peer
 * reconnects) is still the same one.
 */
export function checkRoute(bound: Route, current: Lease): RouteCheck {
  const entry = current.entries.get(bound.name);
  if (entry === undefined) return { status: 'stale', current: null };
  return isSameRoute(entry, bound) ? { status: 'current', entry } : { status: 'stale', current: entry };
}

function isSameRoute(a: Route, b: Route): boolean {
  return a.peer === b.peer && a.local === b.local && a.digest === b.digest;
}
