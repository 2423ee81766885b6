/** A store that may throw, hang or lie about its types, made harmless. */
import type { Clock } from '../transports/clock.js';
import type { Store } from './store.js';

/** What a store answered. `ok: false`: it failed, took too long, or was not asked. */
export type StoreAnswer = { readonly ok: true; readonly value: unknown } | { readonly ok: false };

export type StoreFault = 'cache-read' | 'cache-write';

export interface StoreGuardOptions {
  readonly store: Store;
  readonly clock: Clock;
  /** For one operation. */
  readonly timeoutMs: number;
  /** Told of each operation that did not come to an end. */
  readonly onFault: (kind: StoreFault) => void;
}

/** So many operations that hang in a row, and the store is left alone for a while. */
const HANGING_LIMIT = 5;

/** Operations at one time: a server that announces changes without end must not pile them up. */
const MAX_AT_ONCE = 256;

/** Then one operation is let through to see. */
const LEFT_ALONE_MS = 30_000;

/**
 * Bounds each operation in time. Nothing it returns rejects, and every timer it sets is cleared. A store that hangs
 * again and again is left alone for 30 s at a time, and never more than 256 operations are under way, so that neither
 * each request waits for it nor unanswered operations pile up.
 */
export class StoreGuard {
  readonly #options: StoreGuardOptions;
  #hangingInARow = 0;
  #leftAloneUntilMs = 0;
  #atOnce = 0;

  constructor(options: StoreGuardOptions) {
    this.#options = options;
  }

  get(key: string): Promise<StoreAnswer> {
    return this.#ask('cache-read', (store) => store.get(key));
  }

  set(key: string, value: string, ttlMs: number): Promise<StoreAnswer> {
    return this.#ask('cache-write', (store) => store.set(key, value, ttlMs));
  }

  delete(key: string): Promise<StoreAnswer> {
    return this.#ask('cache-write', (store) => store.delete(key));
  }

  #ask(kind: StoreFault, operation: (store: Store) => Promise<unknown>): Promise<StoreAnswer> {
    const { store, clock, timeoutMs, onFault } = this.#options;
    if (!this.#mayAsk()) {
      onFault(kind);
      return Promise.resolve({ ok: false });
    }
    this.#atOnce += 1;
    return new Promise((resolve) => {
      let late = false;
      const timer = clock.setTimeout(() => {
        late = true;
        this.#atOnce -= 1;
        this.#hangingInARow += 1;
        this.#leftAloneUntilMs = clock.now() + LEFT_ALONE_MS;
        onFault(kind);
        resolve({ ok: false });
      }, timeoutMs);
      const settle = (answer: StoreAnswer): void => {
        // What comes too late is dropped, and handled: it is no unhandled rejection.
        if (late) return;
        clock.clearTimeout(timer);
        this.#atOnce -= 1;
        this.#hangingInARow = 0;
        if (!answer.ok) onFault(kind);
        resolve(answer);
      };
      // The executor also catches what is thrown before there is a promise.
      new Promise<unknown>((started) => started(operation(store))).then(
        (value) => settle({ ok: true, value }),
        () => settle({ ok: false }),
      );
    });
  }

  #mayAsk(): boolean {
    if (this.#atOnce >= MAX_AT_ONCE) return false;
    if (this.#hangingInARow < HANGING_LIMIT) return true;
    const nowMs = this.#options.clock.now();
    if (nowMs < this.#leftAloneUntilMs) return false;
    this.#leftAloneUntilMs = nowMs + LEFT_ALONE_MS;
    return true;
  }
}
