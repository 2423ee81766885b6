import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type OutputValidator, readToolResult } from '../../src/calls/normalize.js';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import type { Era } from '../../src/protocol/revisions.js';

const ERAS: Era[] = ['modern', 'legacy'];
const text = { type: 'text', text: 'hello' };
const read = (result: unknown, era: Era = 'modern', validator?: OutputValidator) =>
  readToolResult(result as JsonValue, era, validator);

describe('a result that is complete', () => {
  it.each(ERAS)('is handed on as it came (%s)', (era) => {
    const content = [
      text,
      { type: 'text', text: '', annotations: { audience: ['user'] }, _meta: { a: 1 }, extra: null },
      { type: 'image', data: 'AAAA', mimeType: 'image/png' },
      { type: 'audio', data: 'AAAA', mimeType: 'audio/wav' },
      { type: 'resource_link', uri: 'file:///a', name: 'a' },
      { type: 'resource', resource: { uri: 'file:///a', text: 'a' } },
      { type: 'resource', resource: { uri: 'file:///a', blob: 'AAAA' } },
    ];
    const result = {
      resultType: 'complete',
      content,
      structuredContent: { a: [1] },
      _meta: { b: 2 },
      more: 1,
    };
    const got = read(result, era);
    expect(got).toEqual({
      kind: 'ok',
      result: { content, structuredContent: { a: [1] }, meta: { b: 2 } },
    });
    if (got.kind === 'ok') expect(got.result.content).toBe(content);
  });

  it('N19: reads an absent resultType as complete, and tells it of a modern peer', () => {
    expect(read({ content: [] }, 'legacy')).toEqual({ kind: 'ok', result: { content: [] } });
    expect(read({ content: [] }, 'modern')).toEqual({
      kind: 'ok',
      result: { content: [] },
      resultTypeAbsent: true,
    });
    expect(read({ content: [], isError: true })).toMatchObject({
      kind: 'tool-error',
      resultTypeAbsent: true,
    });
  });

  it.each(ERAS)('may have structured content and no content (%s)', (era) => {
    expect(read({ resultType: 'complete', structuredContent: { a: 1 } }, era)).toEqual({
      kind: 'ok',
      result: { content: [], structuredContent: { a: 1 } },
    });
    expect(read({ resultType: 'complete', content: [], structuredContent: { a: 1 } }, era)).toMatchObject({
      result: { content: [], structuredContent: { a: 1 } },
    });
  });

  it.each([0, '', false, [], [1], 'x'])('keeps structured content that is %j', (structuredContent) => {
    expect(read({ resultType: 'complete', content: [], structuredContent })).toMatchObject({
      result: { structuredContent },
    });
  });

  it('takes null as a value of the modern era only; legacy serializers write it for nothing', () => {
    const result = {
      resultType: 'complete',
      content: [text],
      structuredContent: null,
      _meta: null,
      isError: null,
    };
    expect(read(result, 'modern')).toEqual({
      kind: 'ok',
      result: { content: [text], structuredContent: null },
    });
    expect(read(result, 'legacy')).toEqual({ kind: 'ok', result: { content: [text] } });
  });

  it('is a tool error where isError is true', () => {
    expect(read({ content: [text], isError: true }, 'legacy')).toEqual({
      kind: 'tool-error',
      result: { content: [text] },
    });
    expect(read({ content: [text], isError: false }, 'legacy').kind).toBe('ok');
  });

  it('keeps megabytes whole', () => {
    const data = 'A'.repeat(5_000_000);
    const got = read({ content: [{ type: 'image', data, mimeType: 'image/png' }] }, 'legacy');
    expect(got).toMatchObject({ kind: 'ok' });
    if (got.kind === 'ok') expect((got.result.content[0] as { data: string }).data).toHaveLength(5_000_000);
  });
});

