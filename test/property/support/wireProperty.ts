/** Runs a property over hosts and says what was wrong, with the whole wire. */
import * as fc from 'fast-check';
import { expect } from 'vitest';
import { checkTrace, type Violation } from '../../../src/testing/invariants.js';
import { ORACLE, type RunPlan, type RunResult, run } from './hostRun.js';

/** At least so many runs in all, over both files. `PEERAGE_WIRE_RUNS` is another number. */
const ALL_RUNS = Number(process.env['PEERAGE_WIRE_RUNS'] ?? 10_000);

/** A failed run is shown as it is; with `PEERAGE_WIRE_SHRINK=1` it is made smaller first, which takes minutes. */
const SHRINKS = process.env['PEERAGE_WIRE_SHRINK'] === '1';

export interface Seen {
  readonly runs: number;
  /** How often each state was reached, and each message written. */
  readonly count: ReadonlyMap<string, number>;
}

/**
 * @param share of all runs
 * @param wrong what else is wrong with a run
 */
export async function checkRuns(
  plans: fc.Arbitrary<RunPlan>,
  share: number,
  wrong: (result: RunResult, violations: readonly Violation[]) => readonly string[],
): Promise<Seen> {
  const runs = Math.ceil(ALL_RUNS * share);
  const count = new Map<string, number>();
  const add = (what: string): void => void count.set(what, (count.get(what) ?? 0) + 1);
  await fc.assert(
    fc.asyncProperty(plans, async (plan) => {
      const result = await run(plan);
      for (const state of result.states) add(state);
      for (const event of result.trace.events) {
        if (event.kind === 'out') add((JSON.parse(event.text) as { method?: string }).method ?? 'response');
      }
      const problems = wrong(result, checkTrace(result.trace.events, ORACLE));
      if (problems.length > 0) expect.fail(`${problems.join('\n')}\n${result.trace.print()}`);
    }),
    { numRuns: runs, endOnFailure: !SHRINKS },
  );
  console.info(`wire-level property runs: ${runs}`);
  return { runs, count };
}

/** Everything that was found wrong. */
export function anything({ problems }: RunResult, violations: readonly Violation[]): string[] {
  return [...problems, ...violations.map(printViolation)];
}

export function printViolation({ rule, check, message, connection, peer }: Violation): string {
  return `${rule}, ${check}: ${message} (${peer}, connection ${connection})`;
}

/** A property that never meets what it is about proves nothing. Judged only where there were enough runs. */
export function expectToHaveSeen({ runs, count }: Seen, expected: readonly string[]): void {
  if (runs < 1_000) return;
  for (const what of expected) expect(count.get(what) ?? 0, what).toBeGreaterThan(runs / 200);
}
