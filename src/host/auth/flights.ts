/** The flows of one peer: one at a time for each provider, and one for all who want the same. */
import type { OAuthClientProvider, StoredOAuthTokens } from '@modelcontextprotocol/client';
import type { AuthFetch } from './authFetch.js';
import { Ended, type Ending } from './ending.js';
import { type FlowRequest, runFlow } from './flow.js';
import type { FlowEnd } from './flowEnd.js';
import { addSecrets, type FlowNotes, newNotes } from './flowNotes.js';
import { mayReplace, type Needs } from './needs.js';
import { isLockable } from './oauthProvider.js';
import { type BegunFlow, type PendingFlow, type ProviderState, stateOf, wordOf } from './providerState.js';

export interface FlightsOptions {
  /** The endpoint. */
  readonly url: string;
  readonly fetch: AuthFetch;
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

/** What went wrong in a flow, in words that may be shown. */
export class FlowFailed extends Error {}

export class Flights {
  readonly #options: FlightsOptions;

  constructor(options: FlightsOptions) {
    this.#options = options;
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
    const wanted = [url, word, scope ?? null, resourceMetadataUrl?.href ?? null, forced, renewalOnly];
    try {
      return await state.share(JSON.stringify(wanted), () =>
        this.#turn((notes) => this.#fly(provider, needs, refused, notes, renewalOnly)),
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
    return this.#turn((notes) => {
      addSecrets(notes.secrets, redeemed.code);
      const resourceMetadataUrl = pending?.resourceMetadataUrl ?? redeemed.resourceMetadataUrl;
      const redeem = (): Promise<FlowEnd> =>
        this.#run({ provider, notes, scope: pending?.scope, resourceMetadataUrl, redeemed });
      const within = (): Promise<FlowEnd> =>
        isLockable(provider) && state !== null ? provider.redeeming(state, redeem) : redeem();
      return stateOf(provider).alone(() => exclusively(provider, within));
    });
  }

  async #turn(work: (notes: FlowNotes) => Promise<FlowEnd>): Promise<FlowEnd> {
    const notes = newNotes();
    try {
      return await work(notes);
    } catch (error) {
      throw error instanceof Ended ? error : new FlowFailed(await this.#options.wordsFor(error, notes));
    } finally {
      this.#options.keep(notes.secrets);
    }
  }

  /** In its turn: what was refused may have been renewed while others had theirs. */
  async #fly(
    provider: OAuthClientProvider,
    needs: Needs,
    refused: string | undefined,
    notes: FlowNotes,
    renewalOnly: boolean,
  ): Promise<FlowEnd> {
    const state = stateOf(provider);
    const end = await exclusively<FlowEnd>(provider, async () => {
      if (isAnother(await this.#options.end.until(tokensOf(provider)), refused)) return { kind: 'elsewhere' };
      // Where tokens come from may have changed with the refusal; whose they are has not (SEP-2352).
      if (!needs.forced) await provider.invalidateCredentials?.('discovery');
      const onRedirect = (begun: BegunFlow): Promise<void> => this.#begin(state, begun);
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
  return tokens !== undefined && tokens.access_token !== refused;
}
