// A soak: many peers of both eras over both transports, a steady stream of calls, servers that are killed at random.
// In the end every call has exactly one outcome, no side effect has two, memory is flat, and nothing is left.
//
//   npm run soak -- [--seconds 600] [--peers 50] [--rate 200] [--seed N]
//
// It ends within a minute after the given seconds, whatever happens. `--expose-gc` is needed; the script has it.

import { getEventListeners } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Worker } from 'node:worker_threads';
import { createHost } from 'peerage';
import { Accounts } from './accounts.mjs';
import { Fleet } from './fleet.mjs';
import { MemoryWatch } from './memory.mjs';
import { createRandom } from './random.mjs';
import { Operator, Requests } from './requests.mjs';
import { toolsAt } from './servers/tools.mjs';
import { StallWatch } from './stall.mjs';
import { TOOLS, Traffic } from './traffic.mjs';

const { values } = parseArgs({
  options: {
    seconds: { type: 'string', default: '600' },
    peers: { type: 'string', default: '50' },
    rate: { type: 'string', default: '200' },
    seed: { type: 'string', default: String(Date.now() % 2 ** 31) },
  },
});
const [seconds, peerCount, rate, seed] = [values.seconds, values.peers, values.rate, values.seed].map(Number);
if (![seconds, peerCount, rate].every((value) => value > 0) || peerCount > 256 || !Number.isInteger(seed)) {
  console.error('soak: --seconds, --peers (up to 256), --rate and --seed are numbers');
  process.exit(2);
}

/** Memory may grow by this from the first third to the last. */
const MAX_GROWTH = 0.1;
const GRACE_MS = 55_000;
/** How long everything may take to recover, to stop, to be gone. */
const RECOVERY_MS = 20_000;
const STOP_MS = 10_000;
const GONE_MS = 3_000;

const watchdog = new Worker(new URL('./watchdog.mjs', import.meta.url), {
  workerData: { ms: seconds * 1_000 + GRACE_MS },
});
watchdog.unref();
const before = process.getActiveResourcesInfo();

const random = createRandom(seed);
const dir = mkdtempSync(join(tmpdir(), 'peerage-soak-'));
const fleet = new Fleet({ count: peerCount, dir, random: createRandom(random.below(2 ** 31)) });
const { peers } = fleet;
const stalls = new StallWatch();
const accounts = new Accounts(Math.ceil(rate * seconds) + peerCount * 50, TOOLS, stalls);
const failures = [];
const check = (holds, otherwise) => holds || failures.push(otherwise);

process.on('warning', (warning) => accounts.problem('warnings', warning.stack));
process.on('unhandledRejection', (reason) => accounts.problem('unhandled rejections', String(reason?.stack)));
process.on('uncaughtException', (error) => accounts.problem('uncaught exceptions', error.stack));

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
/** Whether `holds` comes true in time; asked ten times a second. */
async function comesTrue(holds, withinMs) {
  const end = performance.now() + withinMs;
  while (!(await holds())) {
    if (performance.now() > end) return false;
    await sleep(100);
  }
  return true;
}
/** Whether the promise settles in time. */
async function inTime(promise, withinMs) {
  let timer;
  const late = new Promise((resolve) => {
    timer = setTimeout(resolve, withinMs, false);
  });
  const done = await Promise.race([promise.then(() => true), late]);
  clearTimeout(timer);
  return done;
}

