/**
 * How often flows may begin where they come to nothing: a host under load is refused many times a second, and an
 * authorization server that is down, or grants what is worth nothing, is not to be asked each time.
 */
import type { Clock } from '../../transports/clock.js';

const FIRST_MS = 1000;
const LONGEST_MS = 60_000;
/** So many may follow each other at once, where each wants something else or the one before obtained something. */
const FREE = 3;

const pauseAfter = (inRow: number): number => Math.min(FIRST_MS * 2 ** Math.min(inRow - 1, 16), LONGEST_MS);

export class Pauses {
  readonly #clock: Clock;
  /** Flows that failed in a row, when the last of them did, and what it wanted. */
  #failures = 0;
  #failedAt = 0;
  #failed = '';
  /** Flows that obtained something in a row, each soon after the one before. */
  #grants = 0;
  #grantedAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a flow may begin now that wants this, which is: in place of what, and with which scope. */
  mayBegin(wanted: string): boolean {
    const now = this.#clock.now();
    const isNew = wanted !== this.#failed && this.#failures < FREE;
    if (this.#failures > 0 && !isNew && now - this.#failedAt < pauseAfter(this.#failures)) return false;
    return this.#grants <= FREE || now - this.#grantedAt >= pauseAfter(this.#grants - FREE);
  }

  failed(wanted: string): void {
    this.#failures += 1;
    this.#failedAt = this.#clock.now();
    this.#failed = wanted;
  }

  granted(): void {
    const now = this.#clock.now();
    const lasted = now - this.#grantedAt;
    // What was needed no sooner than twice the pause was good for something.
    const isSoon = lasted < 2 * pauseAfter(Math.max(1, this.#grants - FREE));
    this.#grants = isSoon ? this.#grants + 1 : 1;
    this.#grantedAt = now;
    this.#failures = 0;
  }

  /** Somebody did something about it. */
  clear(): void {
    this.#failures = 0;
    this.#grants = 0;
  }
}
