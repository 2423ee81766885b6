import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createIdSource, parseMessage } from '../../src/protocol/jsonRpc.js';

const of = (members: Record<string, unknown>) => parseMessage({ jsonrpc: '2.0', ...members });

describe('a message is', () => {
  it.each<[string, Record<string, unknown>, object]>([
    ['a result', { id: 1, result: {} }, { kind: 'result', id: 1, result: {} }],
    ['a result with a null result', { id: 1, result: null }, { kind: 'result', result: null }],
    ['a result with a text id', { id: '1', result: 5 }, { kind: 'result', id: '1' }],
    [
      'an error',
      { id: 1, error: { code: -1, message: 'm' } },
      { kind: 'error', id: 1, error: { code: -1, message: 'm' } },
    ],
    [
      'an error with data',
      { id: 1, error: { code: 0, message: '', data: null } },
      { kind: 'error', error: { data: null } },
    ],
    ['an error without an id', { error: { code: 1, message: 'm' } }, { kind: 'error', id: undefined }],
    ['an error with a null id', { id: null, error: { code: 1, message: 'm' } }, { kind: 'error', id: null }],
    [
      'an error although there is a result',
      { id: 1, result: {}, error: { code: 1, message: 'm' } },
      { kind: 'error' },
    ],
    [
      'a request',
      { id: 'a', method: 'ping' },
      { kind: 'request', id: 'a', method: 'ping', params: undefined },
    ],
    ['a request with params', { id: 2, method: 'm', params: {} }, { kind: 'request', id: 2, params: {} }],
    [
      'a notification',
      { method: 'm', params: { a: 1 } },
      { kind: 'notification', method: 'm', params: { a: 1 } },
    ],
  ])('%s', (_name, members, expected) => {
    expect(of(members)).toMatchObject(expected);
  });
});

describe('a message is malformed, and its id is kept where it has one,', () => {
  it.each<[string, unknown, unknown]>([
    ['without jsonrpc', { id: 1, result: {} }, 1],
    ['with another version', { jsonrpc: '1.0', id: 1, result: {} }, 1],
    ['as an array', [{ jsonrpc: '2.0', id: 1, result: {} }], undefined],
    ['as null', null, undefined],
    ['as a text', 'text', undefined],
    ['with nothing in it', { jsonrpc: '2.0', id: 1 }, 1],
    ['as a result without an id', { jsonrpc: '2.0', result: {} }, undefined],
    ['as a result with a null id', { jsonrpc: '2.0', id: null, result: {} }, null],
    ['as a result with an object for an id', { jsonrpc: '2.0', id: {}, result: {} }, undefined],
    ['with an error that is no object', { jsonrpc: '2.0', id: 1, error: 'no' }, 1],
    [
      'with an error code that is no integer',
      { jsonrpc: '2.0', id: 1, error: { code: 1.5, message: '' } },
      1,
    ],
    ['with an error code that is a text', { jsonrpc: '2.0', id: 1, error: { code: '1', message: '' } }, 1],
    ['with an error message that is no text', { jsonrpc: '2.0', id: 1, error: { code: 1 } }, 1],
    ['with a method that is no text', { jsonrpc: '2.0', id: 1, method: 5 }, 1],
    ['with params that are an array', { jsonrpc: '2.0', method: 'm', params: [] }, undefined],
    ['as a request with a null id', { jsonrpc: '2.0', id: null, method: 'm' }, null],
    ['as a request with a fractional id', { jsonrpc: '2.0', id: 1.5, method: 'm' }, 1.5],
  ])('%s', (_name, value, id) => {
    expect(parseMessage(value)).toMatchObject({ kind: 'malformed', what: expect.any(String) });
    expect(parseMessage(value)).toHaveProperty('id', id);
  });
});

it('parsing is total', () => {
  fc.assert(
    fc.property(fc.anything(), (value) => {
      expect(parseMessage(value).kind).toMatch(/^(result|error|request|notification|malformed)$/);
    }),
  );
});

it('ids are unique, and do not start at 0', () => {
  const ids = createIdSource();
  expect([ids.next(), ids.next(), ids.next()]).toEqual([1, 2, 3]);
  expect(createIdSource(500).next()).toBe(500);
});
