/**
 * What the peer machine and its surroundings say to each other: input, context, events, and the actors that the
 * owner of a peer injects with `.provide`. Everything here is plain JSON: no handle, no secret, no payload.
 */
import type { UnavailableReason } from '../protocol/reasons.js';
import type { Era } from '../protocol/revisions.js';

export interface PeerInput {
  readonly name: string;
  /** The actor's system id; its children are named after it. */
  readonly systemId: string;
  /** The revision of the first probe (N1). */
  readonly preferredRevision: string;
  readonly probeTimeoutMs: number;
  readonly legacyProbeTimeoutMs: number;
  readonly stableAfterMs: number;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  /** Attempts to reconnect; 0: none. */
  readonly maxAttempts: number;
  /** 0: never. */
  readonly retryUnavailableAfterMs: number;
}

export interface PeerContext {
  readonly name: string;
  readonly systemId: string;
  readonly timing: {
    readonly probeTimeoutMs: number;
    readonly legacyProbeTimeoutMs: number;
    readonly stableAfterMs: number;
    readonly backoffMinMs: number;
    readonly backoffMaxMs: number;
    readonly retryUnavailableAfterMs: number;
  };
  readonly maxAttempts: number;
  readonly preferredRevision: string;
  /** The revision of the current or next probe. */
  readonly probeRevision: string;
  /** Whether this negotiation has corrected its request already (N4). */
  readonly corrected: boolean;
  readonly era: Era | 'unknown';
  readonly revision: string | null;
  /** Self-reported, for display. */
  readonly server: { readonly name: string; readonly version: string } | null;
  readonly reason: UnavailableReason | null;
  /** Whether time may cure the reason: no signal, or attempts exhausted. */
  readonly curable: boolean;
  /** Reconnects begun since the last stable connection. */
  readonly attempts: number;
  /** The wait that `reconnecting` is in. */
  readonly backoffMs: number;
  /** Modern evidence was given (N12). Shown here; the ledger is what forbids. */
  readonly modernSeen: boolean;
}

interface ServerFacts {
  readonly revision: string;
  readonly server: { readonly name: string; readonly version: string } | null;
}

export type PeerEvent =
  | { readonly type: 'host.start' }
  | { readonly type: 'host.retry' }
  | { readonly type: 'host.authorized' }
  | { readonly type: 'host.stop' }
  /** N2 */
  | ({ readonly type: 'discover.result' } & ServerFacts)
  /** N3: probe again with `revision`. */
  | { readonly type: 'discover.unsupportedVersion'; readonly revision: string }
  | { readonly type: 'discover.noMutualVersion'; readonly reason: UnavailableReason }
  /** N4 */
  | { readonly type: 'discover.correctable'; readonly reason: UnavailableReason }
  | { readonly type: 'discover.uncorrectable'; readonly reason: UnavailableReason }
  /** N5. `reason`: why the peer is unavailable if no legacy probe follows. */
  | { readonly type: 'discover.ambiguous'; readonly reason: UnavailableReason }
  /** N13 */
  | { readonly type: 'discover.legacyOnly'; readonly reason: UnavailableReason }
  /** N6 */
  | {
      readonly type: 'discover.noSignal';
      readonly reason: UnavailableReason;
      readonly terminal: boolean;
      readonly retryAfterMs: number | null;
    }
  | { readonly type: 'discover.unauthorized'; readonly reason: UnavailableReason }
  /** N10 */
  | ({ readonly type: 'initialize.result' } & ServerFacts)
  /** `curable`: nothing of the peer was reached, so time may cure it (N6). */
  | { readonly type: 'initialize.rejected'; readonly reason: UnavailableReason; readonly curable?: boolean }
  | { readonly type: 'initialize.unauthorized'; readonly reason: UnavailableReason }
  /** N12. Sent by the owner, in any state. */
  | { readonly type: 'peer.modernEvidence' }
  | { readonly type: 'transport.lost'; readonly reason: UnavailableReason }
  | { readonly type: 'session.lost'; readonly reason: UnavailableReason }
  /** -32022 in answer to a call (N14). */
  | { readonly type: 'call.unsupportedVersion'; readonly reason: UnavailableReason };

/** Input of the injected actor `probe`: sends one `server/discover` and reports one `discover.*` event. */
export interface ProbeInput {
  readonly revision: string;
  /** The request before this one was refused with -32020 or -32021: correct it (N4). */
  readonly correction: boolean;
}

/** What hosts look at. A state has one of the first two; besides, `callable` where calls are served, or `failed`. */
export type PeerTag = 'negotiating' | 'settled' | 'callable' | 'failed';

export type CatalogEvent =
  /** The server says that its list changed. */
  | { readonly type: 'catalog.changed' }
  /** The host wants the list anew. */
  | { readonly type: 'catalog.refresh' }
  /** From the fetch. */
  | { readonly type: 'list.done'; readonly count: number; readonly digest: string }
  | { readonly type: 'list.failed'; readonly message: string };

export interface CatalogContext {
  readonly count: number | null;
  readonly digest: string | null;
  /** Why the last fetch failed. */
  readonly problem: string | null;
  /** A change was announced while a walk was under way: what it brings may be torn. */
  readonly torn: boolean;
}
