/** The naming rule for one tool. `merge.ts` applies it to everything, `store.ts` to what changed. */
import type { CatalogEntry, CollisionPolicy, Conflict, Quarantined } from './lease.js';
import { displayName, prefixedName } from './names.js';
import type { PreparedTool } from './prepare.js';

/**
 * A peer that holds so many names when a merge begins binds no more. Bindings outlive lists, so without a limit a
 * server that lists other names each time would grow the host; beyond it a peer's new tools get prefixed names, which
 * need no binding.
 */
export const MAX_BINDINGS_PER_PEER = 10_000;

/** Who has been exposed under one local name, until removed from the configuration. */
export interface Binding {
  /** Whether the first holder has the bare name. */
  readonly bare: boolean;
  /** Peers in the order in which they were exposed; never empty, the first one owns the name. */
  readonly holders: readonly string[];
}

/** By local name. */
export type Bindings = ReadonlyMap<string, Binding>;

/** What becomes of a tool: exposed under one of its two names, held back for now, or not loaded (`reject`). */
export type Placement = 'bare' | 'prefixed' | 'waiting' | 'rejected';

/** All that the rule looks at. */
export interface Claim {
  readonly policy: CollisionPolicy;
  readonly peer: string;
  readonly mayBeBare: boolean;
  /** First holder of the local name, or `null` where it has none. */
  readonly owner: string | null;
  /** Whether the owner has the bare name. */
  readonly bare: boolean;
  /** Whether this peer is among the holders. */
  readonly holds: boolean;
  /** Whether a configured peer that sorts before this one has not settled. */
  readonly blocked: boolean;
  /** Whether waiting is over: what would wait is exposed with its prefix, and keeps that name. */
  readonly waive: boolean;
  /** Whether the peer had {@link MAX_BINDINGS_PER_PEER} bindings or more when the merge began. */
  readonly full: boolean;
}

/** `binds`: the peer becomes a holder of the local name. */
export interface Decision {
  readonly placement: Placement;
  readonly binds: boolean;
}

/**
 * Decides one claim. A holder keeps the name it has. The bare name goes to the first claimant in peer order, and only
 * when no other peer has been exposed under the local name before; so a bare name never appears beside a tool that it
 * could be mistaken for.
 */
export function decide(claim: Claim): Decision {
  const { policy, peer, owner } = claim;
  if (!claim.mayBeBare || policy === 'prefix-always') return keep('prefixed');
  if (owner === peer) return keep(claim.bare ? 'bare' : 'prefixed');
  if (policy === 'reject' && (owner !== null || claim.full)) return keep('rejected');
  if (claim.holds || claim.full) return keep('prefixed');
  if (owner !== null) return bind('prefixed');
  if (!claim.blocked) return bind('bare');
  return claim.waive ? bind('prefixed') : keep('waiting');
}

const keep = (placement: Placement): Decision => ({ placement, binds: false });
const bind = (placement: Placement): Decision => ({ placement, binds: true });

/** The binding after `peer` was exposed. */
export function bindingWith(binding: Binding | undefined, peer: string, placement: Placement): Binding {
  if (binding === undefined) return { bare: placement === 'bare', holders: [peer] };
  return { bare: binding.bare, holders: [...binding.holders, peer] };
}

/** What is left of a binding when only some holders stay configured, or `undefined` where that is nobody. */
export function bindingOfOnly(binding: Binding, stays: (holder: string) => boolean): Binding | undefined {
  const holders = binding.holders.filter(stays);
  if (holders.length === 0) return undefined;
  return { bare: binding.bare && holders[0] === binding.holders[0], holders };
}

/**
 * The binding after the collision policy changed: a bare name still means the peer that it meant, all other names
 * are made anew.
 */
export function bindingAfterPolicy(binding: Binding): Binding | undefined {
  return binding.bare ? { bare: true, holders: binding.holders.slice(0, 1) } : undefined;
}

/** The conflict that a placed claim is in. `owner`: first holder of the local name after all claims of this merge. */
export function conflictOf(
  policy: CollisionPolicy,
  peer: string,
  tool: PreparedTool,
  placement: Placement,
  owner: string | null,
): Conflict | null {
  if (!tool.mayBeBare || policy === 'prefix-always' || owner === null || owner === peer) return null;
  const exposedAs = placement === 'rejected' ? null : prefixedName(peer, tool.local);
  return Object.freeze({ tool: tool.local, owner, peer, exposedAs });
}

/** How a tool that is not loaded under `reject` is reported; without a conflict its peer has used too many names. */
export function rejection(peer: string, local: string, conflict: Conflict | null): Quarantined {
  const reason =
    conflict === null
      ? `the peer has listed more than ${MAX_BINDINGS_PER_PEER} different names`
      : `peer "${conflict.owner}" has this name, and the collision policy "reject" loads no second tool of it`;
  return Object.freeze({ peer, local: displayName(local), code: 'rejected-collision' as const, reason });
}

/** The frozen entry of a tool that is exposed. */
export function entryOf(
  peer: string,
  tool: PreparedTool,
  placement: 'bare' | 'prefixed',
  freshness: CatalogEntry['freshness'],
): CatalogEntry {
  const { title, description, inputSchema, outputSchema, annotations } = tool.definition;
  return Object.freeze({
    name: placement === 'bare' ? tool.local : prefixedName(peer, tool.local),
    peer,
    local: tool.local,
    digest: tool.digest,
    title,
    description,
    inputSchema,
    outputSchema,
    annotations,
    freshness,
  });
}
