/** What a server asks for in a round, read without trust. */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { MAX_INPUT_REQUESTS, readInputRequired } from '../../src/calls/inputRequired.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import { form, roots } from './inputHarness.js';

describe('a result that asks for input', () => {
  test('has requests, state or both', () => {
    expect(readInputRequired({ requestState: '' })).toEqual({
      kind: 'input-required',
      inputRequests: undefined,
      requestState: '',
    });
    expect(readInputRequired({ inputRequests: { a: form, b: { method: 'roots/list' } } })).toEqual({
      kind: 'input-required',
      inputRequests: { a: form, b: roots },
      requestState: undefined,
    });
    expect(readInputRequired({ inputRequests: {} })).toMatchObject({ inputRequests: {} });
  });

  test('that has neither is no success', () => {
    expect(readInputRequired({})).toMatchObject({ kind: 'invalid' });
    expect(readInputRequired({ inputRequests: null, requestState: null })).toMatchObject({ kind: 'invalid' });
  });

  test('keeps hostile keys as keys', () => {
    const text =
      '{"inputRequests":{"__proto__":{"method":"roots/list"},"constructor":{"method":"roots/list"},"":{"method":"roots/list"}}}';
    const read = readInputRequired(JSON.parse(text) as JsonObject);
    expect(read.kind).toBe('input-required');
    if (read.kind !== 'input-required') return;
    expect(Object.keys(read.inputRequests!)).toEqual(['__proto__', 'constructor', '']);
    expect(Object.getPrototypeOf(read.inputRequests)).toBe(Object.prototype);
  });

  test('a request whose members hide in its prototype is none', () => {
    const read = readInputRequired(
      JSON.parse('{"inputRequests":{"a":{"__proto__":{"method":"roots/list"}}}}') as JsonObject,
    );
    expect(read).toMatchObject({ kind: 'invalid' });
  });

  test('has a bound', () => {
    const many = (count: number) =>
      readInputRequired({
        inputRequests: Object.fromEntries(
          Array.from({ length: count }, (_, index) => [`k${index}`, { method: 'roots/list' }]),
        ),
      });
    expect(many(MAX_INPUT_REQUESTS).kind).toBe('input-required');
    expect(many(MAX_INPUT_REQUESTS + 1)).toEqual({
      kind: 'invalid',
      problem: '"inputRequests" has 101 requests; at most 100 are answered at once',
    });
  });

  test.each([
    [{ requestState: 1 }, '"requestState" is a number'],
    [{ requestState: {}, inputRequests: {} }, '"requestState" is an object'],
    [{ inputRequests: [] }, '"inputRequests" is an array'],
    [{ inputRequests: { a: null } }, 'inputRequests["a"] is null'],
    [{ inputRequests: { a: {} } }, 'no string "method"'],
    [{ inputRequests: { a: { method: 'ping' } } }, 'asks for "ping", which is no input request'],
    [{ inputRequests: { '\u001b[2J': { method: 'ping' } } }, '\\u{1b}[2J'],
    [{ inputRequests: { a: { method: 'roots/list', params: null } } }, '"params" of inputRequests["a"]'],
  ])('is invalid as %j', (result, problem) => {
    expect((readInputRequired(result) as { problem: string }).problem).toContain(problem);
  });

  test('is read whatever it is', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.constantFrom('inputRequests', 'requestState', 'resultType'), fc.jsonValue()),
        (result) => {
          const read = readInputRequired(result as JsonObject);
          if (read.kind === 'invalid') expect(read.problem.length).toBeLessThan(400);
          else expect(read.inputRequests ?? read.requestState).toBeDefined();
        },
      ),
      { numRuns: 500 },
    );
  });
});
