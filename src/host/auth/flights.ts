/** The flows of one peer: one at a time for each provider, and one for all who want the same. */
import type { OAuthClientProvider, StoredOAuthTokens } from '@modelcontextprotocol/client';
import type { Clock } from '../../transports/clock.js';
import { AuthFetchError } from './addressGuard.js';
import type { AuthFetch } from './authFetch.js';
import { Ended, type Ending } from './ending.js';
import { type FlowRequest, runFlow } from './flow.js';
import type { FlowEnd } from './flowEnd.js';
import { addSecrets, type FlowNotes, newNotes } from './flowNotes.js';
import { mayReplace, type Needs } from './needs.js';
import { isLockable } from './oauthProvider.js';
import { Pauses } from './pauses.js';
import { isUsable } from './presentation.js';
import { type BegunFlow, type PendingFlow, type ProviderState, stateOf, wordOf } from './providerState.js';

export interface FlightsOptions {
  /** The endpoint. */
  readonly url: string;
  readonly fetch: AuthFetch;
  readonly clock: Clock;
  readonly end: Ending;
  /** Never rejects. */
  readonly wordsFor: (error: unknown, notes: FlowNotes) => Promise<string>;
  /** Told the secrets of each flow. */
  readonly keep: (secrets: Iterable<string>) => void;
  /** A person is to go there. */
  readonly tell: (pending: PendingFlow) => void;
}

export interface Code {
  readonly code: string;
  readonly iss: string | undefined;
  /** That of the answer, or of the request it belongs to. */
  readonly state: string | null;
  readonly pending: PendingFlow | null;
  readonly resourceMetadataUrl: URL | undefined;
}

/** What a flow is for. */
interface Flight {
  readonly refused: string | undefined;
  /** Stands for all of it. */
  readonly wanted: string;
  /** A person is asked already. */
  readonly renewalOnly: boolean;
}

/** More than all requests of a flow together may take, each by itself bounded. */
const MAX_FLOW_MS = 120_000;
const TOO_LATE = `the flow did not come to an end within ${MAX_FLOW_MS / 1000} s`;

/** What went wrong in a flow, in words that may be shown. */
export class FlowFailed extends Error {}

export class Flights {
  readonly #options: FlightsOptions;
  readonly #pauses: Pauses;

  constructor(options: FlightsOptions) {
    this.#options = options;
    this.#pauses = new Pauses(options.clock);
  }

  /** Somebody acted: what failed a moment ago may be tried again at once. */
  resume(): void {
    this.#pauses.clear();
  }

