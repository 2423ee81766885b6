/** Headers that repeat arguments, over real HTTP: which tools are kept out, what a call carries, and what -32020 leads to. */
import { afterEach, describe, expect, test } from 'vitest';
import { toolsDocument } from '../../src/cli/commands/tools.js';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject, JsonValue } from '../../src/protocol/jsonRpc.js';
import { legacyFake, modernFake } from '../host/fakes.js';
import { HttpToolServer } from '../real/httpToolServer.js';
import { ModernHttpServer, regional } from './modernHttpServer.js';

const hosts: Host[] = [];
afterEach(() => Promise.all(hosts.splice(0).map((host) => host.stop())));

type Options = Omit<CreateHostOptions, 'peers'> & { readonly repeatable?: readonly string[] };

/** Deadlines that a busy machine cannot reach. */
const PATIENT = {
  probeTimeoutMs: 60_000,
  listTimeoutMs: 60_000,
  startTimeoutMs: 60_000,
  backoffMinMs: 10,
  backoffMaxMs: 50,
};

async function started(peers: CreateHostOptions['peers'], options: Options = {}): Promise<Host> {
  const { repeatable: _, ...more } = options;
  const host = createHost({ ...PATIENT, ...more, peers });
  hosts.push(host);
  await host.start();
  return host;
}

async function over(server: ModernHttpServer, options: Options = {}): Promise<Host> {
  await server.listen();
  const { repeatable = [] } = options;
  return started({ it: { url: server.url, repeatable } }, options);
}

const annotated = (header: JsonValue, type: JsonValue = 'string'): JsonObject => ({
  type,
  'x-mcp-header': header,
});
const toolOf = (name: string, properties: JsonObject): JsonObject => ({
  name,
  inputSchema: { type: 'object', properties },
});

const INVALID: readonly JsonObject[] = [
  toolOf('empty_name', { a: annotated('') }),
  toolOf('object_type', { a: annotated('A', 'object') }),
  toolOf('array_type', { a: annotated('A', 'array') }),
  toolOf('null_type', { a: annotated('A', 'null') }),
  toolOf('number_type', { a: annotated('A', 'number') }),
  toolOf('same_case', { a: annotated('A'), b: annotated('A') }),
  toolOf('other_case', { a: annotated('Region'), b: annotated('REGION') }),
  toolOf('space', { a: annotated('A B') }),
  toolOf('colon', { a: annotated('A:B') }),
  toolOf('non_ascii', { a: annotated('Größe') }),
  toolOf('control', { a: annotated('A\r\nx-evil: 1') }),
  toolOf('in_items', { a: { type: 'array', items: annotated('A') } }),
];
const VALID = toolOf('valid_tool', { region: annotated('Region') });
const NAMES = INVALID.map((tool) => tool['name'] as string);

