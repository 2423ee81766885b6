/** Takes configured secrets out of text that is to be shown: a server may repeat what it was given. */
import type { PeerConfig, ResolvedPeer } from './config.js';

/** Shorter ones would take ordinary words out of every message. */
const SHORTEST_SECRET = 6;
const SECRET_NAME = /token|key|secret|passw|pwd|auth|cred|cookie|session|bearer/i;
const SCHEME = /^(?:bearer|basic|token|apikey|digest)\s+(.+)$/i;

export const REDACTED = '[redacted]';

/**
 * What of a peer's configuration is never shown: every header value, the values of variables and flags whose name
 * speaks of a secret, and what the URL's query holds.
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
  } else if ('command' in peer) {
    for (const [name, value] of Object.entries(peer.env ?? {})) if (SECRET_NAME.test(name)) found.push(value);
    (peer.args ?? []).forEach((arg, index, args) => {
      const [, flag, value] = /^--?([\w-]+)(?:=(.*))?$/s.exec(arg) ?? [];
      if (flag !== undefined && SECRET_NAME.test(flag)) found.push(value ?? args[index + 1] ?? '');
    });
  }
  return found.filter((secret) => secret.length >= SHORTEST_SECRET);
}

/** A function that replaces each of the secrets, the longest first. */
export function redactor(secrets: readonly string[]): (text: string) => string {
  const longestFirst = [...new Set(secrets)].sort((a, b) => b.length - a.length);
  return (text) => longestFirst.reduce((shown, secret) => shown.replaceAll(secret, () => REDACTED), text);
}
