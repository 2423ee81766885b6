/** A legacy server over real sockets whose GETs the test answers, and a client whose time is moved by hand. */
import type { ServerResponse } from 'node:http';
import { createSimulatedClock, type SimulatedClock } from '../../src/testing/clock.js';
import type { HttpOptions } from '../../src/transports/httpOptions.js';
import { type Answer, answerJson, client, type SeenRequest, serve } from './httpHarness.js';

export const EVENTS = { 'content-type': 'text/event-stream' };

/** Longer than any wait: the timer of a connection that is being made is then told from that of a stream. */
export const CONNECT_TIMEOUT_MS = 1_000_000;

/** Resolves when a stream waits, with how many ms it still will. */
export async function streamWaits(clock: SimulatedClock): Promise<number> {
  for (;;) {
    const waitMs = (clock.nextDueMs ?? Number.POSITIVE_INFINITY) - clock.now();
    if (waitMs < CONNECT_TIMEOUT_MS / 2) return waitMs;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

export function openEvents(response: ServerResponse, text = ''): void {
  response.writeHead(200, EVENTS);
  response.flushHeaders();
  if (text !== '') response.write(text);
}

interface Setup extends Partial<HttpOptions> {
  readonly revision?: string;
  /** Null: the server has no sessions. */
  readonly session?: string | null;
  readonly get?: Answer;
  /** Everything but `initialize`. Default: an empty result. */
  readonly post?: Answer;
  readonly delete?: Answer;
}

/** Has negotiated, and has not opened the stream of the server. */
export async function legacyPeer(setup: Setup = {}) {
  const { revision = '2025-11-25', session = 'session-1', get, post, delete: end, ...options } = setup;
  let waiting: { readonly count: number; readonly resolve: () => void }[] = [];
  const gets: SeenRequest[] = [];
  const server = await serve((request, response, raw) => {
    if (request.method === 'GET') {
      gets.push(request);
      (get ?? ((_request, answer) => answer.writeHead(405).end()))(request, response, raw);
      for (const waiter of waiting) if (gets.length >= waiter.count) waiter.resolve();
      waiting = waiting.filter((waiter) => gets.length < waiter.count);
    } else if (request.method === 'DELETE') {
      (end ?? ((_request, answer) => answer.writeHead(204).end()))(request, response, raw);
    } else if (request.body.includes('"initialize"')) {
      answerJson(response, undefined, session === null ? {} : { 'mcp-session-id': session });
    } else {
      (post ?? ((_request, answer) => answerJson(answer)))(request, response, raw);
    }
  });
  const clock = createSimulatedClock();
  const peer = await client({
    url: `${server.origin}/mcp`,
    clock,
    connectTimeoutMs: CONNECT_TIMEOUT_MS,
    ...options,
  });
  await peer.post({ method: 'initialize' }).ended;
  peer.transport.negotiated?.({ era: 'legacy', revision });
  const openStream = (): Promise<void> => peer.transport.openServerStream?.() ?? Promise.resolve();
  /** Resolves when the server has seen so many GETs. */
  const seen = (count: number): Promise<void> =>
    gets.length >= count ? Promise.resolve() : new Promise((resolve) => waiting.push({ count, resolve }));
  return { server, clock, gets, seen, openStream, ...peer };
}
