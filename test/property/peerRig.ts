/** Runs one script of commands on a chart and on the model side by side, and records what the chart did. */
import {
  type AnyTransitionDefinition,
  createActor,
  enqueueActions,
  fromCallback,
  type InspectionEvent,
  type SnapshotFrom,
} from 'xstate';
import type { PeerStateName } from '../../src/host/facade.js';
import type { breakerMachine } from '../../src/machines/breakerMachine.js';
import type { catalogMachine } from '../../src/machines/catalogMachine.js';
import type { createPeerMachine } from '../../src/machines/peerMachine.js';
import type { CatalogInput, PeerEvent, PeerTag, ProbeInput } from '../../src/machines/ports.js';
import type { subscriptionMachine } from '../../src/machines/subscriptionMachine.js';
import { createSimulatedClock, type SimulatedClock } from '../../src/testing/clock.js';
import {
  type ChildName,
  isModernEvidence,
  PeerModel,
  type PeerModelOptions,
  type Started,
} from '../../src/testing/peerModel.js';
import type { PeerStep } from '../../src/testing/peerRules.js';
import { compare, Shadow, silent } from './peerShadow.js';

export type PeerMachine = ReturnType<typeof createPeerMachine>;

type PeerSnapshot = SnapshotFrom<PeerMachine>;

/** How the next child behaves; without one it is silent. */
export interface Plan {
  /** Sent before the child's start returns. */
  readonly answers: readonly PeerEvent[];
  readonly throwsAtStart: boolean;
  readonly throwsAtStop: boolean;
}

export type Command =
  | { readonly kind: 'send'; readonly event: PeerEvent }
  | { readonly kind: 'advance'; readonly ms: number }
  /** To the deadline of the state, or `offsetMs` from it. */
  | { readonly kind: 'deadline'; readonly offsetMs: -1 | 0 | 1 }
  /** The child that was started last fails: it throws, or reports a fault of its own as an event. */
  | { readonly kind: 'fault'; readonly how: 'throws' | 'reports' }
  | { readonly kind: 'plan'; readonly plan: Plan };

export interface Run {
  readonly options: PeerModelOptions;
  readonly trace: readonly PeerStep[];
  /** Where chart and model part, or null. */
  readonly problem: string | null;
}

/** A recorded step, while its effects still come in. */
interface OpenStep extends PeerStep {
  readonly stopped: ChildName[];
  readonly started: Started[];
  readonly told: string[];
}

/** Edges taken: the chart's transition objects, and the states they were taken in. */
export type Coverage = Map<AnyTransitionDefinition, Set<string>>;

/** The chart's side of one run. */
export class World {
  readonly options: PeerModelOptions;
  readonly clock: SimulatedClock = createSimulatedClock(1_000);
  readonly trace: OpenStep[] = [];
  readonly plans: Plan[] = [];
  alive: ChildName[] = [];
  died: string | null = null;
  isOver = false;
  hasConnection = false;
  hasReleased = false;
  /** The ledger: modern evidence that reached the owner, and `initialize` requests of this negotiation. */
  isForbidden = false;
  initializeSent = 0;
  lastEvent = '';
  state: PeerStateName = 'idle';
  draws: number;
  report: ((event: PeerEvent) => void) | null = null;

  constructor(options: PeerModelOptions, seed: number) {
    this.options = options;
    this.draws = seed;
  }

  draw(): number {
    this.draws += 1;
    return [0, 0.999_999_9, 0.5][this.draws % 3] as number;
  }

  started(child: ChildName, input: ProbeInput | undefined): void {
    if (child === 'probe' && !continues(this.lastEvent)) this.initializeSent = 0;
    if (child === 'initialize') this.initializeSent += 1;
    this.trace.at(-1)?.started.push({
      child,
      fresh: !this.hasConnection,
      revision: child === 'probe' ? (input?.revision ?? null) : null,
      correction: child === 'probe' && input?.correction === true,
    });
    this.hasConnection = true;
    this.alive.push(child);
  }

