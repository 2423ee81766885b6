/** Why a peer is not callable, as data. */

export type ReasonCode =
  /** The probe was ambiguous, or named legacy revisions only, and the peer is not allowlisted. */
  | 'not-allowlisted'
  /** The peer has given modern evidence, now or before (N12, N21), and nothing that can be acted on. */
  | 'modern-evidence'
  /** Both sides are modern and share no revision, or the server refuses the shared one. */
  | 'no-mutual-version'
  /** The server says that it is legacy and names no configured legacy revision. */
  | 'no-mutual-legacy-version'
  /** -32020 that cannot be corrected. */
  | 'header-mismatch'
  /** -32021: the server needs a capability that this host does not have. */
  | 'missing-capability'
  /** The answer to `initialize` was no valid one. */
  | 'legacy-rejected'
  /** No answer to `initialize` within `legacyProbeTimeoutMs`. */
  | 'legacy-timeout'
  /** The ledger refused the permit for `initialize`. */
  | 'legacy-not-permitted'
  /** HTTP 401 or 403. */
  | 'unauthorized'
  /** The process could not be started. */
  | 'spawn-failed'
  /** Nothing of the peer's MCP layer was reached. */
  | 'unreachable'
  /** The connection was lost more often than is tolerated. */
  | 'connection-lost'
  /** A transport did not keep its deadline. */
  | 'transport-broke-deadline'
  /** A fault of this package. */
  | 'internal';

export interface UnavailableReason {
  readonly code: ReasonCode;
  /** One sentence: what happened. Sanitized, bounded, no secret. */
  readonly message: string;
  /** One sentence: what a person can do about it. */
  readonly fix: string;
}
