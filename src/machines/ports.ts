/**
 * What the peer machine and its surroundings say to each other: input, context, events, and the actors that the
 * owner of a peer injects with `.provide`. Everything here is plain JSON: no handle, no secret, no payload.
 */
import type { ListKind } from '../protocol/lists.js';
import type { UnavailableReason } from '../protocol/reasons.js';
import type { Era } from '../protocol/revisions.js';

export interface PeerInput {
  readonly name: string;
  /** By which the owner's guard finds its owner in this process. Default: none. */
  readonly key?: number;
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
  /** Failures in a row that open the breaker, and how long it stays open at first. */
  readonly breakerThreshold: number;
  readonly breakerOpenMs: number;
}

export interface PeerContext {
  readonly name: string;
  readonly key?: number;
  readonly systemId: string;
  readonly timing: {
    readonly probeTimeoutMs: number;
    readonly legacyProbeTimeoutMs: number;
    readonly stableAfterMs: number;
    readonly backoffMinMs: number;
    readonly backoffMaxMs: number;
    readonly retryUnavailableAfterMs: number;
    readonly breakerOpenMs: number;
  };
  readonly breakerThreshold: number;
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
  /** The server's own word on when to come back (`Retry-After`); 0: it said nothing. */
  readonly askedWaitMs?: number;
  /** Reconnects begun since the last stable connection. */
  readonly attempts: number;
  /** The wait that `reconnecting` is in. */
  readonly backoffMs: number;
  /** Modern evidence was given (N12). Shown here; the ledger is what forbids. */
  readonly modernSeen: boolean;
  /** In `reconnecting` and `unavailable`: the wait is over, and `turn.granted` is awaited. */
  readonly turnAsked?: boolean;
  /** The connection in use, or the last one, lived for `stableAfterMs`. */
  readonly stable?: boolean;
  /** Connections in a row that were lost before they had lived for `stableAfterMs`. */
  readonly shortLives?: number;
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
  | { readonly type: 'call.unsupportedVersion'; readonly reason: UnavailableReason }
  /**
   * One of the few places at which peers start at the same time is free. Taken in `reconnecting` and `unavailable`
   * once the wait there is over (`requestTurn` ran), and nowhere else: a peer that is not probing after it did not
   * take the place.
   */
  | { readonly type: 'turn.granted' }
  /** A list that is fetched on demand is needed: its catalog is spawned, if it is not there. */
  | { readonly type: 'catalog.wanted'; readonly kind: ListKind }
  /** Something is to be listened to (modern): the subscription is spawned, or told its new filter. */
  | { readonly type: 'subscription.wanted'; readonly asked: SubscriptionFilter }
  /** A call failed for the first time since one was answered: the breaker is spawned and told. */
  | { readonly type: 'breaker.wanted'; readonly cause: string };

/** Input of the injected actor `probe`: sends one `server/discover` and reports one `discover.*` event. */
export interface ProbeInput {
  readonly revision: string;
  /** The request before this one was refused with -32020 or -32021: correct it (N4). */
  readonly correction: boolean;
}

/** What hosts look at. A state has one of the first two; besides, `callable` where calls are served, or `failed`. */
export type PeerTag = 'negotiating' | 'settled' | 'callable' | 'failed';

/** Tells a peer's chart what of it is needed; a child is spawned at its first use, so that an idle peer stays small. */
export interface CatalogInput {
  readonly peer: string;
  readonly kind: ListKind;
}

export type CatalogEvent =
  /** The server says that its list changed. */
  | { readonly type: 'catalog.changed' }
  /** The host wants the list anew. */
  | { readonly type: 'catalog.refresh' }
  /** Somebody needs the list, and what is there has run out (`ttlMs`) or failed: the owner's clock says so. */
  | { readonly type: 'catalog.used' }
  /** From the fetch. */
  | { readonly type: 'list.done'; readonly count: number; readonly digest: string }
  | { readonly type: 'list.failed'; readonly message: string };

export interface CatalogContext {
  readonly peer: string;
  readonly kind: ListKind;
  readonly count: number | null;
  readonly digest: string | null;
  /** Why the last fetch failed. */
  readonly problem: string | null;
  /** A change was announced while a walk was under way: what it brings may be torn. */
  readonly torn: boolean;
  /** The walk under way was made because a change was announced. */
  readonly announced?: boolean;
  /** Walks in a row that a change was announced for and that brought nothing new, or failed. */
  readonly fruitless: number;
}

/** What a subscription asks for, and what a server acknowledges (2026-07-28, basic: subscriptions). */
export interface SubscriptionFilter {
  readonly toolsListChanged?: boolean;
  readonly promptsListChanged?: boolean;
  readonly resourcesListChanged?: boolean;
  readonly resourceSubscriptions?: readonly string[];
}

export interface SubscriptionInput {
  readonly peer: string;
  readonly asked: SubscriptionFilter;
  /** How long the acknowledgement may take once the request is written. */
  readonly ackTimeoutMs: number;
  /** A subscription that was acknowledged for this long resets the count of attempts. */
  readonly stableAfterMs: number;
  readonly backoffMinMs: number;
  readonly backoffMaxMs: number;
  /** Refusals in a row before it is given up. A loss is no refusal: it is retried for ever, ever more slowly. */
  readonly maxRefusals: number;
}

export interface SubscriptionContext {
  readonly peer: string;
  readonly asked: SubscriptionFilter;
  /** What the server agreed to; null while nothing is acknowledged. */
  readonly acknowledged: SubscriptionFilter | null;
  /** Asked for and not acknowledged, in words of the filter: `toolsListChanged`, or a URI. Empty before. */
  readonly missing: readonly string[];
  readonly timing: {
    readonly ackTimeoutMs: number;
    readonly stableAfterMs: number;
    readonly backoffMinMs: number;
    readonly backoffMaxMs: number;
  };
  readonly maxRefusals: number;
  /** Listens since the last stable subscription; drives the backoff. */
  readonly attempts: number;
  readonly refusals: number;
  readonly backoffMs: number;
  /** How the last one ended, or why it was refused. */
  readonly problem: string | null;
}

/** Input of the injected actor `listen`: sends one `subscriptions/listen` under a new id; stopped, it cancels it. */
export interface ListenInput {
  readonly asked: SubscriptionFilter;
}

export type SubscriptionEvent =
  /** The host wants another filter: listen anew. */
  | { readonly type: 'filter.changed'; readonly asked: SubscriptionFilter }
  /** From the listen actor: the request was handed to the wire. */
  | { readonly type: 'listen.written' }
  | { readonly type: 'listen.acknowledged'; readonly acknowledged: SubscriptionFilter }
  /** A result came, or on stdio the server cancelled it: the server ended it on purpose. */
  | { readonly type: 'listen.ended'; readonly message: string }
  /** The stream broke without a result. */
  | {
      readonly type: 'listen.lost';
      readonly message: string;
      /** From `Retry-After`. */
      readonly retryAfterMs?: number;
    }
  /** `permanent`: the server does not know the method. */
  | { readonly type: 'listen.refused'; readonly message: string; readonly permanent: boolean };

export interface BreakerInput {
  readonly peer: string;
  /** Failures in a row that open it. */
  readonly threshold: number;
  /** How long it stays open at first; doubles with every failed trial. */
  readonly openMs: number;
  readonly maxOpenMs: number;
}

export interface BreakerContext {
  readonly peer: string;
  readonly threshold: number;
  readonly openMs: number;
  readonly maxOpenMs: number;
  /** Transport failures and deadlines in a row. */
  readonly failures: number;
  /** Times it opened since it was last closed. */
  readonly opened: number;
  /** How long it is open this time. */
  readonly waitMs: number;
  /** In `halfOpen`: the one call that is let through is on its way. */
  readonly trial: boolean;
  /** The last failure, in words. */
  readonly cause: string | null;
}

/** In `open` and `halfOpen` a `call.*` says nothing: it belongs to a call from before. */
export type BreakerEvent =
  /** A call came to a transport failure or its deadline. Never a tool's error. */
  | { readonly type: 'call.failed'; readonly cause: string }
  /** A call was answered. */
  | { readonly type: 'call.succeeded' }
  /** The call that is let through was sent, came to something, or was given up by its caller. */
  | { readonly type: 'trial.begun' }
  | { readonly type: 'trial.succeeded' }
  | { readonly type: 'trial.failed'; readonly cause: string }
  | { readonly type: 'trial.abandoned' };
