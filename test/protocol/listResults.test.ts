import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import {
  cacheHintOf,
  MAX_TTL_MS,
  parseListPage,
  parsePrompt,
  parseResource,
  parseResourceTemplate,
  parseTool,
} from '../../src/protocol/listResults.js';
import { LIST_KINDS, LISTS } from '../../src/protocol/lists.js';

describe.each(LIST_KINDS)('a page of %s', (kind) => {
  const { member } = LISTS[kind];

  it('has its items, cursor and cache hints', () => {
    expect(parseListPage(kind, { [member]: [1], nextCursor: '', ttlMs: 5, cacheScope: 'public' })).toEqual({
      ok: true,
      value: { items: [1], nextCursor: '', ttlMs: 5, cacheScope: 'public', hasScope: true },
    });
  });

  it('without cursor and cache hints is the last one, private and not to be kept', () => {
    expect(parseListPage(kind, { [member]: [] })).toEqual({
      ok: true,
      value: { items: [], nextCursor: undefined, ttlMs: 0, cacheScope: 'private', hasScope: false },
    });
  });

  it('a null cursor is none', () => {
    expect(parseListPage(kind, { [member]: [], nextCursor: null })).toMatchObject({
      value: { nextCursor: undefined },
    });
  });

  it('is not spoiled by bad cache hints', () => {
    expect(parseListPage(kind, { [member]: [], ttlMs: {}, cacheScope: 'shared' })).toMatchObject({
      value: { ttlMs: 0, cacheScope: 'private', hasScope: false },
    });
  });

  it.each<JsonValue>([
    null,
    [],
    'text',
    { [member]: {} },
    { [member]: null },
    {},
    { items: [] },
    { [member]: [], nextCursor: 5 },
    { [member]: [], nextCursor: {} },
    { [member]: [], resultType: 'input_required', requestState: 's' },
    { [member]: [], resultType: null },
  ])('%j is a problem', (value) => {
    expect(parseListPage(kind, value)).toMatchObject({ ok: false, problem: expect.any(String) });
  });
});

describe('a cache hint', () => {
  it.each<[JsonValue | undefined, number]>([
    [undefined, 0],
    [null, 0],
    [0, 0],
    [-0, 0],
    [-1, 0],
    [Number.NaN, 0],
    [Number.NEGATIVE_INFINITY, 0],
    ['60000', 0],
    [true, 0],
    [[5], 0],
    [0.5, 0],
    [1.9, 1],
    [60_000, 60_000],
    [MAX_TTL_MS, MAX_TTL_MS],
    [MAX_TTL_MS + 0.5, MAX_TTL_MS],
    [MAX_TTL_MS * 2, MAX_TTL_MS],
    [Number.POSITIVE_INFINITY, MAX_TTL_MS],
  ])('a ttlMs of %s reads as %i', (ttlMs, expected) => {
    const hint = cacheHintOf(ttlMs === undefined ? {} : { ttlMs });
    expect(hint).toEqual({ ttlMs: expected, cacheScope: 'private' });
  });

  it.each<[JsonValue | undefined, string]>([
    ['public', 'public'],
    ['private', 'private'],
    ['PUBLIC', 'private'],
    [undefined, 'private'],
    [null, 'private'],
    [true, 'private'],
    [['public'], 'private'],
  ])('a cacheScope of %j reads as %s', (cacheScope, expected) => {
    const value: JsonValue = { ttlMs: 1, ...(cacheScope === undefined ? {} : { cacheScope }) };
    expect(cacheHintOf(value)).toEqual({ ttlMs: 1, cacheScope: expected });
  });

  it.each<JsonValue>([null, 5, 'public', ['public']])('of %j is none', (value) => {
    expect(cacheHintOf(value)).toEqual({ ttlMs: 0, cacheScope: 'private' });
  });
});

describe('a tool', () => {
  const item = { name: 'a', inputSchema: { type: 'object' } };

  it('is read, and kept as it was declared', () => {
    const declared = { ...item, title: 't', extra: [1], annotations: { readOnlyHint: true } };
    expect(parseTool(declared)).toMatchObject({
      ok: true,
      value: { name: 'a', title: 't', annotations: { readOnlyHint: true }, declared },
    });
  });

  it('null members and null hints say nothing', () => {
    const parsed = parseTool({
      ...item,
      title: null,
      description: null,
      outputSchema: null,
      annotations: { readOnlyHint: null, title: 'x' },
    });
    expect(parsed).toMatchObject({
      value: {
        title: undefined,
        description: undefined,
        outputSchema: undefined,
        annotations: { title: 'x' },
      },
    });
  });

  it.each<JsonValue>([
    null,
    'a',
    { name: 'a' },
    { ...item, name: '' },
    { ...item, inputSchema: {} },
    { ...item, inputSchema: null },
    { ...item, inputSchema: { type: 'array' } },
    { ...item, description: 5 },
    { ...item, annotations: [] },
  ])('%j is a problem', (value) => {
    expect(parseTool(value)).toMatchObject({ ok: false, problem: expect.any(String) });
  });
});

