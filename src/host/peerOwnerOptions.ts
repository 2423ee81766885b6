/** What the owner of a peer is made with, and what it tells its host. */
import type { CachePartition } from '../cache/entry.js';
import type { ResponseCache } from '../cache/responseCache.js';
import type { InputHandlers } from '../calls/inputHandlers.js';
import type { IdSource } from '../protocol/jsonRpc.js';
import type { ListKind } from '../protocol/lists.js';
import type { PeerCatalog } from '../registry/lease.js';
import type { Clock } from '../transports/clock.js';
import type { TransportFactory } from '../transports/transport.js';
import type { ResolvedOptions, ResolvedPeer } from './config.js';
import type { Ratchet } from './ledger.js';

export interface PeerOwnerOptions {
  readonly config: ResolvedPeer;
  readonly limits: ResolvedOptions;
  /** The pin as configured, and as it would be computed now (N8). */
  readonly pin: string;
  readonly currentPin: () => string;
  readonly transport: TransportFactory;
  readonly ids: IdSource;
  readonly clock: Clock;
  readonly random: () => number;
  readonly ratchet: Ratchet;
  readonly handlers: InputHandlers;
  readonly cache: ResponseCache | null;
  readonly partition: CachePartition;
  /** Settles when nothing is left of the peer that had this name before: until then no connection is opened. */
  readonly after?: Promise<void> | undefined;
  readonly events: PeerOwnerEvents;
}

/** What an owner tells its host. */
export interface PeerOwnerEvents {
  /** A listing of the tools is complete. */
  listed(catalog: PeerCatalog): void;
  listingFailed(): void;
  /** Either of both was told: nobody need wait for the tools any more. */
  toolsSettled(): void;
  /** Another list changed. */
  listChanged(kind: ListKind): void;
  resourceUpdated(uri: string, certain: boolean): void;
  /** The peer wants to start again; `grant` is called when it may, at once or later. */
  requestTurn(grant: () => void): void;
  isEnding(): boolean;
}
