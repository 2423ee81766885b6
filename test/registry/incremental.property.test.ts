import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CollisionPolicy, Lease, PeerCatalog } from '../../src/registry/lease.js';
import type { MergePeer } from '../../src/registry/merge.js';
import { bindingsAfterPolicy, merge } from '../../src/registry/merge.js';
import type { Bindings } from '../../src/registry/placement.js';
import { RegistryStore } from '../../src/registry/store.js';
import { catalog, tool } from './tools.js';

const POLICIES: readonly CollisionPolicy[] = ['prefix', 'prefix-always', 'reject'];
const PEERS = ['a', 'b', 'B', 'c', 'constructor'];
const LOCALS = ['x', 'y', 'x/y', 'b/x', '__proto__', 'z', '\u202Ex', 'x', ''];

type Command =
  | { readonly type: 'list'; readonly peer: string; readonly tools: readonly (readonly [string, number])[] }
  | { readonly type: 'add' | 'remove' | 'settle' | 'stale' | 'gone'; readonly peer: string }
  | { readonly type: 'policy'; readonly policy: CollisionPolicy }
  | { readonly type: 'waive'; readonly waive: boolean }
  | { readonly type: 'publish' };

const peer = fc.constantFrom(...PEERS);
const command: fc.Arbitrary<Command> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant('list' as const),
      peer,
      tools: fc.array(fc.tuple(fc.constantFrom(...LOCALS), fc.nat({ max: 1 })), { maxLength: 6 }),
    }),
  },
  { weight: 6, arbitrary: fc.constant({ type: 'publish' as const }) },
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constantFrom(
        'add' as const,
        'remove' as const,
        'settle' as const,
        'stale' as const,
        'gone' as const,
      ),
      peer,
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ type: fc.constant('policy' as const), policy: fc.constantFrom(...POLICIES) }),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant('waive' as const), waive: fc.boolean() }) },
);

/** The registry as it is defined: a list of peers, bindings, and one merge from scratch at every publication. */
class Model {
  readonly peers = new Map<string, MergePeer>();
  bindings: Bindings = new Map();
  waiveWaiting = false;
  policy: CollisionPolicy;
  readonly #maxBindings: number;

  constructor(policy: CollisionPolicy, peers: readonly string[], maxBindings: number) {
    this.policy = policy;
    this.#maxBindings = maxBindings;
    for (const name of peers) this.add(name);
  }

  add(name: string): void {
    if (!this.peers.has(name)) {
      this.peers.set(name, { name, settled: false, catalog: null, freshness: 'fresh' });
    }
  }

