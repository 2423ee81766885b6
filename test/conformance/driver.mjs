// The client that the official conformance suite starts, once a scenario: one host with one peer, on the public API.
//
//   node driver.mjs <URL of the server>
//
// The suite says by the environment which scenario it is (MCP_CONFORMANCE_SCENARIO), what its server speaks
// (MCP_CONFORMANCE_PROTOCOL_VERSION) and what only the client may know (MCP_CONFORMANCE_CONTEXT). Exit code 0: all that
// the scenario is about went as it has to.

import { createHost } from 'peerage';
import { credentialsFor } from './credentials.mjs';
import { handlers } from './inputs.mjs';
import { Session } from './session.mjs';
import { storyOf } from './stories.mjs';

const FIRST_MODERN = '2026-07-28';
/** Within the limit that the runner has the suite set (suite.mjs), so that what hung is told here. */
const DEADLINE_MS = 75_000;
/** Nothing here proves anything by silence, and the suite's report starts forty clients at once. */
const PATIENCE_MS = 60_000;

const url = process.argv.at(-1);
const scenario = process.env['MCP_CONFORMANCE_SCENARIO'];
const revision = process.env['MCP_CONFORMANCE_PROTOCOL_VERSION'] ?? '2025-11-25';
const context = JSON.parse(process.env['MCP_CONFORMANCE_CONTEXT'] ?? '{}');
// The operator's word for this one URL, and only where the run is about a legacy revision. Revisions compare as text.
const allowLegacy = revision < FIRST_MODERN && process.env['PEERAGE_CONFORMANCE_NO_ALLOWLIST'] === undefined;

/** Ends the process where `host.stop()` did not: something of it is still open. */
function endAnyway(code) {
  const timer = setTimeout(() => {
    console.error('the process had to be ended: something is still open after stop()');
    process.exit(code === 0 ? 1 : code);
  }, 3_000);
  timer.unref();
}

async function run() {
  if (scenario === undefined) throw new Error('MCP_CONFORMANCE_SCENARIO is not set');
  const auth = await credentialsFor({ scenario, url, context });
  const host = createHost({
    peers: { server: { url, allowLegacy, ...(auth === undefined ? {} : { auth }) } },
    clientInfo: { name: 'peerage-conformance', version: '1.0.0' },
    handlers,
    probeTimeoutMs: PATIENCE_MS,
    legacyProbeTimeoutMs: PATIENCE_MS,
    listTimeoutMs: PATIENCE_MS,
    callTimeoutMs: PATIENCE_MS,
    startTimeoutMs: PATIENCE_MS,
    maxAttempts: 2,
    retryUnavailableAfterMs: 0,
  });
  let timer;
  const deadline = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${DEADLINE_MS} ms`)), DEADLINE_MS);
  });
  const session = new Session(host, 'server');
  try {
    await Promise.race([storyOf(scenario)(session, context), deadline]);
  } catch (error) {
    console.error(session.peer.explain());
    throw error;
  } finally {
    clearTimeout(timer);
    await host.stop();
  }
}

let code = 0;
try {
  await run();
} catch (error) {
  code = 1;
  console.error(`${scenario}: ${error instanceof Error ? (error.stack ?? error.message) : error}`);
}
process.exitCode = code;
endAnyway(code);
