/** What nobody waits for. */
import type { Exchange, StreamEnd } from './transport.js';

/** A notification or a response on its way. A lost one is no failure: what it is about is noticed by its own means. */
export class LooseMessage implements Exchange {
  readonly id = null;
  readonly isAwaited = false;
  readonly method: string | null;
  readonly headers: Readonly<Record<string, string>> | undefined;
  written = false;
  redirected = false;
  refusal: Exchange['refusal'] = null;
  private readonly ended: (end: StreamEnd | null) => void;

  /** @param ended called when its exchange is over, where the transport has one a message (HTTP); null: with its connection */
  constructor(
    method: string | null,
    headers: Readonly<Record<string, string>> | undefined,
    ended: (end: StreamEnd | null) => void,
  ) {
    this.method = method;
    this.headers = headers;
    this.ended = ended;
  }

  mayWrite(): boolean {
    return true;
  }

  onEnd(end: StreamEnd | null): void {
    this.ended(end);
  }
}
