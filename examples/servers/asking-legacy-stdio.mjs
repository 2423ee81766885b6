// A legacy MCP server on stdio that asks before it acts, built with the 1.x line of the official package: it sends
// requests of its own while a call waits. Tools: order and brief, as those of asking-modern.mjs.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { z } from 'zod';

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const mcp = new McpServer({ name: 'asking-legacy-example', version: '1.0.0' });
const { server } = mcp;

mcp.registerTool(
  'order',
  { description: 'Orders a thing, for whom and as fast as you say.', inputSchema: { thing: z.string() } },
  async ({ thing }) => {
    const to = await server.elicitInput({
      message: `Who gets the ${thing}?`,
      requestedSchema: {
        type: 'object',
        properties: { name: { type: 'string' }, express: { type: 'boolean', default: false } },
        required: ['name'],
      },
    });
    if (to.action !== 'accept') return text(`${to.action}: no ${thing}`);
    const paid = await server.elicitInput({
      mode: 'url',
      message: 'Pay here.',
      url: 'https://example.com/pay?order=1',
      elicitationId: 'order-1',
    });
    if (paid.action !== 'accept') return text(`not paid: no ${thing}`);
    return text(`${thing} for ${to.content.name}, ${to.content.express ? 'express' : 'by mail'}`);
  },
);

mcp.registerTool('brief', { description: 'Says in the words of a model where it works.' }, async () => {
  const [{ roots }, { content }] = await Promise.all([
    server.listRoots(),
    server.createMessage({
      messages: [{ role: 'user', content: { type: 'text', text: 'Where do we work?' } }],
      maxTokens: 20,
    }),
  ]);
  return text(`${content.text} ${roots.map(({ uri }) => uri).join(' ')}`);
});

await mcp.connect(new StdioServerTransport());
