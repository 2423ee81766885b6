/** One round: all inputs at once, keys and state unchanged, and nobody asked in vain. */
import * as fc from 'fast-check';
import { describe, expect, test, vi } from 'vitest';
import type { InputHandlers, Root } from '../../src/calls/inputHandlers.js';
import { type InputRequest, readInputRequired } from '../../src/calls/inputRequired.js';
import { answerRound } from '../../src/calls/rounds.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import {
  context,
  form,
  parsed,
  pending,
  roots,
  sample,
  sampled,
  settled,
  visit,
  willing,
} from './inputHarness.js';

const round = (
  handlers: InputHandlers,
  inputRequests: Record<string, InputRequest> | undefined,
  requestState?: string,
  signal?: AbortSignal,
) => answerRound(handlers, { inputRequests, requestState }, context(signal));

const membersOf = async (...args: Parameters<typeof round>): Promise<string> => {
  const answer = await round(...args);
  if (!answer.ok) throw new Error(answer.message);
  return answer.members;
};

describe('the members of the next request', () => {
  test('answers under the same keys, and the state', async () => {
    const members = await membersOf(willing().handlers, { f: form, u: visit, s: sample, r: roots }, 'st');
    expect(parsed(`{${members}}`)).toEqual({
      inputResponses: {
        f: { action: 'accept', content: { name: 'octocat' } },
        u: { action: 'accept' },
        s: sampled,
        r: { roots: [{ uri: 'file:///work', name: 'work' }] },
      },
      requestState: 'st',
    });
  });

  test('no state where none was given, an empty one where it was empty', async () => {
    expect(await membersOf(willing().handlers, { r: roots })).toMatch(
      /^"inputResponses":\{"r":\{[^}]*\}\]\}\}$/,
    );
    expect(await membersOf({}, undefined, '')).toBe('"requestState":""');
  });

  test('a round of state alone asks nobody', async () => {
    expect(await membersOf({}, undefined, 'eyJ9"\\\n')).toBe('"requestState":"eyJ9\\"\\\\\\n"');
  });

  test('a round that asks for nothing is answered with nothing', async () => {
    expect(await membersOf({}, {}, 's')).toBe('"inputResponses":{},"requestState":"s"');
  });

  test('keys that are members of every object', async () => {
    const text =
      '{"inputRequests":{"__proto__":{"method":"roots/list"},"constructor":{"method":"roots/list"},"toString":{"method":"roots/list"}}}';
    const read = readInputRequired(JSON.parse(text) as JsonObject);
    if (read.kind !== 'input-required') throw new Error(read.problem);
    const members = await membersOf({ listRoots: () => [] }, read.inputRequests);
    expect(members).toBe(
      '"inputResponses":{"__proto__":{"roots":[]},"constructor":{"roots":[]},"toString":{"roots":[]}}',
    );
    expect(({} as Record<string, unknown>)['roots']).toBeUndefined();
  });

  test('keys and state are the server’s, whatever they are', async () => {
    const key = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 8 }),
      fc.constantFrom(
        '__proto__',
        'constructor',
        'hasOwnProperty',
        '',
        '0',
        '01',
        '"',
        '\\',
        '\u2028',
        '\ud800',
      ),
    );
    const state = fc.option(
      fc.oneof(
        fc.string({ unit: 'binary' }),
        fc.constantFrom('', '"}', '\u0000', '\ud800', '\u2029', '__proto__'),
      ),
      { nil: undefined },
    );
    const keys = fc.option(fc.uniqueArray(key, { maxLength: 20 }), { nil: undefined });
    await fc.assert(
      fc.asyncProperty(keys, state, async (names, requestState) => {
        fc.pre(names !== undefined || requestState !== undefined);
        const result = {
          ...(names === undefined
            ? {}
            : { inputRequests: Object.fromEntries(names.map((name) => [name, { method: 'roots/list' }])) }),
          ...(requestState === undefined ? {} : { requestState }),
        };
        // Through the wire, as it comes.
        const read = readInputRequired(JSON.parse(JSON.stringify(result)) as JsonObject);
        if (read.kind !== 'input-required') throw new Error(read.problem);
        const members = await membersOf({ listRoots: () => [] }, read.inputRequests, read.requestState);
        const sent = parsed(`{${members}}`);
        expect(Object.hasOwn(sent, 'requestState')).toBe(requestState !== undefined);
        expect(sent['requestState']).toBe(requestState);
        expect(Object.hasOwn(sent, 'inputResponses')).toBe(names !== undefined);
        expect(Object.keys((sent['inputResponses'] ?? {}) as object).sort()).toEqual(
          [...(names ?? [])].sort(),
        );
      }),
      { numRuns: 500 },
    );
  });
});

