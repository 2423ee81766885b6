// One host and five servers: real processes, real HTTP servers on 127.0.0.1, both eras of the protocol.
//
//   npm start
//
// It shows how each server got its era, what the merged registry holds, and three calls that found their way.
// Exit code 0: all came as it had to, and the system's process table holds none of the servers any more.

import { fileURLToPath } from 'node:url';
import { createHost } from 'peerage';
import { startHttpServer } from './demo/httpServer.mjs';
import { ProcessWatch } from './demo/processes.mjs';
import { heading, mark, print, progress } from './demo/screen.mjs';
import { showCall, showEnd, showPeers, showTools } from './demo/story.mjs';

const startedAt = performance.now();
const pathOf = (name) => fileURLToPath(new URL(`./servers/${name}.mjs`, import.meta.url));
const onStdio = (name) => ({ command: process.execPath, args: [pathOf(name)] });

const expectedStates = {
  archive: 'legacy',
  docs: 'modern',
  picky: 'modern',
  vault: 'unavailable',
  web: 'modern',
};
const calls = [
  ['search', { query: 'ocean' }, 'the bare name'],
  ['web/search', { query: 'ocean' }, 'the same tool of another peer'],
  ['read_note', { name: 'groceries' }, 'a tool of the legacy peer'],
];

class Interrupted extends Error {}

const interrupted = new Promise((_, reject) => {
  let signals = 0;
  const onSignal = () => {
    signals += 1;
    // Who asks twice does not want to wait. What runs is ended all the same.
    if (signals > 1) process.exit(130);
    reject(new Interrupted());
  };
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, onSignal);
});

const watch = new ProcessWatch();
const httpServers = [];
let host;

/** Starts all and shows it. Resolves with whether all came as it had to. */
async function run() {
  print();
  print([' peerage', 'bold'], ['  one host, five servers, two eras, no guessing', 'dim']);

  progress.show(...mark('working'), ['starting two HTTP servers']);
  const starting = ['legacy-http', 'modern-http'].map((name) => startHttpServer(pathOf(name)));
  httpServers.push(...starting.map(({ stop }) => stop));
  const [legacyUrl, modernUrl] = await Promise.all(starting.map(({ url }) => url));

  const peers = {
    archive: { ...onStdio('legacy-stdio'), allowLegacy: true },
    docs: onStdio('modern-stdio'),
    picky: onStdio('picky-modern-stdio'),
    vault: { url: legacyUrl },
    web: { url: modernUrl },
  };
  host = createHost({ peers });
  const off = host.on('peer', () => {
    watch.look();
    progress.show(...host.peers().flatMap(({ name, state }) => [...mark(state), [name, 'dim'], [' ']]));
  });
  const { peers: reports } = await host.start();
  off();
  progress.clear();

  showPeers(reports, peers);
  // A catalog is a view that does not change; what is called through it is what was seen in it.
  const catalog = host.catalog();
  showTools(catalog);
  heading('CALLS');
  const statuses = [];
  for (const [name, args, what] of calls) {
    const outcome = await catalog.call(name, args);
    showCall(outcome, args, what);
    statuses.push(outcome.status);
  }
  return (
    statuses.every((status) => status === 'ok') &&
    reports.every(({ name, state }) => state === expectedStates[name])
  );
}

/** Ends everything and asks the system what is left of it. Resolves with the number of processes. */
async function end() {
  progress.clear();
  watch.look();
  await host?.stop();
  await Promise.all(httpServers.map((stop) => stop()));
  const left = watch.left();
  showEnd(left, watch.seen, (performance.now() - startedAt) / 1000);
  return left.length;
}

let code = 1;
try {
  code = (await Promise.race([run(), interrupted])) ? 0 : 1;
} catch (error) {
  progress.clear();
  if (error instanceof Interrupted) code = 130;
  else console.error(error);
}
if ((await end()) > 0) code = 1;
process.exitCode = code;
