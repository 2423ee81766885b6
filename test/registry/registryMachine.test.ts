import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createActor, fromCallback, SimulatedClock } from 'xstate';
import type { PeerCatalog } from '../../src/registry/lease.js';
import { registryMachine, SETTLE_TIMEOUT_MS } from '../../src/registry/registryMachine.js';
import { createRegistryPort } from '../../src/registry/registryPort.js';
import type {
  RegistryCommand,
  RegistryEmitted,
  RegistryEvent,
  RegistryInput,
} from '../../src/registry/registryPorts.js';
import type { StoreOptions } from '../../src/registry/store.js';
import { RegistryStore } from '../../src/registry/store.js';
import { catalog } from './tools.js';

/** Lets the merge of this tick run. */
const merged = () => Promise.resolve();

function start(options: StoreOptions, input: RegistryInput = {}) {
  const store = new RegistryStore(options);
  const clock = new SimulatedClock();
  const taken = new Set<string>();
  const machine = registryMachine.provide({ actors: { merge: createRegistryPort(store) } });
  const actor = createActor(machine, {
    input,
    clock,
    inspect: (event) => {
      if (event.type !== '@xstate.microstep') return;
      const { value } = event.snapshot as unknown as { readonly value: unknown };
      taken.add(`${event.event.type} ${JSON.stringify(value)}`);
    },
  });
  const emitted: RegistryEmitted[] = [];
  actor.on('*', (event) => {
    emitted.push(event);
  });
  actor.start();
  const list = (item: PeerCatalog) => actor.send({ type: 'catalog.listed', ...store.deposit(item) });
  return { actor, store, clock, emitted, list, taken };
}

const state = ({ actor }: ReturnType<typeof start>) => JSON.stringify(actor.getSnapshot().value);
const COLLECTING = '{"running":"collecting"}';
const STEADY = '{"running":"steady"}';

