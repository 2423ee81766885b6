// The official conformance suite against this package, client role, read strictly:
//
//   npm run conformance -- [--leg modern|legacy|legacy-refused] [--scenario NAME] [--keep] [--check-docs]
//
// Each scenario runs singly, on three legs: servers of the modern revision with no allowlist; servers of the legacy
// revision, the one peer allowlisted; and those again with no allowlist, where the wire must hold no `initialize`.
// There is no file of expected failures. Exit code 0: everything passed, on the wire too, and the table in
// docs/conformance.md is as this run found it; a full run writes it, `--check-docs` only compares.

import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { updateDocument } from './document.mjs';
import { LEGACY, legs, MODERN, refusals, required, scenariosOf, unscored } from './requirements.mjs';
import { installSuite, suiteVersion } from './suite.mjs';
import { judgeScenario } from './verdict.mjs';
import { judgeWire, readRecord } from './wireCheck.mjs';

const AT_A_TIME = 2;

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const options = parseArgs({
  options: {
    leg: { type: 'string', multiple: true },
    scenario: { type: 'string', multiple: true },
    keep: { type: 'boolean', default: false },
    'check-docs': { type: 'boolean', default: false },
  },
}).values;
const wanted = Object.keys(legs).filter((leg) => options.leg === undefined || options.leg.includes(leg));
const isWanted = (name) => options.scenario === undefined || options.scenario.includes(name);
const full = options.leg === undefined && options.scenario === undefined;
if (wanted.length === 0 || !wanted.some((leg) => scenariosOf(leg).some(isWanted))) {
  console.error(`conformance: no such leg or scenario; legs are ${Object.keys(legs).join(', ')}`);
  process.exit(2);
}

const failures = [];
const dir = mkdtempSync(join(tmpdir(), 'peerage-conformance-'));
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => process.exit(130));
process.on('exit', () => {
  if (options.keep) console.log(`kept: ${dir}`);
  else rmSync(dir, { recursive: true, force: true });
});

const suite = installSuite();
console.log(
  `conformance ${suiteVersion} on Node ${suite.nodeVersion}, the client on Node ${process.version}`,
);

// The driver runs on the Node that runs this: the one that the package is tested on.
const command = [process.execPath, '--import', here('wire.mjs'), here('driver.mjs')];

const sameNames = (a, b) => JSON.stringify([...a].sort()) === JSON.stringify([...b].sort());
for (const revision of [MODERN, LEGACY]) {
  const said = suite.requirements(revision);
  if (!sameNames(said.required, required[revision]) || !sameNames(said.unscored, unscored))
    failures.push(`the suite requires other scenarios for ${revision} than this run has`);
}

async function runScenario(leg, name) {
  const { revision, allowLegacy, judged } = legs[leg];
  const outputDir = join(dir, leg, name.replaceAll('/', '_'));
  const recordFile = join(dir, `${leg}-${name.replaceAll('/', '_')}.jsonl`);
  const env = { PEERAGE_CONFORMANCE_RECORD: recordFile };
  if (!allowLegacy) env.PEERAGE_CONFORMANCE_NO_ALLOWLIST = '1';

  const started = performance.now();
  const { exitCode, checks, output } = await suite.scenario({ name, revision, command, env, outputDir });
  const ms = Math.round(performance.now() - started);
  const {
    writes,
    url,
    exitCode: driverExit,
  } = readRecord(existsSync(recordFile) ? readFileSync(recordFile, 'utf8') : '');
  const wire =
    url === null ? { problems: ['the client did not start'], messages: [] } : judgeWire({ leg, writes, url });
  const verdict = judgeScenario({
    judged,
    isRefusal: refusals.includes(name),
    exitCode,
    checks,
    driverExit,
    wireProblems: wire.problems,
  });

  const { passed, problems, succeeded, scored } = verdict;
  const told = judged ? `${succeeded}/${scored} checks` : `${wire.messages.length} messages`;
  console.log(
    `${passed ? 'ok    ' : 'FAILED'} ${leg.padEnd(14)} ${name.padEnd(40)} ${told.padEnd(13)} ${ms} ms`,
  );
  for (const problem of problems) console.log(`       ${problem}`);
  if (!passed && judged) {
    const [, client = ''] = /Stderr:\n([\s\S]*?)\nResults saved/.exec(output) ?? [];
    if (client.trim() !== '') console.log(client.trim().replaceAll(/^/gm, '       | '));
  }
  if (!passed) failures.push(`${leg}: ${name}`);
  return { leg, name, passed, succeeded, scored };
}

/** All of a leg, so many at a time. */
async function runLeg(leg) {
  const queue = scenariosOf(leg).filter(isWanted);
  const results = [];
  const worker = async () => {
    for (let name = queue.shift(); name !== undefined; name = queue.shift())
      results.push(await runScenario(leg, name));
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, worker));
  return results;
}

const results = [];
for (const leg of wanted) results.push(...(await runLeg(leg)));

if (full) {
  for (const [leg, { revision, judged }] of Object.entries(legs)) {
    if (!judged) continue;
    // It starts forty clients at once, and its servers have one process among them: on a machine with other work they may
    // close connections that are in use. So it may have a second try; what is strict is above, one by one.
    let code = 1;
    for (let attempt = 1; code !== 0 && attempt <= 2; attempt += 1) {
      console.log(`\nthe official report for ${revision}${attempt === 1 ? '' : ', once more'}`);
      const outputDir = join(dir, `official-${leg}-${attempt}`);
      const report = await suite.report({ revision, command, env: {}, outputDir });
      console.log(report.output.slice(report.output.lastIndexOf('=== ')));
      code = report.code;
    }
    if (code !== 0) failures.push(`the official report for ${revision} ended with ${code}`);
  }
}

console.log('');
for (const leg of wanted) {
  const of = results.filter((result) => result.leg === leg);
  const passedOf = (names) => {
    const some = of.filter(({ name }) => names.includes(name));
    return `${some.filter(({ passed }) => passed).length} of ${some.length}`;
  };
  console.log(
    `${leg}: ${passedOf(required[legs[leg].revision])} required, ${passedOf(unscored)} unscored scenarios`,
  );
}
if (full && failures.length === 0) {
  const problem = updateDocument({ results, check: options['check-docs'] });
  if (problem !== null) failures.push(problem);
}
for (const failure of failures) console.error(`conformance: ${failure}`);
process.exitCode = failures.length === 0 ? 0 : 1;
