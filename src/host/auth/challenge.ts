/** What a `WWW-Authenticate` header asks for (RFC 6750, 3; RFC 9449, 7.1; RFC 9728, 5.1). */

export interface Challenge {
  /** Where the metadata of the protected resource are; absent where it is not told or cannot be used. */
  readonly resourceMetadataUrl: URL | undefined;
  readonly scope: string | undefined;
  readonly error: string | undefined;
  /** RFC 9449, 9: the same again, with the nonce that came along. */
  readonly wantsNonce: boolean;
}

interface SchemeChallenge {
  readonly scheme: string;
  readonly parameters: Map<string, string>;
}

/** Space, and what RFC 6749, 3.3 allows in a scope token. */
const SCOPE = /^[\x20\x21\x23-\x5b\x5d-\x7e]+$/;
/** A scope becomes part of a URL, and some servers stop reading those at 4 KiB. */
const MAX_SCOPE_LENGTH = 2000;
const SCHEMES: ReadonlySet<string> = new Set(['bearer', 'dpop']);

/** Total. Of several challenges those that OAuth knows are read as one, what comes first wins. */
export function readChallenge(header: string | null): Challenge {
  const known = split(header ?? '').filter(({ scheme }) => SCHEMES.has(scheme));
  const find = (name: string): string | undefined =>
    known.find(({ parameters }) => parameters.has(name))?.parameters.get(name);
  return {
    resourceMetadataUrl: webUrl(find('resource_metadata')),
    scope: usableScope(find('scope')),
    error: find('error'),
    wantsNonce: known.some(
      ({ scheme, parameters }) => scheme === 'dpop' && parameters.get('error') === 'use_dpop_nonce',
    ),
  };
}

/** Undefined where it holds nothing, or what is no scope. */
export function usableScope(scope: string | undefined): string | undefined {
  if (scope === undefined || scope.length > MAX_SCOPE_LENGTH || !SCOPE.test(scope)) return undefined;
  const words = scope.split(' ').filter((word) => word !== '');
  return words.length === 0 ? undefined : words.join(' ');
}

function webUrl(text: string | undefined): URL | undefined {
  if (text === undefined || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  return url.protocol === 'https:' || url.protocol === 'http:' ? url : undefined;
}

const PIECE = /[\s,]*([!#$%&'*+.^_`|~\w-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*)))?/gy;

/** A word with `=` behind it belongs to the challenge before it, one without begins another (RFC 9110, 11.6.1). */
function split(header: string): SchemeChallenge[] {
  const found: SchemeChallenge[] = [];
  for (const [, word = '', quoted, bare] of header.matchAll(PIECE)) {
    const value = quoted?.replace(/\\(.)/gs, '$1') ?? bare;
    if (value === undefined) {
      found.push({ scheme: word.toLowerCase(), parameters: new Map() });
      continue;
    }
    const parameters = found.at(-1)?.parameters;
    const name = word.toLowerCase();
    if (parameters !== undefined && !parameters.has(name)) parameters.set(name, value);
  }
  return found;
}
