/** Keys and values as they are in a store. */
import { hash } from 'node:crypto';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/jsonRpc.js';
import { MAX_TTL_MS } from '../protocol/listResults.js';

export type CacheScope = 'public' | 'private';

/** For whom something is kept. Both are hex digests that the host makes: nothing readable, no secret. */
export interface CachePartition {
  /** What the server is: transport kind, command, arguments and working directory, or URL. */
  readonly identity: string;
  /** On whose behalf it is asked: environment, headers, principal. */
  readonly context: string;
}

/**
 * What was asked. There is no place in it for `inputResponses` and `requestState`, on purpose: the answer to a retry
 * is never stored (basic/utilities/caching), so there is no key for one.
 */
export interface CacheableRequest {
  readonly method: string;
  /** The serialized members of `params` without `_meta`: `''` for a list as a whole, a page's cursor, a URI. */
  readonly params: string;
  /** The negotiated revision. */
  readonly revision: string;
  /** Name and version as the server reports them. Nobody vouches for them: they only divide further. */
  readonly server: string;
}

/** One stored response. */
export interface Entry {
  /** The key it was written under, so that a value that turns up under another one is noticed. */
  readonly key: string;
  readonly scope: CacheScope;
  /** The cache instance that wrote it, and its count of events when it began to fetch. */
  readonly writer: string;
  readonly order: number;
  /** Wall clock of the writer, epoch ms. */
  readonly begunAtMs: number;
  readonly receivedAtMs: number;
  readonly expiresAtMs: number;
  readonly value: JsonValue;
}

/** Part of each key as well as of each value: a version never sees the entries of another. */
const FORMAT = 1;

/**
 * SHA-256, hex, of a JSON array: no two lists of parts give the same text, whatever characters are in them. A private
 * entry's key holds the context; a public one's does not.
 */
export function entryKey(scope: CacheScope, partition: CachePartition, request: CacheableRequest): string {
  const owner = scope === 'private' ? [partition.identity, partition.context] : [partition.identity];
  const { method, params, revision, server } = request;
  const parts = ['peerage-response', FORMAT, scope, owner, method, params, revision, server];
  return hash('sha256', JSON.stringify(parts), 'hex');
}

/** Throws what `JSON.stringify` throws, for a value nested too deep. */
export function encodeEntry(entry: Entry): string {
  return JSON.stringify({ format: FORMAT, ...entry });
}

/**
 * Reads what a store returned for a key. `null` for anything that {@link encodeEntry} did not write for just this key
 * and scope. A store is outside: it may be shared, broken or tampered with. Total.
 */
export function decodeEntry(text: unknown, key: string, scope: CacheScope): Entry | null {
  const parsed = parse(text);
  if (parsed === null || parsed['format'] !== FORMAT) return null;
  if (parsed['key'] !== key || parsed['scope'] !== scope) return null;
  const { writer, order, begunAtMs, receivedAtMs, expiresAtMs, value } = parsed;
  if (typeof writer !== 'string' || typeof order !== 'number' || !Number.isSafeInteger(order)) return null;
  if (!isTime(begunAtMs) || !isTime(receivedAtMs) || !isTime(expiresAtMs)) return null;
  const ttlMs = expiresAtMs - receivedAtMs;
  if (!(ttlMs > 0 && ttlMs <= MAX_TTL_MS)) return null;
  if (value === undefined) return null;
  return { key, scope, writer, order, begunAtMs, receivedAtMs, expiresAtMs, value };
}

function parse(text: unknown): JsonObject | null {
  if (typeof text !== 'string') return null;
  try {
    const value: unknown = JSON.parse(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

function isTime(value: JsonValue | undefined): value is number {
  return typeof value === 'number' && Number.isFinite(value);
}
