/** A modern server on a real socket that is strict about headers; what becomes of a request is up to the test. */
import http, { type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import { decodeHeaderValue } from '../../src/protocol/headers.js';
import { isJsonObject, type JsonObject, type JsonValue } from '../../src/protocol/jsonRpc.js';

/** A request that arrived, whole. */
export interface Arrived {
  readonly id: JsonValue;
  readonly method: string;
  readonly params: JsonObject;
  readonly headers: IncomingHttpHeaders;
  readonly response: ServerResponse;
  /** An `application/json` answer with these members, under the id of the request where it has none of its own. */
  say(more: JsonObject, status?: number): void;
  result(more?: JsonObject): void;
  refuse(code: number, more?: JsonObject, status?: number): void;
  /** Any body. */
  raw(status: number, type: string, body: string): void;
}

/** Whether it was handled; if not, the server answers by itself. */
export type Handler = (request: Arrived) => boolean | undefined;

export class ModernHttpServer {
  url = '';
  tools: readonly JsonObject[];
  capabilities: JsonObject = { tools: {}, prompts: {}, resources: {} };
  supportedVersions: readonly string[] = ['2026-07-28'];
  /** Of `tools/list`. */
  ttlMs = 0;
  readonly arrived: Arrived[] = [];
  handle: Handler = () => false;
  private readonly server: http.Server;

  constructor(tools: readonly JsonObject[]) {
    this.tools = tools;
    this.server = http.createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        if (request.method !== 'POST') response.writeHead(405).end();
        else this.receive(Buffer.concat(chunks).toString(), request.headers, response);
      });
    });
  }

  async listen(): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    this.url = `http://127.0.0.1:${(this.server.address() as AddressInfo).port}/mcp`;
    onTestFinished(async () => {
      this.server.closeAllConnections();
      await new Promise((resolve) => this.server.close(resolve));
    });
    return this;
  }

  of(method: string): readonly Arrived[] {
    return this.arrived.filter((one) => one.method === method);
  }

  /** The `mcp-param-*` headers of each call, decoded. */
  mirrored(): readonly Readonly<Record<string, string | undefined>>[] {
    return this.of('tools/call').map(({ headers }) => mirroredOf(headers));
  }

  private receive(body: string, headers: IncomingHttpHeaders, response: ServerResponse): void {
    const message = JSON.parse(body) as JsonObject;
    const id = message['id'] ?? null;
    const raw = (status: number, type: string, text: string): void => {
      response.writeHead(status, { 'content-type': type }).end(text);
    };
    const say = (more: JsonObject, status = 200): void =>
      raw(status, 'application/json', JSON.stringify({ jsonrpc: '2.0', id, ...more }));
    const request: Arrived = {
      id,
      method: String(message['method']),
      params: (message['params'] ?? {}) as JsonObject,
      headers,
      response,
      say,
      raw,
      result: (more = {}) => say({ result: { resultType: 'complete', ...more } }),
      refuse: (code, more = {}, status = 400) => say({ error: { code, message: 'no', ...more } }, status),
    };
    this.arrived.push(request);
    if (this.handle(request) !== true) this.answer(request);
  }

  private answer(request: Arrived): void {
    const { method, params, headers } = request;
    switch (method) {
      case 'server/discover':
        request.result({ supportedVersions: [...this.supportedVersions], capabilities: this.capabilities });
        return;
      case 'tools/list':
        request.result({ tools: [...this.tools], ttlMs: this.ttlMs, cacheScope: 'private' });
        return;
      case 'tools/call': {
        const tool = this.tools.find((one) => one['name'] === params['name']);
        const expected = expectedOf(tool?.['inputSchema'] ?? {}, params['arguments'] ?? {});
        const isRight = JSON.stringify(sorted(expected)) === JSON.stringify(sorted(mirroredOf(headers)));
        if (headers['mcp-name'] === undefined || !isRight) request.refuse(-32020);
        else request.result({ content: [{ type: 'text', text: 'done' }] });
        return;
      }
      default:
        request.refuse(-32601, {}, 404);
    }
  }
}

export function mirroredOf(headers: IncomingHttpHeaders): Record<string, string | undefined> {
  const found = Object.entries(headers).filter(([name]) => name.startsWith('mcp-param-'));
  return Object.fromEntries(
    found.map(([name, value]) => [name.slice('mcp-param-'.length), decodeHeaderValue(String(value))]),
  );
}

/** What a server expects, written without the client's code. */
function expectedOf(schema: JsonValue, args: JsonValue | undefined): Record<string, string> {
  const expected: Record<string, string> = {};
  if (!isJsonObject(schema) || !isJsonObject(schema['properties'])) return expected;
  for (const [name, property] of Object.entries(schema['properties'])) {
    const value = isJsonObject(args) && Object.hasOwn(args, name) ? args[name] : undefined;
    const header = isJsonObject(property) ? property['x-mcp-header'] : undefined;
    if (typeof header === 'string' && value !== undefined && value !== null) {
      expected[header.toLowerCase()] = String(value);
    }
    Object.assign(expected, expectedOf(property as JsonValue, value));
  }
  return expected;
}

function sorted(record: Record<string, string | undefined>) {
  return Object.entries(record).sort(([a], [b]) => (a < b ? -1 : 1));
}

/** A tool whose argument `region` is repeated in the header that is named. */
export function regional(header: string | null, more: JsonObject = {}): JsonObject {
  const region: JsonObject =
    header === null ? { type: 'string' } : { type: 'string', 'x-mcp-header': header };
  return { name: 'query', inputSchema: { type: 'object', properties: { region } }, ...more };
}
