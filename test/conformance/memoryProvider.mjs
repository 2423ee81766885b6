// An OAuthClientProvider that keeps everything in memory, by authorization server.

export const REDIRECT_URL = 'http://localhost:3000/callback';

export class MemoryProvider {
  #clients = new Map();
  #tokens = new Map();
  #latest;
  #verifier;
  #discovery;
  #fixedClient;

  /**
   * @param options.client a client that is registered already
   * @param options.dpop a session: tokens are bound to its key
   * @param options.grant makes the parameters of the token request
   * @param options.interactive whether a person may be asked
   */
  constructor({ client, dpop, grant, interactive = true }) {
    this.#fixedClient = client;
    this.redirectUrl = interactive ? REDIRECT_URL : undefined;
    if (dpop !== undefined) this.dpop = () => dpop;
    if (grant !== undefined) this.prepareTokenRequest = grant;
    this.clientMetadata = {
      client_name: 'peerage conformance driver',
      redirect_uris: interactive ? [REDIRECT_URL] : [],
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
      application_type: 'native',
      ...(interactive ? {} : { token_endpoint_auth_method: 'none' }),
    };
  }

  state() {
    return crypto.randomUUID();
  }
  clientInformation(context) {
    if (this.#fixedClient !== undefined) return this.#fixedClient;
    return this.#clients.get(context?.issuer);
  }
  saveClientInformation(client, context) {
    this.#clients.set(context?.issuer ?? client.issuer, client);
  }
  tokens(context) {
    return context === undefined ? this.#latest : this.#tokens.get(context.issuer);
  }
  saveTokens(tokens, context) {
    this.#tokens.set(context?.issuer ?? tokens.issuer, tokens);
    this.#latest = tokens;
  }
  redirectToAuthorization() {}
  saveCodeVerifier(verifier) {
    this.#verifier = verifier;
  }
  codeVerifier() {
    return this.#verifier;
  }
  saveDiscoveryState(state) {
    this.#discovery = state;
  }
  discoveryState() {
    return this.#discovery;
  }
  invalidateCredentials(scope) {
    if (scope === 'all' || scope === 'tokens') {
      this.#tokens.clear();
      this.#latest = undefined;
    }
    if (scope === 'all' || scope === 'client') this.#clients.clear();
    if (scope === 'all' || scope === 'verifier') this.#verifier = undefined;
    if (scope === 'all' || scope === 'discovery') this.#discovery = undefined;
  }
}
