/**
 * One page of any of the four lists, and their items. An item is read by itself, so that a malformed one is told apart
 * and does not spoil the others. Serializers that write absent members as null mean nothing by it.
 */
import { z } from 'zod';
import type {
  CacheHint,
  PromptArgument,
  PromptDefinition,
  ResourceDefinition,
  ResourceTemplateDefinition,
} from './definitions.js';
import type { JsonObject, JsonValue } from './jsonRpc.js';
import { isJsonObject } from './jsonRpc.js';
import { LISTS, type ListKind } from './lists.js';
import { type Parsed, problemOf, problemOfResultType } from './results.js';

/** One page of a list, its items unread. */
export interface ListPage extends CacheHint {
  readonly items: readonly JsonValue[];
  /** Opaque; may be the empty string. */
  readonly nextCursor: string | undefined;
  /** Whether the server said a `cacheScope`, and not something else in its place. */
  readonly hasScope: boolean;
}

/** Longest freshness that is believed: 24 h. */
export const MAX_TTL_MS = 24 * 60 * 60 * 1000;

/** Reads the result of the request that lists `kind`. A bad cache hint does not spoil it; a bad cursor does. */
export function parseListPage(kind: ListKind, value: JsonValue): Parsed<ListPage> {
  const incomplete = problemOfResultType(value);
  if (incomplete !== null) return { ok: false, problem: incomplete };
  if (!isJsonObject(value)) return { ok: false, problem: 'the result is no object' };
  const { member } = LISTS[kind];
  const items = value[member];
  if (!Array.isArray(items)) return { ok: false, problem: `the result has no array "${member}"` };
  const { nextCursor } = value;
  if (nextCursor !== undefined && nextCursor !== null && typeof nextCursor !== 'string') {
    return { ok: false, problem: '"nextCursor" is no string' };
  }
  return {
    ok: true,
    value: {
      items: items as readonly JsonValue[],
      nextCursor: nextCursor ?? undefined,
      ...cacheHintOf(value),
      hasScope: value['cacheScope'] === 'public' || value['cacheScope'] === 'private',
    },
  };
}

/** The cache hint of a result. Total: what is absent or unusable reads as not to be kept, and for nobody else. */
export function cacheHintOf(value: JsonValue): CacheHint {
  if (!isJsonObject(value)) return { ttlMs: 0, cacheScope: 'private' };
  const { ttlMs, cacheScope } = value;
  return {
    ttlMs: typeof ttlMs === 'number' && ttlMs > 0 ? Math.min(Math.floor(ttlMs), MAX_TTL_MS) : 0,
    cacheScope: cacheScope === 'public' ? 'public' : 'private',
  };
}

/** One tool of a listing, as declared. Unknown members are kept in `declared`. */
export interface ToolDefinition {
  readonly name: string;
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonObject | undefined;
  readonly annotations: JsonObject | undefined;
  /** The item as the server sent it. */
  readonly declared: JsonObject;
}

const nullToAbsent = <T>(schema: z.ZodType<T>) =>
  z.preprocess((value) => (value === null ? undefined : value), schema.optional());

const jsonObject = z.custom<JsonObject>(isJsonObject, 'expected an object');
const requiredText = z.string().min(1);
const optionalText = nullToAbsent(z.string());
const optionalObject = nullToAbsent(jsonObject);

const toolItem = z.looseObject({
  name: requiredText,
  title: optionalText,
  description: optionalText,
  inputSchema: z.looseObject({ type: z.literal('object') }),
  outputSchema: optionalObject,
  annotations: optionalObject,
});

export function parseTool(item: JsonValue): Parsed<ToolDefinition> {
  const parsed = toolItem.safeParse(item);
  if (!parsed.success) return { ok: false, problem: problemOf(parsed.error) };
  const { name, title, description, outputSchema, annotations } = parsed.data;
  const declared = item as JsonObject;
  return {
    ok: true,
    value: {
      name,
      title,
      description,
      inputSchema: declared['inputSchema'] as JsonObject,
      outputSchema,
      annotations: annotations && withoutNulls(annotations),
      declared,
    },
  };
}

/** Hints that are null say nothing: `readOnlyHint: null` is dropped, not read as false. */
function withoutNulls(annotations: JsonObject): JsonObject {
  return Object.fromEntries(Object.entries(annotations).filter(([, value]) => value !== null));
}

const promptArgument = z.looseObject({
  name: requiredText,
  title: optionalText,
  description: optionalText,
  required: nullToAbsent(z.boolean()),
});

const promptItem = z.looseObject({
  name: requiredText,
  title: optionalText,
  description: optionalText,
  arguments: nullToAbsent(z.array(promptArgument)),
});

export function parsePrompt(item: JsonValue): Parsed<PromptDefinition> {
  const parsed = promptItem.safeParse(item);
  if (!parsed.success) return { ok: false, problem: problemOf(parsed.error) };
  const { name, title, description } = parsed.data;
  const args = (parsed.data.arguments ?? []).map(
    (argument): PromptArgument => ({
      name: argument.name,
      title: argument.title,
      description: argument.description,
      required: argument.required ?? false,
    }),
  );
  return { ok: true, value: { name, title, description, arguments: args, declared: item as JsonObject } };
}

const resourceItem = z.looseObject({
  uri: requiredText,
  name: requiredText,
  title: optionalText,
  description: optionalText,
  mimeType: optionalText,
  // A size is a hint for display: an unusable one says nothing.
  size: z.number().nonnegative().optional().catch(undefined),
});

export function parseResource(item: JsonValue): Parsed<ResourceDefinition> {
  const parsed = resourceItem.safeParse(item);
  if (!parsed.success) return { ok: false, problem: problemOf(parsed.error) };
  const { uri, name, title, description, mimeType, size } = parsed.data;
  const declared = item as JsonObject;
  return { ok: true, value: { uri, name, title, description, mimeType, sizeBytes: size, declared } };
}

const resourceTemplateItem = z.looseObject({
  uriTemplate: requiredText,
  name: requiredText,
  title: optionalText,
  description: optionalText,
  mimeType: optionalText,
});

/** Whether `uriTemplate` is well-formed (RFC 6570) shows when it is expanded; it is not checked here. */
export function parseResourceTemplate(item: JsonValue): Parsed<ResourceTemplateDefinition> {
  const parsed = resourceTemplateItem.safeParse(item);
  if (!parsed.success) return { ok: false, problem: problemOf(parsed.error) };
  const { uriTemplate, name, title, description, mimeType } = parsed.data;
  const declared = item as JsonObject;
  return { ok: true, value: { uriTemplate, name, title, description, mimeType, declared } };
}
