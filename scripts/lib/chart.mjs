// A machine as a neutral chart, and that chart as text for Mermaid and Graphviz.
//
// A chart is plain data in the order of the definition's states, its edges sorted, and it holds nothing that
// differs between two runs. What cannot be named cannot be read in a chart, so an inline guard, function or
// actor is an error that says where it stands.

/** Which tag colours a state: the first of these that it has. */
const colours = [
  ['failed', { fill: '#fdecea', line: '#b3261e' }],
  ['callable', { fill: '#e6f4ea', line: '#1e7e34' }],
  ['negotiating', { fill: '#e8f0fe', line: '#1a56b0' }],
  ['settled', { fill: '#f1f3f4', line: '#5f6368' }],
];
const plain = { fill: '#ffffff', line: '#3c4043' };
const ink = '#202124';
/** How a transition of each kind is drawn, the strongest first: what nobody sent is dashed. */
const strokes = {
  event: { color: '#3c4043', style: 'solid' },
  always: { color: '#3c4043', style: 'solid' },
  done: { color: '#3c4043', style: 'solid' },
  after: { color: '#8a5a00', style: 'dashed' },
  error: { color: '#b3261e', style: 'dashed' },
};
const kinds = Object.keys(strokes);

export const colourOf = (state) => colours.find(([tag]) => state.tags.includes(tag))?.[1] ?? plain;

/** Reads an XState 5 machine. */
export function toChart(machine, name = machine.id) {
  const edges = [];
  const root = readState(machine.root, edges, name);
  edges.sort((a, b) => compare(sortKey(a), sortKey(b)));
  return { name, root, edges };
}

function readState(node, edges, name) {
  const where = `${name}, state ${node.id}`;
  const invokes = node.invoke.map(({ id, src }) => ({ id, src: actorName(src, where) }));
  for (const [eventType, transitions] of [...node.transitions, ['', node.always ?? []]])
    transitions.forEach((transition, order) => {
      edges.push({
        from: node.id,
        to: transition.target?.[0]?.id ?? null,
        ...trigger(eventType, invokes),
        guard: transition.guard === undefined ? null : guardName(transition.guard, `${where}, ${eventType}`),
        actions: actionNames(transition.actions, `${where}, ${eventType}`),
        // The first transition whose guard holds is taken: their order is part of their meaning.
        order,
      });
    });
  return {
    id: node.id,
    key: node.key,
    type: node.type,
    description: (node.description ?? '').replace(/\s+/g, ' ').trim(),
    spec: [node.meta?.spec ?? []].flat(),
    tags: [...node.tags].sort(compare),
    initial: node.type === 'compound' ? (node.initial.target?.[0]?.id ?? null) : null,
    entry: actionNames(node.entry, `${where}, entry`),
    exit: actionNames(node.exit, `${where}, exit`),
    invokes: invokes.map(({ src }) => src),
    states: Object.values(node.states).map((child) => readState(child, edges, name)),
  };
}

/** What makes a transition happen, in the words of the machine and not of the library. */
function trigger(eventType, invokes) {
  if (eventType === '') return { kind: 'always', event: 'always' };
  const [, delay] = /^xstate\.after\.([^.]+)\./.exec(eventType) ?? [];
  if (delay !== undefined)
    return { kind: 'after', event: `after ${/^\d+$/.test(delay) ? `${delay} ms` : delay}` };
  if (eventType.startsWith('xstate.done.state.')) return { kind: 'done', event: 'done' };
  const [, outcome, id] = /^xstate\.(done|error)\.actor\.(.+)$/.exec(eventType) ?? [];
  if (id === undefined) return { kind: 'event', event: eventType };
  const actor = id === '*' ? 'any actor' : (invokes.find((invoke) => invoke.id === id)?.src ?? id);
  return { kind: outcome, event: `${actor} ${outcome === 'done' ? 'done' : 'failed'}` };
}

function actorName(src, where) {
  // XState gives an inline actor an id of its own making.
  if (typeof src === 'string' && !src.startsWith('xstate.invoke.')) return src;
  throw new Error(`${where}: an invoked actor has no name`);
}

function guardName(guard, where) {
  if (typeof guard === 'string') return guard;
  if (typeof guard !== 'function') return guard.type;
  // and(), or() and not() are functions that carry the guards they combine.
  if (guard.guards === undefined) throw new Error(`${where}: a guard has no name`);
  const names = guard.guards.map((inner) => guardName(inner, where));
  const operator = guard.type ?? guard.name;
  if (/not/.test(operator)) return `not ${names[0]}`;
  return names.join(/or/.test(operator) ? ' or ' : ' and ');
}

function actionNames(actions, where) {
  return actions
    .map((action) => {
      if (typeof action === 'string') return action;
      const type = action.type ?? '';
      if (type === '') throw new Error(`${where}: an action has no name`);
      return type.replace(/^xstate\./, '');
    })
    .filter((_, index) => !isDelayPlumbing(actions[index]));
}

