/**
 * Who lists what, who has which name, and what is to be decided anew. Changes are noted first; `decide` then looks only
 * at what they can have touched. Its result is what `merge.ts` defines.
 */
import type { CatalogEntry, CollisionPolicy, Conflict } from './lease.js';
import { isPeerName } from './names.js';
import type { Group, ListedTool } from './peerRecord.js';
import { insertPeer, markUndecided, markUnreported, PeerRecord } from './peerRecord.js';
import type { Binding, Bindings } from './placement.js';
import { conflictOf, decide, entryOf } from './placement.js';
import type { PreparedCatalog, PreparedTool } from './prepare.js';

/** What came of deciding. */
export interface Decided {
  /** By canonical name; may name what is the same as before. */
  readonly changes: ReadonlyMap<string, CatalogEntry | null>;
  /** Conflicts that have not been told before. */
  readonly news: readonly Conflict[];
  /** Whether any peer's conflicts or quarantined tools are different. */
  readonly reportsChanged: boolean;
}

/** Nearly every group has one member: an array literal is a fifth of the size that a first `push` allocates. */
const NONE: never[] = [];
Object.freeze(NONE);

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
      if (holders.length > 0) result.set(local, { bare, holders: holders.map((holder) => holder.name) });
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
    const before = new Map(peer.listed);
    peer.listed.clear(); // so that it is in the order of the list, whatever was there before
    for (const tool of catalog.tools) {
      const known = before.get(tool.local);
      before.delete(tool.local);
      const claim = known ?? this.#claim(peer, tool);
      peer.listed.set(tool.local, claim);
      if (known === undefined || known.tool.digest !== tool.digest || peer.freshness !== 'fresh') {
        markUndecided(claim);
      }
      claim.tool = tool;
    }
    for (const claim of before.values()) this.#unclaim(claim);
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
    for (const claim of peer.listed.values()) markUndecided(claim);
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
      const released = group.holders.slice(group.bare ? 1 : 0);
      group.holders = group.holders.slice(0, group.bare ? 1 : 0);
      for (const holder of released) holder.held.delete(local);
      this.#discardIfEmpty(local, group);
    }
    for (const peer of this.#order) for (const claim of peer.listed.values()) markUndecided(claim);
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

  #claim(peer: PeerRecord, tool: PreparedTool): ListedTool {
    const group = this.#groupOf(tool.local);
    const claim: ListedTool = {
      peer,
      group,
      tool,
      placement: 'waiting',
      entry: null,
      conflict: null,
      undecided: false,
      unreported: false,
      isListed: true,
    };
    if (group.claims.length === 0) group.claims = [claim];
    else group.claims.push(claim);
    return claim;
  }

  #unclaim(claim: ListedTool): void {
    const { peer, group, entry, tool } = claim;
    if (entry !== null) this.#changes.set(entry.name, null);
    claim.isListed = false;
    peer.waiting.delete(claim);
    peer.reportsDirty = true;
    group.claims.splice(group.claims.indexOf(claim), 1);
    this.#discardIfEmpty(tool.local, group);
  }

  #unlist(peer: PeerRecord): void {
    for (const claim of peer.listed.values()) this.#unclaim(claim);
    peer.listed.clear();
    peer.catalog = null;
    peer.reportsDirty = true;
  }

  /** Who has a name keeps it, under another owner; all others are decided anew: what stood in their way is gone. */
  #release(local: string, peer: PeerRecord): void {
    const group = this.#groups.get(local)!;
    if (group.holders[0] === peer) group.bare = false;
    group.holders = group.holders.filter((holder) => holder !== peer);
    for (const claim of group.claims) {
      if (claim.peer.held.has(local)) markUnreported(claim);
      else markUndecided(claim);
    }
    this.#discardIfEmpty(local, group);
  }

  #groupOf(local: string): Group {
    let group = this.#groups.get(local);
    if (group === undefined) {
      group = { claims: NONE, holders: NONE, bare: false };
      this.#groups.set(local, group);
    }
    return group;
  }

  #discardIfEmpty(local: string, group: Group): void {
    if (group.claims.length === 0 && group.holders.length === 0) this.#groups.delete(local);
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
      if (!blocked || this.#waive || full) for (const claim of peer.waiting) markUndecided(claim);
      for (const claim of peer.undecided) {
        claim.undecided = false;
        if (claim.isListed) this.#decide(claim, blocked, full);
      }
      peer.undecided = [];
      blocked ||= !peer.settled;
    }
  }

  #decide(claim: ListedTool, blocked: boolean, full: boolean): void {
    const { peer, tool, group } = claim;
    const { placement, binds } = decide({
      policy: this.#policy,
      peer: peer.name,
      mayBeBare: tool.mayBeBare,
      owner: group.holders[0]?.name ?? null,
      bare: group.bare,
      holds: peer.held.has(tool.local),
      blocked,
      waive: this.#waive,
      full,
    });
    if (binds) this.#bind(claim, placement === 'bare');
    if (placement === 'waiting') peer.waiting.add(claim);
    else peer.waiting.delete(claim);
    if (claim.entry !== null) this.#changes.set(claim.entry.name, null);
    claim.placement = placement;
    claim.entry =
      placement === 'bare' || placement === 'prefixed'
        ? entryOf(peer.name, tool, placement, peer.freshness)
        : null;
    if (claim.entry !== null) this.#changes.set(claim.entry.name, claim.entry);
    markUnreported(claim);
  }

  #bind({ peer, tool, group }: ListedTool, bare: boolean): void {
    peer.held.add(tool.local);
    if (group.holders.length > 0) {
      group.holders.push(peer);
      return;
    }
    group.holders = [peer];
    group.bare = bare;
    for (const other of group.claims) {
      // Who sorts before the first holder has a name already, if a claim at all: only its conflict is new.
      if (other.peer.name > peer.name) markUndecided(other);
      else markUnreported(other);
    }
  }

  #reportAll(): void {
    for (const peer of this.#order) {
      for (const claim of peer.unreported) {
        claim.unreported = false;
        if (claim.isListed) this.#report(claim);
      }
      peer.unreported = [];
      if (peer.refreshReports()) this.#reportsChanged = true;
    }
  }

  #report(claim: ListedTool): void {
    const { peer, tool, group } = claim;
    const owner = group.holders[0]?.name ?? null;
    claim.conflict = conflictOf(this.#policy, peer.name, tool, claim.placement, owner);
    peer.reportsDirty = true;
    if (claim.conflict === null || peer.announced.get(tool.local) === owner) return;
    peer.announced.set(tool.local, claim.conflict.owner);
    this.#news.push(claim.conflict);
  }
}
