/**
 * The lists, outside XState: deposited catalogs and the current lease. Changes are noted in `claims`; they take effect
 * together in `publish`.
 *
 * Who feeds and drains it: the fetch of a catalog `deposit`s a list and announces it with the reference it gets; all
 * else comes through the registry machine's port, which calls `publish` once for all events of a tick.
 */
import { Claims } from './claims.js';
import { diffEntries, type LeaseDiff } from './diff.js';
import { EntryTable } from './entryTable.js';
import type { CollisionPolicy, Conflict, Lease, PeerCatalog } from './lease.js';
import { MAX_BINDINGS_PER_PEER } from './placement.js';
import { prepareCatalog } from './prepare.js';

/** What a fetch says of a list that it deposited: small and plain, fit for an event. */
export interface CatalogRef {
  readonly peer: string;
  /** Grows with every deposit of a store. */
  readonly revision: number;
  readonly count: number;
  readonly digest: string;
}

/** One step from a lease to the next. */
export interface LeaseChange extends LeaseDiff {
  readonly lease: Lease;
  /** Conflicts that have not been told before. */
  readonly conflicts: readonly Conflict[];
}

export interface StoreOptions {
  /** Names of the configured peers; {@link Claims.addPeer} says which are accepted. */
  readonly peers?: readonly string[];
  /** Default `prefix`. */
  readonly policy?: CollisionPolicy;
  /** Default 10,000. */
  readonly maxBindingsPerPeer?: number;
}

export class RegistryStore {
  /** Where everything but a list is told. */
  readonly claims: Claims;
  readonly #deposits = new Map<string, { readonly revision: number; readonly catalog: PeerCatalog }>();
  #deposited = 0;
  #lease: Lease & { readonly entries: EntryTable };
  readonly #subscribers = new Set<(change: LeaseChange) => void>();

  /** @throws {RangeError} a peer's name is not one */
  constructor(options: StoreOptions = {}) {
    this.claims = new Claims(options.policy ?? 'prefix', options.maxBindingsPerPeer ?? MAX_BINDINGS_PER_PEER);
    for (const name of options.peers ?? []) this.claims.addPeer(name);
    this.#lease = this.#leaseOf(0, EntryTable.empty(), this.claims.pending());
  }

  /** The current lease. Revision 0 is empty. */
  get lease(): Lease {
    return this.#lease;
  }

  /** Calls `listener` after each change of the lease; what it throws is dropped. Returns the function that ends it. */
  subscribe(listener: (change: LeaseChange) => void): () => void {
    const own = (change: LeaseChange) => listener(change);
    this.#subscribers.add(own);
    return () => {
      this.#subscribers.delete(own);
    };
  }

  /**
   * Takes a list into keeping; it takes effect with {@link list}. Of several deposits of one peer the last one counts.
   * Checks and fingerprints its tools, which is most of the work of a merge.
   */
  deposit(catalog: PeerCatalog): CatalogRef {
    prepareCatalog(catalog);
    this.#deposited += 1;
    this.#deposits.set(catalog.peer, { revision: this.#deposited, catalog });
    return {
      peer: catalog.peer,
      revision: this.#deposited,
      count: catalog.tools.length,
      digest: catalog.digest,
    };
  }

  /** The deposited list takes effect; the peer has settled. An announcement that a later deposit overtook is ignored. */
  list(peer: string, revision: number): void {
    const deposit = this.#deposits.get(peer);
    if (deposit === undefined || deposit.revision !== revision) return;
    this.#deposits.delete(peer);
    this.claims.list(peer, prepareCatalog(deposit.catalog));
  }

  /** Removes a peer from the configuration, frees its names, and forgets what it deposited. */
  removePeer(peer: string): void {
    this.#deposits.delete(peer);
    this.claims.removePeer(peer);
  }

  /** Lets all changes since the last time take effect. Returns `null`, and keeps the lease, where nothing differs. */
  publish(): LeaseChange | null {
    const before = this.#lease;
    const decided = this.claims.decide();
    const pending = this.claims.pending();
    const { changes, added, removed, changed } = diffEntries(before.entries, decided.changes);
    if (changes.names.length === 0 && !decided.reportsChanged && sameNames(before.pending, pending))
      return null;

    this.#lease = this.#leaseOf(before.revision + 1, before.entries.with(changes), pending);
    const change: LeaseChange = Object.freeze({
      lease: this.#lease,
      added,
      removed,
      changed,
      conflicts: decided.news,
    });
    for (const tell of [...this.#subscribers]) {
      try {
        tell(change);
      } catch {
        // A listener's fault is not the registry's.
      }
    }
    return change;
  }

  /** The reports of all peers are joined when somebody looks: most leases are only asked for a name. */
  #leaseOf(
    revision: number,
    entries: EntryTable,
    pending: readonly string[],
  ): Lease & { entries: EntryTable } {
    const reports = this.claims.reports();
    const conflicts = once(() => Object.freeze(reports.flatMap((report) => report.conflicts)));
    const quarantined = once(() => Object.freeze(reports.flatMap((report) => report.quarantined)));
    return Object.freeze({
      revision,
      entries,
      get conflicts() {
        return conflicts();
      },
      get quarantined() {
        return quarantined();
      },
      pending: Object.freeze(pending),
    });
  }
}

function once<T>(make: () => T): () => T {
  let made: { readonly value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
}

function sameNames(a: readonly string[], b: readonly string[]): boolean {
  return a.length === b.length && a.every((name, i) => name === b[i]);
}
