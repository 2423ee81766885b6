/**
 * How a message of one era is written. A dialect makes bytes and knows nothing of transports, answers or time.
 *
 * `members` is always the serialized members of `params` without braces and without `_meta`, as
 * {@link membersOf} makes them: arguments are serialized once, and validation, approval and the wire use those bytes.
 */
import type { JsonObject } from './jsonRpc.js';
import type { Era } from './revisions.js';

/** What this client says of itself. */
export interface ClientInfo {
  readonly name: string;
  readonly version: string;
  readonly title?: string;
}

export interface Dialect {
  readonly era: Era;
  readonly revision: string;
  /**
   * Serialized bytes of a request.
   *
   * @param members e.g. `"name":"x","arguments":{}`; '' for none
   * @param meta extra `_meta`; it goes under the protocol's own keys, never over them (N15)
   */
  request(id: number, method: string, members: string, meta?: JsonObject): string;
  notification(method: string, members: string, meta?: JsonObject): string;
  /** The answer to a server's request. Throws in modern: those are never answered (N18). */
  response(id: string | number, result: JsonObject): string;
  /** The refusal of a server's request. Throws in modern (N18). */
  errorResponse(id: string | number, code: number, message: string): string;
  /**
   * The HTTP headers that this dialect derives from the body, names in lower case. Whether a transport has headers at
   * all is the caller's business.
   *
   * @param nameOrUri `params.name`, or `params.uri` of `resources/read`
   */
  headers(method: string, nameOrUri: string | undefined): Readonly<Record<string, string>>;
  /** `notifications/cancelled` for one of this client's own requests. */
  cancel(id: number, reason: string): string;
}

/** The protocol's own keys of a modern request's `_meta`. No caller sets them, and no legacy message has them. */
export const META_PROTOCOL_VERSION = 'io.modelcontextprotocol/protocolVersion';
export const META_CLIENT_INFO = 'io.modelcontextprotocol/clientInfo';
export const META_CLIENT_CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';

/**
 * The serialized members of `params`, without braces and without `_meta`; '' if there are none. Safe for any key.
 */
export function membersOf(params: JsonObject): string {
  return members(params, isMetaKey);
}

/** The serialized members of a caller's `_meta` that may be sent at all; '' if there are none. */
export function callerMeta(meta: JsonObject | undefined): string {
  return meta === undefined ? '' : members(meta, isNotForCallers);
}

/** `a,b`, or the one that is not empty. */
export function joinMembers(first: string, second: string): string {
  if (first === '') return second;
  return second === '' ? first : `${first},${second}`;
}

/** A notification is written alike in both eras: only requests carry the modern stamp (2026-07-28, basic). */
export function writeNotification(
  method: string,
  paramMembers: string,
  meta: JsonObject | undefined,
): string {
  const extra = callerMeta(meta);
  const params = joinMembers(paramMembers, extra === '' ? '' : `"_meta":{${extra}}`);
  const head = `{"jsonrpc":"2.0","method":${JSON.stringify(method)}`;
  return params === '' ? `${head}}` : `${head},"params":{${params}}}`;
}

/** Both eras cancel by the same notification. */
export function writeCancel(id: number, reason: string): string {
  return writeNotification(
    'notifications/cancelled',
    `"requestId":${id},"reason":${JSON.stringify(reason)}`,
    undefined,
  );
}

function members(object: JsonObject, isLeftOut: (key: string) => boolean): string {
  let text = '';
  for (const key of Object.keys(object)) {
    if (isLeftOut(key)) continue;
    // Untyped callers pass `undefined`, which JSON has no word for.
    const value = JSON.stringify(object[key]) as string | undefined;
    if (value === undefined) continue;
    text += text === '' ? `${JSON.stringify(key)}:${value}` : `,${JSON.stringify(key)}:${value}`;
  }
  return text;
}

function isMetaKey(key: string): boolean {
  return key === '_meta';
}

/** `__proto__` is no valid `_meta` key in any revision, and it is a trap for the server that merges objects. */
function isNotForCallers(key: string): boolean {
  return (
    key === META_PROTOCOL_VERSION ||
    key === META_CLIENT_INFO ||
    key === META_CLIENT_CAPABILITIES ||
    key === '__proto__'
  );
}
