// What README.md and the other documents say is done as they say it.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type BuiltPackage, buildPackage } from '../support/builtPackage.js';
import { noProcessWith } from '../support/processes.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const ROOT = join(import.meta.dirname, '../..');
const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');

/** The contents of the code blocks in one language. */
const blocks = (language: string, page = readme): string[] =>
  [...page.matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(([, name, body = '']) =>
    name === language ? [body] : [],
  );

let built: BuiltPackage;

beforeAll(() => {
  built = buildPackage();
});
afterAll(() => built.remove());

async function run(args: readonly string[]) {
  const child = spawn(process.execPath, args, {
    cwd: built.folder,
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'exit') as Promise<[number | null]>,
  ]);
  await noProcessWith(built.folder);
  return { stdout, stderr, code };
}

describe('README.md', () => {
  it.each([
    [
      'the library',
      0,
      [
        'docs modern 2026-07-28',
        'archive legacy 2025-11-25',
        'echo list_notes read_note search slow summarize',
        "ok answered [ { type: 'text', text: 'Ocean currents\\nTides' } ]",
      ],
    ],
    ['the state machine', 2, ['ok']],
  ])('the code of %s runs as it stands there', async (_, at, lines) => {
    const file = join(built.folder, `readme-${at}.mjs`);
    writeFileSync(file, blocks('js')[at] ?? '');
    const { stdout, stderr, code } = await run([file]);
    expect({ stdout: stdout.trim().split('\n'), stderr, code }).toEqual({
      stdout: lines,
      stderr: '',
      code: 0,
    });
  });

  it('the command line prints what is shown, for the file that is shown', async () => {
    writeFileSync(join(built.folder, 'peerage.json'), blocks('jsonc')[0] ?? '');
    const sessions = (blocks('console')[0] ?? '').split(/^\$ npx peerage /m).slice(1);
    expect(sessions).toHaveLength(2);
    // How long it took, and how wide that is, is another thing each time.
    const settled = (output: string): string => output.trim().replace(/ +/g, ' ').replace(/ \d+$/gm, ' N');
    for (const session of sessions) {
      const [command = '', ...shown] = session.split('\n');
      const args = (command.match(/'[^']*'|\S+/g) ?? []).map((arg) => arg.replaceAll("'", ''));
      const { stdout } = await run([join(built.folder, 'dist/cli/main.js'), ...args]);
      expect(settled(stdout)).toBe(settled(shown.join('\n')));
    }
  });

  it('keeps the two commands that are to be found by their marks', () => {
    expect(readme).toContain('<!-- command:start -->\n\n```sh\nnpm ci && npm start\n```');
    expect(readme).toContain('<!-- command:test -->\n\n```sh\nnpm ci && npm test\n```');
  });
});

describe('docs', () => {
  it.each([
    ['calls.md', ['ok 1']],
    [
      'changes.md',
      [
        "[ 'docs://ocean', 'docs://tides', 'docs://peers' ]",
        'ok Currents move heat from the equator to the poles.',
        'ok 1',
      ],
    ],
  ])('the code of %s runs as it stands there', async (name, lines) => {
    const [code = ''] = blocks('js', readFileSync(join(ROOT, 'docs', name), 'utf8'));
    const file = join(built.folder, `${name}.mjs`);
    writeFileSync(file, code);
    const ran = await run([file]);
    // What the server tells by itself comes when it comes.
    const printed = ran.stdout.split('\n').filter((line) => line !== '' && !line.startsWith('docs docs://'));
    expect({ printed, stderr: ran.stderr, code: ran.code }).toEqual({ printed: lines, stderr: '', code: 0 });
  });
});

const documents = [
  ...['README.md', 'CONTRIBUTING.md', 'CHANGELOG.md'],
  ...readdirSync(join(ROOT, 'docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `docs/${name}`),
];

it.each(documents)('%s links to what is there', (document) => {
  const file = join(ROOT, document);
  const targets = [...readFileSync(file, 'utf8').matchAll(/\]\(([^)\s]+)\)/g)].map(
    ([, target = '']) => target,
  );
  const missing = targets
    .filter((target) => !/^(https?:|#)/.test(target))
    .filter((target) => !existsSync(join(dirname(file), target.replace(/#.*$/, ''))));
  expect(missing).toEqual([]);
});
