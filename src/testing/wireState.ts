/** What the oracle keeps of lives, connections, probes and `initialize` requests. */
import type { Judgement } from './wireJudge.js';
import type { Json, Written } from './wireReading.js';
import type { RecordedPeer } from './wireTrace.js';

/** What came before a probe in its negotiation. */
export interface Place {
  /** By which rule it follows what came before; null: it begins a negotiation. */
  readonly follows: 'N3' | 'N4' | 'N12' | null;
  /** Revisions refused before, in order. */
  readonly refused: readonly string[];
  /** The request was corrected once (N4). */
  readonly isCorrected: boolean;
}

export interface Probe {
  readonly id: number;
  readonly revision: string;
  readonly connection: ConnectionState;
  /** Its place in its negotiation; more than one where the wire does not tell. */
  readonly places: readonly Place[];
  /** Its deadline lies between these. */
  readonly earliestDeadlineMs: number;
  readonly latestDeadlineMs: number;
  readonly possible: Judgement[];
  isSettled: boolean;
  redirected: boolean;
}

export interface Initialize {
  readonly id: number;
  readonly atMs: number;
  /** The revision of a valid result, if one came in time. */
  revision: string | null;
  /** Something came that may have settled it. */
  isAnswered: boolean;
  /** Nothing of the peer's MCP layer was reached: time may cure it (N6). */
  wasUnreached: boolean;
  /** A valid result came under another id. */
  sawForeignResult: boolean;
}

export interface ConnectionState {
  readonly number: number;
  readonly life: Life;
  readonly perRequestStreams: boolean;
  readonly openedAtMs: number;
  readonly written: Written[];
  readonly probes: Probe[];
  initialize: Initialize | null;
  initializedSent: number;
  /** Ids of requests that belong to no negotiation. */
  readonly calls: Set<number>;
  /** Ids of the server's own requests, not answered yet. */
  readonly serverRequests: Json[];
  /** When requests were refused with -32022 (N14). */
  readonly refusedCalls: number[];
  /** Probes on a connection that was modern already. */
  renegotiations: number;
  openFailed: boolean;
  lastHeardAtMs: number;
  closeAskedAtMs: number | null;
  isClosed: boolean;
  releasedAtMs: number | null;
  /** Modern evidence was heard on it (N12). */
  provedModern: boolean;
  /** The same, while it was legacy. */
  provedModernWhileLegacy: boolean;
}

export interface Negotiation {
  readonly probes: Probe[];
  initializeSent: number;
}

/** One configured peer, from its adding to its removal. */
export interface Life extends RecordedPeer {
  /** The last connection of the peer that had this name before: a peer added anew may wait for its end. */
  readonly predecessor: ConnectionState | undefined;
  readonly connections: ConnectionState[];
  negotiation: Negotiation | null;
  /** Told to begin anew since its last probe. */
  isCommanded: boolean;
  /** A connection could not be opened since its last probe. */
  openFailed: boolean;
}

/** The era that the texts heard so far may have given a connection. */
export function eraOf(connection: ConnectionState): 'modern' | 'legacy' | null {
  if (connection.initialize !== null) return connection.initialize.revision === null ? null : 'legacy';
  return connection.probes.some((probe) => modernRevisionOf(probe) !== null) ? 'modern' : null;
}

/** The revision that a probe's answer may have selected. */
export function modernRevisionOf(probe: Probe): string | null {
  const modern = probe.possible.find((one) => one.kind === 'modern');
  return modern?.kind === 'modern' ? modern.revision : null;
}

/** Whether an answer to a negotiation request may still be under way: what comes is read for evidence. */
export function isPending(connection: ConnectionState): boolean {
  const last = connection.probes.at(-1);
  if (connection.initialize !== null) return connection.initialize.revision === null;
  return last === undefined || modernRevisionOf(last) === null;
}

/** Keeps what an answer, or the lack of one, means; more than one judgement where the probe's place is not certain. */
export function settleProbe(
  probe: Probe | undefined,
  atMs: number,
  judgements: readonly Judgement[],
  isSure = true,
): void {
  if (probe === undefined || probe.isSettled || atMs > probe.latestDeadlineMs) return;
  for (const judgement of judgements) {
    const isKnown = probe.possible.some((one) => JSON.stringify(one) === JSON.stringify(judgement));
    if (!isKnown) probe.possible.push(judgement);
  }
  probe.isSettled = isSure && atMs < probe.earliestDeadlineMs;
}
