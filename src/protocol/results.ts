/**
 * The results that a negotiation brings, read by zod schemas that are lenient only where the specification says so.
 * What a listing brings is read by `listResults.ts`, the answer of a call by `answers.ts` and `calls/normalize.ts`.
 */
import { z } from 'zod';
import type { Outcome } from './exchange.js';
import type { JsonObject, JsonValue } from './jsonRpc.js';
import { isJsonObject } from './jsonRpc.js';
import { sanitizeText } from './sanitize.js';

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

const LONGEST_QUOTE = 80;

/** What came of reading: the value, or what is wrong with it in one sentence. */
export type Parsed<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly problem: string };

/**
 * Reads a `DiscoverResult`. A bad or absent cache hint does not spoil it, a missing `resultType` neither (N19); an
 * unknown `resultType`, a missing member or an empty `supportedVersions` does.
 */
export function parseDiscoverResult(value: JsonValue): Parsed<DiscoverResult> {
  const incomplete = problemOfResultType(value);
  if (incomplete !== null) return { ok: false, problem: incomplete };
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

/** What is wrong with the `resultType` of a result that must be complete, or null. Total, whatever stands there. */
export function problemOfResultType(value: JsonValue): string | null {
  const resultType = resultTypeOf(value);
  if (resultType === 'complete') return null;
  if (typeof resultType !== 'string') return 'resultType is no string';
  return `resultType is "${sanitizeText(resultType, LONGEST_QUOTE)}"`;
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

/** What a schema found wrong, in one sentence; its first three findings. */
export function problemOf(error: z.ZodError): string {
  return error.issues
    .slice(0, 3)
    .map((issue) =>
      issue.path.length > 0 ? `${issue.path.map(String).join('.')}: ${issue.message}` : issue.message,
    )
    .join('; ');
}
