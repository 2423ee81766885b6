// Two servers, one of each era, ask a user before they act. The host answers both with the same handlers.
//
//   node examples/inputs/host.mjs

import { createHost } from 'peerage';
import { scriptedUser } from './user.mjs';

const server = (name) => new URL(`../servers/${name}`, import.meta.url).pathname;

const host = createHost({
  peers: {
    shop: { command: process.execPath, args: [server('asking-modern.mjs')] },
    kiosk: { command: process.execPath, args: [server('asking-legacy-stdio.mjs')], allowLegacy: true },
  },
  collisions: 'prefix-always',
  handlers: scriptedUser((line) => console.log(line), {
    'Who gets the lamp?': { name: 'Ada' },
    'Who gets the rug?': { name: 'Grace', express: true },
    'Who gets the anvil?': null,
  }),
});

await host.start();
for (const [tool, thing] of [
  ['shop/order', 'lamp'],
  ['kiosk/order', 'rug'],
  ['shop/order', 'anvil'],
  ['kiosk/order', 'piano'],
]) {
  // Long enough for a person: the deadline goes on while they think.
  const outcome = await host.call(tool, { thing }, { timeoutMs: 600_000 });
  const answer = outcome.result?.content[0].text ?? outcome.message;
  console.log(`${tool} came to: ${outcome.status}, ${answer}\n`);
}
await host.stop();
