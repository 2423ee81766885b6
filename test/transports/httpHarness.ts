/** Real HTTP servers on the loopback address, and a client whose every word is recorded. */
import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import net, { type AddressInfo, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';
import type { CloseCause } from '../../src/protocol/exchange.js';
import type { HttpOptions } from '../../src/transports/httpOptions.js';
import { streamableHttpTransport } from '../../src/transports/streamableHttp.js';
import type {
  Exchange,
  ServerStream,
  StreamEnd,
  Transport,
  TransportFault,
} from '../../src/transports/transport.js';

export interface SeenRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface TestServer {
  readonly origin: string;
  readonly port: number;
  /** Requests that were read to their end. */
  readonly requests: SeenRequest[];
  /** Connections accepted so far. */
  connections(): number;
  /** Resolves when no connection is open. */
  quiet(): Promise<void>;
  /** Resolves when there was a connection and none is open. */
  quietAfterFirst(): Promise<void>;
  destroySockets(): void;
  close(): Promise<void>;
}

export type Answer = (request: SeenRequest, response: ServerResponse, raw: IncomingMessage) => void;

interface Watched {
  readonly sockets: Set<Socket>;
  count: number;
  waiting: (() => void)[];
}

function watch(server: net.Server): Watched {
  const watched: Watched = { sockets: new Set(), count: 0, waiting: [] };
  server.on('connection', (socket) => {
    watched.count += 1;
    watched.sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => {
      watched.sockets.delete(socket);
      if (watched.sockets.size === 0) for (const resolve of watched.waiting.splice(0)) resolve();
    });
  });
  return watched;
}

export async function listening(server: net.Server, host: string): Promise<Omit<TestServer, 'requests'>> {
  const watched = watch(server);
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  const destroySockets = () => {
    for (const socket of watched.sockets) socket.destroy();
  };
  const close = async () => {
    destroySockets();
    if (server.listening) await new Promise((resolve) => server.close(resolve));
  };
  onTestFinished(close);
  return {
    origin: `http://${host.includes(':') ? `[${host}]` : host}:${port}`,
    port,
    connections: () => watched.count,
    quietAfterFirst: () =>
      watched.count > 0 && watched.sockets.size === 0
        ? Promise.resolve()
        : new Promise((resolve) => watched.waiting.push(resolve)),
    quiet: () =>
      watched.sockets.size === 0
        ? Promise.resolve()
        : new Promise((resolve) => watched.waiting.push(resolve)),
    destroySockets,
    close,
  };
}

export async function serve(answer: Answer, host = '127.0.0.1'): Promise<TestServer> {
  const requests: SeenRequest[] = [];
  const server = http.createServer((raw, response) => {
    const chunks: Buffer[] = [];
    raw.on('data', (chunk: Buffer) => chunks.push(chunk));
    raw.on('end', () => {
      const { method = '', url = '', headers } = raw;
      const request = { method, url, headers, body: Buffer.concat(chunks).toString() };
      requests.push(request);
      answer(request, response, raw);
    });
  });
  return { ...(await listening(server, host)), requests };
}

/** A server that speaks whatever `accept` writes; `received` is every byte of all its connections. */
export async function serveRaw(
  accept: (socket: Socket) => void,
): Promise<TestServer & { received(): string }> {
  let received = '';
  const server = net.createServer((socket) => {
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
    });
    accept(socket);
  });
  return { ...(await listening(server, '127.0.0.1')), requests: [], received: () => received };
}

export interface Sent extends Exchange {
  readonly messages: string[];
  readonly ends: StreamEnd[];
  /** Resolves with the first end. */
  readonly ended: Promise<StreamEnd>;
  onMessage?: ((sent: Sent) => void) | undefined;
  /** Resolves when so many messages have come. */
  received(count: number): Promise<string[]>;
}

type Given = Partial<Pick<Sent, 'id' | 'method' | 'headers' | 'mayWrite' | 'onMessage'>>;