/** `after` adds a raise to the entry of its state and a cancel to the exit; the edge says it already. */
function isDelayPlumbing(action) {
  const id = action.type === 'xstate.raise' ? action.id : action.sendId;
  return typeof id === 'string' && id.startsWith('xstate.after.');
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);
const sortKey = ({ from, to, event, order }) => [from, event, String(order).padStart(4, '0'), to].join('\0');

/** `event [guard] / action, action` */
export function edgeLabel({ event, guard, actions, order }) {
  const condition = guard ?? (order > 0 ? 'else' : null);
  return `${event}${condition === null ? '' : ` [${condition}]`}${actions.length === 0 ? '' : ` / ${actions.join(', ')}`}`;
}

const allStates = (state) => [state, ...state.states.flatMap(allStates)];

/** What a state does by itself: invocations, entry, exit, and transitions that stay in it. */
function notesOf(state, chart) {
  return [
    ...state.invokes.map((src) => `invoke ${src}`),
    ...(state.entry.length > 0 ? [`entry / ${state.entry.join(', ')}`] : []),
    ...(state.exit.length > 0 ? [`exit / ${state.exit.join(', ')}`] : []),
    ...chart.edges.filter(({ from, to }) => from === state.id && to === null).map(edgeLabel),
  ];
}

const anywhere = 'anyState';
const crossesRoot = (chart) => chart.edges.some(({ from, to }) => from === chart.root.id && to !== null);

