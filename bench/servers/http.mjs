// The benchmark's server over Streamable HTTP: answers as JSON, or as an event stream at /sse.
import { createServer } from 'node:http';
import { answer } from './echo.mjs';

const server = createServer((request, response) => {
  let body = '';
  request.setEncoding('utf8');
  request.on('data', (chunk) => {
    body += chunk;
  });
  request.on('end', () => {
    if (request.method !== 'POST') {
      response.writeHead(405).end();
      return;
    }
    const reply = answer(JSON.parse(body));
    if (reply === undefined) response.writeHead(202).end();
    else if (request.url === '/sse') {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.end(`event: message\ndata: ${reply}\n\n`);
    } else {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.end(reply);
    }
  });
});
server.keepAliveTimeout = 60_000;
server.listen(0, '127.0.0.1', () =>
  process.stdout.write(`${JSON.stringify({ port: server.address().port })}\n`),
);
process.stdin.on('end', () => process.exit(0));
process.stdin.resume();
