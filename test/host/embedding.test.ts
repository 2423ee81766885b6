import { afterEach, describe, expect, it } from 'vitest';
import { type AnyActorRef, assign, createActor, setup, waitFor } from 'xstate';
import { callLogic, hostLogic, hostOf } from '../../src/host/createHost.js';
import { CollisionError } from '../../src/host/errors.js';
import { legacyFake, modernFake } from './fakes.js';

const actors: { stop(): unknown }[] = [];

afterEach(() => {
  for (const actor of actors.splice(0)) actor.stop();
});

const silentCall = (message: { method?: string }) => (message.method === 'tools/call' ? null : undefined);

function start(parts: { host: ReturnType<typeof hostLogic>; inspect?: (event: unknown) => void }) {
  const machine = setup({
    types: { context: {} as { output: unknown; error: unknown; outcome: unknown } },
    actors: { host: parts.host, call: callLogic },
    actions: {
      noteOutput: assign(({ event }) => ({ output: (event as unknown as { output: unknown }).output })),
      noteError: assign(({ event }) => ({ error: (event as unknown as { error: unknown }).error })),
      noteOutcome: assign(({ event }) => ({ outcome: (event as unknown as { output: unknown }).output })),
    },
  }).createMachine({
    id: 'app',
    context: { output: null, error: null, outcome: null },
    initial: 'on',
    states: {
      on: {
        invoke: {
          id: 'mcp',
          src: 'host',
          systemId: 'mcp',
          onDone: { target: 'off', actions: 'noteOutput' },
          onError: { target: 'off', actions: 'noteError' },
        },
        initial: 'quiet',
        states: {
          quiet: { on: { call: 'calling' } },
          calling: {
            invoke: {
              src: 'call',
              input: { host: 'mcp', name: 'search', args: {} },
              onDone: { target: 'quiet', actions: 'noteOutcome' },
            },
            on: { leave: 'quiet' },
          },
        },
        on: { quit: 'off' },
      },
      off: {},
    },
  });
  const actor = createActor(machine, parts.inspect === undefined ? {} : { inspect: parts.inspect });
  actor.subscribe({ error: () => undefined });
  actor.start();
  actors.push(actor);
  return actor;
}

const child = (actor: ReturnType<typeof start>) => actor.getSnapshot().children['mcp'] as AnyActorRef;
const ready = (actor: ReturnType<typeof start>) =>
  waitFor(child(actor), (snapshot) => snapshot.hasTag('ready'));

