/** What a call needs of the host, and of the peer it goes to. Implemented by the owners of peers. */
import type { Outcome } from '../protocol/exchange.js';
import type { Era } from '../protocol/revisions.js';
import type { Lease } from '../registry/lease.js';
import type { Clock } from '../transports/clock.js';
import type { Connection } from '../transports/connection.js';
import type { Budget } from './budget.js';
import type { InputHandlers } from './inputHandlers.js';
import type { CallPolicy, ConfiguredPeer } from './policy.js';
import type { Validators } from './validate.js';

/** A callable peer, as it is at this moment. */
export interface Channel {
  readonly connection: Connection;
  readonly era: Era;
  readonly revision: string;
}

/** Something that comes, unless it is given up. */
export interface Coming<T> {
  readonly promise: Promise<T>;
  /** Nobody waits any more. Idempotent. */
  cancel(): void;
}

/** `trial`: the one call that a half-open breaker lets through. */
export type Admission = 'pass' | 'trial';

/** One peer, as callers see it. */
export interface PeerCalls extends ConfiguredPeer {
  readonly budget: Budget;
  /** Null: callable in a moment, its tools are being listed anew. A text: why it is not callable, in one sentence. */
  channel(): Channel | null | string;
  /**
   * The channel, once the peer is callable and has listed. Settles with a text, in one sentence, where that will not be,
   * or not soon.
   */
  whenCallable(): Coming<Channel | string>;
  /** Settles with the reason, in one sentence, when the peer is not callable and will not be soon. */
  whenGone(): Coming<string>;
  /** Whether `connection` is still the one in use of a callable peer. Asked in the tick of the write. */
  isCurrent(connection: Connection): boolean;
  /** Asks the breaker; a text says why nothing is let through. */
  admit(): Admission | { readonly refused: string };
  /**
   * What a request came to, for what it says of the connection and for the statistics. Where it says that the peer is
   * gone, the peer is not callable on this connection any more when this returns.
   */
  settled(connection: Connection, outcome: Outcome, durationMs: number, admission: Admission): void;
  /** Nothing came of it: the request could not be made. */
  abandoned(connection: Connection, admission: Admission): void;
  /**
   * Asks the server for its tools, whatever is kept of them; who asks while that is under way shares it. Resolves when
   * the lease has what came: with null, or with one sentence where they could not be had. Also settles with the
   * connection. Never rejects.
   */
  relist(): Promise<string | null>;
  countFault(kind: 'absent-result-type' | 'policy'): void;
}

export interface CallPort {
  readonly clock: Clock;
  readonly callTimeoutMs: number;
  readonly maxCallMs: number;
  readonly maxRounds: number;
  readonly validators: Validators;
  readonly policy: CallPolicy;
  readonly handlers: InputHandlers;
  /** Numbers in [0, 1): the jitter of repetitions. */
  readonly random: () => number;
  /** The lease in force now. */
  currentLease(): Lease;
  /** Undefined: no such peer, or it was removed. */
  peer(name: string): PeerCalls | undefined;
  /** Whether the host is being stopped. */
  isEnding(): boolean;
  /** Calls `listener` when the host stops; returns what takes it back. */
  onEnding(listener: () => void): () => void;
}
