/** Authorization of one peer by OAuth: which credentials a request carries, and what happens when they are refused. */
import { randomUUID } from 'node:crypto';
import type { DpopSession, OAuthClientProvider, StoredOAuthTokens } from '@modelcontextprotocol/client';
import type { HttpAttempt, Refusal } from '../../transports/httpAuthorizer.js';
import type { BearerAuth, PeerAuth } from '../config.js';
import { AuthorizationError } from '../errors.js';
import type { AuthorizationResponse } from '../facade.js';
import { redactor } from '../redact.js';
import { AuthFetch } from './authFetch.js';
import { problemOf } from './authorizationProblem.js';
import { type Challenge, readChallenge, usableScope } from './challenge.js';
import { Ended, Ending } from './ending.js';
import { type FlowEnd, type FlowRequest, runFlow } from './flow.js';
import { addSecrets, type FlowNotes, newNotes, secretForms } from './flowNotes.js';
import { isLockable } from './oauthProvider.js';
import { officialClient } from './officialClient.js';
import type { PeerAuthorization, PeerAuthorizationOptions } from './peerAuthorization.js';
import { isPromise, type Presented, present, tokenIn } from './presentation.js';
import { type ProviderSource, providerSource } from './providerSource.js';
import { type BegunFlow, type PendingFlow, type ProviderState, stateOf, wordOf } from './providerState.js';
import { belongsTo, type Redemption, readResponse, refusalIn } from './redemption.js';

/** A server that asks for more each time is not followed by a person for ever. */
const MAX_REPLACED = 3;
/** Secrets kept to be taken out of texts: those of the last few flows. */
const MAX_SECRETS = 64;

/** What a flow is to obtain. */
interface Needs {
  readonly scope: string | undefined;
  readonly resourceMetadataUrl: URL | undefined;
  readonly forced: boolean;
}

export class OAuthAuthorization implements PeerAuthorization {
  readonly #options: PeerAuthorizationOptions;
  readonly #source: ProviderSource;
  readonly #fetch: AuthFetch;
  readonly #end = new Ending();
  readonly #secrets = new Set<string>();
  #word: string = randomUUID();
  #problem: string | null = null;
  /** The URL that {@link PeerAuthorizationOptions.onUrl} was told last. */
  #told: string | null = null;
  #lastToken: string | undefined;
  /** What was asked for in the last flow that obtained something. */
  #obtainedScope: string | undefined;
  #resourceMetadataUrl: URL | undefined;
  #session: DpopSession | null = null;
  #isRedeeming = false;

  constructor(options: PeerAuthorizationOptions, auth: Exclude<PeerAuth, BearerAuth>) {
    this.#options = options;
    this.#source = providerSource(auth);
    const { url, proxy, clock } = options;
    this.#fetch = new AuthFetch({ endpoint: new URL(url), proxy, clock });
  }

  get pendingUrl(): string | null {
    return this.#end.isOver ? null : (this.#pending?.url ?? null);
  }

  get problem(): string | null {
    return this.#problem;
  }

  get context(): string {
    return this.#source.machine?.context ?? this.#word;
  }

  credentials(attempt: HttpAttempt): Presented {
    const provider = this.#source.current;
    if (provider === null || this.#end.isOver) return null;
    try {
      const tokens = provider.tokens();
      const presented = isPromise(tokens)
        ? Promise.resolve(tokens).then((found) => this.#present(provider, found, attempt))
        : this.#present(provider, tokens, attempt);
      return presented instanceof Promise ? presented.catch((error) => this.#without(error)) : presented;
    } catch (error) {
      return this.#without(error);
    }
  }

  async refused(refusal: Refusal): Promise<boolean> {
    try {
      return await this.#end.until(this.#seek(refusal));
    } catch (error) {
      await this.#note(error, newNotes());
      return false;
    }
  }

  heardNonce(attempt: HttpAttempt, nonce: string): void {
    this.#session?.rememberNonce(attempt.url, nonce);
  }

  withoutSecrets(text: string): string {
    return this.#secrets.size === 0 ? text : redactor(secretForms(this.#secrets))(text);
  }

  async redeem(response: AuthorizationResponse): Promise<void> {
    if (this.#isRedeeming) throw this.#error('another answer is being redeemed at this moment');
    this.#isRedeeming = true;
    try {
      await this.#end.until(this.#redeem(response));
    } catch (error) {
      if (error instanceof AuthorizationError) throw error;
      throw this.#error(await this.#wordsFor(error, newNotes()));
    } finally {
      this.#isRedeeming = false;
    }
  }

  close(): void {
    this.#end.end();
    this.#fetch.close();
  }

  get #state(): ProviderState | null {
    return this.#source.current === null ? null : stateOf(this.#source.current);
  }

  get #pending(): PendingFlow | null {
    return this.#state?.pending.get(this.#options.url) ?? null;
  }

  #present(
    provider: OAuthClientProvider,
    tokens: StoredOAuthTokens | undefined,
    attempt: HttpAttempt,
  ): Presented {
    if (tokens === undefined || typeof tokens.access_token !== 'string') return null;
    this.#look(tokens.access_token);
    return present(provider, tokens, attempt, (session) => {
      this.#session = session;
    });
  }

  #without(error: unknown): null {
    void this.#note(error, newNotes());
    return null;
  }

