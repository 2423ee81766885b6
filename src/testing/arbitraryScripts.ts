/** Arbitraries for far sides: the connections of a server and its reactions, mostly honest or of any kind. */
import * as fc from 'fast-check';
import type { JsonValue } from '../protocol/jsonRpc.js';
import {
  brokenDiscoverResults,
  discoverResults,
  envelopes,
  honestDiscoverResults,
  initializeResults,
  modernErrors,
  plainErrors,
  versionErrors,
} from './arbitraryMessages.js';
import {
  disturbances,
  ends,
  type FarSideOptions,
  httpAnswers,
  lateProbeAnswers,
  said,
} from './arbitrarySteps.js';
import type { LifeScript, Opening, Reaction, Script, Step } from './script.js';

/** A far side over one to three connections. */
export function scripts(options: FarSideOptions): fc.Arbitrary<Script> {
  return fc.array(lifeScripts(options), { minLength: 1, maxLength: 3 }).map((lives) => ({ lives }));
}

/** One connection: mostly modern, mostly legacy, or anything. */
export function lifeScripts(options: FarSideOptions): fc.Arbitrary<LifeScript> {
  const { revisions } = options;
  const probes = fc.array(reaction('server/discover', discoverSteps(options), 1), {
    minLength: 1,
    maxLength: 3,
  });
  const anything: fc.Arbitrary<Reaction[]> = fc
    .tuple(probes, sessionReactions(options))
    .map(([first, session]) => [...first, ...session]);
  const legacy = fc
    .tuple(
      reaction('server/discover', legacyRefusals(options)),
      reaction('initialize', said(options, envelopes('result', initializeResults(revisions)))),
      sessionReactions(options),
    )
    .map(([probe, initialize, session]) => [probe, initialize, ...session]);
  const honest = fc
    .tuple(
      reaction('server/discover', legacyRefusals(options)),
      reaction('initialize', fc.constantFrom(...revisions.legacy).map(honestlyInitialized)),
      sessionReactions(options),
    )
    .map(([probe, initialize, session]) => [probe, initialize, ...session]);
  const modern = fc
    .tuple(
      reaction(
        'server/discover',
        fc.oneof(
          honestDiscoverResults(revisions).map((result): Step[] => [
            { say: { jsonrpc: '2.0', id: '$id', result } },
            { ends: 'complete' },
          ]),
          said(options, envelopes('result', honestDiscoverResults(revisions))),
        ),
      ),
      sessionReactions(options),
    )
    .map(([probe, session]) => [probe, ...session]);
  return fc
    .record({
      reactions: fc.oneof(
        { weight: 3, arbitrary: anything },
        { weight: 2, arbitrary: legacy },
        { weight: 2, arbitrary: honest },
        { weight: 3, arbitrary: modern },
      ),
      opens: fc.option(openings(options), { freq: 6 }),
      goneAfterMs: fc.constantFrom(0, 0, 0, 0, 5, options.probeTimeoutMs),
    })
    .map(({ reactions, opens, goneAfterMs }) => ({
      reactions,
      goneAfterMs,
      ...(opens === null ? {} : { opens }),
    }));
}

function honestlyInitialized(protocolVersion: string): Step[] {
  const serverInfo = { name: 'scripted', version: '1.0.0' };
  return [
    {
      say: {
        jsonrpc: '2.0',
        id: '$id',
        result: { protocolVersion, capabilities: { tools: {} }, serverInfo },
      },
    },
    // Over per-request streams the answer ends with its response.
    { ends: 'complete' },
  ];
}

function openings({ probeTimeoutMs }: FarSideOptions): fc.Arbitrary<Opening> {
  return fc.constantFrom<Opening>(
    { afterMs: 1 },
    { afterMs: probeTimeoutMs / 2 },
    { afterMs: probeTimeoutMs + 1 },
    { fails: 'spawn-failed' },
    { fails: 'connect-failed', afterMs: 3 },
    { hangs: true },
  );
}

function reaction(on: string, steps: fc.Arbitrary<Step[]>, times?: number): fc.Arbitrary<Reaction> {
  return steps.map((list) => (times === undefined ? { on, steps: list } : { on, times, steps: list }));
}

/** What follows a negotiation, and what may disturb it. */
function sessionReactions(options: FarSideOptions): fc.Arbitrary<Reaction[]> {
  return fc
    .tuple(
      reaction('initialize', initializeSteps(options)),
      reaction('tools/list', listSteps(options)),
      reaction('tools/call', callSteps(options), 2),
      reaction('tools/call', callSteps(options)),
      fc.option(reaction('notifications/initialized', disturbances(options)), { freq: 3 }),
      fc.option(reaction('open', disturbances(options)), { freq: 12 }),
    )
    .map((list) => list.filter((one) => one !== null));
}

