/** Peers in memory that announce what changes, in both eras. */
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { type Fake, type FakeOptions, legacyFake, type Message, modernFake } from './fakes.js';

export const SUBSCRIPTION_ID = 'io.modelcontextprotocol/subscriptionId';

/** Everything that can be announced. */
export const ALL: JsonObject = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
};

export interface ListeningFake extends Fake {
  /** The listen requests, in order. */
  listens(): Message[];
  lastId(): number;
  /** Says something on the last subscription, or on the one given. */
  announce(method: string, params?: JsonObject, id?: JsonValue): void;
  acknowledge(filter: JsonValue, id?: JsonValue): void;
  /** What a listen is answered with: a filter that is acknowledged, or what a request is answered with. */
  onListen: (message: Message) => { acknowledge: JsonValue } | JsonValue | { error: JsonObject } | null;
  /** How the server appears from its next connection on. */
  capabilities: JsonObject;
}

/** Acknowledges whatever is asked. */
export const agree = (message: Message) => ({ acknowledge: message.params?.['notifications'] as JsonValue });

export function listeningFake(options: FakeOptions & { capabilities?: JsonObject } = {}): ListeningFake {
  const fake = modernFake({
    ...options,
    on: (message, self) => {
      const own = options.on?.(message, self);
      if (own !== undefined) return own;
      switch (message.method) {
        case 'server/discover':
          return { supportedVersions: ['2026-07-28'], capabilities: listening.capabilities };
        case 'prompts/list':
          return { prompts: [{ name: 'explain' }] };
        case 'resources/list':
          return { resources: [{ uri: 'file:///a', name: 'a' }] };
        case 'resources/templates/list':
          return { resourceTemplates: [] };
        case 'subscriptions/listen': {
          const answer = listening.onListen(message);
          if (answer === null || typeof answer !== 'object' || !('acknowledge' in answer)) return answer;
          const filter = answer.acknowledge as JsonValue;
          queueMicrotask(() => listening.acknowledge(filter, message.id ?? null));
          return null;
        }
        default:
          return undefined;
      }
    },
  });
  const listens = (): Message[] => fake.heard.filter(({ method }) => method === 'subscriptions/listen');
  const lastId = (): number => listens().at(-1)?.id ?? 0;
  const announce: ListeningFake['announce'] = (method, params = {}, id = lastId()) => {
    const message = { jsonrpc: '2.0', method, params: { ...params, _meta: { [SUBSCRIPTION_ID]: id } } };
    fake.connections.at(-1)?.send(JSON.stringify(message), typeof id === 'number' ? id : undefined);
  };
  const listening: ListeningFake = Object.assign(fake, {
    listens,
    lastId,
    announce,
    acknowledge: (filter: JsonValue, id: JsonValue = lastId()) =>
      announce('notifications/subscriptions/acknowledged', { notifications: filter }, id),
    onListen: agree,
    capabilities: options.capabilities ?? ALL,
  });
  return listening;
}

export interface LegacySubscribable extends Fake {
  /** `resources/subscribe` and `resources/unsubscribe` with their URIs, in order, as `+uri` and `-uri`. */
  subscriptions(): string[];
}

export function legacySubscribable(
  options: FakeOptions & { capabilities?: JsonObject } = {},
): LegacySubscribable {
  const fake = legacyFake({
    ...options,
    on: (message, self) => {
      const own = options.on?.(message, self);
      if (own !== undefined) return own;
      switch (message.method) {
        case 'initialize':
          return {
            protocolVersion: '2025-11-25',
            capabilities: options.capabilities ?? ALL,
            serverInfo: { name: 'old', version: '1.0.0' },
          };
        case 'resources/subscribe':
        case 'resources/unsubscribe':
          return {};
        case 'prompts/list':
          return { prompts: [{ name: 'explain' }] };
        default:
          return undefined;
      }
    },
  });
  return Object.assign(fake, {
    subscriptions: () =>
      fake.heard.flatMap(({ method, params }) => {
        if (method === 'resources/subscribe') return [`+${String(params?.['uri'])}`];
        return method === 'resources/unsubscribe' ? [`-${String(params?.['uri'])}`] : [];
      }),
  });
}