  /** Notices a token that no flow of this process renewed: it may be somebody else's. */
  #look(token: string): void {
    if (token === this.#lastToken) return;
    const isRenewed = this.#state?.wasRenewed(token) === true;
    const isStrange = this.#lastToken !== undefined && !isRenewed;
    this.#lastToken = token;
    this.#keep([token]);
    // Access was granted elsewhere, so nobody need grant it here.
    if (!isRenewed) this.#drop(this.#pending);
    if (isStrange) this.#changeHands();
  }

  #changeHands(): void {
    if (this.#source.machine !== null) return;
    this.#word = randomUUID();
    // Not from within a request that is about to be sent: whoever is told sends requests.
    queueMicrotask(() => {
      if (!this.#end.isOver) this.#options.onContextChanged();
    });
  }

  async #seek(refusal: Refusal): Promise<boolean> {
    if (this.#end.isOver) return false;
    const challenge = readChallenge(refusal.challenge);
    if (refusal.status === 401 && challenge.wantsNonce) {
      return this.#session?.nonceFor(refusal.attempt.url) !== undefined;
    }
    if (refusal.status === 403 && challenge.error !== 'insufficient_scope') return false;
    const provider = await this.#source.load();
    const refused = tokenIn(refusal.credentials);
    const tokens = await provider.tokens();
    if (isAnother(tokens, refused)) {
      stateOf(provider).pending.delete(this.#options.url);
      return true;
    }
    this.#resourceMetadataUrl = challenge.resourceMetadataUrl ?? this.#resourceMetadataUrl;
    const needs =
      refusal.status === 401 ? this.#needsOf(challenge) : await this.#furtherNeeds(challenge, tokens?.scope);
    return needs !== null && (await this.#obtain(provider, needs, refused));
  }

  #needsOf(challenge: Challenge): Needs {
    const scope = this.#source.machine?.scope ?? challenge.scope;
    return { scope, resourceMetadataUrl: challenge.resourceMetadataUrl, forced: false };
  }

  /** 2026-07-28, basic/authorization, "Step-Up Authorization Flow": all that was granted, and what is wanted now. */
  async #furtherNeeds(challenge: Challenge, granted: string | undefined): Promise<Needs | null> {
    const { computeScopeUnion, isStrictScopeSuperset } = await officialClient();
    const wanted = challenge.scope;
    const fixed = this.#source.machine?.scope;
    if (fixed !== undefined) {
      this.#problem = `the server wants the scope ${wanted ?? 'it does not name'}, and ${fixed} is configured`;
      return null;
    }
    if (wanted === undefined) return null;
    // It was asked for, whatever was granted then: asking once more would change nothing.
    if (this.#obtainedScope !== undefined && !isStrictScopeSuperset(wanted, this.#obtainedScope)) {
      this.#problem = `the server wants the scope ${wanted}, which was asked for already`;
      return null;
    }
    const scope = usableScope(computeScopeUnion(granted, this.#obtainedScope, wanted));
    if (scope === undefined) return null;
    return {
      scope,
      resourceMetadataUrl: this.#resourceMetadataUrl,
      forced: isStrictScopeSuperset(scope, granted),
    };
  }

  async #obtain(provider: OAuthClientProvider, needs: Needs, refused: string | undefined): Promise<boolean> {
    const state = stateOf(provider);
    const { url } = this.#options;
    const pending = this.#pending;
    if (pending !== null && !(await mayReplace(pending, needs))) {
      this.#tell(pending);
      return false;
    }
    const { scope, resourceMetadataUrl, forced } = needs;
    const word = refused === undefined ? null : wordOf(refused);
    const key = JSON.stringify([url, word, scope ?? null, resourceMetadataUrl?.href ?? null, forced]);
    try {
      return this.#landed(provider, await state.share(key, () => this.#turn(provider, needs, refused)));
    } catch (error) {
      // Given up by another peer that was stopped: this one goes on by itself.
      if (error instanceof Ended && !this.#end.isOver) {
        return this.#obtain(provider, needs, refused);
      }
      this.#problem = error instanceof FlowFailed ? error.message : 'the flow was given up';
      return false;
    }
  }

  async #turn(provider: OAuthClientProvider, needs: Needs, refused: string | undefined): Promise<FlowEnd> {
    const notes = newNotes();
    try {
      return await this.#fly(provider, needs, refused, notes);
    } catch (error) {
      throw error instanceof Ended ? error : new FlowFailed(await this.#wordsFor(error, notes));
    } finally {
      this.#keep(notes.secrets);
    }
  }

  /** In its turn: what was refused may have been renewed while others had theirs. */
  async #fly(
    provider: OAuthClientProvider,
    needs: Needs,
    refused: string | undefined,
    notes: FlowNotes,
  ): Promise<FlowEnd> {
    const state = stateOf(provider);
    const end = await this.#alone<FlowEnd>(provider, async () => {
      if (isAnother(await this.#end.until(tokensOf(provider)), refused)) {
        return { kind: 'elsewhere' };
      }
      // Where tokens come from may have changed with the refusal; whose they are has not (SEP-2352).
      if (!needs.forced) await provider.invalidateCredentials?.('discovery');
      return this.#run({ provider, notes, ...needs, onRedirect: (begun) => this.#begin(state, begun) });
    });
    if (end.kind !== 'pending') state.pending.delete(this.#options.url);
    if (end.kind === 'authorized' && end.renewed && end.token !== undefined) state.noteRenewed(end.token);
    return end;
  }

  /** Other processes that use the same credentials are kept out where the provider can do that. */
  #alone<T>(provider: OAuthClientProvider, work: () => Promise<T>): Promise<T> {
    return isLockable(provider) ? provider.exclusively(work) : work();
  }

