import type { AnyStateMachine } from 'xstate';

export interface ChartState {
  readonly id: string;
  readonly key: string;
  readonly type: 'atomic' | 'compound' | 'parallel' | 'final' | 'history';
  readonly description: string;
  /** Rules and addresses that the state is bound to. */
  readonly spec: readonly string[];
  readonly tags: readonly string[];
  readonly initial: string | null;
  readonly entry: readonly string[];
  readonly exit: readonly string[];
  readonly invokes: readonly string[];
  readonly states: readonly ChartState[];
}

export interface ChartEdge {
  readonly from: string;
  /** Null for a transition that stays where it is. */
  readonly to: string | null;
  readonly kind: 'event' | 'after' | 'always' | 'done' | 'error';
  readonly event: string;
  readonly guard: string | null;
  readonly actions: readonly string[];
  /** The place among the transitions for the same event; the first whose guard holds is taken. */
  readonly order: number;
}

export interface Chart {
  readonly name: string;
  readonly root: ChartState;
  readonly edges: readonly ChartEdge[];
}

export function toChart(machine: AnyStateMachine, name?: string): Chart;
export function toMermaid(chart: Chart): string;
export function toDot(chart: Chart): string;
export function edgeLabel(edge: ChartEdge): string;
export function colourOf(state: ChartState): { readonly fill: string; readonly line: string };
