/**
 * Where one peer's lists come from: a cache, as far as it may be believed, else the server, page by page. What is
 * learnt from the server is given to the cache.
 */
import type { CacheableRequest, CachePartition } from '../cache/entry.js';
import type { ResponseCache } from '../cache/responseCache.js';
import { METHOD_NOT_FOUND } from '../protocol/codes.js';
import type { Outcome } from '../protocol/exchange.js';
import { freezeThrough } from '../protocol/freeze.js';
import { isJsonObject, type JsonValue } from '../protocol/jsonRpc.js';
import { LISTS, type ListKind } from '../protocol/lists.js';
import { resultTypeIsAbsent } from '../protocol/results.js';
import { listDigest } from '../registry/digest.js';
import type { PeerCatalog } from '../registry/lease.js';
import type { Clock } from '../transports/clock.js';
import type { Connection } from '../transports/connection.js';
import { type Definitions, emptyCatalog, listTools, PARSERS } from './listing.js';
import { walkList } from './listWalk.js';

export interface ListSourceOptions {
  readonly peer: string;
  readonly clock: Clock;
  readonly listTimeoutMs: number;
  readonly cache: ResponseCache | null;
  readonly partition: () => CachePartition;
  readonly countFault: (kind: string) => void;
  /** Takes the peer's configured secrets out of a text. */
  readonly redact: (text: string) => string;
}

/** How a list is to be had. */
export interface Obtaining {
  readonly connection: Connection;
  /** The server's word about itself; it divides the cache further. */
  readonly serverName: string;
  /** Whether what another process fetched is believed. */
  readonly mayBeCached: boolean;
  /** False once nobody waits for it: the peer left service, and nothing more may be asked on its connection. */
  readonly isWanted: () => boolean;
}

export type Fetched =
  | {
      readonly ok: true;
      readonly items: readonly unknown[];
      readonly digest: string;
      readonly receivedAt: number;
      readonly freshUntil: number | null;
      readonly scope: 'public' | 'private';
      /** Of the tools. */
      readonly catalog?: PeerCatalog;
    }
  | { readonly ok: false; readonly message: string; readonly outcome?: Outcome };

const BROKEN_OFF: Outcome = { kind: 'withheld', written: false };

type Ask = (members: string, timeoutMs: number) => Promise<Outcome>;

export class ListSource {
  private readonly options: ListSourceOptions;
  /** What was forgotten since the last fetch of it began: a storm of announcements costs the store one removal. */
  private readonly forgotten = new Set<ListKind>();

  constructor(options: ListSourceOptions) {
    this.options = options;
  }

  async obtain(kind: ListKind, obtaining: Obtaining): Promise<Fetched> {
    const { cache } = this.options;
    const partition = this.options.partition();
    const { connection, mayBeCached } = obtaining;
    this.forgotten.delete(kind);
    const key = keyOf(kind, connection, obtaining.serverName);
    if (cache === null || key === null) return this.walk(kind, connection, this.asking(kind, obtaining));
    if (mayBeCached) {
      const found = await this.replay(kind, connection, cache, key);
      if (found !== null) return found;
    }
    const ticket = cache.begin(partition, key);
    const raw: JsonValue[] = [];
    const walked = await this.walk(kind, connection, this.asking(kind, obtaining, raw));
    // What other credentials were shown in between is not theirs for whom it was asked.
    if (walked.ok && obtaining.isWanted() && this.options.partition() === partition) {
      const ttlMs = Math.floor((walked.freshUntil ?? 0) - this.options.clock.now());
      if (ttlMs > 0) void cache.write(ticket, { value: raw, ttlMs, scope: walked.scope });
      // Nobody looked whether there is an older one: it must not outlive this answer.
      else if (!mayBeCached) void cache.invalidate(partition, key);
    }
    return walked;
  }

