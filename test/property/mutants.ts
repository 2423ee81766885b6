/**
 * Every small change of a chart: what its tests must notice. Made from the chart's own configuration, so that a new
 * edge brings its mutants with it.
 */
import { not, StateMachine } from 'xstate';
import { createPeerMachine } from '../../src/machines/peerMachine.js';
import type { PeerMachine } from './peerRig.js';

interface Branch {
  target?: string;
  guard?: unknown;
  reenter?: boolean;
  actions: unknown[];
}

interface Node {
  initial?: string;
  type?: string;
  tags: string[];
  entry: unknown[];
  exit: unknown[];
  invoke?: { src: string; input?: unknown };
  on: Record<string, Branch[]>;
  after: Record<string, Branch[]>;
  states: Record<string, Node>;
}

export interface Mutant {
  /** The state that was changed, or `root`. */
  readonly about: string;
  /** State, event and branch, and the change. */
  readonly name: string;
  readonly build: (random: () => number) => PeerMachine;
  /** Why the change changes nothing, where that follows from the structure alone. */
  readonly equivalent?: string;
}

type Change = (root: Node) => void;

const machine = createPeerMachine();
const guards = Object.keys(machine.implementations.guards);
const delays = Object.keys(machine.implementations.delays);
const actors = Object.keys(machine.implementations.actors);

const listOf = (value: unknown): unknown[] =>
  value === undefined ? [] : Array.isArray(value) ? [...value] : [value];

function branchesOf(group: unknown): Record<string, Branch[]> {
  const entries = Object.entries((group ?? {}) as Record<string, unknown>);
  return Object.fromEntries(
    entries.map(([key, value]) => [
      key,
      listOf(value).map((branch) => {
        const copy = typeof branch === 'string' ? { target: branch } : { ...(branch as Branch) };
        return { ...copy, actions: listOf((copy as Branch).actions) };
      }),
    ]),
  );
}

/** A copy in one shape, with functions kept as they are. */
function copyOf(config: Record<string, unknown>): Node {
  const states = Object.entries((config['states'] ?? {}) as Record<string, Record<string, unknown>>);
  const copy = {
    ...config,
    tags: listOf(config['tags']),
    entry: listOf(config['entry']),
    exit: listOf(config['exit']),
    on: branchesOf(config['on']),
    after: branchesOf(config['after']),
    states: Object.fromEntries(states.map(([key, state]) => [key, copyOf(state)])),
    ...(config['invoke'] !== undefined && { invoke: { ...(config['invoke'] as object) } }),
  };
  return copy as unknown as Node;
}

const original = copyOf(machine.config as unknown as Record<string, unknown>);
const stateNames = Object.keys(original.states);

function nodeOf(root: Node, state: string): Node {
  return state === 'root' ? root : (root.states[state] as Node);
}

function isEmpty(node: Node): boolean {
  return Object.keys(node.states).length === 0;
}

function mutant(about: string, name: string, change: Change, equivalent?: string): Mutant {
  return {
    about,
    name: `${about}: ${name}`,
    ...(equivalent !== undefined && { equivalent }),
    build(random) {
      const root = copyOf(machine.config as unknown as Record<string, unknown>);
      change(root);
      const prune = (node: Node): void => {
        for (const child of Object.values(node.states)) prune(child);
        if (isEmpty(node)) delete (node as Partial<Node>).states;
      };
      prune(root);
      const { implementations } = createPeerMachine(random);
      return new StateMachine(root as never, implementations as never) as unknown as PeerMachine;
    },
  };
}

