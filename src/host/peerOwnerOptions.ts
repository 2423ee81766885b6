/** What the owner of a peer is made with, and what it tells its host. */
import type { CachePartition } from '../cache/entry.js';
import type { ResponseCache } from '../cache/responseCache.js';
import type { InputHandlers } from '../calls/inputHandlers.js';
import type { IdSource } from '../protocol/jsonRpc.js';
import type { ListKind } from '../protocol/lists.js';
import type { PeerCatalog } from '../registry/lease.js';
import type { Clock } from '../transports/clock.js';
import type { HttpAuthorizer } from '../transports/httpAuthorizer.js';
import type { TransportFactory } from '../transports/transport.js';
import type { PeerAuthorization, PeerAuthorizationOptions } from './auth/peerAuthorization.js';
import type { ResolvedOptions, ResolvedPeer } from './config.js';
import type { Ratchet } from './ledger.js';

export type AuthorizationCallbacks = Pick<PeerAuthorizationOptions, 'onUrl' | 'onContextChanged' | 'redact'>;

export interface PeerOwnerOptions {
  readonly config: ResolvedPeer;
  readonly limits: ResolvedOptions;
  /** The pin as configured, and as it would be computed now (N8). */
  readonly pin: string;
  readonly currentPin: () => string;
  /** Made with {@link makeAuthorization}'s authorizer. */
  readonly transport: (authorizer: HttpAuthorizer | undefined) => TransportFactory;
  /** Null where nothing of the kind is configured. */
  readonly makeAuthorization: (callbacks: AuthorizationCallbacks) => PeerAuthorization | null;
  readonly ids: IdSource;
  readonly clock: Clock;
  readonly random: () => number;
  readonly ratchet: Ratchet;
  readonly handlers: InputHandlers;
  readonly cache: ResponseCache | null;
  /** Whose answers it may be given from the cache; `context` is {@link PeerAuthorization.context}. */
  readonly partition: (context: string | undefined) => CachePartition;
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
  /** A person must grant access there. */
  authorizationNeeded(url: string): void;
  isEnding(): boolean;
}
