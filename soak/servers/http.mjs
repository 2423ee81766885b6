// Soak servers over Streamable HTTP: one process, an endpoint a path, of either era.
//
//   node http.mjs --name GROUP --dir DIR --control PORT --port PORT --endpoints a:modern,b:legacy

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { options, reportTo } from './control.mjs';
import { Endpoint } from './endpoint.mjs';
import { MODERN } from './exchange.mjs';
import { eventStream, httpReply } from './httpReply.mjs';

const { name, dir, control, port, endpoints } = options();
const sites = new Map(
  endpoints.split(',').map((each) => {
    const [peer, era] = each.split(':');
    const endpoint = new Endpoint({ name: peer, era, dir });
    const modern = era === 'modern' ? endpoint.connect(() => false) : null;
    return [`/${peer}`, { endpoint, modern, sessions: new Map(), sockets: new Set() }];
  }),
);

function serveModern({ endpoint, modern }, message, request, response) {
  const { method, params = {} } = message;
  const headers = request.headers;
  if (method !== 'initialize') {
    if (headers['mcp-protocol-version'] !== MODERN) endpoint.fault(`${method}: no revision in the headers`);
    if (headers['mcp-method'] !== method) endpoint.fault(`Mcp-Method ${headers['mcp-method']} on ${method}`);
    const wanted = { 'tools/call': params.name, 'prompts/get': params.name, 'resources/read': params.uri }[
      method
    ];
    if (headers['mcp-name'] !== wanted)
      endpoint.fault(`Mcp-Name ${headers['mcp-name']} on ${method} ${wanted}`);
  }
  if (headers['mcp-session-id'] !== undefined) endpoint.fault('a session id from a modern client');
  modern.receive(message, httpReply(response));
  if (message.id === undefined) response.writeHead(202).end();
}

function serveLegacy({ endpoint, sessions }, message, request, response) {
  const id = request.headers['mcp-session-id'];
  if (message.method === 'initialize') {
    const session = { id: randomUUID(), stream: null, connection: null };
    session.connection = endpoint.connect((pushed) => session.stream?.send(pushed) ?? false);
    sessions.set(session.id, session);
    response.setHeader('mcp-session-id', session.id);
    return session.connection.receive(message, httpReply(response));
  }
  if (id === undefined) return refuse(response, 400, 'no session');
  const session = sessions.get(id);
  if (session === undefined) return refuse(response, 404, 'no such session');
  session.connection.receive(message, httpReply(response));
  if (message.method === undefined || message.id === undefined) response.writeHead(202).end();
}

/** The server's own stream of a session; its latest one. */
function openStream({ sessions }, request, response) {
  const session = sessions.get(request.headers['mcp-session-id']);
  if (session === undefined) return refuse(response, 404, 'no such session');
  session.stream?.end();
  const stream = eventStream(response);
  session.stream = stream;
  response.on('close', () => {
    session.connection.unaskAll();
    if (session.stream === stream) session.stream = null;
  });
}

function endSession({ sessions }, request, response) {
  const id = request.headers['mcp-session-id'];
  forget(sessions, id);
  response.writeHead(200).end();
}

function forget(sessions, id) {
  const session = sessions.get(id);
  if (session === undefined) return;
  sessions.delete(id);
  session.connection.close();
  session.stream?.end();
}

function refuse(response, status, message) {
  const error = { jsonrpc: '2.0', id: null, error: { code: -32000, message } };
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(error));
}

const server = createServer((request, response) => {
  const site = sites.get(request.url);
  if (site === undefined) return refuse(response, 404, 'not here');
  if (!site.sockets.has(request.socket)) {
    site.sockets.add(request.socket);
    request.socket.once('close', () => site.sockets.delete(request.socket));
  }
  const isLegacy = site.modern === null;
  if (request.method === 'GET' && isLegacy) return openStream(site, request, response);
  if (request.method === 'DELETE' && isLegacy) return endSession(site, request, response);
  if (request.method !== 'POST') return response.writeHead(405).end();
  let body = '';
  request.setEncoding('utf8');
  request.on('error', () => {});
  request.on('data', (chunk) => {
    body += chunk;
  });
  request.on('end', () => {
    const message = JSON.parse(body);
    if (isLegacy) serveLegacy(site, message, request, response);
    else serveModern(site, message, request, response);
  });
});
server.keepAliveTimeout = 60_000;

function obey(order) {
  if (order.do === 'begin') {
    let { seed } = order;
    for (const { endpoint } of sites.values()) {
      seed += 1;
      endpoint.begin(seed);
    }
  } else if (order.do === 'rest') {
    // A legacy client that opened no stream cannot have been told.
    const told = ({ modern, sessions }) =>
      modern !== null || [...sessions.values()].some(({ stream }) => stream);
    const generations = [...sites.values()].map((site) => [
      site.endpoint.name,
      site.endpoint.rest(),
      told(site),
    ]);
    return { generations: Object.fromEntries(generations.filter(([, , isTold]) => isTold)) };
  } else if (order.do === 'reset') {
    for (const socket of sites.get(`/${order.peer}`).sockets) socket.resetAndDestroy();
  } else if (order.do === 'forget') {
    const { sessions } = sites.get(`/${order.peer}`);
    for (const id of [...sessions.keys()]) forget(sessions, id);
  } else if (order.do === 'connections') {
    return new Promise((resolve) => {
      server.getConnections((_error, connections) => resolve({ connections }));
    });
  }
}

server.listen(Number(port), '127.0.0.1', () =>
  reportTo(control, { name, port: server.address().port }, obey),
);
