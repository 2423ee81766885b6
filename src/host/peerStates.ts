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
