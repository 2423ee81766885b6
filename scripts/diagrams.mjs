// Draws every machine of the package into diagrams/, from the compiled definitions themselves.
//
//   node scripts/diagrams.mjs           writes diagrams/<name>.mmd and .svg
//   node scripts/diagrams.mjs --check   changes nothing; exits 1 and says which files are out of date

import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { differences, drawAll, writeAll } from './lib/diagramFiles.mjs';

const table = [
  { file: 'dist/machines/peerMachine.js', export: 'peerMachine', name: 'peerMachine' },
  { file: 'dist/machines/catalogMachine.js', export: 'catalogMachine', name: 'catalogMachine' },
  {
    file: 'dist/machines/subscriptionMachine.js',
    export: 'subscriptionMachine',
    name: 'subscriptionMachine',
  },
  { file: 'dist/machines/breakerMachine.js', export: 'breakerMachine', name: 'breakerMachine' },
  { file: 'dist/registry/registryMachine.js', export: 'registryMachine', name: 'registryMachine' },
  {
    file: 'dist/host/hostMachine.js',
    export: 'createHostMachine',
    name: 'hostMachine',
    make: (createHostMachine) => createHostMachine((_actor, id) => id),
  },
];

const root = fileURLToPath(new URL('..', import.meta.url));
const folder = join(root, 'diagrams');
const { files, problems } = await drawAll(table, root);

// A machine that could not be drawn would make its diagrams look like strangers: stop before that.
if (problems.length > 0) {
  for (const problem of problems) console.error(`diagrams: ${problem}`);
  process.exit(1);
}
if (process.argv.includes('--check')) {
  const found = differences(files, folder);
  for (const difference of found) console.error(`diagrams/${difference}: npm run diagrams writes it`);
  console.log(`${table.length} machines, ${files.size} files, ${found.length} out of date`);
  if (found.length > 0) process.exitCode = 1;
} else {
  writeAll(files, folder);
  console.log(`${table.length} machines, ${files.size} files written`);
}
