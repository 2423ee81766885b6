import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { CHECKS, CONNECTION_CHECKS, checkTrace, stateOnWire } from '../../src/testing/invariants.js';
import { CONFIG, HandmadeTrace, PREFERRED, type TraceOptions } from './handmadeTrace.js';

const trace = (options?: TraceOptions): HandmadeTrace => new HandmadeTrace(options);
const http = (options: TraceOptions = {}): HandmadeTrace => trace({ ...options, perRequestStreams: true });
const violations = ({ events }: HandmadeTrace) =>
  checkTrace(events, CONFIG).map(({ rule, check }) => `${rule}: ${check}`);

/** A probe on a fresh connection, answered with an error that proves nothing. */
const ambiguous = (options?: TraceOptions) => trace(options).open().probe(1).error(1, -32601);
const modern = () => trace().open().probe(1).discovered(1);
const legacy = () => ambiguous().initialize(2).accepted(2).initialized();

describe('a trace that obeys the rules has no violation', () => {
  test.each<[string, HandmadeTrace]>([
    ['nothing happened', trace()],
    ['modern', modern().modern(2, 'tools/list').result(2, {}).modern(3, 'tools/call')],
    ['modern over HTTP', http().open().probe(1).discovered(1).end(1).abort(1).modern(2, 'tools/list')],
    ['legacy', legacy().out({ jsonrpc: '2.0', id: 3, method: 'tools/list' })],
    ['legacy after silence', trace().open().probe(1).at(1_000).initialize(2).accepted(2).initialized()],
    ['legacy after an exit', trace().open().probe(1).lost().open().initialize(2).accepted(2).initialized()],
    [
      'legacy after HTTP 400',
      http().open().probe(1).error(null, -32000, undefined, 1).end(1, 'status').initialize(2),
    ],
    ['legacy after legacy revisions', trace().open().probe(1).discovered(1, ['2025-11-25']).initialize(2)],
    [
      'the next revision',
      trace()
        .open()
        .probe(1)
        .error(1, -32022, { supported: ['2027-01-01'] })
        .probe(2, '2027-01-01'),
    ],
    [
      'the only mutual revision once more',
      trace()
        .open()
        .probe(1)
        .error(1, -32022, { supported: [PREFERRED] })
        .probe(2)
        .error(2, -32022, { supported: [PREFERRED] })
        .close(),
    ],
    ['a correction', http().open().probe(1).error(1, -32020).end(1, 'status').close().open().probe(2)],
    [
      'a retry after a refusal',
      trace().open().probe(1).error(1, -32022, {}).close().command('retry').open().probe(2),
    ],
    ['modern evidence while legacy', legacy().error(null, -32022).close().open().probe(3)],
    [
      'the answer to a server request',
      legacy().in({ jsonrpc: '2.0', id: 'a', method: 'ping' }).out({ jsonrpc: '2.0', id: 'a', result: {} }),
    ],
    ['a probe again after a refused call', modern().modern(2, 'tools/call').error(2, -32022).probe(3)],
    [
      'legacy again after forgetting',
      modern().command('forget').lost().open().probe(2).error(2, -32601).initialize(3),
    ],
    [
      'evidence in a call of a legacy peer is none',
      legacy()
        .out({ jsonrpc: '2.0', id: 3, method: 'tools/call' })
        .error(3, -32022)
        .out({ jsonrpc: '2.0', id: 4, method: 'tools/call' }),
    ],
  ])('%s', (_name, good) => {
    expect(violations(good)).toEqual([]);
  });
});

