// docs/inputs.md is done as it says, with the built package.

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { capabilitiesOf } from '../../src/calls/inputCapabilities.js';
import { MAX_INPUT_REQUESTS } from '../../src/calls/inputRequired.js';
import { LIMITS } from '../../src/host/configChecks.js';
import { type BuiltPackage, buildPackage } from '../support/builtPackage.js';

const ROOT = join(import.meta.dirname, '../..');
const page = readFileSync(join(ROOT, 'docs/inputs.md'), 'utf8');
const block = (language: string): string =>
  new RegExp(`^\`\`\`${language}\\n(.*?)^\`\`\`$`, 'ms').exec(page)?.[1] ?? '';

let built: BuiltPackage;

beforeAll(() => {
  built = buildPackage();
}, 120_000);
afterAll(() => built.remove());

test('the snippet runs as it stands there, and ends', { timeout: 120_000 }, () => {
  const file = join(built.folder, 'inputs.mjs');
  writeFileSync(file, block('js'));
  const { stdout, stderr, status } = spawnSync(process.execPath, [file], {
    cwd: built.folder,
    encoding: 'utf8',
  });
  expect({ stdout: stdout.split('\n'), stderr, status }).toEqual({
    stdout: [
      'brief: ok, In file:///home/ada/work',
      'shop/brief: ok, In file:///home/ada/work',
      'shop asks: Who gets the lamp? (name, express)',
      'shop/order: ok, not paid: no lamp',
      '',
    ],
    stderr: '',
    status: 0,
  });
});

test('the handlers that are printed are the handlers that there are', () => {
  const source = readFileSync(join(ROOT, 'src/calls/inputHandlers.ts'), 'utf8');
  const [, members = ''] = /^export interface InputHandlers \{\n(.*?)^\}$/ms.exec(source) ?? [];
  const signatures = (code: string): string[] =>
    code
      .replace(/\/\*\*.*?\*\//gs, '')
      .replace(/\s+/g, ' ')
      .replace(/readonly (?=\w+\?: \(| ?sampling)/g, '')
      .replace(/\( /g, '(')
      .replace(/, \)/g, ')')
      .split(/; (?=\w+\??: )/)
      .map((member) => member.replace(/^.*\{ (?=elicitForm)|[; }]+$/g, '').trim());
  const [shown, real] = [signatures(block('ts')), signatures(members)];
  expect(shown).toHaveLength(5);
  expect(shown).toEqual(real);
});

test('what each handler is said to declare is declared', () => {
  const fn = () => ({}) as never;
  const handlers = { elicitForm: fn, elicitUrl: fn, sample: fn, listRoots: fn };
  const paths = (value: object, at = ''): string[] =>
    Object.entries(value).flatMap(([key, below]) => [
      `${at}${key}`,
      ...paths(below as object, `${at}${key}.`),
    ]);
  for (const [name, handler] of Object.entries(handlers)) {
    const sampling = name === 'sample' ? { sampling: { tools: true, context: true } } : {};
    const declared = paths(capabilitiesOf({ [name]: handler, ...sampling }));
    const row = page.split('\n').find((line) => line.startsWith(`| \`${name}\``)) ?? '';
    const said = [...(row.split('|')[4] ?? '').matchAll(/`([\w.]+)`/g)].map(([, word = '']) => word);
    expect(declared.filter((path) => !path.endsWith('elicitation'))).toEqual([...new Set(said)]);
  }
});

test('the bounds are those that there are', () => {
  expect(page).toContain(`\`maxRounds\` (${LIMITS.maxRounds.byDefault}; 0: none)`);
  expect(page).toContain(`${MAX_INPUT_REQUESTS} requests in one round`);
});
