import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Definitions, emptyCatalog, listTools, PARSERS } from '../../src/host/listing.js';
import {
  MAX_CURSOR_LENGTH,
  MAX_ITEMS,
  MAX_PAGES,
  type Walk,
  type WalkOptions,
  walkList,
} from '../../src/host/listWalk.js';
import type { PromptDefinition } from '../../src/protocol/definitions.js';
import type { Outcome } from '../../src/protocol/exchange.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { MAX_TTL_MS, parseTool } from '../../src/protocol/listResults.js';
import { LIST_KINDS, LISTS, type ListKind } from '../../src/protocol/lists.js';
import { catalogDigest, MAX_DEPTH } from '../../src/registry/digest.js';
import { createSimulatedClock, type SimulatedClock } from '../../src/testing/clock.js';

type Cursor = string | undefined;

interface Server {
  readonly clock: SimulatedClock;
  readonly request: WalkOptions<unknown>['request'];
  /** Cursors asked for, in order. */
  readonly cursors: Cursor[];
  /** What was left of the deadline at each request. */
  readonly timeouts: number[];
}

const result = (value: JsonValue): Outcome => ({ kind: 'result', written: true, result: value });

/** Answers the `index`-th request (from 0); a result, or any other outcome. */
function server(
  answer: (cursor: Cursor, index: number, clock: SimulatedClock) => JsonObject | Outcome,
  clock = createSimulatedClock(1_000),
): Server {
  const cursors: Cursor[] = [];
  const timeouts: number[] = [];
  return {
    clock,
    cursors,
    timeouts,
    request: async (members, timeoutMs) => {
      const params = JSON.parse(`{${members}}`) as { cursor?: string };
      cursors.push(params.cursor);
      timeouts.push(timeoutMs);
      const given = answer(params.cursor, cursors.length - 1, clock);
      return 'kind' in given ? (given as Outcome) : result(given);
    },
  };
}

/** Gives these results of `prompts/list` one after the other, the last one for ever. */
const pages = (...results: readonly JsonObject[]): Server =>
  server((_cursor, index) => results[Math.min(index, results.length - 1)]!);

const prompt = (name: string): JsonObject => ({ name });

type Limits = Partial<Pick<WalkOptions<unknown>, 'timeoutMs' | 'maxItems'>>;

const walkPrompts = (
  { request, clock }: Server,
  { timeoutMs = 30_000, maxItems = MAX_ITEMS }: Limits = {},
): Promise<Walk<PromptDefinition>> =>
  walkList({ kind: 'prompts', request, clock, timeoutMs, maxItems, parse: PARSERS.prompts });

async function complete(from: Server, limits?: Limits) {
  const walk = await walkPrompts(from, limits);
  if (!walk.ok) throw new Error(walk.message);
  return walk;
}

const failure = (text: string) => ({ ok: false, message: expect.stringContaining(text) });

