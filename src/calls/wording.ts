/** How problems with a peer's values are put into words. */
import { sanitizeText } from '../protocol/sanitize.js';

/** A name of the outside world in quotation marks, fit to be shown. */
export function quoted(text: string): string {
  return `"${sanitizeText(text, 80)}"`;
}

/** What a JSON value is, with its article. */
export function nameOf(value: unknown): string {
  if (value === null) return 'null';
  if (value === undefined) return 'absent';
  if (Array.isArray(value)) return 'an array';
  return typeof value === 'object' ? 'an object' : `a ${typeof value}`;
}
