/**
 * What HTTP headers say about a message (2026-07-28, basic/transports, "Streamable HTTP"): the `Mcp-*` headers that
 * repeat parts of the body, the encoding of their values, and `x-mcp-header`, with which a tool asks for arguments to
 * be repeated. Pure and total. Names are in lower case wherever a record of headers is returned.
 */
import type { JsonObject, JsonValue } from './jsonRpc.js';
import { isJsonObject } from './jsonRpc.js';
import { sanitizeText } from './sanitize.js';

const PROTOCOL_VERSION_META_KEY = 'io.modelcontextprotocol/protocolVersion';

/** Methods whose object is named in `Mcp-Name`, and the member of `params` that names it. */
const NAMED_BY: ReadonlyMap<string, string> = new Map([
  ['tools/call', 'name'],
  ['prompts/get', 'name'],
  ['resources/read', 'uri'],
]);

/**
 * The headers of one modern message, read from the message itself, so that they cannot disagree with it (-32020).
 *
 * @returns `mcp-protocol-version`, `mcp-method` and `mcp-name`, as far as the message has what they repeat
 */
export function deriveHeaders(message: JsonObject): Record<string, string> {
  const headers: Record<string, string> = {};
  const { method, params } = message;
  const meta = isJsonObject(params) ? params['_meta'] : undefined;
  const version = isJsonObject(meta) ? meta[PROTOCOL_VERSION_META_KEY] : undefined;
  if (typeof version === 'string') headers['mcp-protocol-version'] = encodeHeaderValue(version);
  if (typeof method !== 'string') return headers;
  headers['mcp-method'] = encodeHeaderValue(method);
  const member = NAMED_BY.get(method);
  const name = member !== undefined && isJsonObject(params) ? params[member] : undefined;
  if (typeof name === 'string') headers['mcp-name'] = encodeHeaderValue(name);
  return headers;
}

