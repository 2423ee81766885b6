/**
 * The lists of one peer, outside XState: fetched for its catalogs, kept with their freshness, served stale where they
 * cannot be renewed. Nothing is fetched by itself: a list that has run out is fetched when somebody needs it.
 */
import type { CachePartition } from '../cache/entry.js';
import type { ResponseCache } from '../cache/responseCache.js';
import type { CatalogEvent } from '../machines/ports.js';
import type { Outcome } from '../protocol/exchange.js';
import { isJsonObject, type JsonObject } from '../protocol/jsonRpc.js';
import { LIST_KINDS, LISTS, type ListKind } from '../protocol/lists.js';
import type { PeerCatalog } from '../registry/lease.js';
import type { Clock } from '../transports/clock.js';
import type { Connection } from '../transports/connection.js';
import type { ExchangeScope } from './exchangeScope.js';
import { ListSource } from './listSource.js';
import type { CatalogRef, PeerChart } from './peerChart.js';
import type { CatalogStatus } from './status.js';

/** A server that announces a change with every listing is believed after so many. */
const MAX_TORN_WALKS = 3;
/** After a failed fetch the next use fetches again at the soonest after this long; doubles up to {@link LONGEST_PAUSE_MS}. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;

/** What the lists need of the peer's owner. */
export interface ListingPeer {
  readonly name: string;
  readonly connection: Connection | null;
  /** What the server declared. */
  readonly capabilities: JsonObject;
  readonly chart: PeerChart;
  /** The first connection of this peer: only then a list of another process is believed. */
  readonly generation: number;
  readonly isCallable: boolean;
  /** Why it is not callable at this moment, in one sentence. */
  notCallable(): string;
  countFault(kind: string): void;
  redact(text: string): string;
  noticed(connection: Connection, outcome: Outcome): void;
  /** The tools are there, or will not be: whoever waits for the peer need not wait any more. */
  toolsSettled(): void;
}

export interface PeerListsOptions {
  readonly clock: Clock;
  readonly listTimeoutMs: number;
  readonly cache: ResponseCache | null;
  readonly partition: () => CachePartition;
  readonly onListed: (catalog: PeerCatalog) => void;
  readonly onListingFailed: (message: string) => void;
  /** A list that somebody has seen is another one now. */
  readonly onChanged: (kind: ListKind) => void;
}

/** One list as it was last received. */
interface Held {
  items: readonly unknown[];
  digest: string | null;
  /** Clock time; null: never. */
  receivedAt: number | null;
  /** Clock time at which it runs out; null: when a change is announced, or the connection ends. */
  freshUntil: number | null;
  problem: string | null;
  /** Of another connection than the one in use, or its renewal failed. */
  isStale: boolean;
  /** Changes were announced while it was fetched, and every time before: it may never have been so. */
  isTorn: boolean;
  failures: number;
  /** Not fetched again by use before. */
  pausedUntil: number;
  tornWalks: number;
  /** The next fetch must ask the server, whatever the cache has. */
  mustAsk: boolean;
  /** A change was told, and nobody asked for the list since. */
  isTold: boolean;
}

export interface ListNow {
  readonly items: readonly unknown[];
  readonly freshness: 'fresh' | 'stale';
  readonly problem: string | null;
}

export class PeerLists {
  private readonly peer: ListingPeer;
  private readonly options: PeerListsOptions;
  private readonly held = new Map<ListKind, Held>();
  private readonly waiters = new Map<ListKind, Set<() => void>>();
  private readonly source: ListSource;
  /** The tools are being listed because somebody knows that they are other ones. */
  private relisting: Promise<string | null> | null = null;

  constructor(peer: ListingPeer, options: PeerListsOptions) {
    this.peer = peer;
    this.options = options;
    const { clock, listTimeoutMs, cache, partition } = options;
    const countFault = (kind: string): void => peer.countFault(kind);
    const redact = (text: string): string => peer.redact(text);
    this.source = new ListSource({
      peer: peer.name,
      clock,
      listTimeoutMs,
      cache,
      partition,
      countFault,
      redact,
    });
  }

