/** Where a provider of authorization keeps what it must not lose, and how it lies there. */

/**
 * Texts by key, such as a file, a database or a keychain. What it throws fails the authorization that is under way.
 * A `Map` is one.
 */
export interface CredentialStore {
  get(key: string): string | null | undefined | Promise<string | null | undefined>;
  set(key: string, value: string): unknown;
  delete(key: string): unknown;
  /**
   * Runs `work` while nobody else, in this process or another, runs any under this key; gives what it gives. Needed
   * where processes share a store: a refresh token that two of them use may count as stolen. Never called within itself.
   */
  lock?<T>(key: string, work: () => Promise<T>): Promise<T>;
}

/** A store whose values are objects of known shape. What lies there and has another one is as good as not there. */
export class Records {
  private readonly store: CredentialStore;
  private readonly prefix: string;

  constructor(store: CredentialStore, prefix: string) {
    this.store = store;
    this.prefix = prefix;
  }

  async read<T>(name: string, isOne: (value: object) => value is object & T): Promise<T | undefined> {
    const text = await this.store.get(this.keyOf(name));
    if (typeof text !== 'string') return undefined;
    try {
      const value: unknown = JSON.parse(text);
      return typeof value === 'object' && value !== null && isOne(value) ? value : undefined;
    } catch {
      return undefined;
    }
  }

  async write(name: string, value: object): Promise<void> {
    await this.store.set(this.keyOf(name), JSON.stringify(value));
  }

  async remove(name: string): Promise<void> {
    await this.store.delete(this.keyOf(name));
  }

  private keyOf(name: string): string {
    return `${this.prefix} ${name}`;
  }
}

/** Whether a value has filled texts under these names. */
export function hasTexts(value: object, ...names: readonly string[]): boolean {
  return names.every((name) => {
    const text: unknown = (value as Record<string, unknown>)[name];
    return typeof text === 'string' && text !== '';
  });
}
