// Judges what the driver wrote to its sockets (wire.mjs): which requests there were, and whether they are those that
// the leg allows. Pure functions.

const MODERN = '2026-07-28';
const ERA_KEYS = [
  'io.modelcontextprotocol/protocolVersion',
  'io.modelcontextprotocol/clientCapabilities',
  'io.modelcontextprotocol/clientInfo',
];

/** A record: writes in their order, the server's URL, and the exit code (null: the process did not end by itself). */
export function readRecord(text) {
  const lines = text.split('\n').filter((line) => line !== '');
  const entries = lines.map((line) => JSON.parse(line));
  const exit = entries.find((entry) => 'exit' in entry);
  const first = entries.find((entry) => 'url' in entry);
  return {
    writes: entries.filter((entry) => 'data' in entry),
    url: first?.url ?? null,
    exitCode: exit?.exit ?? null,
  };
}

/**
 * The HTTP requests in what was written to one port, in the order in which they were begun. `body` is what was written
 * of it: a request that was given up may have less than it announced.
 */
export function requestsTo(writes, port) {
  const sockets = new Map();
  for (const [order, write] of writes.entries()) {
    if (write.port !== port) continue;
    const parts = sockets.get(write.socket) ?? [];
    parts.push({ order, bytes: Buffer.from(write.data, 'base64') });
    sockets.set(write.socket, parts);
  }
  const requests = [...sockets.values()].flatMap((parts) => requestsOfSocket(parts));
  return requests.sort((a, b) => a.order - b.order).map(({ order: _order, ...request }) => request);
}

function requestsOfSocket(parts) {
  const bytes = Buffer.concat(parts.map((part) => part.bytes));
  const orderAt = (offset) => {
    let end = 0;
    for (const part of parts) {
      end += part.bytes.length;
      if (end > offset) return part.order;
    }
    throw new Error('an offset behind the end');
  };
  const requests = [];
  let at = 0;
  while (at < bytes.length) {
    const order = orderAt(at);
    const headEnd = bytes.indexOf('\r\n\r\n', at);
    const head = bytes.toString('latin1', at, headEnd < 0 ? bytes.length : headEnd);
    const [line = '', ...headerLines] = head.split('\r\n');
    const [, method, target] = /^([A-Z]+) (\S+) HTTP\/1\.1$/.exec(line) ?? [];
    if (method === undefined) throw new Error(`no HTTP request: ${JSON.stringify(line.slice(0, 80))}`);
    const headers = {};
    for (const text of headerLines) {
      const colon = text.indexOf(':');
      const name = text.slice(0, colon).toLowerCase();
      if (name in headers) throw new Error(`the header ${name} is there twice`);
      headers[name] = text.slice(colon + 1).trim();
    }
    const start = headEnd < 0 ? bytes.length : headEnd + 4;
    const { body, end } = bodyAt(bytes, start, headers);
    requests.push({ order, method, path: target, headers, body: body.toString('utf8') });
    at = end;
  }
  return requests;
}

function bodyAt(bytes, start, headers) {
  if (!/\bchunked\b/i.test(headers['transfer-encoding'] ?? '')) {
    const end = Math.min(bytes.length, start + Number(headers['content-length'] ?? 0));
    return { body: bytes.subarray(start, end), end };
  }
  const chunks = [];
  let at = start;
  for (;;) {
    const lineEnd = bytes.indexOf('\r\n', at);
    if (lineEnd < 0) return { body: Buffer.concat(chunks), end: bytes.length };
    const size = Number.parseInt(bytes.toString('latin1', at, lineEnd), 16);
    if (!(size >= 0)) throw new Error('no chunk where one should begin');
    chunks.push(bytes.subarray(lineEnd + 2, lineEnd + 2 + size));
    at = lineEnd + 2 + size + 2;
    if (size === 0) return { body: Buffer.concat(chunks), end: Math.min(at, bytes.length) };
  }
}

/** The JSON-RPC messages of a body; a body that is none, or was not written to its end, is told as such. */
function messagesOf(body) {
  try {
    const value = JSON.parse(body);
    return { messages: Array.isArray(value) ? value : [value] };
  } catch {
    return { messages: [], broken: true };
  }
}

/**
 * What is wrong with the requests to the MCP server, as sentences; none: all is as it has to be.
 *
 * - leg `modern`: every POST is one modern message, with its headers. No `initialize`, no `notifications/initialized`,
 *   no GET, no DELETE, no session.
 * - leg `legacy-refused`: as modern, and nothing but probes.
 * - leg `legacy`: at most one `initialize` after each probe, `notifications/initialized` only after one, nothing of the
 *   modern era on what is legacy, and nothing of the legacy era on a probe.
 */
