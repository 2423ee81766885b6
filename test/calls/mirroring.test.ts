/** Which headers a tool call carries, for any schema and any arguments. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { headerScanOf, mirroredHeaders } from '../../src/calls/mirroring.js';
import { decodeHeaderValue, isHeaderValue } from '../../src/protocol/headers.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';

const schemaOf = (properties: JsonObject): JsonObject => ({ type: 'object', properties });

describe('mirroredHeaders', () => {
  it('reads a schema once', () => {
    const schema = schemaOf({ a: { type: 'string', 'x-mcp-header': 'A' } });
    expect(headerScanOf(schema)).toBe(headerScanOf(schema));
  });

  it('is nothing where nothing is asked for, and where the annotations break the rules', () => {
    expect(mirroredHeaders(schemaOf({ a: { type: 'string' } }), { a: 'x' })).toBeUndefined();
    const broken = schemaOf({
      a: { type: 'string', 'x-mcp-header': 'A' },
      b: { type: 'number', 'x-mcp-header': 'B' },
    });
    expect(mirroredHeaders(broken, { a: 'x' })).toBeUndefined();
  });

  it('is empty where the arguments are absent', () => {
    expect(mirroredHeaders(schemaOf({ a: { type: 'string', 'x-mcp-header': 'A' } }), {})).toEqual({});
  });

  // A property with its name, its schema and its argument; `expected`: what the header says, if there is one.
  const names = fc.oneof(
    fc.constantFrom('__proto__', 'constructor', 'toString', 'x-mcp-header', 'properties', 'a', 'ä', ''),
    fc.string({ unit: 'binary', maxLength: 8 }),
  );
  const absent = Symbol('absent');
  interface Leaf {
    readonly type: string;
    readonly value: JsonValue | typeof absent;
    readonly isAnnotated: boolean;
  }
  const values = fc.oneof(
    fc.record({ type: fc.constant('string'), value: fc.string({ unit: 'binary' }) }),
    fc.record({ type: fc.constant('boolean'), value: fc.boolean() }),
    fc.record({
      type: fc.constant('integer'),
      value: fc.oneof(
        fc.integer(),
        fc.maxSafeInteger(),
        fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(Number),
      ),
    }),
    fc.record({ type: fc.constantFrom('string', 'integer'), value: fc.constantFrom(null, absent) }),
  );
  const leaf: fc.Arbitrary<Leaf> = fc
    .tuple(values, fc.boolean())
    .map(([{ type, value }, isAnnotated]) => ({ type, value, isAnnotated }));
  type Tree = ReadonlyMap<string, Leaf | Tree>;
  const { tree } = fc.letrec<{ tree: Tree; node: Leaf | Tree }>((tie) => ({
    node: fc.oneof({ maxDepth: 3, withCrossShrink: true }, leaf, tie('tree')),
    tree: fc
      .uniqueArray(fc.tuple(names, tie('node')), { selector: ([name]) => name, maxLength: 5 })
      .map((entries) => new Map(entries)),
  }));

  const isTree = (node: Leaf | Tree): node is Tree => node instanceof Map;

  function build(from: Tree, expected: Map<string, string>): { schema: JsonObject; args: JsonObject } {
    const properties: [string, JsonValue][] = [];
    const args: [string, JsonValue][] = [];
    for (const [name, node] of from) {
      if (isTree(node)) {
        const inner = build(node, expected);
        properties.push([name, inner.schema]);
        args.push([name, inner.args]);
        continue;
      }
      const { type, value, isAnnotated } = node;
      const header = `H-${expected.size}`;
      const isThere = value !== absent && value !== null;
      // Each is counted, so that no header is there twice; what has no argument is expected to be absent.
      if (isAnnotated) expected.set(header, isThere ? textOf(value as JsonValue) : '');
      properties.push([name, isAnnotated ? { type, 'x-mcp-header': header } : { type }]);
      if (isAnnotated && !isThere) expected.set(header, '\u0000absent');
      if (value !== absent) args.push([name, value as JsonValue]);
    }
    return {
      schema: { type: 'object', properties: Object.fromEntries(properties) },
      args: Object.fromEntries(args),
    };
  }

  /** A number as it stands in JSON, an exponent written out. */
  function textOf(value: JsonValue): string {
    if (typeof value !== 'number') return String(value);
    const text = JSON.stringify(value);
    return text.includes('e') ? BigInt(value).toString() : text;
  }

  it('says in each header what the argument is, in every schema; and there is no other header', () => {
    fc.assert(
      fc.property(tree, (given) => {
        const expected = new Map<string, string>();
        const { schema, args } = build(given, expected);
        // As the wire has it.
        const headers = mirroredHeaders(schema, JSON.parse(JSON.stringify(args)) as JsonObject) ?? {};
        const said = new Map<string, string | undefined>();
        for (const [name, value] of Object.entries(headers)) {
          expect(isHeaderValue(value)).toBe(true);
          said.set(name, decodeHeaderValue(value));
        }
        const due = [...expected].filter(([, text]) => text !== '\u0000absent');
        expect(said).toEqual(new Map(due.map(([name, text]) => [`mcp-param-${name.toLowerCase()}`, text])));
      }),
      { numRuns: 500 },
    );
  });
});