describe('tools whose annotations break the rules', () => {
  test('are kept out over modern HTTP, each with a reason; the others stay', async () => {
    const server = new ModernHttpServer([...INVALID.slice(0, 6), VALID, ...INVALID.slice(6)]);
    const host = await over(server);
    const catalog = host.catalog();
    expect([...catalog.entries.keys()]).toEqual(['valid_tool']);
    expect(catalog.quarantined.map(({ local }) => local)).toEqual(NAMES);
    for (const { peer, code, reason } of catalog.quarantined) {
      expect({ peer, code }).toEqual({ peer: 'it', code: 'invalid-header-annotation' });
      expect(reason).toContain('x-mcp-header');
      expect(reason).not.toMatch(/\p{Cc}/u);
    }
    expect(toolsDocument(catalog).quarantined).toHaveLength(INVALID.length);
    expect(await catalog.call('valid_tool', { region: 'eu' })).toMatchObject({ status: 'ok' });
    for (const name of NAMES) {
      const outcome = await catalog.call(name, {});
      expect(outcome).toMatchObject({ status: 'not-found', delivery: 'not-sent' });
      expect(outcome.message).toContain('x-mcp-header');
    }
    expect((await catalog.call('it/number_type', {})).message).toContain('no string, integer or boolean');
    expect((await catalog.call('nowhere', {})).message).not.toContain('x-mcp-header');
    expect(server.of('tools/call')).toHaveLength(1);
  });

  test('stay where there are no headers: on other transports, and in the legacy era', async () => {
    const tools = [...INVALID, VALID];
    const legacy = new HttpToolServer('legacy');
    legacy.definitions = tools;
    await legacy.listen();
    const host = await started(
      {
        legacy: { url: legacy.url, allowLegacy: true },
        memory: modernFake({ tools }).config,
        old: { ...legacyFake({ tools, allowLegacy: true }).config },
      },
      { collisions: 'prefix-always' },
    );
    const catalog = host.catalog();
    expect(catalog.quarantined).toEqual([]);
    expect(catalog.entries.size).toBe(3 * tools.length);
    expect(await catalog.call('legacy/number_type', { a: 1 })).toMatchObject({ status: 'ok' });
  });

  test('leave the list when they are listed anew, and a call that was bound to them says why', async () => {
    const server = new ModernHttpServer([regional('Region')]);
    const host = await over(server);
    const before = host.catalog();
    server.tools = [regional('No Token')];
    // Refused, since the tool is another one now; then it is listed again.
    expect(await before.call('query', { region: 'eu' })).toMatchObject({
      status: 'stale-route',
      delivery: 'answered',
      current: null,
      message: expect.stringContaining('RFC 9110'),
    });
    expect(server.of('tools/call')).toHaveLength(1);
    expect(await before.call('query', { region: 'eu' })).toMatchObject({
      status: 'stale-route',
      delivery: 'not-sent',
    });
    expect(await host.call('query', { region: 'eu' })).toMatchObject({
      status: 'not-found',
      message: expect.stringContaining('RFC 9110'),
    });
  });
});

describe('arguments in headers', () => {
  const WIDE: JsonObject = {
    name: 'wide',
    inputSchema: {
      type: 'object',
      properties: {
        text: annotated('Text'),
        count: annotated('Count', 'integer'),
        dry: annotated('Dry-Run', 'boolean'),
        method: annotated('Method'),
        deep: { type: 'object', properties: { constructor: annotated('Inner') } },
        plain: { type: 'string' },
        nullable: { properties: { it: annotated('Nullable') } },
      },
    },
  };

  test.each<[JsonObject, Record<string, string>]>([
    [{ text: 'eu' }, { 'mcp-param-text': 'eu' }],
    [{ text: 'inner space stays' }, { 'mcp-param-text': 'inner space stays' }],
    [{ text: '' }, { 'mcp-param-text': '=?base64??=' }],
    [{ text: ' outer ' }, { 'mcp-param-text': '=?base64?IG91dGVyIA==?=' }],
    [{ text: 'a\tb' }, { 'mcp-param-text': '=?base64?YQli?=' }],
    [{ text: '世界' }, { 'mcp-param-text': '=?base64?5LiW55WM?=' }],
    [{ text: 'a\r\nx-evil: 1' }, { 'mcp-param-text': '=?base64?YQ0KeC1ldmlsOiAx?=' }],
    [{ text: '=?base64?YQ==?=' }, { 'mcp-param-text': '=?base64?PT9iYXNlNjQ/WVE9PT89?=' }],
    [{ count: -42 }, { 'mcp-param-count': '-42' }],
    [{ count: 2 ** 64 }, { 'mcp-param-count': '18446744073709552000' }],
    [{ dry: false }, { 'mcp-param-dry-run': 'false' }],
    [
      { dry: true, method: 'x' },
      { 'mcp-param-dry-run': 'true', 'mcp-param-method': 'x' },
    ],
    [{ deep: { constructor: 'in' } }, { 'mcp-param-inner': 'in' }],
    [{ plain: 'x' }, {}],
    [{ nullable: null }, {}],
    [{}, {}],
  ])('%j', async (args, headers) => {
    const server = new ModernHttpServer([WIDE]);
    const host = await over(server);
    expect(await host.call('wide', args)).toMatchObject({ status: 'ok', attempts: 1 });
    const [call] = server.of('tools/call');
    const carried = Object.entries(call?.headers ?? {}).filter(([name]) => name.startsWith('mcp-param-'));
    expect(Object.fromEntries(carried)).toEqual(headers);
    expect(call?.headers).toMatchObject({ 'mcp-method': 'tools/call', 'mcp-name': 'wide' });
    expect(call?.headers['x-evil']).toBeUndefined();
  });

  test('what is sent is what is mirrored, whatever `toJSON` makes of it', async () => {
    const server = new ModernHttpServer([regional('Region')]);
    const host = await over(server);
    let turn = 0;
    const region = { toJSON: () => `turn ${++turn}` };
    expect(await host.call('query', { region } as unknown as JsonObject)).toMatchObject({ status: 'ok' });
    expect(server.mirrored()).toEqual([{ region: 'turn 1' }]);
    expect(server.of('tools/call')[0]?.params['arguments']).toEqual({ region: 'turn 1' });
  });

  test('each round of input and each repetition carries them', async () => {
    const server = new ModernHttpServer([regional('Region')]);
    server.handle = (request) => {
      if (request.method !== 'tools/call') return false;
      const count = server.of('tools/call').length;
      if (count === 1) request.response.writeHead(503).end();
      else if (request.params['inputResponses'] === undefined) {
        const ask = { method: 'roots/list' };
        request.result({ resultType: 'input_required', inputRequests: { roots: ask }, requestState: 's' });
      } else return false;
      return true;
    };
    const host = await over(server, { repeatable: ['query'], handlers: { listRoots: () => [] } });
    expect(await host.call('query', { region: 'münchen' })).toMatchObject({ status: 'ok', attempts: 3 });
    expect(server.mirrored()).toEqual([{ region: 'münchen' }, { region: 'münchen' }, { region: 'münchen' }]);
  });
});

