/** A message of HTTP+SSE (2024-11-05) as its POST sees it. */
import type { Exchange, StreamEnd } from './transport.js';

/** Passes everything on to the message but an end that says no more than that the server has taken it. */
export class PostedMessage implements Exchange {
  readonly message: Exchange;
  readonly #ended: (end: StreamEnd | null) => void;

  /** @param ended called once at most: `null` where the message was taken, whatever the body of that answer was */
  constructor(message: Exchange, ended: (end: StreamEnd | null) => void) {
    this.message = message;
    this.#ended = ended;
  }

  get id(): number | null {
    return this.message.id;
  }

  get method(): string | null {
    return this.message.method;
  }

  get headers(): Exchange['headers'] {
    return this.message.headers;
  }

  get written(): boolean {
    return this.message.written;
  }

  set written(value: boolean) {
    this.message.written = value;
  }

  get redirected(): boolean {
    return this.message.redirected;
  }

  set redirected(value: boolean) {
    this.message.redirected = value;
  }

  get refusal(): Exchange['refusal'] {
    return this.message.refusal;
  }

  set refusal(value: Exchange['refusal']) {
    this.message.refusal = value;
  }

  get decided(): StreamEnd | null {
    return this.message.decided ?? null;
  }

  set decided(end: StreamEnd | null) {
    this.message.decided = end !== null && isTaken(end) ? null : end;
  }

  get isAwaited(): boolean {
    return this.message.isAwaited;
  }

  mayWrite(): boolean {
    return this.message.mayWrite();
  }

  onEnd(end: StreamEnd): void {
    this.#ended(isTaken(end) ? null : end);
  }
}

function isTaken(end: StreamEnd): boolean {
  switch (end.kind) {
    case 'complete':
      return true;
    case 'malformed':
      return isSuccess(end.status);
    case 'unreachable':
      return end.cause.status !== undefined && isSuccess(end.cause.status);
    default:
      return false;
  }
}

function isSuccess(status: number): boolean {
  return status >= 200 && status < 300;
}
