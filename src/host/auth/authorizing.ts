/** Between a peer's transport and its authorization: what is granted while nothing waits for it is not lost. */
import type { UnauthorizedOutcome } from '../../protocol/exchange.js';
import type { Credentials, HttpAttempt, HttpAuthorizer, Refusal } from '../../transports/httpAuthorizer.js';

/** So often in a row a peer probes again by itself because credentials were obtained that it then refused. */
const MAX_OWN_GRANTS = 2;

/** How the peer stands, and what it does. */
export interface AuthorizedPeer {
  /** A probe or `initialize` is under way. */
  isNegotiating(): boolean;
  /** It is `unavailable`, since it was refused. */
  isUnauthorized(): boolean;
  probeAgain(): void;
}

export class Authorizing implements HttpAuthorizer {
  private readonly inner: HttpAuthorizer;
  private readonly url: URL;
  private readonly peer: AuthorizedPeer;
  /** What the last attempt carried. During `initialize` nothing else is on its way. */
  private last: Credentials | null = null;
  private grants = 0;
  /** Credentials came while a negotiation was under way that may not have had them. */
  private isGranted = false;

  constructor(inner: HttpAuthorizer, url: string, peer: AuthorizedPeer) {
    this.inner = inner;
    this.url = new URL(url);
    this.peer = peer;
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

  refused(refusal: Refusal): Promise<boolean> {
    return this.ask(refusal, true);
  }

  heardNonce(attempt: HttpAttempt, nonce: string): void {
    this.inner.heardNonce(attempt, nonce);
  }

  /** `initialize` was refused. It is not sent again in its negotiation (N9); with other credentials there is a new one. */
  seek({ status, challenge }: UnauthorizedOutcome): void {
    const attempt = { method: 'POST', url: this.url } as const;
    const refusal = { attempt, status, challenge, credentials: this.last, count: 1 };
    this.ask(refusal, false).catch(() => undefined);
  }

  /** A person granted something: a peer that does not serve, or is about to be refused, probes anew. */
  granted(): void {
    this.grants = 0;
    if (this.peer.isNegotiating()) this.isGranted = true;
    else this.peer.probeAgain();
  }

  /** The state of the peer is another one. */
  observed(isCallable: boolean): void {
    if (isCallable) {
      this.grants = 0;
      this.isGranted = false;
    } else if (this.isGranted && !this.peer.isNegotiating()) {
      this.isGranted = false;
      // When everybody has heard of the state.
      queueMicrotask(() => this.use());
    }
  }

  /** @param isAwaited the message that was refused is sent again, unless it was given up meanwhile */
  private async ask(refusal: Refusal, isAwaited: boolean): Promise<boolean> {
    const again = await this.inner.refused(refusal);
    if (again && this.grants < MAX_OWN_GRANTS && !(isAwaited && this.peer.isNegotiating())) {
      this.grants += 1;
      this.use();
    }
    return again;
  }

  private use(): void {
    if (this.peer.isNegotiating()) this.isGranted = true;
    else if (this.peer.isUnauthorized()) this.peer.probeAgain();
  }
}