  stopped(child: ChildName): void {
    this.trace.at(-1)?.stopped.push(child);
    this.alive = this.alive.filter((other) => other !== child);
  }

  crashed(child: ChildName): void {
    this.alive = this.alive.filter((other) => other !== child);
  }
}

function catalogName({ kind }: CatalogInput): ChildName {
  return kind === 'tools' ? 'catalog' : `catalog:${kind}`;
}

function continues(type: string): boolean {
  return type === 'discover.unsupportedVersion' || type === 'discover.correctable';
}

/** A chart with parts that are played by a script. */
export class PeerRig {
  readonly machine: PeerMachine;
  /** The chart, with each of its transitions recorded: an inspector would cost half as much as the chart itself. */
  private readonly logic: PeerMachine;
  private world: World = new World({} as PeerModelOptions, 0);

  /** @param build gets the source of chance of the chart */
  constructor(build: (random: () => number) => PeerMachine) {
    this.machine = build(() => this.world.draw()).provide({
      actors: {
        probe: this.child<ProbeInput>('probe'),
        initialize: this.child('initialize'),
        // Only their names, their input and their failing matter here.
        catalog: this.child<CatalogInput>('catalog') as unknown as typeof catalogMachine,
        subscription: this.child('subscription') as unknown as typeof subscriptionMachine,
        breaker: this.child('breaker') as unknown as typeof breakerMachine,
      },
      guards: {
        mayProbeLegacy: () => {
          const { options, isForbidden, initializeSent } = this.world;
          return options.isGuardOverridden || (options.allowLegacy && !isForbidden && initializeSent === 0);
        },
      },
      actions: {
        releaseConnection: () => {
          this.world.hasReleased ||= this.world.hasConnection;
          this.world.hasConnection = false;
        },
        requestTurn: enqueueActions(({ enqueue }) => {
          if (!this.world.options.turnsComeLater) enqueue.raise({ type: 'turn.granted' } as never);
        }) as never,
      },
    });
    const { machine } = this;
    const transition: PeerMachine['transition'] = (before, event, scope) => {
      const after = machine.transition(before, event, scope);
      this.record(event, before, after);
      return after;
    };
    this.logic = Object.create(machine, { transition: { value: transition } });
  }

  /**
   * @param next the next command, given the model as it stands; null ends the script
   * @param seed where the chart's chance begins
   * @param coverage gets the edges that are taken
   */
  run(
    options: PeerModelOptions,
    seed: number,
    next: (model: PeerModel) => Command | null,
    coverage?: Coverage,
  ): Run {
    const world = new World(options, seed);
    this.world = world;
    const model = new PeerModel(options);
    const shadow = new Shadow(model);
    const actor = createActor(this.logic, {
      input: options,
      clock: world.clock,
      ...(coverage !== undefined && {
        inspect: (event: InspectionEvent) => noteEdges(event, coverage, world.state),
      }),
    });
    actor.subscribe({ error: () => {} });
    actor.start();
    const children = (): Record<string, { send(event: { type: string }): void } | undefined> =>
      actor.getSnapshot().children as never;

    let problem = actor.getSnapshot().value === 'idle' ? null : 'a peer begins idle';
    while (problem === null && model.state !== 'stopped') {
      const command = next(model);
      if (command === null) break;
      const from = world.trace.length;
      shadow.expected = [];
      switch (command.kind) {
        case 'send':
          actor.send(command.event);
          shadow.take(command.event, world, from);
          break;
        case 'plan':
          world.plans.push(command.plan);
          shadow.plans.push(command.plan);
          break;
        case 'fault': {
          const child = shadow.running.at(-1);
          if (child === undefined) break;
          if (command.how === 'throws') children()[child]?.send({ type: 'test.fault' });
          else world.report?.(faultEvent(child));
          shadow.fault(child, command.how, world, from);
          break;
        }
        default: {
          const now = world.clock.now();
          const to =
            command.kind === 'advance'
              ? now + command.ms
              : Math.max(now, (model.deadlineMs ?? now + 1) + command.offsetMs);
          world.clock.advanceTo(to);
          shadow.advance(to, world, from);
        }
      }
      if (actor.getSnapshot().status === 'error') world.died = 'the chart died';
      problem = compare(world, shadow, from);
      if (problem !== null) problem = `${describe(command)}: ${problem}`;
    }
    if (problem === null && model.state === 'stopped') problem = this.checkStopped(world, actor);
    world.isOver = true;
    actor.stop();
    return { options, trace: world.trace, problem };
  }

