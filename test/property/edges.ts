/** The edges of a chart: a state, an event that it takes itself or that the root takes for it, and which branch. */
import type { AnyStateMachine, AnyTransitionDefinition } from 'xstate';
import type { Coverage } from './peerRig.js';

/** States in which an event of the root cannot occur: no child has run yet. */
const impossible = new Set(['idle: xstate.error.actor.*[0]']);

function edgesOf(machine: AnyStateMachine): Map<AnyTransitionDefinition, string> {
  const names = new Map<AnyTransitionDefinition, string>();
  for (const node of [machine.root, ...Object.values(machine.root.states)]) {
    for (const [event, branches] of node.transitions) {
      for (const [index, transition] of branches.entries()) {
        const short = event.replace(/\.peer\.\w+$/, '');
        names.set(transition, `${short}[${index}]`);
      }
    }
  }
  return names;
}

/** Every edge by name: `state: event[branch]`. */
export function allEdges(machine: AnyStateMachine): readonly string[] {
  const edges: string[] = [];
  const names = edgesOf(machine);
  const nameOf = (transition: AnyTransitionDefinition): string => names.get(transition) ?? '';
  for (const state of Object.values(machine.root.states)) {
    if (state.type === 'final') continue;
    for (const branches of state.transitions.values()) {
      for (const transition of branches) edges.push(`${state.key}: ${nameOf(transition)}`);
    }
    for (const [event, branches] of machine.root.transitions) {
      if (state.transitions.has(event)) continue;
      for (const transition of branches) edges.push(`${state.key}: ${nameOf(transition)}`);
    }
  }
  return edges.filter((edge) => !impossible.has(edge)).sort();
}

/** The edges that were taken, by the same names. */
export function edgesTaken(machine: AnyStateMachine, coverage: Coverage): ReadonlySet<string> {
  const names = edgesOf(machine);
  const taken = new Set<string>();
  for (const [transition, states] of coverage) {
    for (const state of states)
      taken.add(`${state}: ${names.get(transition) ?? 'an edge that is not in the chart'}`);
  }
  return taken;
}
