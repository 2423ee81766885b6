/**
 * How the oracle reads one text of the wire. Written from the specification and the era rules alone: it shares no
 * code with what it judges.
 */

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonRecord = { [key: string]: Json };

/** The value of a text, or undefined where it is no JSON. */
export function readJson(text: string): Json | undefined {
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

const has = (object: JsonRecord, key: string): boolean => Object.hasOwn(object, key);

const LAST_LEGACY = '2025-11-25';

/** Begins with a date after the last legacy revision. */
export function isLaterThanLegacy(value: Json): boolean {
  return typeof value === 'string' && /^\d\d\d\d-\d\d-\d\d/.test(value) && value.slice(0, 10) > LAST_LEGACY;
}

/**
 * Modern evidence in its loosest form (N21). `counts` says whether an element may be an answer to a negotiation
 * request.
 */
export function isLooselyModern(value: Json | undefined, counts: (message: JsonRecord) => boolean): boolean {
  const elements = Array.isArray(value) ? value : [value];
  return elements.some((element) => {
    if (!isRecord(element) || !counts(element)) return false;
    const error = element['error'];
    if (isRecord(error) && isModernCode(error['code'])) return true;
    const result = element['result'];
    const named = isRecord(result) ? result['supportedVersions'] : undefined;
    return Array.isArray(named) && named.some(isLaterThanLegacy);
  });
}

export function isModernCode(code: Json | undefined): boolean {
  return code === -32020 || code === -32021 || code === -32022;
}

/** A valid JSON-RPC response with the very id: the result, or the error. */
export type Answer =
  | { readonly kind: 'result'; readonly result: Json }
  | { readonly kind: 'error'; readonly code: number; readonly data: Json | undefined }
  /** Something with that id which is neither. `code`: of its error, where it has a recognized modern one. */
  | { readonly kind: 'broken'; readonly modernCode: boolean }
  /** Carries the id and a method: the server's own request, or a malformed answer. */
  | { readonly kind: 'unclear' };

/** What `value` is for the request with this id; null where it is for another one, or for none. */
export function answerFor(value: Json | undefined, id: number): Answer | null {
  if (!isRecord(value) || value['id'] !== id) return null;
  if (has(value, 'method')) return { kind: 'unclear' };
  const { error } = value;
  const code = isRecord(error) ? error['code'] : undefined;
  const broken: Answer = { kind: 'broken', modernCode: isModernCode(code) };
  if (value['jsonrpc'] !== '2.0') return broken;
  if (has(value, 'error')) {
    if (!isRecord(error) || typeof code !== 'number' || !Number.isInteger(code)) return broken;
    if (typeof error['message'] !== 'string') return broken;
    return { kind: 'error', code, data: error['data'] };
  }
  return has(value, 'result') ? { kind: 'result', result: value['result'] as Json } : broken;
}

/** The revisions of a valid `DiscoverResult`, or null. */
export function discoveredVersions(result: Json): string[] | null {
  if (!isRecord(result)) return null;
  if (has(result, 'resultType') && result['resultType'] !== 'complete') return null;
  if (!isRecord(result['capabilities'])) return null;
  const versions = result['supportedVersions'];
  if (!Array.isArray(versions) || versions.length === 0) return null;
  return versions.every((version) => typeof version === 'string') ? (versions as string[]) : null;
}

/** The revision of a result that is positive legacy evidence, or null. */
export function initializedRevision(result: Json, legacyRevisions: readonly string[]): string | null {
  if (!isRecord(result) || !isRecord(result['capabilities']) || !isRecord(result['serverInfo'])) return null;
  const { name, version } = result['serverInfo'];
  if (typeof name !== 'string' || name === '' || typeof version !== 'string' || version === '') return null;
  const revision = result['protocolVersion'];
  return typeof revision === 'string' && legacyRevisions.includes(revision) ? revision : null;
}

/** One message that this side wrote. */
export interface Written {
  readonly text: string;
  readonly message: JsonRecord;
  readonly id: Json | undefined;
  readonly method: string | null;
  readonly params: JsonRecord;
  readonly kind: 'request' | 'notification' | 'response' | 'unreadable';
}

export function readWritten(text: string): Written {
  const value = readJson(text);
  const message = isRecord(value) ? value : {};
  const method = typeof message['method'] === 'string' ? message['method'] : null;
  const params = isRecord(message['params']) ? message['params'] : {};
  const id = message['id'];
  const base = { text, message, id, method, params };
  if (!isRecord(value) || message['jsonrpc'] !== '2.0') return { ...base, kind: 'unreadable' };
  if (method !== null) return { ...base, kind: id === undefined ? 'notification' : 'request' };
  return { ...base, kind: has(message, 'result') || has(message, 'error') ? 'response' : 'unreadable' };
}

/** The revision that a modern request says it is in; '' where it says none. */
export function revisionOf(written: Written): string {
  const meta = written.params['_meta'];
  const revision = isRecord(meta) ? meta['io.modelcontextprotocol/protocolVersion'] : undefined;
  return typeof revision === 'string' ? revision : '';
}

/**
 * The keys of the object at `path` in a JSON text as they are written, repetitions included; null where there is no
 * object. A parser would hide a key that is written twice.
 */
export function keysWritten(text: string, path: readonly string[]): string[] | null {
  let at = skipSpace(text, 0);
  for (const wanted of path) {
    const members = membersAt(text, at);
    const found = members?.find((member) => member.key === wanted);
    if (found === undefined) return null;
    at = found.valueAt;
  }
  return membersAt(text, at)?.map((member) => member.key) ?? null;
}

interface Member {
  readonly key: string;
  readonly valueAt: number;
}

function membersAt(text: string, start: number): Member[] | null {
  if (text[start] !== '{') return null;
  const members: Member[] = [];
  let at = skipSpace(text, start + 1);
  while (at < text.length && text[at] === '"') {
    const keyEnd = endOfString(text, at);
    const key = JSON.parse(text.slice(at, keyEnd)) as string;
    const valueAt = skipSpace(text, skipSpace(text, keyEnd) + 1);
    members.push({ key, valueAt });
    at = skipSpace(text, endOfValue(text, valueAt));
    if (text[at] === ',') at = skipSpace(text, at + 1);
  }
  return members;
}

function endOfValue(text: string, start: number): number {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    const character = text[at];
    if (character === '"') at = endOfString(text, at) - 1;
    else if (character === '{' || character === '[') depth += 1;
    else if ((character === '}' || character === ']' || character === ',') && depth === 0) return at;
    else if (character === '}' || character === ']') depth -= 1;
  }
  return text.length;
}

/** Where the string that begins at `start` has ended. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    if (text[at] === '\\') at += 1;
    else if (text[at] === '"') return at + 1;
  }
  return text.length;
}

function skipSpace(text: string, start: number): number {
  let at = start;
  while (at < text.length && ' \t\r\n'.includes(text[at] as string)) at += 1;
  return at;
}
