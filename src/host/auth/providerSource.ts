/** The provider behind a peer's configuration. */
import { hash } from 'node:crypto';
import type { OAuthClientProvider } from '@modelcontextprotocol/client';
import { isAuthProvider } from '../authChecks.js';
import type { BearerAuth, ClientCredentialsAuth, PeerAuth, PrivateKeyAuth } from '../config.js';
import { officialClient } from './officialClient.js';

export interface ProviderSource {
  /** Null until {@link load} made it. */
  readonly current: OAuthClientProvider | null;
  load(): Promise<OAuthClientProvider>;
  /** What is configured where this host authorizes itself; null where a provider decides. */
  readonly machine: {
    /** Whom the credentials stand for. */
    readonly context: string;
    /** All that is ever asked for; undefined: what the server asks for. */
    readonly scope: string | undefined;
  } | null;
}

type MachineAuth = ClientCredentialsAuth | PrivateKeyAuth;

export function providerSource(auth: Exclude<PeerAuth, BearerAuth>): ProviderSource {
  if (isAuthProvider(auth)) return { current: auth, machine: null, load: () => Promise.resolve(auth) };
  return new MachineSource(auth);
}

class MachineSource implements ProviderSource {
  readonly machine: { readonly context: string; readonly scope: string | undefined };
  current: OAuthClientProvider | null = null;
  readonly #auth: MachineAuth;
  #loading: Promise<OAuthClientProvider> | null = null;

  constructor(auth: MachineAuth) {
    this.#auth = auth;
    const { type, clientId, issuer, scope } = auth;
    const words = JSON.stringify(['peerage machine', type, clientId, issuer, scope ?? null]);
    this.machine = { context: hash('sha256', words, 'hex'), scope };
  }

  load(): Promise<OAuthClientProvider> {
    this.#loading ??= this.#make();
    return this.#loading;
  }

  async #make(): Promise<OAuthClientProvider> {
    const { ClientCredentialsProvider, PrivateKeyJwtProvider } = await officialClient();
    const auth = this.#auth;
    const { clientId, issuer: expectedIssuer } = auth;
    const shared = { clientId, expectedIssuer, ...(auth.scope === undefined ? {} : { scope: auth.scope }) };
    this.current =
      auth.type === 'client-credentials'
        ? new ClientCredentialsProvider({ ...shared, clientSecret: auth.clientSecret })
        : new PrivateKeyJwtProvider({ ...shared, privateKey: auth.privateKey, algorithm: auth.algorithm });
    return this.current;
  }
}
