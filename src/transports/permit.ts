/**
 * The right to put one `initialize` on one connection. Only the ledger of a peer's owner issues it, in the tick of
 * the write; it is an object without data, so no event, input or context can carry it by value, and it is spent by
 * being used.
 */

const unspent = new WeakMap<LegacyPermit, object>();

/** Opaque. `new LegacyPermit()` makes a worthless one: only {@link issueLegacyPermit} registers it. */
export class LegacyPermit {
  /** Keeps other classes from being taken for a permit by structure. */
  protected readonly permit = true;
}

/** For `host/ledger.ts` alone; the import check refuses it elsewhere. */
export function issueLegacyPermit(connection: object): LegacyPermit {
  const permit = new LegacyPermit();
  unspent.set(permit, connection);
  return permit;
}

/** Spends `permit` for `connection`. False where it is none, was spent, or was issued for another connection. */
export function spendLegacyPermit(permit: LegacyPermit | null, connection: object): boolean {
  if (permit === null || unspent.get(permit) !== connection) return false;
  unspent.delete(permit);
  return true;
}
