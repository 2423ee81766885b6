// A legacy MCP server on stdio, built with the 1.x line of the official package. It knows `initialize` only,
// and answers the modern probe with an error that proves nothing. Tools: list_notes, read_note.

import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { createNoteServer } from './noteTools.mjs';

await createNoteServer('legacy-stdio-example').connect(new StdioServerTransport());
