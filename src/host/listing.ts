/** The lists of a peer: tools as the registry takes them, and how the items of the others are read. */
import type {
  PromptDefinition,
  ResourceDefinition,
  ResourceTemplateDefinition,
} from '../protocol/definitions.js';
import type { Outcome } from '../protocol/exchange.js';
import type { JsonValue } from '../protocol/jsonRpc.js';
import { parsePrompt, parseResource, parseResourceTemplate, parseTool } from '../protocol/listResults.js';
import type { Parsed } from '../protocol/results.js';
import { catalogDigest } from '../registry/digest.js';
import type { PeerCatalog } from '../registry/lease.js';
import { type Walk, type WalkOptions, walkList } from './listWalk.js';

export interface ListingOptions
  extends Pick<WalkOptions<unknown>, 'request' | 'clock' | 'timeoutMs' | 'redact'> {
  readonly peer: string;
}

/** A complete walk without its items. */
type WalkFacts = Omit<Extract<Walk<unknown>, { ok: true }>, 'items' | 'malformed'>;

export type Listing =
  | ({ readonly catalog: PeerCatalog } & WalkFacts)
  /** `outcome`: of the request that failed, where one did. */
  | { readonly ok: false; readonly message: string; readonly outcome?: Outcome };

/** The definition of an item of each list that the registry does not merge. */
export interface Definitions {
  readonly prompts: PromptDefinition;
  readonly resources: ResourceDefinition;
  readonly resourceTemplates: ResourceTemplateDefinition;
}

/** Reads an item of each list that the registry does not merge. */
export const PARSERS: {
  readonly [Kind in keyof Definitions]: (item: JsonValue) => Parsed<Definitions[Kind]>;
} = { prompts: parsePrompt, resources: parseResource, resourceTemplates: parseResourceTemplate };

/** The catalog of a peer that declares no tools. */
export function emptyCatalog(peer: string): PeerCatalog {
  return { peer, tools: [], quarantined: [], digest: catalogDigest([]) };
}

/** Walks `tools/list`. What is malformed is put aside; what is hostile or a duplicate, the registry finds. */
export async function listTools(options: ListingOptions): Promise<Listing> {
  const { peer, ...walking } = options;
  const walk = await walkList({ kind: 'tools', ...walking, parse: parseTool });
  if (!walk.ok) return walk;
  const { items: tools, malformed, ...facts } = walk;
  const quarantined = malformed.map((item) => ({ peer, code: 'malformed-item', ...item }) as const);
  return { ...facts, catalog: { peer, tools, quarantined, digest: catalogDigest(tools) } };
}
