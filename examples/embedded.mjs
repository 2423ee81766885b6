// An application's own machine embeds a host: it invokes `hostLogic`, waits until the host is ready, invokes
// `callLogic`, and leaves in mid-call. The server sees the cancellation.
//
//   node examples/embedded.mjs

import { existsSync, mkdtempSync, readFileSync, rmSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { callLogic, hostLogic } from 'peerage';
import { and, assign, createActor, setup, stateIn, waitFor } from 'xstate';

const folder = mkdtempSync(join(tmpdir(), 'peerage-embedded-'));
const cancellations = join(folder, 'cancellations');
const server = new URL('./servers/modern-stdio.mjs', import.meta.url).pathname;

const application = setup({
  actors: {
    host: hostLogic({
      peers: {
        library: {
          command: process.execPath,
          args: [server],
          env: { CANCELLATIONS_FILE: cancellations },
        },
      },
    }),
    call: callLogic,
  },
  guards: {
    hostIsReady: ({ event }) => event.snapshot.hasTag('ready'),
  },
  actions: {
    noteAnswer: assign({ answer: ({ event }) => event.output }),
    noteFault: assign({ fault: ({ event }) => event.error }),
  },
}).createMachine({
  id: 'application',
  context: { answer: null, fault: null },
  // The host lives as long as the application: the states below come and go.
  invoke: {
    id: 'mcp',
    src: 'host',
    systemId: 'mcp',
    onSnapshot: { guard: and([stateIn('connecting'), 'hostIsReady']), target: '.asking' },
    // The start failed: a rejected collision, a required peer that is not callable.
    onError: { target: '.failed', actions: 'noteFault' },
  },
  initial: 'connecting',
  states: {
    connecting: {},
    asking: {
      invoke: {
        src: 'call',
        input: { host: 'mcp', name: 'search', args: { query: 'state' } },
        onDone: { target: 'waiting', actions: 'noteAnswer' },
      },
    },
    waiting: {
      // This call would never end. Leaving the state stops it, and stopping it cancels it on the wire.
      invoke: { src: 'call', input: { host: 'mcp', name: 'slow' } },
      on: { 'user.impatient': 'done' },
    },
    done: {},
    failed: {},
  },
});

const actor = createActor(application);
actor.subscribe({ error: (error) => console.error('the application failed', error) });
actor.start();

await waitFor(actor, (snapshot) => snapshot.matches('waiting') || snapshot.matches('failed'));
const { answer } = actor.getSnapshot().context;
console.log(`search came to: ${answer.status}, answered by ${answer.peer}`);

// The server writes the file when it hears of the cancellation: first it is there, then there is something in it.
const heard = new Promise((resolve) => {
  const watcher = watch(folder, () => {
    const text = existsSync(cancellations) ? readFileSync(cancellations, 'utf8') : '';
    if (!text.endsWith('\n')) return;
    watcher.close();
    resolve(text);
  });
});
setTimeout(() => actor.send({ type: 'user.impatient' }), 200);
console.log(`left in mid-call; the server wrote: ${(await heard).split(' ')[0]}`);

// Stopping the application ends the host with everything it started.
actor.stop();
rmSync(folder, { recursive: true, force: true });
