/**
 * What callers see of one peer: its budget, its breaker, whether it is callable, and the statistics of its requests.
 * While the breaker is closed a call costs a comparison here.
 */
import { Budget } from '../calls/budget.js';
import type { Admission, Channel, Coming, PeerCalls } from '../calls/callPort.js';
import type { Outcome } from '../protocol/exchange.js';
import type { Clock } from '../transports/clock.js';
import type { Connection } from '../transports/connection.js';
import type { ResolvedOptions, ResolvedPeer } from './config.js';
import { Latency } from './latency.js';
import type { BreakerRef, PeerChart } from './peerChart.js';
import type { PeerStatus } from './status.js';

export type BreakerState = PeerStatus['breaker'];

/** What the gate needs of the peer's owner. */
export interface GatedPeer {
  readonly name: string;
  readonly connection: Connection | null;
  readonly channel: Channel | null;
  /** The tools were listed on this connection, or could not be. */
  readonly hasListed: boolean;
  /** Why there is no channel at this moment, in one sentence. */
  notCallable(): string;
  /** Why there will be none soon, in one sentence; null where one is coming. */
  whyNot(): string | null;
  readonly chart: PeerChart;
  countFault(kind: string): void;
  redact(text: string): string;
  noticed(connection: Connection, outcome: Outcome): void;
  readonly lists: { relistTools(): Promise<string | null> };
}

type Waiter = (value: Channel | string) => void;

export class PeerGate implements PeerCalls {
  readonly name: string;
  readonly budget: Budget;
  readonly serialize: ReadonlySet<string>;
  readonly repeatable: ReadonlySet<string>;
  readonly latency = new Latency();
  private readonly peer: GatedPeer;
  private readonly clock: Clock;
  private readonly threshold: number;
  private readonly waiters = new Set<Waiter>();
  private readonly mourners = new Set<(reason: string) => void>();
  /** Failures in a row, as the breaker counts them. */
  private failures = 0;
  private state: BreakerState = 'closed';
  private isTrialOut = false;
  /** When the breaker closed last: what was sent before that says nothing any more. */
  private closedAt = Number.NEGATIVE_INFINITY;
  private watched: BreakerRef | null = null;
  private error: { readonly message: string; readonly at: number } | null = null;

  constructor(peer: GatedPeer, config: ResolvedPeer, limits: ResolvedOptions, clock: Clock) {
    this.peer = peer;
    this.name = peer.name;
    this.clock = clock;
    this.threshold = limits.breakerThreshold;
    this.budget = new Budget({
      maxInFlight: config.maxInFlight ?? limits.maxInFlight,
      maxQueue: config.maxQueue ?? limits.maxQueue,
    });
    this.serialize = new Set(config.serialize);
    this.repeatable = new Set(config.repeatable);
  }

  channel(): Channel | null | string {
    const { channel, hasListed } = this.peer;
    if (channel !== null) return hasListed ? channel : null;
    return this.peer.notCallable();
  }

  whenCallable(): Coming<Channel | string> {
    let waiter: Waiter = () => undefined;
    const promise = new Promise<Channel | string>((resolve) => {
      waiter = resolve;
    });
    this.waiters.add(waiter);
    this.wake(waiter);
    return { promise, cancel: () => void this.waiters.delete(waiter) };
  }

  whenGone(): Coming<string> {
    let tell: (reason: string) => void = () => undefined;
    const promise = new Promise<string>((resolve) => {
      tell = resolve;
    });
    this.mourners.add(tell);
    this.tellIfGone();
    return { promise, cancel: () => void this.mourners.delete(tell) };
  }

  isCurrent(connection: Connection): boolean {
    return this.peer.connection === connection && this.peer.channel !== null;
  }

  admit(): Admission | { readonly refused: string } {
    if (this.state === 'closed') return 'pass';
    if (this.state === 'open' || this.isTrialOut) {
      const cause = this.breakerCause();
      return {
        refused: `Calls to ${this.name} are held back, since the last ones failed (${cause}); call again later.`,
      };
    }
    this.isTrialOut = true;
    this.peer.chart.breaker()?.send({ type: 'trial.begun' });
    return 'trial';
  }

  settled(connection: Connection, outcome: Outcome, durationMs: number, admission: Admission): void {
    if (outcome.kind === 'result') {
      this.latency.record(durationMs);
      if (this.failures > 0 || admission === 'trial') this.succeeded(connection, admission);
      return;
    }
    const cause = failureOf(outcome);
    if (cause !== null) {
      const isOld = this.clock.now() - durationMs < this.closedAt;
      this.failed(connection, this.peer.redact(cause), admission, isOld);
    } else if (isAnswer(outcome)) {
      if (this.failures > 0 || admission === 'trial') this.succeeded(connection, admission);
    } else {
      this.abandoned(connection, admission);
    }
    this.peer.noticed(connection, outcome);
  }

