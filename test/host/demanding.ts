/** A real legacy server that asks for things by itself, over a pipe or over HTTP, in the same words. */
import type { ServerResponse } from 'node:http';
import { fileURLToPath } from 'node:url';
import type { PeerConfig } from '../../src/host/config.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { answerJson, serve } from '../transports/httpHarness.js';

const SERVER = fileURLToPath(new URL('../fixtures/inputServer.mjs', import.meta.url));

export const stdioPeer = (era: 'modern' | 'legacy'): PeerConfig => ({
  command: process.execPath,
  args: [SERVER, era],
  allowLegacy: era === 'legacy',
});

/** What a server heard of an answer. */
export interface Answered {
  readonly id: string | number;
  readonly result?: JsonObject;
  readonly error?: { readonly code: number; readonly message: string };
}

interface Demand {
  readonly say?: readonly JsonObject[];
  readonly answers?: number;
}

/**
 * Has the server say all of `say`, wait for so many answers, and hand them on: the call is answered only then. Over
 * HTTP all is said on the stream of that call.
 */
export async function demand(host: Host, say: readonly JsonObject[], answers: number): Promise<Answered[]> {
  const outcome = await host.call('demand', { say: say as JsonObject[], answers });
  if (outcome.status !== 'ok') throw new Error(`${outcome.status}: ${JSON.stringify(outcome)}`);
  return JSON.parse(String(outcome.result.content[0]?.['text'])) as Answered[];
}

/** The same server over Streamable HTTP: what it says comes on the stream of the call, answers come by POST. */
export async function httpPeer(): Promise<PeerConfig> {
  let answers: unknown[] = [];
  let waiter: { id: number; count: number; stream: ServerResponse } | null = null;
  const event = (value: object) => `data: ${JSON.stringify({ jsonrpc: '2.0', ...value })}\n\n`;
  const flush = (): void => {
    if (waiter === null || answers.length < waiter.count) return;
    const result = { content: [{ type: 'text', text: JSON.stringify(answers) }] };
    waiter.stream.end(event({ id: waiter.id, result }));
    answers = [];
    waiter = null;
  };
  const { origin } = await serve(({ method, body }, response) => {
    if (method !== 'POST') {
      response.writeHead(405).end();
      return;
    }
    const message = JSON.parse(body) as { id?: number; method?: string; params?: { arguments?: Demand } };
    const { id } = message;
    const result = (value: object) =>
      answerJson(response, JSON.stringify({ jsonrpc: '2.0', id, result: value }));
    if (message.method === undefined) {
      response.writeHead(202).end();
      answers.push(message);
      flush();
    } else if (id === undefined) {
      response.writeHead(202).end();
    } else if (message.method === 'initialize') {
      result({
        protocolVersion: '2025-11-25',
        capabilities: { tools: {} },
        serverInfo: { name: 'asking', version: '1.0.0' },
      });
    } else if (message.method === 'tools/list') {
      result({ tools: [{ name: 'demand', inputSchema: { type: 'object' } }] });
    } else if (message.method === 'tools/call') {
      const { say = [], answers: count = 0 } = message.params?.arguments ?? {};
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      waiter = { id, count, stream: response };
      response.write(say.map(event).join(''));
      flush();
    } else {
      answerJson(response, JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } }));
    }
  });
  return { url: `${origin}/mcp`, allowLegacy: true };
}
