/** What a real server was told, over either transport, without asking the client. */
import { readFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, request, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { StdioPeerConfig } from '../../src/host/config.js';

const TEE = join(import.meta.dirname, '../fixtures/tee.mjs');

export interface Heard {
  readonly method: string;
  readonly text: string;
}

/** A stdio peer whose every message goes into the file `record`. */
export function teePeer(record: string, file: string, args: readonly string[] = []): StdioPeerConfig {
  return { command: process.execPath, args: [TEE, record, file, ...args] };
}

/** The lives of the server behind a {@link teePeer}: each with its pids and what it was told. */
export function readLives(record: string): { pid: number; server: number; heard: Heard[] }[] {
  const lives: { pid: number; server: number; heard: Heard[] }[] = [];
  for (const text of linesOf(record)) {
    const value = JSON.parse(text) as { pid?: number; server?: number; method?: string };
    if (value.pid !== undefined && value.server !== undefined) {
      lives.push({ pid: value.pid, server: value.server, heard: [] });
    } else {
      lives.at(-1)?.heard.push({ method: value.method ?? 'response', text });
    }
  }
  return lives;
}

/** The whole lines of a file; none, where there is no file yet. */
export function linesOf(file: string): string[] {
  try {
    return readFileSync(file, 'utf8').split('\n').slice(0, -1);
  } catch {
    return [];
  }
}

export interface RecordingProxy {
  readonly url: string;
  readonly requests: readonly {
    readonly verb: string;
    /** The JSON-RPC method of its body, if it has one. */
    readonly method: string | null;
    readonly headers: IncomingHttpHeaders;
  }[];
  /** JSON-RPC methods in order. */
  methods(): string[];
  close(): Promise<void>;
}

/** A reverse proxy on 127.0.0.1 that passes everything to `target` and records it. */
export async function recordingProxy(target: string): Promise<RecordingProxy> {
  const requests: RecordingProxy['requests'][number][] = [];
  const { hostname, port, pathname } = new URL(target);
  const server: Server = createServer((incoming, outgoing) => {
    const chunks: Buffer[] = [];
    incoming.on('error', () => {});
    incoming.on('data', (chunk: Buffer) => chunks.push(chunk));
    incoming.on('end', () => {
      const body = Buffer.concat(chunks);
      const { method: verb = '', headers } = incoming;
      requests.push({ verb, method: methodOf(body), headers });
      const onward = request({
        hostname,
        port,
        path: pathname,
        method: verb,
        headers: { ...headers, host: `${hostname}:${port}` },
      });
      outgoing.on('close', () => onward.destroy());
      onward.on('error', () => outgoing.destroy());
      onward.on('response', (answer) => {
        outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
        answer.on('error', () => outgoing.destroy());
        answer.pipe(outgoing);
      });
      onward.end(body);
    });
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve());
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${pathname}`,
    requests,
    methods: () => requests.flatMap(({ method }) => (method === null ? [] : [method])),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function methodOf(body: Buffer): string | null {
  if (body.length === 0) return null;
  const { method } = JSON.parse(body.toString('utf8')) as { method?: string };
  return method ?? 'response';
}
