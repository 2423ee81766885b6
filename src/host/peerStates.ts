/** The states of a peer, as the chart names them. */
export type PeerStateName =
  | 'idle'
  | 'probing'
  | 'modern'
  | 'legacyProbe'
  | 'legacy'
  | 'unavailable'
  | 'reconnecting'
  | 'stopped';

/** Whether an answer is awaited that selects an era. */
export function isNegotiating(state: PeerStateName): boolean {
  return state === 'probing' || state === 'legacyProbe';
}
