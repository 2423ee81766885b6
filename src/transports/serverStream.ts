/**
 * The stream on which a legacy server says what is no answer (2025-11-25, basic/transports, "Listening for Messages
 * from the Server"): opened once after the negotiation, and again whenever it ends. It is optional for both sides, so
 * nothing that happens to it harms anything else.
 */
import type { Clock } from './clock.js';
import { type GetContext, type GetEnd, HttpGet } from './httpGet.js';
import { reopenDelayMs } from './reopening.js';
import type { StreamPlace } from './sseMessages.js';
import type { ServerStream } from './transport.js';

export interface ServerStreamContext {
  readonly clock: Clock;
  readonly get: GetContext;
  /** @param lastEventId empty where there is none */
  headers(lastEventId: string): Readonly<Record<string, string>>;
  message(text: string): void;
  overheard(text: string): void;
  /** Once a failure; never for a server that has no such stream, and never for one that ended in good order. */
  fault(detail: string): void;
  stands(stream: ServerStream): void;
}

/** Servers that answer with the first event only are not waited for any longer. */
const MOMENT_MS = 300;
/** A stream that lived as long was a good one, even if nothing came on it. */
const STABLE_MS = 30_000;
/**
 * Between two streams of which the second does not go on with the first: what was said in between is lost, so everything
 * is asked for anew. A server that wants to be polled more often gives its events ids.
 */
const SHORTEST_GAP_MS = 1000;
/** Refusals in a row after which a server that had a stream has none any more. */
const MAX_REFUSALS = 2;
const METHOD_NOT_ALLOWED = 405;
const NOT_IMPLEMENTED = 501;
const TOO_MANY_REQUESTS = 429;

export class ServerStreamReader {
  readonly #context: ServerStreamContext;
  #get: HttpGet | null = null;
  #state: ServerStream['state'] | null = null;
  /** Where the last stream was left. */
  #place: StreamPlace | undefined;
  #startedAt = 0;
  /** Something came on the stream that is open. */
  #brought = false;
  /** Streams that brought nothing and attempts that failed, in a row. */
  #fruitless = 0;
  #refusals = 0;
  #timer: unknown = null;
  #opened: (() => void) | null = null;
  #isClosed = false;

  constructor(context: ServerStreamContext) {
    this.#context = context;
  }

  /** Resolves when it is known how the stream stands, or after a moment. Once. */
  open(): Promise<void> {
    return new Promise((resolve) => {
      this.#opened = resolve;
      this.#timer = this.#context.clock.setTimeout(() => this.#momentOver(), MOMENT_MS);
      this.#start();
    });
  }

  /** Ends it at once. Nothing is told any more. Idempotent. */
  close(): void {
    this.#isClosed = true;
    this.#get?.close();
    this.#get = null;
    this.#settle();
  }

  #momentOver(): void {
    // The rest of a refusal is not waited for any longer than for its beginning.
    if (this.#state === 'none') this.#get?.close();
    this.#settle();
  }

  /** Ends the moment of {@link open}, or the wait for the next attempt. */
  #settle(): void {
    this.#context.clock.clearTimeout(this.#timer);
    this.#timer = null;
    this.#opened?.();
    this.#opened = null;
  }

  #start(): void {
    const { clock, get, headers, message, overheard } = this.#context;
    const from = this.#place;
    const lastEventId = from?.lastEventId ?? '';
    this.#startedAt = clock.now();
    this.#brought = false;
    const stream = new HttpGet(
      get,
      headers(lastEventId),
      {
        opened: () => {
          this.#refusals = 0;
          this.#stands({ state: 'open', resumed: lastEventId !== '' });
          this.#settle();
        },
        message: (text) => {
          this.#brought = true;
          message(text);
        },
        overheard,
        ended: (end) => this.#ended(stream, end),
        over: () => {
          if (this.#state === 'none') this.#settle();
        },
      },
      from,
    );
    this.#get = stream;
    stream.start();
  }

  #ended(stream: HttpGet, end: GetEnd): void {
    const wasOpen = end.kind !== 'refused' && end.kind !== 'failed';
    if (isFailure(end)) this.#context.fault(`the stream of the server: ${end.detail}`);
    // Telling that may have closed it.
    if (this.#isClosed) return;
    const { place } = stream;
    if (wasOpen) this.#place = place;
    if (this.#isGivenUp(end)) {
      this.#giveUp(end.detail);
      return;
    }
    // It may be the id that is refused, or the event behind it that is not taken: what was missed is lost, what comes
    // is not.
    if (end.kind === 'spoilt' || (end.kind === 'refused' && !isFailure(end)))
      this.#place = { lastEventId: '', retryMs: place.retryMs };
    if (this.#brought || this.#lived >= STABLE_MS) this.#fruitless = 0;
    const retryAfterMs = end.kind === 'refused' ? end.retryAfterMs : undefined;
    const shortestMs = this.#place === undefined || this.#place.lastEventId === '' ? SHORTEST_GAP_MS : 0;
    const delayMs = Math.max(reopenDelayMs(this.#fruitless, place.retryMs, retryAfterMs), shortestMs);
    this.#fruitless += 1;
    stream.close();
    this.#settle();
    this.#timer = this.#context.clock.setTimeout(() => {
      this.#timer = null;
      this.#start();
    }, delayMs);
    this.#stands({ state: 'waiting', detail: end.detail });
  }

  get #lived(): number {
    return this.#context.clock.now() - this.#startedAt;
  }

  #isGivenUp(end: GetEnd): boolean {
    const wasOpen = end.kind !== 'refused' && end.kind !== 'failed';
    if (wasOpen) return false;
    // A server without a head until the first event looks like none: what breaks late was most likely a stream.
    if (this.#state === null) return !isFailure(end) || this.#lived < STABLE_MS;
    if (isFailure(end)) {
      this.#refusals = 0;
      return false;
    }
    this.#refusals += 1;
    return this.#refusals >= MAX_REFUSALS || (end.kind === 'refused' && end.status === METHOD_NOT_ALLOWED);
  }

  #giveUp(detail: string): void {
    // Where `open` is still waited for, the rest of the answer may be read, so that its connection is used again.
    if (this.#opened === null) this.#get?.close();
    this.#stands({ state: 'none', detail });
  }

  /** Only changes are told: a server that stays away is not told of again and again. */
  #stands(stream: ServerStream): void {
    if (this.#isClosed || this.#state === stream.state) return;
    this.#state = stream.state;
    this.#context.stands(stream);
  }
}

/** Something went wrong, rather than that the server has no stream or ended it. */
function isFailure(end: GetEnd): boolean {
  if (end.kind !== 'refused') return end.kind !== 'ended';
  const { status } = end;
  return status === TOO_MANY_REQUESTS || (status >= 500 && status !== NOT_IMPLEMENTED);
}
