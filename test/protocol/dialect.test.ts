import * as fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { membersOf } from '../../src/protocol/dialect.js';
import { type JsonObject, type JsonValue, parseMessage } from '../../src/protocol/jsonRpc.js';
import { initializeMembers, legacyDialect } from '../../src/protocol/legacy.js';
import { modernDialect } from '../../src/protocol/modern.js';

const clientInfo = { name: 'dialect "test"', version: '1.0.0', title: 'Tests' };
const capabilities = { elicitation: { form: {} } };
const modern = modernDialect({ revision: '2026-07-28', clientInfo, clientCapabilities: capabilities });
const legacy = legacyDialect({ revision: '2025-11-25' });

const STAMP = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': clientInfo,
  'io.modelcontextprotocol/clientCapabilities': capabilities,
};
const STAMP_KEYS = Object.keys(STAMP);

const jsonValue = fc.jsonValue({ depthSize: 'small' }) as fc.Arbitrary<JsonValue>;
const key = fc.oneof(
  fc.constantFrom(...STAMP_KEYS, '__proto__', 'constructor', '_meta', 'progressToken', 'com.example/x', ''),
  fc.string({ unit: 'binary' }),
);
/** Objects as `JSON.parse` makes them: `__proto__` is an own member like any other. */
const jsonObject = fc.array(fc.tuple(key, jsonValue), { maxLength: 8 }).map((members) => {
  const object: Record<string, JsonValue> = {};
  for (const [name, value] of members) {
    Object.defineProperty(object, name, { value, enumerable: true, configurable: true, writable: true });
  }
  return object as JsonObject;
});

function parse(text: string): Record<string, JsonValue> & { params: Record<string, JsonValue> } {
  return JSON.parse(text);
}

function own(object: JsonObject, name: string): JsonValue | undefined {
  return Object.getOwnPropertyDescriptor(object, name)?.value;
}

describe('the modern dialect', () => {
  it('stamps a request without extra _meta', () => {
    const text = modern.request(7, 'tools/call', '"name":"x","arguments":{}');
    expect(parse(text)).toEqual({
      jsonrpc: '2.0',
      id: 7,
      method: 'tools/call',
      params: { name: 'x', arguments: {}, _meta: STAMP },
    });
    expect(parse(modern.request(8, 'server/discover', '')).params).toEqual({ _meta: STAMP });
  });

  it('puts the _meta of a caller under its own keys', () => {
    const text = modern.request(1, 'tools/list', '', { progressToken: 1, 'com.example/a': [1] });
    expect(parse(text).params).toEqual({ _meta: { ...STAMP, progressToken: 1, 'com.example/a': [1] } });
    expect(parse(modern.request(1, 'tools/list', '', {})).params).toEqual({ _meta: STAMP });
  });

  it('N15: whatever _meta a caller passes, each protocol key is in the bytes once, with the value of the protocol', () => {
    fc.assert(
      fc.property(jsonObject, (meta) => {
        const text = modern.request(3, 'tools/call', '"name":"x"', meta);
        const sent = parse(text).params['_meta'] as JsonObject;
        expect(sent).toMatchObject(STAMP);
        for (const name of STAMP_KEYS) {
          // A duplicate would be invisible after parsing: the last one wins there, and another parser may differ.
          const top = topLevelKeys(text.slice(text.indexOf('"_meta":') + '"_meta":'.length));
          expect(top.filter((each) => each === name)).toHaveLength(1);
        }
        expect(Object.hasOwn(sent, '__proto__')).toBe(false);
        for (const name of Object.keys(meta)) {
          if (STAMP_KEYS.includes(name) || name === '__proto__') continue;
          expect(own(sent, name)).toEqual(JSON.parse(JSON.stringify(own(meta, name))));
        }
      }),
      { numRuns: 500 },
    );
  });

  it('reads its options once: changing them later changes no request', () => {
    const info = { name: 'a', version: '1' };
    const dialect = modernDialect({ revision: '2026-07-28', clientInfo: info, clientCapabilities: {} });
    const before = dialect.request(1, 'tools/list', '');
    info.name = 'b';
    expect(dialect.request(1, 'tools/list', '')).toBe(before);
  });

  it('N18: answers nothing; and it knows no initialize', () => {
    expect(() => modern.response(1, {})).toThrow('never answered');
    expect(() => modern.errorResponse(1, -32601, 'no')).toThrow('never answered');
    expect(() => modern.request(1, 'initialize', '')).toThrow('initialize');
  });

  it('mirrors version, method and name in headers', () => {
    const version = { 'mcp-protocol-version': '2026-07-28' };
    expect(modern.headers('tools/list', undefined)).toEqual({ ...version, 'mcp-method': 'tools/list' });
    expect(modern.headers('tools/list', 'x')).toEqual({ ...version, 'mcp-method': 'tools/list' });
    expect(modern.headers('tools/call', 'x')).toEqual({
      ...version,
      'mcp-method': 'tools/call',
      'mcp-name': 'x',
    });
    expect(modern.headers('tools/call', undefined)).toEqual({ ...version, 'mcp-method': 'tools/call' });
    expect(modern.headers('prompts/get', 'p')['mcp-name']).toBe('p');
    expect(modern.headers('resources/read', 'file:///a')['mcp-name']).toBe('file:///a');
    expect(modern.headers('tools/call', 'zażółć')['mcp-name']).toMatch(/^=\?base64\?.+\?=$/);
  });
});