describe('the output schema', () => {
  const asked: JsonValue[] = [];
  const fits: OutputValidator = (value) => {
    asked.push(value);
    return { ok: true };
  };
  const misfits: OutputValidator = () => ({ ok: false, code: 'mismatch', problems: ['p'], message: 'p' });
  const unusable: OutputValidator = () => ({ ok: false, code: 'schema-unusable', message: 'too big' });

  it('is applied to structured content and to nothing else', () => {
    const result = { resultType: 'complete', content: [text], structuredContent: { temperature: 1 } };
    expect(read(result, 'modern', fits)).toMatchObject({ kind: 'ok' });
    expect(asked).toEqual([{ temperature: 1 }]);
    expect(read(result, 'modern', misfits)).toEqual({
      kind: 'invalid',
      problem: '"structuredContent" does not fit the output schema of the tool: p',
    });
  });

  it('is not applied to tool errors', () => {
    const result = { content: [text], isError: true, structuredContent: { err: 1 } };
    expect(read(result, 'legacy', misfits)).toMatchObject({
      kind: 'tool-error',
      result: { structuredContent: { err: 1 } },
    });
    expect(read({ content: [text], isError: true }, 'legacy', misfits).kind).toBe('tool-error');
  });

  it('makes structured content mandatory', () => {
    expect(read({ content: [text] }, 'modern', fits)).toEqual({
      kind: 'invalid',
      problem: 'the tool has an output schema, and the result has no "structuredContent"',
    });
    expect(read({ content: [text], structuredContent: null }, 'legacy', fits).kind).toBe('invalid');
    expect(read({ content: [text], structuredContent: null }, 'modern', fits).kind).toBe('ok');
  });

  it('takes nothing away from an answer where this host cannot use it', () => {
    expect(read({ resultType: 'complete', content: [], structuredContent: 1 }, 'modern', unusable)).toEqual({
      kind: 'ok',
      result: { content: [], structuredContent: 1 },
      unchecked: 'too big',
    });
  });
});

describe('a result that is none', () => {
  it.each([
    [null, 'the result is null, not an object'],
    [[], 'the result is an array, not an object'],
    ['x', 'the result is a string, not an object'],
    [{}, 'the result has neither "content" nor "structuredContent"'],
    [{ toolResult: { content: [] } }, '"toolResult"'],
    [{ content: null }, '"content" is null, not an array'],
    [{ content: null, structuredContent: {} }, '"content" is null, not an array'],
    [{ content: {} }, '"content" is an object, not an array'],
    [{ content: 'text' }, '"content" is a string, not an array'],
    [{ content: [], isError: 'true' }, '"isError" is a string, not a boolean'],
    [{ content: [], _meta: [] }, '"_meta" is an array, not an object'],
    [{ content: [text, null] }, 'content[1] is null, not an object'],
    [{ content: [[text]] }, 'content[0] is an array, not an object'],
    [{ content: [{}] }, 'content[0] has no string "type"'],
    [{ content: [text, text, { type: 'error', text: 'x' }] }, 'content[2] has the unknown type "error"'],
    [{ content: [{ type: '\u001b[2J\u202e' }] }, 'content[0] has the unknown type "\\u{1b}[2J\\u{202e}"'],
    [{ content: [{ type: 'text' }] }, 'content[0] (text) has no string "text"'],
    [{ content: [{ type: 'text', text: 1 }] }, 'content[0] (text) has no string "text"'],
    [{ content: [{ type: 'image', mimeType: 'image/png' }] }, 'content[0] (image) has no string "data"'],
    [{ content: [{ type: 'image', data: '' }] }, 'content[0] (image) has no string "mimeType"'],
    [{ content: [{ type: 'audio', data: '' }] }, 'content[0] (audio) has no string "mimeType"'],
    [{ content: [{ type: 'resource_link', name: 'x' }] }, 'content[0] (resource_link) has no string "uri"'],
    [{ content: [{ type: 'resource_link', uri: 'x' }] }, 'content[0] (resource_link) has no string "name"'],
    [{ content: [{ type: 'resource' }] }, 'content[0] (resource) has no object "resource"'],
    [{ content: [{ type: 'resource', resource: null }] }, 'content[0] (resource) has no object "resource"'],
    [{ content: [{ type: 'resource', resource: {} }] }, 'content[0] (resource) has no string "resource.uri"'],
    [{ content: [{ type: 'resource', resource: { uri: 'x' } }] }, 'has neither a string "resource.text" nor'],
  ])('%j', (result, problem) => {
    for (const era of ERAS) {
      const got = read(result, era);
      expect(got.kind).toBe('invalid');
      expect((got as { problem: string }).problem).toContain(problem);
    }
  });

  it.each(['task', '', 'Complete', 1, null, { a: 1 }])('N19: resultType %j is unknown', (resultType) => {
    for (const era of ERAS) expect(read({ resultType, content: [] }, era).kind).toBe('invalid');
  });
});

