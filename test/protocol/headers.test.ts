import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  configuredHeaderProblem,
  decodeHeaderValue,
  deriveHeaders,
  encodeHeaderValue,
  isHeaderName,
  isHeaderValue,
  mirrorHeaders,
  scanHeaderAnnotations,
} from '../../src/protocol/headers.js';
import type { JsonValue } from '../../src/protocol/jsonRpc.js';

const wellFormed = fc.string({ unit: 'binary' });
const tokenCharacter = fc.constantFrom(..."!#$%&'*+-.^_`|~0123456789azAZ");
const token = fc.string({ unit: tokenCharacter, minLength: 1, maxLength: 20 });
const annotated = (header: JsonValue, type: JsonValue = 'string') => ({ type, 'x-mcp-header': header });

describe('values of headers', () => {
  test.each([
    ['plain', 'plain'],
    ['inner space stays', 'inner space stays'],
    ['file:///path/to/file%20name.txt', 'file:///path/to/file%20name.txt'],
    ['', '=?base64??='],
    [' outer', '=?base64?IG91dGVy?='],
    ['outer ', '=?base64?b3V0ZXIg?='],
    ['a\tb', '=?base64?YQli?='],
    ['a\r\nx-evil: 1', '=?base64?YQ0KeC1ldmlsOiAx?='],
    ['世界', '=?base64?5LiW55WM?='],
    ['=?base64?YQ==?=', '=?base64?PT9iYXNlNjQ/WVE9PT89?='],
    ['=?BASE64?YQ==?=', '=?base64?PT9CQVNFNjQ/WVE9PT89?='],
  ])('%j is written as %s', (value, header) => {
    expect(encodeHeaderValue(value)).toBe(header);
    expect(decodeHeaderValue(header)).toBe(value);
  });

  test.each([['=?base64?%%%?='], ['=?base64?A?='], ['=?base64?gA==?=']])('%s is no encoded value', (text) => {
    expect(decodeHeaderValue(text)).toBeUndefined();
  });

  test.each([['=?base64?='], ['=?base64'], ['?='], ['=?BASE64?YQ==?=']])('%s is itself', (text) => {
    expect(decodeHeaderValue(text)).toBe(text);
  });

  test('any text comes back, and the header is one printable line', () => {
    fc.assert(
      fc.property(wellFormed, (value) => {
        const header = encodeHeaderValue(value);
        expect(header).toMatch(/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/);
        expect(isHeaderValue(header)).toBe(true);
        expect(decodeHeaderValue(header)).toBe(value);
      }),
    );
  });

  test('decoding is total', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        decodeHeaderValue(text);
        decodeHeaderValue(`=?base64?${text}?=`);
      }),
    );
  });
});

describe('headers of a message', () => {
  const meta = { 'io.modelcontextprotocol/protocolVersion': '2026-07-28' };

  test.each([
    ['tools/call', { name: 'add', _meta: meta }, 'add'],
    ['prompts/get', { name: 'ask', _meta: meta }, 'ask'],
    ['resources/read', { uri: 'file:///a b', name: 'x', _meta: meta }, 'file:///a b'],
    ['tools/list', { name: 'no', _meta: meta }, undefined],
    ['server/discover', { _meta: meta }, undefined],
  ])('%s', (method, params, name) => {
    expect(deriveHeaders({ jsonrpc: '2.0', id: 1, method, params })).toEqual({
      'mcp-protocol-version': '2026-07-28',
      'mcp-method': method,
      ...(name === undefined ? {} : { 'mcp-name': name }),
    });
  });

  test('what the message lacks is no header', () => {
    expect(deriveHeaders({ jsonrpc: '2.0', id: 1, result: {} })).toEqual({});
    expect(deriveHeaders({ method: 'tools/call' })).toEqual({ 'mcp-method': 'tools/call' });
    expect(deriveHeaders({ method: 'tools/call', params: { name: 7, _meta: [] } })).toEqual({
      'mcp-method': 'tools/call',
    });
  });

  test('a name that no header can carry is encoded', () => {
    expect(deriveHeaders({ method: 'tools/call', params: { name: 'grüße\r\n' } })['mcp-name']).toMatch(
      /^=\?base64\?/,
    );
  });

  test('total', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        (message) => void deriveHeaders(message as never),
      ),
    );
  });
});