describe('the legacy dialect', () => {
  it('leaves params and _meta out where they are empty', () => {
    expect(legacy.request(1, 'tools/list', '')).toBe('{"jsonrpc":"2.0","id":1,"method":"tools/list"}');
    expect(parse(legacy.request(1, 'tools/list', '"cursor":"c"')).params).toEqual({ cursor: 'c' });
    expect(parse(legacy.request(1, 'tools/list', '"cursor":"c"', {})).params).toEqual({ cursor: 'c' });
    expect(parse(legacy.request(1, 'tools/list', '', { progressToken: 1 })).params).toEqual({
      _meta: { progressToken: 1 },
    });
    expect(parse(legacy.request(1, 'tools/list', '', STAMP))).not.toHaveProperty('params');
  });

  it('N9: no modern key is ever in a legacy message, and no _meta at all in initialize', () => {
    fc.assert(
      fc.property(jsonObject, fc.constantFrom('tools/call', 'initialize', 'ping'), (meta, method) => {
        const sent = parse(legacy.request(1, method, '"name":"x"', meta)).params;
        const sentMeta = sent['_meta'] as JsonObject | undefined;
        if (method === 'initialize') expect(sentMeta).toBeUndefined();
        for (const name of [...STAMP_KEYS, '__proto__'])
          expect(Object.keys(sentMeta ?? {})).not.toContain(name);
        if (sentMeta !== undefined) expect(Object.keys(sentMeta).length).toBeGreaterThan(0);
      }),
    );
  });

  it('answers a request of the server with its id as it came', () => {
    expect(legacy.response('1', { roots: [] })).toBe('{"jsonrpc":"2.0","id":"1","result":{"roots":[]}}');
    expect(legacy.response(1, {})).toBe('{"jsonrpc":"2.0","id":1,"result":{}}');
    expect(legacy.errorResponse('a"', -32601, 'no "such"')).toBe(
      '{"jsonrpc":"2.0","id":"a\\"","error":{"code":-32601,"message":"no \\"such\\""}}',
    );
  });

  it('derives no header', () => {
    expect(legacy.headers('tools/call', 'x')).toEqual({});
  });

  it('shows `title` only to revisions that know it', () => {
    const members = (revision: string) =>
      JSON.parse(`{${initializeMembers({ revision, clientInfo, clientCapabilities: {} })}}`);
    expect(members('2025-11-25')).toEqual({ protocolVersion: '2025-11-25', capabilities: {}, clientInfo });
    expect(members('2025-03-26').clientInfo).toEqual({ name: clientInfo.name, version: '1.0.0' });
    const untitled = { name: 'a', version: '1' };
    const text = initializeMembers({ revision: '2025-11-25', clientInfo: untitled, clientCapabilities: {} });
    expect(JSON.parse(`{${text}}`).clientInfo).toEqual(untitled);
  });
});

describe.each([modern, legacy])('both dialects: $era', (dialect) => {
  it('writes a notification without the stamp of a request', () => {
    expect(dialect.notification('notifications/initialized', '')).toBe(
      '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    );
    expect(parse(dialect.notification('notifications/x', '"a":1', { ...STAMP, b: 2 })).params).toEqual({
      a: 1,
      _meta: { b: 2 },
    });
    expect(parse(dialect.notification('notifications/x', '', { b: 2 })).params).toEqual({ _meta: { b: 2 } });
  });

  it('cancels by id', () => {
    expect(parse(dialect.cancel(12, 'say "why"\u2028'))).toEqual({
      jsonrpc: '2.0',
      method: 'notifications/cancelled',
      params: { requestId: 12, reason: 'say "why"\u2028' },
    });
  });

  it('writes one line of JSON that reads as the message it was, whatever the names and values', () => {
    fc.assert(
      fc.property(
        fc.nat(),
        fc.string({ unit: 'binary' }),
        jsonObject,
        jsonObject,
        (id, method, params, meta) => {
          fc.pre(method !== 'initialize');
          const text = dialect.request(id, method, membersOf(params), meta);
          expect(text).not.toMatch(/[\n\r]/);
          const message = parseMessage(JSON.parse(text));
          expect(message).toMatchObject({ kind: 'request', id });
          if (message.kind !== 'request') return;
          const { _meta: sent, ...rest } = (message.params ?? {}) as Record<string, JsonValue>;
          const { _meta: ignored, ...expected } = JSON.parse(JSON.stringify(params)) as Record<
            string,
            JsonValue
          >;
          expect(Object.entries(rest)).toEqual(Object.entries(expected));
        },
      ),
    );
  });
});

describe('membersOf', () => {
  it('leaves braces, _meta and what JSON has no word for out', () => {
    expect(membersOf({})).toBe('');
    expect(membersOf({ _meta: { a: 1 } })).toBe('');
    expect(membersOf({ name: 'x', _meta: {}, arguments: { a: '"' } })).toBe(
      '"name":"x","arguments":{"a":"\\""}',
    );
    expect(membersOf({ a: undefined, b: 1 } as unknown as JsonObject)).toBe('"b":1');
  });
});

/** Keys of the object that `text` starts with, duplicates included. */
function topLevelKeys(text: string): string[] {
  const keys: string[] = [];
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at];
    if (character === '{' || character === '[') depth += 1;
    if (character === '}' || character === ']') depth -= 1;
    if (depth === 0) break;
    if (character !== '"') continue;
    let end = at + 1;
    while (text[end] !== '"') end += text[end] === '\\' ? 2 : 1;
    if (depth === 1 && text[end + 1] === ':') keys.push(JSON.parse(text.slice(at, end + 1)));
    at = end;
  }
  return keys;
}
