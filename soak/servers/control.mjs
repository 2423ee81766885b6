// A server's line to the harness: it says hello with its pid, gets a seed and orders, and dies when the harness does.
// An open line is a living process, so the harness never signals a pid that was given to somebody else meanwhile.

import { connect } from 'node:net';

/** `onOrder(message)` may return an answer, which is sent back. */
export function reportTo(port, hello, onOrder) {
  const socket = connect(port, '127.0.0.1');
  const say = (message) => socket.write(`${JSON.stringify(message)}\n`);
  let rest = '';
  socket.setEncoding('utf8');
  socket.on('connect', () => say({ ...hello, pid: process.pid }));
  socket.on('data', async (chunk) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const answer = await onOrder(JSON.parse(line));
      if (answer !== undefined) say(answer);
    }
  });
  socket.on('error', () => process.exit(0));
  socket.on('close', () => process.exit(0));
}

/** The values after `--name` on the command line, by name. */
export function options() {
  const found = {};
  for (let i = 2; i < process.argv.length; i += 2) found[process.argv[i].slice(2)] = process.argv[i + 1];
  return found;
}
