// What every client of the benchmark talks to: a modern server reduced to what a call needs, so that the time is the
// client's. Its answers are made by hand; `size` asks for a text of so many characters.

const DISCOVERED = {
  supportedVersions: ['2026-07-28'],
  capabilities: { tools: {} },
  resultType: 'complete',
  ttlMs: 0,
  cacheScope: 'private',
  _meta: { 'io.modelcontextprotocol/serverInfo': { name: 'bench', version: '1.0.0' } },
};
const TOOLS = {
  tools: [
    {
      name: 'echo',
      description: 'Returns its message.',
      inputSchema: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
    },
  ],
  resultType: 'complete',
  ttlMs: 3_600_000,
  cacheScope: 'private',
};

/** The answer to one message, or undefined for a notification. */
export function answer(message) {
  const { id, method, params } = message;
  if (id === undefined) return undefined;
  if (method === 'tools/call') {
    const text = JSON.stringify(params.arguments.message);
    return `{"jsonrpc":"2.0","id":${id},"result":{"content":[{"type":"text","text":${text}}],"resultType":"complete"}}`;
  }
  if (method === 'server/discover') return JSON.stringify({ jsonrpc: '2.0', id, result: DISCOVERED });
  if (method === 'tools/list') return JSON.stringify({ jsonrpc: '2.0', id, result: TOOLS });
  return JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'Method not found' } });
}
