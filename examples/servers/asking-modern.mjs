// A modern MCP server that asks before it acts, built with the official server package.
//
//   node asking-modern.mjs          on stdio
//   node asking-modern.mjs --http   over Streamable HTTP: prints {"url": …} once it listens, ends when stdin ends
//
// Tools: order, which asks for an address (a form) and then for a payment (a page to visit), and brief, which asks
// for the roots and for a sample at once. Prompt: letter, which asks for a name. Resource: diary://today, too.

import { toNodeHandler } from '@modelcontextprotocol/node';
import {
  acceptedContent,
  createMcpHandler,
  createRequestStateCodec,
  inputRequired,
  inputResponse,
  McpServer,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';
import { serveOnLoopback } from './loopback.mjs';

const text = (value) => ({ content: [{ type: 'text', text: value }] });
/** Who carries the state is not trusted with it: it is signed. */
const state = createRequestStateCodec({ key: crypto.getRandomValues(new Uint8Array(32)), ttlSeconds: 600 });

const address = z.object({ name: z.string(), express: z.boolean().default(false) });
const who = z.object({ name: z.string() });

function createServer() {
  const server = new McpServer(
    { name: 'asking-modern-example', version: '1.0.0' },
    { requestState: { verify: state.verify } },
  );

  server.registerTool(
    'order',
    {
      description: 'Orders a thing, for whom and as fast as you say.',
      inputSchema: z.object({ thing: z.string() }),
    },
    async ({ thing }, { mcpReq }) => {
      const told = mcpReq.requestState();
      if (told === undefined) {
        const given = inputResponse(mcpReq.inputResponses, 'address');
        if (given.kind === 'elicit' && given.action !== 'accept') return text(`${given.action}: no ${thing}`);
        const to = acceptedContent(mcpReq.inputResponses, 'address', address);
        if (to === undefined) {
          return inputRequired({
            inputRequests: {
              address: inputRequired.elicit({ message: `Who gets the ${thing}?`, requestedSchema: address }),
            },
          });
        }
        return inputRequired({
          inputRequests: {
            payment: inputRequired.elicitUrl({
              message: 'Pay here.',
              url: 'https://example.com/pay?order=1',
            }),
          },
          requestState: await state.mint(to),
        });
      }
      const paid = inputResponse(mcpReq.inputResponses, 'payment');
      if (paid.kind !== 'elicit' || paid.action !== 'accept') return text(`not paid: no ${thing}`);
      return text(`${thing} for ${told.name}, ${told.express ? 'express' : 'by mail'}`);
    },
  );

  server.registerTool(
    'brief',
    { description: 'Says in the words of a model where it works.', inputSchema: z.object({}) },
    async (_args, { mcpReq }) => {
      const where = inputResponse(mcpReq.inputResponses, 'where');
      const words = inputResponse(mcpReq.inputResponses, 'words');
      if (where.kind === 'roots' && words.kind === 'sampling') {
        return text(`${words.result.content.text} ${where.roots.map(({ uri }) => uri).join(' ')}`);
      }
      return inputRequired({
        inputRequests: {
          where: inputRequired.listRoots(),
          words: inputRequired.createMessage({
            messages: [{ role: 'user', content: { type: 'text', text: 'Where do we work?' } }],
            maxTokens: 20,
          }),
        },
      });
    },
  );

  const askFor = (message) =>
    inputRequired({ inputRequests: { who: inputRequired.elicit({ message, requestedSchema: who }) } });

  server.registerPrompt('letter', { description: 'A letter to somebody.' }, async ({ mcpReq }) => {
    const to = acceptedContent(mcpReq.inputResponses, 'who', who);
    if (to === undefined) return askFor('To whom?');
    return { messages: [{ role: 'user', content: { type: 'text', text: `Write a letter to ${to.name}.` } }] };
  });

  server.registerResource('today', 'diary://today', { mimeType: 'text/plain' }, async (uri, { mcpReq }) => {
    const reader = acceptedContent(mcpReq.inputResponses, 'who', who);
    if (reader === undefined) return askFor('Who reads it?');
    return { contents: [{ uri: uri.href, mimeType: 'text/plain', text: `Dear ${reader.name}, it rained.` }] };
  });

  return server;
}

if (process.argv.includes('--http')) {
  serveOnLoopback(toNodeHandler(createMcpHandler(createServer, { legacy: 'reject' })));
} else {
  serveStdio(createServer, { legacy: 'reject' });
}
