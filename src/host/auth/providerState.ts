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

/** Tokens that were renewed lately; one that is not among them came from somewhere else. */
const MAX_RENEWED = 64;

export class ProviderState {
  /** By endpoint. */
  readonly pending = new Map<string, PendingFlow>();
  readonly #underWay = new Map<string, Promise<FlowEnd>>();
  readonly #renewed = new Set<string>();
  #last: Promise<unknown> = Promise.resolve();

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

  /** The same owner's token, under another value. */
  noteRenewed(token: string): void {
    this.#renewed.add(wordOf(token));
    for (const oldest of this.#renewed) {
      if (this.#renewed.size <= MAX_RENEWED) break;
      this.#renewed.delete(oldest);
    }
  }

  wasRenewed(token: string): boolean {
    return this.#renewed.has(wordOf(token));
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
