// The three clients that are measured. Each has `call(message)`, which resolves with the text of the answer, and
// `close()`. The bare ones are the floor: what a program would do that knows the server and checks nothing.

import { spawn } from 'node:child_process';
import { Client as OfficialClient, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { createHost } from 'peerage';
import { Pool } from 'undici';

const META =
  '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",' +
  '"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},' +
  '"io.modelcontextprotocol/clientCapabilities":{}}';
const callText = (id, message) =>
  `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"echo",` +
  `"arguments":${JSON.stringify({ message })},${META}}}`;

/** Spawn, JSON lines, a Map. */
export function bareStdio(file) {
  // Detached as the others' servers are not by default but this package's must be: a process group of its own is also a
  // scheduling group of its own, and would be measured otherwise.
  const child = spawn(process.execPath, [file], { stdio: ['pipe', 'pipe', 'ignore'], detached: true });
  const pending = new Map();
  let rest = '';
  let id = 0;
  child.stdout.setEncoding('utf8');
  child.stdout.on('data', (chunk) => {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop();
    for (const line of lines) {
      const message = JSON.parse(line);
      pending.get(message.id)(message.result.content[0].text);
      pending.delete(message.id);
    }
  });
  return {
    call: (message) =>
      new Promise((resolve) => {
        id += 1;
        pending.set(id, resolve);
        child.stdin.write(`${callText(id, message)}\n`);
      }),
    close: () =>
      new Promise((resolve) => {
        child.once('exit', resolve);
        child.stdin.end();
      }),
  };
}

/** One undici request a call. */
export function bareHttp(origin, path) {
  const pool = new Pool(origin);
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': 'tools/call',
    'mcp-name': 'echo',
  };
  let id = 0;
  return {
    async call(message) {
      id += 1;
      const { body } = await pool.request({ path, method: 'POST', headers, body: callText(id, message) });
      const text = await body.text();
      const json = text.startsWith('{')
        ? text
        : text.slice(text.indexOf('data: ') + 6, text.lastIndexOf('}') + 1);
      return JSON.parse(json).result.content[0].text;
    },
    close: () => pool.close(),
  };
}

/** This package, through its public surface. */
export async function peerage(peer) {
  const host = createHost({ peers: { bench: peer } });
  await host.start();
  const catalog = host.catalog();
  return {
    async call(message) {
      const outcome = await catalog.call('echo', { message });
      if (outcome.status !== 'ok') throw new Error(`${outcome.status}: ${outcome.message}`);
      return outcome.result.content[0].text;
    },
    close: () => host.stop(),
  };
}

/** The official client, in the mode that speaks the same revision. */
async function official(transport) {
  const client = new OfficialClient(
    { name: 'bench', version: '1.0.0' },
    { versionNegotiation: { mode: 'auto' } },
  );
  await client.connect(transport);
  await client.listTools();
  return {
    async call(message) {
      const result = await client.callTool({ name: 'echo', arguments: { message } });
      return result.content[0].text;
    },
    close: () => client.close(),
  };
}

export const officialStdio = (file) =>
  official(new StdioClientTransport({ command: process.execPath, args: [file], stderr: 'ignore' }));
export const officialHttp = (url) => official(new StreamableHTTPClientTransport(new URL(url)));
