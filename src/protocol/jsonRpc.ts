/**
 * JSON-RPC 2.0 envelopes: what one decoded message is. No message is trusted before it went through
 * {@link parseMessage}.
 */

export type JsonValue =
  | null
  | boolean
  | number
  | string
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };
export type JsonObject = { readonly [key: string]: JsonValue };

/** Ids of this client: positive safe integers (N16). */
export type RequestId = number;

/** An id as a peer wrote it; `undefined` where the member is absent. */
export type WireId = string | number | null | undefined;

export interface JsonRpcError {
  readonly code: number;
  readonly message: string;
  readonly data?: JsonValue;
}

/** One message as it came from a peer. */
export type Incoming =
  | { readonly kind: 'result'; readonly id: string | number; readonly result: JsonValue }
  | { readonly kind: 'error'; readonly id: WireId; readonly error: JsonRpcError }
  | {
      readonly kind: 'request';
      readonly id: string | number;
      readonly method: string;
      readonly params: JsonObject | undefined;
    }
  | { readonly kind: 'notification'; readonly method: string; readonly params: JsonObject | undefined }
  | { readonly kind: 'malformed'; readonly id: WireId; readonly what: string };

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** A source of request ids that are unique for the life of a host and never reused (N16). */
export interface IdSource {
  next(): RequestId;
}

/**
 * @param start first id, an integer from 1 on. Not 0: a server that answers every request with a constant 0 or
 *   with `null` is noticed at the first exchange.
 */
export function createIdSource(start = 1): IdSource {
  let last = start - 1;
  return {
    next() {
      last += 1;
      return last;
    },
  };
}

/** Sorts one decoded JSON value into the message it is. Total: never throws, whatever the value. */
export function parseMessage(value: unknown): Incoming {
  if (Array.isArray(value)) {
    return { kind: 'malformed', id: undefined, what: 'a JSON-RPC batch array' };
  }
  if (!isJsonObject(value)) {
    return { kind: 'malformed', id: undefined, what: `a JSON ${value === null ? 'null' : typeof value}` };
  }
  const id = wireId(value['id']);
  const malformed = (what: string): Incoming => ({ kind: 'malformed', id, what });
  if (value['jsonrpc'] !== '2.0') return malformed('a message without "jsonrpc": "2.0"');
  const method = value['method'];
  if (method !== undefined) return parseCall(value, method, malformed);
  if (value['error'] !== undefined) return parseError(value['error'], id, malformed);
  if (value['result'] === undefined) return malformed('a message with neither method, result nor error');
  if (typeof id !== 'string' && typeof id !== 'number') return malformed('a result without an id');
  return { kind: 'result', id, result: value['result'] };
}

function parseCall(value: JsonObject, method: JsonValue, malformed: (what: string) => Incoming): Incoming {
  if (typeof method !== 'string') return malformed('a message whose method is not a string');
  const rawParams = value['params'];
  if (rawParams !== undefined && !isJsonObject(rawParams))
    return malformed('a message whose params are no object');
  const params = rawParams;
  const id = value['id'];
  if (id === undefined) return { kind: 'notification', method, params };
  if (typeof id !== 'string' && !isIntegerId(id))
    return malformed('a request whose id is neither string nor integer');
  return { kind: 'request', id, method, params };
}

function parseError(error: JsonValue, id: WireId, malformed: (what: string) => Incoming): Incoming {
  if (!isJsonObject(error)) return malformed('an error that is no object');
  const { code, message, data } = error;
  if (typeof code !== 'number' || !Number.isInteger(code))
    return malformed('an error whose code is no integer');
  if (typeof message !== 'string') return malformed('an error whose message is no string');
  return { kind: 'error', id, error: data === undefined ? { code, message } : { code, message, data } };
}

function isIntegerId(id: JsonValue): id is number {
  return typeof id === 'number' && Number.isInteger(id);
}

/** An id that is no string, number or null is treated as absent: nothing can be correlated with it. */
function wireId(id: JsonValue | undefined): WireId {
  return id === null || typeof id === 'string' || typeof id === 'number' ? id : undefined;
}