describe('configured headers', () => {
  test.each([
    ['authorization', 'Bearer abc'],
    ['X-Trace', 'a\tb'],
    ['x-latin', 'gr\u00fc\u00dfe'],
    ['x-empty', ''],
  ])('%s may be configured', (name, value) => {
    expect(configuredHeaderProblem(name, value)).toBeNull();
  });

  test.each([
    ['mcp-session-id', 'x'],
    ['Mcp-Protocol-Version', '2026-07-28'],
    ['MCP-Anything', 'x'],
    ['Content-Length', '3'],
    ['Transfer-Encoding', 'chunked'],
    ['accept', '*/*'],
    ['host', 'example.test'],
    ['', 'x'],
    ['a b', 'x'],
    ['a:b', 'x'],
    ['gr\u00fc\u00dfe', 'x'],
    ['x-a', 'topsecret\r\nx-b: 1'],
    ['x-a', 'topsecret\u4e16'],
    ['x-a', ' topsecret'],
    ['x-a', 'topsecret\t'],
    ['x-a', 'topsecret\u0000'],
  ])('%j: %j may not', (name, value) => {
    const problem = configuredHeaderProblem(name, value);
    expect(problem).toEqual(expect.any(String));
    expect(problem).not.toContain('topsecret');
  });

  test('a token is a name, and nothing with a separator is', () => {
    fc.assert(fc.property(token, (name) => isHeaderName(name)));
    fc.assert(
      fc.property(
        token,
        fc.constantFrom(...' \t\r\n"(),/:;<=>?@[\\]{}é\u0000'),
        (name, bad) => !isHeaderName(name + bad),
      ),
    );
  });
});

describe('x-mcp-header', () => {
  const scan = (properties: JsonValue, rest: Record<string, JsonValue> = {}) =>
    scanHeaderAnnotations({ type: 'object', properties, ...rest });

  test('bindings in the order of the document', () => {
    const schema = {
      region: annotated('Region'),
      query: { type: 'string' },
      deep: {
        type: 'object',
        properties: { count: annotated('Count', 'integer'), 'a.b': annotated('Dry-Run', 'boolean') },
      },
      method: annotated('Method'),
    };
    expect(scan(schema)).toEqual({
      ok: true,
      bindings: [
        { header: 'Region', path: ['region'], type: 'string' },
        { header: 'Count', path: ['deep', 'count'], type: 'integer' },
        { header: 'Dry-Run', path: ['deep', 'a.b'], type: 'boolean' },
        { header: 'Method', path: ['method'], type: 'string' },
      ],
    });
  });

  test.each<[string, JsonValue]>([
    ['no properties', { type: 'object' }],
    ['a schema that is true', true],
    ['null', null],
    ['a property called so', { properties: { 'x-mcp-header': { type: 'string' } } }],
    ['in a default', { properties: { a: { type: 'object', default: { 'x-mcp-header': 'A' } } } }],
    [
      'in a const, an enum and examples',
      { const: annotated('A'), enum: [annotated('A')], examples: [annotated('A')] },
    ],
  ])('no annotation: %s', (_name, schema) => {
    expect(scanHeaderAnnotations(schema)).toEqual({ ok: true, bindings: [] });
  });

  test.each<[string, JsonValue]>([
    ['empty name', { properties: { a: annotated('') } }],
    ['no string', { properties: { a: annotated(7) } }],
    ['null', { properties: { a: annotated(null) } }],
    ['object type', { properties: { a: annotated('A', 'object') } }],
    ['array type', { properties: { a: annotated('A', 'array') } }],
    ['null type', { properties: { a: annotated('A', 'null') } }],
    ['number type', { properties: { a: annotated('A', 'number') } }],
    ['type list', { properties: { a: annotated('A', ['string', 'null']) } }],
    ['no type', { properties: { a: { 'x-mcp-header': 'A' } } }],
    ['same name twice', { properties: { a: annotated('A'), b: annotated('A') } }],
    ['same name in other case', { properties: { a: annotated('Region'), b: annotated('REGION') } }],
    ['space', { properties: { a: annotated('A B') } }],
    ['colon', { properties: { a: annotated('A:B') } }],
    ['non-ASCII', { properties: { a: annotated('Größe') } }],
    ['control character', { properties: { a: annotated('A\u0001') } }],
    ['line end', { properties: { a: annotated('A\r\nx-evil: 1') } }],
    ['at the root', { type: 'string', 'x-mcp-header': 'A' }],
    ['in items', { properties: { a: { items: annotated('A') } } }],
    ['in a list of items', { properties: { a: { prefixItems: [annotated('A')] } } }],
    ['in allOf', { allOf: [{ properties: { a: annotated('A') } }] }],
    ['in if', { if: { properties: { a: annotated('A') } } }],
    ['in $defs', { $defs: { a: annotated('A') }, properties: { a: { $ref: '#/$defs/a' } } }],
    ['in patternProperties', { patternProperties: { '^a': annotated('A') } }],
    ['in additionalProperties', { additionalProperties: annotated('A') }],
  ])('refused: %s', (_name, schema) => {
    const scanned = scanHeaderAnnotations(schema);
    expect(scanned.ok).toBe(false);
    expect(!scanned.ok && scanned.problem).not.toMatch(/\p{Cc}/u);
  });

  test('depth and width of a schema are no danger', () => {
    let deep: JsonValue = annotated('A');
    for (let level = 0; level < 50_000; level += 1) deep = { properties: { x: deep } };
    expect(scanHeaderAnnotations(deep)).toMatchObject({
      ok: false,
      problem: expect.stringContaining('levels deep'),
    });
    const wide = Object.fromEntries(
      Array.from({ length: 200_000 }, (_, index) => [`p${index}`, { type: 'string' }]),
    );
    expect(scan(wide)).toEqual({ ok: true, bindings: [] });
  });

  test('total, and what is bound is a token on a direct path', () => {
    const key = fc.oneof(
      fc.constantFrom('properties', 'x-mcp-header', 'items', 'allOf', 'type', '__proto__'),
      fc.string(),
    );
    const { schema } = fc.letrec((tie) => ({
      schema: fc.oneof(
        { maxDepth: 5 },
        fc.jsonValue(),
        fc.constantFrom('string', 'Region'),
        fc.dictionary(key, tie('schema')),
        fc.array(tie('schema')),
      ),
    }));
    fc.assert(
      fc.property(schema, (value) => {
        const scanned = scanHeaderAnnotations(value as JsonValue);
        if (scanned.ok)
          for (const binding of scanned.bindings) expect(isHeaderName(binding.header)).toBe(true);
      }),
    );
  });
});

