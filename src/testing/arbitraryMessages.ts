/**
 * Arbitraries for what a server may write: valid, invalid and nearly valid answers of both eras, and everything that is
 * no answer. Messages hold the placeholders of `script.ts` in the place of ids.
 */
import * as fc from 'fast-check';
import type { JsonValue } from '../protocol/jsonRpc.js';

type Members = Readonly<Record<string, JsonValue>>;

/** The revisions that a host under test is configured with, so that answers hit and miss them. */
export interface Revisions {
  /** Oldest first. */
  readonly modern: readonly string[];
  /** Oldest first. */
  readonly legacy: readonly string[];
}

/** Keys that a careless reader of objects stumbles over. */
const HOSTILE_KEYS = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  'id',
  'method',
  'error',
  '\u2028',
  '\ud800',
];

/** JSON values, small, with hostile keys among the members. */
export function jsonValues(): fc.Arbitrary<JsonValue> {
  const key = fc.oneof(fc.constantFrom(...HOSTILE_KEYS), fc.string({ maxLength: 5 }));
  const { value } = fc.letrec<{ value: JsonValue }>((tie) => ({
    value: fc.oneof(
      { maxDepth: 3, withCrossShrink: true },
      scalars(),
      fc.array(tie('value'), { maxLength: 3 }),
      fc.array(fc.tuple(key, tie('value')), { maxLength: 3 }).map(objectOf),
    ),
  }));
  return value;
}

/** Own members only, `__proto__` among them. */
function objectOf(entries: readonly (readonly [string, JsonValue])[]): JsonValue {
  const object: Record<string, JsonValue> = {};
  for (const [key, value] of entries) {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  }
  return object;
}

function scalars(): fc.Arbitrary<JsonValue> {
  return fc.oneof(
    fc.constantFrom<JsonValue>(null, true, false, 0, -1, 1, '', '1', 1.5),
    fc.integer(),
    fc.string({ maxLength: 8, unit: 'binary' }),
  );
}

/** What is given now and then instead of a member that is due. */
const spoiled = (): fc.Arbitrary<JsonValue> =>
  fc.constantFrom<JsonValue>(null, 0, '', [], {}, false, [1], 'x');

/** Members that a message may have besides those that it must have. */
const extras = (): fc.Arbitrary<Members> =>
  fc.oneof(
    { weight: 3, arbitrary: fc.constant<Members>({}) },
    { weight: 1, arbitrary: jsonValues().map((extra): Members => ({ extra })) },
  );

/** Revisions of no list: unknown modern ones, ancient ones, and texts that only look like one. */
const strangeRevisions = (): fc.Arbitrary<string> =>
  fc.constantFrom('2099-01-01', '2026-07-28-rc1', '2024-10-07', 'latest', '', '2026-7-28', '1.0', '9999');

/** `supportedVersions` and `data.supported`: mutual, unknown, legacy, none, repeated, in any order. */
export function supportedRevisions({ modern, legacy }: Revisions): fc.Arbitrary<readonly string[]> {
  const some = (list: readonly string[]) => fc.subarray([...list], { minLength: 1 });
  return fc.oneof(
    { weight: 4, arbitrary: some(modern) },
    { weight: 2, arbitrary: fc.constant([...modern]) },
    { weight: 2, arbitrary: fc.shuffledSubarray([...modern, ...legacy], { minLength: 1 }) },
    { weight: 2, arbitrary: some(legacy) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<string[]>(
        ['2024-10-07'],
        ['2099-01-01'],
        [],
        ['latest'],
        ['2026-07-28-rc1'],
      ),
    },
    { weight: 1, arbitrary: some(modern).map((list) => [...list, ...list]) },
    {
      weight: 1,
      arbitrary: fc.array(fc.oneof(strangeRevisions(), fc.constantFrom(...modern, ...legacy)), {
        maxLength: 4,
      }),
    },
  );
}

const cacheHints = (): fc.Arbitrary<Members> =>
  fc.oneof(
    fc.constantFrom<Members>(
      {},
      { ttlMs: 0, cacheScope: 'private' },
      { ttlMs: 60_000, cacheScope: 'public' },
    ),
    fc.record({ ttlMs: spoiled(), cacheScope: spoiled() }),
  );

