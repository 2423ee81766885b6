/** The lists of a peer: tools as the registry takes them, and how the items of the others are read. */

import { headerScanOf } from '../calls/mirroring.js';
import type {
  PromptDefinition,
  ResourceDefinition,
  ResourceTemplateDefinition,
} from '../protocol/definitions.js';
import type { Outcome } from '../protocol/exchange.js';
import type { JsonValue } from '../protocol/jsonRpc.js';
import {
  parsePrompt,
  parseResource,
  parseResourceTemplate,
  parseTool,
  type ToolDefinition,
} from '../protocol/listResults.js';
import type { Parsed } from '../protocol/results.js';
import { catalogDigest } from '../registry/digest.js';
import type { PeerCatalog, Quarantined } from '../registry/lease.js';
import { displayName } from '../registry/names.js';
import { type Walk, type WalkOptions, walkList } from './listWalk.js';

export interface ListingOptions
  extends Pick<WalkOptions<unknown>, 'request' | 'clock' | 'timeoutMs' | 'redact'> {
  readonly peer: string;
  /**
   * Whether calls repeat arguments in headers (a modern peer over HTTP): then a tool whose `x-mcp-header` annotations
   * break the rules is put aside (2026-07-28, basic/transports). Default false.
   */
  readonly mirrorsArguments?: boolean;
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
  const { peer, mirrorsArguments = false, ...walking } = options;
  const walk = await walkList({ kind: 'tools', ...walking, parse: parseTool });
  if (!walk.ok) return walk;
  const { items, malformed, ...facts } = walk;
  const quarantined: Quarantined[] = malformed.map((item) => ({ peer, code: 'malformed-item', ...item }));
  const tools = mirrorsArguments ? items.filter((tool) => isCallable(peer, tool, quarantined)) : items;
  return { ...facts, catalog: { peer, tools, quarantined, digest: catalogDigest(tools) } };
}

function isCallable(peer: string, tool: ToolDefinition, quarantined: Quarantined[]): boolean {
  const scan = headerScanOf(tool.inputSchema);
  if (scan.ok) return true;
  quarantined.push({
    peer,
    local: displayName(tool.name),
    code: 'invalid-header-annotation',
    reason: `its inputSchema breaks the rules of x-mcp-header, so it cannot be called over HTTP until its server is corrected: ${scan.problem}`,
  });
  return false;
}