describe('a host that an application invokes', () => {
  it('starts by itself, and serves calls as actors', async () => {
    const actor = start({ host: hostLogic({ peers: { one: modernFake().config } }) });
    await ready(actor);
    actor.send({ type: 'call' });
    await waitFor(actor, (snapshot) => snapshot.context.outcome !== null);
    expect(actor.getSnapshot().context.outcome).toMatchObject({ status: 'ok', peer: 'one' });
  });

  it('a call whose state is left is cancelled on the wire', async () => {
    const fake = modernFake({ on: silentCall });
    const actor = start({ host: hostLogic({ peers: { one: fake.config } }) });
    await ready(actor);
    actor.send({ type: 'call' });
    while (fake.methods().at(-1) !== 'tools/call') await Promise.resolve();
    actor.send({ type: 'leave' });
    expect(fake.heard.at(-1)).toMatchObject({
      method: 'notifications/cancelled',
      params: { requestId: fake.heard.at(-2)?.id },
    });
  });

  it('ends with what it started when the state that invokes it is left', async () => {
    const fake = modernFake();
    const actor = start({ host: hostLogic({ peers: { one: fake.config } }) });
    await ready(actor);
    actor.send({ type: 'quit' });
    expect(fake.connections[0]?.closed).toBe(true);
  });

  it('host.stop leads to onDone, with how each peer ended', async () => {
    const actor = start({ host: hostLogic({ peers: { one: modernFake().config } }) });
    await ready(actor);
    child(actor).send({ type: 'host.stop' });
    await waitFor(actor, (snapshot) => snapshot.matches('off'));
    expect(actor.getSnapshot().context.output).toMatchObject({ peers: [{ name: 'one', state: 'stopped' }] });
  });

  it('the stop of a facade ends the actor, although that facade never started it', async () => {
    const actor = start({ host: hostLogic({ peers: { one: modernFake().config } }) });
    await ready(actor);
    await hostOf(child(actor)).stop();
    expect(actor.getSnapshot().value).toBe('off');
    expect(actor.getSnapshot().context.output).toMatchObject({ peers: [{ name: 'one', state: 'stopped' }] });
  });

  it('the start of a facade whose host was ended by its parent rejects', async () => {
    for (const isReady of [true, false]) {
      const actor = start({ host: hostLogic({ peers: { one: modernFake().config } }) });
      if (isReady) await ready(actor);
      const host = hostOf(child(actor));
      actor.send({ type: 'quit' });
      await expect(host.start()).rejects.toThrow('stopped');
      await host.stop();
    }
  });

  it('a start that fails leads to onError, with the typed error and nothing left running', async () => {
    const fake = modernFake();
    const actor = start({
      host: hostLogic({ peers: { one: fake.config, two: modernFake().config }, collisions: 'reject' }),
    });
    await waitFor(actor, (snapshot) => snapshot.matches('off'));
    expect(actor.getSnapshot().context.error).toBeInstanceOf(CollisionError);
    expect(fake.connections[0]?.closed).toBe(true);
  });

  it('emits ready, peer, catalogChanged and conflict', async () => {
    const events: string[] = [];
    const host = createActor(hostLogic({ peers: { one: modernFake().config, two: modernFake().config } }));
    actors.push(host);
    for (const type of ['ready', 'peer', 'catalogChanged', 'conflict'] as const) {
      host.on(type, (event) => events.push(event.type));
    }
    host.start();
    await waitFor(host, (snapshot) => snapshot.hasTag('ready'));
    expect(new Set(events)).toEqual(new Set(['ready', 'peer', 'catalogChanged', 'conflict']));
    await hostOf(host).stop();
  });

  it('gives the same facade as createHost: start awaits what is under way', async () => {
    const actor = start({ host: hostLogic({ peers: { one: modernFake().config } }) });
    const host = hostOf(child(actor));
    expect(host.id).toBe('mcp');
    expect(await host.start()).toMatchObject({ peers: [{ name: 'one', state: 'modern' }] });
    expect(await hostOf(child(actor)).start()).toMatchObject({ peers: [{ state: 'modern' }] });
    await host.stop();
    expect(actor.getSnapshot().value).toBe('off');
  });

  it('is seen whole by the inspector of the parent, with readable system ids', async () => {
    const ids = new Set<string>();
    const inspect = (event: unknown): void => {
      const { actorRef } = event as { actorRef: { systemId?: string } };
      if (actorRef.systemId !== undefined) ids.add(actorRef.systemId);
    };
    const actor = start({ host: hostLogic({ peers: { one: modernFake().config } }), inspect });
    await ready(actor);
    expect([...ids].sort()).toEqual(['mcp', 'mcp/peer:one', 'mcp/peer:one/catalog', 'mcp/registry']);
  });
});

describe('two hosts in one application', () => {
  it('may be invoked under one id in two places', async () => {
    const embedded = () =>
      setup({ actors: { host: hostLogic({ peers: { one: modernFake().config } }) } }).createMachine({
        invoke: { id: 'host', src: 'host' },
      });
    const machine = setup({ actors: { left: embedded(), right: embedded() } }).createMachine({
      invoke: [
        { id: 'left', src: 'left' },
        { id: 'right', src: 'right' },
      ],
    });
    const actor = createActor(machine);
    const errors: unknown[] = [];
    actor.subscribe({ error: (error) => errors.push(error) });
    actors.push(actor);
    actor.start();
    const of = (side: 'left' | 'right') => {
      const { children } = (actor.getSnapshot().children[side] as AnyActorRef).getSnapshot();
      return hostOf(children.host as AnyActorRef);
    };
    await Promise.all([of('left').start(), of('right').start()]);
    expect(errors).toEqual([]);
    expect([of('left').id, of('right').id]).toEqual(['host', 'host~2']);
    await Promise.all([of('left').stop(), of('right').stop()]);
  });

  it('may have peers of equal names', async () => {
    const work = modernFake({ tools: ['work'] });
    const home = legacyFake({ tools: ['home'] });
    const machine = setup({
      actors: {
        work: hostLogic({ peers: { one: work.config } }),
        home: hostLogic({ peers: { one: home.config } }),
      },
    }).createMachine({
      invoke: [
        { id: 'work', src: 'work' },
        { id: 'home', src: 'home' },
      ],
    });
    const actor = createActor(machine);
    actors.push(actor);
    actor.start();
    const of = (id: 'work' | 'home') => hostOf(actor.getSnapshot().children[id] as AnyActorRef);
    await Promise.all([of('work').start(), of('home').start()]);
    expect([...of('work').catalog().entries.keys()]).toEqual(['work']);
    expect([...of('home').catalog().entries.keys()]).toEqual(['home']);
    expect(await of('home').call('home')).toMatchObject({ status: 'ok', era: 'legacy' });
    await Promise.all([of('work').stop(), of('home').stop()]);
  });
});
