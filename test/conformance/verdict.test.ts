// The strict reading of a scenario: each thing that the suite's own modes overlook is a failure here.
import { describe, expect, test } from 'vitest';
import { type Check, judgeScenario } from './verdict.mjs';

const check = (status: string): Check => ({ id: 'a-check', status, description: 'what it is about' });
const good = {
  judged: true,
  isRefusal: false,
  exitCode: 0,
  checks: [check('SUCCESS'), check('SKIPPED'), check('INFO')],
  driverExit: 0,
  wireProblems: [],
};

describe('a scenario', () => {
  test('is passed where all is well', () => {
    expect(judgeScenario(good)).toEqual({ passed: true, problems: [], succeeded: 1, scored: 1 });
  });

  test.each([
    ['a failed check', { checks: [check('SUCCESS'), check('FAILURE')] }, 'failure a-check: what it is about'],
    ['a warning', { checks: [check('SUCCESS'), check('WARNING')] }, 'warning a-check: what it is about'],
    ['a status nobody knows', { checks: [check('SUCCESS'), check('MAYBE')] }, 'unknown status MAYBE'],
    ['nothing checked', { checks: [check('SKIPPED'), check('INFO')] }, 'nothing was checked'],
    ['an empty set of checks', { checks: [] }, 'nothing was checked'],
    ['no checks at all', { checks: null }, 'the suite left no checks'],
    ['a suite that failed', { exitCode: 1 }, 'the suite ended with 1'],
    ['a client that failed, allowed or not', { driverExit: 1 }, 'the client ended with 1'],
    ['a client that was ended', { driverExit: null }, 'the client did not end by itself'],
    ['a wire that is not right', { wireProblems: ['initialize was written'] }, 'initialize was written'],
  ])('fails on %s', (_what, change, problem) => {
    const { passed, problems } = judgeScenario({ ...good, ...change });
    expect(passed).toBe(false);
    expect(problems).toContain(problem);
  });

  test('whose server is refused: the wire decides, and the client must not be content', () => {
    const refused = { ...good, judged: false, exitCode: 1, checks: [check('FAILURE')], driverExit: 1 };
    expect(judgeScenario(refused).passed).toBe(true);
    expect(judgeScenario({ ...refused, driverExit: 0 }).passed).toBe(false);
    expect(judgeScenario({ ...refused, driverExit: 0, isRefusal: true }).passed).toBe(true);
    expect(judgeScenario({ ...refused, driverExit: null }).passed).toBe(false);
    expect(judgeScenario({ ...refused, wireProblems: ['initialize was written'] }).passed).toBe(false);
  });
});
