/** A server in memory that has all four lists, in either era, with cache hints, pages and changes as a test wants. */
import type { CustomPeerConfig } from '../../src/host/config.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { LISTS, type ListKind } from '../../src/protocol/lists.js';
import type { SimulatedClock } from '../../src/testing/clock.js';
import {
  type Fake,
  type FakeOptions,
  legacyFake,
  type Message,
  methodNotFound,
  modernFake,
  tool,
} from './fakes.js';

export const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';
export const NAME_AND_VERSION = 'io.modelcontextprotocol/serverInfo';

export interface LibraryOptions {
  readonly era?: 'modern' | 'legacy';
  readonly identity?: string;
  readonly authorizationContext?: string;
  /** What it declares. Default: everything, and nothing of changes. */
  readonly capabilities?: JsonObject;
  readonly version?: string;
  readonly pageSize?: number;
  /** Members beside the items of each result that lists or reads, by method. */
  readonly hints?: (method: string) => JsonObject;
  readonly on?: FakeOptions['on'];
}

export interface Library {
  readonly fake: Fake;
  readonly config: CustomPeerConfig;
  readonly items: Record<ListKind, JsonObject[]>;
  /** What `resources/read` says. */
  text: string;
  hints: (method: string) => JsonObject;
  version: string;
  /** Methods that are answered with an error. */
  readonly failing: Set<string>;
  /** Requests of a method so far. */
  count(method: string): number;
  /** Tells that a list changed, in the way of its era. */
  announce(kind: ListKind): void;
  /** Tells that a resource changed. */
  updated(uri: string): void;
  /** Breaks the connection. */
  die(): void;
}

const MEMBERS = Object.entries(LISTS) as [ListKind, (typeof LISTS)[ListKind]][];
export const EVERYTHING = { tools: {}, prompts: {}, resources: {}, completions: {} };
export const CHANGING = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  completions: {},
};

export const prompt = (name: string): JsonObject => ({
  name,
  description: `The prompt ${name}.`,
  arguments: [{ name: 'who', required: true }],
});
export const resource = (name: string): JsonObject => ({ uri: `note:///${name}`, name, size: 3 });
export const template = (name: string): JsonObject => ({ uriTemplate: `${name}:///{id}`, name });

export function library(options: LibraryOptions = {}): Library {
  const { era = 'modern', capabilities = EVERYTHING, pageSize = Number.POSITIVE_INFINITY } = options;
  let listenId: number | undefined;
  const self = {
    items: {
      tools: [tool('search')],
      prompts: [prompt('greet')],
      resources: [resource('a')],
      resourceTemplates: [template('note')],
    } as Record<ListKind, JsonObject[]>,
    text: 'one',
    version: options.version ?? '1.0.0',
    hints: options.hints ?? (() => ({})),
    failing: new Set<string>(),
  };
  const complete = (method: string, result: JsonObject): JsonObject => ({
    ...(era === 'modern' ? { resultType: 'complete' } : {}),
    ...result,
    ...self.hints(method),
  });
  const on: FakeOptions['on'] = (message, fake) => {
    const own = options.on?.(message, fake);
    if (own !== undefined) return own;
    const { method = '', id } = message;
    if (self.failing.has(method)) return { error: { code: -32603, message: 'out of order' } };
    const listed = MEMBERS.find(([, words]) => words.method === method);
    if (listed !== undefined) {
      const [kind, { member }] = listed;
      const from = Number(message.params?.['cursor'] ?? 0);
      const items = self.items[kind].slice(from, from + pageSize);
      const more = from + pageSize < self.items[kind].length ? { nextCursor: String(from + pageSize) } : {};
      return complete(method, { [member]: items, ...more });
    }
    switch (method) {
      case 'server/discover':
        if (era === 'legacy') return methodNotFound;
        return {
          resultType: 'complete',
          supportedVersions: ['2026-07-28'],
          capabilities,
          _meta: { [NAME_AND_VERSION]: { name: 'library', version: self.version } },
        };
      case 'initialize':
        if (era === 'modern') return undefined;
        return {
          protocolVersion: '2025-11-25',
          capabilities,
          serverInfo: { name: 'library', version: self.version },
        };
      case 'subscriptions/listen':
        listenId = id;
        queueMicrotask(() =>
          fake.say({
            method: 'notifications/subscriptions/acknowledged',
            params: {
              _meta: { [SUBSCRIPTION_ID]: id as number },
              notifications: message.params?.['notifications'] as JsonValue,
            },
          }),
        );
        return null;
      case 'resources/subscribe':
      case 'resources/unsubscribe':
        return {};
      case 'resources/read':
        return complete(method, { contents: [{ uri: message.params?.['uri'] as string, text: self.text }] });
      case 'prompts/get':
        return complete(method, { messages: [{ role: 'user', content: greeting(message) }] });
      case 'completion/complete':
        return complete(method, { completion: { values: ['world'], total: 1, hasMore: false } });
      default:
        return undefined;
    }
  };
  const shared = { on, ...(options.identity === undefined ? {} : { identity: options.identity }) };
  const fake = era === 'modern' ? modernFake(shared) : legacyFake(shared);
  const { authorizationContext } = options;
  const notify = (method: string, params: JsonObject): void =>
    fake.say({
      method,
      params: listenId === undefined ? params : { ...params, _meta: { [SUBSCRIPTION_ID]: listenId } },
    });
  return Object.assign(self, {
    fake,
    config: { ...fake.config, ...(authorizationContext === undefined ? {} : { authorizationContext }) },
    count: (method: string) => fake.methods().filter((heard) => heard === method).length,
    announce: (kind: ListKind) => notify(LISTS[kind].changed, {}),
    updated: (uri: string) => notify('notifications/resources/updated', { uri }),
    die: () => fake.connections.at(-1)?.close({ kind: 'exit', detail: 'the server is gone' }),
  });
}

const greeting = (message: Message): JsonObject => ({
  type: 'text',
  text: `hello ${JSON.stringify(message.params?.['arguments'] ?? null)}`,
});

/** What is under way in memory comes to its end: every microtask, and what those set going. */
export async function idle(): Promise<void> {
  for (let i = 0; i < 8; i += 1) await new Promise((resolve) => setImmediate(resolve));
}

/** Time goes by, deadline by deadline, and what each of them sets going comes to its end. */
export async function pass(clock: SimulatedClock, ms: number): Promise<void> {
  await idle();
  const until = clock.now() + ms;
  for (let due = clock.nextDueMs; due !== null && due <= until; due = clock.nextDueMs) {
    clock.advanceTo(Math.max(due, clock.now()));
    await idle();
  }
  clock.advanceTo(until);
  await idle();
}
