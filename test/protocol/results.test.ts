import { describe, expect, it } from 'vitest';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';
import {
  parseDiscoverResult,
  parseInitializeResult,
  resultTypeOf,
  serverInfoFromMeta,
} from '../../src/protocol/results.js';

const nested = (depth: number): JsonValue => JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as JsonValue;

const discover = { supportedVersions: ['2026-07-28'], capabilities: {} };

describe('DiscoverResult', () => {
  it('a problem quotes a strange resultType bounded and escaped', () => {
    expect(parseDiscoverResult({ ...discover, resultType: `\u001b${'x'.repeat(100_000)}` })).toEqual({
      ok: false,
      problem: expect.stringMatching(/^resultType is "\\u\{1b\}x{70,75}…"$/),
    });
  });

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
    ['a resultType that is no text', { ...discover, resultType: ['complete'] }],
    ['a resultType nested so deep that it cannot be written', { ...discover, resultType: nested(100_000) }],
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

it('an absent resultType reads as complete, whatever the result is', () => {
  expect(resultTypeOf({})).toBe('complete');
  expect(resultTypeOf(5)).toBe('complete');
  expect(resultTypeOf({ resultType: 'x' })).toBe('x');
});

it('an identity is read only where it is well-formed', () => {
  expect(serverInfoFromMeta(5)).toBe(undefined);
  expect(serverInfoFromMeta({ _meta: {} })).toBe(undefined);
});
