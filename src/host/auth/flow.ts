/** One run of the official package's `auth` with a provider that is looked at from outside, and never changed. */
import type {
  OAuthClientProvider,
  OAuthDiscoveryState,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client';
import { AuthFetchError } from './addressGuard.js';
import type { AuthFetch } from './authFetch.js';
import type { FlowEnd } from './flowEnd.js';
import { addSecrets, type FlowNotes } from './flowNotes.js';
import { officialClient } from './officialClient.js';
import { isToken } from './presentation.js';
import type { BegunFlow, PendingFlow } from './providerState.js';

export interface FlowRequest {
  readonly provider: OAuthClientProvider;
  readonly serverUrl: string;
  readonly fetch: AuthFetch;
  readonly notes: FlowNotes;
  readonly scope: string | undefined;
  readonly resourceMetadataUrl: URL | undefined;
  /** A renewal cannot widen a scope (RFC 6749, 6). */
  readonly forced?: boolean;
  /** Ends before a person would be asked, who is asked already. */
  readonly renewalOnly?: boolean;
  /**
   * Told where a person is to go, before the provider is. The provider is not waited for once the promise has settled:
   * what it does may well last until the person is back, who is let in by another flow.
   */
  readonly onRedirect?: (flow: BegunFlow) => Promise<void>;
  /** The code that came back, and the flow it belongs to where that is known. */
  readonly redeemed?: {
    readonly code: string;
    readonly iss: string | undefined;
    readonly pending: PendingFlow | null;
  };
}

/** Thrown through `auth`, where what it would do next does harm. */
class Elsewhere extends Error {}
class NeedsPerson extends Error {}
export class CodeRefused extends Error {}

export async function runFlow(request: FlowRequest): Promise<FlowEnd> {
  const { auth } = await officialClient();
  const watch = new ProviderWatch(request);
  try {
    const result = await auth(watch.provider, {
      serverUrl: request.serverUrl,
      fetchFn: request.fetch.for(request.notes),
      ...(request.scope === undefined ? {} : { scope: request.scope }),
      ...(request.resourceMetadataUrl === undefined
        ? {}
        : { resourceMetadataUrl: request.resourceMetadataUrl }),
      ...(request.forced === true ? { forceReauthorization: true } : {}),
      ...(request.redeemed === undefined ? {} : { authorizationCode: request.redeemed.code }),
      ...(request.redeemed?.iss === undefined ? {} : { iss: request.redeemed.iss }),
    });
    if (result === 'REDIRECT') return { kind: 'pending' };
  } catch (error) {
    if (error instanceof Elsewhere) return { kind: 'elsewhere' };
    if (error instanceof NeedsPerson) return { kind: 'pending' };
    throw error;
  }
  const { grant, scope } = request.notes;
  return {
    kind: 'authorized',
    token: watch.saved,
    renewed: grant === 'refresh_token',
    scope: request.redeemed?.pending?.scope ?? scope ?? request.scope,
  };
}

class ProviderWatch {
  readonly provider: OAuthClientProvider;
  /** The access token that was saved last. */
  saved: string | undefined;
  readonly #request: FlowRequest;
  readonly #forgotten = new Set<string>();
  #read: StoredOAuthTokens | undefined;
  #discovery: OAuthDiscoveryState | undefined;
  #verifier: string | undefined;
  #url: URL | undefined;

  constructor(request: FlowRequest) {
    this.#request = request;
    this.#discovery = request.redeemed?.pending?.discovery;
    const own = this.#overrides();
    const { provider } = request;
    // Nothing lies behind the proxy: a frozen provider may not be shown with other members than it has.
    this.provider = new Proxy({} as OAuthClientProvider, {
      has: (_nothing, name) => Object.hasOwn(own, name) || Reflect.has(provider, name),
      get: (_nothing, name) => {
        if (Object.hasOwn(own, name)) return Reflect.get(own, name) as unknown;
        const value: unknown = Reflect.get(provider, name, provider);
        return typeof value === 'function' ? (value.bind(provider) as unknown) : value;
      },
    });
  }

  #begun(): BegunFlow {
    const { scope, resourceMetadataUrl } = this.#request;
    const parameters = this.#url?.searchParams;
    return {
      url: this.#url?.href ?? '',
      state: parameters?.get('state') ?? null,
      scope: parameters?.get('scope') ?? scope,
      resourceMetadataUrl,
      verifier: this.#verifier,
      discovery: this.#discovery,
    };
  }

  #overrides(): Partial<OAuthClientProvider> {
    const { provider, notes, redeemed } = this.#request;
    return {
      tokens: async (context) => {
        if (this.#forgotten.has('tokens')) return undefined;
        // Some give null for what there is not, and the official package does not expect it.
        const found = await provider.tokens(context);
        // Nor one that no request could carry.
        this.#read =
          isToken(found?.access_token) || found?.refresh_token !== undefined
            ? (found ?? undefined)
            : undefined;
        addSecrets(notes.secrets, this.#read?.access_token, this.#read?.refresh_token);
        return this.#read;
      },
      saveTokens: async (tokens, context) => {
        addSecrets(notes.secrets, tokens.access_token, tokens.refresh_token);
        if (!isToken(tokens.access_token) && tokens.access_token !== this.#read?.access_token) {
          throw new AuthFetchError('the authorization server gives a token that no header can carry');
        }
        await provider.saveTokens(tokens, context);
        this.saved = tokens.access_token;
      },
      clientInformation: async (context) => {
        if (this.#forgotten.has('client')) return undefined;
        const client = (await provider.clientInformation(context)) ?? undefined;
        addSecrets(notes.secrets, client?.client_secret);
        return client;
      },
      saveCodeVerifier: async (verifier) => {
        if (this.#request.renewalOnly === true) throw new NeedsPerson();
        addSecrets(notes.secrets, verifier);
        this.#verifier = verifier;
        await provider.saveCodeVerifier(verifier);
      },
      codeVerifier: async () => {
        const verifier = redeemed?.pending?.verifier ?? (await provider.codeVerifier());
        addSecrets(notes.secrets, verifier);
        return verifier;
      },
      redirectToAuthorization: async (url) => {
        await this.#request.fetch.admitPage(new URL(url));
        this.#url = new URL(url);
        const answered = this.#request.onRedirect?.(this.#begun());
        const forwarded = harmless(() => provider.redirectToAuthorization(url));
        await (answered === undefined ? forwarded : Promise.race([forwarded, answered]));
      },
      invalidateCredentials: (what) => this.#invalidate(what),
      ...this.#discoveryMembers(),
    };
  }

  /** Where the provider keeps no discovery, the flow does: a code goes to the server that gave it (SEP-2352). */
  #discoveryMembers(): Partial<OAuthClientProvider> {
    const { provider, redeemed } = this.#request;
    if (redeemed !== undefined && this.#discovery === undefined && provider.discoveryState === undefined) {
      return {};
    }
    return {
      discoveryState: async () => this.#discovery ?? (await provider.discoveryState?.()) ?? undefined,
      saveDiscoveryState: async (state) => {
        this.#discovery = state;
        await provider.saveDiscoveryState?.(state);
      },
    };
  }

  async #invalidate(
    what: Parameters<NonNullable<OAuthClientProvider['invalidateCredentials']>>[0],
  ): Promise<void> {
    const { provider, redeemed } = this.#request;
    if (redeemed !== undefined) {
      // `auth` would go on and send the same code once more; the tokens there are did nothing wrong.
      if (what === 'client') await provider.invalidateCredentials?.('client');
      throw new CodeRefused();
    }
    // Another process, or another flow, may have renewed what was refused here: that is not to be deleted.
    if (what === 'tokens' && this.#read !== undefined) {
      const now = await provider.tokens(
        this.#read.issuer === undefined ? undefined : { issuer: this.#read.issuer },
      );
      const isOther =
        now?.refresh_token !== this.#read.refresh_token || now?.access_token !== this.#read.access_token;
      if ((now ?? undefined) !== undefined && isOther) throw new Elsewhere();
    }
    if (provider.invalidateCredentials === undefined) this.#forget(what);
    else await provider.invalidateCredentials(what);
  }

  /** For this flow at least: `auth` would try the same again, and give up. */
  #forget(what: string): void {
    if (what === 'client' && this.#request.provider.saveClientInformation === undefined) return;
    this.#forgotten.add(what);
  }
}

/** The URL is in the report: where it cannot be opened, that is left to a person. */
async function harmless(act: () => void | Promise<void>): Promise<void> {
  try {
    await act();
  } catch {
    // Nothing else depends on it.
  }
}
