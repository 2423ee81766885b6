/**
 * Reads a tool's JSON Schema before it is compiled: which dialect it names, whether it is small enough, and where its
 * references lead. A schema comes from a server and is compiled to code, so everything about it is bounded first, and
 * nothing it names is ever fetched.
 */
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import { isJsonObject } from '../protocol/jsonRpc.js';
import { sanitizeText } from '../protocol/sanitize.js';

/** Deepest nesting of subschemas. The deepest real tool schemas have about 15. */
export const MAX_SCHEMA_DEPTH = 64;
/** Largest schema, serialized. The largest real ones have about 320 KB. */
export const MAX_SCHEMA_BYTES = 512 * 1024;
/** Most subschemas in one schema. */
export const MAX_SUBSCHEMAS = 10_000;
/**
 * Most different places that references lead to, and most `patternProperties`. The compiler's time grows with the
 * square of these: a thousand take it about a second.
 */
export const MAX_REFERENCED = 1_000;
/** Deepest JSON nesting, literals included. */
const MAX_JSON_DEPTH = 256;

/** The dialects that are compiled. Drafts 4 and 6 are read as draft 7, see {@link dialectOf}. */
export type SchemaDialect = '2020-12' | '2019-09' | 'draft-07';

export class UnusableSchema extends Error {
  override readonly name = 'UnusableSchema';
}

const DIALECTS: ReadonlyMap<string, SchemaDialect> = new Map([
  ['json-schema.org/draft/2020-12/schema', '2020-12'],
  ['json-schema.org/schema', '2020-12'],
  ['json-schema.org/draft/2019-09/schema', '2019-09'],
  ['json-schema.org/draft-07/schema', 'draft-07'],
  ['json-schema.org/draft-06/schema', 'draft-07'],
  ['json-schema.org/draft-04/schema', 'draft-07'],
]);

/**
 * The dialect of a schema: 2020-12 unless `$schema` names another (2026-07-28, server/tools). Drafts 4 and 6 are read
 * as draft 7, which differs from 6 by additions only, and from 4 in `id` and the boolean `exclusiveMinimum`, which are
 * translated.
 *
 * @throws {@link UnusableSchema} for an unknown dialect
 */
export function dialectOf(schema: JsonObject): SchemaDialect {
  const named = schema['$schema'];
  if (named === undefined) return '2020-12';
  const dialect = typeof named === 'string' ? DIALECTS.get(named.replace(/^https?:\/\/|#$/g, '')) : undefined;
  if (dialect !== undefined) return dialect;
  const shown = typeof named === 'string' ? `"${sanitizeText(named, 100)}"` : 'a "$schema" that is no string';
  throw new UnusableSchema(`unsupported dialect ${shown}`);
}

/** Keywords whose value is one subschema. `items` may also be a list (before 2020-12). */
export const SCHEMA_KEYWORDS: ReadonlySet<string> = new Set([
  'additionalItems',
  'additionalProperties',
  'contains',
  'else',
  'if',
  'items',
  'not',
  'propertyNames',
  'then',
  'unevaluatedItems',
  'unevaluatedProperties',
]);

/** Keywords whose value is a list of subschemas. */
export const LIST_KEYWORDS: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems']);

/** Keywords whose value maps names to subschemas. `dependencies` maps to lists of names, too. */
export const MAP_KEYWORDS: ReadonlySet<string> = new Set([
  'dependencies',
  'dependentSchemas',
  'patternProperties',
  'properties',
]);

/** A schema with its own base: the root, or a subschema with an `$id`. */
export interface SchemaResource {
  readonly uri: string;
  readonly root: JsonObject;
  readonly anchors: Map<string, JsonObject>;
}

/** What is known about a schema's parts. Built by {@link readSchema}. */
export interface ReadSchema {
  readonly dialect: SchemaDialect;
  readonly root: JsonObject;
  /** By absolute URI. */
  readonly resources: ReadonlyMap<string, SchemaResource>;
  /** The resource that a subschema belongs to. */
  readonly resourceOf: ReadonlyMap<JsonObject, SchemaResource>;
}

/**
 * Bounds a schema and indexes its subschemas.
 *
 * @throws {@link UnusableSchema} with one sanitized sentence
 */
export function readSchema(schema: unknown): ReadSchema {
  if (!isJsonObject(schema)) throw new UnusableSchema('it is no JSON object');
  assertSmall(schema);
  // A copy that is a tree of plain data, whatever object the host passed.
  const root = JSON.parse(JSON.stringify(schema)) as JsonObject;
  const dialect = dialectOf(root);
  const resources = new Map<string, SchemaResource>();
  const resourceOf = new Map<JsonObject, SchemaResource>();

  const index = (
    node: JsonObject | boolean,
    parent: SchemaResource | null,
    path: string,
    depth: number,
  ): void => {
    if (typeof node === 'boolean') return;
    if (depth > MAX_SCHEMA_DEPTH)
      throw new UnusableSchema(`it nests more than ${MAX_SCHEMA_DEPTH} subschemas`);
    if (resourceOf.size >= MAX_SUBSCHEMAS)
      throw new UnusableSchema(`it has more than ${MAX_SUBSCHEMAS} subschemas`);
    const resource = resourceFor(node, parent);
    resourceOf.set(node, resource);
    if (resource.root === node && !resources.has(resource.uri)) resources.set(resource.uri, resource);
    for (const anchor of anchorsOf(node)) {
      if (!resource.anchors.has(anchor)) resource.anchors.set(anchor, node);
    }
    for (const [subschema, subpath] of subschemasOf(node, path))
      index(subschema, resource, subpath, depth + 1);
  };
  index(root, null, '#', 0);
  return { dialect, root, resources, resourceOf };
}

/**
 * The subschema that a reference leads to, inside this schema only.
 *
 * @throws {@link UnusableSchema} if it leads out of the schema or nowhere
 */
export function resolveReference(
  read: ReadSchema,
  reference: string,
  from: SchemaResource,
): JsonObject | boolean {
  const hash = reference.indexOf('#');
  const base = hash < 0 ? reference : reference.slice(0, hash);
  const resource = base === '' ? from : read.resources.get(absolute(base, from.uri));
  if (resource === undefined) {
    throw new UnusableSchema(
      `its "$ref" to ${shown(reference)} leads out of the schema, and is never fetched`,
    );
  }
  const target = locate(resource, hash < 0 ? '' : reference.slice(hash + 1));
  if (target === undefined || !(typeof target === 'boolean' || isJsonObject(target))) {
    throw new UnusableSchema(`its "$ref" to ${shown(reference)} leads to no schema`);
  }
  return target;
}

function locate(resource: SchemaResource, fragment: string): JsonValue | undefined {
  if (fragment === '') return resource.root;
  let text: string;
  try {
    text = decodeURIComponent(fragment);
  } catch {
    text = fragment;
  }
  if (!text.startsWith('/')) return resource.anchors.get(text);
  let at: JsonValue | undefined = resource.root;
  for (const part of text.slice(1).split('/')) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) return undefined;
    at = (at as JsonObject)[key];
  }
  return at;
}

