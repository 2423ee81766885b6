/** Which configured headers may be sent (RFC 9110, sections 5.1 and 5.5). */
import { isHeaderName, isHeaderValue, isReservedHeader } from '../protocol/headers.js';
import { ConfigurationError, type PathSegment } from './errors.js';

/**
 * Checks configured headers and returns them with names in lower case.
 *
 * @throws {ConfigurationError} never showing a value
 */
export function checkHeaders(
  headers: Readonly<Record<string, string>>,
  at: readonly PathSegment[],
): Record<string, string> {
  const seen = new Map<string, string>();
  for (const [name, value] of Object.entries(headers)) {
    const fail = (came: string, allowed: string): never => {
      throw new ConfigurationError({ segments: [...at, name], came, allowed });
    };
    const lower = name.toLowerCase();
    // A mistyped name may hold the value ("Authorization: Bearer …"), so it is not shown.
    if (!isHeaderName(name) || lower === '__proto__') {
      throw new ConfigurationError({
        segments: at,
        came: 'a key that is no header name',
        allowed: 'header names of letters, digits and "-"',
      });
    }
    if (isReservedHeader(lower)) {
      fail(
        'this name',
        'headers that the protocol does not derive itself (none of mcp-*, content-type, accept, host …)',
      );
    }
    if (seen.has(lower)) fail('this name a second time', 'each header once; letter case makes no difference');
    if (!isHeaderValue(value)) {
      fail(
        'a value with a line break, a control character, a character above U+00FF or outer spaces',
        'a header value on one line',
      );
    }
    seen.set(lower, value);
  }
  return Object.fromEntries(seen);
}
