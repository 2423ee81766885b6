/** The least that an `OAuthClientProvider` can be: in memory, at once, and with a note of what it was asked. */
import type {
  OAuthClientMetadata,
  OAuthClientProvider,
  StoredOAuthClientInformation,
  StoredOAuthTokens,
} from '@modelcontextprotocol/client';

export class PlainProvider implements OAuthClientProvider {
  readonly redirectUrl = 'http://127.0.0.1:9/callback';
  readonly opened: string[] = [];
  kept: StoredOAuthTokens | undefined;
  client: StoredOAuthClientInformation | undefined;
  verifier = '';
  clientMetadata: OAuthClientMetadata = {
    redirect_uris: [this.redirectUrl],
    client_name: 'guest',
    grant_types: ['authorization_code', 'refresh_token'],
  };

  state(): string | Promise<string> {
    return `state-${Math.random()}`;
  }

  clientInformation(): StoredOAuthClientInformation | undefined {
    return this.client;
  }

  saveClientInformation(client: StoredOAuthClientInformation): void {
    this.client = client;
  }

  tokens(): StoredOAuthTokens | undefined | Promise<StoredOAuthTokens | undefined> {
    return this.kept;
  }

  saveTokens(tokens: StoredOAuthTokens): void {
    this.kept = tokens;
  }

  redirectToAuthorization(url: URL): void | Promise<void> {
    this.opened.push(url.href);
  }

  saveCodeVerifier(verifier: string): void {
    this.verifier = verifier;
  }

  codeVerifier(): string {
    return this.verifier;
  }

  invalidateCredentials(what: string): void {
    if (what === 'tokens' || what === 'all') this.kept = undefined;
    if (what === 'client' || what === 'all') this.client = undefined;
  }
}