  /**
   * Obtains other credentials than those that were refused.
   *
   * @throws {FlowFailed} as a rejection
   * @throws {Ended} as a rejection
   */
  async obtain(provider: OAuthClientProvider, needs: Needs, refused: string | undefined): Promise<FlowEnd> {
    const { url, end } = this.#options;
    const state = stateOf(provider);
    const pending = state.pending.get(url);
    const renewalOnly = pending !== undefined && !(await mayReplace(pending, needs));
    // While a person is asked already, only what needs no person is tried.
    if (renewalOnly && (needs.forced || (await tokensOf(provider))?.refresh_token === undefined)) {
      return { kind: 'pending' };
    }
    const { scope, resourceMetadataUrl, forced } = needs;
    const word = refused === undefined ? null : wordOf(refused);
    const wanted = JSON.stringify([
      url,
      word,
      scope ?? null,
      resourceMetadataUrl?.href ?? null,
      forced,
      renewalOnly,
    ]);
    try {
      return await state.share(wanted, () =>
        this.#paced({ refused, wanted, renewalOnly }, (flight) =>
          this.#turn((notes, lift) => this.#fly(provider, needs, flight, notes, lift)),
        ),
      );
    } catch (error) {
      // Given up by another peer that was stopped: this one goes on by itself.
      if (error instanceof Ended && !end.isOver) return this.obtain(provider, needs, refused);
      throw error;
    }
  }

  /** Redeems a code. @throws as {@link obtain} */
  redeem(provider: OAuthClientProvider, redeemed: Code): Promise<FlowEnd> {
    const { state, pending } = redeemed;
    const turn = (notes: FlowNotes): Promise<FlowEnd> => {
      addSecrets(notes.secrets, redeemed.code);
      const resourceMetadataUrl = pending?.resourceMetadataUrl ?? redeemed.resourceMetadataUrl;
      const redeem = (): Promise<FlowEnd> =>
        this.#run({ provider, notes, scope: pending?.scope, resourceMetadataUrl, redeemed });
      const within = (): Promise<FlowEnd> =>
        isLockable(provider) && state !== null ? provider.redeeming(state, redeem) : redeem();
      return exclusively(provider, within);
    };
    return stateOf(provider).alone(() => this.#turn(turn));
  }

  /** Keeps account of what flows come to. */
  async #paced(flight: Flight, fly: (flight: Flight) => Promise<FlowEnd>): Promise<FlowEnd> {
    const { wanted, renewalOnly } = flight;
    try {
      const end = await fly(flight);
      if (end.kind === 'authorized') this.#pauses.granted();
      // It was to be renewed, and could not be.
      else if (end.kind === 'pending' && renewalOnly) this.#pauses.failed(wanted);
      return end;
    } catch (error) {
      if (error instanceof FlowFailed) this.#pauses.failed(wanted);
      throw error;
    }
  }

  /**
   * Providers are code of others, and what never ends would keep everybody else waiting.
   *
   * @param work given what lifts the limit: a person may take any time
   */
  async #turn(work: (notes: FlowNotes, lift: () => void) => Promise<FlowEnd>): Promise<FlowEnd> {
    const { clock, end, wordsFor, keep } = this.#options;
    const notes = newNotes();
    let timer: unknown;
    const late = new Promise<never>((_, reject) => {
      timer = clock.setTimeout(() => reject(new AuthFetchError(TOO_LATE)), MAX_FLOW_MS);
    });
    const lift = (): void => clock.clearTimeout(timer);
    try {
      return await end.until(Promise.race([work(notes, lift), late]));
    } catch (error) {
      throw error instanceof Ended ? error : new FlowFailed(await wordsFor(error, notes));
    } finally {
      lift();
      keep(notes.secrets);
    }
  }

  /** In its turn: what was refused may have been renewed while others had theirs. */
  async #fly(
    provider: OAuthClientProvider,
    needs: Needs,
    { refused, wanted, renewalOnly }: Flight,
    notes: FlowNotes,
    lift: () => void,
  ): Promise<FlowEnd> {
    const state = stateOf(provider);
    const end = await exclusively<FlowEnd>(provider, async () => {
      if (isAnother(await this.#options.end.until(tokensOf(provider)), refused)) return { kind: 'elsewhere' };
      if (!this.#pauses.mayBegin(wanted)) return { kind: 'paused' };
      // Where tokens come from may have changed with the refusal; whose they are has not (SEP-2352).
      if (!needs.forced) await provider.invalidateCredentials?.('discovery');
      const onRedirect = (begun: BegunFlow): Promise<void> => {
        lift();
        return this.#begin(state, begun);
      };
      return this.#run({ provider, notes, ...needs, renewalOnly, onRedirect });
    });
    if (end.kind === 'authorized' && end.renewed && end.token !== undefined) state.noteRenewed(end.token);
    return end;
  }

  #run(request: Omit<FlowRequest, 'serverUrl' | 'fetch'>): Promise<FlowEnd> {
    const { url: serverUrl, fetch, end } = this.#options;
    return end.until(runFlow({ ...request, serverUrl, fetch }));
  }

  /** Resolves when an answer came. */
  #begin(state: ProviderState, begun: BegunFlow): Promise<void> {
    const { url, tell } = this.#options;
    const before = state.pending.get(url);
    return new Promise((answered) => {
      const replaced = before === undefined ? 0 : before.replaced + 1;
      const pending = { ...begun, replaced, answered: () => answered() };
      before?.answered();
      state.pending.set(url, pending);
      tell(pending);
    });
  }
}

/** Other processes that use the same credentials are kept out where the provider can do that. */
function exclusively<T>(provider: OAuthClientProvider, work: () => Promise<T>): Promise<T> {
  return isLockable(provider) ? provider.exclusively(work) : work();
}

/** Also what is thrown at once is a rejection. */
export async function tokensOf(provider: OAuthClientProvider): Promise<StoredOAuthTokens | undefined> {
  return provider.tokens();
}

export function isAnother(tokens: StoredOAuthTokens | undefined, refused: string | undefined): boolean {
  return isUsable(tokens) && tokens.access_token !== refused;
}
