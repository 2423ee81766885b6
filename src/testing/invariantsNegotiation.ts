/** The checks of what opens a negotiation and leads through it: N1, N3 to N9, N12 to N14 and N21. */
import type { Check } from './wireCheck.js';
import type { Judgement } from './wireJudge.js';
import type { Sight } from './wireOracle.js';
import { placesOf } from './wirePlaces.js';
import { keysWritten, revisionOf } from './wireReading.js';
import { type ConnectionState, eraOf, type Probe } from './wireState.js';

const isProbe = ({ written }: Sight): boolean =>
  written.kind === 'request' && written.method === 'server/discover';
const isInitialize = ({ written }: Sight): boolean => written.method === 'initialize';

const lastProbe = ({ life }: Sight): Probe | undefined => life.negotiation?.probes.at(-1);

/** What a probe may have come to by now; null among them: nothing, and its deadline may have passed. */
function outcomesOf(probe: Probe, atMs: number): (Judgement | null)[] {
  const isSilent = !probe.isSettled && atMs >= probe.earliestDeadlineMs;
  return isSilent ? [...probe.possible, null] : probe.possible;
}

/** The judgement where only one is possible. */
function surely(probe: Probe | undefined): Judgement | null {
  return probe?.isSettled === true && probe.possible.length === 1 ? (probe.possible[0] ?? null) : null;
}

function probeCheck(rule: string, name: string, judge: (sight: Sight) => string | null): Check {
  return { rule, name, judge: (sight) => (isProbe(sight) ? judge(sight) : null) };
}

function initializeCheck(rule: string, name: string, judge: (sight: Sight) => string | null): Check {
  return { rule, name, judge: (sight) => (isInitialize(sight) ? judge(sight) : null) };
}

const when = (isWrong: boolean, message: string): string | null => (isWrong ? message : null);

/** Whether the probe, written now, begins a negotiation, or begins anew within one (N12). */
function begins({ connection, written }: Sight): boolean {
  return placesOf(connection, revisionOf(written)).some(
    ({ follows }) => follows === null || follows === 'N12',
  );
}

const isEnded = (connection: ConnectionState): boolean =>
  connection.isClosed || connection.closeAskedAtMs !== null || connection.openFailed;

