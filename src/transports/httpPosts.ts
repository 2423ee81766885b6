/** The messages of one transport that are on their way by POST, and their end when it closes. */
import type { Clock } from './clock.js';
import type { HttpPost } from './httpPost.js';
import type { Exchange } from './transport.js';

/** How long last notifications may take to arrive: a courtesy. */
const FAREWELL_TIMEOUT_MS = 1000;

export class HttpPosts {
  readonly #clock: Clock;
  readonly #posts = new Map<Exchange, HttpPost>();
  /** Called when the last one is over, while somebody waits for it. */
  #allOver: (() => void) | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get size(): number {
    return this.#posts.size;
  }

  start(exchange: Exchange, post: HttpPost): void {
    this.#posts.set(exchange, post);
    post.start();
  }

  /** Nothing more comes of it. */
  over(exchange: Exchange): void {
    this.#posts.delete(exchange);
    if (this.#posts.size === 0) this.#allOver?.();
  }

  abandon(exchange: Exchange): void {
    this.#posts.get(exchange)?.abandon();
  }

  abandonOldest(): void {
    const [oldest] = this.#posts.values();
    oldest?.abandon();
  }

  abandonAll(): void {
    for (const post of [...this.#posts.values()]) post.abandon();
  }

  /**
   * Nobody waits any more. What nobody waited for, such as the `notifications/cancelled` of what was in flight, may have
   * been sent just now, and still arrives.
   */
  release(): void {
    for (const post of [...this.#posts.values()]) {
      if (post.exchange.id === null) post.release();
      else post.abandon();
    }
  }

  /** Resolves when the server has every message that was released, or has had the time for it. */
  async farewell(): Promise<void> {
    if (this.#posts.size === 0) return;
    await new Promise<void>((resolve) => {
      const timer = this.#clock.setTimeout(() => resolve(), FAREWELL_TIMEOUT_MS);
      this.#allOver = () => {
        this.#clock.clearTimeout(timer);
        resolve();
      };
    });
    this.abandonAll();
  }
}
