// Whether the heap stays flat: what is left after a forced collection, as time goes by.

/** A tenth of the time, but long enough for the compiler to have seen everything. */
const WARM_UP = 0.1;
const SHORTEST_WARM_UP_MS = 10_000;
/** More than a request in flight may take: the fit below cannot hide a leak behind it. */
const MOST_PER_REQUEST = 16 * 1024;

const mean = (numbers) => numbers.reduce((sum, each) => sum + each, 0) / numbers.length;
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];

/**
 * Bytes that one request in flight takes: on a busy machine hundreds pile up, which is no leak. Least squares of the
 * heap over the requests in flight, within each part, so that a step from part to part is not taken for their cost.
 */
function costOfRequest(parts) {
  let products = 0;
  let squares = 0;
  for (const part of parts) {
    const middle = mean(part.map(({ inFlight }) => inFlight));
    const level = mean(part.map(({ heap }) => heap));
    for (const { heap, inFlight } of part) {
      products += (inFlight - middle) * (heap - level);
      squares += (inFlight - middle) ** 2;
    }
  }
  return squares === 0 ? 0 : Math.min(MOST_PER_REQUEST, Math.max(0, products / squares));
}

export class MemoryWatch {
  #taken = [];
  #timer = null;
  #samples;
  #warmUp;
  #inFlight;
  rss = 0;

  /** `samples` are taken over `durationMs`; `inFlight()` tells how busy it is. */
  constructor(durationMs, samples, inFlight) {
    this.#inFlight = inFlight;
    if (typeof globalThis.gc !== 'function') throw new Error('run node with --expose-gc');
    this.#samples = samples;
    this.#warmUp = Math.min(1 / 3, Math.max(WARM_UP, SHORTEST_WARM_UP_MS / durationMs));
    this.#timer = setInterval(() => this.#take(), durationMs / samples);
  }

  #take() {
    if (this.#taken.length >= this.#samples) return;
    globalThis.gc();
    const { heapUsed, rss } = process.memoryUsage();
    this.#taken.push({ heap: heapUsed, inFlight: this.#inFlight() });
    this.rss = Math.max(this.rss, rss);
  }

  stop() {
    clearInterval(this.#timer);
  }

  /** Medians of the first and the last third, after the warm-up, less what was in flight. */
  verdict() {
    const measured = this.#taken.slice(Math.ceil(this.#taken.length * this.#warmUp));
    const size = Math.floor(measured.length / 3);
    const parts = [measured.slice(0, size), measured.slice(size, -size), measured.slice(-size)];
    const cost = costOfRequest(parts);
    const [first, , last] = parts.map((part) =>
      median(part.map(({ heap, inFlight }) => heap - cost * inFlight)),
    );
    return { first, last, cost, growth: last / first - 1 };
  }
}