console.log(
  `soak: ${seconds} s, ${peerCount} peers, ${rate} calls/s, --seed ${seed}, Node ${process.version}`,
);
await fleet.start();
const host = createHost({
  peers: Object.fromEntries(peers.map((peer) => [peer.name, fleet.configOf(peer)])),
  collisions: 'prefix-always',
  random: createRandom(random.below(2 ** 31)).next,
  callTimeoutMs: 5_000,
  maxCallMs: 10_000,
  listTimeoutMs: 8_000,
  probeTimeoutMs: 5_000,
  legacyProbeTimeoutMs: 5_000,
  backoffMinMs: 50,
  backoffMaxMs: 1_000,
  stableAfterMs: 2_000,
  retryUnavailableAfterMs: 1_000,
  breakerOpenMs: 300,
  shutdownGraceMs: 500,
  handlers: {
    elicitForm: () => ({ action: 'accept', content: { name: 'soak' } }),
    listRoots: () => [{ uri: 'file:///tmp', name: 'tmp' }],
  },
});
let told = 0;
host.on('call', () => {
  told += 1;
});
const callable = () => peers.filter(({ name }) => host.peer(name).callable).length;
const operator = new Operator({ host, fleet, accounts, random: createRandom(random.below(2 ** 31)) });
await inTime(host.start(), RECOVERY_MS);
operator.start();
check(
  await comesTrue(() => callable() === peerCount, RECOVERY_MS),
  `only ${callable()} peers became callable`,
);

// 1. Traffic, and servers that die.
const durationMs = seconds * 1_000;
const traffic = new Traffic({ host, peers, accounts, random: createRandom(random.below(2 ** 31)) });
const requests = new Requests({ host, peers, accounts, random: createRandom(random.below(2 ** 31)) });
const memory = new MemoryWatch(
  durationMs,
  Math.min(240, Math.max(60, seconds)),
  () => accounts.inFlight + requests.inFlight,
);
// About one a second, however late the timer comes on a busy machine.
let nextStrike = performance.now();
const striker = setInterval(() => {
  for (; nextStrike < performance.now(); nextStrike += random.between(500, 1_500)) fleet.strike();
}, 100);
requests.start(rate / 10);
operator.startReplacing(5_000);
await traffic.run(rate, durationMs);
clearInterval(striker);
memory.stop();
requests.stop();
await operator.stopReplacing();

// 2. Silence: everything settles, everybody comes back, and answers.
const settles = await comesTrue(() => accounts.inFlight === 0 && requests.inFlight === 0, 15_000);
check(settles, `${accounts.inFlight} calls and ${requests.inFlight} requests never settled`);
const silentPeers = new Set(peers.keys());
await comesTrue(async () => {
  for (const index of [...silentPeers]) {
    if (accounts.begun === accounts.capacity) return true;
    const outcome = await traffic.call(index, 'echo', { plain: true });
    if (outcome?.status === 'ok') silentPeers.delete(index);
  }
  return silentPeers.size === 0;
}, RECOVERY_MS);
for (const index of silentPeers)
  failures.push(`${peers[index].name} does not answer any more: ${host.peer(peers[index].name).explain()}`);
// What servers announced has arrived, also what they announced while nobody listened.
const generations = await fleet.rest();
const isCurrent = ({ name }) => {
  if (generations[name] === undefined) return true;
  const wanted = toolsAt(generations[name]).find((tool) => tool.name === 'extra')?.description;
  return host.catalog().entries.get(`${name}/extra`)?.description === wanted;
};
await comesTrue(() => peers.every(isCurrent), RECOVERY_MS);
const stale = peers.filter((peer) => !isCurrent(peer)).map(({ name }) => name);
check(stale.length === 0, `the tools of ${stale.join(', ')} are not those of the server`);
// Renewals of lists are nobody's requests, but may be on the wire at a given moment.
const isBusy = ({ inFlight, queued }) => inFlight > 0 || queued > 0;
await comesTrue(() => !host.status().peers.some(isBusy), GONE_MS);
for (const { name, inFlight, queued } of host.status().peers.filter(isBusy))
  failures.push(`${name} has ${inFlight} requests in flight and ${queued} waiting, says its status`);
check(
  getEventListeners(traffic.sharedSignal, 'abort').length === 0,
  'listeners were left on the signal of a caller',
);
operator.stop();
stalls.stop();

