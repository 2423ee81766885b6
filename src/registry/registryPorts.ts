/** What the registry machine, its port and its surroundings say to each other. Plain JSON, and no lists of tools. */
import type { CollisionPolicy, Conflict } from './lease.js';
import type { CatalogRef, LeaseChange, RegistryStore } from './store.js';

/** What the host and the peers tell the registry. The port gets it as it is. */
export type RegistryCommand =
  /** A deposited list takes effect; the peer has settled. */
  | ({ readonly type: 'catalog.listed' } & CatalogRef)
  /** A listing failed: what is there is stale, and there is nothing more to wait for. */
  | { readonly type: 'catalog.failed'; readonly peer: string }
  /** There will be no list for now: the peer failed, or has no tools. */
  | { readonly type: 'peer.settled'; readonly peer: string }
  /** The peer is unavailable: its entries leave the lease, its names stay reserved. */
  | { readonly type: 'peer.gone'; readonly peer: string }
  /** The peer reconnects: its entries stay, marked stale, until it has listed again. */
  | { readonly type: 'peer.stale'; readonly peer: string }
  | { readonly type: 'peer.added'; readonly peer: string }
  /** Removed from the configuration: its names are free. */
  | { readonly type: 'peer.removed'; readonly peer: string }
  | { readonly type: 'policy.changed'; readonly policy: CollisionPolicy }
  /** Waiting is over: what waits for earlier peers is exposed with its prefix. */
  | { readonly type: 'host.startTimeout' };

/** What the port reports. */
export type RegistryReport =
  /** A merge is done. `change`: `null` where the lease is still the same. */
  | {
      readonly type: 'registry.merged';
      readonly revision: number;
      /** Peers that have not settled. */
      readonly pending: number;
      readonly tools: number;
      readonly change: Omit<LeaseChange, 'lease'> | null;
    }
  | { readonly type: 'registry.crashed'; readonly message: string };

export type RegistryEvent = RegistryCommand | RegistryReport;

export type RegistryEmitted =
  /** The lease changed; all three lists are empty where only freshness, conflicts or pending peers did. */
  | {
      readonly type: 'catalogChanged';
      readonly revision: number;
      readonly added: readonly string[];
      readonly removed: readonly string[];
      readonly changed: readonly string[];
    }
  /** Two peers declare one name. Each pair is told once. */
  | ({ readonly type: 'conflict' } & Conflict)
  /** A fault of this package: the lease no longer changes. */
  | { readonly type: 'fault'; readonly message: string };

export interface RegistryInput {
  /** How long bare names wait for peers that have not settled. Default 30,000. */
  readonly settleTimeoutMs?: number;
}

export interface RegistryContext {
  readonly settleTimeoutMs: number;
  /** Of the current lease. */
  readonly revision: number;
  readonly pending: number;
  readonly tools: number;
  /** Why the registry is broken. */
  readonly fault: string | null;
}

/** Applies a command to the store; it takes effect with the next `publish`. */
export function applyCommand(store: RegistryStore, command: RegistryCommand): void {
  const { claims } = store;
  switch (command.type) {
    case 'catalog.listed':
      store.list(command.peer, command.revision);
      break;
    case 'catalog.failed':
      claims.markStale(command.peer);
      claims.settle(command.peer);
      break;
    case 'peer.settled':
      claims.settle(command.peer);
      break;
    case 'peer.gone':
      claims.dropCatalog(command.peer);
      break;
    case 'peer.stale':
      claims.markStale(command.peer);
      break;
    case 'peer.added':
      claims.waiveWaiting(false);
      claims.addPeer(command.peer);
      break;
    case 'peer.removed':
      store.removePeer(command.peer);
      break;
    case 'policy.changed':
      claims.setPolicy(command.policy);
      break;
    case 'host.startTimeout':
      claims.waiveWaiting(true);
      break;
  }
}
