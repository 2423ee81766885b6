/** Whether the properties notice: every mutant of the peer chart must break the model or a rule. */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { peerRules } from '../../src/testing/peerRules.js';
import { directedScripts, runDirected } from './directedScripts.js';
import { type Mutant, peerMutants } from './mutants.js';
import { PeerRig, type Run } from './peerRig.js';
import { balanced, runScript, scripts } from './peerScripts.js';

/** Scripts for those that survive all directed ones; always the same. */
const random = fc.sample(scripts, { seed: 20_260_728, numRuns: 1_000 });

/** Changes that change nothing for another reason than the structure of the chart, and why. */
const equivalent: Readonly<Record<string, string>> = {
  'root: peer.modernEvidence[0] is guarded by isFirstCorrection':
    'what was corrected gave modern evidence, so there is nothing left to note',
  'idle: host.start[0] is guarded by isFirstCorrection': 'nothing was corrected before the first negotiation',
};

beforeAll(() => {
  vi.spyOn(console, 'warn').mockImplementation(() => {});
});

afterAll(() => {
  vi.restoreAllMocks();
});

function isBroken({ problem, trace, options }: Run): boolean {
  return problem !== null || peerRules.some(({ check }) => check(trace, options, () => {}) !== undefined);
}

function isKilled(mutant: Mutant): boolean {
  let rig: PeerRig;
  try {
    rig = new PeerRig(mutant.build);
  } catch {
    // XState refuses it.
    return true;
  }
  const near = directedScripts.filter(({ about }) => about === mutant.about);
  const far = directedScripts.filter(({ about }) => about !== mutant.about);
  return (
    [...near, ...far].some((script, index) => isBroken(runDirected(rig, script, index))) ||
    random.some((script) => isBroken(runScript(rig, script, balanced)))
  );
}

it('every mutant of the peer chart is noticed', () => {
  const mutants = peerMutants();
  const survivors: string[] = [];
  let killed = 0;
  let excused = 0;
  for (const mutant of mutants) {
    if (mutant.equivalent !== undefined || equivalent[mutant.name] !== undefined) excused += 1;
    else if (isKilled(mutant)) killed += 1;
    else survivors.push(mutant.name);
  }
  console.info(`${mutants.length - excused} mutants, ${killed} killed (${excused} more are equivalent)`);
  expect(survivors).toEqual([]);
}, 900_000);
