// The strict reading of one scenario. The suite's own modes overlook what the client's process did, a time-out, a
// warning, and a scenario in which nothing was checked.

const count = (checks, status) => checks.filter((check) => check.status === status).length;

/**
 * @returns what is wrong, as sentences; none: the scenario is passed. `checks` is `passed/scored` for the table.
 */
export function judgeScenario({ judged, isRefusal, exitCode, checks, driverExit, wireProblems }) {
  const problems = [...wireProblems];
  // With the legacy servers refused the suite can't be content; that the driver ended by itself is asked all the same.
  if (driverExit === null) problems.push('the client did not end by itself');
  if (checks === null) problems.push('the suite left no checks');
  if (judged && checks !== null) {
    if (driverExit !== null && driverExit !== 0) problems.push(`the client ended with ${driverExit}`);
    if (exitCode !== 0) problems.push(`the suite ended with ${exitCode}`);
    for (const { status, id, errorMessage, description } of checks) {
      if (status === 'FAILURE' || status === 'WARNING')
        problems.push(`${status.toLowerCase()} ${id}: ${errorMessage ?? description}`);
      else if (!['SUCCESS', 'SKIPPED', 'INFO'].includes(status)) problems.push(`unknown status ${status}`);
    }
    if (count(checks, 'SUCCESS') === 0) problems.push('nothing was checked');
  }
  if (!judged && !isRefusal && driverExit === 0)
    problems.push('the client was content with a server that it may not use');
  return { passed: problems.length === 0, problems, ...tally(checks ?? []) };
}

function tally(checks) {
  const succeeded = count(checks, 'SUCCESS');
  return { succeeded, scored: succeeded + count(checks, 'FAILURE') + count(checks, 'WARNING') };
}
