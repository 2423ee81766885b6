/** Where a probe stands in its negotiation, and when its deadline passes, as far as the wire tells. */
import type { ConnectionState, Place } from './wireState.js';

/** Where a probe with this revision, written now, may stand. */
export function placesOf(connection: ConnectionState, revision: string): Place[] {
  const { negotiation, isCommanded, openFailed } = connection.life;
  const before = negotiation?.probes.at(-1);
  const places: Place[] = [];
  if (before !== undefined && negotiation?.initializeSent === 0) {
    const isFresh = before.connection !== connection;
    for (const judgement of before.possible) {
      const isNext = judgement.kind === 'again' && judgement.revision === revision;
      const isCorrection = judgement.kind === 'correct' && isFresh && before.revision === revision;
      if (!isNext && !isCorrection) continue;
      for (const { refused, isCorrected } of before.places) {
        places.push(
          isNext
            ? { follows: 'N3', refused: [...refused, before.revision], isCorrected }
            : { follows: 'N4', refused, isCorrected: true },
        );
      }
    }
    const isCertain = before.isSettled && before.possible.length === 1 && !isCommanded && !openFailed;
    if (places.length > 0 && (!isFresh || isCertain)) return places;
  }
  return [...places, { follows: null, refused: [], isCorrected: false }];
}

/** The earliest and the latest time at which the deadline of a probe that is written at `atMs` may pass. */
export function deadlinesOf(
  connection: ConnectionState,
  atMs: number,
  probeTimeoutMs: number,
): readonly [number, number] {
  if (connection.probes.length > 0) {
    return [connection.lastHeardAtMs + probeTimeoutMs, atMs + probeTimeoutMs];
  }
  const all = connection.life.connections;
  const before = all[all.indexOf(connection) - 1];
  let begun = connection.openedAtMs;
  // The negotiation may have begun by waiting for the end of the connection before this one.
  if (before !== undefined && !((before.releasedAtMs ?? begun) < begun)) {
    begun = before.closeAskedAtMs ?? begun;
    if (before.refusedCalls.length > 0) begun -= probeTimeoutMs;
  }
  return [begun + probeTimeoutMs, Math.max(connection.openedAtMs + probeTimeoutMs, atMs + 1)];
}