const serverMeta: Members = { 'io.modelcontextprotocol/serverInfo': { name: 'scripted', version: '1.0.0' } };

/** A `DiscoverResult` that is valid in form, whatever it names. */
export function discoverResults(revisions: Revisions): fc.Arbitrary<JsonValue> {
  return fc
    .record({
      supportedVersions: supportedRevisions(revisions),
      hints: cacheHints(),
      extra: extras(),
      resultType: fc.constantFrom<Members>({}, { resultType: 'complete' }),
      meta: fc.constantFrom<Members>({}, { _meta: serverMeta }, { _meta: {} }),
    })
    .map(({ supportedVersions, hints, extra, resultType, meta }) => ({
      ...extra,
      supportedVersions,
      capabilities: { tools: {} },
      ...hints,
      ...resultType,
      ...meta,
    }));
}

/** The result of an honest modern server. */
export function honestDiscoverResults({ modern, legacy }: Revisions): fc.Arbitrary<JsonValue> {
  return fc
    .tuple(fc.subarray([...modern], { minLength: 1 }), fc.constantFrom<readonly string[]>([], legacy))
    .map(([versions, older]) => ({
      resultType: 'complete',
      supportedVersions: [...older, ...versions],
      capabilities: { tools: { listChanged: true } },
      ttlMs: 0,
      cacheScope: 'private',
      _meta: serverMeta,
    }));
}

/** Nearly a `DiscoverResult`, or something else altogether. */
export function brokenDiscoverResults(revisions: Revisions): fc.Arbitrary<JsonValue> {
  const whole: Members = {
    supportedVersions: [...revisions.modern],
    capabilities: {},
    resultType: 'complete',
  };
  const spoiling = fc.constantFrom<Members>(
    { supportedVersions: [] },
    { supportedVersions: '2026-07-28' },
    { supportedVersions: [1, 2] },
    { supportedVersions: [null, ...revisions.legacy] },
    { capabilities: [] },
    { capabilities: null },
    { resultType: 'banana' },
    { resultType: null },
    { resultType: 'input_required' },
    { instructions: 5 },
  );
  return fc.oneof(
    { weight: 3, arbitrary: spoiling.map((members) => ({ ...whole, ...members })) },
    {
      weight: 1,
      arbitrary: fc.constantFrom('supportedVersions', 'capabilities').map((key) => without(whole, key)),
    },
    { weight: 1, arbitrary: fc.constant<JsonValue>({ tools: [] }) },
    { weight: 1, arbitrary: jsonValues() },
  );
}

/** An `InitializeResult`: one time in two valid, else spoiled in one member. */
export function initializeResults({ modern, legacy }: Revisions): fc.Arbitrary<JsonValue> {
  const whole = fc.constantFrom(...legacy).map(
    (protocolVersion): Members => ({
      protocolVersion,
      capabilities: { tools: { listChanged: true } },
      serverInfo: { name: 'scripted', version: '1.0.0' },
    }),
  );
  const spoiling = fc.oneof(
    fc
      .constantFrom(...modern, '2024-10-07', '2099-01-01', '')
      .map((protocolVersion): Members => ({ protocolVersion })),
    fc.constantFrom<Members>(
      { serverInfo: {} },
      { serverInfo: { name: '', version: '1' } },
      { serverInfo: { name: 'x' } },
      { serverInfo: null },
      { capabilities: null },
      { capabilities: [] },
      { protocolVersion: null },
    ),
  );
  const key = fc.constantFrom('protocolVersion', 'capabilities', 'serverInfo');
  return fc.oneof(
    { weight: 6, arbitrary: fc.tuple(whole, extras()).map(([members, extra]) => ({ ...extra, ...members })) },
    { weight: 3, arbitrary: fc.tuple(whole, spoiling).map(([members, bad]) => ({ ...members, ...bad })) },
    { weight: 1, arbitrary: fc.tuple(whole, key).map(([members, one]) => without(members, one)) },
    { weight: 1, arbitrary: jsonValues() },
  );
}

function without(members: Members, key: string): JsonValue {
  return Object.fromEntries(Object.entries(members).filter(([one]) => one !== key));
}