  /** Tools listed, or null where no listing succeeded. */
  get toolCount(): number | null {
    const held = this.held.get('tools');
    return held === undefined || held.receivedAt === null ? null : held.items.length;
  }

  /** Why the last listing of the tools failed. */
  get toolsProblem(): string | null {
    return this.held.get('tools')?.problem ?? null;
  }

  /** When use of the tools fetches them anew; infinite where it does not. */
  get toolsDueAt(): number {
    const held = this.held.get('tools');
    if (held === undefined || !this.peer.isCallable) return Number.POSITIVE_INFINITY;
    if (held.problem !== null) return held.pausedUntil;
    return held.freshUntil ?? Number.POSITIVE_INFINITY;
  }

  declares(kind: ListKind): boolean {
    return isJsonObject(this.peer.capabilities[LISTS[kind].capability]);
  }

  /** Somebody needs the tools: they are fetched again, behind the scenes, where they have run out. */
  useTools(): void {
    const dueAt = this.toolsDueAt;
    if (dueAt === Number.POSITIVE_INFINITY || this.options.clock.now() < dueAt) return;
    const catalog = this.peer.chart.catalog('tools');
    const state = catalog?.getSnapshot().value;
    // What is being fetched needs no telling, and a change that was announced is fetched in its own time.
    if (state === 'fresh' || state === 'failed') catalog?.send({ type: 'catalog.used' });
  }

  /** What was kept of an earlier connection is not fresh any more, and no answer of a cache is believed. */
  connectionEnded(): void {
    for (const [kind, held] of this.held) {
      Object.assign(held, { isStale: true, isTorn: false, mustAsk: true, tornWalks: 0 });
      this.settled(kind);
    }
  }

  /** The peer is not to be had: nothing of it is shown any more. */
  gone(): void {
    for (const held of this.held.values()) Object.assign(held, { items: [], receivedAt: null });
  }

  /** The server says that lists changed. */
  changed(kinds: readonly ListKind[]): void {
    for (const kind of kinds) {
      this.source.forget(kind, this.peer.connection, this.peer.chart.serverName);
      const catalog = this.peer.chart.catalog(kind);
      this.holdOf(kind).mustAsk = true;
      if (catalog !== undefined) catalog.send({ type: 'catalog.changed' });
      else if (kind !== 'tools') this.tell(kind);
    }
  }

  /** Notifications may have been missed: everything that was fetched is fetched anew, now. */
  refetch(): void {
    for (const kind of LIST_KINDS) {
      const catalog = this.peer.chart.catalog(kind);
      this.holdOf(kind).mustAsk = true;
      // A walk that is under way began before the gap was over.
      const isWalking = catalog?.getSnapshot().matches('fetching') === true;
      if (catalog !== undefined) catalog.send({ type: isWalking ? 'catalog.changed' : 'catalog.refresh' });
      else this.tellSeen(kind);
    }
  }

  /** Another connection than before serves: the lists that were seen before may be other ones now. */
  reconnected(): void {
    for (const kind of LIST_KINDS) if (this.peer.chart.catalog(kind) === undefined) this.tellSeen(kind);
  }

  refreshTools(): void {
    this.holdOf('tools').mustAsk = true;
    this.peer.chart.catalog('tools')?.send({ type: 'catalog.refresh' });
  }

  /** See `PeerCalls.relist`. */
  relistTools(): Promise<string | null> {
    // The lease has them in the same turn: the registry merges before who waits for a list goes on.
    this.relisting ??= this.current('tools', true).then(
      ({ problem }) => {
        this.relisting = null;
        return problem;
      },
      () => {
        this.relisting = null;
        return 'The tools could not be listed: a fault of this host.';
      },
    );
    return this.relisting;
  }

