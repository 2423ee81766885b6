// docs/testing.md is done as it says, with the built package.

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type BuiltPackage, buildPackage } from '../support/builtPackage.js';

const page = readFileSync(join(import.meta.dirname, '../../docs/testing.md'), 'utf8');
const snippets = [...page.matchAll(/^```js\n(.*?)^```$/gms)].map(([, code = '']) => code);

let built: BuiltPackage;

beforeAll(() => {
  built = buildPackage();
}, 120_000);
afterAll(() => built.remove());

test.each([
  [0, 'legacy after 1020 ms, which took no time\n'],
  [1, '20 far sides, no violation\n'],
])('snippet %i runs as it stands there', { timeout: 120_000 }, (at, output) => {
  const file = join(built.folder, `testing-${at}.mjs`);
  writeFileSync(file, snippets[at] ?? '');
  const { stdout, stderr, status } = spawnSync(process.execPath, [file], {
    cwd: built.folder,
    encoding: 'utf8',
  });
  expect({ stdout, stderr, status }).toEqual({ stdout: output, stderr: '', status: 0 });
});

test('the entry points have all that is named, and only one of them needs the optional package', async () => {
  const entry: Record<string, unknown> = await import('../../src/testing/index.js');
  const arbitraries: Record<string, unknown> = await import('../../src/testing/arbitraries.js');
  const row = (name: string): string[] =>
    [
      ...(page.split('\n').find((line) => line.startsWith(`| \`${name}\``)) ?? '')
        .split('|')[2]!
        .matchAll(/`([A-Za-z]+)`/g),
    ].map(([, word = '']) => word);
  expect(row('peerage/testing').filter((name) => !(name in entry))).toEqual([]);
  expect(row('peerage/testing/arbitraries').filter((name) => !(name in arbitraries))).toEqual([]);
  const entryText = readFileSync(join(import.meta.dirname, '../../src/testing/index.ts'), 'utf8');
  expect(entryText).not.toMatch(/fast-check|from '.*arbitrar/);
});
