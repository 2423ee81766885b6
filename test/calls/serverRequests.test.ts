/** Requests of legacy servers: answered by handlers, refused at once, or cancelled. */
import { describe, expect, test, vi } from 'vitest';
import type { InputHandlers, Root } from '../../src/calls/inputHandlers.js';
import { ServerRequests, type ServerRequestsOptions } from '../../src/calls/serverRequests.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { formParams, pending, sampled, sampleParams, settled, urlParams, willing } from './inputHarness.js';

function serve(handlers: InputHandlers, options: Partial<ServerRequestsOptions> = {}) {
  const answers: [id: string | number, answer: unknown][] = [];
  const requests = new ServerRequests({
    handlers,
    peer: 'old',
    respond: (id, answer) => void answers.push([id, answer]),
    ...options,
  });
  return { requests, answers };
}
const noRoots = { result: { roots: [] } };

describe('a request of a legacy server', () => {
  test('ping is answered at once, also without handlers', () => {
    const { requests, answers } = serve({});
    requests.handle(1, 'ping', undefined);
    requests.handle('p', 'ping', { _meta: {} });
    expect(answers).toEqual([
      [1, { result: {} }],
      ['p', { result: {} }],
    ]);
  });

  test('goes to the same handlers, outside the reader', async () => {
    const { handlers, asked } = willing();
    const { requests, answers } = serve(handlers);
    requests.handle(1, 'roots/list', undefined);
    requests.handle(2, 'elicitation/create', formParams);
    requests.handle(3, 'sampling/createMessage', sampleParams);
    requests.handle(4, 'elicitation/create', { ...urlParams, elicitationId: 'e' });
    expect(asked).toEqual([]);
    expect(answers).toEqual([]);
    await settled();
    expect(Object.fromEntries(answers)).toEqual({
      1: { result: { roots: [{ uri: 'file:///work', name: 'work' }] } },
      2: { result: { action: 'accept', content: { name: 'octocat' } } },
      3: { result: sampled },
      4: { result: { action: 'accept' } },
    });
  });

  test('says who asks', async () => {
    const seen: unknown[] = [];
    const { requests } = serve({
      listRoots: (given) => {
        seen.push(given);
        return [];
      },
    });
    requests.handle(1, 'roots/list', undefined);
    await settled();
    expect(seen).toEqual([expect.objectContaining({ peer: 'old', era: 'legacy', request: null })]);
  });

  test('that is undeclared or unknown is refused at once, by its name', () => {
    const { requests, answers } = serve({ elicitUrl: () => ({ action: 'cancel' }) });
    for (const method of [
      'roots/list',
      'sampling/createMessage',
      'tools/call',
      'constructor',
      '\u001b[2J',
      'x'.repeat(9_000),
    ]) {
      requests.handle(method, method, undefined);
    }
    expect(answers.map(([, answer]) => (answer as { code: number }).code)).toEqual(Array(6).fill(-32601));
    const messages = answers.map(([, answer]) => (answer as { message: string }).message);
    expect(messages[0]).toBe('This client does not offer "roots/list".');
    expect(messages[4]).toContain('\\u{1b}[2J');
    expect(messages[5]!.length).toBeLessThan(150);
  });

  test('an undeclared mode or malformed parameters are invalid params', () => {
    const { requests, answers } = serve({ elicitUrl: () => ({ action: 'cancel' }), sample: () => ({}) });
    requests.handle(1, 'elicitation/create', formParams);
    requests.handle(2, 'elicitation/create', { mode: 'url', message: 'a', url: 'file:///a' });
    requests.handle(3, 'elicitation/create', undefined);
    requests.handle(4, 'sampling/createMessage', { ...sampleParams, tools: [] });
    expect(answers.map(([id, answer]) => [id, (answer as { code: number }).code])).toEqual([
      [1, -32602],
      [2, -32602],
      [3, -32602],
      [4, -32602],
    ]);
  });

  test('hears nothing of what a handler says in its failure', async () => {
    const { requests, answers } = serve({
      listRoots: () => {
        throw new Error('password hunter2');
      },
      sample: () => ({ role: 'hunter2' }),
    });
    requests.handle(1, 'roots/list', undefined);
    requests.handle(2, 'sampling/createMessage', sampleParams);
    await settled();
    expect(answers.map(([, answer]) => answer)).toEqual(
      Array(2).fill({ code: -32603, message: 'The client could not get the input.' }),
    );
  });
});

describe('ids', () => {
  test('are compared by JSON type and value', async () => {
    const { handler, settle } = pending<Root[]>();
    const { requests, answers } = serve({ listRoots: handler });
    requests.handle('1', 'roots/list', undefined);
    requests.handle(1, 'roots/list', undefined);
    requests.cancel('1');
    settle([]);
    await settled();
    expect(answers).toEqual([[1, noRoots]]);
  });

  test('a second request with an id in flight is invalid, and the first is answered', async () => {
    const { handler, settle } = pending<Root[]>();
    const { requests, answers } = serve({ listRoots: handler });
    requests.handle(7, 'roots/list', undefined);
    requests.handle(7, 'roots/list', undefined);
    requests.handle(7, 'ping', undefined);
    expect(answers.map(([, answer]) => (answer as { code: number }).code)).toEqual([-32600, -32600]);
    settle([]);
    await settled();
    expect(answers).toHaveLength(3);
    expect(answers[2]).toEqual([7, noRoots]);
    requests.handle(7, 'roots/list', undefined);
    await settled();
    expect(answers).toHaveLength(4);
  });
});