// 3. The end: nothing is left.
check(await inTime(host.stop(), STOP_MS), 'stop() did not resolve');
check(await comesTrue(() => fleet.children === 0, GONE_MS), `${fleet.children} processes are left`);
const closed = await comesTrue(async () => (await fleet.connections()) === 0, GONE_MS);
check(closed, `${await fleet.connections()} HTTP connections are left`);
const { lives } = fleet;
await fleet.end();
const effects = accounts.audit(dir);
const leftovers = () => {
  const left = process.getActiveResourcesInfo();
  for (const name of before) if (left.includes(name)) left.splice(left.indexOf(name), 1);
  return left;
};
// A timer that waits for leftovers to go is one itself.
await comesTrue(() => leftovers().length === 0, GONE_MS);
check(leftovers().length === 0, `left in the event loop: ${leftovers().join(', ')}`);

const growth = memory.verdict();
check(
  growth.growth <= MAX_GROWTH,
  `memory grew by ${percent(growth.growth)} from the first third to the last`,
);
check(told === accounts.begun, `${told} calls were told of, ${accounts.begun} were made`);
for (const [kind, { count, told: details }] of accounts.problems)
  failures.push(`${count} ${kind}:${details.map((detail) => `\n    ${detail}`).join('')}`);
check(
  accounts.share('ok/') >= 0.5,
  `only ${percent(accounts.share('ok/'))} of the calls were ok: no meaningful run`,
);
for (const status of ['lost', 'timeout', 'cancelled', 'tool-error', 'unavailable', 'not-found', 'invalid'])
  check(accounts.share(status) > 0, `no call was ${status}: no meaningful run`);
report();

// The verdict is given when nothing keeps the process any more; what does is named.
const stuck = setTimeout(() => {
  failures.push(`the process does not end: ${process.getActiveResourcesInfo().join(', ')}`);
  conclude();
  process.exit(1);
}, 5_000);
stuck.unref();
process.once('beforeExit', conclude);

function conclude() {
  clearTimeout(stuck);
  if (failures.length === 0) {
    rmSync(dir, { recursive: true, force: true });
    console.log('soak: passed');
    return;
  }
  process.exitCode = 1;
  console.log(`soak: FAILED (--seed ${seed}; records of the servers: ${dir})`);
  for (const failure of failures) console.log(`  ${failure}`);
}

function report() {
  const rows = [...accounts.outcomes].sort(([, a], [, b]) => b.count - a.count);
  for (const [key, { count, message }] of rows)
    console.log(`  ${key.padEnd(28)} ${String(count).padStart(7)}  ${message.slice(0, 90)}`);
  const { kills } = fleet;
  const asked = [...requests.outcomes].sort().map(([key, count]) => `${key} ${count}`);
  const { latency } = accounts;
  const mib = (bytes) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;
  console.log(`  calls ${accounts.begun}, side effects ${effects}, ok ${percent(accounts.share('ok/'))}`);
  console.log(`  requests ${requests.begun}: ${asked.join(', ')}`);
  console.log(
    `  killed: ${kills.stdio} stdio, ${kills.process} HTTP processes; ${kills.reset} resets, ${kills.session} sessions; ` +
      `${lives} lives, ${operator.retries} retries, ${operator.replacements} peers replaced`,
  );
  console.log(
    `  latency of echo: p50 ${latency.percentile(0.5).toFixed(1)} ms, p99 ${latency.percentile(0.99).toFixed(1)} ms; ` +
      `stalls of this process: ${Math.round(stalls.totalMs / 1_000)} s in all`,
  );
  console.log(
    `  heap: first third ${mib(growth.first)}, last third ${mib(growth.last)} (${percent(growth.growth)}), ` +
      `a request in flight ${(growth.cost / 1_024).toFixed(1)} KiB; ` +
      `RSS at most ${mib(memory.rss)}`,
  );
}

function percent(share) {
  return `${(share * 100).toFixed(1)} %`;
}
