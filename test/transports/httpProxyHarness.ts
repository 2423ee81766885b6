/** A real CONNECT proxy on the loopback address. */
import { readFileSync } from 'node:fs';
import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import net, { type Socket } from 'node:net';
import { join } from 'node:path';
import type { Duplex } from 'node:stream';
import { listening, type TestServer } from './httpHarness.js';

export interface SeenTunnel {
  /** What CONNECT asked for. */
  readonly authority: string;
  readonly headers: IncomingMessage['headers'];
  /** What went through it to the endpoint. */
  bytes: string;
}

export interface TestProxy extends Omit<TestServer, 'requests'> {
  readonly tunnels: SeenTunnel[];
  /** Requests that were no CONNECT. */
  readonly others: string[];
}

export interface TestProxyOptions {
  /** The proxy itself is reached by TLS. */
  readonly secure?: boolean;
  /** In place of a tunnel. */
  readonly answer?: (socket: Duplex) => void;
}

const TLS_FOLDER = join(import.meta.dirname, '../fixtures/tls');

export const CA_FILE = join(TLS_FOLDER, 'ca.pem');

export const serverTls = () => ({
  key: readFileSync(join(TLS_FOLDER, 'server.key')),
  cert: readFileSync(join(TLS_FOLDER, 'server.pem')),
});

export async function serveProxy({ secure = false, answer }: TestProxyOptions = {}): Promise<TestProxy> {
  const tunnels: SeenTunnel[] = [];
  const others: string[] = [];
  const server = secure ? https.createServer(serverTls()) : http.createServer();
  server.on('request', (request, response) => {
    others.push(`${request.method} ${request.url}`);
    response.writeHead(400).end();
  });
  server.on('connect', (request: IncomingMessage, socket: Duplex) => {
    const tunnel: SeenTunnel = { authority: request.url ?? '', headers: request.headers, bytes: '' };
    tunnels.push(tunnel);
    socket.on('error', () => {});
    if (answer !== undefined) {
      // Who does not read does not see that the other side has gone, and one side may close alone.
      socket.resume().once('end', () => socket.end());
      answer(socket);
      return;
    }
    const { hostname, port } = new URL(`http://${tunnel.authority}`);
    const onward: Socket = net.connect({ host: hostname, port: Number(port || 80) });
    onward.on('error', () => socket.destroy());
    onward.once('connect', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      socket.on('data', (chunk: Buffer) => {
        tunnel.bytes += chunk.toString('latin1');
      });
      socket.pipe(onward);
      onward.pipe(socket);
    });
    socket.once('close', () => onward.destroy());
    onward.once('close', () => socket.destroy());
  });
  const listened = await listening(server, '127.0.0.1');
  const origin = secure ? listened.origin.replace('http:', 'https:') : listened.origin;
  return { ...listened, origin, tunnels, others };
}
