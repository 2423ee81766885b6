// Starts one of the example servers that listen, and ends it.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

/**
 * `url` resolves once the server listens, which it tells by a line of JSON on stdout, and rejects if it ends before.
 * `stop()` resolves when it is gone. It ends by itself when this process does: its stdin ends then.
 */
export function startHttpServer(path) {
  const child = spawn(process.execPath, [path], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.on('error', () => {});
  const closed = once(child, 'close');
  const url = new Promise((resolve, reject) => {
    createInterface({ input: child.stdout }).once('line', (line) => resolve(JSON.parse(line).url));
    closed.then(([code]) => reject(new Error(`${path} ended with ${code} before it listened`)), reject);
  });
  // Whoever stops it early does not wait for the URL.
  url.catch(() => {});
  return {
    url,
    async stop() {
      child.stdin.end();
      await closed.catch(() => {});
    },
  };
}
