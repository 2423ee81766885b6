/** What a server asks of this host with -32021, in words: which handlers are missing. */
import type { JsonValue } from '../protocol/jsonRpc.js';
import { isJsonObject } from '../protocol/jsonRpc.js';
import { quoted } from './wording.js';

/** More are not named. There are three capabilities, two of them with parts. */
const MOST_NAMED = 4;

/** By capability, as `inputCapabilities.ts` declares it. */
const HANDLERS: ReadonlyMap<string, string> = new Map([
  ['elicitation', 'elicitForm or elicitUrl'],
  ['elicitation.form', 'elicitForm'],
  ['elicitation.url', 'elicitUrl'],
  ['sampling', 'sample'],
  ['sampling.tools', 'sample, with sampling.tools'],
  ['sampling.context', 'sample, with sampling.context'],
  ['roots', 'listRoots'],
]);

/** Advice for -32021, from its `data.requiredCapabilities`. Sanitized and bounded; total. */
export function adviceForMissing(data: JsonValue | undefined): string {
  const required = isJsonObject(data) ? data['requiredCapabilities'] : undefined;
  const names = isJsonObject(required)
    ? Object.keys(required).flatMap((name) => parts(name, required[name]))
    : [];
  if (names.length === 0)
    return '; it needs a capability that this host does not offer, and does not say which';
  const named = names.slice(0, MOST_NAMED).map(nameOf).join(', ');
  const more = names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : '';
  const handlers = [...new Set(names.flatMap((name) => HANDLERS.get(name) ?? []))];
  const advice =
    handlers.length === 0
      ? 'which this version cannot offer'
      : `which takes a handler of the host (${handlers.join('; ')})`;
  return `; it needs ${named}${more}, ${advice}`;
}

/** The parts of a capability that has any are asked for, else all of it. */
function parts(name: string, value: JsonValue | undefined): string[] {
  const known = ['elicitation', 'sampling'].includes(name) && isJsonObject(value) ? Object.keys(value) : [];
  return known.length === 0 ? [name] : known.map((part) => `${name}.${part}`);
}

function nameOf(name: string): string {
  return HANDLERS.has(name) ? name : quoted(name);
}
