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
import { sanitizeText } from '../protocol/sanitize.js';
import type { Connection } from '../transports/connection.js';
import type { Admission, CallPort, Channel, PeerCalls } from './callPort.js';
import { correct, isHeaderMismatch } from './correction.js';
import type { Conclusion, ExecutionRequest } from './executionRequest.js';
import { inputsOf } from './inputWait.js';
import { interpretOutcome } from './interpret.js';
import type { CallProgress, Delivery } from './outcome.js';
import { MAX_SENDS, mayBeSentAgain, type NoResult, pauseMs } from './repetition.js';
import { type Interruption, LONGEST_TIMEOUT_MS, type Waited, waitUntil } from './waiting.js';

type Sent = ReturnType<Connection['request']>;

/** Nothing is sent again, since what was meant is not there any more. */
const WITHHELD: Conclusion = { kind: 'outcome', outcome: { kind: 'withheld', written: false } };

export class Execution {
  readonly startedAt: number;
  /** Of the last attempt. */
  channel: Channel | null = null;
  requestId: number | null = null;
  /** Requests that were written. */
  attempts = 0;
  /** Its headers were refused and derived anew: that is done once. */
  isCorrected = false;
  private readonly port: CallPort;
  private readonly peer: PeerCalls;
  private readonly request: ExecutionRequest;
  private readonly timeoutMs: number;
  /** One for the queue, all rounds, waits for a reconnect and repetitions. Progress moves it, up to {@link latest}. */
  private deadline: number;
  private readonly latest: number;
  private sentAt = 0;
  private admission: Admission = 'pass';
  private hasPlace = false;
  private rounds = 0;
  /** A request was written that got no answer. */
  private isUncertain = false;
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
    // What the caller gave is never shortened.
    this.latest = Math.max(startedAt + port.maxCallMs, this.deadline);
  }

  /**
   * The delivery of a call that ends while nothing of it is on the wire. A server that asked for input has answered: it
   * did not complete the call.
   */
  get unsent(): Delivery {
    if (this.attempts === 0) return 'not-sent';
    return this.isUncertain ? 'unknown' : 'answered';
  }

  /** Whether the last request carried answers to a server's questions: its result is never cached. */
  get hadInputs(): boolean {
    return this.inputs !== '';
  }

  /** All of it. A tool call takes the same steps by itself, since one more promise is felt there. */
  async run(): Promise<Conclusion> {
    const begun = this.begin();
    if (begun === null) return this.proceed(null);
    if (!('id' in begun)) return begun;
    const outcome = await begun.outcome;
    return this.conclude(outcome) ?? this.proceed(outcome);
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
        channel = refused ?? (await this.currentChannel());
      } else if (isHeaderMismatch(outcome, this.channel as Channel)) {
        channel = await this.correctHeaders(outcome);
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
    const { peer, port } = this;
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
    try {
      return this.write(channel, now, left);
    } catch (error) {
      // Something of the caller's cannot be written, such as a `_meta` that is no JSON.
      peer.abandoned(connection, admission);
      const why = error instanceof Error ? error.message : 'unknown error';
      return this.refuse('protocol-error', `The request cannot be made: ${sanitizeText(why, 200)}.`);
    }
  }

  private write({ connection, era }: Channel, now: number, left: number): Sent {
    const { peer, request } = this;
    const { onProgress } = request;
    const sent = connection.request(
      request.method,
      this.inputs === '' ? request.members : `${request.members},${this.inputs}`,
      {
        timeoutMs: left,
        signal: request.signal,
        meta: request.meta,
        name: request.target,
        headers: era === 'modern' && connection.perRequestStreams ? request.headers?.() : undefined,
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
              maxTotalMs: this.latest - now,
            }),
      },
    );
    this.requestId = sent.id;
    return sent;
  }

  /** A report of progress moves the one deadline, up to the longest life of a call. */
  private extend(): void {
    const extended = Math.min(this.port.clock.now() + this.timeoutMs, this.latest);
    this.deadline = Math.max(this.deadline, extended);
  }

  private heard(outcome: Outcome): void {
    if (outcome.written) {
      this.attempts += 1;
      if (outcome.kind !== 'result' && isUnanswered(outcome)) this.isUncertain = true;
    }
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
  private mayGoOn(outcome: NoResult): boolean {
    if (this.port.isEnding() || this.request.signal?.aborted === true) return false;
    const channel = this.channel as Channel;
    const { connection } = channel;
    if (isHeaderMismatch(outcome, channel)) return !this.isCorrected;
    switch (mayBeSentAgain(outcome, connection.isOpen)) {
      case 'always':
        return outcome.kind !== 'withheld' || this.request.isStillMeant();
      case 'repeatable':
        return this.attempts < MAX_SENDS && this.request.isRepeatable();
      case 'never':
        return false;
    }
  }

  /** After -32020. Where nothing can be corrected, the refusal says best how it ended. */
  private async correctHeaders(refusal: NoResult): Promise<Channel | Conclusion> {
    this.isCorrected = true;
    const { peer, request } = this;
    const { rebind } = request;
    const channel = this.channel as Channel;
    const corrected = await correct({ peer, channel, rebind, wait: (promise) => this.wait(promise) });
    if (corrected === 'unlisted') return this.end({ kind: 'outcome', outcome: refusal });
    if (corrected === 'other') return this.end(WITHHELD);
    if (corrected !== 'ready') return this.interrupted(corrected);
    const next = await this.currentChannel();
    if ('connection' in next) return rebind?.() === 'other' ? this.end(WITHHELD) : next;
    const isGone = next.kind === 'refused' && next.status === 'unavailable';
    return isGone ? { kind: 'outcome', outcome: refusal } : next;
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
    return this.currentChannel();
  }

  /** The channel, when the peer is callable and has listed. */
  private async currentChannel(): Promise<Channel | Conclusion> {
    const now = this.peer.channel();
    if (now !== null && typeof now === 'object') return now;
    const coming = this.peer.whenCallable();
    const waited = await this.wait(coming.promise);
    coming.cancel();
    if (waited.kind !== 'done') return this.interrupted(waited.kind);
    return typeof waited.value === 'string' ? this.refuse('unavailable', waited.value) : waited.value;
  }

  /**
   * Waits until the request can be sent again. Where that will not be, the outcome that is there says best how it
   * ended; but for a caller who gave it up.
   */
  private async waitForRepetition(outcome: NoResult): Promise<Channel | Conclusion> {
    const { connection } = this.channel as Channel;
    const asked = outcome.kind === 'unreachable' ? (outcome.cause.retryAfterMs ?? 0) : 0;
    // A peer that left its connection makes its own pause before the next one.
    if (asked > 0 || (outcome.kind !== 'withheld' && this.peer.isCurrent(connection))) {
      const paused = await this.pause(asked);
      if (paused.kind === 'timeout') return this.end({ kind: 'outcome', outcome });
      if (paused.kind !== 'done') return this.interrupted(paused.kind);
    }
    const next = await this.currentChannel();
    if ('connection' in next || next.kind !== 'refused' || next.status === 'cancelled') return next;
    return outcome.written ? { kind: 'outcome', outcome } : next;
  }

  private async pause(askedMs: number): Promise<Waited<unknown>> {
    const { clock, random } = this.port;
    const ms = pauseMs(this.attempts, askedMs, random());
    // One that cannot end in time is not begun.
    if (clock.now() + ms >= this.deadline) return { kind: 'timeout' };
    let timer: unknown;
    const over = new Promise<null>((resolve) => {
      timer = clock.setTimeout(() => resolve(null), ms);
    });
    const gone = this.peer.whenGone();
    const waited = await this.wait(Promise.race([over, gone.promise]));
    gone.cancel();
    clock.clearTimeout(timer);
    return waited;
  }

  /** Answers what the server asks for. Null: the next round can be sent. */
  private async answer(result: JsonObject): Promise<Conclusion | null> {
    const { port, request, peer } = this;
    // Nobody is asked any more.
    if (port.isEnding()) return this.interrupted('ending');
    this.rounds += 1;
    const given = await inputsOf(result, {
      port,
      peer,
      method: request.method,
      target: request.target,
      round: this.rounds,
      wait: (promise) => this.wait(promise),
    });
    switch (given.kind) {
      case 'inputs':
        this.inputs = given.members;
        return null;
      case 'broken':
        return this.refuse('protocol-error', given.message);
      case 'failed':
        return this.refuse('cancelled', given.message);
      case 'gone':
        return this.refuse('unavailable', given.message);
      default:
        return this.interrupted(given.kind);
    }
  }

  private wait<T>(promise: Promise<T>): Promise<Waited<T>> {
    const { clock } = this.port;
    // It has told its listeners already.
    if (this.port.isEnding()) return Promise.resolve({ kind: 'ending' });
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

  private refuse(
    status: 'unavailable' | 'timeout' | 'cancelled' | 'protocol-error',
    message: string,
  ): Conclusion {
    const delivery = this.unsent;
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

function isUnanswered(outcome: NoResult): boolean {
  return interpretOutcome(outcome).delivery === 'unknown';
}