describe('a result that asks for input', () => {
  const asks = (members: object, era: Era = 'modern') =>
    read({ resultType: 'input_required', ...members }, era);
  const elicit = { method: 'elicitation/create', params: { message: 'Name?' } };

  it('is read with requests, state, or both', () => {
    expect(asks({ requestState: '' })).toEqual({
      kind: 'input-required',
      inputRequests: undefined,
      requestState: '',
    });
    expect(asks({ inputRequests: { a: elicit, b: { method: 'roots/list' } }, requestState: 's' })).toEqual({
      kind: 'input-required',
      inputRequests: { a: elicit, b: { method: 'roots/list', params: undefined } },
      requestState: 's',
    });
    expect(asks({ inputRequests: {}, requestState: null })).toMatchObject({ inputRequests: {} });
  });

  it('keeps a key __proto__ a key', () => {
    const got = read(
      JSON.parse('{"resultType":"input_required","inputRequests":{"__proto__":{"method":"roots/list"}}}'),
    );
    expect(got.kind).toBe('input-required');
    if (got.kind === 'input-required') expect(Object.keys(got.inputRequests!)).toEqual(['__proto__']);
  });

  it('is modern only', () => {
    const got = asks({ requestState: 's', content: [] }, 'legacy');
    expect(got).toEqual({
      kind: 'invalid',
      problem: 'the result has resultType "input_required", which a legacy peer cannot use',
    });
  });

  it.each([
    [{}, 'neither'],
    [{ inputRequests: null }, 'neither'],
    [{ requestState: 1 }, '"requestState" is a number'],
    [{ inputRequests: [] }, '"inputRequests" is an array'],
    [{ inputRequests: { a: 1 } }, 'inputRequests["a"] is a number'],
    [{ inputRequests: { a: {} } }, 'no string "method"'],
    [{ inputRequests: { a: { method: 'tools/call' } } }, 'asks for "tools/call"'],
    [{ inputRequests: { a: { method: 'roots/list', params: [] } } }, '"params" of inputRequests["a"]'],
  ])('is invalid as %j', (members, problem) => {
    const got = asks(members);
    expect(got.kind).toBe('invalid');
    expect((got as { problem: string }).problem).toContain(problem);
  });
});

describe('whatever a server sends', () => {
  const key = fc.constantFrom(
    ...[
      'resultType',
      'content',
      'structuredContent',
      'isError',
      '_meta',
      'inputRequests',
      'requestState',
      'toolResult',
    ],
  );
  const block = fc.dictionary(
    fc.constantFrom('type', 'text', 'data', 'mimeType', 'uri', 'name', 'resource'),
    fc.oneof(fc.constantFrom('text', 'image', 'audio', 'resource_link', 'resource'), fc.jsonValue()),
  );
  const value = fc.oneof(
    fc.jsonValue(),
    fc.constantFrom('complete', 'input_required', true),
    fc.array(block, { maxLength: 4 }),
  );
  const result = fc.oneof(fc.jsonValue(), fc.dictionary(key, value));

  it('is read without throwing, and problems are safe to show', () => {
    fc.assert(
      fc.property(result, fc.constantFrom(...ERAS), fc.boolean(), (given, era, hasSchema) => {
        const got = read(given, era, hasSchema ? () => ({ ok: true }) : undefined);
        if (got.kind === 'invalid') {
          expect(got.problem).not.toMatch(/[\p{Cc}\u202a-\u202e]/u);
          expect(got.problem.length).toBeLessThan(400);
        } else if (got.kind !== 'input-required') {
          expect(got.result.content).toEqual((given as { content?: unknown }).content ?? []);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});