  /** The list of a peer that declares none. */
  nothing(kind: ListKind): Fetched {
    const catalog = emptyCatalog(this.options.peer);
    return {
      ok: true,
      items: [],
      digest: catalog.digest,
      receivedAt: this.options.clock.now(),
      freshUntil: null,
      scope: 'private',
      ...(kind === 'tools' ? { catalog } : undefined),
    };
  }

  /** The server said that the list changed. What is being fetched now is not kept either. */
  forget(kind: ListKind, connection: Connection | null, serverName: string): void {
    const { cache } = this.options;
    const partition = this.options.partition();
    const key = connection === null ? null : keyOf(kind, connection, serverName);
    if (cache === null || key === null || this.forgotten.has(kind)) return;
    this.forgotten.add(kind);
    void cache.invalidate(partition, key);
  }

  private async replay(
    kind: ListKind,
    connection: Connection,
    cache: ResponseCache,
    key: CacheableRequest,
  ): Promise<Extract<Fetched, { ok: true }> | null> {
    const found = await cache.read(this.options.partition(), key);
    if (found === null) return null;
    const replayed = await this.walk(kind, connection, () => Promise.resolve(asPage(kind, found.value)));
    if (!replayed.ok) {
      this.options.countFault('cache-value');
      return null;
    }
    const now = this.options.clock.now();
    return { ...replayed, receivedAt: now - found.ageMs, freshUntil: now + found.freshForMs };
  }

  private asking(kind: ListKind, { connection, isWanted }: Obtaining, raw?: JsonValue[]): Ask {
    const { method, member } = LISTS[kind];
    return async (members, timeoutMs) => {
      // Between two pages the peer may have left service (N17).
      if (!isWanted()) return BROKEN_OFF;
      const outcome = await connection.request(method, members, { timeoutMs, mayWrite: isWanted }).outcome;
      if (resultTypeIsAbsent(outcome) && connection.agreed?.era === 'modern')
        this.options.countFault('absent-result-type');
      if (raw !== undefined && outcome.kind === 'result' && isJsonObject(outcome.result)) {
        const items = outcome.result[member];
        if (Array.isArray(items)) for (const item of items as readonly JsonValue[]) raw.push(item);
      }
      return kind === 'resourceTemplates' && isUnknownMethod(outcome) ? asPage(kind, []) : outcome;
    };
  }

  private async walk(kind: ListKind, connection: Connection, request: Ask): Promise<Fetched> {
    const { peer, clock, listTimeoutMs: timeoutMs, countFault, redact } = this.options;
    if (kind === 'tools') {
      const mirrorsArguments = connection.perRequestStreams && connection.agreed?.era === 'modern';
      const listing = await listTools({ peer, clock, timeoutMs, request, redact, mirrorsArguments });
      if (!listing.ok) return listing;
      if (listing.mixedScope) countFault('mixed-cache-scope');
      const { catalog } = listing;
      return { ...listing, items: catalog.tools, digest: catalog.digest };
    }
    const parse = PARSERS[kind];
    const walk = await walkList<Definitions[typeof kind]>({ kind, clock, timeoutMs, request, redact, parse });
    if (!walk.ok) return walk;
    if (walk.mixedScope) countFault('mixed-cache-scope');
    for (const _ of walk.malformed) countFault('malformed-item');
    // Every caller gets the same; the registry does as much for the tools.
    return { ...walk, items: freezeThrough(walk.items), digest: listDigest(walk.items) };
  }
}

/** Only modern answers say how long they may be kept. */
function keyOf(kind: ListKind, { agreed }: Connection, serverName: string): CacheableRequest | null {
  if (agreed?.era !== 'modern') return null;
  return { method: LISTS[kind].method, params: '', revision: agreed.revision, server: serverName };
}

/**
 * No capability says whether a server has templates: one that offers resources and does not know the method has none.
 */
function isUnknownMethod(outcome: Outcome): boolean {
  return outcome.kind === 'error' && outcome.correlated && outcome.error.code === METHOD_NOT_FOUND;
}

function asPage(kind: ListKind, items: JsonValue): Outcome {
  return { kind: 'result', written: false, result: { [LISTS[kind].member]: items } };
}
