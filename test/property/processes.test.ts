/** The rules of the wire with real child processes in real time. Nothing here asserts how long anything takes. */

import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createHost } from '../../src/host/createHost.js';
import { type FarSideOptions, scripts } from '../../src/testing/arbitraries.js';
import { checkTrace, type OracleConfig } from '../../src/testing/invariants.js';
import type { Script } from '../../src/testing/script.js';
import { WireTrace } from '../../src/testing/wireTrace.js';
import { systemClock } from '../../src/transports/clock.js';
import { stdioTransport } from '../../src/transports/stdio.js';
import type { TransportFactory } from '../../src/transports/transport.js';
import { printViolation } from './support/wireProperty.js';

const RUNS = Number(process.env['PEERAGE_PROCESS_RUNS'] ?? 64);
/** Runs at the same time: most of a run is waiting. */
const AT_ONCE = 8;

const SERVER = fileURLToPath(new URL('../fixtures/scriptedServer.mjs', import.meta.url));

const ORACLE: OracleConfig = {
  modernRevisions: ['2026-07-28', '2027-01-01', '2027-06-01'],
  legacyRevisions: ['2024-11-05', '2025-11-25'],
  clientInfo: { name: 'processes', version: '1.0.0' },
  probeTimeoutMs: 2_500,
  legacyProbeTimeoutMs: 2_500,
  stableAfterMs: 1_000,
  // A busy machine may not run this process for a while.
  toleranceMs: 2_000,
};

const FAR_SIDE: FarSideOptions = {
  revisions: { modern: ORACLE.modernRevisions, legacy: ORACLE.legacyRevisions },
  probeTimeoutMs: 100,
  maxMessageBytes: 2_048,
};

interface Plan {
  readonly script: Script;
  readonly allowLegacy: boolean;
  readonly isReplaced: boolean;
}

const plans = fc.record<Plan>({
  script: scripts(FAR_SIDE),
  allowLegacy: fc.constantFrom(true, true, false),
  isReplaced: fc.boolean(),
});

test(`the wire of ${RUNS} hosts over child processes obeys every rule`, { timeout: 600_000 }, async () => {
  const batch = fc.array(plans, { minLength: AT_ONCE, maxLength: AT_ONCE });
  await fc.assert(
    fc.asyncProperty(batch, async (list) => {
      const problems = (await Promise.all(list.map(play))).flat();
      if (problems.length > 0) expect.fail(problems.join('\n'));
    }),
    { numRuns: Math.ceil(RUNS / AT_ONCE), endOnFailure: true },
  );
  console.info(`process-level property runs: ${Math.ceil(RUNS / AT_ONCE) * AT_ONCE}`);
});

async function play({ script, allowLegacy, isReplaced }: Plan): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'peerage-processes-'));
  const trace = new WireTrace(systemClock);
  let lives = 0;
  const spawned: TransportFactory = (events) => {
    const env = {
      SCRIPT: JSON.stringify(script),
      LIFE: String(lives),
      RECORD: join(folder, String(lives + 1)),
    };
    lives += 1;
    return stdioTransport({
      command: process.execPath,
      args: [SERVER],
      env,
      maxMessageBytes: FAR_SIDE.maxMessageBytes,
      shutdownGraceMs: 300,
    })(events);
  };
  const pin = 'scripted server';
  const peer = () => ({
    createTransport: trace.record({ peer: 'archive', pin, allowLegacy }, spawned),
    identity: pin,
    allowLegacy,
  });
  const { toleranceMs: _, ...options } = ORACLE;
  const host = createHost({
    ...options,
    peers: { archive: peer() },
    startTimeoutMs: 6_000,
    listTimeoutMs: 1_000,
    maxAttempts: 1,
    backoffMinMs: 1,
    backoffMaxMs: 20,
    retryUnavailableAfterMs: 0,
    maxMessageBytes: FAR_SIDE.maxMessageBytes,
  });
  try {
    trace.command('start');
    await host.start();
    await host.call('echo', { text: 'one' }, { timeoutMs: 300 });
    if (isReplaced) {
      trace.command('remove', 'archive');
      await host.removePeer('archive');
      trace.command('add', 'archive');
      await host.addPeer('archive', peer());
    } else {
      trace.command('retry', 'archive');
      host.peer('archive').retry();
    }
    await host.call('echo', { text: 'two' }, { timeoutMs: 300 });
  } finally {
    trace.command('stop');
    await host.stop();
  }
  const problems = checkTrace(trace.events, ORACLE).map(printViolation);
  for (let connection = 1; connection <= lives; connection += 1) {
    problems.push(...compare(trace, connection, join(folder, String(connection))));
  }
  rmSync(folder, { recursive: true, force: true });
  return problems.length === 0 ? [] : [...problems, trace.print(), JSON.stringify(script)];
}

/** What the process got must be what was recorded as written, as far as it lived to read it; and it must be gone. */
function compare(trace: WireTrace, connection: number, file: string): string[] {
  const lines = linesOf(file);
  if (lines === null) return [];
  const [pid, ...received] = lines;
  const written = trace.events.flatMap((event) =>
    event.kind === 'out' && event.connection === connection ? [event.text] : [],
  );
  const problems = isAlive(Number(pid)) ? [`process ${pid} of connection ${connection} is still there`] : [];
  for (const [index, line] of received.entries()) {
    const text = JSON.parse(line) as string;
    if (text !== written[index])
      problems.push(`connection ${connection} got ${text}, recorded is ${written[index]}`);
  }
  return problems;
}

/** Null: the process was ended before it ran. */
function linesOf(file: string): string[] | null {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n');
  } catch {
    return null;
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}