describe('the pages of a list', () => {
  it('are walked to the end, in order; the cursor goes back as it came, the empty one too', async () => {
    const strange = '"\\\n\u{2028}\u{1f600}\ud800';
    const from = pages(
      { prompts: [prompt('b')], nextCursor: strange },
      { prompts: [], nextCursor: '' },
      { prompts: [prompt('a'), prompt('c')], nextCursor: null },
    );
    const walk = await complete(from);
    expect(walk.items.map(({ name }) => name)).toEqual(['b', 'a', 'c']);
    expect(walk.pages).toBe(3);
    expect(from.cursors).toEqual([undefined, strange, '']);
  });

  it.each([
    ['the same cursor for ever', ['a']],
    ['two cursors in turn', ['a', 'b']],
    ['a cursor of long ago', ['a', 'b', 'c', 'd', 'b']],
    ['the empty cursor for ever', ['']],
  ])('%s is a failure, not a partial list', async (_name, cursors) => {
    const from = server((_cursor, index) => ({
      prompts: [prompt(`p${index}`)],
      nextCursor: cursors[index % cursors.length]!,
    }));
    expect(await walkPrompts(from)).toEqual(failure('circle'));
    expect(from.cursors.length).toBeLessThanOrEqual(cursors.length + 1);
  });

  it('a cursor of 10,000 characters is followed', async () => {
    const long = 'x'.repeat(10_000);
    const from = pages({ prompts: [], nextCursor: long }, { prompts: [prompt('a')] });
    expect((await complete(from)).items).toHaveLength(1);
    expect(from.cursors[1]).toBe(long);
  });

  it('a cursor that is out of all proportion is not', async () => {
    const from = pages({ prompts: [], nextCursor: 'x'.repeat(MAX_CURSOR_LENGTH + 1) });
    expect(await walkPrompts(from)).toEqual(failure('cursor of page 1'));
    expect(from.cursors).toHaveLength(1);
  });

  it.each<[string, JsonValue]>([
    ['a number', 2],
    ['an object', { page: 2 }],
    ['false', false],
  ])('a cursor that is %s is a failure, not the end', async (_name, nextCursor) => {
    const from = pages({ prompts: [prompt('a')], nextCursor });
    expect(await walkPrompts(from)).toEqual(failure('page 1 is no result of prompts/list: "nextCursor"'));
  });

  it('are a thousand at most', async () => {
    const endless = (end: number) =>
      server((_cursor, index) => ({
        prompts: [prompt(`p${index}`)],
        ...(index + 1 === end ? {} : { nextCursor: `c${index}` }),
      }));
    expect(await complete(endless(MAX_PAGES))).toMatchObject({ pages: MAX_PAGES });
    const tooMany = endless(MAX_PAGES + 1);
    expect(await walkPrompts(tooMany)).toEqual(failure('more than 1000 pages'));
    expect(tooMany.cursors).toHaveLength(MAX_PAGES);
  });

  it('hold a bounded number of items, those that cannot be read among them', async () => {
    const full = { prompts: [prompt('a'), 5, prompt('b')] };
    expect(await walkPrompts(pages(full), { maxItems: 3 })).toMatchObject({ ok: true });
    expect(await walkPrompts(pages(full), { maxItems: 2 })).toEqual(failure('more than 2 items'));
    const second = pages({ prompts: [prompt('a')], nextCursor: 'x' }, { prompts: [5, 5] });
    expect(await walkPrompts(second, { maxItems: 2 })).toEqual(failure('more than 2 items'));
  });

  it('have one deadline, and each request what is left of it', async () => {
    const slow = server((_cursor, index, clock) => {
      clock.advance(400);
      return { prompts: [prompt(`p${index}`)], nextCursor: `c${index}` };
    });
    expect(await walkPrompts(slow, { timeoutMs: 1_000 })).toEqual(
      failure('not complete within 1000 ms, after 3 pages'),
    );
    expect(slow.timeouts).toEqual([1_000, 600, 200]);
  });

  it('a page that runs into the deadline fails the list, with its outcome', async () => {
    const from = server((_cursor, index) =>
      index === 0
        ? { prompts: [prompt('a')], nextCursor: 'x' }
        : { kind: 'timeout', written: true, timeoutMs: 600.4 },
    );
    expect(await walkPrompts(from)).toEqual({
      ...failure('prompts/list: page 2: no answer within 600 ms'),
      outcome: { kind: 'timeout', written: true, timeoutMs: 600.4 },
    });
  });

  it.each<[Outcome, string]>([
    [
      { kind: 'error', written: true, correlated: true, error: { code: -32603, message: 'no \u001b[2J' } },
      'error -32603 (no \\u{1b}[2J)',
    ],
    [{ kind: 'malformed', written: true, detail: 'no JSON' }, 'no JSON'],
    [{ kind: 'closed', written: true, cause: { kind: 'exit', detail: 'exit code 1' } }, 'exit code 1'],
    [
      { kind: 'unreachable', written: false, cause: { kind: 'html', detail: 'a page', terminal: false } },
      'a page',
    ],
    [{ kind: 'unauthorized', written: true, status: 401, challenge: null }, 'HTTP 401'],
    [{ kind: 'session-lost', written: true }, 'session'],
    [{ kind: 'cancelled', written: true, detail: 'stop' }, 'broken off'],
    [{ kind: 'withheld', written: false }, 'broken off'],
  ])('a second page that is %j fails the list', async (outcome, text) => {
    const from = server((_cursor, index) =>
      index === 0 ? { prompts: [prompt('a')], nextCursor: 'x' } : outcome,
    );
    expect(await walkPrompts(from)).toEqual({ ...failure(text), outcome });
  });

  it.each<JsonObject>([
    { tools: [] },
    { prompts: {} },
    { prompts: [], resultType: 'input_required' },
    { prompts: [], resultType: 'task' },
  ])('a second page that is %j fails the list', async (second) => {
    const from = pages({ prompts: [prompt('a')], nextCursor: 'x' }, second);
    expect(await walkPrompts(from)).toEqual(failure('page 2 is no result of prompts/list'));
  });

  it('of a server that always has another page end with the deadline', async () => {
    const from = server((_cursor, index, clock) => {
      clock.advance(50);
      return { prompts: [], nextCursor: `c${index}` };
    });
    expect(await walkPrompts(from, { timeoutMs: 5_000 })).toEqual(failure('after 100 pages'));
  });
});

