import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import {
  MAX_TTL_MS,
  parseDiscoverResult,
  parseInitializeResult,
  parseTool,
  parseToolsPage,
  resultTypeOf,
  serverInfoFromMeta,
} from '../../src/protocol/results.js';

const discover = { supportedVersions: ['2026-07-28'], capabilities: {} };

describe('DiscoverResult', () => {
  it('is read without cache hints and without a resultType', () => {
    expect(parseDiscoverResult(discover)).toEqual({
      ok: true,
      value: { ...discover, instructions: undefined, serverInfo: undefined },
    });
  });

  it('is not spoiled by a bad cache hint or a bad identity', () => {
    const meta = { 'io.modelcontextprotocol/serverInfo': { name: '' } };
    expect(parseDiscoverResult({ ...discover, ttlMs: 'x', cacheScope: 5, _meta: meta })).toMatchObject({
      ok: true,
    });
  });

  it('is not spoiled by instructions that are none', () => {
    expect(parseDiscoverResult({ ...discover, instructions: null })).toMatchObject({
      ok: true,
      value: { instructions: undefined },
    });
  });

  it('has the identity of the server in its meta', () => {
    const meta = { 'io.modelcontextprotocol/serverInfo': { name: 'n', version: '1', title: 't' } };
    expect(parseDiscoverResult({ ...discover, _meta: meta })).toMatchObject({
      value: { serverInfo: { name: 'n', version: '1' } },
    });
  });

  it.each<[string, JsonValue]>([
    ['no object', 5],
    ['no supportedVersions', { capabilities: {} }],
    ['an empty list', { ...discover, supportedVersions: [] }],
    ['a version that is no text', { ...discover, supportedVersions: ['2026-07-28', 5] }],
    ['capabilities that are no object', { ...discover, capabilities: [] }],
    ['an unknown resultType', { ...discover, resultType: 'input_required' }],
  ])('%s is a problem', (_name, value) => {
    expect(parseDiscoverResult(value)).toMatchObject({ ok: false, problem: expect.any(String) });
  });
});

describe('InitializeResult', () => {
  const good = { protocolVersion: '2025-11-25', capabilities: {}, serverInfo: { name: 'n', version: '1' } };

  it('is read', () => {
    expect(parseInitializeResult({ ...good, instructions: 'i', extra: 1 })).toMatchObject({
      ok: true,
      value: { ...good, instructions: 'i' },
    });
  });

  it('is not spoiled by instructions that are none', () => {
    expect(parseInitializeResult({ ...good, instructions: null })).toMatchObject({ ok: true });
  });

  it.each([
    { ...good, serverInfo: { name: '', version: '1' } },
    { ...good, serverInfo: { name: 'n' } },
    { ...good, serverInfo: null },
    { ...good, capabilities: null },
    { ...good, protocolVersion: 1 },
    null,
  ])('%j is a problem', (value) => {
    expect(parseInitializeResult(value as JsonValue)).toMatchObject({ ok: false });
  });
});

describe('a page of tools/list', () => {
  it('has its items, cursor and cache hints', () => {
    expect(parseToolsPage({ tools: [1], nextCursor: '', ttlMs: 5, cacheScope: 'public' })).toEqual({
      ok: true,
      value: { items: [1], nextCursor: '', ttlMs: 5, cacheScope: 'public' },
    });
  });

  it.each([
    [undefined, 0],
    [-1, 0],
    ['60', 0],
    [MAX_TTL_MS * 2, MAX_TTL_MS],
  ])('a ttlMs of %s reads as %i', (ttlMs, expected) => {
    expect(parseToolsPage({ tools: [], ...(ttlMs === undefined ? {} : { ttlMs }) })).toMatchObject({
      value: { ttlMs: expected, cacheScope: 'private' },
    });
  });

  it('a null cursor is none', () => {
    expect(parseToolsPage({ tools: [], nextCursor: null })).toMatchObject({
      value: { nextCursor: undefined },
    });
  });

  it.each<JsonValue>([
    null,
    [],
    { tools: {} },
    {},
    { tools: [], nextCursor: 5 },
    { tools: [], resultType: 'x' },
  ])('%j is a problem', (value) => {
    expect(parseToolsPage(value)).toMatchObject({ ok: false });
  });
});

describe('an item', () => {
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

it('an absent resultType reads as complete, whatever the result is', () => {
  expect(resultTypeOf({})).toBe('complete');
  expect(resultTypeOf(5)).toBe('complete');
  expect(resultTypeOf({ resultType: 'x' })).toBe('x');
});

it('an identity is read only where it is well-formed', () => {
  expect(serverInfoFromMeta(5)).toBe(undefined);
  expect(serverInfoFromMeta({ _meta: {} })).toBe(undefined);
});