  /** The list, fetched if it is not there, has run out, or `refresh` is asked for. */
  async current(kind: ListKind, refresh: boolean): Promise<ListNow> {
    const held = this.holdOf(kind);
    held.isTold = false;
    if (!this.peer.isCallable) return this.now(held, this.peer.notCallable());
    if (!this.declares(kind)) return { items: [], freshness: 'fresh', problem: null };
    if (refresh) held.mustAsk = true;
    const catalog = this.peer.chart.catalog(kind);
    if (catalog === undefined) {
      const settled = this.whenSettled(kind);
      this.peer.chart.wantCatalog(kind);
      // Asked for in the middle of a transition of the peer, it is there when that is over.
      await Promise.resolve();
      if (this.peer.chart.catalog(kind) === undefined) {
        return this.now(held, this.peer.notCallable());
      }
      await settled;
      return this.now(held, null);
    }
    if (refresh || this.isDue(held)) {
      const settled = this.whenSettled(kind);
      const isWalking = catalog.getSnapshot().matches('fetching');
      // A walk that began before this was asked for may bring what a cache had.
      if (refresh) catalog.send({ type: isWalking ? 'catalog.changed' : 'catalog.refresh' });
      else catalog.send({ type: 'catalog.used' });
      if (isBusy(catalog)) await settled;
    } else if (isBusy(catalog)) {
      const settled = this.whenSettled(kind);
      // What is known to have changed is not served as if it were not.
      catalog.send({ type: 'catalog.used' });
      await settled;
    }
    return this.now(held, null);
  }

  /** The body of the fetch actor. Whatever it comes to, the start of the host need not wait for it any more. */
  async fetch(kind: ListKind, scope: ExchangeScope<CatalogEvent>): Promise<void> {
    try {
      await this.list(kind, scope);
    } catch (error) {
      this.failed(kind, `${LISTS[kind].method}: a fault of this host`);
      throw error;
    }
  }

  status(): Partial<Record<ListKind, CatalogStatus>> {
    const now = this.options.clock.now();
    const found: Partial<Record<ListKind, CatalogStatus>> = {};
    for (const [kind, held] of this.held) {
      const catalog = this.peer.chart.catalog(kind);
      if (catalog === undefined && held.receivedAt === null && held.problem === null) continue;
      found[kind] = {
        state: catalog === undefined ? 'stale' : String(catalog.getSnapshot().value),
        count: held.receivedAt === null ? null : held.items.length,
        ageMs: held.receivedAt === null ? null : Math.max(0, Math.round(now - held.receivedAt)),
        problem: held.problem,
      };
    }
    return found;
  }

  private async list(kind: ListKind, scope: ExchangeScope<CatalogEvent>): Promise<void> {
    const { connection } = this.peer;
    if (connection === null) return;
    // What a server does not declare is not asked for.
    const fetched = this.declares(kind)
      ? await this.source.obtain(kind, {
          connection,
          serverName: this.peer.chart.serverName,
          // What came over a cache may be older than what a restart, a gap or an announcement is about.
          mayBeCached: this.peer.generation <= 1 && !this.holdOf(kind).mustAsk,
          isWanted: () => scope.isActive && this.peer.connection === connection,
        })
      : this.source.nothing(kind);
    if (this.peer.connection !== connection || !scope.isActive) return;
    if (!fetched.ok) {
      const message = this.peer.redact(fetched.message);
      this.failed(kind, message, retryAfterOf(fetched.outcome));
      scope.report({ type: 'list.failed', message });
      if (fetched.outcome !== undefined) this.peer.noticed(connection, fetched.outcome);
      return;
    }
    const { items, digest } = fetched;
    const isTorn = this.peer.chart.catalog(kind)?.getSnapshot().context.torn === true;
    if (isTorn && this.mayDiscard(kind)) {
      // What was seen is a list that the server may never have had.
      scope.report({ type: 'list.done', count: items.length, digest });
      return;
    }
    const held = this.holdOf(kind);
    const isOther = held.digest !== null && held.digest !== digest;
    Object.assign(held, {
      items,
      digest,
      receivedAt: fetched.receivedAt,
      freshUntil: fetched.freshUntil,
      problem: null,
      isStale: isTorn,
      isTorn,
      failures: 0,
      tornWalks: 0,
      mustAsk: false,
    });
    if (kind === 'tools') {
      this.options.onListed(fetched.catalog as PeerCatalog);
      this.peer.toolsSettled();
    }
    scope.report({ type: 'list.done', count: items.length, digest });
    this.settled(kind);
    if (isOther && kind !== 'tools') this.tell(kind);
  }

