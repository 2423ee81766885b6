/** One request on its way: what the transport sees of it (an {@link Exchange}) and what settles it. */
import type { Outcome } from '../protocol/exchange.js';
import type { JsonObject, JsonRpcError, JsonValue } from '../protocol/jsonRpc.js';
import { ignoreAbort, listenToAbort } from './abortFanout.js';
import type { Exchange, StreamEnd } from './transport.js';

export interface Progress {
  readonly progress: number;
  readonly total: number | undefined;
  readonly message: string | undefined;
}

/** What progress does for a request that asked for it. Times are clock times. */
export interface ProgressTerms {
  readonly listener: (progress: Progress) => void;
  /** A report puts the deadline so far from now, if it was nearer. */
  readonly extendByMs: number;
  deadline: number;
  /** No deadline is put behind it. */
  readonly latest: number;
}

/** What the connection does for its requests. */
export interface PendingOwner {
  /** The request has an outcome: forget it. */
  settled(request: PendingRequest): void;
  /** Progress was reported. */
  progressed(request: PendingRequest, terms: ProgressTerms): void;
  /** The answer stream of a settled request has ended. */
  streamEnded(request: PendingRequest): void;
  /** The deadline has passed, or the caller aborted: take it back from the wire. */
  withdraw(request: PendingRequest, reason: string): void;
}

/** Something in answer to a lone POST that is no answer to its request (N20). */
type Stray = { readonly error: JsonRpcError } | { readonly detail: string };

/**
 * Settles exactly once. The hot path (sent, answered) allocates this object, its promise and its outcome, nothing
 * else; so the members are plain and no closure is made per request.
 */
export class PendingRequest implements Exchange {
  readonly id: number;
  readonly method: string;
  readonly headers: Readonly<Record<string, string>> | undefined;
  readonly outcome: Promise<Outcome>;
  written = false;
  redirected = false;
  refusal: Exchange['refusal'] = null;
  decided: StreamEnd | null = null;
  /** Null once it is settled. */
  timer: unknown = null;
  timeoutMs = 0;
  /** Absent where progress was not asked for. */
  progress: ProgressTerms | undefined;
  /** The caller's own check in the tick of the write. */
  check: (() => boolean) | undefined;
  /** Neither cancelled on the wire nor closed when its deadline passes (N9: the probe, `initialize`). */
  keepListening = false;
  /** Listens until the server ends it; has no deadline and is not counted as in flight. */
  isStanding = false;
  isSettled = false;
  /** Settled by a message, so that its answer stream may still be open (HTTP). */
  settledByMessage = false;
  private resolve!: (outcome: Outcome) => void;
  private stray: Stray | undefined;
  private signal: AbortSignal | undefined;
  private readonly owner: PendingOwner;

  constructor(
    owner: PendingOwner,
    id: number,
    method: string,
    headers: Readonly<Record<string, string>> | undefined,
  ) {
    this.owner = owner;
    this.id = id;
    this.method = method;
    this.headers = headers;
    this.outcome = new Promise((resolve) => {
      this.resolve = resolve;
    });
  }

  get isAwaited(): boolean {
    return !this.isSettled;
  }

  mayWrite(): boolean {
    // The check may have settled it.
    return !this.isSettled && (this.check === undefined || (this.check() && !this.isSettled));
  }

  /** Listens to the caller's signal until settled. */
  listenTo(signal: AbortSignal): void {
    this.signal = signal;
    listenToAbort(signal, this);
  }

  /** `AbortListener` */
  aborted(): void {
    if (this.isSettled) return;
    this.owner.withdraw(this, 'the caller aborted');
    this.settle({ kind: 'cancelled', written: this.written, detail: 'the caller aborted' });
  }