describe('a prompt', () => {
  it('is read with its arguments, and kept as it was declared', () => {
    const declared: JsonObject = {
      name: 'review',
      title: 'Review',
      description: 'd',
      arguments: [{ name: 'code', title: 'c', description: 'x', required: true }, { name: 'style' }],
      icons: [],
    };
    expect(parsePrompt(declared)).toEqual({
      ok: true,
      value: {
        name: 'review',
        title: 'Review',
        description: 'd',
        arguments: [
          { name: 'code', title: 'c', description: 'x', required: true },
          { name: 'style', title: undefined, description: undefined, required: false },
        ],
        declared,
      },
    });
  });

  it('null members say nothing', () => {
    const argument = { name: 'x', title: null, description: null, required: null };
    expect(parsePrompt({ name: 'a', title: null, description: null, arguments: null })).toMatchObject({
      value: { title: undefined, description: undefined, arguments: [] },
    });
    expect(parsePrompt({ name: 'a', arguments: [argument] })).toMatchObject({
      value: { arguments: [{ name: 'x', title: undefined, description: undefined, required: false }] },
    });
  });

  it.each<JsonValue>([
    null,
    [],
    {},
    { name: '' },
    { name: 5 },
    { name: 'a', title: 5 },
    { name: 'a', arguments: {} },
    { name: 'a', arguments: ['x'] },
    { name: 'a', arguments: [{ description: 'nameless' }] },
    { name: 'a', arguments: [{ name: 'x', required: 'yes' }] },
  ])('%j is a problem', (value) => {
    expect(parsePrompt(value)).toMatchObject({ ok: false, problem: expect.any(String) });
  });
});

describe('a resource', () => {
  const item = { uri: 'file:///a', name: 'a' };
  const bare = {
    ...item,
    title: undefined,
    description: undefined,
    mimeType: undefined,
    sizeBytes: undefined,
  };

  it('is read, and kept as it was declared', () => {
    const declared = {
      ...item,
      title: 't',
      description: 'd',
      mimeType: 'text/plain',
      size: 12,
      annotations: {},
    };
    expect(parseResource(declared)).toEqual({
      ok: true,
      value: { ...item, title: 't', description: 'd', mimeType: 'text/plain', sizeBytes: 12, declared },
    });
  });

  it('null members say nothing', () => {
    const declared = { ...item, title: null, description: null, mimeType: null, size: null };
    expect(parseResource(declared)).toEqual({ ok: true, value: { ...bare, declared } });
  });

  it.each<JsonValue>(['12', -1, Number.POSITIVE_INFINITY, {}])('a size of %j says nothing', (size) => {
    expect(parseResource({ ...item, size })).toMatchObject({ ok: true, value: { sizeBytes: undefined } });
  });

  it.each<JsonValue>([
    null,
    'file:///a',
    { name: 'a' },
    { uri: 'file:///a' },
    { ...item, uri: '' },
    { ...item, name: '' },
    { ...item, uri: null },
    { ...item, mimeType: 5 },
  ])('%j is a problem', (value) => {
    expect(parseResource(value)).toMatchObject({ ok: false, problem: expect.any(String) });
  });
});

describe('a resource template', () => {
  const item = { uriTemplate: 'file:///{path}', name: 'files' };

  it('is read, and kept as it was declared', () => {
    const declared = { ...item, title: 't', description: null, mimeType: 'text/plain', extra: 1 };
    expect(parseResourceTemplate(declared)).toEqual({
      ok: true,
      value: { ...item, title: 't', description: undefined, mimeType: 'text/plain', declared },
    });
  });

  it.each<JsonValue>([
    null,
    { name: 'files' },
    { uriTemplate: 'file:///{path}' },
    { ...item, uriTemplate: '' },
    { ...item, uriTemplate: 5 },
    { ...item, name: '' },
    { ...item, description: [] },
  ])('%j is a problem', (value) => {
    expect(parseResourceTemplate(value)).toMatchObject({ ok: false, problem: expect.any(String) });
  });
});
