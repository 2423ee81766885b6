/** The checks of `auth` and `proxy`. Nothing that was configured there is ever shown: all of it may be a secret. */
import type { OAuthClientProvider } from '@modelcontextprotocol/client';
import { classOfHost } from './auth/addresses.js';
import type { BearerAuth, ClientCredentialsAuth, PeerAuth, PrivateKeyAuth } from './config.js';
import { ConfigurationError, type PathSegment } from './errors.js';

type Segments = readonly PathSegment[];

const KINDS = '"bearer", "client-credentials" or "private-key-jwt", or, in code, an OAuthClientProvider';
/** RFC 7518, 3.1: those with a key pair, as far as the official client package signs with them. */
const ALGORITHMS = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512'];
/** RFC 9110, 5.5: what of a header value is visible; the token of RFC 6750, 2.1 is within. */
const VISIBLE = /^[\x21-\x7e]+$/;
/** RFC 6749, appendix A.1 and A.2. */
const CLIENT_WORD = /^[\x20-\x7e]+$/;
/** RFC 6749, 3.3. */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]+(?: [\x21\x23-\x5b\x5d-\x7e]+)*$/;
const PEM = /^-----BEGIN PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]+-----END PRIVATE KEY-----\s*$/;

interface KeyCheck {
  readonly isOptional?: true;
  readonly allowed: string;
  /** What came instead, in words; null where it fits. */
  readonly problem: (value: string) => string | null;
}

const fitting = (pattern: RegExp, came: string, allowed: string): KeyCheck => ({
  allowed,
  problem: (value) => (pattern.test(value) ? null : came),
});

const clientId = fitting(
  CLIENT_WORD,
  'a text with characters that a client id cannot have',
  'a text of visible ASCII',
);
const scope: KeyCheck = {
  ...fitting(SCOPE, 'a text that is no scope', 'words of visible ASCII with single spaces between them'),
  isOptional: true,
};
const issuer: KeyCheck = {
  allowed: 'the issuer of the authorization server: an absolute https: URL (http: on this machine only)',
  problem: issuerProblem,
};

const CHECKS: Readonly<
  Record<'bearer' | 'client-credentials' | 'private-key-jwt', Record<string, KeyCheck>>
> = {
  bearer: { token: { allowed: 'the token alone, of visible ASCII characters', problem: tokenProblem } },
  'client-credentials': {
    clientId,
    clientSecret: fitting(
      CLIENT_WORD,
      'a text with characters that a client secret cannot have',
      'a text of visible ASCII',
    ),
    issuer,
    scope,
  },
  'private-key-jwt': {
    clientId,
    privateKey: { allowed: 'PKCS #8 in PEM, as it stands in the file', problem: pemProblem },
    algorithm: {
      allowed: ALGORITHMS.join(', '),
      problem: (value) => (ALGORITHMS.includes(value) ? null : 'another text'),
    },
    issuer,
    scope,
  },
};

/** What a URL-based peer says besides. */
export interface AuthSurroundings {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly proxy: string | undefined;
}

/** Whether it is for the host to say how to authorize, and ours to take it as it is. */
export function isAuthProvider(value: unknown): value is OAuthClientProvider {
  if (typeof value !== 'object' || value === null) return false;
  const { tokens, clientInformation } = value as Partial<OAuthClientProvider>;
  return typeof tokens === 'function' && typeof clientInformation === 'function';
}

/**
 * Checks `auth`. A provider is returned as it is, anything else as a copy.
 *
 * @throws {ConfigurationError} never showing a value
 */
export function checkAuth(auth: object, at: Segments, surroundings: AuthSurroundings): PeerAuth {
  const checked = isAuthProvider(auth) ? auth : checkPlain(auth, at);
  const { url, headers, proxy } = surroundings;
  if (headers['authorization'] !== undefined) {
    fail(at, 'auth beside a header "authorization"', 'one of auth and headers.authorization');
  }
  if (url.protocol === 'http:' && !(isLoopback(url) && (proxy === undefined || isLoopback(new URL(proxy))))) {
    fail(
      at,
      'credentials for a peer whose requests leave this machine over http:',
      'auth with an https: url, so that nobody on the way can read the credentials, or with http: on this machine',
    );
  }
  return checked;
}

