// A modern server written by hand, without any package. It refuses the first `server/discover` with
// UnsupportedProtocolVersion (-32022) although it supports that very revision, and works from the second on:
// a client has to ask again under a new id, and must not take the refusal for a sign of a legacy server.

import { createInterface } from 'node:readline';

const revision = '2026-07-28';
const versionKey = 'io.modelcontextprotocol/protocolVersion';
const serverInfo = { name: 'picky-modern-example', version: '1.0.0' };

const translate = {
  name: 'translate',
  description: 'Translates a greeting into another language.',
  inputSchema: {
    type: 'object',
    properties: { text: { type: 'string' }, to: { type: 'string', enum: ['de', 'fr'] } },
    required: ['text', 'to'],
  },
};
const dictionary = { de: { hello: 'hallo', goodbye: 'auf Wiedersehen' }, fr: { hello: 'bonjour' } };

let refusedOnce = false;

class Refusal extends Error {
  constructor(code, message, data) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

const unsupported = (requested) =>
  new Refusal(-32022, 'Unsupported protocol version', { supported: [revision], requested });

const methods = {
  'server/discover': () => ({
    supportedVersions: [revision],
    capabilities: { tools: {} },
    ttlMs: 0,
    cacheScope: 'private',
  }),
  'tools/list': () => ({ tools: [translate], ttlMs: 60_000, cacheScope: 'public' }),
  'tools/call': ({ name, arguments: args }) => {
    if (name !== translate.name) throw new Refusal(-32602, `Unknown tool: ${name}`);
    const words = dictionary[args?.to];
    const translated = Object.hasOwn(words ?? {}, args?.text) ? words[args.text] : undefined;
    return translated === undefined
      ? { isError: true, content: [{ type: 'text', text: 'I do not know that word.' }] }
      : { content: [{ type: 'text', text: translated }] };
  },
};

function answer({ method, params }) {
  const requested = params?._meta?.[versionKey];
  if (requested !== revision) throw unsupported(requested ?? params?.protocolVersion ?? 'none');
  if (method === 'server/discover' && !refusedOnce) {
    refusedOnce = true;
    throw unsupported(requested);
  }
  if (!Object.hasOwn(methods, method)) throw new Refusal(-32601, `Method not found: ${method}`);
  const result = methods[method](params);
  return { resultType: 'complete', ...result, _meta: { 'io.modelcontextprotocol/serverInfo': serverInfo } };
}

function write(message) {
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
}

for await (const line of createInterface({ input: process.stdin })) {
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    write({ id: null, error: { code: -32700, message: 'Parse error' } });
    continue;
  }
  // A notification has no id and gets no answer.
  if (message?.id === undefined) continue;
  try {
    write({ id: message.id, result: answer(message) });
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    const { code, message: text, data } = error;
    write({ id: message.id, error: { code, message: text, ...(data && { data }) } });
  }
}
