import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, test } from 'vitest';
import { and, assign, createMachine, not, setup } from 'xstate';
import { type Chart, colourOf, edgeLabel, toChart, toDot, toMermaid } from '../../scripts/lib/chart.mjs';
import { differences, drawAll, toSvg, writeAll } from '../../scripts/lib/diagramFiles.mjs';
import { doorMachine } from '../fixtures/doorMachine.mjs';

const door = toChart(doorMachine, 'door');

/** Every edge in words, in the chart's own order. */
const described = ({ edges }: Chart) =>
  edges.map((edge) => `${edge.from} → ${edge.to ?? '(stays)'}: ${edgeLabel(edge)}`);

describe('toChart', () => {
  test('has every edge, with the names of guards, actions, delays and actors', () => {
    expect(described(door)).toEqual([
      'door → door.broken: kick',
      'door.closed → door.opening: open [isAllowed and not isFrozen] / count, greet',
      'door.closed → door.broken: open [isFrozen]',
      'door.closed → door.closed: open [else] / complain',
      'door.open → door.closed: after 2000 ms',
      'door.open → door.closed: always [isWindy]',
      'door.open → door.broken: done',
      'door.open.light.off → door.open.light.on: light',
      'door.open.mat.clean → (stays): step / assign',
      'door.opening → door.broken: after patience',
      'door.opening → door.open: turnHandle done',
      'door.opening → door.broken: turnHandle failed / complain',
    ]);
  });

  test('has what a state says about itself', () => {
    const [closed, opening, open, broken] = door.root.states;
    expect(door.root).toMatchObject({ description: 'A door.', initial: 'door.closed' });
    expect(closed).toMatchObject({
      tags: ['settled'],
      spec: ['D1', 'D2', 'https://example.com/doors'],
      description: 'It is shut.',
    });
    expect(opening).toMatchObject({ invokes: ['turnHandle'], entry: ['count'], exit: ['greet'] });
    expect(open).toMatchObject({ type: 'parallel', initial: null });
    expect(broken).toMatchObject({ type: 'final' });
  });

  test('colours a state by its strongest tag', () => {
    const state = (...tags: string[]) => ({ ...door.root, tags });
    expect(colourOf(state('settled', 'failed'))).toEqual(colourOf(state('failed')));
    expect(colourOf(state('callable', 'settled'))).toEqual(colourOf(state('callable')));
    const all = ['failed', 'callable', 'negotiating', 'settled', 'other'].map(
      (tag) => colourOf(state(tag)).fill,
    );
    expect(new Set(all).size).toBe(5);
  });

  test.each([
    ['guard', { on: { go: { guard: () => true, target: 'b' } } }, /state m\.a, go: a guard has no name/],
    ['action', { on: { go: { actions: () => {} } } }, /state m\.a, go: an action has no name/],
    ['actor', { invoke: { src: createMachine({}) } }, /state m\.a: an invoked actor has no name/],
  ])('refuses an inline %s', (_name, a, message) => {
    const machine = createMachine({ id: 'm', initial: 'a', states: { a, b: {} } } as never);
    expect(() => toChart(machine)).toThrow(message);
  });

  test('names combined guards and those with parameters', () => {
    const machine = setup({
      types: { context: {} as { n: number } },
      guards: { isMore: (_, _params: { than: number }) => true, isOdd: () => true },
      actions: { add: assign({ n: 1 }) },
    }).createMachine({
      id: 'm',
      context: { n: 0 },
      on: {
        a: { guard: { type: 'isMore', params: { than: 1 } }, actions: 'add' },
        b: { guard: and(['isOdd', not('isOdd')]), actions: [{ type: 'add' }] },
      },
    });
    expect(described(toChart(machine))).toEqual([
      'm → (stays): a [isMore] / add',
      'm → (stays): b [isOdd and not isOdd] / add',
    ]);
  });
});

