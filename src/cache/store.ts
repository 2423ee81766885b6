/** Where cached responses are kept. */

/**
 * A map of texts with a time to live. Keys are hashes and hold nothing readable; values are JSON and may be as private
 * as the servers' answers are.
 *
 * A store that fails harms nothing: what it throws is counted, and the response is fetched.
 */
export interface Store {
  get(key: string): Promise<string | undefined>;
  /** @param ttlMs after which it must not be returned any more; whole, more than 0, at most 24 h */
  set(key: string, value: string, ttlMs: number): Promise<void>;
  delete(key: string): Promise<void>;
}
