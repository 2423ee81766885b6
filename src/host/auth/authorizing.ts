/** Between a peer's transport and its authorization: what is granted while nothing waits for it is not lost. */
import type { UnauthorizedOutcome } from '../../protocol/exchange.js';
import type { Credentials, HttpAttempt, HttpAuthorizer, Refusal } from '../../transports/httpAuthorizer.js';

/** So often in a row a peer probes again by itself because credentials were obtained that it then refused. */
const MAX_OWN_GRANTS = 2;

export class Authorizing implements HttpAuthorizer {
  private readonly inner: HttpAuthorizer;
  private readonly url: URL;
  private readonly onGranted: () => void;
  /** What the last attempt carried. During `initialize` nothing else is on its way. */
  private last: Credentials | null = null;
  private grants = 0;

  /** @param onGranted there are other credentials than those that were refused */
  constructor(inner: HttpAuthorizer, url: string, onGranted: () => void) {
    this.inner = inner;
    this.url = new URL(url);
    this.onGranted = onGranted;
  }

  credentials(attempt: HttpAttempt): Credentials | null | Promise<Credentials | null> {
    const given = this.inner.credentials(attempt);
    if (!(given instanceof Promise)) {
      this.last = given;
      return given;
    }
    return given.then((credentials) => {
      this.last = credentials;
      return credentials;
    });
  }

  async refused(refusal: Refusal): Promise<boolean> {
    const again = await this.inner.refused(refusal);
    // The message that was refused may have been given up: whoever can use it is told all the same.
    if (again && this.grants < MAX_OWN_GRANTS) this.onGranted();
    return again;
  }

  heardNonce(attempt: HttpAttempt, nonce: string): void {
    this.inner.heardNonce(attempt, nonce);
  }

  /** `initialize` was refused. It is not sent again in its negotiation (N9); with other credentials there is a new one. */
  seek({ status, challenge }: UnauthorizedOutcome): void {
    const attempt = { method: 'POST', url: this.url } as const;
    this.refused({ attempt, status, challenge, credentials: this.last, count: 1 }).catch(() => undefined);
  }

  /** The peer probes again by itself. */
  used(): void {
    this.grants += 1;
  }

  /** The peer serves, or a person granted something: whatever comes is another matter. */
  settled(): void {
    this.grants = 0;
  }
}