/** Codes that servers have answered a modern probe with, and any integer. */
const codes = (): fc.Arbitrary<JsonValue> =>
  fc.oneof(
    {
      weight: 4,
      arbitrary: fc.constantFrom<JsonValue>(
        -32601,
        -32600,
        -32602,
        -32603,
        -32700,
        -32000,
        -32001,
        -32002,
        0,
        1,
      ),
    },
    { weight: 1, arbitrary: fc.constantFrom<JsonValue>(-32003, -32004, -32019, -32023, -32042) },
    { weight: 1, arbitrary: fc.integer() },
  );

/** An error that means nothing. */
export function plainErrors(): fc.Arbitrary<JsonValue> {
  return fc
    .record({
      code: codes(),
      message: fc.constantFrom('Method not found', 'Server not initialized', ''),
      data: fc.option(jsonValues()),
    })
    .map(({ code, message, data }) => (data === null ? { code, message } : { code, message, data }));
}

/** -32022, with good and bad data. */
export function versionErrors(revisions: Revisions): fc.Arbitrary<JsonValue> {
  const data = fc.oneof(
    {
      weight: 6,
      arbitrary: supportedRevisions(revisions).map((supported): JsonValue => ({ supported, requested: 'x' })),
    },
    {
      weight: 1,
      arbitrary: fc.constantFrom<JsonValue>({}, null, [], { supported: 'x' }, { supported: [1, null] }),
    },
  );
  return data.map((one) => ({ code: -32022, message: 'Unsupported protocol version', data: one }));
}

/** Any of the three recognized errors, also malformed ones. */
export function modernErrors(revisions: Revisions): fc.Arbitrary<JsonValue> {
  return fc.oneof(
    { weight: 4, arbitrary: versionErrors(revisions) },
    { weight: 2, arbitrary: fc.constant<JsonValue>({ code: -32020, message: 'Header mismatch' }) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<JsonValue>(
        { code: -32021, message: 'Missing capability', data: { requiredCapabilities: { sampling: {} } } },
        { code: -32021, message: 'Missing capability' },
        { code: -32022 },
        { code: -32020, message: 5 },
      ),
    },
  );
}

/** Ids of answers: nearly always the right one. */
export function answerIds(): fc.Arbitrary<Members> {
  return fc.oneof(
    { weight: 12, arbitrary: fc.constant<Members>({ id: '$id' }) },
    {
      weight: 3,
      arbitrary: fc.constantFrom<Members>(
        {},
        { id: null },
        { id: '$id:text' },
        { id: '$id+1' },
        { id: 0 },
        { id: {} },
        { id: 'server-error' },
      ),
    },
  );
}

/** Puts a result or an error into an envelope; now and then into a bad one, or into a batch array. */
export function envelopes(
  member: 'result' | 'error',
  payload: fc.Arbitrary<JsonValue>,
): fc.Arbitrary<JsonValue> {
  const good = fc
    .tuple(answerIds(), payload)
    .map(([id, value]): Members => ({ jsonrpc: '2.0', ...id, [member]: value }));
  const changes = fc.constantFrom<Members>(
    { jsonrpc: '1.0' },
    { jsonrpc: null },
    { method: 'notifications/message' },
    { error: null },
    { result: {}, error: { code: -32603, message: 'both' } },
    { trailing: [{ error: { code: -32022 } }] },
  );
  return fc.oneof(
    { weight: 12, arbitrary: good },
    { weight: 1, arbitrary: fc.tuple(good, changes).map(([members, change]) => ({ ...members, ...change })) },
    { weight: 1, arbitrary: fc.tuple(good, good).map((pair): JsonValue => [...pair]) },
  );
}

/** Messages that a server sends unasked: notifications and requests of its own, answers to nothing. */
export function unaskedMessages(): fc.Arbitrary<JsonValue> {
  return fc.constantFrom<JsonValue>(
    { jsonrpc: '2.0', method: 'notifications/tools/list_changed' },
    { jsonrpc: '2.0', method: 'notifications/message', params: { level: 'info', data: 'x' } },
    { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: '$id', progress: 1 } },
    { jsonrpc: '2.0', id: 7, method: 'ping' },
    { jsonrpc: '2.0', id: 'srv-1', method: 'roots/list' },
    { jsonrpc: '2.0', id: '$id', method: 'ping' },
    { jsonrpc: '2.0', id: 8, method: 'sampling/createMessage', params: {} },
    { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'unknown notification' } },
    { jsonrpc: '2.0', id: 0, result: {} },
  );
}
