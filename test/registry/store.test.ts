import { describe, expect, it } from 'vitest';
import type { CollisionPolicy, PeerCatalog } from '../../src/registry/lease.js';
import { rejectedCollisions } from '../../src/registry/policy.js';
import { isCurrentRoute } from '../../src/registry/route.js';
import type { LeaseChange } from '../../src/registry/store.js';
import { RegistryStore } from '../../src/registry/store.js';
import { catalog, tool } from './tools.js';

function list(store: RegistryStore, item: PeerCatalog): void {
  store.list(item.peer, store.deposit(item).revision);
}

function started(policy: CollisionPolicy, ...catalogs: readonly PeerCatalog[]): RegistryStore {
  const store = new RegistryStore({ policy, peers: catalogs.map(({ peer }) => peer) });
  for (const item of catalogs) list(store, item);
  store.publish();
  return store;
}

const names = (store: RegistryStore) => [...store.lease.entries.keys()];

describe('a lease', () => {
  it('begins empty, with all peers pending', () => {
    const { lease } = new RegistryStore({ peers: ['b', 'a'] });
    expect(lease.revision).toBe(0);
    expect([...lease.entries]).toEqual([]);
    expect(lease.pending).toEqual(['a', 'b']);
    expect(lease.conflicts).toEqual([]);
    expect(lease.quarantined).toEqual([]);
  });

  it('gets the next revision when anything in it changes, and only then', () => {
    const store = new RegistryStore({ peers: ['a'] });
    const revisions = [store.lease.revision];
    const publish = () => {
      store.publish();
      revisions.push(store.lease.revision);
    };
    publish();
    list(store, catalog('a', ['x']));
    publish();
    list(store, catalog('a', ['x']));
    publish();
    store.claims.markStale('a');
    store.claims.markStale('a');
    publish();
    list(store, catalog('a', ['x']));
    publish();
    list(store, catalog('a', ['x', 'x']));
    publish();
    store.claims.addPeer('a');
    publish();
    store.claims.addPeer('b');
    publish();
    store.claims.settle('b');
    publish();
    store.claims.settle('b');
    store.claims.dropCatalog('b');
    publish();
    expect(revisions).toEqual([0, 0, 1, 1, 2, 3, 4, 4, 5, 6, 6]);
  });

  it('stays what it was for who holds it', () => {
    const store = started('prefix', catalog('a', ['x', 'y']), catalog('b', ['x']));
    const { lease } = store;
    const [x, conflicts] = [lease.entries.get('x'), lease.conflicts];
    list(store, catalog('a', [tool('x', { description: 'other' }), 'z', '']));
    store.publish();
    expect([...lease.entries.keys()]).toEqual(['b/x', 'x', 'y']);
    expect(lease.entries.get('x')).toBe(x);
    expect(lease.entries.get('y')?.local).toBe('y');
    expect(lease.entries.has('z')).toBe(false);
    expect(lease.conflicts).toBe(conflicts);
    expect(lease.quarantined).toEqual([]);
    expect(store.lease.quarantined).toHaveLength(1);
  });

  it('keeps the entries that did not change, and can be spread', () => {
    const store = started('prefix', catalog('a', ['x']), catalog('b', ['x']));
    const before = store.lease.entries.get('x');
    list(store, catalog('b', [tool('x', { title: 'X' })]));
    store.publish();
    expect(store.lease.entries.get('x')).toBe(before);
    expect({ ...store.lease }.conflicts).toHaveLength(1);
    expect(Object.isFrozen(store.lease)).toBe(true);
  });
});

describe('a list', () => {
  it('counts only when it is announced, and only the last one does', () => {
    const store = new RegistryStore({ peers: ['a'] });
    const first = store.deposit(catalog('a', ['old']));
    const second = store.deposit(catalog('a', ['new', 'x']));
    expect(second).toEqual({ peer: 'a', revision: first.revision + 1, count: 2, digest: expect.any(String) });
    store.list('a', first.revision);
    store.publish();
    expect(names(store)).toEqual([]);
    store.list('a', second.revision);
    store.list('a', second.revision);
    store.publish();
    expect(names(store)).toEqual(['new', 'x']);
  });

  it('of a peer that is not configured, or was removed meanwhile, is dropped', () => {
    const store = new RegistryStore({ peers: ['a'] });
    list(store, catalog('stranger', ['x']));
    const { revision } = store.deposit(catalog('a', ['x']));
    store.removePeer('a');
    store.claims.addPeer('a');
    store.list('a', revision);
    store.removePeer('stranger');
    store.publish();
    expect(names(store)).toEqual([]);
    expect(store.lease.pending).toEqual(['a']);
  });
});

