// Fills the generated sections of the documents from what the compiled package itself says, so that no table
// in them can disagree with the code.
//
//   node scripts/docs.mjs           rewrites the sections
//   node scripts/docs.mjs --check   changes nothing; exits 1 and names what is out of date
//
// A section stands between `<!-- generated:NAME -->` and `<!-- /generated -->`, in README.md or docs/*.md.

import { spawnSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { fillSections, markdownTable, sectionNames } from './lib/sections.mjs';

/** For each section the module that knows, the documents that must have it, and the text it becomes. */
const sections = {
  evidence: {
    module: 'dist/protocol/evidenceTable.js',
    in: 'docs/evidence.md',
    render: ({ evidenceTable }) =>
      markdownTable(
        ['sent', 'what came of it', 'verdict', 'rule', 'legacy probe', 'reason, if that is the end'],
        evidenceTable().map((row) => [
          `\`${row.sent}\``,
          row.outcome,
          `\`${row.verdict}\``,
          row.rule,
          row.legacyProbe ? 'may follow' : 'never',
          row.reason === null ? '–' : `\`${row.reason}\``,
        ]),
      ),
  },
};

const root = fileURLToPath(new URL('..', import.meta.url));
const check = process.argv.includes('--check');
const problems = [];

async function render(name) {
  const { module, render: toText } = sections[name];
  const path = join(root, module);
  if (!existsSync(path)) throw new Error(`${module} does not exist; npm run build makes it`);
  return toText(await import(pathToFileURL(path).href));
}

/** The formatter has the last word on Markdown too, so that it and this script never undo each other. */
function formatted(text, document) {
  const biome = createRequire(import.meta.url).resolve('@biomejs/biome/bin/biome');
  const run = spawnSync(process.execPath, [biome, 'format', `--stdin-file-path=${document}`], {
    cwd: root,
    input: text,
    encoding: 'utf8',
  });
  if (run.status !== 0) throw new Error(`the formatter failed: ${run.stderr}`);
  return run.stdout;
}

const contents = new Map();
for (const name of Object.keys(sections)) {
  try {
    contents.set(name, await render(name));
  } catch (error) {
    problems.push(`section ${name}: ${error instanceof Error ? error.message : error}`);
  }
}

const docs = existsSync(join(root, 'docs')) ? readdirSync(join(root, 'docs'), { recursive: true }) : [];
const documents = ['README.md', ...docs.map((name) => `docs/${name.replaceAll('\\', '/')}`)]
  .filter((name) => name.endsWith('.md') && existsSync(join(root, name)))
  .sort();
const seen = new Set();
let changed = 0;

for (const document of documents) {
  const text = readFileSync(join(root, document), 'utf8');
  try {
    const names = sectionNames(text);
    for (const name of names) {
      if (!Object.hasOwn(sections, name)) throw new Error(`no section is called ${name}`);
      seen.add(`${name} ${document}`);
    }
    if (!names.every((name) => contents.has(name))) continue;
    if (names.length === 0) continue;
    const filled = formatted(fillSections(text, contents), document);
    if (filled === text) continue;
    changed += 1;
    if (check) problems.push(`${document} is out of date: npm run docs writes it`);
    else writeFileSync(join(root, document), filled);
  } catch (error) {
    problems.push(`${document}: ${error instanceof Error ? error.message : error}`);
  }
}
// A section that has silently left its document would never be out of date.
for (const [name, { in: document }] of Object.entries(sections))
  if (!seen.has(`${name} ${document}`)) problems.push(`${document} has no section ${name}`);

for (const problem of problems) console.error(`docs: ${problem}`);
console.log(
  `${documents.length} documents, ${seen.size} generated sections, ${changed} ${check ? 'out of date' : 'rewritten'}`,
);
if (problems.length > 0) process.exitCode = 1;