describe('the drawings', () => {
  test('Mermaid nests states and names every edge', () => {
    const text = toMermaid(door);
    expect(text).toMatch(/^stateDiagram-v2\n/);
    for (const line of [
      '[*] --> closed',
      'anyState --> broken : kick',
      'closed --> opening : open [isAllowed and not isFrozen] / count, greet',
      'open --> broken : done',
      '  state "light" as open_light {',
      '  --',
      'class open callable',
      'broken --> [*]',
    ])
      expect(text.split('\n')).toContain(`  ${line}`);
    expect(text.match(/ : /g)).toHaveLength(door.edges.filter(({ to }) => to !== null).length);
  });

  test('Mermaid labels cannot end their own line', () => {
    const machine = createMachine({
      id: 'm',
      initial: 'a',
      states: { a: { on: { 'x:y;z': 'b' }, description: 'one: "two"\nthree' }, b: {} },
    });
    const text = toMermaid(toChart(machine));
    expect(text).toContain('a --> b : x#58;y#59;z\n');
    expect(text).toContain('one#58; #34;two#34; three\n');
  });

  test('Graphviz draws it without a complaint, a date or a version', async () => {
    const svg = await toSvg(toDot(door));
    expect(svg).toMatch(/^<svg role="img" /);
    expect(svg).not.toMatch(/<!--|version \d|[ \t]$/m);
    for (const name of ['turnHandle failed', 'after 2000 ms', 'any state', 'It is shut.'])
      expect(svg).toContain(name);
    expect(svg).toContain('xlink:href="https://example.com/doors"');
    expect(svg).not.toContain('>D1, D2, https');
    expect(await toSvg(toDot(toChart(doorMachine, 'door')))).toBe(svg);
  });

  test('Graphviz text is escaped', async () => {
    const machine = createMachine({
      id: 'm',
      initial: 'a',
      states: { a: { on: { 'x <b> & "y"\\': 'b' }, description: 'less < more' }, b: {} },
    });
    const svg = await toSvg(toDot(toChart(machine)));
    expect(svg).toContain('less &lt; more');
    expect(svg).toContain('x &lt;b&gt; &amp; ');
    expect(await toSvg('digraph { a [label="→ é"] }')).toContain('→ é');
    await expect(toSvg('digraph { a -> b [lhead=nowhere] ')).rejects.toThrow(/^Graphviz: /);
  });
});

describe('the files', () => {
  const root = fileURLToPath(new URL('../..', import.meta.url));
  const folder = mkdtempSync(join(tmpdir(), 'diagrams-'));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));
  const entry = { file: 'test/fixtures/doorMachine.mjs', export: 'doorMachine', name: 'door' };

  test('are written, and then there is no difference; a changed, missing or strange file is one', async () => {
    const { files, problems } = await drawAll([entry], root);
    expect(problems).toEqual([]);
    expect(differences(files, folder)).toEqual(['door.mmd is missing', 'door.svg is missing']);
    writeAll(files, folder);
    expect(differences(files, folder)).toEqual([]);
    writeFileSync(join(folder, 'door.svg'), 'old');
    writeFileSync(join(folder, 'gone.svg'), 'older');
    expect(differences(files, folder)).toEqual([
      'door.svg is out of date',
      'gone.svg belongs to no machine in the table',
    ]);
    writeAll(files, folder);
    expect(differences(files, folder)).toEqual([]);
    expect(readdirSync(folder).sort()).toEqual(['door.mmd', 'door.svg']);
  });

  test('a machine that cannot be had is a problem, never skipped in silence', async () => {
    const { files, problems } = await drawAll(
      [
        { ...entry, file: 'dist/nowhere.js', name: 'nowhere' },
        { ...entry, export: 'other', name: 'other', make: () => doorMachine },
        { ...entry, name: 'made', make: () => ({}) },
        entry,
      ],
      root,
    );
    expect([...files.keys()]).toEqual(['door.mmd', 'door.svg']);
    expect(problems).toEqual([
      'nowhere: dist/nowhere.js does not exist; npm run build makes it',
      'other: test/fixtures/doorMachine.mjs exports no machine called other',
      'made: test/fixtures/doorMachine.mjs exports no machine called doorMachine',
    ]);
  });
});