describe('a peer', () => {
  it('must have a name that keeps prefixed names unambiguous', () => {
    expect(() => new RegistryStore({ peers: ['a/b'] })).toThrow(RangeError);
    expect(() => new RegistryStore().claims.addPeer('')).toThrow(RangeError);
  });

  it('that nobody knows changes nothing', () => {
    const store = started('prefix', catalog('a', ['x']));
    store.claims.settle('b');
    store.claims.markStale('b');
    store.claims.dropCatalog('b');
    store.removePeer('b');
    expect(store.publish()).toBeNull();
  });

  it('is told apart from another one that takes its free name', () => {
    const same = [tool('x')];
    const store = started('prefix', catalog('a', same));
    store.removePeer('a');
    store.claims.addPeer('b');
    list(store, catalog('b', same));
    expect(store.publish()).toMatchObject({ added: [], removed: [], changed: ['x'] });
    expect(store.lease.entries.get('x')?.peer).toBe('b');
  });
});

describe('conflicts', () => {
  it('are news once, also when peers come and go', () => {
    const store = started('prefix', catalog('a', ['x']));
    const told: string[] = [];
    store.subscribe(({ conflicts }) => {
      told.push(...conflicts.map(({ owner, peer, exposedAs }) => `${owner} ${peer} ${exposedAs}`));
    });
    store.claims.addPeer('b');
    for (let round = 0; round < 3; round += 1) {
      list(store, catalog('b', ['x']));
      store.publish();
      store.claims.dropCatalog(round === 1 ? 'a' : 'b');
      store.publish();
      list(store, catalog('a', ['x']));
      store.publish();
    }
    expect(told).toEqual(['a b b/x']);
  });

  it('that keep a host from starting are those without a name', () => {
    const store = started('reject', catalog('a', ['x', 'y']), catalog('b', ['x']));
    expect(rejectedCollisions(store.lease)).toEqual([{ tool: 'x', owner: 'a', peer: 'b', exposedAs: null }]);
    store.claims.setPolicy('prefix');
    store.publish();
    expect(rejectedCollisions(store.lease)).toEqual([]);
    expect(store.lease.conflicts).toHaveLength(1);
    expect(store.claims.policy).toBe('prefix');
  });

  it('name the next owner when the first is removed', () => {
    const store = started('prefix', catalog('a', ['x']), catalog('b', ['x']), catalog('c', ['x']));
    store.removePeer('a');
    expect(store.publish()?.conflicts).toEqual([{ tool: 'x', owner: 'b', peer: 'c', exposedAs: 'c/x' }]);
    expect(names(store)).toEqual(['b/x', 'c/x']);
  });
});

describe('subscribers', () => {
  it('hear every change until they end it, whatever another one does', () => {
    const store = new RegistryStore({ peers: ['a'] });
    const heard: LeaseChange[] = [];
    const listener = (change: LeaseChange) => {
      heard.push(change);
    };
    store.subscribe(() => {
      throw new Error('not the registry’s fault');
    });
    const end = store.subscribe(listener);
    const endAgain = store.subscribe(listener);
    list(store, catalog('a', ['x']));
    store.publish();
    endAgain();
    list(store, catalog('a', ['y']));
    store.publish();
    end();
    list(store, catalog('a', []));
    store.publish();
    expect(heard.map(({ lease, added, removed }) => [lease.revision, added, removed])).toEqual([
      [1, ['x'], []],
      [1, ['x'], []],
      [2, ['y'], ['x']],
    ]);
  });
});

describe('a route', () => {
  const store = () => started('prefix', catalog('a', ['x', 'a/y']), catalog('b', ['x']));

  it('is looked up, never taken apart', () => {
    const { lease } = store();
    expect(lease.entries.get('a/a/y')).toMatchObject({ peer: 'a', local: 'a/y' });
    expect(lease.entries.get('b/x')).toMatchObject({ peer: 'b', local: 'x' });
    for (const name of ['a/x', 'a/y', 'b', 'x/', 'X', '__proto__', '']) {
      expect(lease.entries.get(name)).toBeUndefined();
    }
  });

  it('stays current while peer, local name and definition are the same', () => {
    const registry = store();
    const bound = registry.lease.entries.get('x')!;
    registry.claims.markStale('a');
    registry.publish();
    expect(registry.lease.entries.get('x')?.freshness).toBe('stale');
    expect(isCurrentRoute(bound, registry.lease)).toBe(true);
  });

  it('is stale when the definition, the owner or the tool is another one or gone', () => {
    const registry = store();
    const bound = registry.lease.entries.get('x')!;
    list(registry, catalog('a', [tool('x', { description: 'now it deletes' })]));
    registry.publish();
    expect(isCurrentRoute(bound, registry.lease)).toBe(false);
    const current = registry.lease.entries.get('x')!;
    expect(isCurrentRoute({ ...current }, registry.lease)).toBe(true);
    for (const other of [{ name: 'b/x' }, { local: 'y' }, { peer: 'b' }]) {
      expect(isCurrentRoute({ ...current, ...other }, registry.lease)).toBe(false);
    }
    registry.claims.dropCatalog('a');
    registry.publish();
    expect(isCurrentRoute(current, registry.lease)).toBe(false);
  });
});