  relist(): Promise<string | null> {
    return this.peer.lists.relistTools();
  }

  countFault(kind: 'absent-result-type' | 'policy'): void {
    this.peer.countFault(kind);
  }

  /** Something went wrong: kept as the peer's last error. */
  noteError(message: string): void {
    this.error = { message, at: this.clock.now() };
  }

  get lastError(): PeerStatus['lastError'] {
    return this.error === null
      ? null
      : { message: this.error.message, agoMs: Math.max(0, Math.round(this.clock.now() - this.error.at)) };
  }

  get breakerState(): BreakerState {
    return this.state;
  }

  /** The state of the peer, its connection or its lists changed: whoever waits for it is told. */
  wakeAll(): void {
    for (const waiter of [...this.waiters]) this.wake(waiter);
    this.tellIfGone();
  }

  /** The connection is over, and the breaker with it. */
  connectionEnded(): void {
    this.failures = 0;
    this.state = 'closed';
    this.isTrialOut = false;
    this.closedAt = Number.NEGATIVE_INFINITY;
    this.watched = null;
  }

  /** The peer is over: whoever waits is told. */
  close(): void {
    this.budget.close();
    this.wakeAll();
  }

  private tellIfGone(): void {
    if (this.mourners.size === 0) return;
    const reason = this.peer.channel === null ? this.peer.whyNot() : null;
    if (reason === null) return;
    const told = [...this.mourners];
    this.mourners.clear();
    for (const tell of told) tell(reason);
  }

  private wake(waiter: Waiter): void {
    const { channel, hasListed } = this.peer;
    let value: Channel | string | null = null;
    if (channel !== null) {
      if (hasListed) value = channel;
    } else {
      value = this.peer.whyNot();
    }
    if (value === null) return;
    this.waiters.delete(waiter);
    waiter(value);
  }

  private succeeded(connection: Connection, admission: Admission): void {
    if (this.peer.connection !== connection) return;
    this.failures = 0;
    const breaker = this.peer.chart.breaker();
    if (admission === 'trial') {
      this.isTrialOut = false;
      this.closedAt = this.clock.now();
      breaker?.send({ type: 'trial.succeeded' });
    } else {
      breaker?.send({ type: 'call.succeeded' });
    }
  }

  private failed(connection: Connection, cause: string, admission: Admission, isOld: boolean): void {
    this.noteError(cause);
    if (this.threshold === 0 || this.peer.connection !== connection) return;
    if (admission === 'trial') {
      this.isTrialOut = false;
      this.peer.chart.breaker()?.send({ type: 'trial.failed', cause });
      return;
    }
    // What comes to a call from before, while it is held open or after it closed, says nothing.
    if (isOld || this.state !== 'closed') return;
    this.failures += 1;
    this.peer.chart.wantBreaker(cause);
    this.watch();
  }

  abandoned(connection: Connection, admission: Admission): void {
    if (admission !== 'trial' || this.peer.connection !== connection) return;
    this.isTrialOut = false;
    this.peer.chart.breaker()?.send({ type: 'trial.abandoned' });
  }

  /** Mirrors the state of the chart, so that a call reads a member. */
  private watch(): void {
    const breaker = this.peer.chart.breaker();
    if (breaker === undefined || breaker === this.watched) return;
    this.watched = breaker;
    const mirror = (): void => {
      if (this.watched === breaker) this.state = breaker.getSnapshot().value as BreakerState;
    };
    mirror();
    breaker.subscribe({ next: mirror, error: () => undefined });
  }

  private breakerCause(): string {
    return this.peer.chart.breaker()?.getSnapshot().context.cause ?? 'no detail';
  }
}

/** What counts against the transport. A tool's error, a refusal, a lost session or the caller's own abort does not. */
function failureOf(outcome: Outcome): string | null {
  switch (outcome.kind) {
    case 'timeout': {
      // A server that takes nothing any more is no better than one that does not answer.
      const missing = outcome.written ? 'answer' : 'write';
      return `no ${missing} within ${Math.round(outcome.timeoutMs)} ms`;
    }
    case 'closed':
      return outcome.cause.kind === 'host' ? null : outcome.cause.detail;
    case 'unreachable':
      return outcome.cause.detail;
    default:
      return null;
  }
}

/** Somebody at the far end is there, whatever they said. */
function isAnswer(outcome: Outcome): boolean {
  return outcome.kind === 'error' || outcome.kind === 'malformed' || outcome.kind === 'unauthorized';
}
