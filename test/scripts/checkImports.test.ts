import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, describe, expect, test } from 'vitest';

const script = fileURLToPath(new URL('../../scripts/check-imports.mjs', import.meta.url));
const roots: string[] = [];

afterEach(() => {
  for (const root of roots.splice(0)) rmSync(root, { recursive: true, force: true });
});

/** Writes a small tree and checks it; the violations are the lines on stderr. */
function check(files: Record<string, string>) {
  const root = mkdtempSync(join(tmpdir(), 'check-imports-'));
  roots.push(root);
  const manifest = { dependencies: { xstate: '5', zod: '4' }, devDependencies: { vitest: '4' } };
  for (const [path, text] of Object.entries({ 'package.json': JSON.stringify(manifest), ...files })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, [script, root], { encoding: 'utf8' });
  return { status, stdout, violations: stderr.split('\n').filter(Boolean) };
}

const violationsOf = (files: Record<string, string>) => check(files).violations;

describe('check-imports', () => {
  test('passes a tree whose imports go down, and says what it read', () => {
    const result = check({
      'src/index.ts': `export { createHost } from './host/createHost.js';\nexport * from './calls/call.js';\n`,
      'src/host/createHost.ts': `import { call } from '../calls/call.js';\nexport const createHost = call;\n`,
      'src/calls/call.ts': `import { get } from '../cache/cache.js';\nexport const call = get;\n`,
      'src/cache/cache.ts': `import { z } from 'zod';\nimport {\n  code,\n} from '../protocol/codes.js';\nexport const get = [z, code];\n`,
      'src/protocol/codes.ts': `export const code = 1;\n`,
      'src/machines/peer.ts': `import { setup } from 'xstate';\nimport type { Lease } from '../registry/lease.js';\nexport const peer = (l: Lease) => setup(l);\n`,
      'src/registry/lease.ts': `export interface Lease { a: 1 }\n`,
    });
    expect(result).toEqual({ status: 0, stdout: '7 files, 8 imports, 0 violations\n', violations: [] });
  });

  test('the permit for initialize is issued by the ledger alone', () => {
    const files = {
      'src/transports/permit.ts': 'export const issueLegacyPermit = 1;\n',
      'src/host/ledger.ts': `import { issueLegacyPermit } from '../transports/permit.js';\nexport const a = issueLegacyPermit;\n`,
      'src/host/peer.ts': `import { issueLegacyPermit as b } from '../transports/permit.js';\nexport const a = b;\n`,
    };
    expect(violationsOf(files)).toEqual(['src/host/peer.ts:1 issueLegacyPermit is for host/ledger.ts alone']);
  });

  test('fails when there is nothing to check', () => {
    expect(check({}).status).toBe(1);
  });

  test.each([
    ['upwards', '../host/a.js', 'calls → host: upwards'],
    ['upwards to the entry point', '../index.js', 'calls → index.ts: upwards'],
  ])('an import %s', (_name, path, why) => {
    const result = check({
      'src/calls/a.ts': `\nimport type { a } from '${path}';\n`,
      'src/host/a.ts': 'export const a = 1;\n',
      'src/index.ts': 'export const a = 1;\n',
    });
    expect(result.status).toBe(1);
    expect(result.violations).toEqual([`src/calls/a.ts:2 ${why}`]);
  });

  test('an import between folders of one floor that the table does not list', () => {
    expect(
      violationsOf({
        'src/cache/a.ts': `export { b } from '../calls/b.js';\n`,
        'src/calls/b.ts': 'export const b = 1;\n',
        'src/registry/c.ts': `export type { d } from '../transports/d.js';\n`,
        'src/transports/d.ts': 'export const d = 1;\n',
      }),
    ).toEqual([
      'src/cache/a.ts:1 cache → calls: sideways',
      'src/registry/c.ts:1 registry → transports: sideways',
    ]);
  });

  test('a machine that imports more than xstate, protocol and types of the registry', () => {
    expect(
      violationsOf({
        'src/machines/a.ts': [
          `import { z } from 'zod';`,
          `import { lease } from '../registry/b.js';`,
          `import type { t } from '../transports/c.js';`,
          `import { readFile } from 'node:fs';`,
        ].join('\n'),
        'src/registry/b.ts': 'export const lease = 1;\n',
        'src/transports/c.ts': 'export const t = 1;\n',
      }),
    ).toEqual([
      'src/machines/a.ts:1 machines/ must not import zod',
      'src/machines/a.ts:2 machines → registry: types only',
      'src/machines/a.ts:3 machines → transports: not for machines',
      'src/machines/a.ts:4 machines/ must not import node:fs',
    ]);
  });

  test('I/O, time, chance and XState in protocol, but not in its comments', () => {
    expect(
      violationsOf({
        'src/protocol/a.ts': [
          `import { connect } from 'node:net';`,
          `import { setup } from 'xstate';`,
          `/* setTimeout( is not used, nor`,
          `   import 'ws' */`,
          `// setTimeout(`,
          `export const a = () => setTimeout(connect, Date.now(), setup);`,
          `export const b = await import('node:fs');`,
        ].join('\n'),
      }),
    ).toEqual([
      'src/protocol/a.ts:6 protocol/ uses setTimeout',
      'src/protocol/a.ts:6 protocol/ uses Date.now',
      'src/protocol/a.ts:1 protocol/ must not import node:net',
      'src/protocol/a.ts:2 protocol/ must not import xstate',
      'src/protocol/a.ts:7 protocol/ must not import node:fs',
    ]);
  });

  test('an import from tests, benchmarks or examples', () => {
    expect(
      violationsOf({
        'src/host/a.ts': `import { f } from '../../test/fixtures/f.js';\n`,
        'bench/b.mjs': `import '../test/fixtures/f.js';\n`,
        'examples/c.mjs': `import './servers/d.mjs';\n`,
        'examples/servers/d.mjs': '\n',
        'scripts/e.mjs': `import '../examples/c.mjs';\n`,
        'test/f.test.ts': `import '../bench/b.mjs';\n`,
      }),
    ).toEqual([
      'src/host/a.ts:1 imports from test/',
      'src/host/a.ts:1 leaves src: test/fixtures/f.ts',
      'scripts/e.mjs:1 imports from examples/',
      'bench/b.mjs:1 imports from test/',
    ]);
  });

  test('a default export, and export * outside the entry points', () => {
    expect(
      violationsOf({
        'src/host/a.ts': `const a = 1;\nexport default a;\nexport { a as default };\nexport * from './b.js';\n`,
        'src/host/b.ts': 'export const b = 1;\n',
        'src/testing/index.ts': `export * from '../host/b.js';\n`,
      }),
    ).toEqual([
      'src/host/a.ts:2 a default export',
      'src/host/a.ts:3 a default export',
      'src/host/a.ts:4 export * outside an entry point',
    ]);
  });

  test('a cycle between files, also one of types', () => {
    expect(
      violationsOf({
        'src/host/a.ts': `import { b } from './b.js';\nexport const a = b;\n`,
        'src/host/b.ts': `import { c } from './c.js';\nexport const b = c;\n`,
        'src/host/c.ts': `\nimport type { a } from './a.js';\nexport const c: typeof a = 1;\n`,
      }),
    ).toEqual(['src/host/c.ts:2 a cycle: src/host/a.ts → src/host/b.ts → src/host/c.ts → src/host/a.ts']);
  });

  test('a package that only developers have', () => {
    expect(
      violationsOf({ 'src/host/a.ts': `import { test } from 'vitest';\nexport const a = test;\n` }),
    ).toEqual([
      'src/host/a.ts:1 vitest is imported but package.json declares it to nobody who installs this package',
    ]);
  });

  test('a folder that stands on no floor', () => {
    expect(violationsOf({ 'src/misc/a.ts': 'export const a = 1;\n' })).toEqual([
      'src/misc/a.ts:1 misc is on no floor: add it to the table',
    ]);
  });
});
