/** What nobody waits for. */
import type { Exchange, StreamEnd } from './transport.js';

/** A notification or a response on its way. */
export class LooseMessage implements Exchange {
  readonly id = null;
  readonly method: string | null;
  readonly headers: Readonly<Record<string, string>> | undefined;
  written = false;
  redirected = false;

  constructor(method: string | null, headers: Readonly<Record<string, string>> | undefined) {
    this.method = method;
    this.headers = headers;
  }

  mayWrite(): boolean {
    return true;
  }

  onEnd(_end: StreamEnd): void {
    // A lost notification is no failure: what it is about will be noticed by its own means.
  }
}
