/** Fingerprints of definitions: equal meaning, equal digest, whatever the order in which members were written. */
import { hash } from 'node:crypto';
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import type { ToolDefinition } from '../protocol/listResults.js';

/**
 * Deepest nesting that is read: twice serde_json's limit, so nothing that a common server can build is refused. What
 * lies deeper is not told apart by {@link canonicalJson}; `prepareCatalog` therefore exposes no tool that is deeper.
 */
export const MAX_DEPTH = 256;

/** Stands for what lies deeper than {@link MAX_DEPTH}. No JSON text contains it outside a string. */
const TOO_DEEP = '…';

/**
 * JSON text with the members of every object sorted by key in code-unit order, and no white space. Total over JSON
 * values, whatever their keys (`__proto__`, `toJSON`) and depth. Members that are `undefined` are left out. A number
 * too large for a double, which `JSON.parse` reads as Infinity, is not written as `null`; a lone surrogate is escaped.
 */
export function canonicalJson(value: JsonValue | undefined): string {
  return write(value, MAX_DEPTH);
}

function write(value: JsonValue | undefined, depthLeft: number): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value);
    case 'number':
      return Number.isFinite(value) ? JSON.stringify(value) : String(value);
    case 'boolean':
      return value ? 'true' : 'false';
    case 'object':
      if (value === null) return 'null';
      if (depthLeft === 0) return TOO_DEEP;
      return isArray(value) ? writeArray(value, depthLeft - 1) : writeObject(value, depthLeft - 1);
    default:
      return 'null';
  }
}

function writeArray(items: readonly JsonValue[], depthLeft: number): string {
  let text = '[';
  for (let i = 0; i < items.length; i += 1) text += `${i === 0 ? '' : ','}${write(items[i], depthLeft)}`;
  return `${text}]`;
}

function writeObject(object: { readonly [key: string]: JsonValue | undefined }, depthLeft: number): string {
  let text = '{';
  for (const key of Object.keys(object).sort()) {
    const value = object[key];
    if (value === undefined) continue;
    text += `${text === '{' ? '' : ','}${JSON.stringify(key)}:${write(value, depthLeft)}`;
  }
  return `${text}}`;
}

/** Whether a value nests deeper than `limit` containers. Does not look further than that, so it always ends. */
export function isDeeperThan(value: JsonValue | undefined, limit: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (limit === 0) return true;
  const inner: readonly JsonValue[] = isArray(value) ? value : Object.values(value);
  return inner.some((item) => isDeeperThan(item, limit - 1));
}

function isArray(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value);
}

/** A definition is immutable, so that its digest is computed once, however often its list is merged. */
const digests = new WeakMap<ToolDefinition, string>();

/**
 * `sha256:<hex>` over the canonical JSON of all that a model or a validator sees of a tool: name, title, description,
 * both schemas, annotations. Members that this client does not use do not count.
 */
export function toolDigest(tool: ToolDefinition): string {
  let digest = digests.get(tool);
  if (digest === undefined) {
    digest = sha256(toolText(tool));
    digests.set(tool, digest);
  }
  return digest;
}

/** The members in key order, so that only their values have to be sorted. */
function toolText(tool: ToolDefinition): string {
  const { annotations, description, inputSchema, name, outputSchema, title } = tool;
  return writeObject(
    { annotations, description, inputSchema, name, outputSchema, title } as never,
    MAX_DEPTH,
  );
}

/** `sha256:<hex>` over the digests of the tools of one list, in the order of the list. */
export function catalogDigest(tools: readonly ToolDefinition[]): string {
  return sha256(tools.map(toolDigest).join('\n'));
}

/** `sha256:<hex>` over the canonical JSON of the items of a list as they were declared, in the order of the list. */
export function listDigest(items: readonly { readonly declared: JsonObject }[]): string {
  return sha256(items.map((item) => canonicalJson(item.declared)).join('\n'));
}

function sha256(text: string): string {
  return `sha256:${hash('sha256', text, 'hex')}`;
}
