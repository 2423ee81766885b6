/**
 * What a host lets servers ask for. Only what has a handler is declared, and only what is declared is answered
 * (2026-07-28, basic: multi round-trip requests; legacy: client features).
 */
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import type { Era } from '../protocol/revisions.js';

/** Who asks, and what for. */
export interface InputContext {
  readonly peer: string;
  readonly era: Era;
  /** The request that waits for the input; null where a legacy server asks by itself. */
  readonly request: { readonly method: string; readonly target: string } | null;
  /**
   * Aborted when nobody waits for the answer any more: the call was cancelled or its deadline passed, another handler of
   * the round failed, the host stops, the peer was removed or given up. A lost connection alone ends only what a legacy
   * server asked: a round goes on with the next one.
   */
  readonly signal: AbortSignal;
}

/** A form to be filled in (`elicitation/create`, mode `form`). */
export interface FormElicitation {
  /** Text of the server, unsanitized: show it as data. */
  readonly message: string;
  /** A flat JSON Schema of the form, as the server sent it; that it has `properties` was checked. */
  readonly requestedSchema: JsonObject & { readonly properties: JsonObject };
  /** All parameters, as they came. */
  readonly params: JsonObject;
}

/** A page the user is asked to visit (`elicitation/create`, mode `url`). Never fetched by this package. */
export interface UrlElicitation {
  readonly message: string;
  readonly url: string;
  readonly params: JsonObject;
}

export interface ElicitResult {
  /** `decline` is a person's no; where nobody could be asked, throw instead. */
  readonly action: 'accept' | 'decline' | 'cancel';
  /** Only with `accept`, and only for a form. */
  readonly content?: Readonly<Record<string, JsonValue>>;
}

/** One place the server may work in. */
export interface Root {
  /** A `file:` URI. */
  readonly uri: string;
  readonly name?: string;
}

/**
 * Each handler is declared to servers by being there. It runs outside the reader of messages, at the same time as others
 * of its round. What it throws ends the call (modern) or is answered with -32603 (legacy); its text is not sent.
 */
export interface InputHandlers {
  readonly elicitForm?: (
    request: FormElicitation,
    context: InputContext,
  ) => ElicitResult | Promise<ElicitResult>;
  readonly elicitUrl?: (
    request: UrlElicitation,
    context: InputContext,
  ) => ElicitResult | Promise<ElicitResult>;
  /** @returns a `CreateMessageResult`: at least `role`, `content` and `model` */
  readonly sample?: (params: JsonObject, context: InputContext) => JsonObject | Promise<JsonObject>;
  /** What `sample` can do besides: declared as `sampling.tools` and `sampling.context`. Default: neither. */
  readonly sampling?: { readonly tools?: boolean; readonly context?: boolean };
  readonly listRoots?: (context: InputContext) => readonly Root[] | Promise<readonly Root[]>;
}