describe('how long a list is fresh', () => {
  /** Pages that come 100 ms after one another, from 1,100 on, with these ttls. */
  const freshUntil = async (...ttls: readonly (JsonValue | undefined)[]) => {
    const from = server((_cursor, index, clock) => {
      clock.advance(100);
      const ttlMs = ttls[index];
      return {
        prompts: [],
        ...(ttlMs === undefined ? {} : { ttlMs }),
        ...(index + 1 === ttls.length ? {} : { nextCursor: `c${index}` }),
      };
    });
    return complete(from);
  };

  it.each<[string, readonly (JsonValue | undefined)[], number | null]>([
    ['one page', [500], 1_600],
    ['no word about it', [undefined], null],
    ['zero', [0], null],
    ['negative', [-5], null],
    ['no number', ['500'], null],
    ['NaN', [Number.NaN], null],
    ['a fraction', [500.9], 1_600],
    ['over a day', [MAX_TTL_MS * 3], 1_100 + MAX_TTL_MS],
    ['the first page runs out first', [100, 500], 1_200],
    ['the last page runs out first', [500, 100], 1_300],
    ['a page in the middle runs out first', [500, 50, 500], 1_250],
    ['a page without a ttl', [500, undefined], null],
    ['a page whose ttl is 0, before another', [0, 500], null],
  ])('%s', async (_name, ttls, expected) => {
    expect(await freshUntil(...ttls)).toMatchObject({
      freshUntil: expected,
      receivedAt: 1_000 + 100 * ttls.length,
    });
  });
});

describe('who may see a list', () => {
  it.each<[readonly (JsonValue | undefined)[], 'public' | 'private', boolean]>([
    [['public'], 'public', false],
    [['public', 'public'], 'public', false],
    [['private', 'private'], 'private', false],
    [[undefined], 'private', false],
    [[undefined, 'private'], 'private', false],
    [['public', 'private'], 'private', true],
    [['private', 'public'], 'private', true],
    [['public', undefined], 'private', true],
    [['public', 'everybody'], 'private', true],
  ])('pages that say %j: %s', async (scopes, scope, mixedScope) => {
    const from = server((_cursor, index) => ({
      prompts: [],
      ...(scopes[index] === undefined ? {} : { cacheScope: scopes[index] as JsonValue }),
      ...(index + 1 === scopes.length ? {} : { nextCursor: `c${index}` }),
    }));
    expect(await complete(from)).toMatchObject({ scope, mixedScope });
  });
});

