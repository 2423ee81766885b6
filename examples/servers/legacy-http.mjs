// A legacy MCP server over Streamable HTTP, built with the 1.x line of the official package.
//
//   node legacy-http.mjs               one session a client: initialize, Mcp-Session-Id, GET stream, DELETE
//   node legacy-http.mjs --stateless   a fresh server for each POST, no session
//
// Prints {"url": …} once it listens, ends when stdin ends. Tools: list_notes, read_note.

import { randomUUID } from 'node:crypto';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { isInitializeRequest } from '@modelcontextprotocol/sdk/types.js';
import { serveOnLoopback } from './loopback.mjs';
import { createNoteServer } from './noteTools.mjs';

const createServer = () => createNoteServer('legacy-http-example');
const sessions = new Map();

async function handleInSession(request, response) {
  const id = request.headers['mcp-session-id'];
  if (id !== undefined) {
    const transport = sessions.get(id);
    if (transport === undefined) return refuse(response, 404, -32001, 'Session not found');
    return transport.handleRequest(request, response);
  }
  const body = await readJson(request);
  if (!isInitializeRequest(body)) return refuse(response, 400, -32000, 'Bad Request: no session id');
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (sessionId) => void sessions.set(sessionId, transport),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await createServer().connect(transport);
  await transport.handleRequest(request, response, body);
}

async function handleStateless(request, response) {
  // Without sessions there is no stream of the server's own and nothing to delete.
  if (request.method !== 'POST') return refuse(response, 405, -32000, 'Method not allowed.');
  const transport = new StreamableHTTPServerTransport({});
  const server = createServer();
  response.once('close', () => server.close());
  await server.connect(transport);
  await transport.handleRequest(request, response);
}

async function readJson(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}

function refuse(response, status, code, message) {
  response
    .writeHead(status, { 'content-type': 'application/json' })
    .end(JSON.stringify({ jsonrpc: '2.0', error: { code, message }, id: null }));
}

serveOnLoopback(process.argv.includes('--stateless') ? handleStateless : handleInSession);