/** One trace at least for each check that breaks it, and nothing but it. */
const BROKEN: readonly [string, HandmadeTrace][] = [
  ['N1: a negotiation opens with server/discover', modern().lost().open().modern(2, 'tools/list')],
  ['N1: no negotiation opens with initialize', trace().open().initialize(1)],
  ['N1: the first probe asks for the preferred revision', trace().open().probe(1, '2026-07-28')],
  ['N2: requests use the highest mutual revision', modern().modern(2, 'tools/list', '2026-07-28')],
  [
    'N3: a refused revision is followed by the highest mutual one',
    trace()
      .open()
      .probe(1)
      .error(1, -32022, { supported: ['2026-07-28', '2027-01-01'] })
      .probe(2, '2026-07-28'),
  ],
  [
    'N3: probes of one negotiation are bounded',
    Array.from({ length: 6 }, (_, n) => n + 1).reduce(
      // A server that names another revision each time, and a host that never keeps count.
      (so, id) =>
        so
          .probe(id, CONFIG.modernRevisions[id % 3])
          .error(id, -32022, { supported: [CONFIG.modernRevisions[(id + 1) % 3]] }),
      trace().open(),
    ),
  ],
  [
    'N3: no probe follows a final refusal unasked',
    trace().open().probe(1).error(1, -32022, {}).close().open().probe(2),
  ],
  [
    'N3: no initialize after -32022',
    trace()
      .open()
      .probe(1)
      .error(1, -32022, { supported: ['2027-01-01'] })
      .command('forget')
      .initialize(2),
  ],
  [
    'N4: no probe follows an error that cannot be corrected unasked',
    trace().open().probe(1).error(1, -32021).close().open().probe(2),
  ],
  [
    'N4: a corrected probe goes out on a new connection',
    http().open().probe(1).error(1, -32020).end(1, 'status').probe(2),
  ],
  [
    'N4: no initialize after -32020 or -32021',
    http().open().probe(1).error(1, -32020).end(1, 'status').command('forget').initialize(2),
  ],
  [
    'N5: no probe follows an ambiguous one unasked',
    ambiguous({ allowLegacy: false }).close().open().probe(2),
  ],
  [
    'N6: no probe follows 401 or 403 unasked',
    http().open().probe(1).end(1, 'unauthorized', false, 401).close().open().probe(2),
  ],
  [
    'N6: no initialize without a signal of the peer',
    http().open().probe(1).end(1, 'unauthorized', false, 401).initialize(2),
  ],
  [
    'N6: no initialize without a signal of the peer',
    http().open().probe(1).end(1, 'unauthorized', false, 403).initialize(2),
  ],
  [
    'N6: no initialize without a signal of the peer',
    http().open().probe(1).end(1, 'unreachable', false, 503).initialize(2),
  ],
  [
    'N6: no initialize without a signal of the peer',
    ambiguous().lost().openFailed().close().open().initialize(2),
  ],
  ['N7: initialize takes the allowlist', ambiguous({ allowLegacy: false }).initialize(2)],
  [
    'N7: initialize follows an ambiguous or legacy-only answer',
    trace().open().probe(1).at(999).initialize(2),
  ],
  [
    'N7: initialize follows an ambiguous or legacy-only answer',
    modern().command('forget').lost().open().initialize(2),
  ],
  [
    'N8: no initialize after a redirected answer',
    http().open().probe(1).end(1, 'status', true, 400).initialize(2),
  ],
  [
    'N9: one initialize a negotiation',
    ambiguous().initialize(2).error(2, -32601).lost().open().initialize(3),
  ],
  [
    'N9: initialize offers the highest legacy revision',
    ambiguous().initialize(2, { protocolVersion: '2024-11-05' }),
  ],
  ['N9: initialize carries nothing modern', ambiguous().initialize(2, { _meta: {} })],
  ['N9: initialize goes to the probe’s connection while that is open', ambiguous().open().initialize(2)],
  ['N9: a connection that ended is not used for initialize', trace().open().probe(1).ended().initialize(2)],
  [
    'N9: probe and initialize are not cancelled on the wire',
    ambiguous().out({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }),
  ],
  [CONNECTION_CHECKS[0], ambiguous().open().initialize(2)],
  [CONNECTION_CHECKS[1], http().open().probe(1).at(1_000).abort(1).initialize(2)],
  [
    'N10: legacy takes a valid InitializeResult',
    ambiguous().initialize(2).result(2, { protocolVersion: '2025-11-25' }).initialized(),
  ],
  [
    'N10: legacy takes a valid InitializeResult',
    ambiguous().initialize(2).at(1_001).accepted(2).initialized(),
  ],
  [
    'N10: no probe follows a failed initialize unasked',
    ambiguous().initialize(2).error(2, -32601).close().open().probe(3),
  ],
  [
    'N11: initialized is the first message of a legacy session',
    ambiguous().initialize(2).accepted(2).out({ jsonrpc: '2.0', id: 3, method: 'tools/list' }),
  ],
  ['N11: initialized is sent once', legacy().initialized()],
  ['N11: initialized is for legacy peers', modern().initialized()],
  ['N12: no probe on a connection that saw initialize', legacy().error(null, -32022).probe(3)],
  [
    'N12: no initialize after modern evidence',
    trace().open().probe(1).error(null, -32022).at(1_000).initialize(2),
  ],
  [
    'N12: no initialize after modern evidence',
    trace()
      .open()
      .probe(1)
      .overheard({ error: { code: -32020 } })
      .at(1_000)
      .initialize(2),
  ],
  [
    'N12: no initialize after modern evidence',
    trace()
      .open()
      .probe(1)
      .in([{ id: 'x', error: { code: -32021 } }])
      .at(1_000)
      .initialize(2),
  ],
  [
    'N12: no initialize after modern evidence',
    http()
      .open()
      .probe(1)
      .error(7, -32022, undefined, 1)
      .end(1, 'unauthorized', false, 401)
      .close()
      .command('retry')
      .open()
      .probe(2)
      .error(2, -32601)
      .initialize(3),
  ],
  [
    'N12: no initialize after modern evidence',
    modern().close().nextLife().open().probe(2).error(2, -32601).initialize(3),
  ],
  [
    'N12: no initialize after modern evidence',
    legacy().discovered(1).lost().open().probe(3).error(3, -32601).initialize(4),
  ],
  [
    'N12: legacy is not selected after modern evidence',
    ambiguous()
      .initialize(2)
      .in([{ error: { code: -32022 } }])
      .accepted(2)
      .initialized(),
  ],
  [
    'N12: no request to a legacy peer that proved modern',
    legacy().error(null, -32022).out({ jsonrpc: '2.0', id: 3, method: 'tools/list' }),
  ],
  [
    'N13: no probe follows a statement of unknown legacy revisions unasked',
    trace().open().probe(1).discovered(1, ['2024-10-07']).close().open().probe(2),
  ],
  [
    'N13: no initialize where only unknown legacy revisions are named',
    trace().open().probe(1).discovered(1, ['2024-10-07']).initialize(2),
  ],
  [
    'N13: a peer that names legacy revisions only is not modern',
    trace().open().probe(1).discovered(1, ['2025-11-25']).modern(2, 'tools/list'),
  ],
  ['N14: no second probe on a connection without a reason', modern().probe(2)],
  [
    'N14: no second probe on a connection without a reason',
    modern()
      .modern(2, 'tools/call')
      .error(2, -32022)
      .probe(3)
      .discovered(3)
      .modern(4, 'tools/call')
      .error(4, -32022)
      .probe(5),
  ],
  [
    'N15: modern requests carry the stamp exactly',
    modern().out({ jsonrpc: '2.0', id: 2, method: 'tools/list', params: {} }),
  ],
  [
    'N15: modern requests carry the stamp exactly',
    modern().out(
      `{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"1999-01-01","io.modelcontextprotocol/protocolVersion":"${PREFERRED}","io.modelcontextprotocol/clientInfo":{"name":"test","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
    ),
  ],
  [
    'N15: headers say what the body says',
    http()
      .open()
      .out(
        {
          jsonrpc: '2.0',
          id: 1,
          method: 'server/discover',
          params: {
            _meta: {
              'io.modelcontextprotocol/protocolVersion': PREFERRED,
              'io.modelcontextprotocol/clientInfo': CONFIG.clientInfo,
              'io.modelcontextprotocol/clientCapabilities': {},
            },
          },
        },
        { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'server/discover' },
      ),
  ],
  ['N15: legacy requests carry nothing modern', legacy().modern(3, 'tools/list')],
  [
    'N16: ids are integers',
    modern().out(
      JSON.stringify({
        jsonrpc: '2.0',
        id: 'x',
        method: 'tools/list',
        params: {
          _meta: {
            'io.modelcontextprotocol/protocolVersion': PREFERRED,
            'io.modelcontextprotocol/clientInfo': CONFIG.clientInfo,
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    ),
  ],
  ['N16: ids are never used again', modern().modern(2, 'tools/list').result(2, {}).modern(2, 'tools/list')],
  ['N16: ids are never used again', modern().close().nextLife().open().probe(1)],
  ['N17: nothing is written to a peer without an era', ambiguous().modern(2, 'tools/list')],
  ['N17: only messages are written', modern().out('{"jsonrpc":"2.0"')],
  ['N17: nothing is written to a connection that ended', modern().ended().modern(2, 'tools/list')],
  [
    'N18: a modern peer is never answered',
    modern().in({ jsonrpc: '2.0', id: 'a', method: 'ping' }).out({ jsonrpc: '2.0', id: 'a', result: {} }),
  ],
  ['N18: a response answers a request of the server', legacy().out({ jsonrpc: '2.0', id: 'a', result: {} })],
  [
    'N19: a result that is no DiscoverResult does not prove modern',
    trace().open().probe(1).result(1, { tools: [] }).modern(2, 'tools/list'),
  ],
  [
    'N19: a result that is no DiscoverResult does not prove modern',
    trace()
      .open()
      .probe(1)
      .result(1, { supportedVersions: [PREFERRED], capabilities: {}, resultType: 'banana' })
      .modern(2, 'tools/list'),
  ],
  [
    'N20: an answer under another id does not prove modern',
    http().open().probe(1).discovered(null, [PREFERRED], 1).end(1).modern(2, 'tools/list'),
  ],
  [
    'N20: an answer under another id does not prove legacy',
    http().open().probe(1).error(1, -32601).end(1).initialize(2).accepted('2', 2).end(2).initialized(),
  ],
];

describe('each check notices what it is for', () => {
  test.each(BROKEN)('%s', (check, broken) => {
    expect(violations(broken).map((found) => (found.includes(check) ? check : found))).toContain(check);
  });

  test('and none is left out', () => {
    const tried = BROKEN.map(([check]) => check);
    const all = [...CHECKS.map(({ rule, name }) => `${rule}: ${name}`), ...CONNECTION_CHECKS];
    expect(all.filter((check) => !tried.includes(check))).toEqual([]);
    expect(new Set(all).size).toBe(all.length);
  });

  test('a message on a connection that was never opened', () => {
    expect(violations(trace().probe(1))).toEqual(['N17: unknown connection']);
  });
});

describe('what the wire says of a peer', () => {
  const state = (one: HandmadeTrace) => stateOnWire(one.events, CONFIG, 'archive');

  test('modern, legacy or neither', () => {
    expect(state(modern())).toMatchObject({
      era: 'modern',
      revision: PREFERRED,
      initializeSent: 0,
      isSigned: true,
    });
    expect(state(legacy())).toMatchObject({
      era: 'legacy',
      revision: '2025-11-25',
      initializeSent: 1,
      isSigned: false,
    });
    expect(state(ambiguous())).toMatchObject({ era: null, revision: null, connections: 1 });
    expect(state(trace())).toBeNull();
  });

  test('a new negotiation counts its own initialize', () => {
    expect(state(legacy().lost().open())).toMatchObject({ initializeSent: 0 });
    expect(state(legacy().lost().open().probe(3))).toMatchObject({ initializeSent: 0, connections: 2 });
  });
});

test('the oracle shares no code with what it judges', () => {
  const files = [
    'invariants',
    'invariantsMessages',
    'invariantsNegotiation',
    'wireCheck',
    'wireJudge',
    'wireOracle',
    'wirePlaces',
    'wireReading',
    'wireState',
  ];
  for (const file of files) {
    const text = readFileSync(new URL(`../../src/testing/${file}.ts`, import.meta.url), 'utf8');
    const imported = [...text.matchAll(/from '(.+)'/g)].map((match) => match[1]);
    expect(
      imported.filter((path) => !path?.startsWith('./wire') && !path?.startsWith('./invariants')),
      file,
    ).toEqual([]);
  }
});
