import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { parseTool } from '../../src/protocol/listResults.js';
import {
  canonicalJson,
  catalogDigest,
  isDeeperThan,
  listDigest,
  MAX_DEPTH,
  toolDigest,
} from '../../src/registry/digest.js';
import { tool } from './tools.js';

/** Any JSON value that can come off a wire, hostile keys included. */
const { jsonValue } = fc.letrec<{ jsonValue: JsonValue }>((tie) => ({
  jsonValue: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    fc.constantFrom<JsonValue>(null, true, 0, -0, 1e21, 1.5, ''),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.string({ unit: 'binary' }),
    fc.array(tie('jsonValue'), { maxLength: 4 }),
    fc
      .array(
        fc.tuple(
          fc.oneof(fc.constantFrom('__proto__', 'toJSON', 'constructor', 'a', '1', '10'), fc.string()),
          tie('jsonValue'),
        ),
        { maxLength: 4 },
      )
      .map((members) => Object.fromEntries(members)),
  ),
}));

/** The same value with the members of every object written in another order. */
function permuted(value: JsonValue, seed: number): JsonValue {
  if (Array.isArray(value)) return value.map((item) => permuted(item, seed + 1));
  if (typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).map(([key, item]): [string, JsonValue] => [
    key,
    permuted(item, seed + 1),
  ]);
  const at = members.length === 0 ? 0 : seed % members.length;
  return Object.fromEntries([...members.slice(at), ...members.slice(0, at)].reverse());
}

function nested(depth: number): JsonValue {
  let value: JsonValue = 'core';
  for (let i = 0; i < depth; i += 1) value = i % 2 === 0 ? [value] : { inner: value };
  return value;
}

describe('canonicalJson', () => {
  it('does not depend on the order of members', () => {
    fc.assert(
      fc.property(jsonValue, fc.nat({ max: 100 }), (value, seed) => {
        expect(canonicalJson(permuted(value, seed))).toBe(canonicalJson(value));
      }),
    );
  });

  it('is JSON text of the same value, and so tells different values apart', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        const text = canonicalJson(value);
        expect(canonicalJson(JSON.parse(text) as JsonValue)).toBe(text);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
      }),
    );
  });

  it('sorts keys in code-unit order at every level', () => {
    expect(canonicalJson({ b: [{ d: 1, c: null }], a: true, B: 'x', '\u{1F600}': 0, '\uFF5E': 0 })).toBe(
      '{"B":"x","a":true,"b":[{"c":null,"d":1}],"\u{1F600}":0,"\uFF5E":0}',
    );
  });

  it('keeps order in arrays', () => {
    expect(canonicalJson([1, 2])).not.toBe(canonicalJson([2, 1]));
  });

  it('treats hostile keys as keys', () => {
    const hostile = JSON.parse('{"toJSON":1,"__proto__":{"x":1},"constructor":2}') as JsonValue;
    expect(canonicalJson(hostile)).toBe('{"__proto__":{"x":1},"constructor":2,"toJSON":1}');
    expect(canonicalJson(hostile)).not.toBe(
      canonicalJson(JSON.parse('{"toJSON":1,"constructor":2}') as JsonValue),
    );
  });

  it('tells apart what JSON.stringify or UTF-8 would fold into one', () => {
    const texts = [
      'null',
      '1e999',
      '-1e999',
      '"\\ud800"',
      '"\\udfff"',
      '"\ufffd"',
      '"\u2026"',
      '[]',
      '{}',
      '""',
      '0',
    ];
    const written = texts.map((text) => canonicalJson(JSON.parse(text) as JsonValue));
    const digests = new Set(written.map((text) => createHash('sha256').update(text).digest('hex')));
    expect(digests.size).toBe(texts.length);
  });

  it('leaves out absent members and writes what is no JSON as null', () => {
    expect(canonicalJson({ a: undefined, b: 1 } as unknown as JsonValue)).toBe('{"b":1}');
    expect(canonicalJson(undefined)).toBe('null');
  });

  it('ends, however deep a value is, and even where it contains itself', () => {
    expect(canonicalJson(JSON.parse(`${'['.repeat(100_000)}${']'.repeat(100_000)}`) as JsonValue)).toContain(
      '…',
    );
    const loop: Record<string, unknown> = {};
    loop['self'] = loop;
    expect(canonicalJson(loop as JsonValue)).toContain('…');
  });

  it('reads everything down to the limit', () => {
    expect(canonicalJson(nested(MAX_DEPTH))).toContain('"core"');
    expect(canonicalJson(nested(MAX_DEPTH + 1))).not.toContain('"core"');
  });
});