describe('the inputs of a round', () => {
  test('are asked for at once', async () => {
    const first = pending<Root[]>();
    const second = pending<JsonObject>();
    const answer = round({ listRoots: first.handler, sample: second.handler }, { a: roots, b: sample });
    await Promise.all([first.called, second.called]);
    second.settle(sampled);
    first.settle([]);
    expect(await answer).toEqual({
      ok: true,
      members: `"inputResponses":{"a":{"roots":[]},"b":${JSON.stringify(sampled)}}`,
    });
  });

  test('are not asked for where one of them is undeclared', async () => {
    for (const order of [
      { a: form, b: sample },
      { b: sample, a: form },
    ]) {
      const elicitForm = vi.fn(() => ({ action: 'accept' }) as const);
      expect(await round({ elicitForm }, order, 's')).toEqual({
        ok: false,
        reason: 'undeclared',
        message: 'The server asked for "sampling/createMessage", which this host did not offer.',
      });
      expect(elicitForm).not.toHaveBeenCalled();
    }
  });

  test('are not asked for where one of them is malformed', async () => {
    const { handlers, asked } = willing();
    const broken = {
      method: 'elicitation/create',
      params: { mode: 'url', message: 'a', url: 'javascript:1' },
    };
    expect(await round(handlers, { a: form, b: broken })).toMatchObject({
      ok: false,
      reason: 'invalid-request',
    });
    expect(asked).toEqual([]);
  });

  test('end when one fails: the others are aborted and not waited for', async () => {
    const signals: AbortSignal[] = [];
    const stuck = pending<JsonObject>();
    const answer = round(
      {
        sample: (_params, { signal }) => {
          signals.push(signal);
          return stuck.handler();
        },
        listRoots: async () => {
          await stuck.called;
          throw new Error('no disk');
        },
      },
      { a: sample, b: roots, c: sample },
    );
    expect(await answer).toEqual({
      ok: false,
      reason: 'handler-failed',
      message: "The host's handler of roots/list failed: no disk",
    });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true, true]);
  });

  test('a no of a person is no failure', async () => {
    const members = await membersOf({ elicitForm: () => ({ action: 'decline' }) }, { a: form });
    expect(members).toBe('"inputResponses":{"a":{"action":"decline"}}');
  });

  test('a handler that cannot ask anybody is a failure, and no decline', async () => {
    const answer = await round(
      {
        elicitForm: () => {
          throw new Error('no terminal');
        },
      },
      { a: form },
    );
    expect(answer).toMatchObject({ ok: false, reason: 'handler-failed' });
  });

  test('end with the call', async () => {
    const abort = new AbortController();
    const seen: AbortSignal[] = [];
    const stuck = pending<Root[]>();
    const answer = round(
      {
        listRoots: ({ signal }) => {
          seen.push(signal);
          return stuck.handler();
        },
      },
      { a: roots, b: roots },
      's',
      abort.signal,
    );
    await stuck.called;
    abort.abort(new Error('deadline'));
    expect(await answer).toMatchObject({ ok: false, reason: 'cancelled' });
    expect(seen.map(({ aborted }) => aborted)).toEqual([true, true]);
    expect((seen[0]!.reason as Error).message).toBe('deadline');
    stuck.fail(new Error('late'));
    await settled();
  });

  test('of an ended call ask nobody', async () => {
    const { handlers, asked } = willing();
    expect(await round(handlers, { a: form }, 's', AbortSignal.abort())).toMatchObject({
      reason: 'cancelled',
    });
    expect(asked).toEqual([]);
  });

  test('leave nothing on the signal of the call, and warn of nothing', async () => {
    const warned = vi.fn();
    process.on('warning', warned);
    try {
      const { signal } = new AbortController();
      const listRoots: InputHandlers['listRoots'] = (given) => {
        given.signal.addEventListener('abort', () => {});
        return [];
      };
      const added = vi.spyOn(signal, 'addEventListener');
      const removed = vi.spyOn(signal, 'removeEventListener');
      const requests = Object.fromEntries(Array.from({ length: 100 }, (_, index) => [`k${index}`, roots]));
      for (let turn = 0; turn < 20; turn += 1) await membersOf({ listRoots }, requests, 's', signal);
      expect(added).toHaveBeenCalledTimes(20);
      expect(removed.mock.calls.map(([, listener]) => listener)).toEqual(
        added.mock.calls.map(([, listener]) => listener),
      );
      await settled();
      expect(warned).not.toHaveBeenCalled();
    } finally {
      process.off('warning', warned);
    }
  });
});
