/**
 * Goes on with the answer to a legacy request whose stream ended before the response (2025-11-25, basic/transports,
 * "Resumability and Redelivery"): servers end streams to be polled, and connections break.
 */
import type { Clock } from './clock.js';
import { type GetContext, type GetEnd, HttpGet } from './httpGet.js';
import { reopenDelayMs } from './reopening.js';
import type { StreamPlace } from './sseMessages.js';
import type { Exchange, StreamEnd } from './transport.js';

export interface ResumptionContext {
  readonly clock: Clock;
  readonly get: GetContext;
  headers(lastEventId: string): Readonly<Record<string, string>>;
  message(text: string, exchange: Exchange): void;
  overheard(text: string): void;
}

/** Streams and attempts in a row that may bring nothing. */
const MAX_FRUITLESS = 5;
/** "A few seconds" in the words of the standard; where the server says nothing. */
const DEFAULT_RETRY_MS = 1000;
/** Of a gateway, or of a server that has no time: they say nothing about the stream. */
const PASSING: ReadonlySet<number> = new Set([429, 502, 503, 504]);

export class Resumption {
  readonly #context: ResumptionContext;
  readonly #exchange: Exchange;
  readonly #ended: (end: StreamEnd) => void;
  #place: StreamPlace;
  #fruitless = 0;
  #get: HttpGet | null = null;
  #timer: unknown = null;

  /** @param ended called once with how the exchange ended, unless this was closed before */
  constructor(
    context: ResumptionContext,
    exchange: Exchange,
    from: StreamPlace,
    ended: (end: StreamEnd) => void,
  ) {
    this.#context = context;
    this.#exchange = exchange;
    this.#place = from;
    this.#ended = ended;
  }

  /** Waits as the server asked, then asks for the rest, and so on. */
  start(): void {
    this.#wait(0);
  }

  /** Idempotent. */
  close(): void {
    this.#context.clock.clearTimeout(this.#timer);
    this.#timer = null;
    this.#get?.close();
    this.#get = null;
  }

  #wait(retryAfterMs: number | undefined): void {
    const { clock } = this.#context;
    const delayMs = reopenDelayMs(this.#fruitless, this.#place.retryMs ?? DEFAULT_RETRY_MS, retryAfterMs);
    this.#timer = clock.setTimeout(() => {
      this.#timer = null;
      // Its answer may have come on another stream.
      if (this.#exchange.isAwaited) this.#ask();
      else this.#complete();
    }, delayMs);
  }

  #ask(): void {
    const { get, headers, message, overheard } = this.#context;
    const from = this.#place;
    const stream = new HttpGet(
      get,
      headers(from.lastEventId),
      {
        opened() {},
        message: (text) => message(text, this.#exchange),
        overheard,
        ended: (end) => this.#over(stream, end),
      },
      from,
    );
    this.#get = stream;
    stream.start();
  }

  #over(stream: HttpGet, end: GetEnd): void {
    stream.close();
    this.#get = null;
    const before = this.#place.lastEventId;
    this.#place = { lastEventId: stream.place.lastEventId, retryMs: stream.place.retryMs };
    if (!this.#exchange.isAwaited) {
      this.#complete();
      return;
    }
    if (end.kind === 'spoilt') {
      this.#ended({
        kind: 'malformed',
        status: 200,
        redirected: this.#exchange.redirected,
        detail: end.detail,
      });
      return;
    }
    const problem = this.#problem(end, before);
    if (problem === null) this.#wait(end.kind === 'refused' ? end.retryAfterMs : undefined);
    else this.#giveUp(problem);
  }

  /** Why it is not asked for again; null where it is. */
  #problem(end: GetEnd, before: string): string | null {
    if (end.kind === 'refused' && !PASSING.has(end.status)) return end.detail;
    if (this.#place.lastEventId === '') return 'the stream cannot be resumed any more';
    // The same place as before: a server that sends the same again and again brings nothing either.
    this.#fruitless = this.#place.lastEventId === before ? this.#fruitless + 1 : 0;
    return this.#fruitless < MAX_FRUITLESS
      ? null
      : `${MAX_FRUITLESS} attempts brought nothing (${end.detail})`;
  }

  #giveUp(problem: string): void {
    const detail = `the answer ended early and could not be resumed: ${problem}`;
    const { redirected } = this.#exchange;
    this.#ended({ kind: 'broken', redirected, cause: { kind: 'stream-ended', detail } });
  }

  #complete(): void {
    this.#ended({ kind: 'complete', status: 200, redirected: this.#exchange.redirected });
  }
}
