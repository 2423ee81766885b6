import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { CollisionPolicy } from '../../src/registry/lease.js';
import type { Merged, MergeInput, MergePeer } from '../../src/registry/merge.js';
import { bindingsAfterPolicy, merge } from '../../src/registry/merge.js';
import type { Bindings } from '../../src/registry/placement.js';
import { catalog, tool } from './tools.js';

const POLICIES: readonly CollisionPolicy[] = ['prefix', 'prefix-always', 'reject'];
const NONE: Bindings = new Map();

function listing(name: string, ...tools: Parameters<typeof catalog>[1]): MergePeer {
  return { name, settled: true, catalog: catalog(name, tools), freshness: 'fresh' };
}
const waiting = (name: string): MergePeer => ({ name, settled: false, catalog: null, freshness: 'fresh' });
const gone = (name: string): MergePeer => ({ name, settled: true, catalog: null, freshness: 'fresh' });

function merged(peers: readonly MergePeer[], over: Partial<MergeInput> = {}): Merged {
  return merge({ peers, bindings: NONE, policy: 'prefix', waiveWaiting: false, ...over });
}

/** `name → peer:local`, which is what a lease promises. */
const routes = (result: Merged) =>
  Object.fromEntries([...result.entries].map(([name, { peer, local }]) => [name, `${peer}:${local}`]));

