// Measures a call over stdio and HTTP, one at a time and 64 in flight: the bare floor, this package and the official
// client, interleaved in one run, so that a machine whose speed drifts treats all alike. What counts are the ratios.
//
//   npm run bench              full
//   npm run bench -- --quick   a tenth of the calls, to see that it works
//   npm run bench -- --json    the numbers for a program

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { bareHttp, bareStdio, officialHttp, officialStdio, peerage } from './clients.mjs';

const quick = process.argv.includes('--quick');
const asJson = process.argv.includes('--json');
const ROUNDS = quick ? 3 : 9;
const CALLS = quick ? 300 : 2_000;

const stdioServer = fileURLToPath(new URL('./servers/stdio.mjs', import.meta.url));
const httpServer = spawn(process.execPath, [fileURLToPath(new URL('./servers/http.mjs', import.meta.url))], {
  stdio: ['pipe', 'pipe', 'inherit'],
});
const { port } = JSON.parse(await new Promise((resolve) => httpServer.stdout.once('data', resolve)));
const origin = `http://127.0.0.1:${port}`;

const stdio = {
  bare: () => bareStdio(stdioServer),
  peerage: () => peerage({ command: process.execPath, args: [stdioServer] }),
  official: () => officialStdio(stdioServer),
};
const http = (path) => ({
  bare: () => bareHttp(origin, path),
  peerage: () => peerage({ url: `${origin}${path}` }),
  official: () => officialHttp(`${origin}${path}`),
});

/** Budgets: at most so many times the bare floor, at least so many times faster than the official client. */
const rows = [
  { name: 'stdio, one at a time', clients: stdio, inFlight: 1, wall: 1.15, cpu: 1.6, faster: 1.8 },
  { name: 'stdio, 64 in flight', clients: stdio, inFlight: 64, wall: 1.3, faster: 2.2 },
  {
    name: 'HTTP JSON, one at a time',
    clients: http('/json'),
    inFlight: 1,
    wall: 1.3,
    faster: 5,
    fasterCpu: 6,
  },
  { name: 'HTTP JSON, 64 in flight', clients: http('/json'), inFlight: 64, wall: 1.4, faster: 6 },
  { name: 'HTTP SSE, one at a time', clients: http('/sse'), inFlight: 1, wall: 1.3, faster: 5, fasterCpu: 6 },
  { name: 'HTTP SSE, 64 in flight', clients: http('/sse'), inFlight: 64, wall: 1.4, faster: 6 },
];

async function drive(client, calls, inFlight) {
  let left = calls;
  const lane = async () => {
    while (left > 0) {
      left -= 1;
      const text = await client.call('hello');
      if (text !== 'hello') throw new Error(`a wrong answer: ${text}`);
    }
  };
  const cpu = process.cpuUsage();
  const started = performance.now();
  await Promise.all(Array.from({ length: inFlight }, lane));
  const wall = performance.now() - started;
  const { user, system } = process.cpuUsage(cpu);
  return { wallUs: (wall * 1_000) / calls, cpuUs: (user + system) / calls };
}

const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

async function measure(row) {
  const clients = {};
  for (const [name, make] of Object.entries(row.clients)) clients[name] = await make();
  const names = Object.keys(clients);
  for (const name of names) await drive(clients[name], CALLS, row.inFlight);
  const samples = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    // Another one begins each round.
    for (let i = 0; i < names.length; i += 1) {
      const name = names[(i + round) % names.length];
      samples[name].push(await drive(clients[name], CALLS, row.inFlight));
    }
  }
  for (const name of names) await clients[name].close();
  const of = (name, figure) => median(samples[name].map((sample) => sample[figure]));
  // Ratios are taken round by round, then their median: drift of the machine cancels out.
  const ratio = (a, b, figure) =>
    median(samples[a].map((sample, i) => sample[figure] / samples[b][i][figure]));
  return {
    name: row.name,
    us: Object.fromEntries(names.map((name) => [name, { wall: of(name, 'wallUs'), cpu: of(name, 'cpuUs') }])),
    wall: { is: ratio('peerage', 'bare', 'wallUs'), budget: row.wall },
    cpu: { is: ratio('peerage', 'bare', 'cpuUs'), budget: row.cpu ?? null },
    faster: { is: ratio('official', 'peerage', 'wallUs'), budget: row.faster },
    fasterCpu: { is: ratio('official', 'peerage', 'cpuUs'), budget: row.fasterCpu ?? null },
  };
}

const results = [];
for (const row of rows) results.push(await measure(row));
httpServer.stdin.end();

if (asJson) {
  process.stdout.write(
    `${JSON.stringify({ node: process.version, calls: CALLS, rounds: ROUNDS, results }, null, 2)}\n`,
  );
} else {
  const n = (value, digits) => value.toFixed(digits);
  const atMost = ({ is, budget }) =>
    `${n(is, 2)}${budget === null ? '' : is <= budget ? ` (≤ ${budget})` : ` (> ${budget})`}`;
  const atLeast = ({ is, budget }) =>
    `${n(is, 1)}${budget === null ? '' : is >= budget ? ` (≥ ${budget})` : ` (< ${budget})`}`;
  const table = results.map((result) => ({
    call: result.name,
    'bare µs': n(result.us.bare.wall, 1),
    'peerage µs': n(result.us.peerage.wall, 1),
    'official µs': n(result.us.official.wall, 1),
    '× bare, wall': atMost(result.wall),
    '× bare, CPU': atMost(result.cpu),
    'faster than official': atLeast(result.faster),
    '… in CPU': atLeast(result.fasterCpu),
  }));
  console.table(table);
  console.log(`${ROUNDS} rounds of ${CALLS} calls a client, interleaved; medians; Node ${process.version}.`);
}