export function judgeWire({ leg, writes, url }) {
  const { port, pathname } = new URL(url);
  const problems = [];
  let requests;
  try {
    requests = requestsTo(writes, Number(port));
  } catch (error) {
    return { problems: [`the wire is no HTTP: ${error.message}`], messages: [] };
  }
  const endpoint = requests.filter(({ path }) => path === pathname || path.startsWith(`${pathname}?`));
  for (const { method, path } of requests)
    if (method !== 'GET' && path.startsWith('/.well-known/')) problems.push(`${method} ${path}`);

  const state = { probes: 0, initialized: 0, legacy: false, methods: [] };
  for (const request of endpoint) {
    const say = (what) => problems.push(`${what} (${request.method} number ${state.methods.length + 1})`);
    if (request.method === 'POST') judgePost(request, { leg, state, say });
    else if (leg !== 'legacy') say(`${request.method} to the MCP endpoint`);
    else judgeOther(request, { state, say });
  }
  if (state.probes === 0) problems.push('no probe was written');
  return { problems, messages: state.methods };
}

function judgePost(request, { leg, state, say }) {
  const { headers, body } = request;
  const { messages, broken } = messagesOf(body);
  // A half-written body could hide anything, so only its beginning is known; `initialize` in it is named all the same.
  if (broken) {
    if (/"(initialize|notifications\/initialized)"/.test(body))
      say('a broken body with a message of the legacy era');
    else say('a body that is no JSON');
  }
  if (messages.length > 1) say('a batch');
  for (const message of messages) {
    const method = typeof message?.method === 'string' ? message.method : null;
    const name = method ?? ('error' in message ? '(error)' : '(result)');
    const legacyMessage = method === 'initialize' || method === 'notifications/initialized';
    if (leg !== 'legacy' && legacyMessage) say(`${method} was written`);
    if (method === 'server/discover') state.probes += 1;
    else if (leg === 'legacy-refused') say(`${name} was written to a peer that is neither modern nor legacy`);

    if (method === 'initialize') judgeInitialize(message, { headers, state, say });
    else if (method === 'server/discover' || leg !== 'legacy') judgeModern(message, { headers, say });
    else judgeLegacy(message, { headers, state, say });
    state.methods.push(name);
  }
}

function judgeModern(message, { headers, say }) {
  const meta = message.params?._meta ?? {};
  if (headers['mcp-protocol-version'] !== MODERN) say(`mcp-protocol-version of ${message.method}`);
  if (meta[ERA_KEYS[0]] !== MODERN) say(`_meta of ${message.method} without ${ERA_KEYS[0]}`);
  if (typeof meta[ERA_KEYS[1]] !== 'object') say(`_meta of ${message.method} without ${ERA_KEYS[1]}`);
  if (headers['mcp-method'] !== message.method) say(`mcp-method of ${message.method}`);
  if ('mcp-session-id' in headers) say(`mcp-session-id on ${message.method}`);
  if ('last-event-id' in headers) say(`last-event-id on ${message.method}`);
}

function judgeInitialize(message, { headers, state, say }) {
  if (state.probes === 0) say('initialize before any probe');
  // One for each negotiation, and a negotiation begins with a probe.
  else if (state.initialized >= state.probes) say('initialize twice after one probe');
  state.initialized += 1;
  state.legacy = true;
  if ('mcp-protocol-version' in headers) say('mcp-protocol-version on initialize');
  if ('mcp-session-id' in headers) say('mcp-session-id on initialize');
  if (!(message.params?.protocolVersion < MODERN)) say('initialize with a revision that is not legacy');
  judgeNotModern(message, { headers, say });
}

function judgeLegacy(message, { headers, state, say }) {
  if (!state.legacy) say(`${message.method ?? 'an answer'} before initialize`);
  const version = headers['mcp-protocol-version'];
  if (version === undefined || version >= MODERN)
    say(`mcp-protocol-version of ${message.method ?? 'an answer'}`);
  judgeNotModern(message, { headers, say });
}

function judgeNotModern(message, { headers, say }) {
  const meta = message.params?._meta ?? {};
  for (const key of ERA_KEYS) if (key in meta) say(`_meta with ${key} on ${message.method}`);
  for (const name of Object.keys(headers))
    if (/^mcp-(method|name|param-.*)$/.test(name)) say(`${name} on ${message.method ?? 'an answer'}`);
}

/** The server's own stream, its resumption, and the end of a session. */
function judgeOther({ method, headers }, { state, say }) {
  if (method !== 'GET' && method !== 'DELETE') say('neither POST nor GET nor DELETE');
  if (!state.legacy) say(`${method} before initialize`);
  const version = headers['mcp-protocol-version'];
  if (version === undefined || version >= MODERN) say(`mcp-protocol-version of ${method}`);
  judgeNotModern({ method }, { headers, say });
}
