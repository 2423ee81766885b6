import { spawnSync } from 'node:child_process';
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';

const ROOT = join(import.meta.dirname, '../..');

export interface BuiltPackage {
  /** A folder with package.json, dist, examples and node_modules: `import 'peerage'` works in it. */
  readonly folder: string;
  remove(): void;
}

/** Compiles the package as it is now into a folder of its own: `dist` may be older, or be replaced meanwhile. */
export function buildPackage(): BuiltPackage {
  const folder = mkdtempSync(join(tmpdir(), 'peerage-package-'));
  const typescript = createRequire(import.meta.url).resolve('typescript/package.json');
  const { bin } = JSON.parse(readFileSync(typescript, 'utf8')) as { bin: { tsc: string } };
  const project = join(ROOT, 'tsconfig.build.json');
  const compiled = spawnSync(
    process.execPath,
    [join(dirname(typescript), bin.tsc), '-p', project, '--outDir', join(folder, 'dist')],
    { cwd: ROOT, encoding: 'utf8' },
  );
  for (const name of ['package.json', 'examples']) {
    cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'), 'junction');
  const remove = (): void => rmSync(folder, { recursive: true, force: true });
  // Whether its types are right is for `npm run check` to say.
  if (!existsSync(join(folder, 'dist/index.js'))) {
    remove();
    throw new Error(`the package does not compile:\n${compiled.stdout}${compiled.stderr}`);
  }
  return { folder, remove };
}