  /** Nothing is left of a stopped peer, and nothing wakes it. */
  private checkStopped(world: World, actor: { send(event: PeerEvent): void }): string | null {
    const steps = world.trace.length;
    actor.send({ type: 'host.start' });
    world.report?.({ type: 'peer.modernEvidence' });
    world.clock.advance(100_000);
    if (world.trace.length !== steps) return 'a stopped peer reacts';
    if (world.clock.pendingTimers > 0) return 'a stopped peer has a timer';
    return world.alive.length > 0 ? `a stopped peer runs ${world.alive.join()}` : null;
  }

  private child<TInput = undefined>(role: ChildName) {
    return fromCallback<PeerEvent, TInput>(({ input, sendBack, receive }) => {
      const { world } = this;
      const name = role === 'catalog' ? catalogName(input as CatalogInput) : role;
      const plan = world.plans.shift() ?? silent;
      world.started(name, input as ProbeInput | undefined);
      world.report = sendBack;
      receive(({ type }) => {
        if ((type as string) !== 'test.fault') {
          world.trace.at(-1)?.told.push(`${name} ${type}`);
          return;
        }
        world.crashed(name);
        throw new Error('injected fault');
      });
      for (const answer of plan.answers) sendBack(answer);
      if (plan.throwsAtStart) {
        world.crashed(name);
        throw new Error('injected fault');
      }
      return () => {
        world.stopped(name);
        if (plan.throwsAtStop && !world.isOver) throw new Error('injected fault');
      };
    });
  }

  private record(event: { readonly type: string }, before: PeerSnapshot, after: PeerSnapshot): void {
    const { world } = this;
    if (world.isOver) return;
    if (isModernEvidence(event.type)) world.isForbidden = true;
    world.lastEvent = event.type;
    // A deadline at which the chart decides to do nothing is no step.
    if (after === before && event.type.startsWith('xstate.after.')) return;
    const from = world.state;
    world.state = after.value as PeerStateName;
    world.trace.push({
      atMs: world.clock.now(),
      event,
      from,
      to: world.state,
      context: after.context,
      tags: after.tags as ReadonlySet<PeerTag>,
      released: world.hasReleased,
      stopped: [],
      started: [],
      told: [],
      running: Object.keys(after.children) as ChildName[],
    });
    world.hasReleased = false;
  }
}

/** The only place where a re-entry can be seen. */
function noteEdges(inspected: InspectionEvent, coverage: Coverage, from: PeerStateName): void {
  if (inspected.type !== '@xstate.microstep') return;
  for (const transition of inspected._transitions) {
    const states = coverage.get(transition);
    if (states === undefined) coverage.set(transition, new Set([from]));
    else states.add(from);
  }
}

/** The event by which a child's fault reaches its parent, as the owner of a peer sends it. */
function faultEvent(child: ChildName): PeerEvent {
  const event = { type: `xstate.error.actor.${child}`, error: new Error('injected fault'), actorId: child };
  return event as unknown as PeerEvent;
}

export function describe(command: Command): string {
  switch (command.kind) {
    case 'send':
      return JSON.stringify(command.event);
    case 'advance':
      return `${command.ms} ms pass`;
    case 'deadline':
      return `the deadline ${command.offsetMs < 0 ? 'minus 1 ms' : command.offsetMs > 0 ? 'plus 1 ms' : 'is reached'}`;
    case 'fault':
      return `the running child ${command.how} a fault`;
    case 'plan':
      return `the next child: ${JSON.stringify(command.plan)}`;
  }
}
