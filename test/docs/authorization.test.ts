// docs/authorization.md, and what README.md says of it, is done as it says, with the built package.

import { spawn, spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test, vi } from 'vitest';
import { readConfigFile } from '../../src/cli/configFile.js';
import { grantingServer } from '../host/auth/grantingServer.js';
import { type BuiltPackage, buildPackage } from '../support/builtPackage.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const ROOT = join(import.meta.dirname, '../..');
const blockOf = (file: string, language: string, holding: string): string =>
  [...readFileSync(join(ROOT, file), 'utf8').matchAll(/^```(\w+)\n(.*?)^```$/gms)].flatMap(
    ([, name, body = '']) => (name === language && body.includes(holding) ? [body] : []),
  )[0] ?? '';

const PAGE = 'docs/authorization.md';
let built: BuiltPackage;

beforeAll(() => {
  built = buildPackage();
});
afterAll(() => built.remove());

const programOf = (name: string, code: string): string => {
  const file = join(built.folder, name);
  writeFileSync(file, code);
  return file;
};

test('the program runs as it stands there: a person opens the page, and it ends', async () => {
  const server = await grantingServer();
  const program = spawn(process.execPath, [programOf('person.mjs', blockOf(PAGE, 'js', 'createServer'))], {
    cwd: built.folder,
    env: { PATH: process.env['PATH'], NOTES_URL: server.url },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const exit = once(program, 'exit');
  const errors = text(program.stderr);
  const lines = createInterface({ input: program.stdout })[Symbol.asyncIterator]();
  const said = String((await lines.next()).value);
  expect(said).toMatch(/^notes: open http:/);
  const back = server.grant(said.replace(/^notes: open /, ''));
  const foreign = new URL(back);
  foreign.searchParams.set('state', 'another');
  expect((await fetch(foreign)).status).toBe(400);
  expect((await fetch(new URL('/favicon.ico', back))).status).toBe(404);
  const shown = await fetch(back);
  expect([shown.status, await shown.text()]).toEqual([200, 'This page can be closed.']);
  expect((await lines.next()).value).toBe('ok seen');
  const [code] = await exit;
  expect({ code, errors: await errors }).toEqual({ code: 0, errors: '' });
  expect([server.registered, server.grants]).toEqual([['Notes reader'], ['authorization_code']]);
});

test('the file is one', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'peerage-authorization-'));
  try {
    const file = join(folder, 'peerage.json');
    writeFileSync(file, blockOf(PAGE, 'jsonc', 'client-credentials'));
    const env = { NOTES_TOKEN: 'token-1', BILLING_SECRET: 'secret-1' };
    const { options, warnings } = await readConfigFile(file, env);
    expect(warnings).toEqual([]);
    expect(options.peers).toMatchObject({
      notes: { auth: { token: 'token-1' } },
      billing: { auth: { clientSecret: 'secret-1' } },
    });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test('the four ways of README.md are taken', () => {
  const { privateKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
  const code = blockOf('README.md', 'js', 'client-credentials');
  const file = programOf('ways.mjs', `${code}console.log(host.status().peers.length);\n`);
  const env = {
    PATH: process.env['PATH'],
    NOTES_TOKEN: 'token-1',
    CLIENT_SECRET: 'secret-1',
    CLIENT_KEY: privateKey,
  };
  const { stdout, stderr, status } = spawnSync(process.execPath, [file], {
    cwd: built.folder,
    encoding: 'utf8',
    env,
  });
  expect({ stdout, stderr, status }).toEqual({ stdout: '4\n', stderr: '', status: 0 });
});

test('the methods of a store and of a provider that are named are those that there are', () => {
  const page = readFileSync(join(ROOT, PAGE), 'utf8');
  const source = readFileSync(join(ROOT, 'src/host/auth/oauthProviderOptions.ts'), 'utf8');
  const keys = [...(/const KEYS = \[(.*?)\]/s.exec(source)?.[1] ?? '').matchAll(/'(\w+)'/g)].map(
    ([, key]) => key,
  );
  expect(keys).toHaveLength(8);
  const [, section = ''] = page.split('## Options of `createOAuthProvider`');
  const rows = [...section.matchAll(/^\| `(\w+)` /gm)].map(([, key]) => key);
  expect(rows).toEqual(keys);
});
