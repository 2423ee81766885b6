/**
 * Which redirects are followed (N6, N8): 307 and 308 within the origin, three at most. Every other 3xx
 * is refused: a cache or a gateway said it, no MCP layer (N6).
 */

/** As many as a slash, a version and a region could need; more are a loop. */
export const MAX_REDIRECTS = 3;

export type RedirectReading =
  | { readonly kind: 'follow'; readonly url: URL }
  /** A sentence for people. Names the target without credentials and query; not sanitized. */
  | { readonly kind: 'refuse'; readonly detail: string };

/**
 * @param location the `Location` header, if there was exactly one
 * @param from where the redirected request went
 * @param followed how many redirects this message has followed already
 * @param mayFollow false for `initialize` (N8)
 * @returns `null` where the status is no 3xx
 */
export function readRedirect(
  status: number,
  location: string | undefined,
  from: URL,
  followed: number,
  mayFollow: boolean,
): RedirectReading | null {
  if (status < 300 || status > 399) return null;
  const target = location === undefined ? null : parseTarget(location, from);
  if (target === null) {
    const lacks = REDIRECTS.has(status) ? 'without a usable Location' : 'where a message was due';
    return refuse(`HTTP ${status} ${lacks}`);
  }
  const named = `HTTP ${status} redirects to ${target.origin}${target.pathname}`;
  if (target.origin !== from.origin) {
    return refuse(
      `${named}, another origin, which is not contacted; if it is the server's, configure that URL`,
    );
  }
  if (!KEEPS_METHOD.has(status)) return refuse(`${named} and would drop the message; configure that URL`);
  if (!mayFollow) return refuse(`${named}, and this request follows no redirect; configure that URL`);
  if (followed >= MAX_REDIRECTS)
    return refuse(`${named} after ${followed} redirects; configure the final URL`);
  return { kind: 'follow', url: target };
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const KEEPS_METHOD: ReadonlySet<number> = new Set([307, 308]);

function refuse(detail: string): RedirectReading {
  return { kind: 'refuse', detail };
}

function parseTarget(location: string, from: URL): URL | null {
  try {
    const url = new URL(location, from);
    // Only these have an origin that can be compared and shown.
    if (url.protocol !== 'http:' && url.protocol !== 'https:') return null;
    url.username = '';
    url.password = '';
    url.hash = '';
    return url;
  } catch {
    return null;
  }
}
