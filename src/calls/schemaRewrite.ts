/**
 * Writes a bounded schema anew for the compiler: only what asserts something, every reference a plain `$ref` into one
 * flat table of definitions, and on each subschema the price of checking it. The compiler then sees no id, no anchor, no
 * foreign reference, no asynchronous schema and none of the forms it refuses although the field uses them.
 */
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import {
  LIST_KEYWORDS,
  MAP_KEYWORDS,
  MAX_REFERENCED,
  MAX_SUBSCHEMAS,
  type ReadSchema,
  resolveReference,
  SCHEMA_KEYWORDS,
  type SchemaResource,
  subschemasOf,
  UnusableSchema,
} from './schemaBounds.js';

/** Keyword that carries the price of a subschema, a {@link Price}. */
export const PRICE_KEYWORD = 'peerage:price';

/** What looking at one value with one subschema costs. */
export interface Price {
  readonly steps: number;
  /** Steps more for each member, where the value is an object. */
  readonly stepsPerMember: number;
  /** Whether a problem found here is one of the whole: no alternative, negation or reference lies on the way. */
  readonly isCertain: boolean;
}

/** Ways down on which what fails below fails above, within one compiled function. */
const CERTAIN_WAYS: ReadonlySet<string> = new Set([
  'additionalItems',
  'additionalProperties',
  'allOf',
  'items',
  'patternProperties',
  'prefixItems',
  'properties',
]);

/** Assertions that hold no subschema. Annotations are left out: they cost memory and mean nothing here. */
const ASSERTIONS: ReadonlySet<string> = new Set([
  'const',
  'dependentRequired',
  'enum',
  'exclusiveMaximum',
  'exclusiveMinimum',
  'format',
  'maxContains',
  'maxItems',
  'maxLength',
  'maxProperties',
  'maximum',
  'minContains',
  'minItems',
  'minLength',
  'minProperties',
  'minimum',
  'multipleOf',
  'pattern',
  'required',
  'type',
  'uniqueItems',
]);

/** Keywords that look at each member of an object. */
const MEMBER_KEYWORDS = [
  'additionalProperties',
  'maxProperties',
  'minProperties',
  'patternProperties',
  'propertyNames',
  'unevaluatedProperties',
];

/**
 * Within one resource a dynamic reference is a plain one. Across several, what it means depends on the way there; the
 * nearest is taken, which is right unless a schema overrides a dynamic anchor.
 */
const REFERENCES = ['$ref', '$dynamicRef', '$recursiveRef'];

type Mutable = Record<string, unknown>;
type Subschema = JsonObject | boolean;

/** What references lead to, by the name it gets in the table. The root has none: it is `#`. */
interface Targets {
  readonly names: ReadonlyMap<Subschema, string>;
  readonly includeRoot: boolean;
  /** The `$ref`s of a subschema. */
  readonly refsOf: ReadonlyMap<JsonObject, readonly string[]>;
}

/**
 * @returns a schema for the compiler of `read.dialect`
 * @throws UnusableSchema for a reference that leads out of the schema or nowhere
 */
export function rewriteSchema(read: ReadSchema): Record<string, unknown> {
  const targets = findTargets(read);
  const isNewest = read.dialect === '2020-12';

  // What is referred to is written once, in the table, and not where it stood: else nested definitions that are all
  // referred to would be compiled as often as they are nested.
  const child = (node: Subschema, isCertain: boolean): unknown => {
    const name = typeof node === 'boolean' ? undefined : targets.names.get(node);
    return name === undefined ? write(node, isCertain) : { $ref: `#/$defs/${name}` };
  };
  const write = (node: Subschema, isCertain: boolean): unknown => {
    if (typeof node === 'boolean') return node;
    const out: Mutable = {};
    for (const [keyword, value] of Object.entries(node)) {
      const below = (subschema: Subschema) => child(subschema, isCertain && CERTAIN_WAYS.has(keyword));
      if (ASSERTIONS.has(keyword)) out[keyword] = value;
      else if (LIST_KEYWORDS.has(keyword) || (keyword === 'items' && Array.isArray(value))) {
        out[keyword] = (value as readonly Subschema[]).map(below);
      } else if (SCHEMA_KEYWORDS.has(keyword)) out[keyword] = below(value as Subschema);
      else if (MAP_KEYWORDS.has(keyword)) out[keyword] = mapOf(value as JsonObject, below);
    }
    const references = targets.refsOf.get(node) ?? [];
    writeReferences(out, references);
    translate(node, out, isNewest);
    out[PRICE_KEYWORD] = { ...priceOf(node, references.length), isCertain } satisfies Price;
    return out;
  };

  const root = write(read.root, !targets.includeRoot) as Mutable;
  root['$defs'] = Object.fromEntries(
    [...targets.names].map(([target, name]) => [name, write(target, false)]),
  );
  return root;
}

