// The server that both legacy examples serve, on the 1.x line of the official package.

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { z } from 'zod';
import { noteNames, readNote } from './documents.mjs';

export function createNoteServer(name) {
  const server = new McpServer({ name, version: '1.0.0' });

  server.registerTool(
    'list_notes',
    { description: 'Lists the names of all notes.', annotations: { readOnlyHint: true } },
    async () => ({ content: [{ type: 'text', text: noteNames().join('\n') }] }),
  );

  server.registerTool(
    'read_note',
    {
      description: 'Returns the text of one note.',
      inputSchema: { name: z.string() },
      annotations: { readOnlyHint: true },
    },
    async (args) => {
      const note = readNote(args.name);
      return note === undefined
        ? { isError: true, content: [{ type: 'text', text: `no note is called ${args.name}` }] }
        : { content: [{ type: 'text', text: note }] };
    },
  );

  return server;
}
