/** Handlers and contexts for tests of inputs. */
import type { InputContext, InputHandlers } from '../../src/calls/inputHandlers.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';

export const context = (signal: AbortSignal = new AbortController().signal): InputContext => ({
  peer: 'alpha',
  era: 'modern',
  request: { method: 'tools/call', target: 'deploy' },
  signal,
});

export const formParams: JsonObject = {
  message: 'Name?',
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
};
export const urlParams: JsonObject = { mode: 'url', message: 'Log in', url: 'https://example.com/login?a=1' };
export const sampleParams: JsonObject = {
  messages: [{ role: 'user', content: { type: 'text', text: 'Hi' } }],
  maxTokens: 100,
};
export const sampled: JsonObject = {
  role: 'assistant',
  content: { type: 'text', text: 'Hello' },
  model: 'm-1',
  stopReason: 'endTurn',
};

export const form = { method: 'elicitation/create', params: formParams };
export const visit = { method: 'elicitation/create', params: urlParams };
export const sample = { method: 'sampling/createMessage', params: sampleParams };
export const roots = { method: 'roots/list', params: undefined };

/** Everything, answered; what was asked is recorded. */
export function willing(): { handlers: InputHandlers; asked: unknown[] } {
  const asked: unknown[] = [];
  const handlers: InputHandlers = {
    elicitForm: (request) => {
      asked.push(request);
      return { action: 'accept', content: { name: 'octocat' } };
    },
    elicitUrl: (request) => {
      asked.push(request);
      return { action: 'accept' };
    },
    sample: (params) => {
      asked.push(params);
      return sampled;
    },
    listRoots: () => {
      asked.push('roots');
      return [{ uri: 'file:///work', name: 'work' }];
    },
  };
  return { handlers, asked };
}

/** A handler that is called and then waits for the test. */
export function pending<T>(): {
  readonly handler: (...args: unknown[]) => Promise<T>;
  readonly called: Promise<void>;
  readonly settle: (value: T) => void;
  readonly fail: (error: unknown) => void;
} {
  let call: (() => void) | undefined;
  let settle: ((value: T) => void) | undefined;
  let fail: ((error: unknown) => void) | undefined;
  const called = new Promise<void>((resolve) => {
    call = resolve;
  });
  const answer = new Promise<T>((resolve, reject) => {
    settle = resolve;
    fail = reject;
  });
  return {
    handler: () => {
      call!();
      return answer;
    },
    called,
    settle: settle!,
    fail: fail!,
  };
}

/** All microtasks that are due, and those they start. */
export const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

export const parsed = (text: string): Record<string, JsonValue> =>
  JSON.parse(text) as Record<string, JsonValue>;
