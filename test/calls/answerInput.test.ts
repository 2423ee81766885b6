/** One input request: which handler gets it, what is refused, and what becomes of handlers that misbehave. */
import * as fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import { answerInput } from '../../src/calls/answerInput.js';
import type { ElicitResult, InputHandlers, Root } from '../../src/calls/inputHandlers.js';
import { readInputRequired } from '../../src/calls/inputRequired.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { specExamples } from '../support/specDir.js';
import {
  context,
  form,
  formParams,
  pending,
  roots,
  sample,
  sampled,
  sampleParams,
  settled,
  urlParams,
  visit,
  willing,
} from './inputHarness.js';

const elicit = (params: object) => ({ method: 'elicitation/create', params: params as JsonObject });
const ask = (handlers: InputHandlers, request: { method: string; params: JsonObject | undefined }) =>
  answerInput(handlers, request, context());

describe('the handler that is asked', () => {
  test('a form, with and without mode', async () => {
    for (const mode of [{}, { mode: 'form' }, { mode: null }]) {
      const { handlers, asked } = willing();
      const params = { ...formParams, ...mode };
      expect(await ask(handlers, elicit(params))).toEqual({
        ok: true,
        result: { action: 'accept', content: { name: 'octocat' } },
      });
      expect(asked).toEqual([{ message: 'Name?', requestedSchema: formParams['requestedSchema'], params }]);
    }
  });

  test('a page', async () => {
    const { handlers, asked } = willing();
    expect(await ask(handlers, visit)).toEqual({ ok: true, result: { action: 'accept' } });
    expect(asked).toEqual([{ message: 'Log in', url: urlParams['url'], params: urlParams }]);
  });

  test('a page is shown as a browser would read its address', async () => {
    const { handlers, asked } = willing();
    const url = ' https://example.com\t/a\n b';
    await ask(handlers, elicit({ ...urlParams, url }));
    expect(asked).toMatchObject([{ url: 'https://example.com/a%20b', params: { url } }]);
  });

  test('a sample and the roots', async () => {
    const { handlers, asked } = willing();
    expect(await ask(handlers, sample)).toEqual({ ok: true, result: sampled });
    expect(await ask(handlers, roots)).toEqual({
      ok: true,
      result: { roots: [{ uri: 'file:///work', name: 'work' }] },
    });
    expect(asked).toEqual([sampleParams, 'roots']);
  });

  test('is told who asks, and for what', async () => {
    const seen: unknown[] = [];
    await ask(
      {
        listRoots: (given) => {
          seen.push(given);
          return [];
        },
      },
      roots,
    );
    expect(seen).toEqual([
      expect.objectContaining({
        peer: 'alpha',
        era: 'modern',
        request: { method: 'tools/call', target: 'deploy' },
      }),
    ]);
  });

  test('is not called in the stack of the caller', async () => {
    const listRoots = vi.fn(() => []);
    const answer = ask({ listRoots }, roots);
    expect(listRoots).not.toHaveBeenCalled();
    await answer;
    expect(listRoots).toHaveBeenCalledOnce();
  });

  test('keeps its object', async () => {
    const handlers = {
      place: 'file:///mine',
      listRoots() {
        return [{ uri: this.place }];
      },
    };
    expect(await ask(handlers, roots)).toMatchObject({ result: { roots: [{ uri: 'file:///mine' }] } });
  });

  test('official examples of 2026-07-28 reach their handlers', async () => {
    const { handlers } = willing();
    const requests = specExamples().filter(
      ({ type }) => type === 'InputRequests' || type === 'InputRequiredResult',
    );
    for (const { type, value, file } of requests) {
      const read = readInputRequired(
        (type === 'InputRequests' ? { inputRequests: value } : value) as JsonObject,
      );
      if (read.kind !== 'input-required') throw new Error(`${file}: ${read.problem}`);
      for (const request of Object.values(read.inputRequests ?? {})) {
        expect(await ask(handlers, request), file).toMatchObject({ ok: true });
      }
    }
  });
});