describe('too many at once', () => {
  test('are refused; ping is not', async () => {
    const { handler, settle } = pending<Root[]>();
    const { requests, answers } = serve({ listRoots: handler }, { maxAtOnce: 2 });
    for (const id of [1, 2, 3]) requests.handle(id, 'roots/list', undefined);
    requests.handle(4, 'ping', undefined);
    expect(answers).toEqual([
      [3, { code: -32000, message: 'too many requests at once' }],
      [4, { result: {} }],
    ]);
    settle([]);
    await settled();
    requests.handle(5, 'roots/list', undefined);
    await settled();
    expect(answers.slice(2).map(([id]) => id)).toEqual([1, 2, 5]);
  });

  test('32 by default', () => {
    const { requests, answers } = serve({ listRoots: pending<Root[]>().handler });
    for (let id = 0; id < 40; id += 1) requests.handle(id, 'roots/list', undefined);
    expect(answers.map(([id]) => id)).toEqual([32, 33, 34, 35, 36, 37, 38, 39]);
  });

  test('a server that cancels does not get more handlers than that to run', async () => {
    const { handler, called, settle } = pending<Root[]>();
    const listRoots = vi.fn(handler);
    const { requests, answers } = serve({ listRoots }, { maxAtOnce: 3 });
    for (let id = 0; id < 20; id += 1) {
      requests.handle(id, 'roots/list', undefined);
      await called;
      requests.cancel(id);
    }
    expect(listRoots).toHaveBeenCalledTimes(3);
    settle([]);
    await settled();
    requests.handle(99, 'roots/list', undefined);
    await settled();
    expect(answers.at(-1)).toEqual([99, noRoots]);
  });
});

describe('a request that is cancelled', () => {
  test('aborts its handler alone and is not answered', async () => {
    const signals = new Map<unknown, AbortSignal>();
    const { handler, settle } = pending<JsonObject>();
    const { requests, answers } = serve({
      sample: (params, { signal }) => {
        signals.set(params['maxTokens'], signal);
        return handler();
      },
    });
    requests.handle(1, 'sampling/createMessage', { ...sampleParams, maxTokens: 1 });
    requests.handle(2, 'sampling/createMessage', { ...sampleParams, maxTokens: 2 });
    await settled();
    requests.cancel(1);
    requests.cancel(1);
    requests.cancel('2');
    requests.cancel(99);
    expect(signals.get(1)!.aborted).toBe(true);
    expect(signals.get(2)!.aborted).toBe(false);
    settle(sampled);
    await settled();
    expect(answers).toEqual([[2, { result: sampled }]]);
  });

  test('does not answer for a later request with its id', async () => {
    const first = pending<Root[]>();
    const second = pending<Root[]>();
    const handlers = [first.handler, second.handler];
    const { requests, answers } = serve({ listRoots: () => handlers.shift()!() });
    requests.handle(1, 'roots/list', undefined);
    await first.called;
    requests.cancel(1);
    requests.handle(1, 'roots/list', undefined);
    await second.called;
    first.settle([{ uri: 'file:///first' }]);
    await settled();
    expect(answers).toEqual([]);
    second.settle([]);
    await settled();
    expect(answers).toEqual([[1, noRoots]]);
  });

  test('before its handler was called calls it not', async () => {
    const { handlers, asked } = willing();
    const { requests, answers } = serve(handlers);
    requests.handle(1, 'roots/list', undefined);
    requests.cancel(1);
    await settled();
    expect([asked, answers]).toEqual([[], []]);
  });
});

describe('the end of the connection', () => {
  test('aborts everything and answers nothing any more', async () => {
    const signals: AbortSignal[] = [];
    const { handler, settle } = pending<Root[]>();
    const { requests, answers } = serve({
      listRoots: ({ signal }) => {
        signals.push(signal);
        return handler();
      },
    });
    requests.handle(1, 'roots/list', undefined);
    requests.handle(2, 'roots/list', undefined);
    await settled();
    requests.close();
    requests.close();
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
    settle([]);
    requests.handle(3, 'roots/list', undefined);
    requests.handle(4, 'ping', undefined);
    await settled();
    expect(answers).toEqual([]);
  });

  test('while the host stops nothing new is begun, and the server hears so', async () => {
    let isEnding = false;
    const { handlers, asked } = willing();
    const { requests, answers } = serve(handlers, { isEnding: () => isEnding });
    isEnding = true;
    requests.handle(1, 'roots/list', undefined);
    requests.handle(2, 'ping', undefined);
    await settled();
    expect(asked).toEqual([]);
    expect(answers).toEqual([
      [1, { code: -32000, message: 'The client is stopping.' }],
      [2, { result: {} }],
    ]);
  });

  test('an answer that cannot be written throws nowhere', async () => {
    const unhandled = vi.fn();
    process.on('unhandledRejection', unhandled);
    try {
      const respond = vi.fn(() => {
        throw new Error('gone');
      });
      const { requests } = serve(willing().handlers, { respond });
      requests.handle(1, 'ping', undefined);
      requests.handle(2, 'nope', undefined);
      requests.handle(3, 'roots/list', undefined);
      await settled();
      await settled();
      expect(respond).toHaveBeenCalledTimes(3);
      expect(unhandled).not.toHaveBeenCalled();
    } finally {
      process.off('unhandledRejection', unhandled);
    }
  });
});
