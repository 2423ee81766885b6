import { describe, expect, it } from 'vitest';
import { Latency } from '../../src/host/latency.js';
import type { LatencyStatus } from '../../src/host/status.js';

const DAY_MS = 24 * 60 * 60 * 1_000;

function reportOf(durations: Iterable<number>): LatencyStatus {
  const latency = new Latency();
  for (const durationMs of durations) latency.record(durationMs);
  const report = latency.report();
  if (report === null) throw new Error('no report');
  return report;
}

/** Each value of `report` is within 1 % of the one expected. */
function expectWithinOnePercent(report: LatencyStatus, expected: LatencyStatus): void {
  for (const [name, value] of Object.entries(expected)) {
    const got = report[name as keyof LatencyStatus];
    expect(Math.abs(got - value), `${name}: ${got}, not ${value}`).toBeLessThanOrEqual(value * 0.01);
  }
}

describe('latency', () => {
  it('is null before the first record', () => {
    expect(new Latency().report()).toBe(null);
  });

  it.each([0.01, 1, 60, 3_600])('of a known distribution is within 1 %%, in steps of %d ms', (stepMs) => {
    // 1 … 10,000 steps in an order that has nothing to do with their size: 7,919 is a prime.
    const durations = Array.from({ length: 10_000 }, (_, i) => (((i * 7_919) % 10_000) + 1) * stepMs);
    expectWithinOnePercent(reportOf(durations), {
      count: 10_000,
      meanMs: 5_000.5 * stepMs,
      p50Ms: 5_000 * stepMs,
      p90Ms: 9_000 * stepMs,
      p99Ms: 9_900 * stepMs,
      maxMs: 10_000 * stepMs,
    });
  });

  it('tells a slow tail from a fast body', () => {
    const durations = [...Array<number>(95).fill(2), ...Array<number>(5).fill(4_000)];
    expectWithinOnePercent(reportOf(durations), {
      count: 100,
      meanMs: 201.9,
      p50Ms: 2,
      p90Ms: 2,
      p99Ms: 4_000,
      maxMs: 4_000,
    });
  });

  it('is in milliseconds with at most three digits', () => {
    for (const value of Object.values(reportOf([0.0449, 1.23456, 987.654321]))) {
      expect(String(value)).toMatch(/^\d+(\.\d{1,3})?$/);
    }
  });

  it.each([0, -1, Number.NaN, Number.NEGATIVE_INFINITY, 1e-9])('takes %d for a microsecond', (durationMs) => {
    expect(reportOf([durationMs])).toMatchObject({ count: 1, p50Ms: 0.001, maxMs: 0.001 });
  });

  it.each([DAY_MS * 2, Number.MAX_SAFE_INTEGER, Number.POSITIVE_INFINITY])(
    'takes %d for a day',
    (durationMs) => {
      const { count, p50Ms, maxMs } = reportOf([durationMs]);
      expect(count).toBe(1);
      expect(p50Ms / DAY_MS).toBeCloseTo(1, 2);
      expect(maxMs / DAY_MS).toBeCloseTo(1, 2);
    },
  );

  it('a report is a copy', () => {
    const latency = new Latency();
    latency.record(0.1);
    const report = latency.report();
    latency.record(1_000);
    expect(report).toMatchObject({ count: 1, maxMs: 0.1 });
    expect(latency.report()).toMatchObject({ count: 2 });
  });
});
