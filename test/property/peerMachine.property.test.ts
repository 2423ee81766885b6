/**
 * The peer chart against its model and against the rules, on random and on directed scripts, without I/O and without
 * real time. `PEERAGE_MACHINE_RUNS` sets how many random scripts run in all (default 100,000).
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { createPeerMachine } from '../../src/machines/peerMachine.js';
import { peerRules } from '../../src/testing/peerRules.js';
import { directedScripts, runDirected } from './directedScripts.js';
import { allEdges, edgesTaken } from './edges.js';
import { type Coverage, describe as inWords, PeerRig } from './peerRig.js';
import { balanced, explain, type Mix, runScript, scripts } from './peerScripts.js';

const TIMEOUT_MS = 600_000;
const runsAskedFor = Number(process.env['PEERAGE_MACHINE_RUNS'] ?? 100_000);

const mixes: Readonly<Record<string, Mix>> = {
  balanced,
  'wrongly timed events': { ...balanced, anyEvent: 50 },
  'children that fail': { ...balanced, fault: 20, plan: 20, anyEvent: 5 },
  'time that passes': { ...balanced, deadline: 35, time: 20, anyEvent: 5 },
  'one negotiation after the other': { anyEvent: 0, deadline: 5, time: 0, fault: 0, plan: 0, stop: 0 },
};

const rig = new PeerRig(createPeerMachine);
const coverage: Coverage = new Map();
let runs = 0;

/** Half of the runs are for the rules, the others for the model. */
const runsPerRule = Math.max(20, Math.floor(runsAskedFor / 2 / peerRules.length));
const runsPerMix = Math.ceil((runsAskedFor - runsPerRule * peerRules.length) / Object.keys(mixes).length);

beforeAll(() => {
  // XState's development build speaks of every event to an actor that ended.
  vi.spyOn(console, 'warn').mockImplementation(() => {});
});

afterAll(() => {
  vi.restoreAllMocks();
  console.info(`machine-level property runs: ${runs}`);
});

describe('the chart does what the model says', () => {
  for (const [name, mix] of Object.entries(mixes)) {
    it(
      name,
      () => {
        const property = fc.property(scripts, (script) => {
          runs += 1;
          // An inspector is costly, and a few thousand runs see all there is to see.
          const { problem } = runScript(rig, script, mix, runs % 8 === 0 ? coverage : undefined);
          if (problem !== null) throw new Error(`${problem}\n${explain(rig, script, mix)}`);
        });
        fc.assert(property, { numRuns: Math.max(20, runsPerMix) });
      },
      TIMEOUT_MS,
    );
  }

  it(
    'a way into each state, each stimulus there, and what may follow',
    () => {
      for (const [index, script] of directedScripts.entries()) {
        const run = runDirected(rig, script, index, coverage);
        const problems = [
          run.problem,
          ...peerRules.map(({ check }) => check(run.trace, run.options, () => {})),
        ];
        const problem = problems.find((found) => typeof found === 'string');
        if (problem !== undefined) {
          const lines = [JSON.stringify(script.options), ...script.commands.map(inWords)];
          throw new Error(`${problem}\n${lines.join('\n')}`);
        }
      }
    },
    TIMEOUT_MS,
  );
});

describe('rules', () => {
  for (const rule of peerRules) {
    it(
      rule.name,
      () => {
        let applied = 0;
        const property = fc.property(scripts, (script) => {
          runs += 1;
          const run = runScript(rig, script, balanced);
          const broken = rule.check(run.trace, run.options, () => {
            applied += 1;
          });
          const problem = broken ?? run.problem;
          if (problem !== null) throw new Error(`${problem}\n${explain(rig, script, balanced)}`);
        });
        fc.assert(property, { numRuns: runsPerRule });
        // What never applies was not tested. The directed scripts see to it where there are few runs.
        for (const [index, script] of directedScripts.entries()) {
          if (applied > 0) break;
          const run = runDirected(rig, script, index);
          rule.check(run.trace, run.options, () => {
            applied += 1;
          });
        }
        expect(applied).toBeGreaterThan(0);
      },
      TIMEOUT_MS,
    );
  }
});

describe('the edges of the chart', () => {
  it('are all taken', () => {
    if (coverage.size === 0) {
      for (const [index, script] of directedScripts.entries()) runDirected(rig, script, index, coverage);
    }
    const taken = edgesTaken(rig.machine, coverage);
    expect(allEdges(rig.machine).filter((edge) => !taken.has(edge))).toEqual([]);
    expect([...taken].filter((edge) => edge.includes('not in the chart'))).toEqual([]);
  });
});
