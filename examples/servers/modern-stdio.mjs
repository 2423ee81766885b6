// A modern MCP server on stdio, built with the official server package.
//
//   node modern-stdio.mjs          answers `initialize` with UnsupportedProtocolVersion: modern only
//   node modern-stdio.mjs --dual   serves the legacy handshake as well
//
// Tools: search, summarize, echo, and slow, which answers only by being cancelled; it says so on stderr, and in the
// file that CANCELLATIONS_FILE names. Resources: docs://<id>, one a document. Prompt: explain.

import { appendFileSync } from 'node:fs';
import { completable, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { documentIds, readDocument, searchDocuments, summarize } from './documents.mjs';

const text = (value) => ({ content: [{ type: 'text', text: value }] });

function createServer() {
  const server = new McpServer({ name: 'modern-stdio-example', version: '1.0.0' });

  server.registerTool(
    'search',
    {
      title: 'Search documents',
      description: 'Finds documents that contain every word of the query.',
      inputSchema: z.object({ query: z.string().min(1), limit: z.number().int().min(1).max(20).optional() }),
      outputSchema: z.object({ hits: z.array(z.object({ id: z.string(), title: z.string() })) }),
      annotations: { readOnlyHint: true },
    },
    async ({ query, limit }) => {
      const hits = searchDocuments(query, limit);
      return { ...text(hits.map((hit) => hit.title).join('\n')), structuredContent: { hits } };
    },
  );

  server.registerTool(
    'summarize',
    {
      title: 'Summarize',
      description: 'Returns the first sentence of a text.',
      inputSchema: z.object({ text: z.string() }),
      annotations: { readOnlyHint: true },
    },
    async (args) => text(summarize(args.text)),
  );

  server.registerTool(
    'echo',
    { description: 'Returns its message unchanged.', inputSchema: z.object({ message: z.string() }) },
    async ({ message }) => text(message),
  );

  server.registerTool(
    'slow',
    { description: 'Waits until it is cancelled; says so on stderr.', inputSchema: z.object({}) },
    (_args, context) =>
      new Promise((resolve) => {
        const { id, signal } = context.mcpReq;
        const onCancelled = () => {
          process.stderr.write(`cancelled ${id}\n`);
          const file = process.env.CANCELLATIONS_FILE;
          if (file !== undefined) appendFileSync(file, `cancelled ${id}\n`);
          resolve(text('cancelled'));
        };
        // A signal that is already aborted fires no event.
        if (signal.aborted) onCancelled();
        else signal.addEventListener('abort', onCancelled, { once: true });
      }),
  );

  for (const id of documentIds()) {
    server.registerResource(id, `docs://${id}`, { mimeType: 'text/plain' }, async (uri) => ({
      contents: [{ uri: uri.href, mimeType: 'text/plain', text: readDocument(id) }],
    }));
  }

  server.registerPrompt(
    'explain',
    {
      description: 'Asks for an explanation of a document.',
      argsSchema: z.object({
        id: completable(z.string(), (value) => documentIds().filter((id) => id.startsWith(value))),
      }),
    },
    async ({ id }) => ({
      messages: [{ role: 'user', content: { type: 'text', text: `Explain: ${readDocument(id)}` } }],
    }),
  );

  return server;
}

serveStdio(createServer, { legacy: process.argv.includes('--dual') ? 'serve' : 'reject' });