/** The chart as a Mermaid `stateDiagram-v2`. */
export function toMermaid(chart) {
  const idOf = (id) =>
    id === chart.root.id ? anywhere : id.slice(chart.root.id.length + 1).replace(/\W/g, '_');
  const text = (value) =>
    value.replace(/[#;:"<>{}]/g, (character) => `#${character.codePointAt(0)};`).replace(/\n/g, ' ');
  const lines = [];
  const emit = (depth, line) => lines.push(`${'  '.repeat(depth)}${line}`);

  const writeStates = (state, depth) => {
    if (state.initial !== null) emit(depth, `[*] --> ${idOf(state.initial)}`);
    state.states.forEach((child, index) => {
      if (state.type === 'parallel' && index > 0) emit(depth, '--');
      const id = idOf(child.id);
      emit(
        depth,
        `state "${text(child.type === 'history' ? 'H' : child.key)}" as ${id}${child.states.length > 0 ? ' {' : ''}`,
      );
      if (child.states.length > 0) {
        writeStates(child, depth + 1);
        emit(depth, '}');
      }
      if (child.type === 'final') emit(depth, `${id} --> [*]`);
    });
  };

  emit(0, 'stateDiagram-v2');
  emit(1, `accTitle: ${text(chart.name)}`);
  if (chart.root.description !== '') emit(1, `accDescr: ${text(chart.root.description)}`);
  for (const [tag, { fill, line }] of colours)
    emit(1, `classDef ${tag} fill:${fill},stroke:${line},color:${ink}`);
  writeStates(chart.root, 1);
  if (crossesRoot(chart)) emit(1, `state "any state" as ${anywhere}`);
  for (const edge of chart.edges)
    if (edge.to !== null) emit(1, `${idOf(edge.from)} --> ${idOf(edge.to)} : ${text(edgeLabel(edge))}`);
  for (const state of allStates(chart.root).slice(1)) {
    const tag = colours.find(([name]) => state.tags.includes(name))?.[0];
    if (tag !== undefined) emit(1, `class ${idOf(state.id)} ${tag}`);
  }
  for (const state of allStates(chart.root).slice(1)) {
    const notes = [
      ...(state.description === '' ? [] : [state.description]),
      ...(state.spec.length === 0 ? [] : [`see ${state.spec.join(', ')}`]),
      ...notesOf(state, chart),
    ];
    if (notes.length === 0) continue;
    emit(1, `note right of ${idOf(state.id)}`);
    for (const note of notes) emit(2, text(note));
    emit(1, 'end note');
  }
  return `${lines.join('\n')}\n`;
}

/** The chart as Graphviz DOT, on a white card so that it reads on a dark page too. */
export function toDot(chart) {
  const lines = [];
  const emit = (depth, line) => lines.push(`${'  '.repeat(depth)}${line}`);
  const byId = new Map(allStates(chart.root).map((state) => [state.id, state]));
  const leafOf = (state) =>
    state.states.length === 0
      ? state
      : leafOf(state.initial === null ? state.states[0] : byId.get(state.initial));
  const inside = (inner, outer) => inner === outer || inner.startsWith(`${outer}.`);

  const writeState = (state, depth) => {
    const { fill, line } = colourOf(state);
    const url = state.spec.find(isUrl);
    const tooltip = `${quote(state.description || state.key)}${url === undefined ? '' : `, URL=${quote(url)}`}`;
    if (state.states.length === 0) {
      const shape = state.type === 'final' ? ', peripheries=2' : '';
      emit(
        depth,
        `${quote(state.id)} [label=${stateLabel(state, chart)}, tooltip=${tooltip}, fillcolor="${fill}", color="${line}"${shape}];`,
      );
      return;
    }
    emit(depth, `subgraph ${quote(`cluster ${state.id}`)} {`);
    emit(depth + 1, `graph [label=${stateLabel(state, chart)}, tooltip=${tooltip}];`);
    emit(depth + 1, `style="rounded,filled"; fillcolor="${fill}"; color="${line}";`);
    writeChildren(state, depth + 1);
    emit(depth, '}');
  };

  const writeChildren = (state, depth) => {
    for (const child of state.states) writeState(child, depth);
    if (state.initial === null) return;
    emit(
      depth,
      `${quote(`initial ${state.id}`)} [shape=point, width=0.12, color="${ink}", tooltip="start"];`,
    );
    writeEdge(depth, `initial ${state.id}`, state.initial, []);
  };

  const writeEdge = (depth, from, to, edges) => {
    const source = byId.get(from);
    const target = byId.get(to);
    const { color, style } =
      strokes[kinds.find((kind) => edges.some((edge) => edge.kind === kind)) ?? 'event'];
    const tooltip = edges.map(edgeLabel).join('\n') || 'start';
    const label = edges.map(
      (edge) =>
        `<font color="${strokes[edge.kind].color}"> ${html(edgeLabel(edge))}</font><br align="left"/>`,
    );
    const attributes = [`color="${color}"`, `style=${style}`, `tooltip=${quote(tooltip)}`];
    if (label.length > 0) attributes.push(`label=<${label.join('')}>`, `labeltooltip=${quote(tooltip)}`);
    // Graphviz draws between leaves; an edge of a compound state is cut at that state's border.
    if (source !== undefined && source.states.length > 0 && source !== chart.root && !inside(to, from))
      attributes.push(`ltail=${quote(`cluster ${from}`)}`);
    if (target.states.length > 0 && !inside(from, to)) attributes.push(`lhead=${quote(`cluster ${to}`)}`);
    const tail = source === chart.root ? anywhere : source === undefined ? from : leafOf(source).id;
    emit(depth, `${quote(tail)} -> ${quote(leafOf(target).id)} [${attributes.join(', ')}];`);
  };

  emit(0, `digraph ${quote(chart.name)} {`);
  emit(
    1,
    'graph [bgcolor="white", pad=0.3, compound=true, fontsize=11, nodesep=0.45, ranksep=0.55, fontname="Arial"];',
  );
  emit(1, `node [shape=box, style="rounded,filled", margin="0.2,0.08", fontname="Arial", fontsize=11];`);
  emit(1, `edge [fontname="Arial", fontsize=9, arrowsize=0.7];`);
  emit(1, `graph [tooltip=${quote(chart.root.description || chart.name)}];`);
  writeChildren(chart.root, 1);
  if (crossesRoot(chart)) {
    const label = '<<i>any state</i>>';
    emit(1, `${anywhere} [label=${label}, tooltip="any state", style="rounded,dashed", color="${ink}"];`);
  }
  for (const { from, to, edges } of bundles(chart.edges)) writeEdge(1, from, to, edges);
  emit(0, '}');
  return `${lines.join('\n')}\n`;
}

/** Edges with the same ends are one line with several labels; otherwise a chart of failures is all lines. */
function bundles(edges) {
  const bundled = new Map();
  for (const edge of edges) {
    const { from, to } = edge;
    if (to === null) continue;
    const key = `${from}\0${to}`;
    const bundle = bundled.get(key) ?? { from, to, edges: [] };
    bundle.edges.push(edge);
    bundled.set(key, bundle);
  }
  return [...bundled.values()];
}

/** A rule's name is worth its place in a box; an address is what the box links to. */
const isUrl = (spec) => /^https?:\/\//.test(spec);

function stateLabel(state, chart) {
  const title = state.type === 'history' ? 'H' : state.key;
  const rules = state.spec.filter((spec) => !isUrl(spec)).join(', ');
  const rows = [
    `<b>${html(title)}</b>${rules === '' ? '' : ` <font point-size="9">${html(rules)}</font>`}`,
    ...wrap(state.description, 44).map((line) => `<font point-size="9"><i>${html(line)}</i></font>`),
    ...notesOf(state, chart).map((note) => `<font point-size="9">${html(note)}</font>`),
  ];
  return `<${rows.join('<br/>')}>`;
}

function wrap(text, width) {
  const lines = [];
  for (const word of text.split(' ').filter(Boolean)) {
    const last = lines.at(-1);
    if (last !== undefined && last.length + 1 + word.length <= width)
      lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

const quote = (value) => `"${value.replace(/[\\"]/g, '\\$&').replace(/\n/g, '\\n')}"`;
const html = (value) => value.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
