/** A peer's list made ready for merging: checked, sorted, fingerprinted. Done once a list, not once a merge. */
import { freezeThrough } from '../protocol/freeze.js';
import type { ToolDefinition } from '../protocol/listResults.js';
import { isDeeperThan, MAX_DEPTH, toolDigest } from './digest.js';
import type { PeerCatalog, Quarantined } from './lease.js';
import { compareNames, displayName, localNameProblem, mayBeBare } from './names.js';

/** A tool that may be exposed. */
export interface PreparedTool {
  readonly definition: ToolDefinition;
  readonly local: string;
  readonly digest: string;
  /** Whether the local name may stand without its peer's prefix. */
  readonly mayBeBare: boolean;
}

export interface PreparedCatalog {
  /** By local name, in code-unit order; no name twice. */
  readonly tools: readonly PreparedTool[];
  /** What the fetch put aside, then what is put aside here, in the order of the list. */
  readonly quarantined: readonly Quarantined[];
}

const prepared = new WeakMap<PeerCatalog, PreparedCatalog>();

/**
 * Puts aside what cannot be exposed, freezes the rest through and through and sorts it. Of two tools of one name the
 * first stays. The same catalog gives the same object.
 */
export function prepareCatalog(catalog: PeerCatalog): PreparedCatalog {
  const known = prepared.get(catalog);
  if (known !== undefined) return known;
  const tools = new Map<string, PreparedTool>();
  const quarantined: Quarantined[] = [...catalog.quarantined];
  for (const definition of catalog.tools) {
    const problem = problemOf(definition, tools);
    if (problem === null) tools.set(definition.name, prepareTool(definition));
    else
      quarantined.push(
        Object.freeze({ peer: catalog.peer, local: displayName(definition.name), ...problem }),
      );
  }
  const result: PreparedCatalog = Object.freeze({
    tools: Object.freeze([...tools.values()].sort((a, b) => compareNames(a.local, b.local))),
    quarantined: Object.freeze(quarantined),
  });
  prepared.set(catalog, result);
  return result;
}

function problemOf(
  tool: ToolDefinition,
  earlier: ReadonlyMap<string, PreparedTool>,
): Pick<Quarantined, 'code' | 'reason'> | null {
  const nameProblem = localNameProblem(tool.name);
  if (nameProblem !== null) return { code: 'hostile-name', reason: nameProblem };
  if (earlier.has(tool.name)) {
    return { code: 'duplicate-name', reason: 'the peer lists this name more than once; the first one stays' };
  }
  if ([tool.inputSchema, tool.outputSchema, tool.annotations].some((part) => isDeeperThan(part, MAX_DEPTH))) {
    return { code: 'malformed-item', reason: `the definition is nested deeper than ${MAX_DEPTH} levels` };
  }
  return null;
}

/** A holder of a lease must not be able to change what a digest vouches for. The depth has been checked. */
function prepareTool(definition: ToolDefinition): PreparedTool {
  freezeThrough(definition.inputSchema);
  freezeThrough(definition.outputSchema);
  freezeThrough(definition.annotations);
  return Object.freeze({
    definition,
    local: definition.name,
    digest: toolDigest(definition),
    mayBeBare: mayBeBare(definition.name),
  });
}
