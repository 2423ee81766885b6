/** -32020 in simulated time: how long a call waits for the list, and what then goes out. */
import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { CallServer, isSettled, setting, turns } from './callHarness.js';

const HEADER_MISMATCH = -32020;

const annotated = (header: string): JsonObject => ({
  name: 'work',
  inputSchema: { type: 'object', properties: { q: { type: 'integer', 'x-mcp-header': header } } },
});

/** A call that was refused, and a listing that the server holds back. */
async function refused(options: { timeoutMs?: number } = {}) {
  const server = new CallServer({ perRequestStreams: true, tools: [annotated('Q')] });
  const starting = setting(server);
  // The first call makes the validators ready.
  (await server.next()).answer();
  const it = await starting;
  server.holdsListings = true;
  server.tools = [annotated('Other')];
  const call = it.host.call('work', { q: 1 }, options);
  const first = await server.next();
  first.refuse(HEADER_MISMATCH);
  await turns();
  expect(server.methods.filter((method) => method === 'tools/list')).toHaveLength(2);
  return { ...it, server, call, first };
}

describe('a call whose headers were refused', () => {
  it('ends at its deadline while the tools are listed, and was answered', async () => {
    const { call, pass, server } = await refused({ timeoutMs: 1_000 });
    await pass(999);
    expect(await isSettled(call)).toBe(false);
    await pass(1);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'answered', attempts: 1 });
    server.answerListings();
    await turns();
    expect(server.calls).toHaveLength(2);
  });

  it('goes out once more when they are listed, with what is left of its deadline', async () => {
    const { call, pass, server, first } = await refused({ timeoutMs: 1_000 });
    await pass(400);
    server.answerListings();
    const again = await server.next();
    expect(again.id).toBeGreaterThan(first.id);
    await pass(599);
    expect(await isSettled(call)).toBe(false);
    await pass(1);
    expect(await call).toMatchObject({ status: 'timeout', delivery: 'unknown', attempts: 2 });
    expect(server.cancelled).toContain(again.id);
  });

  it('keeps its place meanwhile', async () => {
    const { call, server, expectIdle } = await refused();
    server.answerListings();
    (await server.next()).answer();
    expect(await call).toMatchObject({ status: 'ok', attempts: 2 });
    expectIdle();
  });

  it('tells the outcome of its last attempt', async () => {
    const { call, server } = await refused();
    server.answerListings();
    (await server.next()).end({
      kind: 'broken',
      redirected: false,
      cause: { kind: 'reset', detail: 'the connection was reset' },
    });
    expect(await call).toMatchObject({ status: 'lost', delivery: 'unknown', attempts: 2 });
  });

  it('goes on with the next connection where this one is lost', async () => {
    const { call, pass, server } = await refused();
    server.holdsListings = false;
    server.lose();
    await pass(2_000);
    (await server.next()).answer();
    expect(await call).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 2 });
    expect(server.controls).toHaveLength(2);
  });

  it('says how it was refused where the peer does not come back', async () => {
    const { call, pass, server, host } = await refused();
    server.mood = 'refused';
    server.lose();
    await pass(500);
    const removed = host.removePeer('it');
    await pass(2_000);
    await removed;
    expect(await call).toMatchObject({ status: 'protocol-error', delivery: 'answered', attempts: 1 });
  });
});