  private failed(kind: ListKind, message: string, retryAfterMs = 0): void {
    const held = this.holdOf(kind);
    held.problem = message;
    held.isStale = true;
    held.pausedUntil =
      this.options.clock.now() +
      Math.max(retryAfterMs, Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(held.failures, 10)));
    held.failures += 1;
    if (kind === 'tools') {
      this.options.onListingFailed(message);
      this.peer.toolsSettled();
    }
    queueMicrotask(() => this.settled(kind));
  }

  /** A server that announces a change during each walk is believed in the end. */
  private mayDiscard(kind: ListKind): boolean {
    const held = this.holdOf(kind);
    held.tornWalks += 1;
    return held.tornWalks < MAX_TORN_WALKS;
  }

  private isDue(held: Held): boolean {
    const now = this.options.clock.now();
    if (held.problem !== null) return now >= held.pausedUntil;
    return held.freshUntil !== null && now >= held.freshUntil;
  }

  private now(held: Held, problem: string | null): ListNow {
    const { items, isStale } = held;
    const why = problem ?? held.problem ?? (isStale ? this.whyStale(held) : null);
    return { items, freshness: why === null ? 'fresh' : 'stale', problem: why };
  }

  private whyStale({ isTorn }: Held): string {
    return isTorn
      ? `${this.peer.name} announces changes faster than it can be listed.`
      : `The connection to ${this.peer.name} ended before the list was there.`;
  }

  private holdOf(kind: ListKind): Held {
    const held = this.held.get(kind);
    if (held !== undefined) return held;
    const made: Held = {
      items: [],
      digest: null,
      receivedAt: null,
      freshUntil: null,
      problem: null,
      isStale: false,
      isTorn: false,
      failures: 0,
      pausedUntil: 0,
      tornWalks: 0,
      mustAsk: false,
      isTold: false,
    };
    this.held.set(kind, made);
    return made;
  }

  /** Once, until somebody asks for the list again. */
  private tell(kind: ListKind): void {
    const held = this.holdOf(kind);
    if (held.isTold) return;
    held.isTold = true;
    this.options.onChanged(kind);
  }

  /** Tells of a list that somebody has seen, but for the tools: those are always listed anew. */
  private tellSeen(kind: ListKind): void {
    if (kind !== 'tools' && this.held.get(kind)?.digest != null) this.tell(kind);
  }

  private whenSettled(kind: ListKind): Promise<void> {
    return new Promise((resolve) => {
      const waiting = this.waiters.get(kind) ?? new Set();
      this.waiters.set(kind, waiting.add(resolve));
    });
  }

  /** A fetch came to an end that is no torn walk, or the connection ended. */
  private settled(kind: ListKind): void {
    const waiting = this.waiters.get(kind);
    if (waiting === undefined) return;
    this.waiters.delete(kind);
    for (const resolve of waiting) resolve();
  }
}

/** From `Retry-After`, in milliseconds. */
function retryAfterOf(outcome: Outcome | undefined): number {
  return outcome?.kind === 'unreachable' ? (outcome.cause.retryAfterMs ?? 0) : 0;
}

function isBusy(catalog: CatalogRef): boolean {
  return catalog.getSnapshot().matches('fetching') || catalog.getSnapshot().matches('stale');
}
