/**
 * Reads the result of `tools/call`. Strict where the specification is, and cheap: a few property reads a block, since
 * every answer of every call passes here. Nothing is copied, cut or converted: blocks are handed on as they came.
 */
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import { isJsonObject } from '../protocol/jsonRpc.js';
import type { Era } from '../protocol/revisions.js';
import { type InputRequired, readInputRequired } from './inputRequired.js';
import type { ToolResult } from './outcome.js';
import type { ValidationResult } from './validate.js';
import { nameOf, quoted } from './wording.js';

/** Checks `structuredContent` against the output schema of the tool that was called. Must not be asynchronous. */
export type OutputValidator = (structuredContent: JsonValue) => ValidationResult;

export type ReadToolResult =
  | {
      readonly kind: 'ok' | 'tool-error';
      readonly result: ToolResult;
      /** Why `structuredContent` was not checked although there is an output schema: a limit of this host. */
      readonly unchecked?: string;
      /** A modern peer left `resultType` out: read as `complete`, and counted as its fault (N19). */
      readonly resultTypeAbsent?: true;
    }
  | InputRequired
  /** The answer is no tool result. `problem` is one sanitized sentence about it. */
  | { readonly kind: 'invalid'; readonly problem: string };

/**
 * Reads what a server gave as the result of `tools/call`. Total: never throws.
 *
 * With an output schema a result that is no tool error must have `structuredContent` that fits it: "servers MUST
 * provide structured results that conform to this schema" (2026-07-28, server/tools, output schema; since 2025-06-18).
 * A result that lacks it is invalid, as it is for the official client. Tool errors are not checked against the schema.
 *
 * @param outputValidator for the schema that was in the lease, where the tool has one
 */
export function readToolResult(
  result: JsonValue,
  era: Era,
  outputValidator?: OutputValidator | undefined,
): ReadToolResult {
  if (!isJsonObject(result)) return invalid(`the result is ${nameOf(result)}, not an object`);
  const resultType = result['resultType'];
  if (resultType !== undefined && resultType !== 'complete') {
    if (resultType === 'input_required' && era === 'modern') return readInputRequired(result);
    return invalid(`the result has ${unknownResultType(resultType, era)}`);
  }

  const { content, structuredContent: structured, isError, _meta: meta } = result;
  if (content === undefined && structured === undefined) {
    return invalid(
      result['toolResult'] !== undefined
        ? 'the result has the shape of a draft ("toolResult") that was never published; it must have "content"'
        : 'the result has neither "content" nor "structuredContent"',
    );
  }
  if (content !== undefined) {
    if (!Array.isArray(content)) return invalid(`"content" is ${nameOf(content)}, not an array`);
    const problem = problemOfBlocks(content as readonly JsonValue[]);
    if (problem !== null) return invalid(problem);
  }
  if (isError !== undefined && isError !== null && typeof isError !== 'boolean') {
    return invalid(`"isError" is ${nameOf(isError)}, not a boolean`);
  }
  if (meta !== undefined && meta !== null && !isJsonObject(meta)) {
    return invalid(`"_meta" is ${nameOf(meta)}, not an object`);
  }

  // In the legacy era structured content is an object; serializers that write absent members as null mean nothing.
  const isAbsent = structured === undefined || (structured === null && era === 'legacy');
  const toolResult: { -readonly [Member in keyof ToolResult]: ToolResult[Member] } = {
    content: (content ?? []) as readonly JsonObject[],
  };
  if (!isAbsent) toolResult.structuredContent = structured;
  if (meta !== undefined && meta !== null) toolResult.meta = meta;

  const absent = resultType === undefined && era === 'modern' ? RESULT_TYPE_ABSENT : NOTHING;
  if (isError === true) return { kind: 'tool-error', result: toolResult, ...absent };
  if (outputValidator === undefined) return { kind: 'ok', result: toolResult, ...absent };
  if (isAbsent) return invalid('the tool has an output schema, and the result has no "structuredContent"');
  const checked = outputValidator(structured);
  if (checked.ok) return { kind: 'ok', result: toolResult, ...absent };
  // The tool was executed. That this host cannot check its schema takes nothing away from the answer.
  if (checked.code === 'schema-unusable') {
    return { kind: 'ok', result: toolResult, unchecked: checked.message, ...absent };
  }
  return invalid(`"structuredContent" does not fit the output schema of the tool: ${checked.message}`);
}

const RESULT_TYPE_ABSENT = { resultTypeAbsent: true } as const;
const NOTHING = {} as const;

function problemOfBlocks(blocks: readonly JsonValue[]): string | null {
  for (let index = 0; index < blocks.length; index += 1) {
    const block = blocks[index] as JsonValue;
    if (!isJsonObject(block)) return `content[${index}] is ${nameOf(block)}, not an object`;
    const problem = problemOfBlock(block);
    if (problem !== null) return `content[${index}] ${problem}`;
  }
  return null;
}

/** Required members of the content blocks (2026-07-28 schema, `ContentBlock`; the union of all revisions). */
function problemOfBlock(block: JsonObject): string | null {
  const type = block['type'];
  switch (type) {
    case 'text':
      return typeof block['text'] === 'string' ? null : lacks(type, 'text');
    case 'image':
    case 'audio':
      if (typeof block['data'] !== 'string') return lacks(type, 'data');
      return typeof block['mimeType'] === 'string' ? null : lacks(type, 'mimeType');
    case 'resource_link':
      if (typeof block['uri'] !== 'string') return lacks(type, 'uri');
      return typeof block['name'] === 'string' ? null : lacks(type, 'name');
    case 'resource':
      return problemOfResource(block['resource']);
    default:
      return typeof type === 'string' ? `has the unknown type ${quoted(type)}` : 'has no string "type"';
  }
}

function problemOfResource(resource: JsonValue | undefined): string | null {
  if (resource === undefined || !isJsonObject(resource)) return '(resource) has no object "resource"';
  if (typeof resource['uri'] !== 'string') return lacks('resource', 'resource.uri');
  if (typeof resource['text'] === 'string' || typeof resource['blob'] === 'string') return null;
  return '(resource) has neither a string "resource.text" nor a string "resource.blob"';
}

function lacks(type: string, member: string): string {
  return `(${type}) has no string "${member}"`;
}

/** A client accepts only result types that it advertised (2026-07-28, basic); this one advertises none. */
function unknownResultType(resultType: JsonValue, era: Era): string {
  if (resultType === 'input_required') return `resultType "input_required", which a ${era} peer cannot use`;
  return typeof resultType === 'string'
    ? `the unknown resultType ${quoted(resultType)}`
    : `a resultType that is ${nameOf(resultType)}`;
}

function invalid(problem: string): ReadToolResult {
  return { kind: 'invalid', problem };
}
