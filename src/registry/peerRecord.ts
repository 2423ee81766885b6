/** What the store keeps of one configured peer between merges. */
import type { CatalogEntry, Conflict, Quarantined } from './lease.js';
import { compareNames } from './names.js';
import type { Placement } from './placement.js';
import { rejection } from './placement.js';
import type { PreparedCatalog, PreparedTool } from './prepare.js';

/** Everybody who concerns one local name. */
export interface Group {
  /** Who lists it, in no order. */
  claims: ListedTool[];
  /** Who has been exposed under it, in that order; the first one owns the name. */
  holders: PeerRecord[];
  /** Whether the owner has the bare name. */
  bare: boolean;
}

/** A tool that a peer lists, and what became of it. */
export interface ListedTool {
  readonly peer: PeerRecord;
  readonly group: Group;
  tool: PreparedTool;
  placement: Placement;
  /** The entry in the lease, or `null` where it is not exposed. */
  entry: CatalogEntry | null;
  conflict: Conflict | null;
  /** Whether it is among its peer's `undecided`. */
  undecided: boolean;
  /** Whether it is among its peer's `unreported`. */
  unreported: boolean;
  /** Whether the peer still lists it. What is undecided or unreported may not be listed any more. */
  isListed: boolean;
}

export class PeerRecord {
  readonly name: string;
  settled = false;
  freshness: CatalogEntry['freshness'] = 'fresh';
  catalog: PreparedCatalog | null = null;
  /** By local name. */
  readonly listed = new Map<string, ListedTool>();
  /** Local names in whose binding this peer is a holder. Outlives `listed`. */
  readonly held = new Set<string>();
  /** To be decided anew. */
  undecided: ListedTool[] = [];
  /** Whose conflict is to be computed anew. */
  unreported: ListedTool[] = [];
  /** Those that wait for earlier peers. */
  readonly waiting = new Set<ListedTool>();
  /** Conflicts that were announced: owner by local name. Each is announced once, also when the peer comes and goes. */
  readonly announced = new Map<string, string>();
  /** By tool. Replaced, never changed: leases hold them. */
  conflicts: readonly Conflict[] = [];
  quarantined: readonly Quarantined[] = [];
  /** Whether the two lists above may be out of date. */
  reportsDirty = false;

  constructor(name: string) {
    this.name = name;
  }

  /** Brings `conflicts` and `quarantined` up to date. Returns whether anything in them is different. */
  refreshReports(): boolean {
    if (!this.reportsDirty) return false;
    this.reportsDirty = false;
    const conflicts: Conflict[] = [];
    const quarantined = [...(this.catalog?.quarantined ?? [])];
    for (const { tool, placement, conflict } of this.listed.values()) {
      if (conflict !== null) conflicts.push(conflict);
      if (placement === 'rejected') quarantined.push(rejection(this.name, tool.local, conflict));
    }
    const changed =
      !sameItems(this.conflicts, conflicts, ['tool', 'owner', 'exposedAs']) ||
      !sameItems(this.quarantined, quarantined, ['local', 'code', 'reason']);
    if (changed) {
      this.conflicts = conflicts;
      this.quarantined = quarantined;
    }
    return changed;
  }
}

export function markUndecided(claim: ListedTool): void {
  if (claim.undecided) return;
  claim.undecided = true;
  claim.peer.undecided.push(claim);
}

export function markUnreported(claim: ListedTool): void {
  if (claim.unreported) return;
  claim.unreported = true;
  claim.peer.unreported.push(claim);
}

/** Inserts in peer order. */
export function insertPeer(order: PeerRecord[], peer: PeerRecord): void {
  let low = 0;
  let high = order.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (compareNames(order[middle]!.name, peer.name) < 0) low = middle + 1;
    else high = middle;
  }
  order.splice(low, 0, peer);
}

function sameItems<T>(before: readonly T[], after: readonly T[], members: readonly (keyof T)[]): boolean {
  if (before.length !== after.length) return false;
  return after.every((item, i) => members.every((member) => item[member] === (before[i] as T)[member]));
}
