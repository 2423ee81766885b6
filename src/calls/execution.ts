/**
 * One request on behalf of a caller: its place in the peer's budget, the write, rounds of input, repetition after a
 * reconnect, all under one deadline.
 *
 * The way of nearly every call is {@link Execution.begin} and {@link Execution.conclude}, both synchronous; what needs to
 * wait goes on in {@link Execution.proceed}.
 *
 * What may be sent again: a request that was provably not written; one that may have been executed only where the host
 * says that it is repeatable. An outcome never claims `not-sent` when an earlier attempt was written.
 */
import type { Outcome } from '../protocol/exchange.js';
import { isJsonObject, type JsonObject } from '../protocol/jsonRpc.js';
import type { Connection } from '../transports/connection.js';
import type { Admission, CallPort, Channel, PeerCalls } from './callPort.js';
import { readInputRequired } from './inputRequired.js';
import type { CallProgress, Delivery } from './outcome.js';
import { answerRound } from './rounds.js';
import { type Interruption, LONGEST_TIMEOUT_MS, type Waited, waitUntil } from './waiting.js';

/** A repeatable call is sent so often at most. */
const MAX_SENDS = 4;
/** First wait before a call is repeated on the same connection; doubles, with jitter. */
const REPEAT_AFTER_MS = 250;

/** What is to be sent. */
export interface ExecutionRequest {
  readonly method: string;
  /** Serialized members of `params`, without inputs and `_meta`. */
  readonly members: string;
  /** `params.name` or `params.uri`. */
  readonly target: string;
  /** Requests of one peer with the same key run one after the other. */
  readonly key: string | undefined;
  /** Whether the server may ask for input. */
  readonly hasRounds: boolean;
  readonly isRepeatable: () => boolean;
  /** Asked in the tick of the write, besides the connection: is the route still the same? */
  readonly isStillMeant: () => boolean;
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number | undefined;
  readonly onProgress: ((progress: CallProgress) => void) | undefined;
  readonly meta: JsonObject | undefined;
}

/** What the request came to: an outcome of the wire, or why there is none. */
export type Conclusion =
  | { readonly kind: 'outcome'; readonly outcome: Outcome }
  | {
      readonly kind: 'refused';
      readonly status: 'unavailable' | 'timeout' | 'cancelled' | 'protocol-error';
      readonly delivery: Delivery;
      readonly message: string;
    };

type Sent = ReturnType<Connection['request']>;

export class Execution {
  readonly startedAt: number;
  /** Of the last attempt. */
  channel: Channel | null = null;
  requestId: number | null = null;
  /** Requests that were written. */
  attempts = 0;
  private readonly port: CallPort;
  private readonly peer: PeerCalls;
  private readonly request: ExecutionRequest;
  private readonly timeoutMs: number;
  private deadline: number;
  private sentAt = 0;
  private admission: Admission = 'pass';
  private hasPlace = false;
  private rounds = 0;
  /** Serialized inputs of the round to come. */
  private inputs = '';

  constructor(port: CallPort, peer: PeerCalls, request: ExecutionRequest, startedAt: number) {
    this.port = port;
    this.peer = peer;
    this.request = request;
    this.startedAt = startedAt;
    // `NaN` and nonsense count as no time at all.
    this.timeoutMs = Math.min(request.timeoutMs ?? port.callTimeoutMs, LONGEST_TIMEOUT_MS);
    this.deadline = this.timeoutMs > 0 ? startedAt + this.timeoutMs : startedAt;
  }

  /** Whether the last request carried answers to a server's questions: its result is never cached. */
  get hadInputs(): boolean {
    return this.inputs !== '';
  }

  /** Sends the request if it can be sent now; null: go on with {@link proceed}. */
  begin(): Sent | Conclusion | null {
    const channel = this.peer.channel();
    if (typeof channel === 'string') return this.refuse('unavailable', channel);
    if (channel === null || !this.peer.budget.tryEnter(this.request.key)) return null;
    this.hasPlace = true;
    return this.send(channel);
  }

  /** What an outcome means; null: go on with {@link proceed}. */
  conclude(outcome: Outcome): Conclusion | null {
    this.heard(outcome);
    if (outcome.kind === 'result') {
      if (this.asksForInput(outcome.result)) return null;
    } else if (this.mayGoOn(outcome)) {
      return null;
    }
    return this.end({ kind: 'outcome', outcome });
  }

  /** From a place in the queue to the end, or on from an outcome that {@link conclude} did not take for the end. */
  async proceed(last: Outcome | null): Promise<Conclusion> {
    try {
      return await this.goOn(last);
    } finally {
      this.leave();
    }
  }

