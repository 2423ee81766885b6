/**
 * zod schemas of the results this client consumes. They check what a negotiation and a listing bring, and are lenient
 * only where the specification says so. The answer of a call is checked by `calls/normalize.ts` instead.
 */
import { z } from 'zod';
import type { Outcome } from './exchange.js';
import type { JsonObject, JsonValue } from './jsonRpc.js';
import { isJsonObject } from './jsonRpc.js';

const jsonObject = z.custom<JsonObject>(isJsonObject, 'expected an object');

/** A server's word about itself: for display only, never a key, never a security decision. */
export interface ServerInfo {
  readonly name: string;
  readonly version: string;
}

/** Result of `server/discover` (2026-07-28, server/discover). */
export interface DiscoverResult {
  readonly supportedVersions: readonly string[];
  readonly capabilities: JsonObject;
  readonly instructions: string | undefined;
  readonly serverInfo: ServerInfo | undefined;
}

/** Result of `initialize` (2025-11-25, basic/lifecycle). */
export interface InitializeResult {
  readonly protocolVersion: string;
  readonly capabilities: JsonObject;
  readonly serverInfo: ServerInfo;
  readonly instructions: string | undefined;
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

export const SERVER_INFO_META_KEY = 'io.modelcontextprotocol/serverInfo';

const serverInfo = z.looseObject({ name: z.string().min(1), version: z.string().min(1) });

/** Prose for the model: proves nothing, so a bad one spoils nothing. */
const instructions = z.string().optional().catch(undefined);

const discoverResult = z.looseObject({
  supportedVersions: z.array(z.string()).min(1),
  capabilities: jsonObject,
  instructions,
});

const initializeResult = z.looseObject({
  protocolVersion: z.string(),
  capabilities: jsonObject,
  serverInfo,
  instructions,
});

/** What came of reading: the value, or what is wrong with it in one sentence. */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string };

/**
 * Reads a `DiscoverResult`. A bad or absent cache hint does not spoil it, a missing `resultType` neither (N19); an
 * unknown `resultType`, a missing member or an empty `supportedVersions` does.
 */
export function parseDiscoverResult(value: JsonValue): Parsed<DiscoverResult> {
  const resultType = resultTypeOf(value);
  if (resultType !== 'complete') return { ok: false, problem: `resultType is ${JSON.stringify(resultType)}` };
  const parsed = discoverResult.safeParse(value);
  if (!parsed.success) return { ok: false, problem: problemOf(parsed.error) };
  return {
    ok: true,
    value: {
      supportedVersions: parsed.data.supportedVersions,
      capabilities: parsed.data.capabilities,
      instructions: parsed.data.instructions,
      serverInfo: serverInfoFromMeta(value),
    },
  };
}

/** Reads an `InitializeResult`; which `protocolVersion` is acceptable is not decided here (`evidence.ts`). */
export function parseInitializeResult(value: JsonValue): Parsed<InitializeResult> {
  const parsed = initializeResult.safeParse(value);
  if (!parsed.success) return { ok: false, problem: problemOf(parsed.error) };
  const { protocolVersion, capabilities, instructions } = parsed.data;
  const { name, version } = parsed.data.serverInfo;
  return { ok: true, value: { protocolVersion, capabilities, serverInfo: { name, version }, instructions } };
}

/** The `resultType` of a result; an absent one reads as `complete` in both eras (N19). */
export function resultTypeOf(value: JsonValue): JsonValue {
  return isJsonObject(value) && value['resultType'] !== undefined ? value['resultType'] : 'complete';
}

/** Whether a result came without `resultType`: read as complete, and a fault of a modern peer (N19). */
export function resultTypeIsAbsent(outcome: Outcome): boolean {
  return (
    outcome.kind === 'result' && isJsonObject(outcome.result) && outcome.result['resultType'] === undefined
  );
}

/** The self-reported identity in a modern result's `_meta`, if it is well-formed. */
export function serverInfoFromMeta(result: JsonValue): ServerInfo | undefined {
  if (!isJsonObject(result) || !isJsonObject(result['_meta'])) return undefined;
  const parsed = serverInfo.safeParse(result['_meta'][SERVER_INFO_META_KEY]);
  return parsed.success ? { name: parsed.data.name, version: parsed.data.version } : undefined;
}

/** One page of `tools/list`, its items unread. */
export interface ToolsPage {
  readonly items: readonly JsonValue[];
  /** Opaque; may be the empty string. */
  readonly nextCursor: string | undefined;
  /** Milliseconds, clamped to 0 … 24 h; 0 where absent or unusable. */
  readonly ttlMs: number;
  readonly cacheScope: 'public' | 'private';
}

/** Longest freshness that is believed: 24 h. */
export const MAX_TTL_MS = 24 * 60 * 60 * 1000;

export function parseToolsPage(value: JsonValue): Parsed<ToolsPage> {
  const resultType = resultTypeOf(value);
  if (resultType !== 'complete') return { ok: false, problem: `resultType is ${JSON.stringify(resultType)}` };
  if (!isJsonObject(value)) return { ok: false, problem: 'the result is no object' };
  const { tools, nextCursor, ttlMs, cacheScope } = value;
  if (!Array.isArray(tools)) return { ok: false, problem: 'the result has no array "tools"' };
  if (nextCursor !== undefined && nextCursor !== null && typeof nextCursor !== 'string') {
    return { ok: false, problem: '"nextCursor" is no string' };
  }
  return {
    ok: true,
    value: {
      items: tools as readonly JsonValue[],
      nextCursor: nextCursor ?? undefined,
      ttlMs: typeof ttlMs === 'number' && ttlMs > 0 ? Math.min(ttlMs, MAX_TTL_MS) : 0,
      cacheScope: cacheScope === 'public' ? 'public' : 'private',
    },
  };
}

const nullToAbsent = <T>(schema: z.ZodType<T>) =>
  z.preprocess((value) => (value === null ? undefined : value), schema.optional());

const toolItem = z.looseObject({
  name: z.string().min(1),
  title: nullToAbsent(z.string()),
  description: nullToAbsent(z.string()),
  inputSchema: z.looseObject({ type: z.literal('object') }),
  outputSchema: nullToAbsent(jsonObject),
  annotations: nullToAbsent(jsonObject),
});

/** Reads one item of a listing. A malformed one is told apart, so that it does not spoil the others. */
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

function problemOf(error: z.ZodError): string {
  return error.issues
    .slice(0, 3)
    .map((issue) =>
      issue.path.length > 0 ? `${issue.path.map(String).join('.')}: ${issue.message}` : issue.message,
    )
    .join('; ');
}
