/** A peer as it is shown: its report and its status, copies that do not change any more. */
import type { UnavailableReason } from '../protocol/reasons.js';
import type { PeerAuthorization } from './auth/peerAuthorization.js';
import type { PeerReport, PeerStateName } from './facade.js';
import type { Ledger } from './ledger.js';
import { crashed } from './lossReasons.js';
import type { NegotiationRecord } from './negotiationRecord.js';
import type { PeerChart } from './peerChart.js';
import type { PeerConnections } from './peerConnections.js';
import type { PeerGate } from './peerGate.js';
import type { PeerLists } from './peerLists.js';
import { isNegotiating } from './peerStates.js';
import type { PeerSubscriptions } from './peerSubscriptions.js';
import type { PeerStatus } from './status.js';

/** What is looked at. */
export interface ViewedPeer {
  readonly name: string;
  readonly state: PeerStateName;
  readonly path: readonly PeerStateName[];
  readonly settledAfterMs: number;
  readonly faults: ReadonlyMap<string, number>;
  readonly chart: PeerChart;
  readonly ledger: Ledger;
  readonly record: NegotiationRecord;
  readonly connections: PeerConnections;
  readonly gate: PeerGate;
  readonly lists: PeerLists;
  readonly subscriptions: PeerSubscriptions;
  readonly authorization: PeerAuthorization | null;
  elapsedMs(): number;
}

export function reportOf(peer: ViewedPeer): PeerReport {
  const { snapshot } = peer.chart;
  const context = snapshot?.context;
  const reason = reasonOf(peer.state, context?.reason ?? null);
  return {
    name: peer.name,
    state: peer.state,
    era: context?.era ?? 'unknown',
    revision: context?.revision ?? null,
    server: context?.server ?? null,
    reason:
      snapshot?.status === 'error' ? crashed(snapshot.error) : withAuthorization(reason, peer.authorization),
    authorizationUrl: peer.authorization?.pendingUrl ?? null,
    initializeSent: peer.ledger.initializeSent,
    ms: Math.round(isNegotiating(peer.state) ? peer.elapsedMs() : peer.settledAfterMs),
    tools: peer.lists.toolCount,
    listing: peer.lists.toolsProblem,
    record: peer.record.entries,
    faults: Object.fromEntries(peer.faults),
    path: [...peer.path],
  };
}

export function statusOf(peer: ViewedPeer): PeerStatus {
  const context = peer.chart.snapshot?.context;
  const { gate } = peer;
  return {
    name: peer.name,
    state: peer.state,
    era: context?.era ?? 'unknown',
    revision: context?.revision ?? null,
    generation: peer.connections.generation,
    inFlight: peer.connections.inFlight,
    queued: gate.budget.queued,
    breaker: gate.breakerState,
    faults: Object.fromEntries(peer.faults),
    lastError: gate.lastError,
    latency: gate.latency.report(),
    catalogs: peer.lists.status(),
    subscription: peer.subscriptions.status(),
  };
}

/** A reason is of interest where the peer is not callable; a loss that was mended is history. */
function reasonOf(state: PeerStateName, reason: UnavailableReason | null): UnavailableReason | null {
  return state === 'unavailable' || state === 'reconnecting' ? reason : null;
}

/** What came of authorizing, and what a person is to do about it. */
function withAuthorization(
  reason: UnavailableReason | null,
  authorization: PeerAuthorization | null,
): UnavailableReason | null {
  if (reason?.code !== 'unauthorized' || authorization === null) return reason;
  const { pendingUrl, problem, remedy } = authorization;
  if (pendingUrl !== null) {
    return {
      ...reason,
      fix: `Open ${pendingUrl} and grant access, then hand what comes back to authorize().`,
    };
  }
  return {
    ...reason,
    message: problem === null ? reason.message : `${reason.message} ${asSentence(problem)}`,
    fix: remedy ?? reason.fix,
  };
}

function asSentence(text: string): string {
  const capital = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(capital) ? capital : `${capital}.`;
}
