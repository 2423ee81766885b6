// How long this process could not run: a busy machine must not make an outcome look late.

const TICK_MS = 20;

export class StallWatch {
  #pastMs = 0;
  #last = performance.now();
  #timer = setInterval(() => this.#tick(), TICK_MS);

  #tick() {
    const now = performance.now();
    this.#pastMs += Math.max(0, now - this.#last - TICK_MS);
    this.#last = now;
  }

  /** Sum of all delays of a regular timer so far, with that under way. */
  get totalMs() {
    return this.#pastMs + Math.max(0, performance.now() - this.#last - TICK_MS);
  }

  stop() {
    this.#tick();
    this.#last = Number.POSITIVE_INFINITY;
    clearInterval(this.#timer);
  }
}