const SENTINEL_START = '=?base64?';
const SENTINEL_END = '?=';
const PLAIN = /^[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?$/;
const LOOKS_ENCODED = /^=\?base64\?.*\?=$/i;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/;

/**
 * A value as it may stand in a header: itself where it is printable ASCII without outer spaces, else
 * `=?base64?<base64 of its UTF-8>?=`. A tab is allowed by the specification and encoded all the same: proxies turn it
 * into a space. So is the empty value: some drop an empty header.
 */
export function encodeHeaderValue(value: string): string {
  if (PLAIN.test(value) && !LOOKS_ENCODED.test(value)) return value;
  return SENTINEL_START + Buffer.from(value, 'utf8').toString('base64') + SENTINEL_END;
}

/** The value behind a header's text; `undefined` where it claims to be base64 of UTF-8 and is not. */
export function decodeHeaderValue(text: string): string | undefined {
  if (!text.startsWith(SENTINEL_START) || !text.endsWith(SENTINEL_END)) return text;
  if (text.length < SENTINEL_START.length + SENTINEL_END.length) return text;
  const encoded = text.slice(SENTINEL_START.length, -SENTINEL_END.length);
  if (!BASE64.test(encoded)) return undefined;
  const bytes = Buffer.from(encoded, 'base64');
  const value = bytes.toString('utf8');
  return Buffer.from(value, 'utf8').equals(bytes) ? value : undefined;
}

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
const FIELD_VALUE = /^(?:[\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?$/;

/** An RFC 9110 token: what a header may be called. */
export function isHeaderName(name: string): boolean {
  return TOKEN.test(name);
}

/**
 * What may be written as a header's value (RFC 9110, 5.5): Latin-1 without control characters, a tab excepted, and
 * without outer white space, which is not part of a value and would be lost on the way.
 */
export function isHeaderValue(value: string): boolean {
  return FIELD_VALUE.test(value);
}

/** What the transport itself writes or the framing needs; a configured one could only break it. */
const RESERVED_NAMES: ReadonlySet<string> = new Set([
  'accept',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'last-event-id',
  'proxy-connection',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/** Whether a header, by its name in lower case, is written by the protocol or the transport and by nobody else. */
export function isReservedHeader(lowerName: string): boolean {
  return lowerName.startsWith('mcp-') || RESERVED_NAMES.has(lowerName);
}

/**
 * Why a header may not be configured, or `null`. `mcp-*` belongs to the protocol (N4): a fixed one would contradict
 * the message or carry one era's header into the other. The sentence never holds the value.
 */
export function configuredHeaderProblem(name: string, value: string): string | null {
  const named = `the header "${shown(name)}"`;
  if (!isHeaderName(name)) return `${named} has a name that is no RFC 9110 token`;
  const lower = name.toLowerCase();
  if (lower.startsWith('mcp-')) return `${named} belongs to the protocol and cannot be configured`;
  if (RESERVED_NAMES.has(lower)) return `${named} is written by the transport and cannot be configured`;
  if (!isHeaderValue(value)) return `${named} has a value with characters that no header can carry`;
  return null;
}

export type HeaderBindingType = 'string' | 'integer' | 'boolean';

/** One argument that is repeated in a header. */
export interface HeaderBinding {
  /** As declared, without the prefix `Mcp-Param-`. */
  readonly header: string;
  /** Names of properties from the arguments' root; never empty. */
  readonly path: readonly string[];
  readonly type: HeaderBindingType;
}

export type HeaderScan =
  | { readonly ok: true; readonly bindings: readonly HeaderBinding[] }
  /** A sentence about the tool, safe to show. The tool is left out of the list (HTTP only). */
  | { readonly ok: false; readonly problem: string };

const ANNOTATION = 'x-mcp-header';

/** Keywords of JSON Schema whose value is a schema, a list of schemas, or (second list) schemas by name. */
const SCHEMA_KEYWORDS = [
  ...['items', 'prefixItems', 'additionalItems', 'unevaluatedItems', 'contains', 'contentSchema'],
  ...['additionalProperties', 'unevaluatedProperties', 'propertyNames'],
  ...['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else'],
];
const SCHEMA_MAP_KEYWORDS = ['patternProperties', 'dependentSchemas', 'dependencies', '$defs', 'definitions'];

/** A deeper argument cannot be bound. Argument objects of real tools nest two or three levels. */
const MAX_PATH_LENGTH = 64;

/** Linked to its parent: a path is written out only where an annotation is found. */
interface Place {
  readonly schema: JsonValue;
  readonly name: string;
  readonly depth: number;
  readonly parent: Place | null;
  /** Reached from the root through `properties` alone. */
  readonly direct: boolean;
}

/**
 * Finds every `x-mcp-header` of an `inputSchema`. Data (`default`, `enum`, `examples`) and a property that is merely
 * called `x-mcp-header` are no annotations. Walks with its own stack: depth is the server's choice.
 */
export function scanHeaderAnnotations(schema: JsonValue): HeaderScan {
  const bindings: HeaderBinding[] = [];
  const names = new Set<string>();
  const places: Place[] = [{ schema, name: '', depth: 0, parent: null, direct: true }];
  for (let place = places.pop(); place !== undefined; place = places.pop()) {
    if (!isJsonObject(place.schema)) continue;
    if (Object.hasOwn(place.schema, ANNOTATION)) {
      const binding = readBinding(place, place.schema);
      if (typeof binding === 'string') return { ok: false, problem: binding };
      const lower = binding.header.toLowerCase();
      if (names.has(lower))
        return { ok: false, problem: `two properties ask for the header "${shown(binding.header)}"` };
      names.add(lower);
      bindings.push(binding);
    }
    // Last in, first out: pushed in reverse, read in the order of the document.
    const below = placesBelow(place, place.schema);
    for (let index = below.length - 1; index >= 0; index -= 1) places.push(below[index]!);
  }
  return { ok: true, bindings };
}

function placesBelow(parent: Place, schema: JsonObject): Place[] {
  const below: Place[] = [];
  const add = (value: JsonValue, name: string, direct: boolean) =>
    below.push({ schema: value, name, depth: parent.depth + 1, parent, direct: parent.direct && direct });
  const properties = own(schema, 'properties');
  if (isJsonObject(properties)) {
    for (const [name, value] of Object.entries(properties)) add(value, name, true);
  }
  for (const keyword of SCHEMA_KEYWORDS) {
    const value = own(schema, keyword);
    for (const item of Array.isArray(value) ? (value as readonly JsonValue[]) : [value]) {
      if (item !== undefined) add(item, `<${keyword}>`, false);
    }
  }
  for (const keyword of SCHEMA_MAP_KEYWORDS) {
    const value = own(schema, keyword);
    if (!isJsonObject(value)) continue;
    for (const item of Object.values(value)) add(item, `<${keyword}>`, false);
  }
  return below;
}

function readBinding(place: Place, schema: JsonObject): HeaderBinding | string {
  const header = own(schema, ANNOTATION);
  const type = own(schema, 'type');
  if (place.depth > MAX_PATH_LENGTH) return `an ${ANNOTATION} is more than ${MAX_PATH_LENGTH} levels deep`;
  const path: string[] = [];
  for (let at: Place = place; at.parent !== null; at = at.parent) path.unshift(at.name);
  if (path.length === 0) return `the root has an ${ANNOTATION}`;
  const where = `"${shown(path.join('.'))}"`;
  if (!place.direct) return `${where} has an ${ANNOTATION} and is not reached through "properties" alone`;
  if (typeof header !== 'string' || header === '')
    return `the ${ANNOTATION} of ${where} is no non-empty string`;
  if (!isHeaderName(header)) return `the ${ANNOTATION} of ${where} is no RFC 9110 token`;
  if (type !== 'string' && type !== 'integer' && type !== 'boolean') {
    return `${where} has an ${ANNOTATION} and is no string, integer or boolean`;
  }
  return { header, path, type };
}

function shown(text: string): string {
  return sanitizeText(text, 80);
}

/**
 * The `mcp-param-*` headers of one call. An argument that is absent, null or no primitive is left out; one whose type
 * is not the declared one is repeated as it is, since the server compares with the body.
 */
export function mirrorHeaders(
  bindings: readonly HeaderBinding[],
  args: JsonValue | undefined,
): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const { header, path } of bindings) {
    const text = primitiveText(valueAt(args, path));
    if (text !== undefined) headers[`mcp-param-${header.toLowerCase()}`] = encodeHeaderValue(text);
  }
  return headers;
}

function valueAt(args: JsonValue | undefined, path: readonly string[]): JsonValue | undefined {
  let value = args;
  for (const name of path) value = isJsonObject(value) ? own(value, name) : undefined;
  return value;
}

function primitiveText(value: JsonValue | undefined): string | undefined {
  if (typeof value === 'string') return value;
  if (typeof value === 'boolean') return String(value);
  return typeof value === 'number' && Number.isFinite(value) ? decimalOf(value) : undefined;
}

/**
 * A number with the digits that stand in the body: between 2^53 and 10^21 these are not the double's own, and a server
 * that reads integers of any size compares with them. Where the body has an exponent, every server reads a double.
 */
function decimalOf(value: number): string {
  const text = String(value);
  return text.includes('e+') ? BigInt(value).toString() : text;
}

function own(object: JsonObject, name: string): JsonValue | undefined {
  return Object.hasOwn(object, name) ? object[name] : undefined;
}
