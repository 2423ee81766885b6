/** Where a probe stands in its negotiation, and when its deadline passes, as far as the wire tells. */
import type { OracleConfig } from './wireJudge.js';
import type { ConnectionState, Place, Probe } from './wireState.js';

/** Where a probe with this revision, written now, may stand. */
export function placesOf(connection: ConnectionState, revision: string): Place[] {
  const { life } = connection;
  const { negotiation, isCommanded, openFailed } = life;
  const before = negotiation?.probes.at(-1);
  if (negotiation === null || before === undefined) return [FIRST];
  const places: Place[] = [];
  const isFresh = before.connection !== connection;
  const isCertain = before.isSettled && before.possible.length === 1 && !isCommanded && !openFailed;
  if (negotiation.initializeSent > 0) {
    const asked = life.connections.findLast((one) => one.initialize !== null);
    const isProven = asked?.initialize?.revision === null && asked.provedModern;
    if (isProven) places.push({ ...FIRST, follows: 'N12' });
    if (isProven && !isCommanded && !openFailed) return places;
    return [...places, FIRST];
  }
  for (const judgement of before.possible) {
    const isNext = judgement.kind === 'again' && judgement.revision === revision;
    const isCorrection = judgement.kind === 'correct' && isFresh && before.revision === revision;
    for (const { refused, isCorrected } of before.places) {
      if (isNext) places.push({ follows: 'N3', refused: [...refused, before.revision], isCorrected });
      if (isCorrection) places.push({ follows: 'N4', refused, isCorrected: true });
    }
  }
  if (places.length > 0 && (!isFresh || isCertain)) return places;
  // After no signal a host may still know what was refused before it.
  const known =
    openFailed || before.possible.some((one) => one.kind === 'no-signal') ? refusedBy(before) : [];
  return [...places, FIRST, ...known];
}

const FIRST: Place = { follows: null, refused: [], isCorrected: false };

function refusedBy(before: Probe): Place[] {
  const isRefused = before.possible.some((one) => one.kind === 'again');
  return before.places.map(({ refused }) => ({
    ...FIRST,
    refused: isRefused ? [...refused, before.revision] : refused,
  }));
}

/** The earliest and the latest time at which the deadline of a probe that is written at `atMs` may pass. */
export function deadlinesOf(
  connection: ConnectionState,
  atMs: number,
  { probeTimeoutMs, toleranceMs = 0 }: OracleConfig,
): readonly [number, number] {
  const [begun, written] = beginningOf(connection, atMs, probeTimeoutMs);
  return [begun + probeTimeoutMs - toleranceMs, Math.max(written + probeTimeoutMs, atMs + 1) + toleranceMs];
}

/** The earliest and the latest time at which the negotiation that writes a probe at `atMs` may have begun. */
function beginningOf(
  connection: ConnectionState,
  atMs: number,
  probeTimeoutMs: number,
): readonly [number, number] {
  if (connection.probes.length > 0) return [connection.lastHeardAtMs, atMs];
  const all = connection.life.connections;
  const before = all[all.indexOf(connection) - 1] ?? connection.life.predecessor;
  let begun = connection.openedAtMs;
  // It may have begun by waiting for the end of the connection before this one.
  if (before !== undefined && !((before.releasedAtMs ?? begun) < begun)) {
    begun = before.closeAskedAtMs ?? begun;
    if (before.refusedCalls.length > 0) begun -= probeTimeoutMs;
  }
  return [begun, connection.openedAtMs];
}