function checkPlain(auth: object, at: Segments): PeerAuth {
  // Own keys only, `__proto__` among them.
  const given = new Map<string, unknown>(Object.entries(auth).filter(([, value]) => value !== undefined));
  const type = given.get('type');
  if (type !== 'bearer' && type !== 'client-credentials' && type !== 'private-key-jwt') {
    fail([...at, 'type'], type === undefined ? 'nothing' : 'another value', KINDS);
  }
  const checks = new Map(Object.entries(CHECKS[type]));
  for (const key of given.keys()) {
    if (key !== 'type' && !checks.has(key)) {
      fail([...at, key], 'an unknown key', `one of the keys type, ${[...checks.keys()].join(', ')}`);
    }
  }
  const checked = [...checks].flatMap(([key, { isOptional, allowed, problem }]): [string, string][] => {
    const value = given.get(key);
    if (value === undefined && isOptional) return [];
    if (value === undefined) fail([...at, key], 'nothing', allowed);
    if (typeof value !== 'string') fail([...at, key], 'no text', allowed);
    const came = value === '' ? 'an empty text' : problem(value);
    if (came !== null) fail([...at, key], came, allowed);
    return [[key, value]];
  });
  return { type, ...Object.fromEntries(checked) } as BearerAuth | ClientCredentialsAuth | PrivateKeyAuth;
}

function tokenProblem(value: string): string | null {
  if (/^bearer\s/i.test(value)) return 'a token with the word "Bearer" before it';
  return VISIBLE.test(value) ? null : 'a text with spaces, line breaks or characters beyond ASCII';
}

function pemProblem(value: string): string | null {
  if (PEM.test(value)) return null;
  if (/^-----BEGIN [^-]*-----\\n/.test(value)) return 'a text with \\n written out where its lines end';
  if (value.startsWith('-----BEGIN PRIVATE KEY-----')) return 'a PEM text that is cut off or damaged';
  if (value.startsWith('-----BEGIN')) {
    return 'a PEM text of another kind (openssl pkcs8 -topk8 -nocrypt makes one of it)';
  }
  return 'no PEM text';
}

/** RFC 8414, 2: `https`, without query and fragment. It is compared as it is written, so it is not normalized. */
export function issuerProblem(value: string): string | null {
  if (!URL.canParse(value) || /\s/.test(value)) return 'no absolute URL';
  const url = new URL(value);
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return `a ${shownProtocol(url)} URL`;
  if (url.protocol === 'http:' && !isLoopback(url)) return 'an http: URL of another machine';
  if (url.username !== '' || url.password !== '') return 'a URL with a user name or password';
  return /[?#]/.test(value) ? 'a URL with a query or a fragment' : null;
}

/**
 * Checks `proxy` and normalizes it.
 *
 * @throws {ConfigurationError} never showing a value
 */
export function checkProxy(value: string, at: Segments): string {
  const allowed = 'an http: or https: URL of host and port, such as http://proxy.example.com:3128';
  if (!URL.canParse(value)) fail(at, 'a text that is no absolute URL', allowed);
  const url = new URL(value);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') fail(at, `a ${shownProtocol(url)} URL`, allowed);
  if (url.pathname !== '/') fail(at, 'a URL with a path', allowed);
  if (/[?#]/.test(value)) fail(at, 'a URL with a query or a fragment', allowed);
  return url.href;
}

/** `localhost` (RFC 6761, 6.3), 127.0.0.0/8 and ::1: what is sent there does not leave this machine. */
export function isLoopback(url: URL): boolean {
  return classOfHost(url.hostname) === 'loopback';
}

/** `token:abc` reads as a URL, too; what may be one is not shown. */
function shownProtocol(url: URL): string {
  return ['ftp:', 'file:', 'ws:', 'wss:', 'socks:', 'socks4:', 'socks5:'].includes(url.protocol)
    ? url.protocol
    : 'non-http';
}

function fail(segments: Segments, came: string, allowed: string): never {
  throw new ConfigurationError({ segments, came, allowed });
}