describe('-32020 in answer to a call', () => {
  test('the tools are listed again, whatever is kept of them, and the call carries the new header', async () => {
    const server = new ModernHttpServer([regional('Region')]);
    server.ttlMs = 1_000_000;
    const host = await over(server);
    const bound = host.catalog();
    server.tools = [regional('Area')];
    const outcome = await bound.call('query', { region: 'eu' });
    expect(outcome).toMatchObject({ status: 'ok', delivery: 'answered', attempts: 2 });
    expect(server.mirrored()).toEqual([{ region: 'eu' }, { area: 'eu' }]);
    expect(server.of('tools/list')).toHaveLength(2);
    const ids = server.arrived.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
    expect(outcome.requestId).toBe(ids.at(-1));
    // The next call from the new lease needs no correction.
    expect(await host.call('query', { region: 'eu' })).toMatchObject({ status: 'ok', attempts: 1 });
    expect(server.of('tools/list')).toHaveLength(2);
  });

  test.each<[string, string | null, string | null, object]>([
    ['appears', null, 'Region', { region: 'eu' }],
    ['vanishes', 'Region', null, {}],
  ])('an annotation that %s', async (_how, before, after, carried) => {
    const server = new ModernHttpServer([regional(before)]);
    const host = await over(server);
    server.tools = [regional(after)];
    expect(await host.call('query', { region: 'eu' })).toMatchObject({ status: 'ok', attempts: 2 });
    expect(server.mirrored().at(-1)).toEqual(carried);
  });

  test('twice is that call’s error, and nothing is sent a third time', async () => {
    const server = new ModernHttpServer([regional('Region')]);
    server.handle = (request) => {
      if (request.method !== 'tools/call') return false;
      // Without its id as well: it answers a lone POST.
      const isFirst = server.of('tools/call').length === 1;
      request.say({ ...(isFirst ? { id: null } : {}), error: { code: -32020, message: 'no' } }, 400);
      return true;
    };
    const host = await over(server);
    expect(await host.call('query', { region: 'eu' })).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      attempts: 2,
      error: { code: -32020 },
    });
    expect(server.of('tools/call')).toHaveLength(2);
    expect(server.of('tools/list')).toHaveLength(2);
    expect(host.peer('it').state).toBe('modern');
    expect(host.status()).toMatchObject({ inFlight: 0, queued: 0 });
  });

  test.each<[string, JsonObject[]]>([
    ['another description', [regional('Area', { description: 'Deletes.' })]],
    ['another schema', [toolOf('query', { region: { ...annotated('Area'), maxLength: 3 } })]],
    [
      'an annotation that is a property',
      [toolOf('query', { region: annotated('Area'), 'x-mcp-header': {} })],
    ],
  ])('a tool that has %s now is not called', async (_what, tools) => {
    const server = new ModernHttpServer([regional('Region')]);
    const host = await over(server);
    server.tools = tools;
    const outcome = await host.call('query', { region: 'eu' });
    expect(outcome).toMatchObject({
      status: 'stale-route',
      delivery: 'answered',
      attempts: 1,
      current: { name: 'query', peer: 'it' },
    });
    expect('current' in outcome && outcome.current).toBe(host.catalog().entries.get('query'));
    expect(server.of('tools/call')).toHaveLength(1);
  });

  test('a tool that is gone is not called', async () => {
    const server = new ModernHttpServer([regional('Region')]);
    const host = await over(server);
    server.tools = [];
    expect(await host.call('query', { region: 'eu' })).toMatchObject({
      status: 'stale-route',
      delivery: 'answered',
      current: null,
    });
    expect(server.of('tools/call')).toHaveLength(1);
  });

  test('twenty calls at once cost one listing', async () => {
    const server = new ModernHttpServer([regional('Region')]);
    const host = await over(server);
    server.tools = [regional('Area')];
    // All refusals are on their way before the first is answered by a listing.
    const waiting: (() => void)[] = [];
    server.handle = (request) => {
      if (request.method !== 'tools/call' || server.of('tools/call').length > 20) return false;
      waiting.push(() => request.refuse(-32020));
      if (waiting.length === 20) for (const refuse of waiting) refuse();
      return true;
    };
    const calls = Array.from({ length: 20 }, (_, at) => host.call('query', { region: `r${at}` }));
    const outcomes = await Promise.all(calls);
    expect(outcomes.every(({ status, attempts }) => status === 'ok' && attempts === 2)).toBe(true);
    expect(server.of('tools/list')).toHaveLength(2);
    expect(
      server
        .mirrored()
        .slice(20)
        .map((one) => one['area']),
    ).toEqual(expect.arrayContaining(Array.from({ length: 20 }, (_, at) => `r${at}`)));
  });

  test('a refusal that comes after the tools were listed anew needs no other listing', async () => {
    const server = new ModernHttpServer([regional('Region')]);
    const host = await over(server);
    server.tools = [regional('Area')];
    let late = (): void => undefined;
    server.handle = (request) => {
      if (request.method !== 'tools/call' || server.of('tools/call').length !== 1) return false;
      late = () => request.refuse(-32020);
      return true;
    };
    const first = host.call('query', { region: 'first' });
    await expect.poll(() => server.of('tools/call').length).toBe(1);
    expect(await host.call('query', { region: 'second' })).toMatchObject({ status: 'ok', attempts: 2 });
    late();
    expect(await first).toMatchObject({ status: 'ok', attempts: 2 });
    expect(server.of('tools/list')).toHaveLength(2);
  });

  test('a listing that fails leaves the refusal as the outcome', async () => {
    const server = new ModernHttpServer([regional('Region')]);
    const host = await over(server);
    server.tools = [regional('Area')];
    server.handle = (request) => {
      if (request.method !== 'tools/list') return false;
      request.refuse(-32603, {}, 400);
      return true;
    };
    expect(await host.call('query', { region: 'eu' })).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      attempts: 1,
      error: { code: -32020 },
    });
  });

  describe('while the tools are listed', () => {
    async function held(options: Options = {}) {
      const server = new ModernHttpServer([regional('Region')]);
      const host = await over(server, options);
      server.tools = [regional('Area')];
      server.handle = ({ method }) => method === 'tools/list';
      const control = new AbortController();
      return { server, host, control };
    }
    const listing = (server: ModernHttpServer) =>
      expect.poll(() => server.of('tools/list').length, { timeout: 20_000 }).toBe(2);

    test('an abort holds', async () => {
      const { server, host, control } = await held();
      const call = host.call('query', { region: 'eu' }, { signal: control.signal });
      await listing(server);
      control.abort();
      expect(await call).toMatchObject({ status: 'cancelled', delivery: 'answered', attempts: 1 });
    });

    test('the host stops', async () => {
      const { server, host } = await held();
      const call = host.call('query', { region: 'eu' });
      await listing(server);
      await host.stop();
      expect(await call).toMatchObject({ status: 'cancelled', delivery: 'answered', attempts: 1 });
    });

    test('the peer is removed', async () => {
      const { server, host } = await held();
      const call = host.call('query', { region: 'eu' });
      await listing(server);
      await host.removePeer('it');
      expect(await call).toMatchObject({ delivery: 'answered', attempts: 1 });
      expect(server.of('tools/call')).toHaveLength(1);
    });

    test('the connection is lost: the call goes on with the next one', async () => {
      const { server, host } = await held();
      const call = host.call('query', { region: 'eu' });
      await listing(server);
      server.handle = () => false;
      const pending = server.of('tools/list')[1];
      pending?.response.socket?.destroy();
      // The listing failed on a connection that is over, or is still the one in use: both end.
      const outcome = await call;
      expect(['ok', 'protocol-error']).toContain(outcome.status);
      expect(outcome.delivery).toBe('answered');
    });
  });

  test('on a pipe it is that call’s error', async () => {
    const fake = modernFake({
      tools: [regional('Region')],
      on: ({ method }) => (method === 'tools/call' ? { error: { code: -32020, message: 'no' } } : undefined),
    });
    const host = await started({ it: fake.config });
    expect(await host.call('query', { region: 'eu' })).toMatchObject({
      status: 'protocol-error',
      attempts: 1,
      error: { code: -32020 },
    });
    expect(fake.methods().filter((method) => method === 'tools/list')).toHaveLength(1);
  });

  test('of a legacy server it is that call’s error, and it is no evidence', async () => {
    const server = new HttpToolServer('legacy');
    server.onCall = ({ id, stream, response }) => {
      stream({ id, error: { code: -32020, message: 'no' } });
      response.end();
    };
    await server.listen();
    const host = await started({ it: { url: server.url, allowLegacy: true } });
    expect(await host.call('work', {})).toMatchObject({
      status: 'protocol-error',
      attempts: 1,
      error: { code: -32020 },
    });
    expect(server.count('tools/list')).toBe(1);
    expect(server.count('server/discover')).toBe(1);
  });

  test.each(['prompts/get', 'resources/read'] as const)(
    '%s is sent once more, without a listing',
    async (method) => {
      for (const refusals of [1, 2]) {
        const server = new ModernHttpServer([]);
        server.handle = (request) => {
          if (request.method !== method) return false;
          if (server.of(method).length <= refusals) request.refuse(-32020);
          else if (method === 'prompts/get') request.result({ messages: [] });
          else request.result({ contents: [], ttlMs: 0, cacheScope: 'private' });
          return true;
        };
        const host = await over(server);
        const outcome = await (method === 'prompts/get'
          ? host.getPrompt('it', 'greet')
          : host.readResource('it', 'docs://a'));
        expect(outcome).toMatchObject({ status: refusals === 1 ? 'ok' : 'protocol-error', attempts: 2 });
        expect(server.of('tools/list')).toHaveLength(1);
        expect(server.of(method)[1]?.headers).toMatchObject(
          method === 'prompts/get' ? { 'mcp-name': 'greet' } : { 'mcp-name': 'docs://a' },
        );
      }
    },
  );
});
