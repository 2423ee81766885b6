/** A server of HTTP+SSE (2024-11-05) on the loopback address: in part scripted, in part a small MCP server. */
import type { ServerResponse } from 'node:http';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { type Answer, type SeenRequest, serve, type TestServer } from './httpHarness.js';

export interface Heard extends JsonObject {
  readonly method?: string;
  readonly id?: number | string;
  readonly params?: JsonObject;
}

export interface SseServer extends TestServer {
  readonly url: string;
  /** The streams that were opened, in order. */
  readonly streams: ServerResponse[];
  /** Messages that were posted, in order. */
  readonly heard: Heard[];
  methods(): string[];
  posts(): SeenRequest[];
  /** Resolves when so many messages were posted. */
  heardAll(count: number): Promise<void>;
  /** Resolves when so many streams were opened. */
  opened(count: number): Promise<void>;
  /** Writes to the last stream as it is. */
  write(text: string): void;
  /** Says a message on the last stream. */
  say(message: JsonObject): void;
}

export interface SseServerOptions {
  /** In place of an event stream with an endpoint event. */
  readonly onGet?: Answer;
  /** In place of 202. */
  readonly onPost?: Answer;
  /** What is said on the stream to a message, once it was posted. */
  readonly answer?: (message: Heard, server: SseServer) => JsonObject | undefined;
}

export const ENDPOINT = '/messages?session_id=abcdef123456';

export function openStream(response: ServerResponse, text = `event: endpoint\ndata: ${ENDPOINT}\n\n`): void {
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' });
  response.flushHeaders();
  if (text !== '') response.write(text);
}

export async function sseServer(options: SseServerOptions = {}): Promise<SseServer> {
  const { onGet = (_request, response) => openStream(response), answer } = options;
  const { onPost = (_request, response) => response.writeHead(202).end('Accepted') } = options;
  const streams: ServerResponse[] = [];
  const heard: Heard[] = [];
  let waiting: { ready: () => boolean; resolve: () => void }[] = [];
  const until = (ready: () => boolean): Promise<void> =>
    ready() ? Promise.resolve() : new Promise((resolve) => waiting.push({ ready, resolve }));
  const notify = (): void => {
    for (const { ready, resolve } of waiting) if (ready()) resolve();
    waiting = waiting.filter(({ ready }) => !ready());
  };
  const server = await serve((request, response, raw) => {
    if (request.method === 'GET') {
      streams.push(response);
      onGet(request, response, raw);
    } else {
      const message = JSON.parse(request.body) as Heard;
      heard.push(message);
      onPost(request, response, raw);
      const said = answer?.(message, self);
      if (said !== undefined) self.say(said);
    }
    notify();
  });
  const self: SseServer = {
    ...server,
    url: `${server.origin}/sse`,
    streams,
    heard,
    methods: () => heard.map(({ method }) => method ?? 'response'),
    posts: () => server.requests.filter(({ method }) => method === 'POST'),
    heardAll: (count) => until(() => heard.length >= count),
    opened: (count) => until(() => streams.length >= count),
    write: (text) => void streams.at(-1)?.write(text),
    say: (message) =>
      self.write(`event: message\ndata: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`),
  };
  return self;
}

/** Answers as a server of 2024-11-05 with one tool would. `tool` answers its calls. */
export function legacyAnswers(tool: (message: Heard) => JsonObject | undefined = hello) {
  return (message: Heard): JsonObject | undefined => {
    const { id, method } = message;
    if (id === undefined || method === undefined) return undefined;
    switch (method) {
      case 'initialize':
        return {
          id,
          result: {
            protocolVersion: '2024-11-05',
            capabilities: { tools: {} },
            serverInfo: { name: 'sse-server', version: '1.0.0' },
          },
        };
      case 'tools/list':
        return { id, result: { tools: [{ name: 'greet', inputSchema: { type: 'object' } }] } };
      case 'tools/call': {
        const said = tool(message);
        return said === undefined ? undefined : { id, ...said };
      }
      default:
        return { id, error: { code: -32601, message: 'Method not found' } };
    }
  };
}

function hello(): JsonObject {
  return { result: { content: [{ type: 'text', text: 'hello' }] } };
}