function* branchMutants(state: string, group: 'on' | 'after', key: string, index: number): Generator<Mutant> {
  const branch = nodeOf(original, state)[group][key]?.[index] as Branch;
  const where = `${key}[${index}]`;
  const change = (
    name: string,
    edit: (branch: Branch, branches: Branch[]) => void,
    equivalent?: string,
  ): Mutant =>
    mutant(
      state,
      `${where} ${name}`,
      (root) => {
        const branches = nodeOf(root, state)[group][key] as Branch[];
        edit(branches[index] as Branch, branches);
      },
      equivalent,
    );
  yield change('dropped', (_branch, branches) => {
    branches.splice(index, 1);
  });
  const prefix = state === 'root' ? '.' : '';
  for (const target of stateNames) {
    if (`${prefix}${target}` === branch.target) continue;
    const isSame = target === state && branch.target === undefined && branch.reenter !== true;
    yield change(
      `leads to ${target}`,
      (edited) => {
        edited.target = `${prefix}${target}`;
      },
      isSame ? 'a state that is its own target and is not re-entered is the same as no target' : undefined,
    );
  }
  if (branch.target !== undefined) {
    yield change('leads nowhere', (edited) => {
      delete edited.target;
    });
  }
  yield change(
    branch.reenter === true ? 'does not re-enter' : 're-enters',
    (edited) => {
      edited.reenter = branch.reenter !== true;
    },
    branch.target === state ? undefined : 'only a state that is its own target can be re-entered',
  );
  if (branch.guard !== undefined) {
    yield change('is not guarded', (edited) => {
      delete edited.guard;
    });
    yield change('has its guard negated', (edited) => {
      edited.guard = not(branch.guard as never);
    });
  }
  for (const guard of guards) {
    if (guard === branch.guard) continue;
    yield change(`is guarded by ${guard}`, (edited) => {
      edited.guard = guard;
    });
  }
  for (const [position, action] of branch.actions.entries()) {
    yield change(`lacks ${String(action)}`, (edited) => {
      edited.actions.splice(position, 1);
    });
  }
}

function* nodeMutants(state: string): Generator<Mutant> {
  const node = nodeOf(original, state);
  for (const group of ['on', 'after'] as const) {
    for (const [key, branches] of Object.entries(node[group])) {
      for (const index of branches.keys()) yield* branchMutants(state, group, key, index);
    }
  }
  // A verdict that is taken for another.
  const events = Object.keys(node.on);
  for (const [position, one] of events.entries()) {
    for (const other of events.slice(position + 1)) {
      const isSame = JSON.stringify(node.on[one]) === JSON.stringify(node.on[other]);
      yield mutant(
        state,
        `${one} and ${other} confused`,
        (root) => {
          const { on } = nodeOf(root, state);
          [on[one], on[other]] = [on[other] as Branch[], on[one] as Branch[]];
        },
        isSame ? 'both have the same edges' : undefined,
      );
    }
  }
  for (const key of Object.keys(node.after)) {
    for (const delay of delays.filter((other) => other !== key)) {
      yield mutant(state, `waits for ${delay} instead of ${key}`, (root) => {
        const edited = nodeOf(root, state);
        edited.after = { [delay]: edited.after[key] as Branch[] };
      });
    }
  }
  for (const when of ['entry', 'exit'] as const) {
    for (const [position, action] of node[when].entries()) {
      yield mutant(state, `${when} lacks ${String(action)}`, (root) => {
        nodeOf(root, state)[when].splice(position, 1);
      });
    }
  }
  for (const [position, tag] of node.tags.entries()) {
    yield mutant(state, `lacks the tag ${tag}`, (root) => {
      nodeOf(root, state).tags.splice(position, 1);
    });
  }
  const { invoke } = node;
  if (invoke !== undefined) {
    yield mutant(state, `does not invoke ${invoke.src}`, (root) => {
      delete nodeOf(root, state).invoke;
    });
    for (const src of actors.filter((other) => other !== invoke.src)) {
      yield mutant(state, `invokes ${src} instead of ${invoke.src}`, (root) => {
        (nodeOf(root, state).invoke as { src: string }).src = src;
      });
    }
    if (invoke.input !== undefined) {
      yield mutant(state, `gives ${invoke.src} no input`, (root) => {
        delete nodeOf(root, state).invoke?.input;
      });
    }
  }
  if (node.initial !== undefined) {
    for (const initial of stateNames.filter((other) => other !== node.initial)) {
      yield mutant(state, `begins in ${initial}`, (root) => {
        root.initial = initial;
      });
    }
  }
  if (node.type === 'final') {
    yield mutant(state, 'is not final', (root) => {
      delete nodeOf(root, state).type;
    });
  }
}

/** All mutants of the peer chart, in the order of the chart. */
export function peerMutants(): readonly Mutant[] {
  return ['root', ...stateNames].flatMap((state) => [...nodeMutants(state)]);
}
