import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { isRecognizedModernCode } from '../../src/protocol/codes.js';
import {
  highestMutual,
  isLegacyRevision,
  isRevision,
  LEGACY_REVISIONS,
  MODERN_REVISIONS,
  namesModernRevision,
  nextProbeRevision,
} from '../../src/protocol/revisions.js';

describe('revisions', () => {
  it('have the form of a date, and an era', () => {
    for (const revision of LEGACY_REVISIONS) expect(isLegacyRevision(revision)).toBe(true);
    for (const revision of MODERN_REVISIONS) expect(namesModernRevision(revision)).toBe(true);
    expect([...LEGACY_REVISIONS]).toEqual([...LEGACY_REVISIONS].sort());
    expect(isRevision('2026-7-28')).toBe(false);
    expect(isRevision(20260728)).toBe(false);
    expect(isLegacyRevision('2024-10-07')).toBe(true);
    expect(isLegacyRevision('2026-07-28')).toBe(false);
  });

  it('name a modern one loosely, a legacy one strictly', () => {
    expect(namesModernRevision('2026-07-28-draft')).toBe(true);
    expect(namesModernRevision('draft-2026-07-28')).toBe(false);
    expect(namesModernRevision(2026)).toBe(false);
    expect(isLegacyRevision('2025-11-25-draft')).toBe(false);
  });

  it('the highest mutual one, or none', () => {
    expect(highestMutual(['a', 'c', 'b'], ['b', 'a'])).toBe('b');
    expect(highestMutual(['a'], ['b'])).toBe(null);
    expect(highestMutual([], [])).toBe(null);
  });
});

describe('N3: the revision of the next probe', () => {
  const revision = fc.constantFrom('2026-07-28', '2027-01-01', '2027-06-01', '2028-01-01');
  const some = fc.uniqueArray(revision, { minLength: 1 });

  it('is mutual; a refused one only if it is the only mutual one, was just refused, and once', () => {
    fc.assert(
      fc.property(some, some, fc.array(revision, { minLength: 1 }), (ours, theirs, refused) => {
        const next = nextProbeRevision(ours, theirs, refused);
        const mutual = ours.filter((entry) => theirs.includes(entry));
        const untried = mutual.filter((entry) => !refused.includes(entry));
        const isRefusedAgain = refused.filter((entry) => entry === refused.at(-1)).length > 1;
        if (isRefusedAgain) return next === null;
        if (untried.length > 0) return next === untried.sort().at(-1);
        return next === (mutual.length === 1 && mutual[0] === refused.at(-1) ? mutual[0] : null);
      }),
    );
  });

  it('ends: a server that refuses whatever it is asked is probed at most once more than there are revisions', () => {
    fc.assert(
      fc.property(some, fc.infiniteStream(some), (ours, answers) => {
        const refused = [ours.slice().sort().at(-1) as string];
        for (const theirs of answers) {
          const next = nextProbeRevision(ours, theirs, refused);
          if (next === null) break;
          refused.push(next);
          if (refused.length > ours.length + 1) return false;
        }
        return true;
      }),
    );
  });
});

describe('error codes', () => {
  it.each([-32020, -32021, -32022])('%i is a recognized modern error', (code) => {
    expect(isRecognizedModernCode(code)).toBe(true);
  });

  it.each([-32000, -32003, -32004, -32019, -32023, -32601, 0, '-32022', null])('%s is not', (code) => {
    expect(isRecognizedModernCode(code)).toBe(false);
  });
});