describe('the registry', () => {
  it('is steady when every peer has settled', async () => {
    const registry = start({ peers: ['a', 'b', 'c', 'd'] });
    registry.list(catalog('a', ['x']));
    registry.actor.send({ type: 'catalog.failed', peer: 'b' });
    registry.actor.send({ type: 'peer.gone', peer: 'c' });
    await merged();
    expect(state(registry)).toBe(COLLECTING);
    expect(registry.actor.getSnapshot().hasTag('settled')).toBe(false);
    registry.actor.send({ type: 'peer.settled', peer: 'd' });
    await merged();
    expect(state(registry)).toBe(STEADY);
    expect(registry.actor.getSnapshot().hasTag('settled')).toBe(true);
    expect(registry.actor.getSnapshot().context).toEqual({
      settleTimeoutMs: SETTLE_TIMEOUT_MS,
      revision: 2,
      pending: 0,
      tools: 1,
      fault: null,
    });
  });

  it('is steady at once without peers, and tells nothing', async () => {
    const registry = start({});
    await merged();
    expect(state(registry)).toBe(STEADY);
    expect(registry.emitted).toEqual([]);
  });

  it('merges once for all events of a tick, and tells the difference and each conflict', async () => {
    const registry = start({ peers: ['a', 'b'] });
    registry.list(catalog('b', ['x', 'y']));
    registry.list(catalog('a', ['x']));
    registry.actor.send({ type: 'peer.stale', peer: 'a' });
    await merged();
    expect(registry.emitted).toEqual([
      { type: 'catalogChanged', revision: 1, added: ['b/x', 'x', 'y'], removed: [], changed: [] },
      { type: 'conflict', tool: 'x', owner: 'a', peer: 'b', exposedAs: 'b/x' },
    ]);
    expect(registry.store.lease.entries.get('x')?.freshness).toBe('stale');
    registry.list(catalog('b', ['y']));
    await merged();
    expect(registry.emitted.at(-1)).toEqual({
      type: 'catalogChanged',
      revision: 2,
      added: [],
      removed: ['b/x'],
      changed: [],
    });
  });

  it('ends the waiting after its timeout', async () => {
    const registry = start({ peers: ['a', 'b'] }, { settleTimeoutMs: 100 });
    registry.list(catalog('b', ['x']));
    await merged();
    expect(registry.store.lease.entries.size).toBe(0);
    registry.clock.increment(99);
    await merged();
    expect(state(registry)).toBe(COLLECTING);
    registry.clock.increment(1);
    await merged();
    expect(state(registry)).toBe(STEADY);
    expect([...registry.store.lease.entries.keys()]).toEqual(['b/x']);
  });

  it('ends the waiting when the host says so', async () => {
    const registry = start({ peers: ['a', 'b'] });
    registry.list(catalog('b', ['x']));
    registry.actor.send({ type: 'host.startTimeout' });
    await merged();
    expect(state(registry)).toBe(STEADY);
    expect([...registry.store.lease.entries.keys()]).toEqual(['b/x']);
    expect(registry.store.lease.pending).toEqual(['a']);
  });

  it('waits again for a peer that is added, and frees the names of one that is removed', async () => {
    const registry = start({ peers: ['b'] }, { settleTimeoutMs: 100 });
    registry.list(catalog('b', ['x']));
    await merged();
    registry.actor.send({ type: 'peer.added', peer: 'a' });
    registry.list(catalog('b', ['x', 'y']));
    await merged();
    expect(state(registry)).toBe(COLLECTING);
    expect([...registry.store.lease.entries.keys()]).toEqual(['x']);
    registry.list(catalog('a', ['x']));
    await merged();
    expect(state(registry)).toBe(STEADY);
    expect([...registry.store.lease.entries.keys()]).toEqual(['a/x', 'x', 'y']);
    registry.actor.send({ type: 'peer.removed', peer: 'b' });
    await merged();
    expect([...registry.store.lease.entries.keys()]).toEqual(['a/x']);
  });

  it('changes its policy', async () => {
    const registry = start({ peers: ['a'] });
    registry.list(catalog('a', ['x']));
    await merged();
    registry.actor.send({ type: 'policy.changed', policy: 'prefix-always' });
    await merged();
    expect([...registry.store.lease.entries.keys()]).toEqual(['a/x']);
  });

  it('reports a publication that somebody else asked for', async () => {
    const registry = start({ peers: ['a'] });
    registry.list(catalog('a', ['x']));
    registry.store.publish();
    expect(registry.emitted).toHaveLength(1);
    expect(state(registry)).toBe(STEADY);
    await merged();
    expect(registry.emitted).toHaveLength(1);
  });

  it('keeps lists out of its context', async () => {
    const registry = start({ peers: ['a'] });
    registry.list(
      catalog(
        'a',
        Array.from({ length: 1_000 }, (_, i) => `tool${i}`),
      ),
    );
    await merged();
    expect(JSON.stringify(registry.actor.getPersistedSnapshot()).length).toBeLessThan(1_000);
  });

  it('publishes nothing more when it was stopped', async () => {
    const registry = start({ peers: ['a'] });
    registry.list(catalog('a', ['x']));
    registry.actor.stop();
    await merged();
    expect(registry.store.lease.revision).toBe(0);
    registry.store.publish();
    expect(registry.emitted).toEqual([]);
  });
});

describe('a fault in the merge', () => {
  it('breaks the registry, not the host; the last lease stays', async () => {
    const registry = start({ peers: ['a'] });
    registry.list(catalog('a', ['x']));
    await merged();
    registry.actor.send({ type: 'peer.added', peer: 'not/a/name' });
    expect(state(registry)).toBe('"broken"');
    expect(registry.actor.getSnapshot().hasTag('failed')).toBe(true);
    expect(registry.emitted.at(-1)).toEqual({
      type: 'fault',
      message: expect.stringContaining('RangeError'),
    });
    registry.list(catalog('a', []));
    await merged();
    expect(registry.store.lease.entries.size).toBe(1);
  });

  it('is caught also where it comes in the merge itself', async () => {
    const registry = start({ peers: ['a'] });
    registry.store.publish = () => {
      throw new Error('a bug');
    };
    registry.list(catalog('a', ['x']));
    await merged();
    expect(state(registry)).toBe('"broken"');
    expect(registry.actor.getSnapshot().context.fault).toBe('Error: a bug');
  });

  it('is what a registry without a provided merge has', () => {
    const actor = createActor(registryMachine, { input: {} });
    actor.start();
    expect(actor.getSnapshot().value).toBe('broken');
    expect(actor.getSnapshot().context.fault).toBe('Error: the actor "merge" was not provided');
  });
});