export interface TestClient {
  readonly transport: Transport;
  readonly overheard: string[];
  readonly faults: TransportFault[];
  readonly causes: CloseCause[];
  /** Messages that came on the stream of the server. */
  readonly unasked: string[];
  readonly streams: ServerStream[];
  /** Resolves when `ready()` is true, looked at after each event. */
  until(ready: () => boolean): Promise<void>;
  post(options?: Given & { text?: string }): Sent;
  /** Resolves with the next text that is overheard. */
  nextOverheard(): Promise<string>;
}

let lastId = 0;

export async function client(options: HttpOptions): Promise<TestClient> {
  const overheard: string[] = [];
  const faults: TransportFault[] = [];
  const causes: CloseCause[] = [];
  const unasked: string[] = [];
  const streams: ServerStream[] = [];
  let hear: (text: string) => void = () => {};
  let waiting: { readonly ready: () => boolean; readonly resolve: () => void }[] = [];
  const look = (): void => {
    const now = waiting.filter(({ ready }) => ready());
    waiting = waiting.filter((one) => !now.includes(one));
    for (const { resolve } of now) resolve();
  };
  const transport = streamableHttpTransport(options)({
    message: (text, exchange) => {
      if (causes.length > 0) throw new Error('a message after the end');
      if (exchange === null) {
        unasked.push(text);
        look();
        return;
      }
      const sent = exchange as Sent & { notify(): void };
      sent.messages.push(text);
      sent.onMessage?.(sent);
      sent.notify();
    },
    overheard: (text) => {
      if (causes.length > 0) throw new Error('overheard after the end');
      overheard.push(text);
      hear(text);
      look();
    },
    fault: (fault) => {
      faults.push(fault);
      look();
    },
    serverStream: (stream) => {
      if (causes.length > 0) throw new Error('a stream after the end');
      streams.push(stream);
      look();
    },
    closed: (cause) => causes.push(cause),
  });
  onTestFinished(() => transport.close());
  const opened = await transport.open();
  if (!opened.ok) throw new Error(opened.cause.detail);
  return {
    transport,
    overheard,
    faults,
    causes,
    unasked,
    streams,
    until: (ready) =>
      ready() ? Promise.resolve() : new Promise((resolve) => waiting.push({ ready, resolve })),
    nextOverheard: () =>
      new Promise((resolve) => {
        hear = resolve;
      }),
    post({ text, ...given } = {}) {
      const sent = exchange(given);
      transport.send(text ?? JSON.stringify({ jsonrpc: '2.0', id: sent.id, method: sent.method }), sent);
      return sent;
    },
  };
}

export function exchange(given: Given = {}): Sent {
  lastId += 1;
  const messages: string[] = [];
  const ends: StreamEnd[] = [];
  let resolveEnd: (end: StreamEnd) => void;
  const ended = new Promise<StreamEnd>((resolve) => {
    resolveEnd = resolve;
  });
  let waiting: { count: number; resolve: (messages: string[]) => void }[] = [];
  return {
    id: lastId,
    method: 'test/method',
    headers: undefined,
    mayWrite: () => true,
    ...given,
    written: false,
    redirected: false,
    refusal: null,
    get isAwaited() {
      return (
        given.id !== null && ends.length === 0 && !messages.some((text) => /"(?:result|error)"/.test(text))
      );
    },
    messages,
    ends,
    ended,
    onEnd(end) {
      ends.push(end);
      resolveEnd(end);
    },
    received(count) {
      if (messages.length >= count) return Promise.resolve(messages);
      return new Promise((resolve) => waiting.push({ count, resolve }));
    },
    notify() {
      for (const waiter of waiting) if (messages.length >= waiter.count) waiter.resolve(messages);
      waiting = waiting.filter((waiter) => messages.length < waiter.count);
    },
  } as Sent & { notify(): void };
}

export const JSON_ANSWER = '{"jsonrpc":"2.0","id":1,"result":{}}';
export const JSON_ERROR = '{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"no"}}';

export function answerJson(
  response: ServerResponse,
  body = JSON_ANSWER,
  headers: Record<string, string> = {},
): void {
  response.writeHead(200, { 'content-type': 'application/json', ...headers }).end(body);
}
