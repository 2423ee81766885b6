/** The model's side of one run: plays the children for it, and says where the chart parts from it. */
import type { PeerStateName } from '../../src/host/facade.js';
import type { PeerContext } from '../../src/machines/ports.js';
import {
  type ChildName,
  type Effects,
  type PeerModel,
  type Stimulus,
  tagsOf,
} from '../../src/testing/peerModel.js';
import type { PeerStep } from '../../src/testing/peerRules.js';
import type { Plan, World } from './peerRig.js';

export const silent: Plan = { answers: [], throwsAtStart: false, throwsAtStop: false };

interface Instance {
  readonly child: ChildName;
  readonly plan: Plan;
  isAlive: boolean;
}

/** What the model says of one step. */
interface Expected {
  readonly effects: Effects;
  /** Those of the stopped children that are still there to notice. */
  readonly notice: readonly ChildName[];
  /** Whether the child that is told something is still there to hear it. */
  readonly hears: boolean;
  readonly remembered: string;
  readonly problem: string | null;
}

/** Plays the children for the model. */
export class Shadow {
  readonly model: PeerModel;
  readonly plans: Plan[] = [];
  expected: Expected[] = [];
  private instances: Instance[] = [];

  constructor(model: PeerModel) {
    this.model = model;
  }

  /** Those that run, the oldest first. */
  get running(): readonly ChildName[] {
    return this.instances.filter(({ isAlive }) => isAlive).map(({ child }) => child);
  }

  take(stimulus: Stimulus, world: World, from: number): void {
    this.settle(stimulus, world.clock.now(), world, from);
  }

  fault(child: ChildName, how: 'throws' | 'reports', world: World, from: number): void {
    const instance = this.instances.find((other) => other.child === child);
    if (how === 'throws' && instance !== undefined) instance.isAlive = false;
    this.take({ type: 'fault', child }, world, from);
  }

  advance(to: number, world: World, from: number): void {
    const { model } = this;
    while (model.deadlineMs !== null && model.deadlineMs <= to && model.state !== 'stopped') {
      this.settle({ type: 'deadline' }, model.deadlineMs, world, from);
    }
  }

  /** One stimulus and what children make of it. */
  private settle(first: Stimulus, nowMs: number, world: World, from: number): void {
    const { model } = this;
    const queue: Stimulus[] = [first];
    for (let stimulus = queue.shift(); stimulus !== undefined; stimulus = queue.shift()) {
      if (model.state === 'stopped') return;
      const drawn = world.trace[from + this.expected.length]?.context.backoffMs ?? Number.NaN;
      const effects = model.take(stimulus, nowMs, drawn);
      const notice: ChildName[] = [];
      for (const instance of this.instances.filter(({ child }) => effects.stopped.includes(child))) {
        if (!instance.isAlive) continue;
        notice.push(instance.child);
        if (instance.plan.throwsAtStop) queue.push({ type: 'fault', child: instance.child });
      }
      this.instances = this.instances.filter(({ child }) => !effects.stopped.includes(child));
      if (effects.started !== null) {
        const plan = this.plans.shift() ?? silent;
        const { child } = effects.started;
        this.instances.push({ child, plan, isAlive: !plan.throwsAtStart });
        queue.push(...plan.answers);
        if (plan.throwsAtStart) queue.push({ type: 'fault', child });
      }
      const hears = this.running.some((child) => effects.told?.startsWith(`${child} `));
      const { backoff } = model;
      const isFair = backoff === null || (drawn >= backoff.min && drawn <= backoff.max);
      const problem = isFair ? null : `a wait of ${drawn} ms, not within ${backoff.min} to ${backoff.max}`;
      this.expected.push({
        effects,
        notice,
        hears,
        remembered: remembered(model.state, model, model.reason, model),
        problem,
      });
    }
  }
}

type Remembered = Pick<
  PeerContext,
  'era' | 'revision' | 'server' | 'curable' | 'probeRevision' | 'corrected' | 'attempts' | 'modernSeen'
>;

/** What is said in other words here and there. */
interface Besides {
  readonly turnAsked: boolean;
  readonly isStable: boolean;
  readonly shortLives: number;
  readonly isCrashLoop: boolean;
}