/** Depth, size and cycles, without recursion: what passes may be walked by functions that call themselves. */
function assertSmall(schema: JsonObject): void {
  // Each value takes at least two bytes of JSON, so that this many cannot fit into the limit.
  let left = MAX_SCHEMA_BYTES / 2;
  const stack: { readonly value: unknown; readonly depth: number }[] = [{ value: schema, depth: 0 }];
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    left -= 1;
    if (left < 0) throw tooLarge();
    if (typeof next.value !== 'object' || next.value === null) continue;
    if (next.depth > MAX_JSON_DEPTH) throw new UnusableSchema(`it nests JSON deeper than ${MAX_JSON_DEPTH}`);
    const depth = next.depth + 1;
    for (const value of Object.values(next.value)) stack.push({ value, depth });
  }
  if (Buffer.byteLength(JSON.stringify(schema)) > MAX_SCHEMA_BYTES) throw tooLarge();
}

function tooLarge(): UnusableSchema {
  return new UnusableSchema(`it is larger than ${MAX_SCHEMA_BYTES} bytes`);
}

/**
 * The subschemas right below one, with their places.
 *
 * @throws {@link UnusableSchema} where a keyword holds something else than it must
 */
export function* subschemasOf(
  node: JsonObject,
  path: string,
): Generator<readonly [subschema: JsonObject | boolean, path: string]> {
  for (const [value, at] of subschemaValuesOf(node, path)) {
    if (!isJsonObject(value) && typeof value !== 'boolean') {
      const what = value === null ? 'null' : Array.isArray(value) ? 'a list' : `a JSON ${typeof value}`;
      throw new UnusableSchema(`${shown(at)} is ${what}, not a schema`);
    }
    yield [value, at];
  }
}

function* subschemaValuesOf(node: JsonObject, path: string): Generator<[JsonValue, string]> {
  for (const [keyword, value] of Object.entries(node)) {
    const at = `${path}/${keyword}`;
    if (LIST_KEYWORDS.has(keyword) || (keyword === 'items' && Array.isArray(value))) {
      if (!Array.isArray(value)) throw new UnusableSchema(`${shown(at)} is no list of schemas`);
      for (let index = 0; index < value.length; index += 1)
        yield [value[index] as JsonValue, `${at}/${index}`];
    } else if (SCHEMA_KEYWORDS.has(keyword)) {
      yield [value, at];
    } else if (MAP_KEYWORDS.has(keyword) || keyword === '$defs' || keyword === 'definitions') {
      if (!isJsonObject(value)) throw new UnusableSchema(`${shown(at)} is no object`);
      for (const [name, subschema] of Object.entries(value)) {
        if (keyword === 'dependencies' && Array.isArray(subschema)) continue;
        yield [subschema, `${at}/${name}`];
      }
    }
  }
}

function resourceFor(node: JsonObject, parent: SchemaResource | null): SchemaResource {
  const id = node['$id'] ?? (parent === null ? node['id'] : undefined);
  const own = typeof id === 'string' && !id.startsWith('#') ? id.replace(/#$/, '') : null;
  if (parent !== null && own === null) return parent;
  return { uri: absolute(own ?? '', parent?.uri ?? ''), root: node, anchors: new Map() };
}

function anchorsOf(node: JsonObject): string[] {
  const anchors = [node['$anchor'], node['$dynamicAnchor']].filter((each) => typeof each === 'string');
  // Up to draft 7 an anchor is an id that is a fragment.
  for (const id of [node['$id'], node['id']]) {
    if (typeof id === 'string' && id.length > 1 && id.startsWith('#')) anchors.push(id.slice(1));
  }
  return anchors;
}

function absolute(reference: string, base: string): string {
  if (reference === '') return base;
  try {
    return new URL(reference, base === '' ? undefined : base).href;
  } catch {
    return reference;
  }
}

function shown(text: string): string {
  return `"${sanitizeText(text, 100)}"`;
}
