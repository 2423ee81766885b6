/** Against the official server package, in both shapes of its answers and in both eras. */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { z } from 'zod';
import { deriveHeaders } from '../../src/protocol/headers.js';
import { client, type TestClient } from './httpHarness.js';

async function official(responseMode: 'json' | 'sse' | 'auto', legacy: 'reject' | 'stateless' = 'reject') {
  const handler = createMcpHandler(
    () => {
      const server = new McpServer({ name: 'official', version: '1.0.0' });
      server.registerTool('größe', { inputSchema: z.object({ text: z.string() }) }, async ({ text }) => ({
        content: [{ type: 'text' as const, text: String(text.length) }],
      }));
      return server;
    },
    { responseMode, legacy },
  );
  // Its types differ from Node's only in how they spell an optional member.
  const server = createServer(toNodeHandler(handler) as unknown as RequestListener);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(async () => {
    await handler.close();
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return client({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp` });
}

// The official server warns of the tool's name, which is here to see it accept a header that had to be encoded.
beforeEach(() => void vi.spyOn(console, 'warn').mockImplementation(() => {}));

const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'test', version: '0' },
  'io.modelcontextprotocol/clientCapabilities': {},
};

async function ask({ post }: TestClient, method: string, params: object, meta: object = META) {
  const message = { jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } };
  const sent = post({ method, headers: deriveHeaders(message as never), text: JSON.stringify(message) });
  const end = await sent.ended;
  expect(sent.messages).toHaveLength(1);
  return { end, answer: JSON.parse(sent.messages[0]!) };
}

describe.each(['json', 'sse', 'auto'] as const)('modern, answers as %s', (mode) => {
  test('server/discover, tools/list, tools/call', async () => {
    const peer = await official(mode);
    const discovered = await ask(peer, 'server/discover', {});
    expect(discovered.end).toEqual({ kind: 'complete', status: 200, redirected: false });
    expect(discovered.answer).toMatchObject({ id: 1, result: { supportedVersions: ['2026-07-28'] } });
    peer.transport.negotiated?.({ era: 'modern', revision: '2026-07-28' });
    const listed = await ask(peer, 'tools/list', {});
    expect(listed.answer.result.tools).toMatchObject([{ name: 'größe' }]);
    const called = await ask(peer, 'tools/call', { name: 'größe', arguments: { text: 'grün' } });
    expect(called.answer.result.content).toEqual([{ type: 'text', text: '4' }]);
  });

  test('errors of the protocol come with their status', async () => {
    const peer = await official(mode);
    const meta = { ...META, 'io.modelcontextprotocol/protocolVersion': '2027-01-01' };
    const refused = await ask(peer, 'server/discover', {}, meta);
    expect(refused.end).toMatchObject({ kind: 'status', status: 400, hadSession: false });
    expect(refused.answer).toMatchObject({ error: { code: -32022, data: { supported: ['2026-07-28'] } } });
    const unknown = await ask(peer, 'no/such', {});
    expect(unknown.end).toMatchObject({ kind: 'status', status: 404 });
    expect(unknown.answer).toMatchObject({ error: { code: -32601 } });
  });
});

test('legacy, without sessions', async () => {
  const { post, transport } = await official('auto', 'stateless');
  const initialize = post({
    method: 'initialize',
    text: JSON.stringify({
      jsonrpc: '2.0',
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'test', version: '0' } },
    }),
  });
  expect(await initialize.ended).toMatchObject({ kind: 'complete' });
  expect(JSON.parse(initialize.messages[0]!)).toMatchObject({ result: { protocolVersion: '2025-11-25' } });
  transport.negotiated?.({ era: 'legacy', revision: '2025-11-25' });
  const initialized = post({ id: null, text: '{"jsonrpc":"2.0","method":"notifications/initialized"}' });
  expect(await initialized.ended).toEqual({ kind: 'complete', status: 202, redirected: false });
  const listed = post({ text: '{"jsonrpc":"2.0","id":2,"method":"tools/list"}' });
  expect(await listed.ended).toMatchObject({ kind: 'complete' });
  expect(JSON.parse(listed.messages[0]!).result.tools).toHaveLength(1);
});