function besides({ turnAsked, stable, shortLives, reason }: PeerContext): Besides {
  return {
    turnAsked: turnAsked === true,
    isStable: stable === true,
    shortLives: shortLives ?? Number.NaN,
    isCrashLoop: reason?.message.includes(' times in a row') === true,
  };
}

/** What model and context both remember, as one text that can be compared and read. */
function remembered(
  state: PeerStateName,
  facts: Remembered,
  reason: string | null,
  { turnAsked, isStable, shortLives, isCrashLoop }: Besides,
): string {
  const { era, revision, server, curable, probeRevision, corrected, attempts, modernSeen } = facts;
  const what = `${state}, ${era} ${revision} ${server?.name} ${server?.version}, reason ${reason}`;
  const flags = `${curable ? ' curable' : ''}${corrected ? ' corrected' : ''}${modernSeen ? ' modernSeen' : ''}`;
  const more = `${turnAsked ? ' due' : ''}${isStable ? ' stable' : ''}${isCrashLoop ? ' loops' : ''}`;
  return `${what}, probes ${probeRevision}, ${attempts} attempts, ${shortLives} short lives${flags}${more}`;
}

/** Where chart and model part in the steps since `from`, or null. */
export function compare(world: World, shadow: Shadow, from: number): string | null {
  if (world.died !== null) return world.died;
  const { expected, model } = shadow;
  for (const [index, wanted] of expected.entries()) {
    const step = world.trace[from + index];
    if (step === undefined)
      return `the model takes a step that the chart does not take: ${wanted.remembered}`;
    const { context } = step;
    const actual = remembered(step.to, context, context.reason?.code ?? null, besides(context));
    const what = `${step.event.type} in ${step.from}`;
    if (actual !== wanted.remembered)
      return `${what}: the model says ${wanted.remembered}, the chart ${actual}`;
    if (wanted.problem !== null) return `${what}: ${wanted.problem}`;
    const effects = compareEffects(step, wanted);
    if (effects !== null) return `${what}: ${effects}`;
    const tags = tagsOf[step.to];
    if (step.tags.size !== tags.length || !tags.every((tag) => step.tags.has(tag))) {
      return `${what}: tags ${[...step.tags].join()} instead of ${tags.join()}`;
    }
  }
  const extra = world.trace[from + expected.length];
  if (extra !== undefined) return `the chart takes a step that the model does not take: ${extra.event.type}`;
  // A timer that will decide to do nothing is allowed where the model waits for nothing.
  if (model.deadlineMs !== null && world.clock.nextDueMs !== model.deadlineMs) {
    return `in ${model.state} a deadline at ${model.deadlineMs} ms, the chart's at ${world.clock.nextDueMs} ms`;
  }
  const alive = world.alive.join();
  const running = shadow.running.join();
  return alive === running ? null : `the chart runs [${alive}], the model [${running}]`;
}

function compareEffects(step: PeerStep, { effects, notice, hears }: Expected): string | null {
  if (step.released !== effects.released) {
    return effects.released ? 'the connection was not released' : 'the connection was released';
  }
  const stopped = [...step.stopped].sort().join();
  const noticed = [...notice].sort().join();
  if (stopped !== noticed) return `stopped [${stopped}] instead of [${noticed}]`;
  const told = hears ? (effects.told ?? '') : '';
  if (step.told.join() !== told) return `told [${step.told.join()}] instead of [${told}]`;
  const [started, more] = step.started;
  if (more !== undefined) return `started ${more.child} as well`;
  const wanted = effects.started;
  if (started === undefined || wanted === null) {
    return started === undefined && wanted === null
      ? null
      : `started ${started?.child ?? 'nothing'} instead of ${wanted?.child ?? 'nothing'}`;
  }
  const isSame =
    started.child === wanted.child &&
    started.fresh === wanted.fresh &&
    started.revision === wanted.revision &&
    started.correction === wanted.correction;
  return isSame ? null : `started ${JSON.stringify(started)} instead of ${JSON.stringify(wanted)}`;
}