describe('what is not declared', () => {
  const without = (name: keyof InputHandlers): InputHandlers => {
    const { [name]: _left, ...others } = willing().handlers;
    return others;
  };

  test.each([
    ['elicitForm', form, '"elicitation/create" with mode "form"'],
    ['elicitUrl', visit, '"elicitation/create" with mode "url"'],
    ['sample', sample, '"sampling/createMessage"'],
    ['listRoots', roots, '"roots/list"'],
  ] as const)('without %s', async (name, request, what) => {
    expect(await ask(without(name), request)).toEqual({
      ok: false,
      reason: 'undeclared',
      message: `The server asked for ${what}, which this host did not offer.`,
    });
  });

  test('a mode that nobody knows', async () => {
    const { handlers, asked } = willing();
    expect(await ask(handlers, elicit({ ...formParams, mode: 'toString' }))).toMatchObject({
      reason: 'undeclared',
    });
    expect(asked).toEqual([]);
  });

  test('a method that is none, or a member of every object', async () => {
    for (const method of ['constructor', '__proto__', 'tools/call', '']) {
      expect(await ask(willing().handlers, { method, params: undefined })).toMatchObject({
        reason: 'undeclared',
      });
    }
  });

  test('sampling with tools', async () => {
    for (const extra of [{ tools: [] }, { toolChoice: { mode: 'auto' } }]) {
      const request = { ...sample, params: { ...sampleParams, ...extra } };
      const { handlers, asked } = willing();
      expect(await ask(handlers, request)).toMatchObject({ reason: 'undeclared' });
      expect(await ask({ ...handlers, sampling: { context: true } }, request)).toMatchObject({ ok: false });
      expect(asked).toEqual([]);
      expect(await ask({ ...handlers, sampling: { tools: true } }, request)).toMatchObject({ ok: true });
      expect(asked).toEqual([request.params]);
    }
  });

  test('a context is not asked of a handler that knows none, as a client may ignore it', async () => {
    const params = { ...sampleParams, includeContext: 'allServers' };
    const { handlers, asked } = willing();
    expect(await ask(handlers, { ...sample, params })).toMatchObject({ ok: true });
    expect(await ask({ ...handlers, sampling: { context: true } }, { ...sample, params })).toMatchObject({
      ok: true,
    });
    expect(asked).toEqual([sampleParams, params]);
  });
});

describe('a request that is malformed', () => {
  test.each([
    ['no params', { method: 'elicitation/create', params: undefined }],
    ['no message', elicit({ ...formParams, message: undefined })],
    ['a mode that is no string', elicit({ ...formParams, mode: 1 })],
    ['no schema', elicit({ message: 'a' })],
    ['a schema that is an array', elicit({ message: 'a', requestedSchema: [] })],
    ['a schema of a string', elicit({ message: 'a', requestedSchema: { type: 'string', properties: {} } })],
    ['a schema without properties', elicit({ message: 'a', requestedSchema: { type: 'object' } })],
    [
      'a property that is none',
      elicit({ message: 'a', requestedSchema: { type: 'object', properties: { a: 1 } } }),
    ],
    ['no url', elicit({ mode: 'url', message: 'a' })],
    ['a url that is none', elicit({ mode: 'url', message: 'a', url: 'login' })],
    ['a script', elicit({ mode: 'url', message: 'a', url: 'javascript:alert(1)' })],
    ['a file', elicit({ mode: 'url', message: 'a', url: 'file:///etc/passwd' })],
    ['an app', elicit({ mode: 'url', message: 'a', url: 'vscode://x' })],
    ['a script with white space', elicit({ mode: 'url', message: 'a', url: ' java\nscript:alert(1)' })],
    ['no messages', { ...sample, params: { maxTokens: 1 } }],
    ['a message that is none', { ...sample, params: { maxTokens: 1, messages: ['a'] } }],
    [
      'a message of the system',
      { ...sample, params: { maxTokens: 1, messages: [{ role: 'system', content: {} }] } },
    ],
    ['no maxTokens', { ...sample, params: { messages: [] } }],
    ['an endless maxTokens', { ...sample, params: { messages: [], maxTokens: 1.5 } }],
  ])('%s', async (_what, request) => {
    const { handlers, asked } = willing();
    const answer = await ask(handlers, request as typeof form);
    expect(answer).toMatchObject({ ok: false, reason: 'invalid-request' });
    expect(asked).toEqual([]);
  });

  test('a context that nobody knows', async () => {
    const handlers = { ...willing().handlers, sampling: { context: true } };
    const request = { ...sample, params: { ...sampleParams, includeContext: 'world' } };
    expect(await ask(handlers, request)).toMatchObject({ reason: 'invalid-request' });
  });
});

