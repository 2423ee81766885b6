import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import * as fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { MAX_SCHEMA_BYTES } from '../../src/calls/schemaBounds.js';
import { createValidators, type ValidationResult } from '../../src/calls/validate.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';

const validators = createValidators();
beforeAll(() => validators.prepare('any', { type: 'object' }));

let count = 0;
function check(schema: unknown, value: unknown): ValidationResult {
  count += 1;
  return validators.validate(`key ${count}`, schema as JsonObject, value as JsonValue) as ValidationResult;
}
const fits = (schema: unknown, value: unknown) => check(schema, value).ok;
function problems(schema: unknown, value: unknown): readonly string[] {
  const result = check(schema, value);
  if (result.ok || result.code !== 'mismatch') throw new Error(`no mismatch: ${JSON.stringify(result)}`);
  expect(result.message).toBe(result.problems.join('; '));
  return result.problems;
}
function reason(schema: unknown, value: unknown = {}): string {
  const result = check(schema, value);
  if (result.ok || result.code !== 'schema-unusable') throw new Error(`usable: ${JSON.stringify(result)}`);
  return result.message;
}
const own = (text: string) => JSON.parse(text) as JsonObject;

describe('dialects', () => {
  const tuple2020 = { prefixItems: [{ type: 'string' }], items: false };
  const tuple7 = { items: [{ type: 'string' }], additionalItems: false };

  it('2020-12 is the default, and may be named', () => {
    expect(fits(tuple2020, ['a'])).toBe(true);
    expect(fits(tuple2020, ['a', 1])).toBe(false);
    const $schema = 'https://json-schema.org/draft/2020-12/schema';
    expect(fits({ $schema, dependentRequired: { a: ['b'] } }, { a: 1 })).toBe(false);
    expect(fits({ properties: { a: true }, unevaluatedProperties: false }, { b: 1 })).toBe(false);
  });

  it('reads the tuples of older drafts where no dialect is named', () => {
    expect(fits(tuple7, ['a'])).toBe(true);
    expect(fits(tuple7, [1])).toBe(false);
    expect(fits(tuple7, ['a', 1])).toBe(false);
  });

  it.each([
    'http://json-schema.org/draft-07/schema#',
    'http://json-schema.org/draft-07/schema',
    'https://json-schema.org/draft-07/schema#',
    'http://json-schema.org/draft-06/schema#',
    'http://json-schema.org/draft-04/schema#',
  ])('%s is read as draft 7', ($schema) => {
    expect(fits({ $schema, ...tuple7 }, ['a', 1])).toBe(false);
    // A keyword that draft 7 does not know says nothing there.
    expect(fits({ $schema, ...tuple2020 }, [1, 2])).toBe(false);
    expect(fits({ $schema, prefixItems: [{ type: 'string' }] }, [1])).toBe(true);
    const schema = {
      $schema,
      definitions: { a: { type: 'string' } },
      properties: { a: { $ref: '#/definitions/a' } },
    };
    expect(problems(schema, { a: 1 })).toEqual(['arguments.a must be string, got number 1']);
  });

  it('2019-09 has its own rules', () => {
    const $schema = 'https://json-schema.org/draft/2019-09/schema';
    expect(fits({ $schema, ...tuple7 }, ['a', 1])).toBe(false);
    expect(fits({ $schema, unevaluatedItems: false, items: [true] }, [1, 2])).toBe(false);
    expect(fits({ $schema, properties: { a: { $recursiveRef: '#' } }, type: 'object' }, { a: 1 })).toBe(
      false,
    );
  });

  it('draft 4 forms are translated', () => {
    const $schema = 'http://json-schema.org/draft-04/schema#';
    const schema = { $schema, id: 'http://example.com/s', minimum: 3, exclusiveMinimum: true };
    expect(fits(schema, 3)).toBe(false);
    expect(fits(schema, 4)).toBe(true);
    expect(fits({ maximum: 3, exclusiveMaximum: false }, 3)).toBe(true);
    expect(fits({ exclusiveMaximum: true }, 3)).toBe(true);
  });

  it.each(['http://example.com/my-dialect', 'urn:x', '', 7, null])('%j is unsupported', ($schema) => {
    expect(reason({ $schema, type: 'object' })).toContain('unsupported dialect');
  });
});

