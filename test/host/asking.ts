/** Peers in memory that ask for input, and what is done with them. */
import { expect, onTestFinished } from 'vitest';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { type Fake, type FakeOptions, legacyFake, type Message, modernFake } from './fakes.js';

export const form = (message = 'Name?'): JsonObject => ({
  method: 'elicitation/create',
  params: {
    mode: 'form',
    message,
    requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
  },
});
export const visit = (url = 'https://example.com/login'): JsonObject => ({
  method: 'elicitation/create',
  params: { mode: 'url', message: 'Log in', url },
});
export const sample = (more: JsonObject = {}): JsonObject => ({
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: { type: 'text', text: 'Hi' } }], maxTokens: 9, ...more },
});
export const roots: JsonObject = { method: 'roots/list' };
export const sampled: JsonObject = {
  role: 'assistant',
  content: { type: 'text', text: 'Hello' },
  model: 'm-1',
};

/** A result that asks. */
export function asks(inputRequests: JsonValue | undefined, requestState?: JsonValue): JsonObject {
  return {
    resultType: 'input_required',
    ...(inputRequests === undefined ? {} : { inputRequests }),
    ...(requestState === undefined ? {} : { requestState }),
  };
}

export const done = (text = 'done'): JsonObject => ({
  resultType: 'complete',
  content: [{ type: 'text', text }],
});

export const COMPLETE: Readonly<Record<string, JsonObject>> = {
  'tools/call': done(),
  'prompts/get': { resultType: 'complete', messages: [] },
  'resources/read': { resultType: 'complete', contents: [], ttlMs: 60_000, cacheScope: 'public' },
};

type Answer = JsonValue | { readonly error: JsonObject } | null;

export type Asking = Fake & {
  /** The requests that may go rounds, in order. */
  sent(): Message[];
};

/**
 * A modern peer whose tools, prompts and resources answer in order what `rounds` says, over all connections; after
 * that they are complete. A function is asked with the message; null is silence.
 */
export function asking(
  rounds: readonly (Answer | ((message: Message, fake: Fake) => Answer))[],
  options: FakeOptions = {},
): Asking {
  let at = 0;
  const self = modernFake({
    tools: ['ask', 'plain'],
    ...options,
    on: (message, fake) => {
      const own = options.on?.(message, fake);
      if (own !== undefined) return own;
      if (message.method === 'server/discover') {
        return {
          supportedVersions: ['2026-07-28'],
          capabilities: { tools: {}, prompts: {}, resources: {}, completions: {} },
          resultType: 'complete',
        };
      }
      const complete = COMPLETE[message.method ?? ''];
      if (complete === undefined || message.params?.['name'] === 'plain') return undefined;
      const round = rounds[at];
      at += 1;
      if (round === undefined) return complete;
      return typeof round === 'function' ? round(message, fake) : round;
    },
  });
  return Object.assign(self, {
    sent: () => self.heard.filter(({ method }) => method !== undefined && method in COMPLETE),
  });
}

/** A legacy peer with the tool `ask`. */
export const oldPeer = (options: FakeOptions = {}): Fake =>
  legacyFake({ tools: ['ask', 'plain'], ...options });

/** A started host of one peer, `it`. */
export async function hostOf(fake: Fake, options: Omit<CreateHostOptions, 'peers'> = {}): Promise<Host> {
  const host = createHost({
    maxAttempts: 2,
    backoffMinMs: 1,
    backoffMaxMs: 1,
    ...options,
    peers: { it: fake.config },
  });
  onTestFinished(() => host.stop());
  await host.start();
  return host;
}

export const inputsOf = (message: Message | undefined): JsonValue | undefined =>
  message?.params?.['inputResponses'];
export const stateOf = (message: Message | undefined): JsonValue | undefined =>
  message?.params?.['requestState'];

/** What a call and its retries must have in common: all but the id, the inputs and the state. */
export function sameRequests(messages: readonly Message[]): void {
  const ids = messages.map(({ id }) => id);
  expect(new Set(ids).size).toBe(ids.length);
  const rest = messages.map(({ method, params = {} }) => {
    const { inputResponses: _inputs, requestState: _state, _meta: meta, ...others } = params;
    const { progressToken: _token, ...otherMeta } = (meta ?? {}) as JsonObject;
    return { method, others, otherMeta };
  });
  for (const one of rest) expect(one).toEqual(rest[0]);
}

/** Something that is told once, and awaited. */
export function signpost<T = void>() {
  let reach!: (value: T) => void;
  const reached = new Promise<T>((resolve) => {
    reach = resolve;
  });
  return { reach, reached };
}

/** All that is due, and what it starts. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** The server's end of the connection in use is gone, as when its process dies. */
export function lose(fake: Fake): void {
  fake.connections.at(-1)?.close({ kind: 'exit', detail: 'the process ended' });
}

/** The `_meta` of a request. */
export const metaOf = (message: Message): JsonObject => (message.params?.['_meta'] ?? {}) as JsonObject;