  /** Frees the names at once: a peer that is removed and added again before the next merge is a new one. */
  remove(name: string): void {
    this.peers.delete(name);
    const empty = [...this.peers.values()].map((item) => ({ ...item, catalog: null }));
    this.bindings = merge({ ...this.#input(), peers: empty }).bindings;
  }

  update(name: string, change: Partial<MergePeer>): void {
    const before = this.peers.get(name);
    if (before !== undefined) this.peers.set(name, { ...before, ...change });
  }

  setPolicy(policy: CollisionPolicy): void {
    if (policy !== this.policy) this.bindings = bindingsAfterPolicy(this.bindings);
    this.policy = policy;
  }

  merge() {
    const merged = merge(this.#input());
    this.bindings = merged.bindings;
    return merged;
  }

  #input() {
    return {
      peers: [...this.peers.values()].reverse(),
      bindings: this.bindings,
      policy: this.policy,
      waiveWaiting: this.waiveWaiting,
      maxBindingsPerPeer: this.#maxBindings,
    };
  }
}

function apply(command: Exclude<Command, { type: 'publish' }>, store: RegistryStore, model: Model): void {
  switch (command.type) {
    case 'list': {
      const list: PeerCatalog = catalog(
        command.peer,
        command.tools.map(([name, version]) => tool(name, { description: `version ${version}` })),
      );
      store.list(command.peer, store.deposit(list).revision);
      model.update(command.peer, { catalog: list, settled: true, freshness: 'fresh' });
      break;
    }
    case 'add':
      store.claims.addPeer(command.peer);
      model.add(command.peer);
      break;
    case 'remove':
      store.removePeer(command.peer);
      model.remove(command.peer);
      break;
    case 'settle':
      store.claims.settle(command.peer);
      model.update(command.peer, { settled: true });
      break;
    case 'stale':
      store.claims.markStale(command.peer);
      model.update(command.peer, { freshness: 'stale' });
      break;
    case 'gone':
      store.claims.dropCatalog(command.peer);
      model.update(command.peer, { catalog: null, settled: true, freshness: 'fresh' });
      break;
    case 'policy':
      store.claims.setPolicy(command.policy);
      model.setPolicy(command.policy);
      break;
    case 'waive':
      store.claims.waiveWaiting(command.waive);
      model.waiveWaiting = command.waive;
      break;
  }
}

const contentsOf = (lease: Pick<Lease, 'entries' | 'conflicts' | 'quarantined' | 'pending'>) => ({
  entries: [...lease.entries],
  conflicts: lease.conflicts,
  quarantined: lease.quarantined,
  pending: lease.pending,
});

function expectedDiff(before: Lease, after: Lease) {
  const names = (lease: Lease) => [...lease.entries.keys()];
  return {
    added: names(after).filter((name) => !before.entries.has(name)),
    removed: names(before).filter((name) => !after.entries.has(name)),
    changed: names(after).filter((name) => {
      const [old, now] = [before.entries.get(name), after.entries.get(name)];
      return (
        old !== undefined && (old.digest !== now?.digest || old.peer !== now.peer || old.local !== now.local)
      );
    }),
  };
}

describe('the store', () => {
  it('is at every publication what a merge from scratch gives, tells the exact difference, and changes no lease', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...POLICIES),
        fc.subarray(PEERS),
        fc.constantFrom(1, 2, 3, 100),
        fc.array(command, { maxLength: 40, size: 'max' }),
        (policy, peers, maxBindingsPerPeer, commands) => {
          const store = new RegistryStore({ policy, peers, maxBindingsPerPeer });
          const model = new Model(policy, peers, maxBindingsPerPeer);
          const leases: { readonly lease: Lease; readonly contents: ReturnType<typeof contentsOf> }[] = [];
          for (const step of [...commands, { type: 'publish' as const }]) {
            if (step.type !== 'publish') {
              apply(step, store, model);
              continue;
            }
            const before = store.lease;
            const change = store.publish();
            const merged = model.merge();
            expect(contentsOf(store.lease)).toEqual(contentsOf(merged));
            expect(store.claims.bindings()).toEqual(merged.bindings);
            const different = JSON.stringify(contentsOf(before)) !== JSON.stringify(contentsOf(store.lease));
            expect(store.lease.revision).toBe(before.revision + (different ? 1 : 0));
            expect(change === null).toBe(!different);
            if (change !== null) {
              expect(change.lease).toBe(store.lease);
              const { added, removed, changed } = change;
              expect({ added, removed, changed }).toEqual(expectedDiff(before, store.lease));
            }
            leases.push({ lease: store.lease, contents: contentsOf(store.lease) });
          }
          for (const { lease, contents } of leases) expect(contentsOf(lease)).toEqual(contents);
        },
      ),
      { numRuns: 400 },
    );
  });

  it('never lets a name mean another tool while its peer is configured, whatever happens', () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...POLICIES),
        fc.subarray(PEERS),
        fc.array(command, { maxLength: 60, size: 'max' }),
        (policy, peers, commands) => {
          const store = new RegistryStore({ policy, peers });
          const model = new Model(policy, peers, 100);
          const meant = new Map<string, { readonly peer: string; readonly local: string }>();
          for (const step of commands) {
            if (step.type !== 'publish') apply(step, store, model);
            if (step.type === 'remove') {
              for (const [name, owner] of meant) if (owner.peer === step.peer) meant.delete(name);
            }
            store.publish();
            for (const [name, { peer, local }] of store.lease.entries) {
              const before = meant.get(name);
              if (before !== undefined) expect({ name, ...before }).toEqual({ name, peer, local });
              meant.set(name, { peer, local });
            }
          }
        },
      ),
      { numRuns: 200 },
    );
  });
});