  /** Resolves when an answer came. */
  #begin(state: ProviderState, begun: BegunFlow): Promise<void> {
    const { url } = this.#options;
    const before = state.pending.get(url);
    return new Promise((answered) => {
      const replaced = before === undefined ? 0 : before.replaced + 1;
      const pending = { ...begun, replaced, answered: () => answered() };
      before?.answered();
      state.pending.set(url, pending);
      this.#tell(pending);
    });
  }

  #run(request: Omit<FlowRequest, 'serverUrl' | 'fetch'>): Promise<FlowEnd> {
    const flow = runFlow({ ...request, serverUrl: this.#options.url, fetch: this.#fetch });
    return this.#end.until(flow);
  }

  #landed(provider: OAuthClientProvider, end: FlowEnd): boolean {
    if (end.kind === 'pending') {
      const pending = stateOf(provider).pending.get(this.#options.url);
      if (pending !== undefined) this.#tell(pending);
      return false;
    }
    this.#problem = null;
    if (end.kind === 'authorized') this.#granted(end);
    return true;
  }

  #granted(end: Extract<FlowEnd, { readonly kind: 'authorized' }>): void {
    // What is renewed keeps its scope, whatever the refusal named.
    this.#obtainedScope = end.renewed ? together(this.#obtainedScope, end.scope) : end.scope;
    const isKnown = end.token === this.#lastToken;
    this.#lastToken = end.token;
    if (!end.renewed && !isKnown) this.#changeHands();
  }

  #tell(pending: PendingFlow): void {
    this.#problem = null;
    if (this.#told === pending.url || this.#end.isOver) return;
    this.#told = pending.url;
    this.#options.onUrl(pending.url);
  }

  async #redeem(response: AuthorizationResponse): Promise<void> {
    if (this.#source.machine !== null) {
      throw this.#error('this host authorizes itself, so there is nothing to redeem');
    }
    const redemption = readResponse(response);
    if (redemption === null) {
      throw this.#error('what came back is neither the URL that was redirected to nor its parameters');
    }
    const provider = await this.#source.load();
    const pending = this.#pending;
    if (!belongsTo(redemption, pending)) {
      throw this.#error('what came back belongs to another authorization request (state)');
    }
    if (redemption.error !== null) {
      const problem = await refusalIn(redemption, pending);
      this.#giveUp(pending, problem);
      throw this.#error(problem);
    }
    if (redemption.code === null || redemption.code === '') {
      throw this.#error(
        pending === null
          ? 'no authorization was asked for, and what came back holds no code'
          : 'what came back holds no code',
      );
    }
    pending?.answered();
    await this.#exchange(provider, redemption, redemption.code, pending);
  }

  async #exchange(
    provider: OAuthClientProvider,
    redemption: Redemption,
    code: string,
    pending: PendingFlow | null,
  ): Promise<void> {
    const notes = newNotes();
    addSecrets(notes.secrets, code);
    try {
      const redeem = (): Promise<FlowEnd> =>
        this.#run({
          provider,
          notes,
          scope: pending?.scope,
          resourceMetadataUrl: pending?.resourceMetadataUrl ?? this.#resourceMetadataUrl,
          redeemed: { code, iss: redemption.iss, pending },
        });
      const state = redemption.state ?? pending?.state ?? null;
      const within = (): Promise<FlowEnd> =>
        isLockable(provider) && state !== null ? provider.redeeming(state, redeem) : redeem();
      const end = await stateOf(provider).alone(() => this.#alone(provider, within));
      this.#drop(pending);
      this.#problem = null;
      if (end.kind === 'authorized') this.#granted(end);
    } catch (error) {
      const problem = await this.#wordsFor(error, notes);
      this.#giveUp(pending, problem);
      throw this.#error(problem);
    } finally {
      this.#keep(notes.secrets);
    }
  }

  /** A code is good for one attempt: whoever is refused next asks anew. */
  #giveUp(pending: PendingFlow | null, problem: string): void {
    this.#drop(pending);
    this.#problem = problem;
  }

  #drop(pending: PendingFlow | null): void {
    const { url } = this.#options;
    if (pending === null || this.#state?.pending.get(url) !== pending) return;
    this.#state.pending.delete(url);
    pending.answered();
  }

  async #note(error: unknown, notes: FlowNotes): Promise<void> {
    const words = await this.#wordsFor(error, notes);
    if (!this.#end.isOver) this.#problem = words;
  }

  #wordsFor(error: unknown, notes: FlowNotes): Promise<string> {
    if (error instanceof Ended) return Promise.resolve('the peer was removed or stopped');
    return problemOf(error, notes, (text) => this.#options.redact(this.withoutSecrets(text)));
  }

  #error(problem: string): AuthorizationError {
    return new AuthorizationError(this.#options.peer, problem);
  }

  #keep(found: Iterable<string>): void {
    addSecrets(this.#secrets, ...found);
    for (const oldest of this.#secrets) {
      if (this.#secrets.size <= MAX_SECRETS) break;
      this.#secrets.delete(oldest);
    }
  }
}

/** What went wrong in a flow that several wait for, in words. */
class FlowFailed extends Error {}

function together(one: string | undefined, other: string | undefined): string | undefined {
  return usableScope([...new Set(`${one ?? ''} ${other ?? ''}`.split(' '))].join(' '));
}

async function tokensOf(provider: OAuthClientProvider): Promise<StoredOAuthTokens | undefined> {
  return provider.tokens();
}

function isAnother(tokens: StoredOAuthTokens | undefined, refused: string | undefined): boolean {
  return tokens !== undefined && tokens.access_token !== refused;
}

/** A person who looks at one request is not shown another, unless that one asks for more. */
async function mayReplace(pending: PendingFlow, needs: Needs): Promise<boolean> {
  if (!needs.forced || pending.replaced >= MAX_REPLACED) return false;
  const { isStrictScopeSuperset } = await officialClient();
  return isStrictScopeSuperset(needs.scope, pending.scope);
}