  /**
   * Nothing came: `outcome` says how that ended. Where the last that came was a refusal, and credentials for it were
   * being obtained, the refusal is the answer, and where it was a head that says all, that is: silence would read as
   * ambiguous (N5, N6).
   */
  settleUnanswered(outcome: Outcome): void {
    const { refusal, decided, written, redirected } = this;
    if (refusal !== null) this.settle({ kind: 'unauthorized', written, redirected, ...refusal });
    else this.settle(decided === null ? outcome : this.outcomeOf(decided));
  }

  settle(outcome: Outcome): void {
    if (this.isSettled) return;
    this.isSettled = true;
    if (this.signal !== undefined) ignoreAbort(this.signal, this);
    this.owner.settled(this);
    this.resolve(outcome);
  }

  settleResult(result: JsonValue): void {
    this.settledByMessage = true;
    this.settle({ kind: 'result', written: this.written, redirected: this.redirected, result });
  }

  settleError(error: JsonRpcError, correlated: boolean): void {
    this.settledByMessage = true;
    this.settle({ kind: 'error', written: this.written, redirected: this.redirected, error, correlated });
  }

  settleMalformed(detail: string): void {
    this.settledByMessage = true;
    this.settle({ kind: 'malformed', written: this.written, redirected: this.redirected, detail });
  }

  /** The server says that it will not answer. */
  settleCancelled(detail: string): void {
    this.settledByMessage = true;
    this.settle({ kind: 'cancelled', written: this.written, detail });
  }

  /** False where this request did not ask for progress, or the report is none. */
  hearProgress(params: JsonObject): boolean {
    const terms = this.progress;
    const progress = terms === undefined || !this.written ? undefined : readProgress(params);
    if (terms === undefined || progress === undefined) return false;
    this.owner.progressed(this, terms);
    try {
      terms.listener(progress);
    } catch {
      // A caller's listener that throws harms nothing.
    }
    return true;
  }

  /** Remembers the first thing that came in this answer and is none; the end of the stream settles with it. */
  remember(stray: Stray): void {
    this.stray ??= stray;
  }

  onEnd(end: StreamEnd): void {
    if (this.isSettled) this.owner.streamEnded(this);
    else this.settle(this.outcomeOf(end));
  }

  private outcomeOf(end: StreamEnd): Outcome {
    const { written } = this;
    if (end.kind === 'withheld') return { kind: 'withheld', written: false };
    const { redirected } = end;
    switch (end.kind) {
      case 'unauthorized':
        return { kind: 'unauthorized', written, redirected, status: end.status, challenge: end.challenge };
      case 'unreachable':
        return { kind: 'unreachable', written, redirected, cause: end.cause };
      case 'broken':
        return { kind: 'closed', written, redirected, cause: end.cause };
      case 'complete':
      case 'malformed':
      case 'status':
        break;
    }
    const { status } = end;
    if (end.kind === 'status' && status === 404 && end.hadSession) {
      return { kind: 'session-lost', written, redirected, status };
    }
    const { stray } = this;
    if (stray !== undefined && 'error' in stray) {
      return { kind: 'error', written, redirected, status, error: stray.error, correlated: false };
    }
    if (stray !== undefined) return { kind: 'malformed', written, redirected, status, detail: stray.detail };
    if (end.kind === 'complete') {
      const cause = { kind: 'stream-ended', detail: `HTTP ${status}, ended without an answer` } as const;
      return { kind: 'closed', written, redirected, status, cause };
    }
    const detail = end.kind === 'status' ? `HTTP ${status} (${end.detail})` : end.detail;
    return { kind: 'malformed', written, redirected, status, detail };
  }
}

/** Servers write `null` for what they do not know; anything else that is not of its type spoils the report. */
function readProgress(params: JsonObject): Progress | undefined {
  const { progress, total = null, message = null } = params;
  if (typeof progress !== 'number' || !Number.isFinite(progress)) return undefined;
  if (total !== null && typeof total !== 'number') return undefined;
  if (message !== null && typeof message !== 'string') return undefined;
  return { progress, total: total ?? undefined, message: message ?? undefined };
}