export const HOST_CHECKS: readonly Check[] = [
  {
    rule: 'N1',
    name: 'a negotiation opens with server/discover',
    judge: (sight) =>
      when(
        sight.connection.written.length === 0 && !isProbe(sight) && !isInitialize(sight),
        `the first message of the connection is ${sight.written.method ?? 'a response'}`,
      ),
  },
  {
    rule: 'N1',
    name: 'no negotiation opens with initialize',
    judge: (sight) =>
      when(isInitialize(sight) && sight.life.negotiation === null, 'initialize before any probe'),
  },
  probeCheck('N1', 'the first probe asks for the preferred revision', (sight) => {
    const asked = revisionOf(sight.written);
    const { preferredRevision } = sight.oracle;
    const isRefusal = lastProbe(sight)?.possible.some((one) => one.kind === 'again') === true;
    if (!begins(sight) || isRefusal) return null;
    return when(asked !== preferredRevision, `it asks for ${asked}, not for ${preferredRevision}`);
  }),
  probeCheck('N3', 'a refused revision is followed by the highest mutual one', (sight) => {
    const before = lastProbe(sight);
    const judgement = surely(before);
    if (before === undefined || judgement?.kind !== 'again') return null;
    if (sight.life.isCommanded || sight.life.openFailed) return null;
    const asked = revisionOf(sight.written);
    return when(
      asked !== judgement.revision,
      `${before.revision} was refused, ${judgement.revision} is next, not ${asked}`,
    );
  }),
  probeCheck('N3', 'probes of one negotiation are bounded', ({ connection, oracle }) => {
    const limit = oracle.config.modernRevisions.length + 1;
    const count = connection.probes.length - connection.renegotiations;
    return when(eraOf(connection) === null && count >= limit, `probe ${count + 1} on one connection`);
  }),
  probeCheck('N3', 'no probe follows a final refusal unasked', (sight) => afterFinalRefusal(sight, 'N3')),
  probeCheck('N4', 'no probe follows an error that cannot be corrected unasked', (sight) =>
    afterFinalRefusal(sight, 'N4'),
  ),
  probeCheck('N13', 'no probe follows a statement of unknown legacy revisions unasked', (sight) =>
    afterFinalRefusal(sight, 'N13'),
  ),
  probeCheck('N4', 'a corrected probe goes out on a new connection', (sight) => {
    const isCorrectable = surely(lastProbe(sight))?.kind === 'correct';
    return when(
      isCorrectable && lastProbe(sight)?.connection === sight.connection,
      'it was sent on the same one',
    );
  }),
  probeCheck('N5', 'no probe follows an ambiguous one unasked', (sight) => {
    const { life } = sight;
    const isAmbiguous = surely(lastProbe(sight))?.kind === 'ambiguous';
    return when(
      isAmbiguous && !life.allowLegacy && !life.isCommanded,
      'the peer was unavailable and nobody asked',
    );
  }),
  probeCheck('N6', 'no probe follows 401 or 403 unasked', (sight) =>
    when(surely(lastProbe(sight))?.kind === 'unauthorized' && !sight.life.isCommanded, 'nobody asked for it'),
  ),
  probeCheck('N10', 'no probe follows a failed initialize unasked', (sight) => {
    const { negotiation, isCommanded, connections } = sight.life;
    if (negotiation === null || negotiation.initializeSent === 0 || isCommanded) return null;
    const asked = connections.findLast((connection) => connection.initialize !== null);
    // Tried again by itself after a while, as after a probe that reached nobody.
    if (asked?.initialize?.wasUnreached === true) return null;
    return when(
      asked?.initialize?.revision === null && !asked.provedModern,
      'the peer was unavailable and nobody asked',
    );
  }),
  probeCheck('N12', 'no probe on a connection that saw initialize', ({ connection }) =>
    when(connection.initialize !== null, 'dual-era servers refuse it there'),
  ),
  probeCheck('N14', 'no second probe on a connection without a reason', (sight) => {
    const { connection, oracle } = sight;
    const before = connection.probes.at(-1);
    if (before === undefined) return null;
    if (before.possible.some((one) => one.kind === 'again')) return null;
    if (eraOf(connection) !== 'modern') return 'the connection was probed before';
    return when(
      connection.renegotiations >= triggersOf(connection, oracle.config.stableAfterMs),
      'its era is known, and no request was refused with -32022 since',
    );
  }),

  initializeCheck('N7', 'initialize takes the allowlist', ({ life }) =>
    when(!life.allowLegacy, `${life.peer} is not allowlisted`),
  ),
  initializeCheck('N7', 'initialize follows an ambiguous or legacy-only answer', (sight) => {
    const probe = lastProbe(sight);
    if (probe === undefined) return null;
    const outcomes = outcomesOf(probe, sight.event.atMs);
    if (outcomes.length === 0) return 'the probe has no answer, and its deadline has not passed';
    const others = outcomes.filter((one) => one !== null && !leadsToLegacy(one));
    if (others.length < outcomes.length || isOtherRule(others)) return null;
    return `the probe came to: ${others.map((one) => one?.kind).join(', ')}`;
  }),
  initializeCheck('N3', 'no initialize after -32022', (sight) =>
    afterOnly(sight, (one) => one.kind === 'again' || (one.kind === 'refused' && one.rule === 'N3')),
  ),
  initializeCheck('N4', 'no initialize after -32020 or -32021', (sight) =>
    afterOnly(sight, (one) => one.kind === 'correct' || (one.kind === 'refused' && one.rule === 'N4')),
  ),
  initializeCheck('N6', 'no initialize without a signal of the peer', (sight) => {
    if (sight.life.openFailed) return 'a connection could not be opened since the probe';
    return afterOnly(
      sight,
      (one) => one.kind === 'unauthorized' || (one.kind === 'no-signal' && one.rule === 'N6'),
    );
  }),
  initializeCheck('N8', 'no initialize after a redirected answer', (sight) =>
    afterOnly(sight, (one) => one.kind === 'no-signal' && one.rule === 'N8'),
  ),
  initializeCheck('N13', 'no initialize where only unknown legacy revisions are named', (sight) =>
    afterOnly(sight, (one) => one.kind === 'refused' && one.rule === 'N13'),
  ),
  initializeCheck('N9', 'one initialize a negotiation', ({ life }) =>
    when((life.negotiation?.initializeSent ?? 0) > 0, 'it is not the first'),
  ),
  initializeCheck('N9', 'initialize offers the highest legacy revision', ({ written, oracle }) => {
    const highest = oracle.config.legacyRevisions.at(-1);
    return when(written.params['protocolVersion'] !== highest, `not ${highest}`);
  }),
  initializeCheck('N9', 'initialize carries nothing modern', ({ written, event }) => {
    const keys = keysWritten(written.text, ['params']) ?? [];
    if (keys.includes('_meta')) return 'it has a _meta';
    const header = Object.keys(event.headers ?? {}).find((name) => name.toLowerCase().startsWith('mcp-'));
    return when(header !== undefined, `it has the header ${header}`);
  }),
  initializeCheck('N9', 'initialize goes to the probe’s connection while that is open', (sight) => {
    const before = lastProbe(sight)?.connection;
    if (before === undefined || before === sight.connection) return null;
    // It may have ended this very moment, by this side's hand, to make way for a new one (N14: a modern one is not reused).
    return when(!isEnded(before) && eraOf(before) === null, `connection ${before.number} is still open`);
  }),
  initializeCheck('N9', 'a connection that ended is not used for initialize', ({ connection }) =>
    when(connection.isClosed, 'it has ended'),
  ),
  initializeCheck('N12', 'no initialize after modern evidence', ({ oracle, life }) => {
    const text = oracle.signed.get(life.pin);
    return when(text !== undefined, `the pin proved modern with ${text?.slice(0, 120)}`);
  }),
  {
    rule: 'N12',
    name: 'legacy is not selected after modern evidence',
    judge: ({ written, life, oracle }) =>
      when(
        written.method === 'notifications/initialized' && oracle.signed.has(life.pin),
        'the pin proved modern',
      ),
  },
  {
    rule: 'N12',
    name: 'no request to a legacy peer that proved modern',
    judge: ({ written, connection }) =>
      when(written.kind === 'request' && connection.provedModernWhileLegacy, 'a new negotiation is due'),
  },
];

