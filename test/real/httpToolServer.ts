/** An MCP server on a real socket, of either era; what becomes of a call is up to the test. */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';

/** A call that arrived, whole. */
export interface Arrived {
  readonly id: number;
  readonly key: string;
  readonly response: ServerResponse;
  readonly socket: Socket;
  /** Resolves when its stream is over; true: closed by the client before the answer was complete. */
  readonly over: Promise<boolean>;
  answer(more?: JsonObject): void;
  /** Begins an event stream with these messages. */
  stream(...messages: JsonObject[]): void;
  status(code: number, headers?: Record<string, string>): void;
  progress(): JsonObject;
}

const annotations = { readOnlyHint: true, idempotentHint: true, destructiveHint: false };

export class HttpToolServer {
  readonly methods: string[] = [];
  /** Bodies of `notifications/cancelled`. */
  readonly cancelled: JsonObject[] = [];
  /** Keys of the calls that were executed, in order. */
  readonly executed: string[] = [];
  readonly sockets = new Set<Socket>();
  tools = ['work'];
  /** In place of {@link tools}. */
  definitions: readonly JsonObject[] | null = null;
  /** What is done with each call. Default: it is executed and answered. */
  onCall: (call: Arrived) => void = (call) => {
    this.executed.push(call.key);
    call.answer();
  };
  private readonly era: 'modern' | 'legacy';
  private server: http.Server | null = null;
  private port = 0;
  private session = 0;

  constructor(era: 'modern' | 'legacy') {
    this.era = era;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}/mcp`;
  }

  /** On the port that it had before, if it had one. */
  async listen(): Promise<this> {
    const server = http.createServer((request, response) => this.receive(request, response));
    this.server = server;
    server.on('connection', (socket) => {
      this.sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => this.sockets.delete(socket));
    });
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(this.port, '127.0.0.1', resolve);
    });
    this.port = (server.address() as AddressInfo).port;
    onTestFinished(() => this.stop());
    return this;
  }

  async stop(): Promise<void> {
    const { server } = this;
    this.server = null;
    this.reset();
    if (server !== null) await new Promise((resolve) => server.close(resolve));
  }

  /** RST on every connection. */
  reset(): void {
    for (const socket of this.sockets) socket.resetAndDestroy();
  }

  /** No session that was given is known any more. */
  expire(): void {
    this.session += 1;
  }

  count(method: string): number {
    return this.methods.filter((one) => one === method).length;
  }

  private receive(request: IncomingMessage, response: ServerResponse): void {
    if (request.method !== 'POST') {
      response.writeHead(request.method === 'DELETE' ? 204 : 405).end();
      return;
    }
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      this.act(request, response, JSON.parse(Buffer.concat(chunks).toString()) as JsonObject);
    });
  }

  private act(request: IncomingMessage, response: ServerResponse, message: JsonObject): void {
    const method = String(message['method']);
    const id = message['id'] as number | undefined;
    this.methods.push(method);
    const say = (more: JsonObject, headers: Record<string, string> = {}): void => {
      response
        .writeHead(200, { 'content-type': 'application/json', ...headers })
        .end(JSON.stringify({ jsonrpc: '2.0', id: id ?? null, ...more }));
    };
    const isLegacy = this.era === 'legacy';
    const hasSession = request.headers['mcp-session-id'] === `s-${this.session}`;
    if (isLegacy && method !== 'server/discover' && method !== 'initialize' && !hasSession) {
      response.writeHead(404).end();
      return;
    }
    if (method === 'notifications/cancelled') this.cancelled.push(message['params'] as JsonObject);
    if (id === undefined) {
      response.writeHead(202).end();
      return;
    }
    switch (method) {
      case 'initialize':
        say(
          {
            result: {
              protocolVersion: '2025-11-25',
              capabilities: { tools: {} },
              serverInfo: { name: 'old', version: '1.0.0' },
            },
          },
          { 'mcp-session-id': `s-${this.session}` },
        );
        return;
      case 'tools/list':
        say({
          result: {
            resultType: 'complete',
            tools:
              this.definitions ??
              this.tools.map((name) => ({ name, inputSchema: { type: 'object' }, annotations })),
          },
        });
        return;
      case 'tools/call':
        this.onCall(arrived(id, message['params'] as JsonObject, request, response, say));
        return;
      default:
        if (!isLegacy && method === 'server/discover') {
          say({
            result: {
              resultType: 'complete',
              supportedVersions: ['2026-07-28'],
              capabilities: { tools: {} },
            },
          });
        } else {
          say({ error: { code: -32601, message: 'Method not found' } });
        }
    }
  }
}

function arrived(
  id: number,
  params: JsonObject,
  request: IncomingMessage,
  response: ServerResponse,
  say: (more: JsonObject) => void,
): Arrived {
  const key = String((params['arguments'] as JsonObject)['key'] ?? '');
  return {
    id,
    key,
    response,
    socket: request.socket,
    over: new Promise((resolve) => response.once('close', () => resolve(!response.writableFinished))),
    answer: (more = {}) =>
      say({ result: { resultType: 'complete', content: [{ type: 'text', text: key }], ...more } }),
    stream: (...messages) => {
      if (!response.headersSent)
        response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders();
      for (const message of messages)
        response.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
    },
    status: (code, headers = {}) => void response.writeHead(code, headers).end(),
    progress: () => ({
      method: 'notifications/progress',
      params: {
        progressToken: ((params['_meta'] ?? {}) as JsonObject)['progressToken'] ?? null,
        progress: 1,
      },
    }),
  };
}
