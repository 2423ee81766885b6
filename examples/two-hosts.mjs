// Two hosts in one application, with equal peer names: each has its own actors, registry and calls.
//
//   node examples/two-hosts.mjs

import { hostLogic, hostOf } from 'peerage';
import { createActor, setup, waitFor } from 'xstate';

const server = (name) => ({
  command: process.execPath,
  args: [new URL(`./servers/${name}.mjs`, import.meta.url).pathname],
});

const application = setup({
  actors: {
    work: hostLogic({ peers: { library: server('modern-stdio') } }),
    home: hostLogic({ peers: { library: { ...server('legacy-stdio'), allowLegacy: true } } }),
  },
}).createMachine({
  id: 'application',
  invoke: [
    { id: 'work', src: 'work' },
    { id: 'home', src: 'home' },
  ],
});

const actor = createActor(application);
actor.subscribe({ error: (error) => console.error('the application failed', error) });
actor.start();

for (const id of ['work', 'home']) {
  const child = actor.getSnapshot().children[id];
  await waitFor(child, (snapshot) => snapshot.hasTag('ready'));
  const host = hostOf(child);
  const { era, revision } = host.peer('library').report();
  console.log(
    `${host.id}: library is ${era} (${revision}), with ${[...host.catalog().entries.keys()].join(', ')}`,
  );
}

const outcome = await hostOf(actor.getSnapshot().children.work).call('echo', { message: 'hello' });
console.log(`echo of work: ${outcome.status}, ${outcome.result.content[0].text}`);
await Promise.all(['work', 'home'].map((id) => hostOf(actor.getSnapshot().children[id]).stop()));
actor.stop();