describe('what a handler gives', () => {
  const elicited = (result: unknown, request = form) =>
    ask({ elicitForm: () => result as ElicitResult, elicitUrl: () => result as ElicitResult }, request);
  const listed = (given: unknown) => ask({ listRoots: () => given as Root[] }, roots);
  const sampledAs = (given: unknown) => ask({ sample: () => given as JsonObject }, sample);

  test('a no of a person is an answer', async () => {
    for (const action of ['decline', 'cancel'] as const) {
      expect(await elicited({ action })).toEqual({ ok: true, result: { action } });
      expect(await elicited({ action, content: undefined }, visit)).toEqual({ ok: true, result: { action } });
    }
  });

  test('only what the protocol knows of an elicitation and a root is sent', async () => {
    expect(
      await elicited({ action: 'accept', content: { a: 1 }, _meta: { b: 2 }, session: 'secret' }),
    ).toEqual({
      ok: true,
      result: { action: 'accept', content: { a: 1 }, _meta: { b: 2 } },
    });
    expect(await listed([{ uri: 'file:///a', internal: 1, _meta: {} }])).toEqual({
      ok: true,
      result: { roots: [{ uri: 'file:///a', _meta: {} }] },
    });
  });

  test('values of forms', async () => {
    const content = JSON.parse('{"a":"","b":1.5,"c":false,"d":["x"],"e":[],"__proto__":"x"}') as object;
    const answer = await elicited({ action: 'accept', content });
    expect(answer.ok && JSON.stringify(answer.result['content'])).toBe(JSON.stringify(content));
  });

  test.each([
    ['nothing', undefined],
    ['a function', () => 1],
    ['a string', 'accept'],
    ['no action', {}],
    ['an unknown action', { action: 'approve' }],
    ['content with a no', { action: 'decline', content: {} }],
    ['content that is no object', { action: 'accept', content: [1] }],
    ['nested content', { action: 'accept', content: { a: { b: 1 } } }],
    ['numbers in an array', { action: 'accept', content: { a: [1] } }],
    ['a number that JSON has not', { action: 'accept', content: { a: Number.NaN } }],
    ['a BigInt', { action: 'accept', content: { a: 1n } }],
  ])('an elicitation that cannot be sent: %s', async (_what, result) => {
    expect(await elicited(result)).toMatchObject({ ok: false, reason: 'handler-failed' });
  });

  test('content of a page', async () => {
    expect(await elicited({ action: 'accept', content: { a: 1 } }, visit)).toMatchObject({
      reason: 'handler-failed',
    });
  });

  test.each([
    ['nothing', null],
    ['no role', { ...sampled, role: undefined }],
    ['a strange role', { ...sampled, role: 'system' }],
    ['no model', { ...sampled, model: undefined }],
    ['no content', { ...sampled, content: undefined }],
    ['text as content', { ...sampled, content: 'Hello' }],
    ['a block without type', { ...sampled, content: [{ text: 'a' }] }],
  ])('a sample that cannot be sent: %s', async (_what, given) => {
    expect(await sampledAs(given)).toMatchObject({ ok: false, reason: 'handler-failed' });
  });

  test('a sample in several blocks', async () => {
    const content = [{ type: 'tool_use', id: 'a', name: 'b', input: {} }];
    expect(await sampledAs({ ...sampled, content })).toEqual({ ok: true, result: { ...sampled, content } });
  });

  test.each([
    ['nothing', undefined],
    ['no array', { roots: [] }],
    ['a string', ['file:///a']],
    ['no uri', [{}]],
    ['a page', [{ uri: 'https://example.com' }]],
    ['a path', [{ uri: '/a' }]],
    ['no URI', [{ uri: 'file://%%%:a b' }]],
    ['a name that is none', [{ uri: 'file:///a', name: 1 }]],
  ])('roots that cannot be sent: %s', async (_what, given) => {
    expect(await listed(given)).toMatchObject({ ok: false, reason: 'handler-failed' });
  });

  test('a cycle, and a toJSON that throws', async () => {
    const cycle: Record<string, unknown> = { ...sampled };
    cycle['self'] = cycle;
    expect(await sampledAs(cycle)).toMatchObject({ reason: 'handler-failed' });
    const thrower = {
      toJSON() {
        throw new Error('no');
      },
    };
    expect(await sampledAs(thrower)).toMatchObject({ reason: 'handler-failed' });
  });
});