describe('isDeeperThan', () => {
  it('counts containers', () => {
    expect(isDeeperThan('x', 0)).toBe(false);
    expect(isDeeperThan(null, 0)).toBe(false);
    expect(isDeeperThan(undefined, 0)).toBe(false);
    expect(isDeeperThan([], 0)).toBe(true);
    expect(isDeeperThan({ a: 1, b: [1] }, 1)).toBe(true);
    expect(isDeeperThan({ a: 1, b: [1] }, 2)).toBe(false);
    expect(isDeeperThan(nested(MAX_DEPTH), MAX_DEPTH)).toBe(false);
    expect(isDeeperThan(nested(MAX_DEPTH + 1), MAX_DEPTH)).toBe(true);
  });
});

describe('toolDigest', () => {
  const declared: JsonObject = {
    name: 'search',
    title: 'Search',
    description: 'Finds things.',
    inputSchema: { type: 'object', properties: { q: { type: 'string' }, n: { type: 'integer' } } },
    outputSchema: { type: 'object' },
    annotations: { readOnlyHint: true },
  };
  const digestOf = (item: JsonObject): string => {
    const parsed = parseTool(item);
    if (!parsed.ok) throw new Error(parsed.problem);
    return toolDigest(parsed.value);
  };

  it('is sha256 over the canonical JSON of what a model sees', () => {
    const text = createHash('sha256').update(canonicalJson(declared)).digest('hex');
    expect(digestOf(declared)).toBe(`sha256:${text}`);
  });

  it('changes with each member that a model or a validator sees', () => {
    const changes: JsonObject[] = [
      { name: 'search2' },
      { title: 'Search!' },
      { title: null },
      { description: 'Finds things. Then sends them away.' },
      { description: 'Finds things.\u{E0041}' },
      { inputSchema: { type: 'object', properties: { q: { type: 'number' }, n: { type: 'integer' } } } },
      { outputSchema: { type: 'object', required: [] } },
      { outputSchema: null },
      { annotations: { readOnlyHint: false } },
      { annotations: null },
    ];
    const digests = [declared, ...changes.map((change) => ({ ...declared, ...change }))].map(digestOf);
    expect(new Set(digests).size).toBe(digests.length);
  });

  it('does not change with key order, with members that nobody uses, or with hints that are null', () => {
    expect(digestOf(permuted(declared, 3) as JsonObject)).toBe(digestOf(declared));
    expect(digestOf({ ...declared, icons: [], _meta: { x: 1 } })).toBe(digestOf(declared));
    const hints = { readOnlyHint: true, destructiveHint: null };
    expect(digestOf({ ...declared, annotations: hints })).toBe(digestOf(declared));
  });
});

describe('catalogDigest', () => {
  it('is equal for equal lists only', () => {
    const digest = catalogDigest([tool('a'), tool('b')]);
    expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(catalogDigest([tool('a'), tool('b')])).toBe(digest);
    expect(catalogDigest([tool('b'), tool('a')])).not.toBe(digest);
    expect(catalogDigest([tool('a'), tool('b', { title: 'B' })])).not.toBe(digest);
    expect(catalogDigest([])).not.toBe(digest);
  });
});

describe('listDigest', () => {
  const items = (...declared: readonly JsonObject[]) => declared.map((item) => ({ declared: item }));

  it('is equal for lists of equal items in equal order only', () => {
    const digest = listDigest(items({ name: 'a', title: 't' }, { name: 'b' }));
    expect(digest).toMatch(/^sha256:[0-9a-f]{64}$/);
    expect(listDigest(items({ title: 't', name: 'a' }, { name: 'b' }))).toBe(digest);
    const others = [
      items({ name: 'b' }, { name: 'a', title: 't' }),
      items({ name: 'a', title: 't' }),
      items({ name: 'a', title: 't' }, { name: 'b', _meta: {} }),
      items({ name: 'a', title: 't\n{"name":"b"}' }),
      items(),
    ];
    expect(new Set([digest, ...others.map(listDigest)]).size).toBe(others.length + 1);
  });

  it('ends, however deep an item is', () => {
    const deep = JSON.parse(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}`) as JsonObject;
    expect(listDigest(items(deep))).toMatch(/^sha256:/);
  });
});
