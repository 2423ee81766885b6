import fc from 'fast-check';
import { expect, it, vi } from 'vitest';
import { createPeerMachine } from '../../src/machines/peerMachine.js';
import { peerRules } from '../../src/testing/peerRules.js';
import { PeerRig } from './peerRig.js';
import { balanced, explain, runScript, scripts } from './peerScripts.js';

it('x', () => {
  vi.spyOn(console, 'warn').mockImplementation(() => {});
  const rig = new PeerRig(createPeerMachine);
  const t = performance.now();
  let steps = 0;
  const counts = new Map<string, number>();
  try {
    fc.assert(
      fc.property(scripts, (script) => {
        const run = runScript(rig, script, balanced);
        steps += run.trace.length;
        const { problem } = run;
        let p = problem;
        for (const rule of peerRules) {
          const bad = rule.check(run.trace, rig['world'].options, () =>
            counts.set(rule.name, (counts.get(rule.name) ?? 0) + 1),
          );
          if (bad) p = `${rule.name}: ${bad}`;
        }
        if (p !== null) throw new Error(`${p}\n${explain(rig, script, balanced)}`);
      }),
      { numRuns: 5000 },
    );
  } finally {
    console.info(performance.now() - t, steps);
    for (const r of peerRules) console.info(r.name, counts.get(r.name) ?? 0);
  }
  expect(1).toBe(1);
});