describe('references', () => {
  it('work inside the schema: definitions, root, anchors, ids, any place', () => {
    const node = {
      type: 'object',
      properties: { value: { type: 'string' }, next: { $ref: '#/$defs/Node' } },
    };
    const list = { $defs: { Node: node }, $ref: '#/$defs/Node' };
    expect(fits(list, { next: { next: { value: 'a' } } })).toBe(true);
    expect(problems(list, { next: { next: { value: 1 } } })).toEqual([
      'arguments.next.next.value must be string, got number 1',
    ]);
    expect(fits({ properties: { a: { $ref: '#' }, b: { type: 'string' } } }, { a: { a: { b: 1 } } })).toBe(
      false,
    );
    expect(fits({ $defs: { x: { $anchor: 'here', type: 'string' } }, $ref: '#here' }, 1)).toBe(false);
    expect(fits({ definitions: { x: { $id: '#here', type: 'string' } }, $ref: '#here' }, 1)).toBe(false);
    expect(fits({ $dynamicRef: '#n', $defs: { x: { $dynamicAnchor: 'n', type: 'string' } } }, 1)).toBe(false);
    expect(fits({ components: { 'a/b~c d': { type: 'string' } }, $ref: '#/components/a~1b~0c%20d' }, 1)).toBe(
      false,
    );
    expect(fits({ $ref: '#/oops%', 'oops%': { type: 'string' } }, 1)).toBe(false);
    expect(fits({ allOf: [{ type: 'object' }, { $ref: '#/allOf/0' }] }, 1)).toBe(false);
    expect(fits({ $defs: { no: false }, properties: { a: { $ref: '#/$defs/no' } } }, { a: 1 })).toBe(false);
    expect(
      fits({ $ref: '#/$defs/a', $dynamicRef: '#/$defs/b', $defs: { a: true, b: { type: 'string' } } }, 1),
    ).toBe(false);
    const ids = {
      $id: 'https://example.com/root.json',
      $defs: {
        a: { $id: 'a.json', $defs: { b: { type: 'string' } }, properties: { b: { $ref: '#/$defs/b' } } },
      },
      properties: {
        x: { $ref: 'a.json' },
        y: { $ref: 'https://example.com/a.json#/$defs/b' },
        z: { $ref: 'root.json' },
      },
    };
    expect(problems(ids, { x: { b: 1 }, y: 2, z: { y: 3 } })).toEqual([
      'arguments.x.b must be string, got number 1',
      'arguments.y must be string, got number 2',
      'arguments.z.y must be string, got number 3',
    ]);
  });

  it('keep the assertions beside them', () => {
    const schema = { $defs: { s: { type: 'string' } }, $ref: '#/$defs/s', minLength: 2 };
    expect(problems(schema, 'a')).toEqual(['arguments must have at least 2 characters, got string "a"']);
  });

  it.each([
    [{ $ref: '#/$defs/missing' }, 'leads to no schema'],
    [{ $ref: '#/$defs/missing/__proto__' }, 'leads to no schema'],
    [{ $ref: '#/constructor' }, 'leads to no schema'],
    [{ $ref: '#nowhere' }, 'leads to no schema'],
    [{ $ref: '#/type', type: 'string' }, 'leads to no schema'],
    [{ $ref: 5 }, 'is no string'],
    [{ $ref: '#/$defs/x', $defs: { x: { $ref: 'file:///etc/passwd' } } }, 'never fetched'],
    [{ properties: { a: { $ref: 'other.json#/x' } } }, '"other.json#/x" leads out of the schema'],
    [{ $ref: 'http://json-schema.org/draft-07/schema#' }, 'never fetched'],
    [{ $ref: '#/components/a', components: { a: { properties: { b: null } } } }, 'is null, not a schema'],
  ])('%j: the tool cannot be used', (schema, text) => {
    expect(reason(schema)).toContain(text);
  });

  it('are never fetched', async () => {
    const hits: string[] = [];
    const server = createServer((request, response) => {
      hits.push(request.url ?? '');
      response.end('{"type":"object"}');
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    try {
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/schema.json`;
      for (const schema of [
        { $ref: url },
        { $schema: url },
        { $id: url, properties: { a: { $ref: 'other.json' } } },
        { $dynamicRef: `${url}#x` },
        { $recursiveRef: url },
        { properties: { a: { allOf: [{ $ref: `${url}#/a` }] } } },
      ]) {
        reason(schema, { a: 1 });
        await createValidators().validate('k', schema as JsonObject, { a: 1 });
      }
      // An id asks for nothing, and a reference to it is one to the schema itself.
      expect(fits({ $id: url, type: 'object' }, {})).toBe(true);
      expect(reason({ $id: url, $ref: url })).toContain('takes too long');
    } finally {
      await new Promise((done) => server.close(done));
    }
    expect(hits).toEqual([]);
  });

  it('of one schema are unknown to another', () => {
    expect(
      fits({ $id: 'https://example.com/shared', $defs: { a: { $id: 'urn:a', type: 'string' } } }, {}),
    ).toBe(true);
    expect(fits({ $id: 'https://example.com/shared', type: 'object' }, {})).toBe(true);
    expect(reason({ $ref: 'urn:a' })).toContain('never fetched');
  });
});