describe('a handler that throws', () => {
  const failing = (thrown: unknown) =>
    ask(
      {
        listRoots: () => {
          throw thrown;
        },
      },
      roots,
    );

  test('fails the input, with its text for the host', async () => {
    expect(await failing(new Error('no\u001b[2Jscreen'))).toEqual({
      ok: false,
      reason: 'handler-failed',
      message: "The host's handler of roots/list failed: no\\u{1b}[2Jscreen",
    });
    expect(await ask({ listRoots: () => Promise.reject(new Error('later')) }, roots)).toMatchObject({
      reason: 'handler-failed',
    });
  });

  test('may throw anything, and much of it', async () => {
    const hostile = new Error('x');
    Object.defineProperty(hostile, 'message', {
      get() {
        throw new Error('again');
      },
    });
    for (const thrown of [undefined, null, 1, Symbol('s'), hostile, Object.create(null), new Error('')]) {
      expect(await failing(thrown)).toMatchObject({ ok: false, reason: 'handler-failed' });
    }
    const long = await failing(new Error('x'.repeat(1_000_000)));
    expect(!long.ok && long.message.length).toBeLessThan(400);
  });

  test('whatever it gives or throws, nothing rejects', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.anything(),
        fc.boolean(),
        fc.constantFrom(form, visit, sample, roots),
        async (value, throws, request) => {
          const handler = () => {
            if (throws) throw value;
            return value as never;
          };
          const handlers = { elicitForm: handler, elicitUrl: handler, sample: handler, listRoots: handler };
          const answer = await answerInput(handlers, request, context());
          if (!answer.ok) expect(answer.message.length).toBeLessThan(400);
        },
      ),
    );
  });
});

describe('an input that nobody waits for', () => {
  test('is cancelled at once, also if its handler never settles', async () => {
    const abort = new AbortController();
    const { handler, called } = pending<Root[]>();
    const answer = answerInput({ listRoots: handler }, roots, context(abort.signal));
    await called;
    abort.abort();
    expect(await answer).toMatchObject({ ok: false, reason: 'cancelled' });
  });

  test('asks nobody where it was cancelled before', async () => {
    const { handlers, asked } = willing();
    expect(await answerInput(handlers, form, context(AbortSignal.abort()))).toMatchObject({
      reason: 'cancelled',
    });
    const abort = new AbortController();
    const answer = answerInput(handlers, form, context(abort.signal));
    abort.abort();
    expect(await answer).toMatchObject({ reason: 'cancelled' });
    await settled();
    expect(asked).toEqual([]);
  });

  test('a late answer or failure of the handler is nobody’s', async () => {
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    try {
      const abort = new AbortController();
      const { handler, called, fail } = pending<Root[]>();
      const answer = answerInput({ listRoots: handler }, roots, context(abort.signal));
      await called;
      abort.abort();
      await answer;
      fail(new Error('late'));
      await settled();
      await settled();
      expect(unhandled).not.toHaveBeenCalled();
    } finally {
      process.off('unhandledRejection', unhandled);
    }
  });

  test('leaves no listener on the signal', async () => {
    const { signal } = new AbortController();
    const added = vi.spyOn(signal, 'addEventListener');
    const removed = vi.spyOn(signal, 'removeEventListener');
    const { handlers } = willing();
    for (const request of [form, visit, sample, roots]) await answerInput(handlers, request, context(signal));
    expect(added).toHaveBeenCalledTimes(4);
    expect(removed.mock.calls.map(([, listener]) => listener)).toEqual(
      added.mock.calls.map(([, listener]) => listener),
    );
  });
});