describe('the items of a list', () => {
  it('that are malformed are told apart, with what they are known by', async () => {
    const from = pages(
      { prompts: [prompt('a'), null, { name: 'b\u202e', arguments: 5 }], nextCursor: 'x' },
      { prompts: [{ title: 'nameless' }, { name: 'x'.repeat(300), title: 5 }, prompt('c')] },
    );
    const walk = await complete(from);
    expect(walk.items.map(({ name }) => name)).toEqual(['a', 'c']);
    expect(walk.malformed.map(({ local }) => local)).toEqual([
      null,
      'b\\u{202e}',
      null,
      `${'x'.repeat(199)}…`,
    ]);
    for (const { reason } of walk.malformed) {
      expect(reason).not.toBe('');
      expect(reason.length).toBeLessThanOrEqual(300);
    }
  });

  const same: readonly [keyof Definitions, JsonObject, JsonObject, JsonObject][] = [
    ['prompts', { name: 'a' }, { name: 'a', title: 'later' }, { name: 'A' }],
    [
      'resources',
      { uri: 'file:///a', name: 'a' },
      { uri: 'file:///a', name: 'later' },
      { uri: 'file:///b', name: 'a' },
    ],
    [
      'resourceTemplates',
      { uriTemplate: 'file:///{a}', name: 'a' },
      { uriTemplate: 'file:///{a}', name: 'later' },
      { uriTemplate: 'file:///{b}', name: 'a' },
    ],
  ];

  it.each(same)('%s that come twice: the first one stays', async (kind, first, later, other) => {
    const { member } = LISTS[kind];
    const { request, clock } = pages({ [member]: [first], nextCursor: 'x' }, { [member]: [later, other] });
    const walk = await walkList<Definitions[keyof Definitions]>({
      kind,
      request,
      clock,
      timeoutMs: 1_000,
      parse: PARSERS[kind],
    });
    expect(walk).toMatchObject({
      ok: true,
      items: [{ declared: first }, { declared: other }],
      malformed: [{ local: Object.values(first)[0], reason: expect.stringContaining('duplicate') }],
    });
  });

  it('one that is malformed does not take the place of a later one of its name', async () => {
    const walk = await complete(pages({ prompts: [{ name: 'a', arguments: 5 }, prompt('a')] }));
    expect(walk).toMatchObject({ items: [{ name: 'a' }], malformed: [{ local: 'a' }] });
  });

  it('that are nested too deep to be told apart are put aside', async () => {
    const nested = (depth: number): JsonValue =>
      JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`) as JsonValue;
    const walk = await complete(
      pages({
        prompts: [
          { name: 'deep', _meta: nested(MAX_DEPTH) },
          { name: 'abyss', _meta: nested(100_000) },
          { name: 'fine', _meta: nested(MAX_DEPTH - 1) },
        ],
      }),
    );
    expect(walk.items.map(({ name }) => name)).toEqual(['fine']);
    expect(walk.malformed.map(({ local }) => local)).toEqual(['deep', 'abyss']);
  });

  it('with names of the language are names like any other', async () => {
    const names = ['__proto__', 'constructor', 'toString'];
    const walk = await complete(pages({ prompts: names.map(prompt) }));
    expect(walk.items.map(({ name }) => name)).toEqual(names);
  });
});

describe('tools', () => {
  const item = (name: string): JsonObject => ({ name, inputSchema: { type: 'object' } });
  const list = ({ request, clock }: Server) =>
    listTools({ peer: 'archive', request, clock, timeoutMs: 1_000 });

  it('come as the catalog that the registry takes, with freshness and scope', async () => {
    const from = pages(
      { tools: [item('a'), { name: 'bad' }], nextCursor: 'x', ttlMs: 50, cacheScope: 'public' },
      { tools: [item('a'), item('b')], ttlMs: 80, cacheScope: 'public' },
    );
    const listing = await list(from);
    expect(listing).toMatchObject({
      ok: true,
      freshUntil: 1_050,
      scope: 'public',
      mixedScope: false,
      pages: 2,
      catalog: {
        peer: 'archive',
        // The registry puts the second one aside.
        tools: [{ name: 'a' }, { name: 'a' }, { name: 'b' }],
        quarantined: [
          {
            peer: 'archive',
            local: 'bad',
            code: 'malformed-item',
            reason: expect.stringContaining('inputSchema'),
          },
        ],
      },
    });
    if (listing.ok) expect(listing.catalog.digest).toBe(catalogDigest(listing.catalog.tools));
  });

  it('whose annotations break the rules are put aside where calls have headers, and nowhere else', async () => {
    const asking = (name: string, type: string): JsonObject => ({
      name,
      inputSchema: { type: 'object', properties: { a: { type, 'x-mcp-header': 'A' } } },
    });
    const tools = [asking('bad\u001b', 'number'), asking('good', 'string'), { name: 'malformed' }, item('a')];
    const { request, clock } = pages({ tools });
    const options = { peer: 'archive', request, clock, timeoutMs: 1_000 };
    const listing = await listTools({ ...options, mirrorsArguments: true });
    expect(listing).toMatchObject({
      ok: true,
      catalog: {
        tools: [{ name: 'good' }, { name: 'a' }],
        quarantined: [
          { local: 'malformed', code: 'malformed-item' },
          {
            peer: 'archive',
            local: 'bad\\u{1b}',
            code: 'invalid-header-annotation',
            reason: expect.stringContaining('no string, integer or boolean'),
          },
        ],
      },
    });
    if (listing.ok) expect(listing.catalog.digest).toBe(catalogDigest(listing.catalog.tools));
    const elsewhere = await list(pages({ tools }));
    expect(elsewhere).toMatchObject({
      catalog: { tools: [{ name: 'bad\u001b' }, {}, {}], quarantined: [{}] },
    });
  });

  it('a listing that fails says why, and what of', async () => {
    const outcome: Outcome = {
      kind: 'error',
      written: true,
      correlated: true,
      error: { code: -32601, message: 'no' },
    };
    expect(await list(server(() => outcome))).toEqual({
      ok: false,
      message: 'tools/list: error -32601 (no)',
      outcome,
    });
  });

  it('none are an empty catalog', () => {
    expect(emptyCatalog('archive')).toEqual({
      peer: 'archive',
      tools: [],
      quarantined: [],
      digest: catalogDigest([]),
    });
  });
});

describe('whatever the pages are', () => {
  const ITEMS: Readonly<Record<ListKind, (key: string) => JsonObject>> = {
    tools: (key) => ({ name: key, inputSchema: { type: 'object' } }),
    prompts: (key) => ({ name: key }),
    resources: (key) => ({ uri: key, name: 'a resource' }),
    resourceTemplates: (key) => ({ uriTemplate: key, name: 'a template' }),
  };
  const parse = { ...PARSERS, tools: parseTool };
  const text = fc.string({ unit: 'binary' });

  it('a list split into pages with cursors of their own comes in order', async () => {
    const split = fc.record({
      kind: fc.constantFrom(...LIST_KINDS),
      keys: fc.uniqueArray(fc.string({ minLength: 1, unit: 'binary' }), { maxLength: 40 }),
      cursors: fc.uniqueArray(text, { maxLength: 12 }),
      cuts: fc.infiniteStream(fc.nat(10)),
    });
    await fc.assert(
      fc.asyncProperty(split, async ({ kind, keys, cursors, cuts }) => {
        const declared = keys.map(ITEMS[kind]);
        const rest = [...declared];
        const sizes = [...cursors.map(() => cuts.next().value as number), rest.length];
        const parts = sizes.map((size, page) => rest.splice(0, page === cursors.length ? rest.length : size));
        const from = server((_cursor, index) => ({
          [LISTS[kind].member]: parts[index]!,
          ...(index < cursors.length ? { nextCursor: cursors[index]! } : {}),
        }));
        const { request, clock } = from;
        const walk = await walkList<{ readonly declared: JsonObject }>({
          kind,
          request,
          clock,
          timeoutMs: 1_000,
          parse: parse[kind],
        });
        if (!walk.ok) throw new Error(walk.message);
        expect(walk.items.map((item) => item.declared)).toEqual(declared);
        expect(walk.malformed).toEqual([]);
        expect(from.cursors).toEqual([undefined, ...cursors]);
      }),
    );
  });

  it('the walk over any graph of cursors ends, and is complete only if it came to an end of the graph', async () => {
    const ends = fc.option(fc.nat(11), { nil: undefined });
    await fc.assert(
      fc.asyncProperty(fc.array(ends, { minLength: 12, maxLength: 12 }), ends, async (next, start) => {
        /** The first page leads to `start`, the page of cursor `n` to `next[n]`. */
        const from = server((cursor) => {
          const to = cursor === undefined ? start : next[Number(cursor)];
          return { prompts: [prompt(`p${cursor}`)], ...(to === undefined ? {} : { nextCursor: String(to) }) };
        });
        const walk = await walkPrompts(from);
        const path = new Set<number>();
        let at = start;
        while (at !== undefined && !path.has(at)) {
          path.add(at);
          at = next[at];
        }
        expect(walk.ok).toBe(at === undefined);
        expect(from.cursors).toEqual([undefined, ...[...path].map(String)]);
        if (walk.ok) expect(walk.items).toHaveLength(path.size + 1);
      }),
    );
  });

  it('the walk never throws, whatever comes', async () => {
    const page = fc.record(
      {
        prompts: fc.oneof(fc.array(fc.oneof(fc.jsonValue(), fc.record({ name: text }))), fc.jsonValue()),
        nextCursor: fc.oneof(text, fc.jsonValue()),
        ttlMs: fc.oneof(fc.double(), fc.jsonValue()),
        cacheScope: fc.oneof(fc.constantFrom('public', 'private'), fc.jsonValue()),
        resultType: fc.oneof(fc.constant('complete'), fc.jsonValue()),
      },
      { requiredKeys: [] },
    );
    await fc.assert(
      fc.asyncProperty(fc.array(fc.oneof(page, fc.jsonValue()), { minLength: 1 }), async (answers) => {
        const from = server((_cursor, index) =>
          result(answers[Math.min(index, answers.length - 1)] as JsonValue),
        );
        expect(await walkPrompts(from)).toMatchObject({ ok: expect.any(Boolean) });
      }),
    );
  });
});
