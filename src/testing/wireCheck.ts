/** One named rule of the wire, and one place where it was broken. */
import type { Sight } from './wireOracle.js';

export interface Violation {
  /** `N1` … `N21`. */
  readonly rule: string;
  /** Name of the check, unique. */
  readonly check: string;
  readonly message: string;
  /** Index of the event in the trace. */
  readonly index: number;
  readonly connection: number;
  readonly peer: string;
}

/** Judges one message in the state right before it was written: what is wrong with it, or null. */
export interface Check {
  readonly rule: string;
  readonly name: string;
  readonly judge: (sight: Sight) => string | null;
}
