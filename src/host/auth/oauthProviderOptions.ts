/** The options of `createOAuthProvider`, their checks and defaults. */
import { isLoopback, issuerProblem } from '../authChecks.js';
import { ConfigurationError, type PathSegment } from '../errors.js';
import { PACKAGE_NAME } from '../version.js';
import type { CredentialStore } from './credentialStore.js';

export interface OAuthProviderOptions {
  /** Where the authorization server sends the person back to: `https:`, a loopback `http:` URL, or an own scheme. */
  readonly redirectUrl: string | URL;
  /** Shown to the person. Default `peerage`. */
  readonly clientName?: string;
  /** An `https:` URL with a path, under which the client's metadata lies: its client id where the server takes that. */
  readonly clientMetadataUrl?: string;
  /** Registered beforehand with this one authorization server; no other sees it. Default: registered when needed. */
  readonly client?: { readonly clientId: string; readonly clientSecret?: string; readonly issuer: string };
  /** Space-separated. Asked for where the server does not say what it needs. */
  readonly scope?: string;
  /**
   * Called with the page where a person grants access. Default: nothing is opened. The URL is also in the peer's report
   * and in the host's event `authorization`; a host neither waits for this nor minds what it throws.
   */
  readonly open?: (url: URL) => unknown;
  /** Default: memory, gone with the process. */
  readonly store?: CredentialStore;
  /** Which peer and whose account the credentials are for. Needed with a store: two peers must not share tokens. */
  readonly key?: string;
}

export interface CheckedProviderOptions {
  readonly redirectUrl: string;
  readonly clientName: string;
  readonly clientMetadataUrl: string | undefined;
  readonly client: OAuthProviderOptions['client'];
  readonly scope: string | undefined;
  readonly open: OAuthProviderOptions['open'];
  readonly store: CredentialStore;
  readonly key: string;
}

const KEYS = ['redirectUrl', 'clientName', 'clientMetadataUrl', 'client', 'scope', 'open', 'store', 'key'];
const CLIENT_KEYS = ['clientId', 'clientSecret', 'issuer'];
/** Nothing comes back from there. */
const NO_REDIRECT = new Set(['javascript:', 'data:', 'file:', 'blob:', 'about:', 'ftp:', 'ws:', 'wss:']);

/** @throws {ConfigurationError} never showing a value */
export function checkProviderOptions(options: OAuthProviderOptions): CheckedProviderOptions {
  refuseUnknown(options, KEYS, []);
  const { redirectUrl, clientName, clientMetadataUrl, client, scope, open, store, key } = options;
  if (store !== undefined && key === undefined) {
    fail(
      ['key'],
      'nothing beside a store',
      'a word for the peer and the account that the credentials are for',
    );
  }
  if (open !== undefined && typeof open !== 'function') fail(['open'], 'no function', 'a function');
  return {
    redirectUrl: checkRedirect(redirectUrl),
    clientName: checkText(clientName ?? PACKAGE_NAME, ['clientName']),
    clientMetadataUrl: clientMetadataUrl === undefined ? undefined : checkMetadataUrl(clientMetadataUrl),
    client: client === undefined ? undefined : checkClient(client),
    scope: scope === undefined ? undefined : checkText(scope, ['scope']),
    open,
    store: store === undefined ? new Map<string, string>() : checkStore(store),
    key: checkText(key ?? PACKAGE_NAME, ['key']),
  };
}

function checkRedirect(given: unknown): string {
  const at = ['redirectUrl'];
  const allowed = 'an https: URL, an http: URL of this machine, or one of an own scheme, without a fragment';
  const text = given instanceof URL ? given.href : given;
  if (typeof text !== 'string' || !URL.canParse(text)) fail(at, 'no absolute URL', allowed);
  const url = new URL(text);
  if (url.protocol === 'http:' && !isLoopback(url)) fail(at, 'an http: URL of another machine', allowed);
  if (NO_REDIRECT.has(url.protocol)) fail(at, `a ${url.protocol} URL`, allowed);
  // RFC 6749, 3.1.2.
  if (text.includes('#')) fail(at, 'a URL with a fragment', allowed);
  return text;
}

function checkMetadataUrl(given: unknown): string {
  const allowed = 'an https: URL with a path';
  const url = typeof given === 'string' && URL.canParse(given) ? new URL(given) : null;
  if (url === null || url.protocol !== 'https:' || url.pathname === '/') {
    fail(['clientMetadataUrl'], 'something else', allowed);
  }
  return given as string;
}

function checkClient(client: unknown): OAuthProviderOptions['client'] {
  if (typeof client !== 'object' || client === null) fail(['client'], 'no object', 'an object');
  refuseUnknown(client, CLIENT_KEYS, ['client']);
  const { clientId, clientSecret, issuer } = client as Record<string, unknown>;
  const checked = checkText(issuer, ['client', 'issuer']);
  const problem = issuerProblem(checked);
  if (problem !== null) fail(['client', 'issuer'], problem, 'the issuer that the client is registered with');
  return {
    clientId: checkText(clientId, ['client', 'clientId']),
    issuer: checked,
    ...(clientSecret === undefined
      ? {}
      : { clientSecret: checkText(clientSecret, ['client', 'clientSecret']) }),
  };
}

function checkStore(store: CredentialStore): CredentialStore {
  for (const name of ['get', 'set', 'delete'] as const) {
    if (typeof store[name] !== 'function') fail(['store'], `a store without ${name}`, 'get, set and delete');
  }
  return store;
}

function checkText(value: unknown, at: readonly PathSegment[]): string {
  if (typeof value !== 'string' || value.trim() === '' || /\p{Cc}/u.test(value)) {
    fail(at, 'something else', 'a text that is not empty, without control characters');
  }
  return value;
}

function refuseUnknown(given: object, known: readonly string[], at: readonly PathSegment[]): void {
  const unknown = Object.keys(given).find((key) => !known.includes(key));
  if (unknown !== undefined) fail([...at, unknown], 'an unknown key', `one of the keys ${known.join(', ')}`);
}

function fail(segments: readonly PathSegment[], came: string, allowed: string): never {
  throw new ConfigurationError({ segments, came, allowed });
}
