/** What a host may show to a model: an immutable view of the merged registry. Calls are bound to it. */
import type { JsonObject } from '../protocol/jsonRpc.js';
import type { ToolDefinition } from '../protocol/listResults.js';

/** How two peers with a tool of the same name are told apart. Never by overwriting. */
export type CollisionPolicy =
  /** The first peer (by name, code-unit order) keeps the bare name, later ones are `<peer>/<tool>`. Default. */
  | 'prefix'
  /** Every tool is `<peer>/<tool>`. */
  | 'prefix-always'
  /** The duplicate is not loaded; at start that is an error which names both peers and the tool. */
  | 'reject';

/** Canonical name → peer, local name, definition digest. */
export interface Route {
  /** Canonical name: what the host and the model use. */
  readonly name: string;
  readonly peer: string;
  /** Local name: what the server declared, sent on the wire as it is. */
  readonly local: string;
  /** `sha256:<hex>` over the canonical JSON of name, title, description, schemas and annotations. */
  readonly digest: string;
}

export interface CatalogEntry extends Route {
  readonly title: string | undefined;
  readonly description: string | undefined;
  readonly inputSchema: JsonObject;
  readonly outputSchema: JsonObject | undefined;
  readonly annotations: JsonObject | undefined;
  /** `stale`: the peer is reconnecting, or its last refetch failed. */
  readonly freshness: 'fresh' | 'stale';
}

/** Two peers declare one name. */
export interface Conflict {
  /** The contested local name. */
  readonly tool: string;
  /** The peer that has the name. */
  readonly owner: string;
  /** The peer that came second. */
  readonly peer: string;
  /** What the second one is called, or `null` where it is not loaded (`reject`). */
  readonly exposedAs: string | null;
}

/** A tool that is listed by its peer and not exposed. */
export interface Quarantined {
  readonly peer: string;
  /** The name as declared, escaped for display, at most 200 characters; `null` where there is none. */
  readonly local: string | null;
  readonly code:
    | 'malformed-item'
    | 'hostile-name'
    | 'duplicate-name'
    | 'invalid-header-annotation'
    | 'rejected-collision'
    | 'drift';
  readonly reason: string;
}

export interface Lease {
  /** Grows by one whenever anything in the lease changes. */
  readonly revision: number;
  /** By canonical name, in code-unit order. */
  readonly entries: ReadonlyMap<string, CatalogEntry>;
  readonly conflicts: readonly Conflict[];
  readonly quarantined: readonly Quarantined[];
  /** Peers that have not settled yet: the lease may grow. */
  readonly pending: readonly string[];
}

/** What one peer lists, as the catalog fetch left it. Immutable. */
export interface PeerCatalog {
  readonly peer: string;
  readonly tools: readonly ToolDefinition[];
  readonly quarantined: readonly Quarantined[];
  /** `sha256:<hex>` over the digests of its tools, in order: equal lists have equal digests. */
  readonly digest: string;
}