  private async goOn(last: Outcome | null): Promise<Conclusion> {
    let outcome = last;
    for (;;) {
      let channel: Channel | Conclusion;
      if (outcome === null) {
        channel = await this.waitForPlace();
      } else if (outcome.kind === 'result') {
        const refused = await this.answer(outcome.result as JsonObject);
        channel = refused ?? (await this.currentChannel(null));
      } else {
        channel = await this.waitForRepetition(outcome);
      }
      if (!('connection' in channel)) return channel;
      const sent = this.send(channel);
      if (!('id' in sent)) return sent;
      outcome = await sent.outcome;
      const end = this.conclude(outcome);
      if (end !== null) return end;
    }
  }

  private send(channel: Channel): Sent | Conclusion {
    const { peer, port, request } = this;
    const { connection } = channel;
    const now = port.clock.now();
    const left = this.deadline - now;
    // Also where the caller gave no number.
    if (!(left > 0)) return this.interrupted('timeout');
    if (this.inputs !== '' && channel.era !== 'modern') {
      return this.refuse('protocol-error', 'The server changed its era while it waited for input.');
    }
    const admission = peer.admit();
    if (typeof admission === 'object') return this.refuse('unavailable', admission.refused);
    this.admission = admission;
    this.channel = channel;
    this.sentAt = now;
    const { onProgress } = request;
    const sent = connection.request(
      request.method,
      this.inputs === '' ? request.members : `${request.members},${this.inputs}`,
      {
        timeoutMs: left,
        signal: request.signal,
        meta: request.meta,
        name: request.target,
        // In the tick of the write, with no await between: what was checked before, once more.
        mayWrite: () => peer.isCurrent(connection) && request.isStillMeant(),
        ...(onProgress === undefined
          ? undefined
          : {
              onProgress: (progress: CallProgress) => {
                this.extend();
                onProgress(progress);
              },
              extendByMs: this.timeoutMs,
              maxTotalMs: this.startedAt + port.maxCallMs - now,
            }),
      },
    );
    this.requestId = sent.id;
    return sent;
  }

  /** A report of progress moves the one deadline, up to the longest life of a call. */
  private extend(): void {
    const latest = this.startedAt + this.port.maxCallMs;
    this.deadline = Math.max(this.deadline, Math.min(this.port.clock.now() + this.timeoutMs, latest));
  }

  private heard(outcome: Outcome): void {
    if (outcome.written) this.attempts += 1;
    const { connection } = this.channel as Channel;
    this.peer.settled(connection, outcome, this.port.clock.now() - this.sentAt, this.admission);
  }

  private asksForInput(result: unknown): boolean {
    return (
      this.request.hasRounds &&
      this.channel?.era === 'modern' &&
      isJsonObject(result) &&
      result['resultType'] === 'input_required'
    );
  }

  /** Whether the request may be sent again after this. */
  private mayGoOn(outcome: Exclude<Outcome, { kind: 'result' }>): boolean {
    if (this.port.isEnding() || this.request.signal?.aborted === true) return false;
    switch (outcome.kind) {
      case 'withheld':
        return this.request.isStillMeant();
      case 'closed':
        return !outcome.written || this.mayRepeat();
      case 'unreachable':
        if (outcome.cause.terminal) return false;
        return (!outcome.written && isUnconnected(outcome)) || this.mayRepeat();
      case 'session-lost':
        return this.mayRepeat();
      default:
        return false;
    }
  }

  private mayRepeat(): boolean {
    return this.attempts < MAX_SENDS && this.request.isRepeatable();
  }

  /** A place in the budget of the peer, then its channel. */
  private async waitForPlace(): Promise<Channel | Conclusion> {
    const { budget } = this.peer;
    if (!budget.tryEnter(this.request.key)) {
      const waiting = budget.wait(this.request.key);
      if (waiting === null) {
        return this.refuse(
          'unavailable',
          `Too many calls wait for ${this.peer.name} already; call again later.`,
        );
      }
      const waited = await this.wait(waiting.turn);
      if (waited.kind !== 'done') {
        waiting.cancel();
        return this.interrupted(waited.kind);
      }
      if (waited.value === 'closed')
        return this.refuse('unavailable', `The peer ${this.peer.name} was removed.`);
    }
    this.hasPlace = true;
    return this.currentChannel(null);
  }

  /** The channel, when the peer is callable on another connection than `not`. */
  private async currentChannel(not: Connection | null): Promise<Channel | Conclusion> {
    const now = this.peer.channel();
    if (now !== null && typeof now === 'object' && now.connection !== not) return now;
    const coming = this.peer.whenCallable(not);
    const waited = await this.wait(coming.promise);
    coming.cancel();
    if (waited.kind !== 'done') return this.interrupted(waited.kind);
    return typeof waited.value === 'string' ? this.refuse('unavailable', waited.value) : waited.value;
  }

