/** What servers list and answer besides tools, as this client hands it on. */
import type { JsonObject } from './jsonRpc.js';

export interface PromptArgument {
  readonly name: string;
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly required: boolean;
}

export interface PromptDefinition {
  readonly name: string;
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly arguments: readonly PromptArgument[];
  /** The item as the server sent it. */
  readonly declared: JsonObject;
}

export interface ResourceDefinition {
  readonly uri: string;
  readonly name: string;
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly mimeType: string | undefined;
  readonly sizeBytes: number | undefined;
  readonly declared: JsonObject;
}

export interface ResourceTemplateDefinition {
  /** RFC 6570. */
  readonly uriTemplate: string;
  readonly name: string;
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly mimeType: string | undefined;
  readonly declared: JsonObject;
}

/** `prompts/get` */
export interface PromptResult {
  readonly description: string | undefined;
  /** Each with a `role` and a `content` block; kept as they came. */
  readonly messages: readonly JsonObject[];
  readonly meta: JsonObject | undefined;
}

/** `resources/read` */
export interface ResourceResult {
  /** Each with a `uri` and `text` or `blob` (base64); kept as they came. */
  readonly contents: readonly JsonObject[];
  readonly meta: JsonObject | undefined;
}

/** `completion/complete` */
export interface CompletionResult {
  readonly values: readonly string[];
  readonly total: number | undefined;
  readonly hasMore: boolean;
}

/** What is to be completed (specification: server/utilities/completion). */
export interface CompletionRequest {
  readonly ref:
    | { readonly type: 'ref/prompt'; readonly name: string }
    | { readonly type: 'ref/resource'; readonly uri: string };
  readonly argument: { readonly name: string; readonly value: string };
  /** Arguments that are decided already. */
  readonly context?: { readonly arguments: Readonly<Record<string, string>> };
}

/** How long a result may be believed, and by whom (2026-07-28, basic: caching). */
export interface CacheHint {
  /** Milliseconds, 0 … 24 h; 0 where absent, negative or unusable. */
  readonly ttlMs: number;
  /** `private` where absent or unusable. */
  readonly cacheScope: 'public' | 'private';
}
