import { describe, expect, it } from 'vitest';
import {
  MAX_COMPLETION_VALUES,
  parseCompletionResult,
  parsePromptResult,
  parseResourceResult,
} from '../../src/protocol/answers.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';

const problem = { ok: false, problem: expect.any(String) };

/** What no answer may be, whatever was asked. */
const nowhere = (good: JsonObject): JsonValue[] => [
  null,
  5,
  'text',
  [],
  {},
  { ...good, _meta: 5 },
  { ...good, _meta: [] },
  { ...good, resultType: 'input_required', requestState: 's' },
  { ...good, resultType: 'task' },
  { ...good, resultType: 5 },
  { ...good, resultType: null },
];

describe('the answer of prompts/get', () => {
  const message = { role: 'user', content: { type: 'text', text: 'hi' } };
  const good = { resultType: 'complete', messages: [message] };

  it('has its messages as they came', () => {
    const messages = [message, { role: 'assistant', content: { type: 'new-kind', x: 1 }, extra: true }];
    expect(parsePromptResult({ messages, description: 'd', _meta: { k: 1 } })).toEqual({
      ok: true,
      value: { description: 'd', messages, meta: { k: 1 } },
    });
  });

  it('may have no messages, and null for what is absent', () => {
    expect(parsePromptResult({ messages: [], description: null, _meta: null })).toEqual({
      ok: true,
      value: { description: undefined, messages: [], meta: undefined },
    });
  });

  it.each<JsonValue>([
    ...nowhere(good),
    { messages: {} },
    { messages: null },
    { messages: ['hi'] },
    { messages: [message, null] },
    { messages: [{ content: message.content }] },
    { messages: [{ ...message, role: 'system' }] },
    { messages: [{ role: 'user' }] },
    { messages: [{ role: 'user', content: 'hi' }] },
    { messages: [{ role: 'user', content: [message.content] }] },
    { messages: [{ role: 'user', content: { text: 'hi' } }] },
    { messages: [{ role: 'user', content: { type: 5 } }] },
    { ...good, description: 5 },
  ])('%j is a problem', (value) => {
    expect(parsePromptResult(value)).toMatchObject(problem);
  });

  it('a problem names the message', () => {
    expect(parsePromptResult({ messages: [message, { ...message, role: 'system' }] })).toMatchObject({
      problem: expect.stringContaining('messages[1]'),
    });
  });
});

describe('the answer of resources/read', () => {
  const text = { uri: 'file:///a', mimeType: 'text/plain', text: '' };
  const blob = { uri: 'file:///b', blob: 'AA==' };
  const good = { contents: [text] };

  it('has its contents as they came', () => {
    expect(parseResourceResult({ contents: [text, blob], ttlMs: 'x', _meta: { k: 1 } })).toEqual({
      ok: true,
      value: { contents: [text, blob], meta: { k: 1 } },
    });
  });

  it('may be empty', () => {
    expect(parseResourceResult({ contents: [] })).toMatchObject({ ok: true, value: { contents: [] } });
  });

  it.each<JsonValue>([
    ...nowhere(good),
    { contents: {} },
    { contents: text },
    { contents: [text, 'x'] },
    { contents: [{ text: 'no uri' }] },
    { contents: [{ uri: 5, text: 'x' }] },
    { contents: [{ uri: 'file:///a' }] },
    { contents: [{ uri: 'file:///a', text: null, blob: 5 }] },
  ])('%j is a problem', (value) => {
    expect(parseResourceResult(value)).toMatchObject(problem);
  });
});

describe('the answer of completion/complete', () => {
  const good = { completion: { values: ['a'] } };

  it('has its values, and says whether there are more', () => {
    expect(parseCompletionResult({ completion: { values: ['a', 'b'], total: 10, hasMore: true } })).toEqual({
      ok: true,
      value: { values: ['a', 'b'], total: 10, hasMore: true },
    });
  });

  it('may say nothing of total and more', () => {
    const expected = { ok: true, value: { values: [], total: undefined, hasMore: false } };
    expect(parseCompletionResult({ completion: { values: [] } })).toEqual(expected);
    expect(parseCompletionResult({ completion: { values: [], total: null, hasMore: null } })).toEqual(
      expected,
    );
  });

  it('of too many values the first are kept, and there are more', () => {
    const values = Array.from({ length: MAX_COMPLETION_VALUES + 1 }, (_, i) => `v${i}`);
    expect(parseCompletionResult({ completion: { values, hasMore: false } })).toMatchObject({
      value: { values: values.slice(0, MAX_COMPLETION_VALUES), hasMore: true },
    });
    const exact = values.slice(1);
    expect(parseCompletionResult({ completion: { values: exact } })).toMatchObject({
      value: { values: exact, hasMore: false },
    });
  });

  it.each<JsonValue>([
    ...nowhere(good),
    { completion: null },
    { completion: ['a'] },
    { completion: {} },
    { completion: { values: 'a' } },
    { completion: { values: ['a', 5] } },
    { completion: { values: [], total: '10' } },
    { completion: { values: [], total: 1.5 } },
    { completion: { values: [], hasMore: 'no' } },
  ])('%j is a problem', (value) => {
    expect(parseCompletionResult(value)).toMatchObject(problem);
  });
});
