/** Authorization of one peer by OAuth: which credentials a request carries, and what happens when they are refused. */
import { randomUUID } from 'node:crypto';
import type { DpopSession, OAuthClientProvider, StoredOAuthTokens } from '@modelcontextprotocol/client';
import { sanitizeText } from '../../protocol/sanitize.js';
import type { HttpAttempt, Refusal } from '../../transports/httpAuthorizer.js';
import type { BearerAuth, PeerAuth } from '../config.js';
import { AuthorizationError } from '../errors.js';
import type { AuthorizationResponse } from '../facade.js';
import { redactor } from '../redact.js';
import { AuthFetch } from './authFetch.js';
import { problemOf } from './authorizationProblem.js';
import { type Challenge, readChallenge } from './challenge.js';
import { Ended, Ending } from './ending.js';
import { Flights, FlowFailed, isAnother } from './flights.js';
import type { FlowEnd } from './flowEnd.js';
import { addSecrets, type FlowNotes, newNotes, secretForms } from './flowNotes.js';
import { furtherNeeds, type Needs, together } from './needs.js';
import type { PeerAuthorization, PeerAuthorizationOptions } from './peerAuthorization.js';
import { isPromise, isUsable, type Presented, present, tokenIn } from './presentation.js';
import { type ProviderSource, providerSource } from './providerSource.js';
import { type PendingFlow, type ProviderState, type ProviderUser, stateOf } from './providerState.js';
import { belongsTo, type Redemption, readResponse, refusalIn } from './redemption.js';

/** Secrets kept to be taken out of texts: those of the last few flows. */
const MAX_SECRETS = 64;
const MAX_PROBLEM_LENGTH = 300;
const NOT_OURS =
  'its provider is also that of a peer at another origin, and no token is shown to two: give each a provider of its own';
const ASK_ANEW = 'Call retry() to ask for access anew, or authorize() if credentials are there by now.';