describe('the policy "prefix"', () => {
  const peers = [listing('beta', 'search', 'save'), listing('alpha', 'search', 'list/all')];

  it('gives the bare name to the first peer and prefixes the others', () => {
    const result = merged(peers);
    expect(routes(result)).toEqual({
      'alpha/list/all': 'alpha:list/all',
      'beta/search': 'beta:search',
      save: 'beta:save',
      search: 'alpha:search',
    });
    expect(result.conflicts).toEqual([
      { tool: 'search', owner: 'alpha', peer: 'beta', exposedAs: 'beta/search' },
    ]);
    expect(result.quarantined).toEqual([]);
  });

  it('reaches the tools of two instances of one server', () => {
    const result = merged([listing('production', 'a', 'b'), listing('staging', 'a', 'b')]);
    expect(Object.keys(routes(result))).toEqual(['a', 'b', 'staging/a', 'staging/b']);
    expect(result.conflicts).toHaveLength(2);
  });

  it.each([
    [
      ['my', 'server_my_tool'],
      ['my_server', 'my_tool'],
    ],
    [
      ['a', 'b__c'],
      ['a__b', 'c'],
    ],
    [
      ['evil_', '_thing'],
      ['evil', '__thing'],
    ],
    [
      ['a', 'b/c'],
      ['a.b', 'c'],
    ],
  ] as const)('routes %j and %j apart', ([peerA, localA], [peerB, localB]) => {
    for (const policy of POLICIES) {
      const result = merged([listing(peerA, localA), listing(peerB, localB)], { policy });
      expect(Object.values(routes(result)).sort()).toEqual(
        [`${peerA}:${localA}`, `${peerB}:${localB}`].sort(),
      );
    }
  });

  it('never confuses a declared name that looks like a prefixed one', () => {
    const result = merged([listing('a', 'x', 'b/x'), listing('b', 'x')]);
    expect(routes(result)).toEqual({ 'a/b/x': 'a:b/x', 'b/x': 'b:x', x: 'a:x' });
  });

  it('passes definitions on as they were declared, frozen', () => {
    const definition = tool('x', { title: 'X', description: 'does x', outputSchema: { type: 'object' } });
    const entry = merged([{ ...listing('p', definition), freshness: 'stale' }]).entries.get('x');
    expect(entry).toMatchObject({
      title: 'X',
      description: 'does x',
      freshness: 'stale',
      annotations: undefined,
    });
    expect(entry?.inputSchema).toBe(definition.inputSchema);
    expect(entry?.digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(Object.isFrozen(entry)).toBe(true);
  });
});

describe('the policy "prefix-always"', () => {
  it('prefixes all, waits for nobody, and knows no conflict', () => {
    const result = merged([waiting('a'), listing('b', 'x', 'y/z'), listing('c', 'x')], {
      policy: 'prefix-always',
    });
    expect(routes(result)).toEqual({ 'b/x': 'b:x', 'b/y/z': 'b:y/z', 'c/x': 'c:x' });
    expect(result.conflicts).toEqual([]);
    expect(result.bindings.size).toBe(0);
  });
});

describe('the policy "reject"', () => {
  it('does not load the second tool, and says so', () => {
    const result = merged([listing('beta', 'search', 'save'), listing('alpha', 'search')], {
      policy: 'reject',
    });
    expect(routes(result)).toEqual({ save: 'beta:save', search: 'alpha:search' });
    expect(result.conflicts).toEqual([{ tool: 'search', owner: 'alpha', peer: 'beta', exposedAs: null }]);
    expect(result.quarantined).toEqual([
      {
        peer: 'beta',
        local: 'search',
        code: 'rejected-collision',
        reason: 'peer "alpha" has this name, and the collision policy "reject" loads no second tool of it',
      },
    ]);
  });

  it('does not load the duplicate of a late peer, even one that sorts first', () => {
    const first = merged([waiting('a'), listing('b', 'x')], { policy: 'reject', waiveWaiting: true });
    expect(routes(first)).toEqual({ 'b/x': 'b:x' });
    const second = merged([listing('a', 'x'), listing('b', 'x')], {
      policy: 'reject',
      bindings: first.bindings,
    });
    expect(routes(second)).toEqual({ 'b/x': 'b:x' });
    expect(second.conflicts).toEqual([{ tool: 'x', owner: 'b', peer: 'a', exposedAs: null }]);
  });

  it('loads it once the owner is removed', () => {
    const { bindings } = merged([listing('a', 'x'), listing('b', 'x')], { policy: 'reject' });
    expect(routes(merged([listing('b', 'x')], { policy: 'reject', bindings }))).toEqual({ x: 'b:x' });
  });
});

describe('waiting', () => {
  it('holds a bare name back until every peer that sorts before its owner has settled', () => {
    const result = merged([waiting('b'), listing('a', 'x'), listing('c', 'y', 'deep/y'), waiting('d')]);
    expect(routes(result)).toEqual({ 'c/deep/y': 'c:deep/y', x: 'a:x' });
    expect(result.pending).toEqual(['b', 'd']);
    expect(routes(merged([gone('b'), listing('a', 'x'), listing('c', 'y')]))).toEqual({ x: 'a:x', y: 'c:y' });
  });

  it('ends when it is waived: with a prefix, which stays', () => {
    const early = merged([waiting('a'), listing('b', 'x', 'y'), listing('c', 'x')], { waiveWaiting: true });
    expect(routes(early)).toEqual({ 'b/x': 'b:x', 'b/y': 'b:y', 'c/x': 'c:x' });
    expect(early.conflicts).toEqual([{ tool: 'x', owner: 'b', peer: 'c', exposedAs: 'c/x' }]);
    const late = merged([listing('a', 'x', 'z'), listing('b', 'x', 'y'), listing('c', 'x')], {
      bindings: early.bindings,
    });
    expect(routes(late)).toEqual({ ...routes(early), 'a/x': 'a:x', z: 'a:z' });
    expect(late.conflicts.map(({ peer, owner }) => [peer, owner])).toEqual([
      ['a', 'b'],
      ['c', 'b'],
    ]);
  });
});

describe('sticky bindings', () => {
  it('keep the names of a peer that is gone', () => {
    const { bindings } = merged([listing('a', 'x'), listing('b', 'y')]);
    const away = merged([gone('a'), listing('b', 'y', 'x')], { bindings });
    expect(routes(away)).toEqual({ 'b/x': 'b:x', y: 'b:y' });
    expect(away.conflicts).toEqual([{ tool: 'x', owner: 'a', peer: 'b', exposedAs: 'b/x' }]);
    const back = merged([listing('a', 'x'), listing('b', 'y', 'x')], { bindings: away.bindings });
    expect(routes(back)).toEqual({ 'b/x': 'b:x', x: 'a:x', y: 'b:y' });
  });

  it('keep the name of a tool that its peer stops listing', () => {
    const { bindings } = merged([listing('b', 'x')]);
    const without = merged([listing('a', 'x'), listing('b')], { bindings });
    expect(routes(without)).toEqual({ 'a/x': 'a:x' });
  });

  it('never give a name in use to a peer that comes later, wherever it sorts', () => {
    const { bindings } = merged([listing('b', 'x')]);
    expect(routes(merged([listing('a', 'x'), listing('b', 'x')], { bindings }))).toEqual({
      'a/x': 'a:x',
      x: 'b:x',
    });
  });

  it('end when the peer is removed from the configuration; the others keep theirs', () => {
    const { bindings } = merged([listing('a', 'x'), listing('b', 'x')]);
    const left = merged([listing('b', 'x')], { bindings });
    expect(routes(left)).toEqual({ 'b/x': 'b:x' });
    const third = merged([listing('b', 'x'), listing('c', 'x')], { bindings: left.bindings });
    expect(routes(third)).toEqual({ 'b/x': 'b:x', 'c/x': 'c:x' });
    expect(routes(merged([listing('c', 'x')], { bindings: NONE }))).toEqual({ x: 'c:x' });
  });

  it('survive a change of policy as far as bare names go', () => {
    const { bindings } = merged([listing('a', 'x'), listing('b', 'x', 'y')]);
    const after = bindingsAfterPolicy(bindings);
    expect(after).toEqual(
      new Map([
        ['x', { bare: true, holders: ['a'] }],
        ['y', { bare: true, holders: ['b'] }],
      ]),
    );
    expect(bindingsAfterPolicy(new Map([['z', { bare: false, holders: ['b'] }]])).size).toBe(0);
  });

  it('are limited: a peer that has used up its share gets prefixed names, or none under "reject"', () => {
    const first = merged([listing('a', 'x', 'y')], { maxBindingsPerPeer: 2 });
    const peers = [listing('a', 'x', 'y', 'z'), listing('b', 'z')];
    const second = merged(peers, { maxBindingsPerPeer: 2, bindings: first.bindings });
    expect(routes(second)).toEqual({ 'a/z': 'a:z', x: 'a:x', y: 'a:y', z: 'b:z' });
    expect(second.conflicts).toEqual([{ tool: 'z', owner: 'b', peer: 'a', exposedAs: 'a/z' }]);
    const third = merged([listing('a', 'x', 'z')], {
      maxBindingsPerPeer: 2,
      bindings: first.bindings,
      policy: 'reject',
    });
    expect(routes(third)).toEqual({ x: 'a:x' });
    expect(third.quarantined[0]).toMatchObject({
      local: 'z',
      reason: expect.stringContaining('different names'),
    });
  });
});

describe('merge', () => {
  const names = ['a', 'b', 'B', 'c', 'a.b', 'a_b'];
  const local = fc.oneof(
    fc.constantFrom('x', 'y', 'x/y', 'a/x', 'b', '__proto__', 'constructor', '\u200bx', ' x', ''),
    fc.string({ unit: 'binary', maxLength: 4 }),
  );
  const peersArbitrary = fc.subarray(names).chain((present) =>
    fc.tuple(
      ...present.map((name) =>
        fc.record<MergePeer>({
          name: fc.constant(name),
          settled: fc.boolean(),
          catalog: fc.option(fc.array(local, { maxLength: 6 }).map((tools) => catalog(name, tools))),
          freshness: fc.constantFrom('fresh', 'stale'),
        }),
      ),
    ),
  );
  const bindingsArbitrary: fc.Arbitrary<Bindings> = fc
    .array(
      fc.tuple(
        fc.constantFrom('x', 'y', 'b', '__proto__'),
        fc.record({ bare: fc.boolean(), holders: fc.shuffledSubarray(['gone', ...names], { minLength: 1 }) }),
      ),
    )
    .map((pairs) => new Map(pairs));
  const inputArbitrary: fc.Arbitrary<MergeInput> = fc.record({
    peers: peersArbitrary,
    bindings: bindingsArbitrary,
    policy: fc.constantFrom(...POLICIES),
    waiveWaiting: fc.boolean(),
    maxBindingsPerPeer: fc.constantFrom(1, 2, 10_000),
  });
  const contents = (result: Merged) => ({
    ...result,
    entries: [...result.entries],
    bindings: [...result.bindings],
  });

  it('is total and injective: a canonical name is one tool, and a tool has one name', () => {
    fc.assert(
      fc.property(inputArbitrary, (input) => {
        const { entries, quarantined, bindings } = merge(input);
        const tools = new Set([...entries.values()].map(({ peer, local }) => JSON.stringify([peer, local])));
        expect(tools.size).toBe(entries.size);
        for (const [name, entry] of entries) {
          expect(entry.name).toBe(name);
          expect([entry.local, `${entry.peer}/${entry.local}`]).toContain(name);
          if (!name.includes('/')) {
            expect(bindings.get(name)).toMatchObject({ bare: true });
            expect(bindings.get(name)?.holders[0]).toBe(entry.peer);
          }
        }
        expect([...entries.keys()]).toEqual([...entries.keys()].sort());
        if (input.waiveWaiting) {
          // Nothing is lost without a word: every listed item is exposed or reported.
          const listed = input.peers.reduce((sum, peer) => sum + (peer.catalog?.tools.length ?? 0), 0);
          expect(entries.size + quarantined.length).toBe(listed);
        }
      }),
      { numRuns: 400 },
    );
  });

  it('does not depend on the order in which peers are given, and changes nothing that it was given', () => {
    fc.assert(
      fc.property(inputArbitrary, fc.nat({ max: 5 }), (input, at) => {
        const before = JSON.stringify([...input.bindings]);
        const peers = [...input.peers.slice(at), ...input.peers.slice(0, at)].reverse();
        expect(contents(merge({ ...input, peers }))).toEqual(contents(merge(input)));
        expect(JSON.stringify([...input.bindings])).toBe(before);
      }),
      { numRuns: 300 },
    );
  });

  it('ends in the same names, whatever the order in which peers settle', () => {
    const lists = fc.array(fc.tuple(fc.constantFrom(...names), fc.array(local, { maxLength: 5 })), {
      maxLength: 6,
    });
    fc.assert(
      fc.property(
        lists.map((pairs) => [...new Map(pairs)]),
        fc.constantFrom(...POLICIES),
        fc.array(fc.nat(), { minLength: 6, maxLength: 6 }),
        (configured, policy, ranks) => {
          const all = configured.map(([name, tools]) => listing(name, ...tools));
          let peers = configured.map(([name]) => waiting(name));
          let bindings = NONE;
          const arriving = all
            .map((peer, i) => ({ peer, rank: ranks[i] ?? 0 }))
            .sort((a, b) => a.rank - b.rank);
          for (const { peer } of arriving) {
            peers = peers.map((item) => (item.name === peer.name ? peer : item));
            bindings = merged(peers, { bindings, policy }).bindings;
          }
          expect(routes(merged(peers, { bindings, policy }))).toEqual(routes(merged(all, { policy })));
        },
      ),
      { numRuns: 300 },
    );
  });
});
