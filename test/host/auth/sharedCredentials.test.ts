/** Several processes, one set of credentials: a refresh token is used once, and nobody deletes what another obtained. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { pathToFileURL } from 'node:url';
import { afterAll, afterEach, beforeAll, beforeEach, expect, test, vi } from 'vitest';
import { createOAuthProvider } from '../../../src/host/auth/oauthProvider.js';
import { fileCredentials } from '../../fixtures/fileCredentials.mjs';
import { type BuiltPackage, buildPackage } from '../../support/builtPackage.js';
import { type GrantingServer, grantingServer } from './grantingServer.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const PROGRAM = join(import.meta.dirname, '../../fixtures/oauthHost.mjs');
const PROCESSES = 5;

let built: BuiltPackage;
let folder: string;
let server: GrantingServer;
const children: ChildProcess[] = [];

beforeAll(() => {
  built = buildPackage();
});
afterAll(() => built.remove());
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'peerage-credentials-'));
  server = await grantingServer();
});
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
  rmSync(folder, { recursive: true, force: true });
});

const provider = () =>
  createOAuthProvider({
    redirectUrl: 'http://127.0.0.1:7777/callback',
    store: fileCredentials(folder),
    key: 'notes',
  });

interface Told {
  readonly state: string;
  readonly reason: { readonly code: string; readonly fix: string } | null;
  readonly authorizationUrl: string | null;
  readonly status: string;
  readonly token?: string;
}

/** All are there before the first begins. */
async function run(): Promise<{ readonly told: readonly Told[]; readonly errors: string }> {
  const programs = Array.from({ length: PROCESSES }, () => {
    const packageUrl = pathToFileURL(join(built.folder, 'dist/index.js')).href;
    const child = spawn(process.execPath, [PROGRAM, packageUrl, server.url, folder], {
      stdio: ['pipe', 'pipe', 'pipe'],
    });
    children.push(child);
    const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return { child, lines, errors: text(child.stderr) };
  });
  for (const { lines } of programs) expect((await lines.next()).value).toBe('there');
  for (const { child } of programs) child.stdin.write('go\n');
  const told = await Promise.all(
    programs.map(async ({ child, lines }) => {
      const [line] = await Promise.all([lines.next(), once(child, 'exit')]);
      return JSON.parse(String(line.value ?? 'null')) as Told;
    }),
  );
  return { told, errors: (await Promise.all(programs.map(({ errors }) => errors))).join('') };
}

const seed = async (tokens: ReturnType<GrantingServer['issue']>): Promise<void> => {
  const issuer = server.origin;
  const client = { client_id: 'seeded', token_endpoint_auth_method: 'none', issuer };
  await provider().saveClientInformation?.(client, { issuer });
  await provider().saveTokens({ ...tokens, issuer }, { issuer });
};

test('five processes with one access token that ran out: one renews it, all are served', async () => {
  const tokens = server.issue();
  server.expire(tokens.access_token);
  await seed(tokens);
  const { told, errors } = await run();
  expect(told.map(({ state, status }) => `${state} ${status}`)).toEqual(Array(PROCESSES).fill('modern ok'));
  expect(server.grants).toEqual(['refresh_token']);
  const kept = await provider().tokens();
  expect(server.isValid(kept?.access_token)).toBe(true);
  expect(new Set(told.map(({ token }) => token))).toEqual(new Set([kept?.access_token]));
  expect(server.calls).toHaveLength(PROCESSES);
  expect(errors).toBe('');
});

test('where the grant is gone, each says where a person can grant access, and any answer serves them all', async () => {
  const tokens = server.issue();
  server.expire(tokens.access_token);
  await seed({ ...tokens, refresh_token: 'gone' });
  const { told } = await run();
  expect(new Set(told.map(({ reason }) => reason?.code))).toEqual(new Set(['unauthorized']));
  expect(new Set(told.map(({ authorizationUrl }) => authorizationUrl)).size).toBe(PROCESSES);
  for (const { authorizationUrl, reason } of told)
    expect(reason?.fix).toContain(authorizationUrl ?? 'no URL');
  // The first that was refused deletes what was refused; the others have nothing to try.
  expect(server.grants).toEqual(['refresh_token refused']);
  expect(await provider().tokens()).toBeUndefined();
});