describe('the chart', () => {
  const command: fc.Arbitrary<RegistryCommand | 'tick' | 'wait' | 'crash'> = fc.oneof(
    fc.record({
      type: fc.constantFrom(
        'catalog.failed' as const,
        'peer.settled' as const,
        'peer.gone' as const,
        'peer.stale' as const,
        'peer.added' as const,
        'peer.removed' as const,
      ),
      peer: fc.constantFrom('a', 'b', 'c'),
    }),
    fc.constant({ type: 'policy.changed' as const, policy: 'reject' as const }),
    fc.constant({ type: 'host.startTimeout' as const }),
    fc.record({
      type: fc.constant('catalog.listed' as const),
      peer: fc.constantFrom('a', 'b'),
      revision: fc.nat({ max: 3 }),
      count: fc.constant(1),
      digest: fc.constant('sha256:'),
    }),
    fc.constantFrom('tick' as const, 'wait' as const, 'crash' as const),
  );

  it('is steady exactly when nobody is pending or the waiting was ended, and takes every edge', async () => {
    const taken = new Set<string>();
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 12 }), async (commands) => {
        const registry = start({ peers: ['a', 'b'] });
        const { actor, clock, store } = registry;
        for (const step of commands) {
          if (step === 'tick') await merged();
          else if (step === 'wait') clock.increment(SETTLE_TIMEOUT_MS);
          else if (step === 'crash') actor.send({ type: 'registry.crashed', message: 'injected' });
          else actor.send(step);
        }
        await merged();
        const snapshot = actor.getSnapshot();
        expect(snapshot.status).toBe('active');
        expect(snapshot.context.revision).toBeLessThanOrEqual(store.lease.revision);
        if (!snapshot.matches('broken')) {
          expect(snapshot.context.pending).toBe(store.lease.pending.length);
          if (snapshot.context.pending === 0) expect(state(registry)).toBe(STEADY);
        }
        actor.stop();
        for (const edge of registry.taken) taken.add(edge);
      }),
      { numRuns: 300 },
    );
    expect(taken).toContain(`registry.merged ${STEADY}`);
    expect(taken).toContain(`registry.merged ${COLLECTING}`);
    expect(taken).toContain(`peer.added ${COLLECTING}`);
    expect(taken).toContain(`host.startTimeout ${STEADY}`);
    expect(taken).toContain('registry.crashed "broken"');
    expect([...taken].some((edge) => edge.startsWith('xstate.after') && edge.endsWith(STEADY))).toBe(true);
  });

  it('describes every state, and links it', () => {
    const walk = (node: typeof registryMachine.root): void => {
      expect(node.description, node.id).toBeTruthy();
      for (const child of Object.values(node.states)) walk(child as typeof node);
    };
    walk(registryMachine.root);
  });

  it('may be a child: commands that come from a parent, reports that a test double sends', async () => {
    const heard: RegistryEvent[] = [];
    const double = fromCallback<RegistryCommand>(({ receive, sendBack }) => {
      receive((event) => {
        heard.push(event);
        sendBack({ type: 'registry.merged', revision: 1, pending: 1, tools: 0, change: null });
      });
    });
    const actor = createActor(registryMachine.provide({ actors: { merge: double } }), { input: {} }).start();
    const commands: RegistryCommand[] = [
      { type: 'catalog.listed', peer: 'a', revision: 1, count: 0, digest: '' },
      { type: 'catalog.failed', peer: 'a' },
      { type: 'peer.settled', peer: 'a' },
      { type: 'peer.gone', peer: 'a' },
      { type: 'peer.stale', peer: 'a' },
      { type: 'peer.added', peer: 'a' },
      { type: 'peer.removed', peer: 'a' },
      { type: 'policy.changed', policy: 'reject' },
      { type: 'host.startTimeout' },
    ];
    for (const item of commands) actor.send(item);
    expect(heard).toEqual(commands);
    expect(actor.getSnapshot().context).toMatchObject({ revision: 1, pending: 1 });
    actor.stop();
  });
});
