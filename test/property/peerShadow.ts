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
  readonly plan: Plan;
  isAlive: boolean;
}

/** What the model says of one step. */
interface Expected {
  readonly effects: Effects;
  /** Whether the child that the chart stops is still there to notice. */
  readonly noticesStop: boolean;
  readonly remembered: string;
  readonly problem: string | null;
}

/** Plays the children for the model. */
export class Shadow {
  readonly model: PeerModel;
  readonly plans: Plan[] = [];
  expected: Expected[] = [];
  private instance: Instance | null = null;
  private child: ChildName | null = null;

  constructor(model: PeerModel) {
    this.model = model;
  }

  get running(): ChildName | null {
    return this.instance?.isAlive === true ? this.child : null;
  }

  take(stimulus: Stimulus, world: World, from: number): void {
    this.settle(stimulus, world.clock.now(), world, from);
  }

  fault(child: ChildName, how: 'throws' | 'reports', world: World, from: number): void {
    if (how === 'throws' && this.instance !== null) this.instance.isAlive = false;
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
      let noticesStop = false;
      if (effects.stopped !== null && this.instance !== null) {
        noticesStop = this.instance.isAlive;
        if (noticesStop && this.instance.plan.throwsAtStop)
          queue.push({ type: 'fault', child: effects.stopped });
        this.instance = null;
      }
      if (effects.started !== null) {
        const plan = this.plans.shift() ?? silent;
        this.child = effects.started.child;
        this.instance = { plan, isAlive: !plan.throwsAtStart };
        queue.push(...plan.answers);
        if (plan.throwsAtStart) queue.push({ type: 'fault', child: this.child });
      }
      const { backoff } = model;
      const isFair = backoff === null || (drawn >= backoff.min && drawn <= backoff.max);
      const problem = isFair ? null : `a wait of ${drawn} ms, not within ${backoff.min} to ${backoff.max}`;
      this.expected.push({
        effects,
        noticesStop,
        remembered: remembered(model.state, model, model.reason),
        problem,
      });
    }
  }
}

interface Remembered extends Pick<PeerContext, 'era' | 'revision' | 'server' | 'curable' | 'probeRevision'> {
  readonly corrected: boolean;
  readonly attempts: number;
  readonly modernSeen: boolean;
}

/** What model and context both remember, as one text that can be compared and read. */
function remembered(state: PeerStateName, facts: Remembered, reason: string | null): string {
  const { era, revision, server, curable, probeRevision, corrected, attempts, modernSeen } = facts;
  const what = `${state}, ${era} ${revision} ${server?.name} ${server?.version}, reason ${reason}`;
  const flags = `${curable ? ' curable' : ''}${corrected ? ' corrected' : ''}${modernSeen ? ' modernSeen' : ''}`;
  return `${what}, probes ${probeRevision}, ${attempts} attempts${flags}`;
}

/** Where chart and model part in the steps since `from`, or null. */
export function compare(world: World, shadow: Shadow, from: number): string | null {
  if (world.died !== null) return world.died;
  const { expected, model } = shadow;
  for (const [index, wanted] of expected.entries()) {
    const step = world.trace[from + index];
    if (step === undefined)
      return `the model takes a step that the chart does not take: ${wanted.remembered}`;
    const actual = remembered(step.to, step.context, step.context.reason?.code ?? null);
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
  return alive === (shadow.running ?? '') ? null : `the chart runs [${alive}], the model [${shadow.running}]`;
}

function compareEffects(step: PeerStep, { effects, noticesStop }: Expected): string | null {
  if (step.released !== effects.released) {
    return effects.released ? 'the connection was not released' : 'the connection was released';
  }
  const stopped = noticesStop ? (effects.stopped ?? '') : '';
  if (step.stopped.join() !== stopped) return `stopped [${step.stopped.join()}] instead of [${stopped}]`;
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
