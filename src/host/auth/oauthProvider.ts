/**
 * A provider of authorization for hosts whose peers need a person's consent: the authorization code grant with PKCE,
 * driven by the official client package. It keeps credentials; it opens no port and no browser.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { hash, randomBytes } from 'node:crypto';
import type {
  OAuthClientInformationContext,
  OAuthClientMetadata,
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client';
import { type CredentialStore, hasTexts, Records } from './credentialStore.js';
import {
  type CheckedProviderOptions,
  checkProviderOptions,
  type OAuthProviderOptions,
} from './oauthProviderOptions.js';

/** What a provider may have besides, for those who drive it. */
export interface LockableProvider extends OAuthClientProvider {
  /**
   * Runs `work` while nobody else uses or changes these credentials, so that a refresh token is used once: what another
   * one has obtained in the meantime is there when `work` begins. May be called within itself.
   */
  exclusively<T>(work: () => Promise<T>): Promise<T>;
  /**
   * Runs `work` as what follows on the authorization request of that `state`: verifier and discovery state are those of
   * that request, whatever was asked for since. Rejects where there is none.
   */
  redeeming<T>(state: string, work: () => Promise<T>): Promise<T>;
}

/** Whether these credentials may be shared with others, and how to have them alone. */
export function isLockable(provider: OAuthClientProvider): provider is LockableProvider {
  const { exclusively, redeeming } = provider as Partial<LockableProvider>;
  return typeof exclusively === 'function' && typeof redeeming === 'function';
}

/**
 * Makes an `OAuthClientProvider` to be given to a peer as `auth`. Tokens and clients are kept by the authorization
 * server that issued them (RFC 6749, 2.2) and are never shown to another.
 *
 * @throws {ConfigurationError} an unknown option, or one of the wrong form; a value is never shown
 */
export function createOAuthProvider(options: OAuthProviderOptions): LockableProvider {
  const provider = new StoredProvider(checkProviderOptions(options));
  // The official package takes the method's absence as: this client cannot be registered anew.
  if (options.client !== undefined) delete provider.saveClientInformation;
  return provider as LockableProvider;
}

/** An authorization request that was made and is not redeemed. */
interface Flow {
  readonly verifier: string;
  readonly discovery?: OAuthDiscoveryState;
}

/** What work was begun within. Emptied when that is over: some of it may go on unnoticed. */
interface Scope {
  holdsLock: boolean;
  flow: Flow | null;
}

type Context = OAuthClientInformationContext;

const isTokens = (value: object): value is object & StoredOAuthTokens =>
  hasTexts(value, 'access_token', 'token_type');
const isClient = (value: object): value is object & StoredOAuthClientInformation =>
  hasTexts(value, 'client_id');
const isDiscovery = (value: object): value is object & OAuthDiscoveryState =>
  hasTexts(value, 'authorizationServerUrl');
const isFlow = (value: object): value is object & Flow => hasTexts(value, 'verifier');
const isPointer = (value: object): value is object & { readonly issuer: string } => hasTexts(value, 'issuer');
const isFlows = (value: object): value is object & { readonly states: readonly string[] } =>
  'states' in value &&
  Array.isArray(value.states) &&
  value.states.every((state) => typeof state === 'string');

/** So many requests of which nothing came are remembered: a person may have more than one page open. */
const MAX_FLOWS = 8;

class StoredProvider {
  readonly redirectUrl: string;
  readonly clientMetadataUrl?: string;
  readonly #options: CheckedProviderOptions;
  readonly #store: CredentialStore;
  readonly #records: Records;
  readonly #scope = new AsyncLocalStorage<Scope>();
  /** Verifiers whose request is not on its way yet, by their challenge. */
  readonly #beginning = new Map<string, string>();
  #turn: Promise<unknown> = Promise.resolve();
  /** Requests being written down: the answer may be quicker. */
  #begun: Promise<unknown> = Promise.resolve();
  /** What was given out last, by the name of its record: that is what failed, when something has failed. */
  readonly #given = new Map<string, string>();
  #lastIssuer: string | undefined;

