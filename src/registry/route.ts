/** Whether a name still means what it meant. Always by exact lookup; no name is ever taken apart. */
import type { CatalogEntry, Lease } from './lease.js';

/**
 * Whether a bound entry still is what its name means: the same peer, local name and definition. One that merely became
 * `stale` (its peer reconnects) is still the same.
 */
export function isCurrentRoute(bound: CatalogEntry, current: Lease): boolean {
  const entry = current.entries.get(bound.name);
  if (entry === bound) return true;
  return (
    entry !== undefined &&
    entry.peer === bound.peer &&
    entry.local === bound.local &&
    entry.digest === bound.digest
  );
}
