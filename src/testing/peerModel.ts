/**
 * What the chart of one peer must do, written from the rules N1 to N17 and not from the chart: a second opinion. It
 * takes one stimulus at a time and says in which state the peer is afterwards, what it remembers, which actors were
 * stopped and started, whether the connection was given up and which deadline runs.
 *
 * The model knows nothing of XState, and its owner's ledger is a flag: no `initialize` after modern evidence.
 */
import type { PeerStateName } from '../host/facade.js';
import { BACKSTOP_MS } from '../machines/peerMachine.js';
import type { PeerEvent, PeerInput, PeerTag } from '../machines/ports.js';
import type { ListKind } from '../protocol/lists.js';
import type { ReasonCode } from '../protocol/reasons.js';
import type { Era } from '../protocol/revisions.js';

export interface PeerModelOptions extends PeerInput {
  readonly allowLegacy: boolean;
  /**
   * The host replaced the guard before `initialize` by one that always agrees. The wire still refuses, which cannot be
   * seen here; what the chart's structure alone guarantees must hold nevertheless.
   */
  readonly isGuardOverridden: boolean;
  /** The owner keeps count of starts: a turn that is asked for does not come at once. */
  readonly turnsComeLater: boolean;
}

export type ChildName =
  | 'probe'
  | 'initialize'
  | 'catalog'
  | `catalog:${Exclude<ListKind, 'tools'>}`
  | 'subscription'
  | 'breaker';

/** What is said to a child that is there. */
export type Told = 'subscription filter.changed' | 'breaker call.failed';

/** What can happen to a peer. */
export type Stimulus =
  | PeerEvent
  /** A child threw, or reported a fault of its own. */
  | { readonly type: 'fault'; readonly child: ChildName }
  /** The deadline of the state is reached. */
  | { readonly type: 'deadline' };

/** A child that was started. `fresh`: nothing was open any more. Revision and correction: of a probe only. */
export interface Started {
  readonly child: ChildName;
  readonly fresh: boolean;
  readonly revision: string | null;
  readonly correction: boolean;
}

/** What one stimulus brought about, in this order: released, stopped, started. */
export interface Effects {
  readonly released: boolean;
  readonly stopped: readonly ChildName[];
  readonly started: Started | null;
  readonly told: Told | null;
}

/** The wait that the chart chose must lie within these, in milliseconds. */
export interface BackoffRange {
  readonly min: number;
  readonly max: number;
}

export const tagsOf: Readonly<Record<PeerStateName, readonly PeerTag[]>> = {
  idle: ['settled'],
  probing: ['negotiating'],
  legacyProbe: ['negotiating'],
  modern: ['settled', 'callable'],
  legacy: ['settled', 'callable'],
  reconnecting: ['negotiating'],
  unavailable: ['settled', 'failed'],
  stopped: ['settled'],
};

/** The child that runs in a state from its beginning; where calls are served, others join it. */
export const childOf: Readonly<Record<PeerStateName, ChildName | null>> = {
  idle: null,
  probing: 'probe',
  legacyProbe: 'initialize',
  modern: 'catalog',
  legacy: 'catalog',
  reconnecting: null,
  unavailable: null,
  stopped: null,
};

/** N12 and N21: what forbids `initialize` from then on. */
export function isModernEvidence(type: string): boolean {
  return (
    type === 'discover.result' ||
    type === 'discover.unsupportedVersion' ||
    type === 'discover.correctable' ||
    type === 'discover.uncorrectable' ||
    type === 'peer.modernEvidence'
  );
}

