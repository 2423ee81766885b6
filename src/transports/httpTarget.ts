/** What is configured about an HTTP endpoint, read once: where requests go, what they carry, what must not be shown. */
import { configuredHeaderProblem } from '../protocol/headers.js';
import { sanitizeText } from '../protocol/sanitize.js';

export interface HttpTarget {
  /** Without credentials and fragment. */
  readonly url: URL;
  readonly path: string;
  /** Configured headers and, from the URL's user information, `authorization`. Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  /** Null: connections are made directly. */
  readonly proxy: HttpProxy | null;
  /** Makes a text fit to be shown: secrets of this configuration blotted out, sanitized, bounded. */
  readonly show: (text: string, maxLength: number) => string;
}

export interface HttpProxy {
  /** Without credentials, path, query and fragment. */
  readonly url: URL;
  /** For the proxy only: `proxy-authorization`, from the URL's user information. */
  readonly headers: Readonly<Record<string, string>>;
}

export type HttpTargetReading =
  | { readonly ok: true; readonly target: HttpTarget }
  | { readonly ok: false; readonly problem: string };

/** Total. The problem never holds the URL or a header's value: both may be secrets. */
export function readHttpTarget(
  url: string | URL,
  configured: Readonly<Record<string, string>> = {},
  proxyUrl?: string | URL,
): HttpTargetReading {
  const parsed = parseUrl(url);
  if (parsed === null) return { ok: false, problem: 'the URL cannot be read' };
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') {
    return { ok: false, problem: `${sanitizeText(parsed.protocol, 20)} is neither http: nor https:` };
  }
  const headers: Record<string, string> = {};
  const secrets = secretsOfUrl(parsed);
  const authorization = basicAuthorization(parsed);
  if (authorization !== null) headers['authorization'] = authorization;
  for (const [name, value] of Object.entries(configured)) {
    const problem = configuredHeaderProblem(name, value);
    if (problem !== null) return { ok: false, problem };
    headers[name.toLowerCase()] = value;
  }
  const proxy = proxyUrl === undefined ? null : readHttpProxy(proxyUrl, secrets);
  if (typeof proxy === 'string') return { ok: false, problem: proxy };
  for (const value of Object.values(headers)) secrets.push(value, ...value.split(/[\s,;=]+/));
  parsed.username = '';
  parsed.password = '';
  parsed.hash = '';
  return {
    ok: true,
    target: {
      url: parsed,
      path: parsed.pathname + parsed.search,
      headers,
      proxy,
      show: showWithout(secrets),
    },
  };
}

/** @returns a sentence where the proxy cannot be used */
function readHttpProxy(url: string | URL, secrets: string[]): HttpProxy | string {
  const parsed = parseUrl(url);
  if (parsed === null) return 'the URL of the proxy cannot be read';
  if (parsed.protocol !== 'http:' && parsed.protocol !== 'https:') {
    return `the proxy: ${sanitizeText(parsed.protocol, 20)} is neither http: nor https:`;
  }
  const authorization = basicAuthorization(parsed);
  secrets.push(...secretsOfUrl(parsed));
  if (authorization === null) return { url: new URL(parsed.origin), headers: {} };
  secrets.push(authorization, ...authorization.split(' '));
  return { url: new URL(parsed.origin), headers: { 'proxy-authorization': authorization } };
}

function parseUrl(url: string | URL): URL | null {
  try {
    return new URL(url);
  } catch {
    return null;
  }
}

function basicAuthorization(url: URL): string | null {
  if (url.username === '' && url.password === '') return null;
  const credentials = `${percentDecoded(url.username)}:${percentDecoded(url.password)}`;
  return `Basic ${Buffer.from(credentials, 'utf8').toString('base64')}`;
}

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** User information, the query, and long parts of the path: some services put the key there. */
function secretsOfUrl(url: URL): string[] {
  const secrets = [url.username, url.password, url.search.slice(1)];
  secrets.push(...url.search.slice(1).split(/[&=]/), ...url.searchParams.values());
  secrets.push(...url.pathname.split('/').filter((part) => part.length >= LONG_PATH_PART));
  return [...secrets, ...secrets.map(percentDecoded)];
}

const LONG_PATH_PART = 16;
/** Shorter values (`en`, `1`) are no secrets, and blotting them out would leave nothing readable. */
const SHORTEST_SECRET = 6;
/** Words that stand in headers beside a secret and are none. */
const WORDS = /^(?:bearer|basic|digest|accept|identity|application|keep-alive)$/i;

function showWithout(candidates: readonly string[]): HttpTarget['show'] {
  const secrets = [...new Set(candidates)]
    .filter((text) => text.length >= SHORTEST_SECRET && !WORDS.test(text))
    // Longest first: a secret within another must not leave the rest of it.
    .sort((a, b) => b.length - a.length);
  return (text, maxLength) => {
    let shown = text;
    for (const secret of secrets) shown = shown.replaceAll(secret, '[redacted]');
    return sanitizeText(shown, maxLength);
  };
}