function discoverSteps(options: FarSideOptions): fc.Arbitrary<Step[]> {
  const { revisions } = options;
  const answer = (result: fc.Arbitrary<JsonValue>) => said(options, envelopes('result', result));
  const failure = (error: fc.Arbitrary<JsonValue>) => said(options, envelopes('error', error));
  return fc.oneof(
    { weight: 3, arbitrary: answer(honestDiscoverResults(revisions)) },
    { weight: 3, arbitrary: answer(discoverResults(revisions)) },
    { weight: 2, arbitrary: answer(brokenDiscoverResults(revisions)) },
    { weight: 5, arbitrary: failure(versionErrors(revisions)) },
    { weight: 2, arbitrary: failure(modernErrors(revisions)) },
    { weight: 6, arbitrary: legacyRefusals(options) },
    { weight: 2, arbitrary: disturbances(options) },
  );
}

/** What legacy servers do with a modern probe: errors of any code, silence, an end. */
function legacyRefusals(options: FarSideOptions): fc.Arbitrary<Step[]> {
  return fc.oneof(
    { weight: 5, arbitrary: said(options, envelopes('error', plainErrors())) },
    { weight: 2, arbitrary: fc.constant<Step[]>([]) },
    { weight: 2, arbitrary: ends(options) },
    { weight: 1, arbitrary: legacyOnly(options) },
    {
      weight: 2,
      arbitrary: httpAnswers(envelopes('error', plainErrors())).map((http): Step[] => [{ http }]),
    },
  );
}

function legacyOnly(options: FarSideOptions): fc.Arbitrary<Step[]> {
  const { legacy } = options.revisions;
  const versions = fc.oneof(fc.subarray([...legacy], { minLength: 1 }), fc.constant(['2024-10-07']));
  return said(
    options,
    versions.map((supportedVersions) => ({
      jsonrpc: '2.0',
      id: '$id',
      result: { supportedVersions, capabilities: {}, resultType: 'complete' },
    })),
  );
}

function initializeSteps(options: FarSideOptions): fc.Arbitrary<Step[]> {
  const { revisions } = options;
  return fc.oneof(
    { weight: 8, arbitrary: said(options, envelopes('result', initializeResults(revisions))) },
    { weight: 1, arbitrary: said(options, envelopes('error', plainErrors())) },
    { weight: 1, arbitrary: said(options, envelopes('error', modernErrors(revisions))) },
    { weight: 2, arbitrary: lateProbeAnswers(options) },
    { weight: 1, arbitrary: ends(options) },
    {
      weight: 1,
      arbitrary: httpAnswers(envelopes('error', plainErrors())).map((http): Step[] => [{ http }]),
    },
    { weight: 1, arbitrary: disturbances(options) },
  );
}

function listSteps(options: FarSideOptions): fc.Arbitrary<Step[]> {
  const tool = (name: string): JsonValue => ({ name, inputSchema: { type: 'object' } });
  const page: JsonValue = { tools: [tool('echo')], resultType: 'complete' };
  const pages = fc.constantFrom<JsonValue>(
    page,
    page,
    page,
    { tools: [] },
    { tools: [tool('echo'), tool('echo'), { name: 5 }] },
    { tools: [tool('echo')], nextCursor: 'again' },
    { tools: 'none' },
    { tools: [], resultType: 'banana' },
  );
  return fc.oneof(
    { weight: 8, arbitrary: fc.constant<Step[]>([{ say: { jsonrpc: '2.0', id: '$id', result: page } }]) },
    { weight: 2, arbitrary: said(options, envelopes('result', pages)) },
    { weight: 1, arbitrary: said(options, envelopes('error', modernErrors(options.revisions))) },
    { weight: 1, arbitrary: disturbances(options) },
  );
}

function callSteps(options: FarSideOptions): fc.Arbitrary<Step[]> {
  const results = fc.constantFrom<JsonValue>(
    { content: [{ type: 'text', text: 'ok' }], resultType: 'complete' },
    { content: [], isError: true },
    { resultType: 'input_required', requestState: 'x' },
    {},
  );
  return fc.oneof(
    { weight: 4, arbitrary: said(options, envelopes('result', results)) },
    { weight: 3, arbitrary: said(options, envelopes('error', versionErrors(options.revisions))) },
    { weight: 1, arbitrary: said(options, envelopes('error', plainErrors())) },
    { weight: 1, arbitrary: said(options, envelopes('error', modernErrors(options.revisions))) },
    { weight: 1, arbitrary: lateProbeAnswers(options) },
    { weight: 1, arbitrary: ends(options) },
    { weight: 2, arbitrary: disturbances(options) },
  );
}
