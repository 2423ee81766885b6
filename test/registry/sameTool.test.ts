import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import type { ToolDefinition } from '../../src/protocol/listResults.js';
import type { CatalogEntry } from '../../src/registry/lease.js';
import { entryOf } from '../../src/registry/placement.js';
import { prepareCatalog } from '../../src/registry/prepare.js';
import { isSameButForHeaders } from '../../src/registry/sameTool.js';
import { catalog, tool } from './tools.js';

function entry(properties: JsonObject, over: Partial<ToolDefinition> = {}, peer = 'p'): CatalogEntry {
  const inputSchema = { type: 'object', properties };
  const [prepared] = prepareCatalog(catalog(peer, [tool('x', { inputSchema, ...over })])).tools;
  if (prepared === undefined) throw new Error('not prepared');
  return entryOf(peer, prepared, 'bare', 'fresh');
}

const A: JsonObject = { type: 'string', 'x-mcp-header': 'A' };
const B: JsonObject = { type: 'string', 'x-mcp-header': 'B' };
const NONE: JsonObject = { type: 'string' };

describe('isSameButForHeaders', () => {
  it.each<[string, JsonObject, JsonObject]>([
    ['nothing', { a: A }, { a: A }],
    ['the order of members', { a: NONE, b: NONE }, { b: NONE, a: NONE }],
    ['a name', { a: A }, { a: B }],
    ['an annotation that is gone', { a: A }, { a: NONE }],
    ['one below', { deep: { properties: { a: A } } }, { deep: { properties: { a: B } } }],
    [
      'one of a strange name',
      JSON.parse('{"__proto__":{"x-mcp-header":"A"}}'),
      JSON.parse('{"__proto__":{}}'),
    ],
  ])('passes over %s', (_what, before, after) => {
    expect(isSameButForHeaders(entry(before), entry(after))).toBe(true);
    expect(isSameButForHeaders(entry(after), entry(before))).toBe(true);
  });

  it.each<[string, CatalogEntry]>([
    ['a type', entry({ a: { type: 'integer', 'x-mcp-header': 'A' } })],
    ['a property', entry({ a: A, b: NONE })],
    ['a property called so', entry({ a: A, 'x-mcp-header': NONE })],
    ['a property of a strange name', entry(JSON.parse('{"a":{"type":"string"},"__proto__":{}}'))],
    ['data that looks so', entry({ a: { ...A, default: { 'x-mcp-header': 'B' } } })],
    ['the title', entry({ a: A }, { title: 'T' })],
    ['the description', entry({ a: A }, { description: 'D' })],
    ['what comes back', entry({ a: A }, { outputSchema: { type: 'object' } })],
    ['the hints', entry({ a: A }, { annotations: { readOnlyHint: true } })],
    ['the peer', entry({ a: A }, {}, 'q')],
  ])('does not pass over %s', (_what, after) => {
    expect(isSameButForHeaders(entry({ a: A }), after)).toBe(false);
  });

  it('tells data apart that looks like an annotation', () => {
    const withDefault = (header: string) =>
      entry({ a: { type: 'object', default: { 'x-mcp-header': header } } });
    expect(isSameButForHeaders(withDefault('A'), withDefault('B'))).toBe(false);
  });
});
