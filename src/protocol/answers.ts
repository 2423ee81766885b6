/**
 * The answers of `prompts/get`, `resources/read` and `completion/complete`. Strict where the specification is; blocks
 * and contents are handed on as they came. Total: never throws.
 */
import type { CompletionResult, PromptResult, ResourceResult } from './definitions.js';
import type { JsonObject, JsonValue } from './jsonRpc.js';
import { isJsonObject } from './jsonRpc.js';
import { type Parsed, problemOfResultType } from './results.js';

/** Most values that a completion may bring (server/utilities/completion). */
export const MAX_COMPLETION_VALUES = 100;

/** Reads the result of `prompts/get`. One that asks for input is a problem here: whoever goes rounds reads it before. */
export function parsePromptResult(value: JsonValue): Parsed<PromptResult> {
  const opened = openResult(value);
  if (!opened.ok) return opened;
  const { description, messages } = opened.value.result;
  if (!isAbsent(description) && typeof description !== 'string') return problem('"description" is no string');
  if (!Array.isArray(messages)) return problem('the result has no array "messages"');
  for (const [index, message] of messages.entries()) {
    const wrong = problemOfMessage(message);
    if (wrong !== null) return problem(`messages[${index}] ${wrong}`);
  }
  return {
    ok: true,
    value: {
      description: description ?? undefined,
      messages: messages as readonly JsonObject[],
      meta: opened.value.meta,
    },
  };
}

function problemOfMessage(message: JsonValue): string | null {
  if (!isJsonObject(message)) return 'is no object';
  const { role, content } = message;
  if (role !== 'user' && role !== 'assistant') return 'has no role "user" or "assistant"';
  if (content === undefined || !isJsonObject(content)) return 'has no object "content"';
  return typeof content['type'] === 'string' ? null : 'has content without a string "type"';
}

/** Reads the result of `resources/read`; its cache hint is read by `cacheHintOf`. */
export function parseResourceResult(value: JsonValue): Parsed<ResourceResult> {
  const opened = openResult(value);
  if (!opened.ok) return opened;
  const { contents } = opened.value.result;
  if (!Array.isArray(contents)) return problem('the result has no array "contents"');
  for (const [index, item] of contents.entries()) {
    const wrong = problemOfContents(item);
    if (wrong !== null) return problem(`contents[${index}] ${wrong}`);
  }
  return { ok: true, value: { contents: contents as readonly JsonObject[], meta: opened.value.meta } };
}

function problemOfContents(contents: JsonValue): string | null {
  if (!isJsonObject(contents)) return 'is no object';
  const { uri, text, blob } = contents;
  if (typeof uri !== 'string') return 'has no string "uri"';
  return typeof text === 'string' || typeof blob === 'string'
    ? null
    : 'has neither a string "text" nor a string "blob"';
}

/**
 * Reads the result of `completion/complete`. Of more than {@link MAX_COMPLETION_VALUES} values the first are kept, and
 * `hasMore` is true.
 */
export function parseCompletionResult(value: JsonValue): Parsed<CompletionResult> {
  const opened = openResult(value);
  if (!opened.ok) return opened;
  const { completion } = opened.value.result;
  if (completion === undefined || !isJsonObject(completion)) {
    return problem('the result has no object "completion"');
  }
  const { values, total, hasMore } = completion;
  if (!Array.isArray(values)) return problem('"completion" has no array "values"');
  const wrong = values.findIndex((item) => typeof item !== 'string');
  if (wrong >= 0) return problem(`values[${wrong}] is no string`);
  if (!isAbsent(total) && !Number.isInteger(total)) return problem('"total" is no integer');
  if (!isAbsent(hasMore) && typeof hasMore !== 'boolean') return problem('"hasMore" is no boolean');
  return {
    ok: true,
    value: {
      values: (values as readonly string[]).slice(0, MAX_COMPLETION_VALUES),
      total: (total as number | null | undefined) ?? undefined,
      hasMore: hasMore === true || values.length > MAX_COMPLETION_VALUES,
    },
  };
}

interface OpenedResult {
  readonly result: JsonObject;
  readonly meta: JsonObject | undefined;
}

/** What all results have in common: complete, an object, its `_meta` one too where it is there. */
function openResult(value: JsonValue): Parsed<OpenedResult> {
  const incomplete = problemOfResultType(value);
  if (incomplete !== null) return problem(incomplete);
  if (!isJsonObject(value)) return problem('the result is no object');
  const { _meta: meta } = value;
  if (isAbsent(meta)) return { ok: true, value: { result: value, meta: undefined } };
  if (!isJsonObject(meta)) return problem('"_meta" is no object');
  return { ok: true, value: { result: value, meta } };
}

/** Serializers that write absent members as null mean nothing by it. */
function isAbsent(member: JsonValue | undefined): member is null | undefined {
  return member === undefined || member === null;
}

function problem(what: string): { readonly ok: false; readonly problem: string } {
  return { ok: false, problem: what };
}
