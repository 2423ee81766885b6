// Enforces the direction of imports (an import goes down only) and what a folder may know at all.
//
//   node scripts/check-imports.mjs [root]     prints what it checked; exits 1 and names file:line otherwise
//
// The text is read with regular expressions: the compiler has no API to ask, and the formatter makes the
// shape of an import predictable. Comments are blanked first; a string that looks like an import at the start
// of a line would be misread.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { join, posix } from 'node:path';
import { fileURLToPath } from 'node:url';

const floors = [
  ['protocol'],
  ['transports', 'machines', 'registry'],
  ['calls', 'cache'],
  ['host'],
  ['providers', 'telemetry', 'inspector', 'testing'],
  ['cli'],
  ['index.ts'],
];
/** Imports between folders of one floor; everything else there is a violation. */
const sideways = [
  { from: 'calls', to: 'cache', typeOnly: false },
  { from: 'machines', to: 'registry', typeOnly: true },
  { from: 'inspector', to: 'telemetry', typeOnly: false },
];
/** Folders with a closed list of what they may import from outside src. */
const packages = {
  protocol: /^(zod|node:(buffer|crypto))$/,
  machines: /^xstate$/,
};
/** Folders that machines may import from; machines is a floor-1 folder that must not know the transports. */
const machinesMayUse = ['protocol', 'machines', 'registry'];
/** Pure facts and functions: time, chance and the network are arguments there. */
/** Who may issue the permit for `initialize`: the ledger, and the file that defines it. */
const permitIssuers = ['src/host/ledger.ts', 'src/transports/permit.ts'];
const impure = /\b(setTimeout|setInterval|setImmediate|queueMicrotask|fetch|Date\.now|Math\.random)\s*\(/g;
/** Where `export *` is allowed: the entry points of the package. */
const entryPoints = ['src/index.ts', 'src/testing/index.ts'];
/** Top-level folders whose files nobody outside them imports, tests excepted. */
const leaves = ['test', 'bench', 'examples', 'soak'];

const root = process.argv[2] ?? fileURLToPath(new URL('..', import.meta.url));
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'));
const declared = Object.keys({
  ...manifest.dependencies,
  ...manifest.optionalDependencies,
  ...manifest.peerDependencies,
});
const statement =
  /^[ \t]*(?:import|export)\b(?:(?<clause>[\w\s{},*$]+?)\bfrom\b)?\s*(['"])(?<path>[^'"\n]+)\2/gm;
const dynamic = /\bimport\(\s*['"](?<path>[^'"]+)['"]/g;

const violations = [];
const graph = new Map();
let imports = 0;

function filesOf(folder) {
  if (!existsSync(join(root, folder))) return [];
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|mts|mjs|js)$/.test(entry.name))
    .map((entry) => posix.relative(root, join(entry.parentPath, entry.name).replaceAll('\\', '/')))
    .sort();
}

/** `src/calls/call.ts` → `calls`; a file directly in src is its own folder. */
const folderOf = (file) => file.split('/')[1];
const floorOf = (folder) => floors.findIndex((names) => names.includes(folder));
const blank = (comment) => comment.replace(/[^\n]/g, ' ');

/** Every import and re-export of one file, and the text without comments. */
function read(file) {
  const text = readFileSync(join(root, file), 'utf8')
    .replace(/\/\*[\s\S]*?\*\//g, blank)
    .replace(/^[ \t]*\/\/.*$/gm, blank);
  const lineOf = (index) => text.slice(0, index).split('\n').length;
  const found = [...text.matchAll(statement), ...text.matchAll(dynamic)].map((match) => ({
    path: match.groups.path,
    line: lineOf(match.index + match[0].search(/\S/)),
    typeOnly: /^\s*type\b/.test(match.groups.clause ?? ''),
  }));
  return { text, lineOf, found };
}

function checkSource(file, report, { text, lineOf, found }) {
  const folder = folderOf(file);
  const floor = floorOf(folder);
  if (floor < 0) report(1, `${folder} is on no floor: add it to the table`);

  for (const match of text.matchAll(/\bexport\s+default\b|\bas\s+default\b/g))
    report(lineOf(match.index), 'a default export');
  for (const match of text.matchAll(/\bexport\s*\*/g))
    if (!entryPoints.includes(file)) report(lineOf(match.index), 'export * outside an entry point');
  if (folder === 'protocol')
    for (const match of text.matchAll(impure)) report(lineOf(match.index), `protocol/ uses ${match[1]}`);

  if (!permitIssuers.includes(file))
    for (const match of text.matchAll(/\bissueLegacyPermit\b/g))
      report(lineOf(match.index), 'issueLegacyPermit is for host/ledger.ts alone');

  for (const { path, line, typeOnly, target } of found) {
    if (target === undefined) checkPackage(folder, path, (why) => report(line, why));
    else if (target.startsWith('src/')) {
      const to = folderOf(target);
      const way = `${folder} → ${to}`;
      if (folder === 'machines' && !machinesMayUse.includes(to)) report(line, `${way}: not for machines`);
      else if (to === folder || floorOf(to) < floor) continue;
      else if (floorOf(to) > floor) report(line, `${way}: upwards`);
      else {
        const allowed = sideways.find((entry) => entry.from === folder && entry.to === to);
        if (allowed === undefined) report(line, `${way}: sideways`);
        else if (allowed.typeOnly && !typeOnly) report(line, `${way}: types only`);
      }
    }
  }
}

function checkPackage(folder, path, report) {
  const builtin = path.startsWith('node:') || builtinModules.includes(path);
  const name = path
    .split('/')
    .slice(0, path.startsWith('@') ? 2 : 1)
    .join('/');
  const allowed = packages[folder];
  if (allowed !== undefined && !allowed.test(path)) report(`${folder}/ must not import ${path}`);
  else if (!builtin && !declared.includes(name))
    report(`${name} is imported but package.json declares it to nobody who installs this package`);
}

/** Reports one cycle for each file that closes one, along a depth-first walk in sorted order. */
function checkCycles(report) {
  const done = new Set();
  const trail = [];
  const visit = (file) => {
    if (done.has(file)) return;
    trail.push(file);
    for (const { target, line } of graph.get(file) ?? []) {
      const start = trail.indexOf(target);
      if (start >= 0) report(file, line, `a cycle: ${[...trail.slice(start), target].join(' → ')}`);
      else visit(target);
    }
    trail.pop();
    done.add(file);
  };
  for (const file of graph.keys()) visit(file);
}

const files = ['src', 'scripts', 'bench', 'examples', 'soak'].flatMap(filesOf);
for (const file of files) {
  const report = (line, why) => violations.push(`${file}:${line} ${why}`);
  const source = read(file);
  imports += source.found.length;
  for (const entry of source.found)
    if (entry.path.startsWith('.')) {
      const target = posix.join(posix.dirname(file), entry.path);
      entry.target = file.endsWith('.ts') ? target.replace(/\.js$/, '.ts') : target;
    }
  const local = source.found.filter(({ target }) => target !== undefined);
  for (const { target, line } of local) {
    const top = target.split('/')[0];
    if (leaves.includes(top) && top !== file.split('/')[0]) report(line, `imports from ${top}/`);
    if (file.startsWith('src/') && !target.startsWith('src/')) report(line, `leaves src: ${target}`);
  }
  graph.set(
    file,
    local.filter(({ target }) => existsSync(join(root, target))),
  );
  if (file.startsWith('src/')) checkSource(file, report, source);
}
checkCycles((file, line, why) => violations.push(`${file}:${line} ${why}`));

for (const violation of violations) console.error(violation);
console.log(`${files.length} files, ${imports} imports, ${violations.length} violations`);
if (violations.length > 0 || files.length === 0) process.exit(1);
