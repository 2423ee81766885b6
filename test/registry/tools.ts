/** Building blocks of the registry's tests. */

import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import type { ToolDefinition } from '../../src/protocol/listResults.js';
import { catalogDigest } from '../../src/registry/digest.js';
import type { PeerCatalog, Quarantined } from '../../src/registry/lease.js';

export function tool(name: string, over: Partial<ToolDefinition> = {}): ToolDefinition {
  const inputSchema: JsonObject = { type: 'object' };
  return {
    name,
    title: undefined,
    description: undefined,
    inputSchema,
    outputSchema: undefined,
    annotations: undefined,
    declared: { name, inputSchema },
    ...over,
  };
}

/** A list of tools, given as definitions or by name. */
export function catalog(
  peer: string,
  tools: readonly (string | ToolDefinition)[],
  quarantined: readonly Quarantined[] = [],
): PeerCatalog {
  const definitions = tools.map((item) => (typeof item === 'string' ? tool(item) : item));
  return { peer, tools: definitions, quarantined, digest: catalogDigest(definitions) };
}