  /** Waits until the request can be sent again. What goes wrong meanwhile leaves the outcome that is there. */
  private async waitForRepetition(
    outcome: Exclude<Outcome, { kind: 'result' }>,
  ): Promise<Channel | Conclusion> {
    const { connection } = this.channel as Channel;
    if (outcome.kind === 'unreachable' && !isUnconnected(outcome)) {
      const paused = await this.pause(outcome.cause.retryAfterMs ?? 0);
      if (paused.kind !== 'done') return { kind: 'outcome', outcome };
    }
    const isGone = outcome.kind === 'closed' || outcome.kind === 'session-lost' || isUnconnected(outcome);
    const next = await this.currentChannel(isGone ? connection : null);
    if ('connection' in next) return next;
    // It may have been executed, or it is known best how it ended.
    return outcome.written ? { kind: 'outcome', outcome } : next;
  }

  private async pause(askedMs: number): Promise<Waited<void>> {
    const { clock, random } = this.port;
    const backoff = REPEAT_AFTER_MS * 2 ** this.attempts * (0.5 + random() / 2);
    const ms = Math.max(askedMs, backoff);
    // One that cannot end in time is not begun.
    if (clock.now() + ms >= this.deadline) return { kind: 'timeout' };
    let timer: unknown;
    const over = new Promise<void>((resolve) => {
      timer = clock.setTimeout(() => resolve(), ms);
    });
    const waited = await this.wait(over);
    clock.clearTimeout(timer);
    return waited;
  }

  /** Answers what the server asks for. Null: the next round can be sent. */
  private async answer(result: JsonObject): Promise<Conclusion | null> {
    const { port, request, peer } = this;
    const asked = readInputRequired(result);
    if (asked.kind === 'invalid')
      return this.broken(`The server asked for input in an invalid way: ${asked.problem}.`);
    this.rounds += 1;
    if (this.rounds > port.maxRounds) {
      return this.broken(`The server asked for input more than ${port.maxRounds} times in one call.`);
    }
    const control = new AbortController();
    const answered = await this.wait(
      answerRound(port.handlers, asked, {
        peer: peer.name,
        era: 'modern',
        request: { method: request.method, target: request.target },
        signal: control.signal,
      }),
    );
    if (answered.kind !== 'done') {
      control.abort();
      return this.interrupted(answered.kind);
    }
    const { value } = answered;
    if (value.ok) {
      this.inputs = value.members;
      return null;
    }
    return value.reason === 'handler-failed' || value.reason === 'cancelled'
      ? this.end({ kind: 'refused', status: 'cancelled', delivery: 'answered', message: value.message })
      : this.broken(value.message);
  }

  private wait<T>(promise: Promise<T>): Promise<Waited<T>> {
    const { clock } = this.port;
    return waitUntil(promise, {
      clock,
      // Nothing extends the deadline while nothing is on the wire.
      deadline: this.deadline,
      signal: this.request.signal,
      onEnding: this.port.onEnding,
    });
  }

  private interrupted(how: Interruption): Conclusion {
    switch (how) {
      case 'timeout':
        return this.refuse(
          'timeout',
          `The deadline passed${this.attempts === 0 ? ' before the call was sent' : ''}.`,
        );
      case 'cancelled':
        return this.refuse('cancelled', 'The call was cancelled by its caller.');
      case 'ending':
        return this.refuse('cancelled', 'The call was cancelled: the host was stopped.');
    }
  }

  private broken(message: string): Conclusion {
    return this.end({ kind: 'refused', status: 'protocol-error', delivery: 'answered', message });
  }

  private refuse(
    status: 'unavailable' | 'timeout' | 'cancelled' | 'protocol-error',
    message: string,
  ): Conclusion {
    const delivery = this.attempts === 0 ? 'not-sent' : 'unknown';
    return this.end({
      kind: 'refused',
      status,
      delivery,
      message: delivery === 'unknown' ? `${message} The call may have been executed in part.` : message,
    });
  }

  private end(conclusion: Conclusion): Conclusion {
    this.leave();
    return conclusion;
  }

  private leave(): void {
    if (!this.hasPlace) return;
    this.hasPlace = false;
    this.peer.budget.leave(this.request.key);
  }
}

function isUnconnected(outcome: Outcome): boolean {
  return outcome.kind === 'unreachable' && outcome.cause.kind === 'connect-failed';
}
