/** How long the answered calls of one peer took. */
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import type { LatencyStatus } from './status.js';

/**
 * Of an HDR histogram, in microseconds: two figures keep every value to 1 %, and up to a day they take 32 KiB a peer. A
 * third figure would take 224.
 */
const SHAPE = { lowest: 1, highest: 24 * 60 * 60 * 1_000_000, figures: 2 } as const;

/** Takes nothing before the first duration, and then always the same. A record costs less than 0.1 µs. */
export class Latency {
  private histogram: RecordableHistogram | null = null;

  /** A duration in milliseconds. Kept to the microsecond, between one microsecond and a day. */
  record(durationMs: number): void {
    this.histogram ??= createHistogram(SHAPE);
    const micros = Math.round(durationMs * 1_000);
    // What is no number would be an error of the histogram; it counts as the shortest.
    this.histogram.record(micros >= SHAPE.lowest ? Math.min(micros, SHAPE.highest) : SHAPE.lowest);
  }

  /** Null before the first record. */
  report(): LatencyStatus | null {
    const { histogram } = this;
    if (histogram === null) return null;
    return {
      count: histogram.count,
      meanMs: inMs(histogram.mean),
      p50Ms: inMs(histogram.percentile(50)),
      p90Ms: inMs(histogram.percentile(90)),
      p99Ms: inMs(histogram.percentile(99)),
      maxMs: inMs(histogram.max),
    };
  }
}

/** Rounded to three digits behind the point. */
function inMs(micros: number): number {
  return Math.round(micros) / 1_000;
}
