/**
 * Reads a result with `resultType: "input_required"`, which `tools/call`, `prompts/get` and `resources/read` may have
 * (2026-07-28, basic/patterns: multi round-trip requests).
 */
import type { JsonObject } from '../protocol/jsonRpc.js';
import { isJsonObject } from '../protocol/jsonRpc.js';
import { nameOf, quoted } from './wording.js';

/** One thing a server asks for. */
export interface InputRequest {
  readonly method: string;
  readonly params: JsonObject | undefined;
}

/** What a server wants before it completes a request. At least one of both is there. */
export interface InputRequired {
  readonly kind: 'input-required';
  /** Key → request; keys are own members whatever their name. `undefined` where the server asks for nothing. */
  readonly inputRequests: { readonly [key: string]: InputRequest } | undefined;
  /** Opaque; goes back as it is. */
  readonly requestState: string | undefined;
}

export interface InvalidInputRequired {
  readonly kind: 'invalid';
  /** One sanitized sentence. */
  readonly problem: string;
}

/** Most requests in one round. Nobody fills in more forms at once; a server that asks for more is broken or hostile. */
export const MAX_INPUT_REQUESTS = 100;

const INPUT_METHODS: ReadonlySet<string> = new Set([
  'elicitation/create',
  'sampling/createMessage',
  'roots/list',
]);

/** Total: never throws. The caller has seen that `resultType` is `input_required`. */
export function readInputRequired(result: JsonObject): InputRequired | InvalidInputRequired {
  const requests = result['inputRequests'] ?? undefined;
  const requestState = result['requestState'] ?? undefined;
  if (requestState !== undefined && typeof requestState !== 'string') {
    return invalid(`"requestState" is ${nameOf(requestState)}, not a string`);
  }
  if (requests === undefined) {
    if (requestState !== undefined) return { kind: 'input-required', inputRequests: undefined, requestState };
    return invalid('the result asks for input and has neither "inputRequests" nor "requestState"');
  }
  if (!isJsonObject(requests)) return invalid(`"inputRequests" is ${nameOf(requests)}, not an object`);
  const keys = Object.keys(requests);
  if (keys.length > MAX_INPUT_REQUESTS) {
    return invalid(
      `"inputRequests" has ${keys.length} requests; at most ${MAX_INPUT_REQUESTS} are answered at once`,
    );
  }
  const entries: [string, InputRequest][] = [];
  for (const key of keys) {
    const request = requests[key];
    const where = `inputRequests[${quoted(key)}]`;
    if (!isJsonObject(request)) return invalid(`${where} is ${nameOf(request)}, not an object`);
    const { method, params } = request;
    if (typeof method !== 'string') return invalid(`${where} has no string "method"`);
    if (!INPUT_METHODS.has(method))
      return invalid(`${where} asks for ${quoted(method)}, which is no input request`);
    if (params !== undefined && !isJsonObject(params)) return invalid(`"params" of ${where} is no object`);
    entries.push([key, { method, params }]);
  }
  // `fromEntries` defines own members, so a key `__proto__` stays a key.
  return { kind: 'input-required', inputRequests: Object.fromEntries(entries), requestState };
}

function invalid(problem: string): InvalidInputRequired {
  return { kind: 'invalid', problem };
}
