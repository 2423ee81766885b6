/** Stores for tests that do what they are told, or what they should not. */
import type { Store } from '../../src/cache/store.js';

/** A store without expiry or bounds, whose contents are laid open. */
export function openStore(): Store & { readonly entries: Map<string, string> } {
  const entries = new Map<string, string>();
  return {
    entries,
    get: async (key) => entries.get(key),
    set: async (key, value) => {
      entries.set(key, value);
    },
    delete: async (key) => {
      entries.delete(key);
    },
  };
}

/**
 * What a hostile store does next: as asked; later, when released; throw at once; reject; never answer; answer with
 * what is kept under another key, or what was once kept under this one; with garbage; or claim to have done it.
 */
export const MISDEEDS = [
  'obey',
  'delay',
  'throw',
  'reject',
  'hang',
  'other',
  'old',
  'garbage',
  'lie',
] as const;
export type Misdeed = (typeof MISDEEDS)[number];

const GARBAGE: readonly unknown[] = [
  '',
  '{',
  'null',
  '[]',
  '{"format":1}',
  42,
  null,
  {},
  `{"format":1,"value":${'['.repeat(20)}`,
];

export interface HostileStore extends Store {
  readonly entries: Map<string, string>;
  /** What it does for the next operations, in order; when used up, it obeys. */
  plan(misdeeds: readonly Misdeed[]): void;
  /** Does what it delayed, in the order given by `pick` (a source of numbers), or as it came. */
  release(pick?: () => number): void;
}

export function hostileStore(): HostileStore {
  const entries = new Map<string, string>();
  const history = new Map<string, string[]>();
  const delayed: (() => void)[] = [];
  let misdeeds: Misdeed[] = [];
  let garbageGiven = 0;

  const perform = <T>(isRead: boolean, key: string, obey: () => T): Promise<T> => {
    const answer = (value: unknown) => Promise.resolve(value as T);
    const misdeed = misdeeds.shift() ?? 'obey';
    switch (misdeed) {
      case 'obey':
        return answer(obey());
      case 'delay':
        return new Promise((resolve) => delayed.push(() => resolve(obey())));
      case 'throw':
        throw new Error('thrown, not rejected');
      case 'reject':
        return Promise.reject(new Error('rejected'));
      case 'hang':
        return new Promise(() => {});
      case 'other':
        return answer(isRead ? [...entries].find(([other]) => other !== key)?.[1] : obey());
      case 'old':
        return answer(isRead ? history.get(key)?.[0] : obey());
      case 'garbage':
        garbageGiven += 1;
        return answer(isRead ? GARBAGE[garbageGiven % GARBAGE.length] : obey());
      case 'lie':
        return answer(undefined);
    }
  };

  return {
    entries,
    plan(next) {
      misdeeds = [...next];
    },
    release(pick = () => 0) {
      while (delayed.length > 0) delayed.splice(pick() % delayed.length, 1)[0]?.();
    },
    get: (key) => perform(true, key, () => entries.get(key)),
    set: (key, value) =>
      perform(false, key, () => {
        entries.set(key, value);
        history.set(key, [...(history.get(key) ?? []), value]);
      }),
    delete: (key) =>
      perform(false, key, () => {
        entries.delete(key);
      }),
  };
}
