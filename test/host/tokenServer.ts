/** A real HTTP server whose answers depend on who asks. */
import type { PeerConfig } from '../../src/host/config.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { serve } from '../transports/httpHarness.js';

/**
 * Modern. Its lists have a page for each of `hints`, the members beside the items of that page.
 *
 * @param text the answer as it goes out
 */
export async function tokenServer(hints: readonly JsonObject[], text = (answer: string) => answer) {
  const heard: string[] = [];
  const server = await serve((request, response) => {
    const { id, method, params } = JSON.parse(request.body) as {
      id: number;
      method: string;
      params: JsonObject;
    };
    const token = request.headers.authorization?.split(' ')[1] ?? 'nobody';
    heard.push(`${token} ${method}`);
    const page = Number(params['cursor'] ?? 0);
    const more = page + 1 < hints.length ? { nextCursor: String(page + 1) } : {};
    const own = { ...more, ...hints[page] };
    const results: Record<string, JsonObject> = {
      'server/discover': {
        supportedVersions: ['2026-07-28'],
        capabilities: { tools: {}, resources: {}, prompts: {} },
      },
      'tools/list': { tools: [{ name: `${token}_${page}`, inputSchema: { type: 'object' } }], ...own },
      'prompts/list': { prompts: [{ name: `${token}_${page}` }], ...own },
      'resources/read': { contents: [{ uri: params['uri'] as string, text: token }], ...hints[0] },
    };
    response.setHeader('content-type', 'application/json');
    response.end(
      text(JSON.stringify({ jsonrpc: '2.0', id, result: { resultType: 'complete', ...results[method] } })),
    );
  });
  const config = (token: string): PeerConfig => ({
    url: `${server.origin}/mcp`,
    headers: { Authorization: `Bearer ${token}` },
  });
  const heardBy = (token: string, method: string) => heard.filter((it) => it === `${token} ${method}`).length;
  return { config, heardBy };
}
