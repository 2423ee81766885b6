/**
 * Revisions of the protocol and the two eras they belong to.
 *
 * A revision is a date, `YYYY-MM-DD`; dates compare as strings.
 */

/** Which of the two ways of talking a peer speaks. */
export type Era = 'modern' | 'legacy';

/** Revisions that start a connection with `initialize`, oldest first. */
export const LEGACY_REVISIONS: readonly string[] = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];

/** Revisions without a handshake that this package speaks, oldest first. */
export const MODERN_REVISIONS: readonly string[] = ['2026-07-28'];

/** The last revision that knows `initialize`. Whatever is later is modern, also if it is unknown here. */
export const LAST_LEGACY_REVISION = '2025-11-25';

const DATE = /^\d{4}-\d{2}-\d{2}$/;
const STARTS_WITH_DATE = /^\d{4}-\d{2}-\d{2}/;

/** Whether `text` has the form of a revision. */
export function isRevision(text: unknown): text is string {
  return typeof text === 'string' && DATE.test(text);
}

/**
 * Whether `text` names a revision later than the last legacy one. Loose on purpose (N21): a suffix as in
 * `2026-07-28-rc1` does not hide the date.
 */
export function namesModernRevision(text: unknown): boolean {
  return typeof text === 'string' && STARTS_WITH_DATE.test(text) && text.slice(0, 10) > LAST_LEGACY_REVISION;
}

/** Whether `text` is a revision of the legacy era. Strict: an exact date, not later than the last legacy one. */
export function isLegacyRevision(text: unknown): text is string {
  return isRevision(text) && text <= LAST_LEGACY_REVISION;
}

/** The highest of `ours` that `theirs` has too, or `null`. */
export function highestMutual(ours: readonly string[], theirs: readonly string[]): string | null {
  return mutual(ours, theirs)[0] ?? null;
}

/**
 * The revision for the next probe after `-32022` (N3): the highest mutual one not yet refused; if the only
 * mutual one is the one just refused, that one, once; refused again, or none in common: `null`.
 *
 * @param refused every revision refused in this negotiation, in order; the last one is the one just refused
 */
export function nextProbeRevision(
  ours: readonly string[],
  theirs: readonly string[],
  refused: readonly string[],
): string | null {
  const justRefused = refused.at(-1);
  const isRefusedAgain = refused.filter((revision) => revision === justRefused).length > 1;
  if (isRefusedAgain) return null;
  const candidates = mutual(ours, theirs);
  const untried = candidates.find((revision) => !refused.includes(revision));
  if (untried !== undefined) return untried;
  const [only, ...others] = candidates;
  return only === justRefused && others.length === 0 ? (only ?? null) : null;
}

function mutual(ours: readonly string[], theirs: readonly string[]): string[] {
  return [...new Set(ours)]
    .filter((revision) => theirs.includes(revision))
    .sort()
    .reverse();
}
