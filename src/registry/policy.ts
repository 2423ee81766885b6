/** What a collision policy means for the start of a host. */
import type { Conflict, Lease } from './lease.js';

/**
 * The conflicts of a lease in which the second tool is not loaded (`reject`). A start that finds one fails with an
 * error which names both peers and the tool; `tool` is as declared, so escape it for display.
 */
export function rejectedCollisions(lease: Pick<Lease, 'conflicts'>): readonly Conflict[] {
  return lease.conflicts.filter((conflict) => conflict.exposedAs === null);
}
