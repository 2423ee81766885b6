// A modern MCP server over Streamable HTTP, built with the official server package.
//
//   node modern-http.mjs          answers `initialize` with UnsupportedProtocolVersion: modern only
//   node modern-http.mjs --dual   serves legacy requests as well, without sessions
//
// Prints {"url": …} once it listens, ends when stdin ends. Tools: search (also on the stdio server, so that
// a host that uses both sees a collision) and weather.

import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { z } from 'zod';
import { searchDocuments } from './documents.mjs';
import { serveOnLoopback } from './loopback.mjs';

const text = (value) => ({ content: [{ type: 'text', text: value }] });

function createServer() {
  const server = new McpServer({ name: 'modern-http-example', version: '1.0.0' });

  server.registerTool(
    'search',
    {
      title: 'Search the web of three pages',
      description: 'Finds pages that contain every word of the query.',
      inputSchema: z.object({ query: z.string().min(1) }),
      annotations: { readOnlyHint: true },
    },
    async ({ query }) =>
      text(
        searchDocuments(query)
          .map((hit) => `https://example.com/${hit.id}`)
          .join('\n'),
      ),
  );

  server.registerTool(
    'weather',
    {
      description: 'Tells the weather of a city. It is always the same.',
      inputSchema: z.object({ city: z.string().min(1) }),
      outputSchema: z.object({ city: z.string(), celsius: z.number() }),
      annotations: { readOnlyHint: true },
    },
    async ({ city }) => ({ ...text(`${city}: 18 °C, clear`), structuredContent: { city, celsius: 18 } }),
  );

  return server;
}

const handler = createMcpHandler(createServer, {
  legacy: process.argv.includes('--dual') ? 'stateless' : 'reject',
});
serveOnLoopback(toNodeHandler(handler));
