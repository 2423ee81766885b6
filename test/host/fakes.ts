/** Peers in memory for the tests of the host: small servers that answer as their era says. */

import type { CustomPeerConfig } from '../../src/host/config.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { type MemoryControl, memoryTransport } from '../../src/transports/memory.js';

export interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly params?: JsonObject;
  readonly result?: JsonValue;
  readonly error?: JsonValue;
}

export interface FakeOptions {
  /** Names of tools, or whole definitions. */
  readonly tools?: readonly (string | JsonObject)[];
  /** Answers a request in place of the default: a result, `{error}`, or undefined for silence. */
  readonly on?: (
    message: Message,
    fake: Fake,
  ) => JsonValue | { readonly error: JsonObject } | undefined | null;
  readonly allowLegacy?: boolean;
  readonly required?: boolean;
  readonly perRequestStreams?: boolean;
  readonly identity?: string;
}

export interface Fake {
  readonly config: CustomPeerConfig;
  /** All messages written to it, over all connections. */
  readonly heard: Message[];
  /** Connections made. */
  readonly connections: MemoryControl[];
  methods(): string[];
  tools: readonly (string | JsonObject)[];
  /** Says something outside any answer. */
  say(message: JsonObject): void;
}

export const tool = (name: string, more: JsonObject = {}): JsonObject => ({
  name,
  description: `The tool ${name}.`,
  inputSchema: { type: 'object', properties: { q: { type: 'string' } } },
  ...more,
});

let identities = 0;

function fake(
  defaults: (message: Message, self: Fake) => JsonValue | { error: JsonObject } | null,
  options: FakeOptions,
): Fake {
  const heard: Message[] = [];
  const connections: MemoryControl[] = [];
  identities += 1;
  const self: Fake = {
    heard,
    connections,
    tools: options.tools ?? ['search'],
    methods: () => heard.map((message) => message.method ?? 'response'),
    say: (message) => connections.at(-1)?.send(JSON.stringify({ jsonrpc: '2.0', ...message })),
    config: {
      identity: options.identity ?? `fake-${identities}`,
      ...(options.allowLegacy === undefined ? {} : { allowLegacy: options.allowLegacy }),
      ...(options.required === undefined ? {} : { required: options.required }),
      createTransport: memoryTransport({
        perRequestStreams: options.perRequestStreams ?? false,
        peer: () => ({
          opened: (control) => {
            connections.push(control);
          },
          receive: (text, reply) => {
            const message = JSON.parse(text) as Message;
            heard.push(message);
            const { id } = message;
            const own = options.on?.(message, self);
            if (id === undefined || message.method === undefined || own === null) return;
            const answer = own ?? defaults(message, self);
            if (answer === null) return;
            const isError = typeof answer === 'object' && !Array.isArray(answer) && 'error' in answer;
            // Later, as over any real wire.
            queueMicrotask(() =>
              reply(
                JSON.stringify(
                  isError ? { jsonrpc: '2.0', id, ...answer } : { jsonrpc: '2.0', id, result: answer },
                ),
              ),
            );
          },
        }),
      }),
    },
  };
  return self;
}

const listed = (self: Fake): JsonValue => ({
  tools: self.tools.map((entry) => (typeof entry === 'string' ? tool(entry) : entry)),
});

const called = (message: Message): JsonValue => ({
  content: [{ type: 'text', text: JSON.stringify(message.params?.['arguments'] ?? null) }],
});

export const methodNotFound = { error: { code: -32601, message: 'Method not found' } };

export function modernFake(options: FakeOptions = {}): Fake {
  return fake((message, self) => {
    switch (message.method) {
      case 'server/discover':
        return { supportedVersions: ['2026-07-28'], capabilities: { tools: {} }, resultType: 'complete' };
      case 'tools/list':
        return listed(self);
      case 'tools/call':
        return called(message);
      default:
        return methodNotFound;
    }
  }, options);
}

export function legacyFake(options: FakeOptions = {}): Fake {
  return fake(
    (message, self) => {
      switch (message.method) {
        case 'initialize':
          return {
            protocolVersion: '2025-11-25',
            capabilities: { tools: {} },
            serverInfo: { name: 'old', version: '1.0.0' },
          };
        case 'tools/list':
          return listed(self);
        case 'tools/call':
          return called(message);
        default:
          return methodNotFound;
      }
    },
    { allowLegacy: true, ...options },
  );
}