/** Longest delay of a timer in Node. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

export class PeerModel {
  readonly options: PeerModelOptions;
  state: PeerStateName = 'idle';
  era: Era | 'unknown' = 'unknown';
  revision: string | null = null;
  server: { readonly name: string; readonly version: string } | null = null;
  reason: ReasonCode | null = null;
  /** Whether time may cure the reason. */
  curable = false;
  probeRevision: string;
  corrected = false;
  attempts = 0;
  modernSeen = false;
  /** The ledger's: modern evidence was given in whatever state. */
  forbidden = false;
  /** `initialize` requests of this negotiation. */
  initializeSent = 0;
  hasConnection = false;
  /** When the deadline of the state is, on the scale of the given `nowMs`. */
  deadlineMs: number | null = null;
  /** Children that run besides the one of the state. */
  wanted: ChildName[] = [];
  /** The wait is over, and a turn is awaited. */
  turnAsked = false;
  /** The connection lived for `stableAfterMs`. */
  isStable = false;
  /** Connections in a row that did not. */
  shortLives = 0;
  /** The reason names the crash loop. */
  isCrashLoop = false;
  /** Set by a stimulus that began a wait: what the chart may have chosen. */
  backoff: BackoffRange | null = null;

  private nowMs = 0;
  private drawnMs = 0;
  private released = false;
  private stopped: ChildName[] = [];
  private started: Started | null = null;
  private told: Told | null = null;

  constructor(options: PeerModelOptions) {
    this.options = options;
    this.probeRevision = options.preferredRevision;
  }

  /** N7, N8, N9, N12. */
  get mayProbeLegacy(): boolean {
    const { allowLegacy, isGuardOverridden } = this.options;
    return isGuardOverridden || (allowLegacy && !this.forbidden && this.initializeSent === 0);
  }

  /** @param drawnMs the wait that the chart chose, if it did: chance is not the model's to predict */
  take(stimulus: Stimulus, nowMs: number, drawnMs: number): Effects {
    this.nowMs = nowMs;
    this.drawnMs = drawnMs;
    this.released = false;
    this.stopped = [];
    this.started = null;
    this.told = null;
    this.backoff = null;
    if (this.state !== 'stopped') this.react(stimulus);
    const { released, stopped, started, told } = this;
    return { released, stopped, started, told };
  }

  private react(stimulus: Stimulus): void {
    if (isModernEvidence(stimulus.type)) this.forbidden = true;
    switch (stimulus.type) {
      case 'host.stop':
        this.enter('stopped');
        return;
      case 'fault':
        this.fail('internal');
        return;
      case 'deadline':
        this.reachDeadline();
        return;
      case 'peer.modernEvidence':
        this.modernSeen = true;
        if (this.state === 'legacyProbe' || this.state === 'legacy') {
          this.release();
          this.negotiate();
        }
        return;
    }
    switch (this.state) {
      case 'idle':
        if (stimulus.type === 'host.start') this.negotiate();
        return;
      case 'probing':
        this.judgeProbe(stimulus);
        return;
      case 'legacyProbe':
        this.judgeInitialize(stimulus);
        return;
      case 'modern':
      case 'legacy':
        this.serve(stimulus);
        return;
      case 'reconnecting':
        if (stimulus.type === 'host.retry') this.retry();
        if (stimulus.type === 'turn.granted' && this.turnAsked) this.negotiate();
        return;
      case 'unavailable':
        if (stimulus.type === 'host.retry' || stimulus.type === 'host.authorized') this.retry();
        if (stimulus.type === 'turn.granted' && this.turnAsked) this.retry();
        return;
    }
  }

  private judgeProbe(event: PeerEvent): void {
    switch (event.type) {
      case 'discover.result': // N2
        this.modernSeen = true;
        this.select('modern', event);
        return;
      case 'discover.unsupportedVersion': // N3
        this.modernSeen = true;
        this.probeRevision = event.revision;
        this.enter('probing');
        return;
      case 'discover.correctable': // N4
        this.modernSeen = true;
        if (this.corrected) {
          this.fail(event.reason.code);
          return;
        }
        this.corrected = true;
        this.enter('probing');
        return;
      case 'discover.uncorrectable': // N4, N21
        this.modernSeen = true;
        this.fail(event.reason.code);
        return;
      case 'discover.noMutualVersion': // N3, N13
      case 'discover.unauthorized': // N6
        this.fail(event.reason.code);
        return;
      case 'discover.ambiguous': // N7
      case 'discover.legacyOnly': // N13
        if (this.mayProbeLegacy) this.enter('legacyProbe');
        else this.fail(event.reason.code);
        return;
      case 'discover.noSignal': // N6
        if (event.terminal) {
          this.fail(event.reason.code);
          return;
        }
        this.wait(event.reason.code, event.retryAfterMs ?? 0, true);
        return;
    }
  }

  private judgeInitialize(event: PeerEvent): void {
    // N10: nothing else selects legacy.
    if (event.type === 'initialize.result') {
      this.select('legacy', event);
      return;
    }
    if (event.type === 'initialize.rejected' || event.type === 'initialize.unauthorized') {
      this.fail(event.reason.code); // N9, N10
    }
  }

  /** N14. */
  private serve(event: PeerEvent): void {
    if (event.type === 'transport.lost') this.lose(event.reason.code);
    // A modern connection has no session to lose.
    if (event.type === 'session.lost' && this.state === 'legacy') this.lose(event.reason.code);
    // Calls in flight are not cut.
    if (event.type === 'call.unsupportedVersion') this.wait(event.reason.code, 0, false);
    if (event.type === 'catalog.wanted' && event.kind !== 'tools') this.want(`catalog:${event.kind}`, null);
    // A legacy peer announces its changes unasked.
    if (event.type === 'subscription.wanted' && this.state === 'modern')
      this.want('subscription', 'subscription filter.changed');
    if (event.type === 'breaker.wanted') {
      this.want('breaker', null);
      this.told = 'breaker call.failed';
    }
  }

  /** Starts a child, or tells the one that is there. */
  private want(child: ChildName, told: Told | null): void {
    if (this.wanted.includes(child)) this.told = told;
    else {
      this.wanted.push(child);
      this.start(child);
    }
  }

  private lose(reason: ReasonCode): void {
    if (!this.isStable) this.shortLives += 1;
    this.wait(reason, 0, true);
    this.isCrashLoop = this.state === 'unavailable' && this.shortLives > 1;
  }

  private reachDeadline(): void {
    switch (this.state) {
      case 'probing':
      case 'legacyProbe':
        this.fail('transport-broke-deadline');
        return;
      case 'modern':
      case 'legacy':
        this.attempts = 0;
        this.shortLives = 0;
        this.isStable = true;
        this.deadlineMs = null;
        return;
      case 'reconnecting':
      case 'unavailable':
        this.deadlineMs = null;
        this.turnAsked = true;
        if (this.options.turnsComeLater) return;
        if (this.state === 'unavailable') this.retry();
        else this.negotiate();
        return;
    }
  }

  private retry(): void {
    this.attempts = 0;
    this.shortLives = 0;
    this.negotiate();
  }

  /** N1, N14: each negotiation starts from nothing. */
  private negotiate(): void {
    this.probeRevision = this.options.preferredRevision;
    this.corrected = false;
    this.initializeSent = 0;
    this.enter('probing');
  }

  private select(
    era: Era,
    facts: { readonly revision: string; readonly server: { name: string; version: string } | null },
  ): void {
    this.enter(era);
    this.isStable = false;
    this.era = era;
    this.revision = facts.revision;
    this.server = facts.server;
  }

  private fail(reason: ReasonCode, curable = false, askedMs = 0): void {
    this.enter('unavailable');
    this.reason = reason;
    this.curable = curable;
    const { retryUnavailableAfterMs } = this.options;
    const isRetried = curable && retryUnavailableAfterMs > 0;
    this.deadlineMs = isRetried
      ? this.nowMs + Math.min(Math.max(retryUnavailableAfterMs, askedMs), LONGEST_DELAY_MS)
      : null;
  }

  private wait(reason: ReasonCode, askedMs: number, givesUpConnection: boolean): void {
    const { maxAttempts, backoffMinMs, backoffMaxMs } = this.options;
    if (this.attempts >= maxAttempts) {
      this.fail(reason, true, askedMs);
      return;
    }
    const ceiling = Math.min(backoffMaxMs, backoffMinMs * 2 ** this.attempts);
    this.backoff = {
      min: Math.min(askedMs, LONGEST_DELAY_MS),
      max: Math.min(Math.max(askedMs, ceiling), LONGEST_DELAY_MS),
    };
    if (givesUpConnection) this.release();
    this.enter('reconnecting');
    this.attempts += 1;
    this.reason = reason;
    this.curable = true;
    this.deadlineMs = this.nowMs + this.drawnMs;
  }

  private release(): void {
    this.released ||= this.hasConnection;
    this.hasConnection = false;
  }

  /** Leaves one state and enters another, or the same anew. What a state holds is lost with it. */
  private enter(state: PeerStateName): void {
    const running = childOf[this.state];
    this.stopped = running === null ? [] : [running, ...this.wanted];
    this.wanted = [];
    this.turnAsked = false;
    this.isCrashLoop = false;
    this.era = 'unknown';
    this.revision = null;
    this.server = null;
    this.reason = null;
    this.curable = false;
    this.state = state;
    this.deadlineMs = this.deadlineOf(state);
    if (state === 'unavailable' || state === 'stopped') this.release();
    const child = childOf[state];
    if (child !== null) this.start(child);
  }

  private deadlineOf(state: PeerStateName): number | null {
    const { probeTimeoutMs, legacyProbeTimeoutMs, stableAfterMs } = this.options;
    if (state === 'probing') return this.nowMs + probeTimeoutMs + BACKSTOP_MS;
    if (state === 'legacyProbe') return this.nowMs + legacyProbeTimeoutMs + BACKSTOP_MS;
    if (state === 'modern' || state === 'legacy') return this.nowMs + stableAfterMs;
    return null;
  }

  private start(child: ChildName): void {
    const isProbe = child === 'probe';
    const fresh = !this.hasConnection;
    this.hasConnection = true;
    if (child === 'initialize') this.initializeSent += 1;
    this.started = {
      child,
      fresh,
      revision: isProbe ? this.probeRevision : null,
      correction: isProbe && this.corrected,
    };
  }
}
