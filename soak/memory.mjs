// Whether the heap stays flat: what is left after a forced collection, as time goes by.

/** A tenth of the time, but long enough for the compiler to have seen everything. */
const WARM_UP = 0.1;
const SHORTEST_WARM_UP_MS = 10_000;
/** What is in flight comes on top of what stays, so the level is read low in the distribution. */
const LEVEL = 0.2;
const level = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length * LEVEL)];

export class MemoryWatch {
  #heap = [];
  #timer = null;
  #samples;
  #warmUp;
  rss = 0;

  /** `samples` are taken over `durationMs`. */
  constructor(durationMs, samples) {
    if (typeof globalThis.gc !== 'function') throw new Error('run node with --expose-gc');
    this.#samples = samples;
    this.#warmUp = Math.min(1 / 3, Math.max(WARM_UP, SHORTEST_WARM_UP_MS / durationMs));
    this.#timer = setInterval(() => this.#take(), durationMs / samples);
  }

  #take() {
    if (this.#heap.length >= this.#samples) return;
    globalThis.gc();
    const { heapUsed, rss } = process.memoryUsage();
    this.#heap.push(heapUsed);
    this.rss = Math.max(this.rss, rss);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** Levels of the first and the last third, after the warm-up. */
  verdict() {
    const measured = this.#heap.slice(Math.ceil(this.#heap.length * this.#warmUp));
    const third = Math.floor(measured.length / 3);
    const [first, last] = [level(measured.slice(0, third)), level(measured.slice(-third))];
    return { first, last, growth: last / first - 1 };
  }
}
