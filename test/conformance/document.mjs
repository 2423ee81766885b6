// Writes what a full run found into docs/conformance.md, between `<!-- results -->` and `<!-- /results -->`. Nothing in
// it changes from run to run: no times, no ports.

import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { fileURLToPath } from 'node:url';
import { markdownTable } from '../../scripts/lib/sections.mjs';
import { LEGACY, MODERN, required, unscored } from './requirements.mjs';
import { suiteVersion } from './suite.mjs';

const root = fileURLToPath(new URL('../..', import.meta.url));
const name = 'docs/conformance.md';
const path = fileURLToPath(new URL('../../docs/conformance.md', import.meta.url));

const markers = /(<!-- results -->)[\s\S]*?(<!-- \/results -->)/;
const row = (scenario, results) => {
  const [modern, legacy, refused] = ['modern', 'legacy', 'legacy-refused'].map((leg) =>
    results.find((result) => result.leg === leg && result.name === scenario),
  );
  const verdict = (result) => (result === undefined ? '–' : result.passed ? 'passed' : 'failed');
  const checks = [modern, legacy].flatMap((result) =>
    result === undefined ? [] : `${result.succeeded} of ${result.scored}`,
  );
  return [`\`${scenario}\``, verdict(modern), verdict(legacy), verdict(refused), checks.join(', ')];
};

/** What the document says of the results of a full run. */
export function resultsAsMarkdown(results) {
  const table = (scenarios) =>
    markdownTable(
      ['scenario', MODERN, LEGACY, `${LEGACY}, refused`, 'checks (each revision)'],
      [...scenarios].sort().map((scenario) => row(scenario, results)),
    );
  const passed = (leg, names) => {
    const some = results.filter((result) => result.leg === leg && names.includes(result.name));
    return `${some.filter((result) => result.passed).length} of ${names.length}`;
  };
  const total = (what, leg, revision) => [what, passed(leg, required[revision]), passed(leg, unscored)];
  return [
    `Suite: \`@modelcontextprotocol/conformance\` ${suiteVersion}`,
    markdownTable(
      ['leg', 'required', 'not scored'],
      [
        total(`${MODERN}, no allowlist`, 'modern', MODERN),
        total(`${LEGACY}, the one URL allowlisted`, 'legacy', LEGACY),
        total(`${LEGACY}, refused: no allowlist, no \`initialize\``, 'legacy-refused', LEGACY),
      ],
    ),
    'Required scenarios:',
    table(new Set([...required[MODERN], ...required[LEGACY]])),
    'Scenarios that the suite reports and does not score:',
    table(unscored),
  ].join('\n\n');
}

/** @returns what is wrong, null where nothing is */
export function updateDocument({ results, check }) {
  const text = readFileSync(path, 'utf8');
  if (!markers.test(text)) return `${name} has no place for the results`;
  const filled = formatted(
    text.replace(markers, (_all, open, close) => `${open}\n\n${resultsAsMarkdown(results)}\n\n${close}`),
  );
  if (filled === text) return null;
  if (check) return `${name} is out of date: npm run conformance writes it`;
  writeFileSync(path, filled);
  console.log(`${name} rewritten`);
  return null;
}

/** The formatter has the last word on Markdown. */
function formatted(text) {
  const biome = createRequire(import.meta.url).resolve('@biomejs/biome/bin/biome');
  const run = spawnSync(process.execPath, [biome, 'format', `--stdin-file-path=${name}`], {
    cwd: root,
    input: text,
    encoding: 'utf8',
  });
  if (run.status !== 0) throw new Error(`the formatter failed: ${run.stderr}`);
  return run.stdout;
}