/** Walks all that can be reached from the root, and checks along the way what the index has not seen. */
function findTargets(read: ReadSchema): Targets {
  const names = new Map<Subschema, string>();
  const refsOf = new Map<JsonObject, string[]>();
  let includeRoot = false;
  let memberPatterns = 0;
  const stack: { readonly node: Subschema; readonly resource: SchemaResource }[] = [];

  const visit = (node: Subschema, inherited: SchemaResource): void => {
    if (typeof node === 'boolean' || refsOf.has(node)) return;
    if (refsOf.size >= MAX_SUBSCHEMAS)
      throw new UnusableSchema(`it has more than ${MAX_SUBSCHEMAS} subschemas`);
    refsOf.set(node, []);
    // A reference into a place that is no subschema (`#/components/…`) belongs to the resource that refers to it.
    stack.push({ node, resource: read.resourceOf.get(node) ?? inherited });
  };
  visit(read.root, read.resourceOf.get(read.root)!);
  for (let next = stack.pop(); next !== undefined; next = stack.pop()) {
    const { node, resource } = next as { node: JsonObject; resource: SchemaResource };
    for (const keyword of REFERENCES) {
      const text = node[keyword];
      if (text === undefined) continue;
      if (typeof text !== 'string') throw new UnusableSchema(`a "${keyword}" is no string`);
      const target = resolveReference(read, text, resource);
      if (target === read.root) includeRoot = true;
      else if (!names.has(target)) names.set(target, `d${names.size}`);
      refsOf.get(node)!.push(target === read.root ? '#' : `#/$defs/${names.get(target)!}`);
      if (names.size > MAX_REFERENCED) {
        throw new UnusableSchema(`its references lead to more than ${MAX_REFERENCED} places`);
      }
      visit(target, resource);
    }
    memberPatterns += entriesIn(node['patternProperties']);
    if (memberPatterns > MAX_REFERENCED) {
      throw new UnusableSchema(`it has more than ${MAX_REFERENCED} "patternProperties"`);
    }
    for (const [subschema] of subschemasOf({ ...node, $defs: {}, definitions: {} }, '#'))
      visit(subschema, resource);
  }
  return { names, includeRoot, refsOf };
}

function writeReferences(out: Mutable, references: readonly string[]): void {
  const [only, ...others] = references;
  if (only === undefined) return;
  out['$ref'] = only;
  if (others.length === 0) return;
  const all = (out['allOf'] ?? []) as readonly unknown[];
  out['allOf'] = [...all, ...others.map(($ref) => ({ $ref }))];
}

/** Forms of older drafts and of OpenAPI that tools in the field carry without naming a dialect. */
function translate(node: JsonObject, out: Mutable, isNewest: boolean): void {
  if (isNewest && Array.isArray(out['items'])) {
    out['prefixItems'] ??= out['items'];
    delete out['items'];
    if (out['additionalItems'] !== undefined) out['items'] = out['additionalItems'];
  }
  if (isNewest) delete out['additionalItems'];
  for (const [bound, exclusive] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    if (typeof node[exclusive] !== 'boolean') continue;
    delete out[exclusive];
    if (node[exclusive] !== true || node[bound] === undefined) continue;
    out[exclusive] = node[bound];
    delete out[bound];
  }
  const type = node['type'];
  if (node['nullable'] !== true || type === undefined) return;
  const types = Array.isArray(type) ? (type as readonly JsonValue[]) : [type];
  out['type'] = types.includes('null') ? types : [...types, 'null'];
  const values = node['enum'];
  if (Array.isArray(values) && !values.includes(null))
    out['enum'] = [...(values as readonly JsonValue[]), null];
}

/**
 * What makes a check grow beyond the size of schema and value is looking at one place several times, so branching is
 * dear: a schema of thirty lines can ask for a billion looks. A reference costs a function call, and looking for a name
 * or comparing with a literal a fraction of entering a subschema.
 */
function priceOf(node: JsonObject, references: number): Omit<Price, 'isCertain'> {
  const names =
    entriesIn(node['properties']) + entriesIn(node['required']) + entriesIn(node['dependentRequired']);
  const literals = literalsIn(node['enum']) + literalsIn(node['const']);
  const listed = [...LIST_KEYWORDS].reduce((sum, keyword) => sum + entriesIn(node[keyword]), 0);
  const single = ['if', 'not', 'contains'].filter((keyword) => node[keyword] !== undefined).length;
  const branches = listed + single + entriesIn(node['dependentSchemas']) + entriesIn(node['dependencies']);
  const members = MEMBER_KEYWORDS.filter((keyword) => node[keyword] !== undefined).length;
  return {
    steps: 1 + (names >> 2) + (literals >> 3) + REFERENCE_PRICE * references + BRANCH_PRICE * branches,
    stepsPerMember: members + BRANCH_PRICE * entriesIn(node['patternProperties']),
  };
}

const REFERENCE_PRICE = 4;
const BRANCH_PRICE = 15;

function entriesIn(value: JsonValue | undefined): number {
  return typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
}

/** JSON values inside a literal: comparing may look at each. Nesting was bounded before. */
function literalsIn(value: JsonValue | undefined): number {
  if (typeof value !== 'object' || value === null) return 0;
  return Object.values(value).reduce((sum: number, each: JsonValue) => sum + 1 + literalsIn(each), 0);
}

/** `fromEntries` defines own members, so a property `__proto__` stays a property. */
function mapOf(value: JsonObject, child: (node: Subschema) => unknown): unknown {
  return Object.fromEntries(
    // A list stands only in `dependencies`, for names; the index let no other one pass.
    Object.entries(value).map(([name, node]) => [
      name,
      Array.isArray(node) ? node : child(node as Subschema),
    ]),
  );
}
