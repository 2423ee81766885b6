/** What peers that are given one and the same provider share: turns, flows that wait for a person, tokens renewed. */
import { hash } from 'node:crypto';
import type { OAuthClientProvider, OAuthDiscoveryState } from '@modelcontextprotocol/client';
import type { FlowEnd } from './flowEnd.js';

/** An authorization request that waits for a person. The verifier is kept with it: another flow has another one. */
export interface PendingFlow {
  readonly url: string;
  readonly state: string | null;
  readonly scope: string | undefined;
  readonly resourceMetadataUrl: URL | undefined;
  readonly verifier: string | undefined;
  readonly discovery: OAuthDiscoveryState | undefined;
  /** How many it replaced that no person answered. */
  readonly replaced: number;
  /** Called when an answer to it came. */
  readonly answered: () => void;
}

/** What a flow itself knows of it. */
export type BegunFlow = Omit<PendingFlow, 'replaced' | 'answered'>;

const MAX_WORDS = 64;

/** The last few of some secrets, of which only words for them are kept. */
class Words {
  readonly #words = new Set<string>();

  add(secret: string): void {
    this.#words.add(wordOf(secret));
    for (const oldest of this.#words) {
      if (this.#words.size <= MAX_WORDS) break;
      this.#words.delete(oldest);
    }
  }

  has(secret: string): boolean {
    return this.#words.has(wordOf(secret));
  }
}

/** A peer that uses a provider. */
export interface ProviderUser {
  readonly origin: string;
}

export class ProviderState {
  readonly #users = new Set<ProviderUser>();
  /** By endpoint. */
  readonly pending = new Map<string, PendingFlow>();
  readonly #underWay = new Map<string, Promise<FlowEnd>>();
  readonly #renewed = new Words();
  readonly #spent = new Words();
  #last: Promise<unknown> = Promise.resolve();

  join(user: ProviderUser): void {
    this.#users.add(user);
  }

  leave(user: ProviderUser): void {
    this.#users.delete(user);
  }

  /** A provider knows not who asks it for tokens: whoever came first decides which origin they are for. */
  isFor({ origin }: ProviderUser): boolean {
    const [first] = this.#users;
    return first === undefined || first.origin === origin;
  }

  /** Runs one flow at a time; who wants what is being obtained already gets the same. */
  share(key: string, work: () => Promise<FlowEnd>): Promise<FlowEnd> {
    const underWay = this.#underWay.get(key);
    if (underWay !== undefined) return underWay;
    const flow = this.alone(work);
    this.#underWay.set(key, flow);
    const over = (): void => void this.#underWay.delete(key);
    flow.then(over, over);
    return flow;
  }

  alone<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.then(
      () => undefined,
      () => undefined,
    );
    return turn;
  }

  /** The same owner's token, under another value. One that is not among the last few came from somewhere else. */
  noteRenewed(token: string): void {
    this.#renewed.add(token);
  }

  wasRenewed(token: string): boolean {
    return this.#renewed.has(token);
  }

  /** The code was, or is about to be, sent. */
  noteSpent(code: string): void {
    this.#spent.add(code);
  }

  isSpent(code: string): boolean {
    return this.#spent.has(code);
  }
}

const states = new WeakMap<OAuthClientProvider, ProviderState>();

export function stateOf(provider: OAuthClientProvider): ProviderState {
  const known = states.get(provider);
  if (known !== undefined) return known;
  const state = new ProviderState();
  states.set(provider, state);
  return state;
}

/** Stands for a token where the token itself need not be kept. */
export function wordOf(token: string): string {
  return hash('sha256', `peerage token\n${token}`, 'hex');
}
