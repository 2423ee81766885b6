/**
 * Who lists what, who has which name, and what is to be decided anew. Changes are noted first; `decide` then looks only
 * at what they can have touched. Its result is what `merge.ts` defines.
 */
import type { EntryChanges } from './entryTable.js';
import type { CatalogEntry, CollisionPolicy, Conflict } from './lease.js';
import { isPeerName } from './names.js';
import { insertPeer, PeerRecord } from './peerRecord.js';
import type { Binding, Bindings } from './placement.js';
import { conflictOf, decide, entryOf } from './placement.js';
import type { PreparedCatalog, PreparedTool } from './prepare.js';

/** Everybody who concerns one local name. */
interface Group {
  readonly claimants: Set<PeerRecord>;
  /** In the order in which they were exposed; the first one owns the name. */
  readonly holders: Set<PeerRecord>;
  /** Whether the owner has the bare name. */
  bare: boolean;
}

/** What came of deciding. */
export interface Decided {
  /** By canonical name; may name what is the same as before. */
  readonly changes: EntryChanges;
  /** Conflicts that have not been told before. */
  readonly news: readonly Conflict[];
  /** Whether any peer's conflicts or quarantined tools are different. */
  readonly reportsChanged: boolean;
}

export class Claims {
  #policy: CollisionPolicy;
  readonly #maxBindings: number;
  #waive = false;
  readonly #peers = new Map<string, PeerRecord>();
  /** The peers in code-unit order. */
  readonly #order: PeerRecord[] = [];
  readonly #groups = new Map<string, Group>();
  #changes = new Map<string, CatalogEntry | null>();
  #news: Conflict[] = [];
  #reportsChanged = false;

  constructor(policy: CollisionPolicy, maxBindings: number) {
    this.#policy = policy;
    this.#maxBindings = maxBindings;
  }

  get policy(): CollisionPolicy {
    return this.#policy;
  }

  /** A copy: who has which local name. */
  bindings(): Bindings {
    const result = new Map<string, Binding>();
    for (const [local, { bare, holders }] of this.#groups) {
      if (holders.size > 0) result.set(local, { bare, holders: [...holders].map((holder) => holder.name) });
    }
    return result;
  }

  /** Names of the peers that have not settled, in code-unit order. */
  pending(): readonly string[] {
    return this.#order.filter((peer) => !peer.settled).map((peer) => peer.name);
  }

  /** What is to be reported of each peer, in peer order. The lists in it never change. */
  reports(): readonly Pick<PeerRecord, 'conflicts' | 'quarantined'>[] {
    return this.#order.map(({ conflicts, quarantined }) => ({ conflicts, quarantined }));
  }

  /**
   * Adds a configured peer, not settled; one that is there already stays as it is. Tools of peers that sort after it
   * wait for it, unless they have a name already or waiting is waived.
   *
   * @throws {RangeError} not a peer's name: `<peer>/<tool>` would be ambiguous
   */
  addPeer(name: string): void {
    if (!isPeerName(name)) throw new RangeError('a peer name must match [A-Za-z0-9][A-Za-z0-9._-]{0,63}');
    if (this.#peers.has(name)) return;
    const peer = new PeerRecord(name);
    this.#peers.set(name, peer);
    insertPeer(this.#order, peer);
  }

  /** Removes a peer from the configuration and frees its names. */
  removePeer(name: string): void {
    const peer = this.#peers.get(name);
    if (peer === undefined) return;
    this.#unlist(peer);
    for (const local of peer.held) this.#release(local, peer);
    if (peer.refreshReports()) this.#reportsChanged = true;
    this.#peers.delete(name);
    this.#order.splice(this.#order.indexOf(peer), 1);
  }

  /** A list takes effect; the peer has settled. Nothing happens where the peer is not configured. */
  list(name: string, catalog: PreparedCatalog): void {
    const peer = this.#peers.get(name);
    if (peer === undefined) return;
    const kept = new Set(catalog.tools.map((tool) => tool.local));
    for (const local of peer.listed.keys()) if (!kept.has(local)) this.#unclaim(peer, local);
    const before = new Map(peer.listed);
    peer.listed.clear(); // so that it is in the order of the list, whatever was there before
    for (const tool of catalog.tools) {
      const known = before.get(tool.local);
      if (known !== undefined) peer.listed.set(tool.local, { ...known, tool });
      else this.#claim(peer, tool);
      if (known?.tool.digest !== tool.digest || peer.freshness !== 'fresh') peer.undecided.add(tool.local);
    }
    peer.catalog = catalog;
    peer.reportsDirty = true;
    peer.freshness = 'fresh';
    peer.settled = true;
  }

  /** There is nothing more to wait for from this peer. */
  settle(name: string): void {
    const peer = this.#peers.get(name);
    if (peer !== undefined) peer.settled = true;
  }

  /** The entries of a peer that reconnects, or whose last fetch failed, become `stale`. */
  markStale(name: string): void {
    const peer = this.#peers.get(name);
    if (peer === undefined || peer.freshness === 'stale') return;
    peer.freshness = 'stale';
    for (const local of peer.listed.keys()) peer.undecided.add(local);
  }

  /** The entries of an unavailable peer leave the lease; its names stay reserved. */
  dropCatalog(name: string): void {
    const peer = this.#peers.get(name);
    if (peer === undefined) return;
    peer.settled = true;
    peer.freshness = 'fresh';
    this.#unlist(peer);
  }

  /** A bare name that was exposed keeps its meaning; all other names are made anew. */
  setPolicy(policy: CollisionPolicy): void {
    if (policy === this.#policy) return;
    this.#policy = policy;
    for (const [local, group] of this.#groups) {
      let keeps = group.bare;
      for (const holder of group.holders) {
        if (!keeps) {
          group.holders.delete(holder);
          holder.held.delete(local);
        }
        keeps = false;
      }
      this.#discardIfEmpty(local, group);
    }
    for (const peer of this.#order) for (const local of peer.listed.keys()) peer.undecided.add(local);
  }

  /** Ends, or begins again, the waiting for peers that have not settled. */
  waiveWaiting(waive: boolean): void {
    this.#waive = waive;
  }

  /** Decides all that changes since the last time can have touched. */
  decide(): Decided {
    this.#decideAll();
    this.#reportAll();
    const decided: Decided = {
      changes: this.#changes,
      news: this.#news,
      reportsChanged: this.#reportsChanged,
    };
    this.#changes = new Map();
    this.#news = [];
    this.#reportsChanged = false;
    return decided;
  }

  #claim(peer: PeerRecord, tool: PreparedTool): void {
    peer.listed.set(tool.local, { tool, placement: 'waiting', entry: null, conflict: null });
    this.#groupOf(tool.local).claimants.add(peer);
  }

  #unclaim(peer: PeerRecord, local: string): void {
    const entry = peer.listed.get(local)!.entry;
    if (entry !== null) this.#changes.set(entry.name, null);
    peer.listed.delete(local);
    for (const set of [peer.waiting, peer.undecided, peer.unreported]) set.delete(local);
    peer.reportsDirty = true;
    const group = this.#groups.get(local)!;
    group.claimants.delete(peer);
    this.#discardIfEmpty(local, group);
  }

  #unlist(peer: PeerRecord): void {
    for (const local of [...peer.listed.keys()]) this.#unclaim(peer, local);
    peer.catalog = null;
    peer.reportsDirty = true;
  }

  /** All who claim the name are decided anew: an owner may have gone, and with it what stood in their way. */
  #release(local: string, peer: PeerRecord): void {
    const group = this.#groups.get(local)!;
    if (firstOf(group.holders) === peer) group.bare = false;
    group.holders.delete(peer);
    for (const claimant of group.claimants) claimant.undecided.add(local);
    this.#discardIfEmpty(local, group);
  }

