// What both HTTP example servers share: where they listen, how they tell it, and when they end.

import { createServer } from 'node:http';

const loopbackNames = new Set(['127.0.0.1', 'localhost']);

/**
 * Serves `handle(request, response)` at `/mcp` on 127.0.0.1, on the port after `--port` or on one that the system
 * chooses, and prints `{"url": …}` as one line on stdout once it listens. The end of stdin ends the process, so that
 * a parent that dies never leaves a server behind.
 */
export function serveOnLoopback(handle) {
  const at = process.argv.indexOf('--port');
  const port = at === -1 ? 0 : Number(process.argv[at + 1]);
  const server = createServer((request, response) => {
    // A page in a browser can reach this port under a name of its own (DNS rebinding); its Host tells.
    if (!loopbackNames.has((request.headers.host ?? '').replace(/:\d+$/, '')))
      return endWith(response, 403, 'unknown host');
    if (new URL(request.url, 'http://127.0.0.1').pathname !== '/mcp') {
      return endWith(response, 404, 'not found');
    }
    Promise.resolve(handle(request, response)).catch((error) => {
      process.stderr.write(`${error?.stack ?? error}\n`);
      if (response.headersSent) response.destroy();
      else endWith(response, 500, 'internal error');
    });
  });
  server.listen(port, '127.0.0.1', () => {
    process.stdout.write(`${JSON.stringify({ url: `http://127.0.0.1:${server.address().port}/mcp` })}\n`);
  });
  process.stdin.resume();
  process.stdin.once('close', () => process.exit(0));
  process.stdin.once('end', () => process.exit(0));
}

function endWith(response, status, message) {
  response.writeHead(status, { 'content-type': 'text/plain' }).end(message);
}
