/**
 * What one input request asks of which handler, decided before any handler runs: a request for something undeclared
 * must not bother a person first.
 */
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import { isJsonObject } from '../protocol/jsonRpc.js';
import type { InputContext, InputHandlers } from './inputHandlers.js';
import type { InputRequest } from './inputRequired.js';
import { type ReadResult, readElicitResult, readRoots, readSampleResult } from './inputResults.js';
import { nameOf, quoted } from './wording.js';

/** A request that is declared and well-formed. */
export interface InputPlan {
  readonly ok: true;
  readonly method: string;
  /** Calls the handler; throws what it throws. */
  run(context: InputContext): unknown;
  /** Checks what the handler gave, as JSON. */
  read(given: JsonValue): ReadResult;
}

export interface InputRefusal {
  readonly ok: false;
  readonly reason: 'undeclared' | 'invalid-request';
  /** One sanitized sentence. */
  readonly message: string;
}

/** Whether anything of this method is declared to servers. */
export function isDeclared(handlers: InputHandlers, method: string): boolean {
  switch (method) {
    case 'elicitation/create':
      return handlers.elicitForm !== undefined || handlers.elicitUrl !== undefined;
    case 'sampling/createMessage':
      return handlers.sample !== undefined;
    case 'roots/list':
      return handlers.listRoots !== undefined;
    default:
      return false;
  }
}

/** Total: never throws. */
export function planInput(handlers: InputHandlers, request: InputRequest): InputPlan | InputRefusal {
  const { method } = request;
  if (!isDeclared(handlers, method)) return undeclared(quoted(method));
  const params = request.params ?? {};
  if (method === 'elicitation/create') return planElicitation(handlers, params);
  return method === 'roots/list' ? planRoots(handlers) : planSampling(handlers, params);
}

function planElicitation(handlers: InputHandlers, params: JsonObject): InputPlan | InputRefusal {
  // "Clients MUST treat requests without a mode field as form mode" (client/elicitation).
  const mode = params['mode'] ?? 'form';
  if (typeof mode !== 'string') return invalid(`"mode" of an elicitation is ${nameOf(mode)}, not a string`);
  const isForm = mode === 'form' && handlers.elicitForm !== undefined;
  const isUrl = mode === 'url' && handlers.elicitUrl !== undefined;
  if (!isForm && !isUrl) return undeclared(`"elicitation/create" with mode ${quoted(mode)}`);
  const { message } = params;
  if (typeof message !== 'string') {
    return invalid(`"message" of an elicitation is ${nameOf(message)}, not a string`);
  }
  return isForm ? planForm(handlers, message, params) : planUrl(handlers, message, params);
}

function planForm(handlers: InputHandlers, message: string, params: JsonObject): InputPlan | InputRefusal {
  const { requestedSchema } = params;
  if (!isJsonObject(requestedSchema)) {
    return invalid(`"requestedSchema" of an elicitation is ${nameOf(requestedSchema)}, not an object`);
  }
  const { type, properties } = requestedSchema;
  if (type !== 'object' || !isJsonObject(properties) || !Object.values(properties).every(isJsonObject)) {
    return invalid('"requestedSchema" of an elicitation does not describe an object with properties');
  }
  const schema = { ...requestedSchema, properties };
  return plan(
    'elicitation/create',
    (context) => handlers.elicitForm?.({ message, requestedSchema: schema, params }, context),
    (given) => readElicitResult(given, 'form'),
  );
}

function planUrl(handlers: InputHandlers, message: string, params: JsonObject): InputPlan | InputRefusal {
  const url = parseUrl(params['url']);
  if (url === null) return invalid('"url" of an elicitation is no URL');
  // What else a browser or a desktop would open (file:, javascript:, an app's own scheme) is no page to visit.
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    return invalid(`"url" of an elicitation has the scheme ${quoted(url.protocol)}, not https: or http:`);
  }
  return plan(
    'elicitation/create',
    // As a browser would read it: no white space or control character that shows another address.
    (context) => handlers.elicitUrl?.({ message, url: url.href, params }, context),
    (given) => readElicitResult(given, 'url'),
  );
}

const CONTEXTS: readonly unknown[] = ['none', 'thisServer', 'allServers'];

function planSampling(handlers: InputHandlers, params: JsonObject): InputPlan | InputRefusal {
  const { messages, maxTokens } = params;
  if (!Array.isArray(messages)) {
    return invalid(`"messages" of a sampling request is ${nameOf(messages)}, not an array`);
  }
  if (!messages.every(isSamplingMessage)) {
    return invalid('a message of a sampling request has no "role" of "user" or "assistant", or no "content"');
  }
  if (!Number.isInteger(maxTokens)) return invalid('"maxTokens" of a sampling request is no integer');
  // "The client MUST return an error if this field is provided but sampling.tools is not declared" (schema).
  const hasTools = isGiven(params['tools']) || isGiven(params['toolChoice']);
  if (hasTools && handlers.sampling?.tools !== true) return undeclared('"sampling/createMessage" with tools');
  const { includeContext, ...others } = params;
  const takesContext = handlers.sampling?.context === true;
  if (takesContext && isGiven(includeContext) && !CONTEXTS.includes(includeContext)) {
    return invalid('"includeContext" of a sampling request is none of "none", "thisServer", "allServers"');
  }
  // "The client MAY ignore this request": a handler that does not know of contexts is not asked for one.
  const asked = takesContext ? params : others;
  return plan('sampling/createMessage', (context) => handlers.sample?.(asked, context), readSampleResult);
}

function planRoots(handlers: InputHandlers): InputPlan {
  return plan('roots/list', (context) => handlers.listRoots?.(context), readRoots);
}

function isSamplingMessage(message: unknown): boolean {
  if (!isJsonObject(message)) return false;
  const { role, content } = message;
  return (role === 'user' || role === 'assistant') && (isJsonObject(content) || Array.isArray(content));
}

/** Serializers write absent members as null. */
function isGiven(value: JsonValue | undefined): boolean {
  return value !== undefined && value !== null;
}

function parseUrl(text: JsonValue | undefined): URL | null {
  if (typeof text !== 'string') return null;
  try {
    return new URL(text);
  } catch {
    return null;
  }
}

function plan(method: string, run: InputPlan['run'], read: InputPlan['read']): InputPlan {
  return { ok: true, method, run, read };
}

/** @param what already sanitized */
function undeclared(what: string): InputRefusal {
  return {
    ok: false,
    reason: 'undeclared',
    message: `The server asked for ${what}, which this host did not offer.`,
  };
}

/** @param problem already sanitized */
function invalid(problem: string): InputRefusal {
  return {
    ok: false,
    reason: 'invalid-request',
    message: `The server asked for input in a wrong way: ${problem}.`,
  };
}
