/**
 * The connections of one peer, one after the other: a new one is opened only when the one before is gone, and those that
 * still have calls in flight may be left to end by themselves (HTTP).
 */
import type { Clock } from '../transports/clock.js';
import type { Connection, OpenOutcome } from '../transports/connection.js';
import { type ExchangeScope, within } from './exchangeScope.js';

export class PeerConnections {
  /** The connection in use; replaced, never reopened. */
  current: Connection | null = null;
  /** Connections made so far. */
  generation = 0;
  private readonly clock: Clock;
  private readonly make: () => Connection;
  private isDraining = false;
  /** Those that end when their calls have. */
  private readonly retired = new Set<Connection>();
  private closing: Promise<void>;
  private hasEnded = false;

  /**
   * @param make a new connection, not opened
   * @param after nothing is opened before it has settled: the peer that had this name before may not be gone
   */
  constructor(clock: Clock, make: () => Connection, after: Promise<void> = Promise.resolve()) {
    this.clock = clock;
    this.make = make;
    this.closing = after;
  }

  /** Nothing is opened any more. */
  get isDisposed(): boolean {
    return this.hasEnded;
  }

  /** Requests on the wire, those included that an earlier connection is left open for. */
  get inFlight(): number {
    let sum = this.current?.inFlight ?? 0;
    for (const connection of this.retired) sum += connection.inFlight;
    return sum;
  }

  /** A new connection; the one before is closed first, so that two processes of one peer never overlap. */
  async open(deadline: number, scope: ExchangeScope): Promise<OpenOutcome> {
    await within(this.clock, deadline, this.release());
    const left = deadline - this.clock.now();
    if (left <= 0) {
      const detail = 'there was no time left to open a connection';
      return { ok: false, cause: { kind: 'connect-failed', detail, terminal: false } };
    }
    if (this.hasEnded || !scope.isActive) {
      return { ok: false, cause: { kind: 'connect-failed', detail: 'stopped', terminal: true } };
    }
    const connection = this.make();
    this.current = connection;
    this.generation += 1;
    return connection.open(left);
  }

  /**
   * Closes the connection in use. Resolves when nothing of any connection of this peer is left, but for one whose
   * calls in flight are left alone: over HTTP it ends by itself when they have.
   */
  release(): Promise<void> {
    const connection = this.current;
    this.current = null;
    if (connection === null) return this.closing;
    if (connection.perRequestStreams && this.takeDraining() && connection.isOpen) {
      this.retired.add(connection);
      // Kept until nothing of it is left, so that whoever disposes of the peer waits for it.
      void connection
        .whenIdle()
        .then(() => connection.close())
        .then(() => this.retired.delete(connection));
    } else {
      this.closing = Promise.all([this.closing, connection.close()]).then(() => undefined);
    }
    return this.closing;
  }

  /** Idempotent. No connection is opened after it. */
  dispose(): Promise<void> {
    this.hasEnded = true;
    this.isDraining = false;
    for (const connection of this.retired) {
      this.closing = Promise.all([this.closing, connection.close()]).then(() => undefined);
    }
    return this.release();
  }

  /** The calls in flight are to be left alone when the connection is replaced. */
  drain(): void {
    this.isDraining = true;
  }

  /** Whether they are; asked once. */
  takeDraining(): boolean {
    const { isDraining } = this;
    this.isDraining = false;
    return isDraining;
  }
}