export class OAuthAuthorization implements PeerAuthorization {
  readonly #options: PeerAuthorizationOptions;
  readonly #source: ProviderSource;
  readonly #fetch: AuthFetch;
  readonly #flights: Flights;
  readonly #user: ProviderUser;
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
    this.#user = { origin: new URL(url).origin };
    if (this.#source.machine === null) this.#state?.join(this.#user);
    this.#fetch = new AuthFetch({ endpoint: new URL(url), proxy, clock });
    this.#flights = new Flights({
      url,
      fetch: this.#fetch,
      clock,
      end: this.#end,
      wordsFor: (error, notes) => this.#wordsFor(error, notes),
      keep: (secrets) => this.#keep(secrets),
      tell: (pending) => this.#tell(pending),
    });
  }

  get pendingUrl(): string | null {
    return this.#end.isOver ? null : (this.#pending?.url ?? null);
  }

  get problem(): string | null {
    return this.#problem;
  }

  get remedy(): string | null {
    return this.#source.machine !== null || this.#problem === NOT_OURS ? null : ASK_ANEW;
  }

  get context(): string {
    return this.#source.machine?.context ?? this.#word;
  }

  credentials(attempt: HttpAttempt): Presented {
    const provider = this.#source.current;
    if (provider === null || this.#end.isOver) return null;
    if (this.#state?.isFor(this.#user) === false) {
      this.#problem = NOT_OURS;
      return null;
    }
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

  reconsider(): void {
    this.#flights.resume();
    // Looks at the tokens that are there.
    const { url } = this.#options;
    void this.credentials({ method: 'POST', url: new URL(url) });
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
    this.#state?.leave(this.#user);
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
    if (!isUsable(tokens)) return null;
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
    if (this.#end.isOver || this.#state?.isFor(this.#user) === false) return false;
    const challenge = readChallenge(refusal.challenge);
    if (refusal.status === 401 && challenge.wantsNonce) {
      return this.#session?.nonceFor(refusal.attempt.url) !== undefined;
    }
    if (refusal.status === 403 && challenge.error !== 'insufficient_scope') return false;
    const provider = await this.#source.load();
    const refused = tokenIn(refusal.credentials);
    const tokens = await provider.tokens();
    if (isAnother(tokens, refused)) return true;
    this.#resourceMetadataUrl = challenge.resourceMetadataUrl ?? this.#resourceMetadataUrl;
    const needs = await this.#needsOf(refusal.status, challenge, tokens?.scope);
    if (typeof needs !== 'string') return this.#obtain(provider, needs, refused);
    this.#problem = this.#shown(needs);
    return false;
  }

  async #needsOf(
    status: 401 | 403,
    challenge: Challenge,
    granted: string | undefined,
  ): Promise<Needs | string> {
    const fixed = this.#source.machine?.scope;
    if (status === 403) {
      return furtherNeeds(challenge, {
        fixed,
        granted,
        obtained: this.#obtainedScope,
        resourceMetadataUrl: this.#resourceMetadataUrl,
      });
    }
    const { scope, resourceMetadataUrl } = challenge;
    return { scope: fixed ?? scope, resourceMetadataUrl, forced: false };
  }

  async #obtain(provider: OAuthClientProvider, needs: Needs, refused: string | undefined): Promise<boolean> {
    try {
      return this.#landed(await this.#flights.obtain(provider, needs, refused));
    } catch (error) {
      if (!(error instanceof FlowFailed)) throw error;
      this.#problem = error.message;
      return false;
    }
  }

  #landed(end: FlowEnd): boolean {
    const pending = this.#pending;
    if (end.kind === 'paused') return false;
    if (end.kind === 'pending') {
      if (pending !== null) this.#tell(pending);
      return false;
    }
    this.#problem = null;
    if (end.kind === 'authorized') {
      // Nobody need grant what was obtained without; where more is wanted, a renewal does not give it.
      if (!end.renewed) this.#drop(pending);
      this.#granted(end);
    }
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
    if (this.#state?.isFor(this.#user) === false) throw this.#error(NOT_OURS);
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
    // RFC 6749, 4.1.2: a server that gets a code twice may take back what it gave for it.
    // What answers an open request is that request's, whatever its value: some give the same each time.
    if (pending === null && this.#state?.isSpent(redemption.code) === true)
      throw this.#error('what came back was redeemed already');
    this.#state?.noteSpent(redemption.code);
    pending?.answered();
    await this.#exchange(provider, redemption, redemption.code, pending);
  }

  async #exchange(
    provider: OAuthClientProvider,
    redemption: Redemption,
    code: string,
    pending: PendingFlow | null,
  ): Promise<void> {
    try {
      const end = await this.#flights.redeem(provider, {
        code,
        iss: redemption.iss,
        state: redemption.state ?? pending?.state ?? null,
        pending,
        resourceMetadataUrl: this.#resourceMetadataUrl,
      });
      this.#drop(pending);
      this.#problem = null;
      this.#flights.resume();
      if (end.kind === 'authorized') this.#granted(end);
    } catch (error) {
      if (!(error instanceof FlowFailed)) throw error;
      this.#giveUp(pending, error.message);
      throw this.#error(error.message);
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
    return problemOf(error, notes, (text) => this.#shown(text));
  }

  #shown(text: string): string {
    return sanitizeText(this.#options.redact(this.withoutSecrets(text)), MAX_PROBLEM_LENGTH);
  }

  #error(problem: string): AuthorizationError {
    return new AuthorizationError(this.#options.peer, problem);
  }

  #keep(found: Iterable<string>): void {
    // What is in use stays, however many flows come to nothing meanwhile.
    const kept = [...found, this.#lastToken ?? ''];
    for (const secret of kept) this.#secrets.delete(secret);
    addSecrets(this.#secrets, ...kept);
    for (const oldest of this.#secrets) {
      if (this.#secrets.size <= MAX_SECRETS) break;
      this.#secrets.delete(oldest);
    }
  }
}
