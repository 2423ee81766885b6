import { describe, expect, it } from 'vitest';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { MAX_DEPTH } from '../../src/registry/digest.js';
import { prepareCatalog } from '../../src/registry/prepare.js';
import { catalog, tool } from './tools.js';

describe('prepareCatalog', () => {
  it('sorts in code-unit order', () => {
    const { tools } = prepareCatalog(catalog('p', ['b', 'a', 'B', 'ä', 'a/b']));
    expect(tools.map((item) => item.local)).toEqual(['B', 'a', 'a/b', 'b', 'ä']);
    expect(tools.map((item) => item.mayBeBare)).toEqual([true, true, false, true, true]);
  });

  it('puts hostile names aside, escaped, and keeps the rest', () => {
    const { tools, quarantined } = prepareCatalog(
      catalog('p', ['ok', 'a\u202eb', '', ' x', 'y'.repeat(1_001)]),
    );
    expect(tools.map((item) => item.local)).toEqual(['ok']);
    expect(quarantined.map(({ peer, local, code }) => [peer, local, code])).toEqual([
      ['p', 'a\\u{202e}b', 'hostile-name'],
      ['p', '', 'hostile-name'],
      ['p', ' x', 'hostile-name'],
      ['p', `${'y'.repeat(199)}…`, 'hostile-name'],
    ]);
  });

  it('keeps the first of two tools of one name', () => {
    const first = tool('x', { description: 'first' });
    const { tools, quarantined } = prepareCatalog(
      catalog('p', [first, tool('x', { description: 'second' }), 'x']),
    );
    expect(tools.map((item) => item.definition)).toEqual([first]);
    expect(quarantined.map(({ local, code }) => [local, code])).toEqual([
      ['x', 'duplicate-name'],
      ['x', 'duplicate-name'],
    ]);
  });

  it('puts a definition aside that is nested too deeply to be fingerprinted, wherever it is', () => {
    let deep: JsonValue = {};
    for (let i = 0; i < MAX_DEPTH; i += 1) deep = { deep };
    const over = deep as JsonObject;
    const list = catalog('p', [
      tool('in', { inputSchema: over }),
      tool('out', { outputSchema: over }),
      tool('hints', { annotations: over }),
      tool('fine', { inputSchema: over['deep'] as JsonObject }),
    ]);
    const { tools, quarantined } = prepareCatalog(list);
    expect(tools.map((item) => item.local)).toEqual(['fine']);
    expect(quarantined.map(({ local, code }) => [local, code])).toEqual([
      ['in', 'malformed-item'],
      ['out', 'malformed-item'],
      ['hints', 'malformed-item'],
    ]);
  });

  it('keeps what the fetch had put aside, first', () => {
    const malformed = { peer: 'p', local: null, code: 'malformed-item' as const, reason: 'no name' };
    const { quarantined } = prepareCatalog(catalog('p', [''], [malformed]));
    expect(quarantined.map(({ code }) => code)).toEqual(['malformed-item', 'hostile-name']);
    expect(quarantined[0]).toBe(malformed);
  });

  it('freezes definitions through and through', () => {
    const inputSchema = Object.freeze({ type: 'object', properties: { a: { enum: ['x'] } } });
    prepareCatalog(catalog('p', [tool('x', { inputSchema, annotations: { readOnlyHint: true } })]));
    expect(Object.isFrozen(inputSchema.properties.a.enum)).toBe(true);
  });

  it('is done once a list', () => {
    const list = catalog('p', ['x']);
    expect(prepareCatalog(list)).toBe(prepareCatalog(list));
  });
});
