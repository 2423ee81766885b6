/** Credentials on their way into a request, and what is done when they are refused. */
import { type Credentials, type HttpAttempt, type HttpAuthorizer, MAX_REFUSALS } from './httpAuthorizer.js';
import type { Exchange, StreamEnd } from './transport.js';

/**
 * Obtains what an attempt carries. `go` is called once, within this call where the credentials are at hand: the tick of
 * a write depends on it. Credentials that cannot be obtained are none.
 */
export function withCredentials(
  authorizer: HttpAuthorizer | null,
  attempt: HttpAttempt,
  go: (credentials: Credentials | null) => void,
): void {
  if (authorizer === null) {
    go(null);
    return;
  }
  const credentials = obtain(authorizer, attempt);
  if (credentials instanceof Promise) credentials.then(go, () => go(null));
  else go(credentials);
}

function obtain(authorizer: HttpAuthorizer, attempt: HttpAttempt): ReturnType<HttpAuthorizer['credentials']> {
  try {
    return authorizer.credentials(attempt);
  } catch {
    return null;
  }
}

/** What was refused, and how. */
export interface RefusedAttempt {
  readonly attempt: HttpAttempt;
  readonly challenge: string | null;
  readonly credentials: Credentials | null;
}

type Unauthorized = Extract<StreamEnd, { kind: 'unauthorized' }>;

/** The refusals of one message. */
export class Refusals {
  readonly #authorizer: HttpAuthorizer;
  readonly #exchange: Exchange;
  #count = 0;

  constructor(authorizer: HttpAuthorizer, exchange: Exchange) {
    this.#authorizer = authorizer;
    this.#exchange = exchange;
  }

  /** Whether this end may lead to another attempt. N9: `initialize` is not sent again, whatever credentials there are. */
  mayBeAnswered(end: StreamEnd): end is Unauthorized {
    return (
      end.kind === 'unauthorized' && this.#count < MAX_REFUSALS && this.#exchange.method !== 'initialize'
    );
  }

  /** Tries to obtain other credentials. False: the refusal is the answer, now and for good. Never rejects. */
  async answer(end: Unauthorized, refused: RefusedAttempt): Promise<boolean> {
    const { status, challenge } = end;
    this.#count += 1;
    this.#exchange.refusal = { status, challenge };
    const again = await this.#ask({ ...refused, status, count: this.#count });
    if (!again) this.#count = MAX_REFUSALS;
    return again;
  }

  async #ask(refusal: Parameters<HttpAuthorizer['refused']>[0]): Promise<boolean> {
    try {
      return await this.#authorizer.refused(refusal);
    } catch {
      return false;
    }
  }
}
