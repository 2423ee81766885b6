/** Takes configured secrets out of text that is to be shown: a server may repeat what it was given. */
import { isAuthProvider } from './authChecks.js';
import type { PeerAuth, PeerConfig, ResolvedPeer } from './config.js';

/** Shorter ones would take ordinary words out of every message. */
const SHORTEST_SECRET = 6;
const SECRET_NAME = /token|key|secret|passw|pwd|auth|cred|cookie|session|bearer/i;
const SCHEME = /^(?:bearer|basic|token|apikey|digest)\s+(.+)$/i;

export const REDACTED = '[redacted]';

/**
 * What of a peer's configuration is never shown: every header value, what authorizes it or its proxy, the values of
 * variables and flags whose name speaks of a secret, and what the URL's query holds. Each also in the forms in which it
 * is sent.
 */
export function secretsOf(peer: PeerConfig | ResolvedPeer): string[] {
  const found: string[] = [];
  if ('url' in peer) {
    for (const value of Object.values(peer.headers ?? {})) found.push(value, SCHEME.exec(value)?.[1] ?? '');
    if (URL.canParse(peer.url)) {
      for (const [name, value] of new URL(peer.url).searchParams) {
        if (SECRET_NAME.test(name)) found.push(value, encodeURIComponent(value));
      }
    }
    if (peer.auth !== undefined) found.push(...secretsOfAuth(peer.auth));
    if (peer.proxy !== undefined) found.push(...secretsOfProxy(peer.proxy));
  } else if ('command' in peer) {
    for (const [name, value] of Object.entries(peer.env ?? {})) if (SECRET_NAME.test(name)) found.push(value);
    (peer.args ?? []).forEach((arg, index, args) => {
      const [, flag, value] = /^--?([\w-]+)(?:=(.*))?$/s.exec(arg) ?? [];
      if (flag !== undefined && SECRET_NAME.test(flag)) found.push(value ?? args[index + 1] ?? '');
    });
  }
  return found.filter((secret) => secret.length >= SHORTEST_SECRET);
}

/** What a provider holds only the provider knows. */
function secretsOfAuth(auth: PeerAuth): string[] {
  if (isAuthProvider(auth)) return [];
  switch (auth.type) {
    case 'bearer':
      return [auth.token, encodeURIComponent(auth.token)];
    case 'client-credentials': {
      const { clientId, clientSecret } = auth;
      // RFC 6749, 2.3.1: with and without the form encoding that some leave out.
      const encoded = [clientId, clientSecret].map((part) => encodeURIComponent(part).replaceAll('%20', '+'));
      return [
        clientSecret,
        encoded[1] ?? '',
        base64(`${clientId}:${clientSecret}`),
        base64(encoded.join(':')),
      ];
    }
    case 'private-key-jwt': {
      const lines = auth.privateKey
        .split(/\s*\n\s*/)
        .filter((line) => line !== '' && !line.startsWith('-----'));
      return [auth.privateKey, auth.privateKey.trim(), lines.join(''), ...lines];
    }
  }
}

/** The password, or the user name that stands alone, as the URL writes it and as it is; what a proxy is sent (RFC 7617). */
export function secretsOfProxy(proxy: string): string[] {
  if (!URL.canParse(proxy)) return [];
  const { username, password } = new URL(proxy);
  if (username === '' && password === '') return [];
  const secret = password === '' ? username : password;
  const sent = base64(`${percentDecoded(username)}:${percentDecoded(password)}`);
  return [secret, percentDecoded(secret), sent, `Basic ${sent}`];
}

const base64 = (text: string): string => Buffer.from(text, 'utf8').toString('base64');

function percentDecoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A function that replaces each of the secrets, the longest first. */
export function redactor(secrets: readonly string[]): (text: string) => string {
  const longestFirst = [...new Set(secrets)].sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((shown, secret) => shown.replaceAll(secret, () => REDACTED), text);
}
