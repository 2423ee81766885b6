// Compiles src/ to dist/ and checks that all that package.json promises is there. Silent when all is well;
// it runs inside `npm ci` as `prepare`.
//
// The compiler writes to a folder beside dist, which takes dist's place only when it succeeded: a failed
// build leaves the last good one, and a running demo never sees half of one.

import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('..', import.meta.url));
const dist = join(root, 'dist');
const next = join(root, `dist.next-${process.pid}`);

function fail(message) {
  console.error(`build: ${message}`);
  process.exit(1);
}

const typescript = createRequire(import.meta.url).resolve('typescript/package.json');
const tsc = join(dirname(typescript), JSON.parse(readFileSync(typescript, 'utf8')).bin.tsc);

rmSync(next, { recursive: true, force: true });
const compiled = spawnSync(
  process.execPath,
  [tsc, '-p', join(root, 'tsconfig.build.json'), '--outDir', next, '--noEmitOnError'],
  { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] },
);
if (compiled.status !== 0) {
  rmSync(next, { recursive: true, force: true });
  fail(`the compiler ended with ${compiled.signal ?? compiled.status ?? compiled.error?.message}`);
}
rmSync(dist, { recursive: true, force: true });
renameSync(next, dist);

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const bins = Object.values(manifest.bin);
const entries = Object.values(manifest.exports).flatMap((entry) =>
  typeof entry === 'string' ? [entry] : Object.values(entry),
);
const missing = [...bins, ...entries].filter((path) => !existsSync(join(root, path)));
if (missing.length > 0) fail(`package.json names files that were not built: ${missing.join(', ')}`);

for (const bin of bins) {
  const path = join(root, bin);
  if (!readFileSync(path, 'utf8').startsWith('#!/usr/bin/env node\n')) fail(`${bin} has no shebang`);
  chmodSync(path, 0o755);
}