describe('bounds', () => {
  const nested = (levels: number) => {
    let schema: Record<string, unknown> = { type: 'string' };
    for (let level = 0; level < levels; level += 1) schema = { properties: { a: schema } };
    return schema;
  };

  it('hold depth', () => {
    expect(fits(nested(60), {})).toBe(true);
    expect(reason(nested(65))).toContain('more than 64 subschemas');
    let deep: unknown = {};
    for (let level = 0; level < 100_000; level += 1) deep = { not: deep };
    expect(reason(deep)).toContain('deeper than 256');
    const cycle: Record<string, unknown> = {};
    cycle['not'] = cycle;
    expect(reason(cycle)).toContain('deeper than 256');
    expect(reason({ const: JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`) })).toContain(
      'deeper than 256',
    );
  });

  it('hold size', () => {
    expect(reason({ description: 'x'.repeat(MAX_SCHEMA_BYTES) })).toContain('larger than');
    expect(reason({ enum: Array.from({ length: MAX_SCHEMA_BYTES }, () => 1) })).toContain('larger than');
    expect(fits({ description: 'x'.repeat(MAX_SCHEMA_BYTES - 100), type: 'string' }, 'a')).toBe(true);
  });

  it('hold numbers', () => {
    const many = (length: number, of: (index: number) => unknown) =>
      Object.fromEntries(Array.from({ length }, (_, index) => [`p${index}`, of(index)]));
    expect(reason({ properties: many(10_001, () => ({})) })).toContain('more than 10000 subschemas');
    expect(reason({ patternProperties: many(1_001, () => ({})) })).toContain(
      'more than 1000 "patternProperties"',
    );
    const definitions = many(1_001, () => ({}));
    const properties = many(1_001, (index) => ({ $ref: `#/$defs/p${index}` }));
    expect(reason({ $defs: definitions, properties })).toContain('more than 1000 places');
    // Definitions that stand where no subschema is are counted when they are reached.
    const anywhere = { components: { a: { properties: many(10_001, () => ({})) } }, $ref: '#/components/a' };
    expect(reason(anywhere)).toContain('more than 10000 subschemas');
  });

  it.each([
    [null, 'no JSON object'],
    [[], 'no JSON object'],
    [true, 'no JSON object'],
    [{ properties: { a: null } }, '"#/properties/a" is null, not a schema'],
    [{ properties: { a: [] } }, '"#/properties/a" is a list, not a schema'],
    [{ properties: { a: { items: 'string' } } }, '"#/properties/a/items" is a JSON string, not a schema'],
    [{ properties: [] }, '"#/properties" is no object'],
    [{ anyOf: {} }, '"#/anyOf" is no list of schemas'],
    [{ $defs: { unused: 5 } }, '"#/$defs/unused" is a JSON number'],
    [{ required: null }, 'does not compile'],
    [{ type: 'float' }, 'does not compile'],
    [{ type: 'object', enum: [] }, 'does not compile'],
    [{ minLength: '5' }, 'does not compile'],
  ])('%j affects its tool only', (schema, text) => {
    expect(reason(schema)).toContain(text);
    expect(reason(schema)).toContain('cannot be used by this host');
    expect(fits({ type: 'object' }, {})).toBe(true);
  });
});

describe('schemas that would never end', () => {
  it.each(['allOf', 'anyOf', 'oneOf'])('doubling through %s stops', (keyword) => {
    const $defs: Record<string, unknown> = { a40: { type: keyword === 'allOf' ? 'object' : 'string' } };
    for (let level = 0; level < 40; level += 1) {
      const $ref = `#/$defs/a${level + 1}`;
      $defs[`a${level}`] = { [keyword]: [{ $ref }, { $ref }] };
    }
    expect(reason({ $defs, $ref: '#/$defs/a0' })).toContain('takes too long');
  });

  it.each([{ $ref: '#' }, { allOf: [{ $ref: '#' }] }, { not: { $ref: '#/not' } }])('%j stops', (schema) => {
    expect(reason(schema)).toContain('takes too long');
  });

  it('doubling with the depth of the value stops', () => {
    const branch = { type: 'object', properties: { a: { $ref: '#' } } };
    let value: unknown = 1;
    for (let level = 0; level < 60; level += 1) value = { a: value };
    expect(reason({ anyOf: [branch, branch] }, value)).toContain('takes too long');
  });

  it('a pattern is not run where it could take for ever; the server is left to judge', () => {
    const evil = `${'a'.repeat(5_000)}!`;
    expect(fits({ pattern: '(a+)+$' }, evil)).toBe(true);
    expect(fits({ pattern: '(.*)(.*)(.*)(.*)(.*)=' }, evil)).toBe(true);
    expect(fits({ pattern: '(?P<x>' }, evil)).toBe(true);
    expect(fits({ pattern: '^a+$' }, evil)).toBe(false);
    // Each is affordable, a hundred thousand are not: those that come last are not run.
    const many = Array.from({ length: 100_000 }, () => 'a'.repeat(100));
    expect(fits({ items: { pattern: '^a+a+a+$' } }, many)).toBe(true);
    expect(reason({ patternProperties: { '(a|a)*$': {} } })).toContain('not safe to run');
    const member = { patternProperties: { '^a*b*c*d*$': true } };
    expect(reason(member, { ['a'.repeat(2_000)]: 1 })).toContain('takes too long');
  });

  it('formats are bounded, too, and unknown ones ignored', () => {
    expect(fits({ format: 'email' }, 'nobody')).toBe(false);
    expect(fits({ format: 'email' }, 'x'.repeat(100_000))).toBe(true);
    expect(fits({ format: 'int32' }, 2 ** 40)).toBe(false);
    expect(fits({ format: 'date' }, '2026-99-01')).toBe(false);
    expect(fits({ format: 'byte' }, 'AAAA')).toBe(true);
    expect(fits({ format: 'com.example.unknown' }, 'x')).toBe(true);
  });

  it('lists are compared in linear time', () => {
    const items = Array.from({ length: 50_000 }, (_, index) => ({ index, a: { b: [index] } }));
    expect(fits({ uniqueItems: true }, items)).toBe(true);
    expect(fits({ uniqueItems: true }, [...items, { a: { b: [7] }, index: 7 }])).toBe(false);
    expect(fits({ uniqueItems: true }, [1, '1', true, null, 'true', '{"a":1}', { a: 1 }])).toBe(true);
    expect(fits({ uniqueItems: true }, [1, 2, 1])).toBe(false);
    expect(fits({ uniqueItems: false }, [1, 1])).toBe(true);
    expect(
      reason({ uniqueItems: true }, ['x'.repeat(200), ...Array.from({ length: 1_000_000 }, (_, i) => i)]),
    ).toContain('takes too long');
  });

  it('half a million wrong items are told by the first', () => {
    const value = { a: Array.from({ length: 400_000 }, () => 'x') };
    const found = problems({ properties: { a: { items: { type: 'number' } } } }, value);
    expect(found).toHaveLength(8);
    expect(found[0]).toBe('arguments.a[0] must be number, got string "x"');
    // The same behind a reference or an alternative, where the first hundred prove nothing.
    const alternatives = { anyOf: [{ items: { type: 'number' } }, { items: { type: 'string' } }] };
    expect(fits(alternatives, value.a.slice(0, 10_000))).toBe(true);
    expect(reason(alternatives, value.a)).toContain('takes too long');
    const recursive = {
      properties: { a: { anyOf: [{ $ref: '#' }, { items: { type: 'string' } }] } },
      not: { type: 'array' },
    };
    expect(fits(recursive, { a: value.a.slice(0, 1_000) })).toBe(true);
  });
});

describe('names that are traps', () => {
  it.each(['constructor', 'toString', 'hasOwnProperty', 'valueOf'])(
    '%s is there only if it was sent',
    (name) => {
      expect(fits({ properties: { [name]: { type: 'string' } } }, {})).toBe(true);
      expect(problems({ properties: { [name]: { type: 'string' } }, required: [name] }, {})).toEqual([
        `arguments lacks the required property "${name}"`,
      ]);
      expect(fits({ properties: { [name]: { type: 'string' } } }, { [name]: 1 })).toBe(false);
    },
  );

  it('__proto__ pollutes nothing, in schema or value', () => {
    const schema = own(
      '{"properties":{"__proto__":{"type":"string"},"a":{"$ref":"#/__proto__"}},"__proto__":{"type":"null"}}',
    );
    expect(check(schema, own('{"__proto__":{"polluted":true},"a":1}'))).toMatchObject({
      ok: false,
      code: 'mismatch',
    });
    expect(fits({ required: ['__proto__'] }, own('{"__proto__":1}'))).toBe(true);
    expect(fits({ required: ['__proto__'] }, {})).toBe(false);
    expect(fits({ additionalProperties: false }, own('{"__proto__":1}'))).toBe(false);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  it('$async does not make a check that always passes', () => {
    expect(fits({ $async: true, type: 'string' }, 1)).toBe(false);
    expect(fits({ properties: { a: { $async: true, type: 'string' } } }, { a: 1 })).toBe(false);
  });

  it('keywords of OpenAPI and of this package mean what they should', () => {
    expect(fits({ type: 'string', nullable: true }, null)).toBe(true);
    expect(fits({ type: ['string', 'null'], nullable: true }, null)).toBe(true);
    expect(fits({ type: 'string', nullable: true, enum: ['a'] }, null)).toBe(true);
    expect(fits({ type: ['string'], nullable: true, enum: ['a', null] }, null)).toBe(true);
    expect(fits({ anyOf: [{ type: 'string' }], nullable: true }, 'a')).toBe(true);
    expect(fits({ type: 'string', 'peerage:price': { steps: 1e9 } }, 'a')).toBe(true);
    expect(fits({ discriminator: { propertyName: 'x' }, $comment: 'x', default: 5 }, {})).toBe(true);
  });
});

describe('problems', () => {
  it.each<[unknown, unknown, string[]]>([
    [{ required: ['path'] }, {}, ['arguments lacks the required property "path"']],
    [
      { properties: { filter: { properties: { limit: { type: 'integer', minimum: 1 } } } } },
      { filter: { limit: 0 } },
      ['arguments.filter.limit must be >= 1, got number 0'],
    ],
    [
      { properties: { a: {}, b: {} }, additionalProperties: false },
      { c: 1 },
      ['arguments has the unknown property "c"; allowed: "a", "b"'],
    ],
    [{ additionalProperties: false }, { c: 1 }, ['arguments has the unknown property "c"']],
    [
      { properties: {}, additionalProperties: false },
      { c: 1 },
      ['arguments has the unknown property "c"; no properties are allowed'],
    ],
    [
      { properties: { a: {} }, unevaluatedProperties: false },
      { c: 1 },
      ['arguments has the unknown property "c"'],
    ],
    [
      { properties: { n: { type: ['integer', 'null'] } } },
      { n: '7' },
      ['arguments.n must be integer or null, got string "7"'],
    ],
    [
      { properties: { n: { anyOf: [{ type: 'string' }, { type: 'null' }] } } },
      { n: [1] },
      ['arguments.n must be string or null, got an array'],
    ],
    [{ type: 'object' }, null, ['arguments must be object, got null']],
    [
      { properties: { e: { enum: ['a', 'b', 3] } } },
      { e: 'c' },
      ['arguments.e must be one of "a", "b", 3, got string "c"'],
    ],
    [{ const: { a: 1 } }, { a: 2 }, ['arguments must be {"a":1}, got an object']],
    [{ multipleOf: 5 }, 7, ['arguments must be a multiple of 5, got number 7']],
    [{ exclusiveMaximum: 5 }, 5, ['arguments must be < 5, got number 5']],
    [{ maxLength: 2 }, 'abc', ['arguments must have at most 2 characters, got string "abc"']],
    [{ minItems: 2 }, [1], ['arguments must have at least 2 items']],
    [{ maxItems: 0 }, [1], ['arguments must have at most 0 items']],
    [{ minProperties: 1 }, {}, ['arguments must have at least 1 properties']],
    [{ maxProperties: 0 }, { a: 1 }, ['arguments must have at most 0 properties']],
    [{ uniqueItems: true }, [1, 1], ['arguments must not have the same item twice']],
    [{ items: { pattern: '^a' } }, ['b'], ['arguments[0] must match the pattern "^a", got string "b"']],
    [{ format: 'uuid' }, 'b', ['arguments must have the format "uuid", got string "b"']],
    [
      { dependentRequired: { a: ['b'] } },
      { a: 1 },
      ['arguments has the property "a" and lacks "b", which must come with it'],
    ],
    [{ not: { type: 'object' } }, {}, ['arguments has a form that is excluded, got an object']],
    [{ properties: { a: false } }, { a: 1 }, ['arguments.a is not allowed']],
    [
      { oneOf: [{ minimum: 1 }, { minimum: 2 }] },
      3,
      ['arguments fits several alternatives and must fit exactly one, got number 3'],
    ],
    [{ oneOf: [false, false] }, 3, ['arguments is not allowed']],
    [
      { contains: { const: 1 } },
      [2],
      [
        'arguments[0] must be 1, got number 2',
        'arguments must contain at least 1 valid item(s), got an array',
      ],
    ],
    [
      { properties: { 'a b"': { type: 'string' } } },
      { 'a b"': 1 },
      ['arguments["a b""] must be string, got number 1'],
    ],
    [
      own('{"if":{"required":["a"]},"then":{"required":["b"]}}'),
      { a: 1 },
      ['arguments lacks the required property "b"'],
    ],
  ])('of %j with %j', (schema, value, expected) => {
    expect(problems(schema, value)).toEqual(expected);
  });

  it('are called by what was checked', () => {
    const result = validators.validateNow('output', { type: 'object' }, 5);
    expect(result).toMatchObject({ problems: ['structuredContent must be object, got number 5'] });
  });

  it('are at most eight, short, and safe to show', () => {
    const names = Array.from({ length: 30 }, (_, index) => `name ${index} \u001b[31m\u202e`);
    const schema = {
      properties: Object.fromEntries(names.map((name) => [name, { type: 'number' }])),
      additionalProperties: false,
    };
    const found = problems(
      schema,
      Object.fromEntries([...names, 'other\u0007'].map((name) => [name, '\u001b]0;x'.repeat(500)])),
    );
    expect(found).toHaveLength(8);
    expect(found.join()).not.toMatch(/[\p{Cc}\u202e]/u);
    expect(found.find((each) => each.includes('unknown'))).toContain('(30 in all)');
    for (const problem of found) expect(problem.length).toBeLessThan(2_500);
    const choices = problems({ enum: Array.from({ length: 500 }, (_, index) => `v${index}`) }, 'x')[0]!;
    expect(choices).toContain('(500 in all)');
    const deep = 'k'.repeat(50);
    let value: unknown = 5;
    let nested: unknown = { type: 'string' };
    for (let level = 0; level < 20; level += 1) {
      value = { [deep]: value };
      nested = { properties: { [deep]: nested } };
    }
    expect(problems(nested, value)[0]!.length).toBeLessThan(400);
  });
});

describe('the cache', () => {
  it('compiles once a key, and forgets the least recently used', async () => {
    const compiled: unknown[] = [];
    const engine = {
      compile(schema: Record<string, unknown>) {
        compiled.push(schema['const']);
        return { problemsOf: () => [] };
      },
    };
    const small = createValidators({ maxSchemas: 2, loadEngine: async () => engine });
    for (const key of ['a', 'b', 'a', 'c', 'a', 'b', 'b']) await small.validate(key, { const: key }, {});
    expect(compiled).toEqual(['a', 'b', 'c', 'b']);
    await small.prepare('b', { const: 'b' });
    expect(compiled).toHaveLength(4);
  });

  it('is synchronous once the compiler is loaded', async () => {
    const fresh = createValidators();
    expect(fresh.validateNow('k', {}, {})).toMatchObject({ ok: false, code: 'schema-unusable' });
    const first = fresh.validate('k', { type: 'object' }, 5);
    expect(first).toBeInstanceOf(Promise);
    expect(await first).toMatchObject({ ok: false, code: 'mismatch' });
    expect(fresh.validate('k', { type: 'object' }, {})).toEqual({ ok: true });
    expect(fresh.prepare('l', { type: 'string' })).toBeUndefined();
    expect(fresh.validateNow('l', {}, 5)).toMatchObject({ code: 'mismatch' });
  });

  it('loads the compiler once for those who come at the same time, and again after a failure', async () => {
    let loads = 0;
    const engine = { compile: () => ({ problemsOf: () => [] }) };
    const flaky = createValidators({
      loadEngine: async () => {
        loads += 1;
        if (loads === 1) throw new Error('no such file\u0007');
        return engine;
      },
    });
    expect(await flaky.prepare('k', {})).toBeUndefined();
    expect(loads).toBe(1);
    const results = await Promise.all([
      flaky.validate('a', {}, {}),
      flaky.validate('b', {}, {}),
      flaky.prepare('c', {}),
    ]);
    expect(results).toEqual([{ ok: true }, { ok: true }, undefined]);
    expect(loads).toBe(2);
    const broken = createValidators({ loadEngine: () => Promise.reject('gone\u0007') });
    expect(await broken.validate('k', {}, {})).toEqual({
      ok: false,
      code: 'schema-unusable',
      message: 'The schema compiler could not be loaded: gone\\u{7}',
    });
  });

  it('keeps no value that was checked', () => {
    const schema: JsonObject = { type: 'string' };
    const first = validators.validate('keeps', schema, { secret: 1 });
    const again = validators.validate('keeps', schema, 'a');
    expect(first).toMatchObject({ ok: false });
    expect(again).toEqual({ ok: true });
  });

  it('tells what went wrong in code it did not expect to fail', async () => {
    const engine = {
      compile: () => ({
        problemsOf: (): [] => {
          throw new Error('surprise');
        },
      }),
    };
    const odd = createValidators({ loadEngine: async () => engine });
    expect(await odd.validate('k', {}, {})).toMatchObject({
      code: 'schema-unusable',
      message: expect.stringContaining('surprise'),
    });
  });
});

describe('whatever a server declares', () => {
  const keyword = fc.constantFrom(
    ...[
      'type',
      'properties',
      'items',
      'anyOf',
      'allOf',
      'oneOf',
      'not',
      '$ref',
      '$defs',
      'required',
      'enum',
      'const',
    ],
    ...[
      'pattern',
      'format',
      '$id',
      '$anchor',
      'minimum',
      'nullable',
      'additionalProperties',
      'dependencies',
      'if',
    ],
    ...[
      'then',
      'patternProperties',
      'uniqueItems',
      'contains',
      '__proto__',
      'prefixItems',
      'additionalItems',
      'id',
    ],
    ...[
      '$dynamicRef',
      '$recursiveRef',
      'unevaluatedProperties',
      'exclusiveMinimum',
      'propertyNames',
      '$schema',
    ],
  );
  const leaf = fc.oneof(
    fc.constantFrom(
      'object',
      'string',
      'number',
      '#',
      '#/$defs/a',
      '#/properties/a',
      '^a+$',
      'date',
      true,
      false,
      null,
      1,
    ),
    fc.constantFrom(
      'http://json-schema.org/draft-07/schema#',
      'https://json-schema.org/draft/2019-09/schema',
    ),
  );
  const { schema } = fc.letrec((tie) => ({
    schema: fc.dictionary(keyword, tie('part'), { maxKeys: 5 }),
    part: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      leaf,
      tie('schema'),
      fc.array(tie('part'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom('a', 'b', '__proto__', '^a'), tie('schema'), { maxKeys: 3 }),
    ),
  }));

  it('a check ends with a result', () => {
    fc.assert(
      fc.property(schema, fc.jsonValue(), (declared, value) => {
        const result = check(declared, value);
        if (result.ok) return;
        expect(result.message).not.toBe('');
        if (result.code === 'mismatch') expect(result.problems.length).toBeLessThanOrEqual(8);
      }),
      { numRuns: 500 },
    );
  });
});
