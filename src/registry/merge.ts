/**
 * The merge of all catalogs as one pure function: total, injective, and independent of the order in which peers are
 * given. It defines what the registry shows; `store.ts` computes the same step by step.
 */
import type { CatalogEntry, CollisionPolicy, Conflict, PeerCatalog, Quarantined } from './lease.js';
import { compareNames } from './names.js';
import type { Binding, Bindings, Placement } from './placement.js';
import {
  bindingAfterPolicy,
  bindingOfOnly,
  bindingWith,
  conflictOf,
  decide,
  entryOf,
  MAX_BINDINGS_PER_PEER,
  rejection,
} from './placement.js';
import type { PreparedTool } from './prepare.js';
import { prepareCatalog } from './prepare.js';

/** One configured peer. */
export interface MergePeer {
  readonly name: string;
  /** Whether there is nothing to wait for: it has listed, or it failed. */
  readonly settled: boolean;
  /** `null`: nothing is listed, or the peer is gone. Its bindings stay. */
  readonly catalog: PeerCatalog | null;
  readonly freshness: CatalogEntry['freshness'];
}

export interface MergeInput {
  /** All configured peers, in any order; no name twice. */
  readonly peers: readonly MergePeer[];
  /** What the merge before returned; those of peers that are no longer configured are freed. */
  readonly bindings: Bindings;
  readonly policy: CollisionPolicy;
  /** Whether waiting is over: see `placement.ts`. */
  readonly waiveWaiting: boolean;
  /** Default 10,000. */
  readonly maxBindingsPerPeer?: number;
}

/** A lease without its revision, and the bindings for the next merge. */
export interface Merged {
  /** By canonical name, in code-unit order. */
  readonly entries: ReadonlyMap<string, CatalogEntry>;
  /** By peer, then by tool. */
  readonly conflicts: readonly Conflict[];
  /** By peer; what it was listed with first. */
  readonly quarantined: readonly Quarantined[];
  readonly pending: readonly string[];
  readonly bindings: Bindings;
}

interface Placed {
  readonly tool: PreparedTool;
  readonly placement: Placement;
}

export function merge(input: MergeInput): Merged {
  const peers = [...input.peers].sort((a, b) => compareNames(a.name, b.name));
  const bindings = freeUnconfigured(input.bindings, new Set(peers.map((peer) => peer.name)));
  const placed = placeAll(peers, bindings, input);

  const entries: CatalogEntry[] = [];
  const conflicts: Conflict[] = [];
  const quarantined: Quarantined[] = [];
  for (const peer of peers) {
    if (peer.catalog !== null) quarantined.push(...prepareCatalog(peer.catalog).quarantined);
    for (const { tool, placement } of placed.get(peer.name) as readonly Placed[]) {
      if (placement === 'bare' || placement === 'prefixed') {
        entries.push(entryOf(peer.name, tool, placement, peer.freshness));
      }
      const owner = bindings.get(tool.local)?.holders[0] ?? null;
      const conflict = conflictOf(input.policy, peer.name, tool, placement, owner);
      if (conflict !== null) conflicts.push(conflict);
      if (placement === 'rejected') quarantined.push(rejection(peer.name, tool.local, conflict));
    }
  }
  entries.sort((a, b) => compareNames(a.name, b.name));
  return {
    entries: new Map(entries.map((entry) => [entry.name, entry])),
    conflicts,
    quarantined,
    pending: peers.filter((peer) => !peer.settled).map((peer) => peer.name),
    bindings,
  };
}

/** Decides every claim, peer by peer, and adds what it binds to `bindings`. */
function placeAll(
  peers: readonly MergePeer[],
  bindings: Map<string, Binding>,
  { policy, waiveWaiting, maxBindingsPerPeer = MAX_BINDINGS_PER_PEER }: MergeInput,
): ReadonlyMap<string, readonly Placed[]> {
  const held = countHeld(bindings);
  const result = new Map<string, Placed[]>();
  let blocked = false;
  for (const peer of peers) {
    const placed: Placed[] = [];
    const full = (held.get(peer.name) ?? 0) >= maxBindingsPerPeer;
    for (const tool of peer.catalog === null ? [] : prepareCatalog(peer.catalog).tools) {
      const binding = bindings.get(tool.local);
      const { placement, binds } = decide({
        policy,
        peer: peer.name,
        mayBeBare: tool.mayBeBare,
        owner: binding?.holders[0] ?? null,
        bare: binding?.bare ?? false,
        holds: binding?.holders.includes(peer.name) ?? false,
        blocked,
        waive: waiveWaiting,
        full,
      });
      placed.push({ tool, placement });
      if (binds) bindings.set(tool.local, bindingWith(binding, peer.name, placement));
    }
    result.set(peer.name, placed);
    blocked ||= !peer.settled;
  }
  return result;
}

function countHeld(bindings: Bindings): ReadonlyMap<string, number> {
  const held = new Map<string, number>();
  for (const { holders } of bindings.values()) {
    for (const holder of holders) held.set(holder, (held.get(holder) ?? 0) + 1);
  }
  return held;
}

function freeUnconfigured(bindings: Bindings, configured: ReadonlySet<string>): Map<string, Binding> {
  const result = new Map<string, Binding>();
  for (const [local, binding] of bindings) {
    const kept = bindingOfOnly(binding, (holder) => configured.has(holder));
    if (kept !== undefined) result.set(local, kept);
  }
  return result;
}

/** The bindings with which the first merge under another collision policy begins. */
export function bindingsAfterPolicy(bindings: Bindings): Bindings {
  const result = new Map<string, Binding>();
  for (const [local, binding] of bindings) {
    const kept = bindingAfterPolicy(binding);
    if (kept !== undefined) result.set(local, kept);
  }
  return result;
}
