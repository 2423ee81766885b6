/** Answer streams that stay open after their response (HTTP). */
import type { Clock } from './clock.js';
import type { Exchange } from './transport.js';

/** How long an answer stream may stay open after its response before this side closes it. */
const LINGER_MS = 2_000;

/**
 * A server is given a moment to end a stream by itself, so that the socket is used again. One timer for all streams of
 * a connection: an answer costs no timer of its own.
 */
export class Lingering {
  private readonly clock: Clock;
  private readonly close: (stream: Exchange) => void;
  private readonly streams = new Set<Exchange>();
  private timer: unknown = null;

  constructor(clock: Clock, close: (stream: Exchange) => void) {
    this.clock = clock;
    this.close = close;
  }

  add(stream: Exchange): void {
    this.streams.add(stream);
    this.timer ??= this.clock.setTimeout(() => {
      this.timer = null;
      // One that came later than the timer has at least as long as the transport needs to read what is there.
      for (const open of this.streams) this.close(open);
      this.streams.clear();
    }, LINGER_MS);
  }

  /** The stream has ended. */
  ended(stream: Exchange): void {
    this.streams.delete(stream);
  }

  stop(): void {
    this.clock.clearTimeout(this.timer);
    this.timer = null;
    this.streams.clear();
  }
}
