/**
 * Checks what a host's handlers gave, before it goes to a server. Members that the protocol does not know are not sent:
 * a handler's object may hold more than is meant for a server.
 */
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import { isJsonObject } from '../protocol/jsonRpc.js';
import { nameOf, quoted } from './wording.js';

export type ReadResult =
  | { readonly ok: true; readonly result: JsonObject }
  /** One sanitized clause. */
  | { readonly ok: false; readonly problem: string };

/** An `ElicitResult`. Content comes with `accept` only, and only of a form (client/elicitation, response actions). */
export function readElicitResult(given: JsonValue, mode: 'form' | 'url'): ReadResult {
  if (!isJsonObject(given)) return bad(`it is ${nameOf(given)}, not an object`);
  const { action, content, _meta: meta } = given;
  if (action !== 'accept' && action !== 'decline' && action !== 'cancel') {
    const shown = typeof action === 'string' ? quoted(action) : nameOf(action);
    return bad(`its "action" is ${shown}, not "accept", "decline" or "cancel"`);
  }
  if (content === undefined) return good({ action }, meta);
  if (action !== 'accept') return bad(`it has "content" although its action is "${action}"`);
  if (mode === 'url') return bad('it has "content", which only a form has');
  if (!isJsonObject(content)) return bad(`its "content" is ${nameOf(content)}, not an object`);
  for (const [name, value] of Object.entries(content)) {
    if (!isFormValue(value)) {
      return bad(`${quoted(name)} of its "content" is no string, number, boolean or array of strings`);
    }
  }
  return good({ action, content }, meta);
}

function isFormValue(value: JsonValue): boolean {
  if (Array.isArray(value)) return value.every((item) => typeof item === 'string');
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
}

/** A `CreateMessageResult`. It is open-ended (`stopReason`, `_meta` and what a provider adds): all of it is sent. */
export function readSampleResult(given: JsonValue): ReadResult {
  if (!isJsonObject(given)) return bad(`it is ${nameOf(given)}, not an object`);
  const { role, content, model } = given;
  if (role !== 'assistant' && role !== 'user') return bad('its "role" is neither "assistant" nor "user"');
  if (typeof model !== 'string') return bad(`its "model" is ${nameOf(model)}, not a string`);
  const blocks: readonly (JsonValue | undefined)[] = Array.isArray(content) ? content : [content];
  if (!blocks.every(isTypedBlock)) return bad('its "content" is no content block and no array of them');
  return { ok: true, result: given };
}

function isTypedBlock(block: JsonValue | undefined): boolean {
  return isJsonObject(block) && typeof block['type'] === 'string';
}

/** A list of roots, as a `ListRootsResult`. "This must start with file:// for now" (schema, `Root`). */
export function readRoots(given: JsonValue): ReadResult {
  if (!Array.isArray(given)) return bad(`it is ${nameOf(given)}, not an array`);
  const roots: JsonObject[] = [];
  for (const [index, root] of (given as readonly JsonValue[]).entries()) {
    if (!isJsonObject(root)) return bad(`root ${index} is ${nameOf(root)}, not an object`);
    const { uri, name, _meta: meta } = root;
    if (typeof uri !== 'string' || !/^file:\/\//i.test(uri) || !URL.canParse(uri)) {
      return bad(`"uri" of root ${index} is no file:// URI`);
    }
    if (name !== undefined && typeof name !== 'string') return bad(`"name" of root ${index} is no string`);
    roots.push({
      uri,
      ...(name === undefined ? {} : { name }),
      ...(isJsonObject(meta) ? { _meta: meta } : {}),
    });
  }
  return good({ roots }, undefined);
}

function good(result: JsonObject, meta: JsonValue | undefined): ReadResult {
  return { ok: true, result: isJsonObject(meta) ? { ...result, _meta: meta } : result };
}

function bad(problem: string): ReadResult {
  return { ok: false, problem };
}