describe('mirrored arguments', () => {
  const bindings = [
    { header: 'Region', path: ['region'], type: 'string' },
    { header: 'Count', path: ['deep', 'count'], type: 'integer' },
    { header: 'Dry', path: ['dry'], type: 'boolean' },
  ] as const;

  test('by type', () => {
    expect(mirrorHeaders(bindings, { region: 'eu', deep: { count: -42 }, dry: false, other: 'x' })).toEqual({
      'mcp-param-region': 'eu',
      'mcp-param-count': '-42',
      'mcp-param-dry': 'false',
    });
  });

  test.each<[string, JsonValue | undefined]>([
    ['no arguments', undefined],
    ['null arguments', null],
    ['absent', {}],
    ['null', { region: null, deep: null, dry: null }],
    ['no primitives', { region: {}, deep: { count: [1] }, dry: [] }],
    ['a list on the way', { deep: [{ count: 1 }] }],
  ])('left out: %s', (_name, args) => {
    expect(mirrorHeaders(bindings, args)).toEqual({});
  });

  test('inherited members are no arguments', () => {
    const binding = [{ header: 'A', path: ['constructor', 'name'], type: 'string' }] as const;
    expect(mirrorHeaders(binding, {})).toEqual({});
  });

  test.each([
    [1e21, '1000000000000000000000'],
    [2 ** 64, '18446744073709552000'],
    [-(2 ** 53), '-9007199254740992'],
    [-0, '0'],
    [Number.MAX_SAFE_INTEGER, '9007199254740991'],
    [1.5, '1.5'],
  ])('%d is written %s', (value, text) => {
    expect(mirrorHeaders(bindings, { deep: { count: value } })['mcp-param-count']).toBe(text);
  });

  test('a text comes back from its header', () => {
    fc.assert(
      fc.property(
        wellFormed,
        (region) => decodeHeaderValue(mirrorHeaders(bindings, { region })['mcp-param-region']!) === region,
      ),
    );
  });

  test('total', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.array(fc.string(), { minLength: 1 }), (args, path) => {
        for (const value of Object.values(
          mirrorHeaders([{ header: 'A', path, type: 'string' }], args as JsonValue),
        )) {
          expect(isHeaderValue(value)).toBe(true);
        }
      }),
    );
  });
});