function leadsToLegacy(judgement: Judgement): boolean {
  return judgement.kind === 'ambiguous' || judgement.kind === 'legacy-only';
}

/** Whether another check names what is wrong. */
function isOtherRule(outcomes: readonly (Judgement | null)[]): boolean {
  return outcomes.every(
    (one) =>
      one !== null &&
      !['modern', 'broken-off'].includes(one.kind) &&
      !(one.kind === 'refused' && one.rule === 'N21'),
  );
}

/** Wrong, if every outcome that the last probe may have come to is of this kind. */
function afterOnly(sight: Sight, isWrong: (judgement: Judgement) => boolean): string | null {
  const probe = lastProbe(sight);
  const outcomes = probe === undefined ? [] : outcomesOf(probe, sight.event.atMs);
  const all = outcomes.length > 0 && outcomes.every((one) => one !== null && isWrong(one));
  return when(all, `the probe came to: ${outcomes[0]?.kind}`);
}

function afterFinalRefusal(sight: Sight, rule: string): string | null {
  const judgement = surely(lastProbe(sight));
  const isFinal = judgement?.kind === 'refused' && judgement.rule === rule;
  return when(isFinal && !sight.life.isCommanded, 'the peer was unavailable and nobody asked');
}

/** How often refusals of requests may have led to a new negotiation on this connection (N14). */
function triggersOf(connection: ConnectionState, stableAfterMs: number): number {
  let last = Number.NEGATIVE_INFINITY;
  let count = 0;
  for (const atMs of connection.refusedCalls) {
    if (atMs - last < stableAfterMs) continue;
    last = atMs;
    count += 1;
  }
  return count;
}
