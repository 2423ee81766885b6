/** A host that starts with a list out of a store judges arguments and results by the definitions that it shows. */
import { afterEach, expect, test } from 'vitest';
import { createMemoryStore } from '../../src/cache/memoryStore.js';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import { tool } from './fakes.js';
import { library } from './library.js';

const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

const counted = tool('count', {
  inputSchema: { type: 'object', properties: { upTo: { type: 'integer' } }, required: ['upTo'] },
  outputSchema: { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] },
});

test('although it never listed the tool itself', async () => {
  const store = createMemoryStore();
  const start = async (structuredContent: { readonly n: number | string }) => {
    const server = library({
      identity: 'counting',
      hints: () => ({ ttlMs: 86_400_000, cacheScope: 'public' }),
      on: ({ method }) =>
        method === 'tools/call' ? { resultType: 'complete', content: [], structuredContent } : undefined,
    });
    server.items.tools = [counted];
    const host = createHost({ peers: { it: server.config }, store });
    hosts.push(host);
    await host.start();
    return { host, server };
  };
  await start({ n: 1 });

  const right = await start({ n: 2 });
  expect(await right.host.call('count', { upTo: 3 })).toMatchObject({ status: 'ok' });
  expect(right.server.count('tools/list')).toBe(0);

  const wrong = await start({ n: 'two' });
  expect(await wrong.host.call('count', { upTo: 'three' })).toMatchObject({
    status: 'invalid-arguments',
    delivery: 'not-sent',
  });
  expect(wrong.server.count('tools/call')).toBe(0);
  expect(await wrong.host.call('count', { upTo: 3 })).toMatchObject({
    status: 'invalid-result',
    delivery: 'answered',
  });
  expect(wrong.server.count('tools/list')).toBe(0);
});
