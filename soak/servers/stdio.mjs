// A soak server over stdin and stdout.
//
//   node stdio.mjs --name NAME --era modern|legacy --dir DIR --control PORT [--manners 0|1|2|3]
//
// Manners: 0 ends with stdin; 1 takes a SIGTERM; 2 takes a SIGKILL; 3, a legacy server that dies of the probe.

import { options, reportTo } from './control.mjs';
import { Endpoint } from './endpoint.mjs';

const { name, era, dir, control, manners = '0' } = options();
const endpoint = new Endpoint({ name, era, dir });
const write = (message) => process.stdout.write(`${JSON.stringify(message)}\n`) || true;
const connection = endpoint.connect(write);
const reply = { send: write, end: write };

let rest = '';
process.stdin.setEncoding('utf8');
process.stdin.on('data', (chunk) => {
  const lines = (rest + chunk).split('\n');
  rest = lines.pop();
  for (const line of lines) {
    const message = JSON.parse(line);
    if (manners === '3' && message.method === 'server/discover') process.exit(1);
    connection.receive(message, reply);
  }
});
process.stdin.on('end', () => {
  connection.close();
  if (manners === '0' || manners === '3') process.exit(0);
});
process.stdout.on('error', () => process.exit(0));
if (manners === '2') process.on('SIGTERM', () => process.stderr.write('no\n'));

reportTo(control, { name }, (order) => {
  if (order.do === 'begin') endpoint.begin(order.seed);
  if (order.do === 'rest') return { generations: { [name]: endpoint.rest() } };
});