  #groupOf(local: string): Group {
    let group = this.#groups.get(local);
    if (group === undefined) {
      group = { claimants: new Set(), holders: new Set(), bare: false };
      this.#groups.set(local, group);
    }
    return group;
  }

  #discardIfEmpty(local: string, group: Group): void {
    if (group.claimants.size === 0 && group.holders.size === 0) this.#groups.delete(local);
  }

  /**
   * Decides what is undecided, in peer order. That is enough: a decision depends on the peer, on whether it is blocked
   * or full, and on who holds the name; and when a name gets its first holder, those who claim it too are added to
   * the work.
   */
  #decideAll(): void {
    let blocked = false;
    for (const peer of this.#order) {
      const full = peer.held.size >= this.#maxBindings;
      if (!blocked || this.#waive || full) for (const local of peer.waiting) peer.undecided.add(local);
      for (const local of peer.undecided) this.#decide(peer, local, blocked, full);
      peer.undecided.clear();
      blocked ||= !peer.settled;
    }
  }

  #decide(peer: PeerRecord, local: string, blocked: boolean, full: boolean): void {
    const listed = peer.listed.get(local)!;
    const { tool } = listed;
    const group = this.#groups.get(local)!;
    const { placement, binds } = decide({
      policy: this.#policy,
      peer: peer.name,
      mayBeBare: tool.mayBeBare,
      owner: firstOf(group.holders)?.name ?? null,
      bare: group.bare,
      holds: group.holders.has(peer),
      blocked,
      waive: this.#waive,
      full,
    });
    if (binds) this.#bind(peer, local, group, placement === 'bare');
    if (placement === 'waiting') peer.waiting.add(local);
    else peer.waiting.delete(local);
    if (listed.entry !== null) this.#changes.set(listed.entry.name, null);
    listed.placement = placement;
    listed.entry =
      placement === 'bare' || placement === 'prefixed'
        ? entryOf(peer.name, tool, placement, peer.freshness)
        : null;
    if (listed.entry !== null) this.#changes.set(listed.entry.name, listed.entry);
    peer.unreported.add(local);
  }

  #bind(peer: PeerRecord, local: string, group: Group, bare: boolean): void {
    const first = group.holders.size === 0;
    group.holders.add(peer);
    peer.held.add(local);
    if (!first) return;
    group.bare = bare;
    for (const claimant of group.claimants) {
      if (claimant === peer) continue;
      // Who sorts before the first holder has a name already, if a claim at all: only its conflict is new.
      if (claimant.name > peer.name) claimant.undecided.add(local);
      else claimant.unreported.add(local);
    }
  }

  #reportAll(): void {
    for (const peer of this.#order) {
      for (const local of peer.unreported) this.#report(peer, local);
      peer.unreported.clear();
      if (peer.refreshReports()) this.#reportsChanged = true;
    }
  }

  #report(peer: PeerRecord, local: string): void {
    const listed = peer.listed.get(local)!;
    const owner = firstOf(this.#groups.get(local)!.holders)?.name ?? null;
    listed.conflict = conflictOf(this.#policy, peer.name, listed.tool, listed.placement, owner);
    peer.reportsDirty = true;
    if (listed.conflict === null || peer.announced.get(local) === listed.conflict.owner) return;
    peer.announced.set(local, listed.conflict.owner);
    this.#news.push(listed.conflict);
  }
}

function firstOf<T>(items: ReadonlySet<T>): T | undefined {
  for (const item of items) return item;
  return undefined;
}