  constructor(options: CheckedProviderOptions) {
    this.#options = options;
    this.#store = options.store;
    this.#records = new Records(options.store, options.key);
    this.redirectUrl = options.redirectUrl;
    if (options.clientMetadataUrl !== undefined) this.clientMetadataUrl = options.clientMetadataUrl;
  }

  get clientMetadata(): OAuthClientMetadata {
    const { clientName, redirectUrl, scope } = this.#options;
    return {
      client_name: clientName,
      redirect_uris: [redirectUrl],
      // Named, since `offline_access` is asked for by this.
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      ...(scope === undefined ? {} : { scope }),
    };
  }

  /** 128 bits (RFC 6749, 10.10). */
  state(): string {
    return randomBytes(16).toString('base64url');
  }

  async clientInformation(context?: Context): Promise<StoredOAuthClientInformation | undefined> {
    const { client } = this.#options;
    if (client !== undefined) {
      const { clientId, clientSecret, issuer } = client;
      return {
        client_id: clientId,
        ...(clientSecret === undefined ? {} : { client_secret: clientSecret }),
        issuer,
      };
    }
    const issuer = context?.issuer ?? (await this.#latestIssuer());
    if (issuer === undefined) return undefined;
    return this.#give(issuer, clientOf(issuer), isClient);
  }

  saveClientInformation? = async (client: StoredOAuthClientInformation, context?: Context): Promise<void> => {
    await this.#records.write(clientOf(context?.issuer ?? client.issuer ?? ''), client);
  };

  async tokens(context?: Context): Promise<StoredOAuthTokens | undefined> {
    const issuer = context?.issuer ?? (await this.#latestIssuer());
    if (issuer === undefined) return undefined;
    return this.#give(issuer, tokensOf(issuer), isTokens);
  }

  async saveTokens(tokens: StoredOAuthTokens, context?: Context): Promise<void> {
    const issuer = context?.issuer ?? tokens.issuer ?? '';
    await this.#records.write(tokensOf(issuer), tokens);
    await this.#records.write(LATEST, { issuer });
  }

  saveCodeVerifier(verifier: string): void {
    this.#beginning.set(hash('sha256', verifier, 'base64url'), verifier);
    const [oldest] = this.#beginning.keys();
    if (this.#beginning.size > MAX_FLOWS && oldest !== undefined) this.#beginning.delete(oldest);
  }

  async redirectToAuthorization(url: URL): Promise<void> {
    const begun = this.#begin(url);
    this.#begun = Promise.allSettled([this.#begun, begun]);
    await begun;
    await this.#options.open?.(url);
  }

  async #begin(url: URL): Promise<void> {
    // By the challenge, since several requests may begin at once.
    const challenge = url.searchParams.get('code_challenge') ?? '';
    const verifier = this.#beginning.get(challenge);
    if (verifier === undefined)
      throw new Error('the authorization request does not belong to a code verifier');
    this.#beginning.delete(challenge);
    const state = url.searchParams.get('state') ?? '';
    const discovery = await this.discoveryState();
    const flow: Flow = { verifier, ...(discovery === undefined ? {} : { discovery }) };
    const states = [...(await this.#states()), state];
    for (const forgotten of states.splice(0, states.length - MAX_FLOWS)) {
      await this.#records.remove(flowOf(forgotten));
    }
    await this.#records.write(flowOf(state), flow);
    await this.#records.write(FLOWS, { states });
  }

  async codeVerifier(): Promise<string> {
    await this.#begun;
    const flow = this.#scope.getStore()?.flow ?? (await this.#latestFlow());
    if (flow === undefined) throw new Error('no authorization was asked for');
    return flow.verifier;
  }

  async saveDiscoveryState(state: OAuthDiscoveryState): Promise<void> {
    await this.#records.write(DISCOVERY, state);
  }

  async discoveryState(): Promise<OAuthDiscoveryState | undefined> {
    const flow = this.#scope.getStore()?.flow;
    return flow?.discovery ?? this.#records.read(DISCOVERY, isDiscovery);
  }

  async invalidateCredentials(what: 'all' | 'client' | 'tokens' | 'verifier' | 'discovery'): Promise<void> {
    const named = (one: typeof what): boolean => what === one || what === 'all';
    const issuer = this.#lastIssuer;
    if (named('tokens') && issuer !== undefined) await this.#removeFailed(tokensOf(issuer), isTokens);
    if (named('client') && issuer !== undefined) await this.#removeFailed(clientOf(issuer), isClient);
    if (named('verifier')) await this.#forgetFlow((await this.#states()).at(-1));
    if (named('discovery')) await this.#records.remove(DISCOVERY);
  }

  /** Never what another process has obtained since. */
  async #removeFailed<T>(name: string, isOne: (value: object) => value is object & T): Promise<void> {
    const failed = this.#given.get(name);
    if (failed === undefined) return;
    await this.exclusively(async () => {
      const kept = await this.#records.read(name, isOne);
      if (kept !== undefined && JSON.stringify(kept) === failed) await this.#records.remove(name);
    });
  }

  async #give<T>(
    issuer: string,
    name: string,
    isOne: (value: object) => value is object & T,
  ): Promise<T | undefined> {
    const kept = await this.#records.read(name, isOne);
    this.#lastIssuer = issuer;
    if (kept !== undefined) this.#given.set(name, JSON.stringify(kept));
    return kept;
  }

  exclusively<T>(work: () => Promise<T>): Promise<T> {
    const outer = this.#scope.getStore();
    if (outer?.holdsLock === true) return work();
    const inside = (): Promise<T> => this.#within({ holdsLock: true, flow: outer?.flow ?? null }, work);
    const locked = (): Promise<T> => this.#store.lock?.(this.#options.key, inside) ?? inside();
    const result = this.#turn.then(locked);
    this.#turn = result.catch(() => undefined);
    return result;
  }

  async redeeming<T>(state: string, work: () => Promise<T>): Promise<T> {
    await this.#begun;
    const flow = await this.#records.read(flowOf(state), isFlow);
    if (flow === undefined) throw new Error('no authorization was asked for with this state');
    const holdsLock = this.#scope.getStore()?.holdsLock ?? false;
    const result = await this.#within({ holdsLock, flow }, work);
    // A code, and so its verifier, is good for one time.
    await this.#forgetFlow(state);
    return result;
  }

  async #within<T>(scope: Scope, work: () => Promise<T>): Promise<T> {
    try {
      return await this.#scope.run(scope, work);
    } finally {
      scope.holdsLock = false;
      scope.flow = null;
    }
  }

  async #latestIssuer(): Promise<string | undefined> {
    return (await this.#records.read(LATEST, isPointer))?.issuer;
  }

  /** Of the requests that were made, the newest last. */
  async #states(): Promise<readonly string[]> {
    return (await this.#records.read(FLOWS, isFlows))?.states ?? [];
  }

  async #latestFlow(): Promise<Flow | undefined> {
    const state = (await this.#states()).at(-1);
    return state === undefined ? undefined : this.#records.read(flowOf(state), isFlow);
  }

  async #forgetFlow(state: string | undefined): Promise<void> {
    if (state === undefined) return;
    const states = (await this.#states()).filter((other) => other !== state);
    await this.#records.remove(flowOf(state));
    await this.#records.write(FLOWS, { states });
  }
}

const LATEST = 'latest';
const FLOWS = 'flows';
const DISCOVERY = 'discovery';
const tokensOf = (issuer: string): string => `tokens ${issuer}`;
const clientOf = (issuer: string): string => `client ${issuer}`;
const flowOf = (state: string): string => `flow ${state}`;
