/**
 * The era rules that can be seen on the wire, as named checks over a recorded trace. The checks judge raw texts by
 * the oracle's own reading (`wireReading.ts`, `wireJudge.ts`); nothing of the negotiation they judge is imported.
 */

import { MESSAGE_CHECKS } from './invariantsMessages.js';
import { HOST_CHECKS } from './invariantsNegotiation.js';
import type { Check, Violation } from './wireCheck.js';
import type { OracleConfig } from './wireJudge.js';
import { Oracle } from './wireOracle.js';
import { eraOf, modernRevisionOf } from './wireState.js';
import type { WireEvent } from './wireTrace.js';

export type { Check, Violation } from './wireCheck.js';
export type { OracleConfig } from './wireJudge.js';

/** Every check of what is written. */
export const CHECKS: readonly Check[] = [...HOST_CHECKS, ...MESSAGE_CHECKS];

/** Names of the checks of what is done with connections: they judge events without a message. */
export const CONNECTION_CHECKS = [
  'a new pipe is opened only when the one before is gone',
  'the answer streams of probe and initialize stay open until an era is selected',
] as const;

/**
 * Every place where a recorded wire breaks a rule, in order. Empty: none was found.
 *
 * The trace must hold the host's commands (`WireTrace.command`), since some rules allow a message only after one.
 */
export function checkTrace(trace: readonly WireEvent[], config: OracleConfig): Violation[] {
  const oracle = new Oracle(config);
  const violations: Violation[] = [];
  for (const [index, event] of trace.entries()) {
    if (event.kind === 'command') {
      oracle.apply(event);
      continue;
    }
    const { connection } = event;
    const report = (rule: string, check: string, message: string): void => {
      const peer = oracle.connections.get(connection)?.life.peer ?? ('peer' in event ? event.peer : '?');
      violations.push({ rule, check, message, index, connection, peer });
    };
    if (event.kind === 'out') {
      const sight = oracle.sight(event);
      if (sight === null)
        report('N17', 'unknown connection', 'a message on a connection that was never opened');
      else {
        for (const { rule, name, judge } of CHECKS) {
          const message = judge(sight);
          if (message !== null) report(rule, name, message);
        }
      }
    } else if (event.kind === 'open') {
      const before = oracle.lives.get(event.life)?.connections.at(-1);
      // Over HTTP calls in flight may end on the connection before (N14); a process is never there twice.
      const mayOverlap = event.perRequestStreams;
      if (before !== undefined && before.releasedAtMs === null && !mayOverlap) {
        report(
          'N9',
          CONNECTION_CHECKS[0],
          `connection ${connection} was opened while ${before.number} was not gone`,
        );
      }
    } else if (event.kind === 'abort') {
      const state = oracle.connections.get(connection);
      const isNegotiation =
        state?.initialize?.id === event.exchange ||
        state?.probes.some((probe) => probe.id === event.exchange) === true;
      if (state !== undefined && isNegotiation && eraOf(state) === null) {
        report('N9', CONNECTION_CHECKS[1], `the answer stream of ${event.exchange} was given up`);
      }
    }
    oracle.apply(event);
  }
  return violations;
}

/** What the wire says of one peer at the end of a trace. */
export interface WireState {
  /** The era that the last connection may have; null: none. */
  readonly era: 'modern' | 'legacy' | null;
  readonly revision: string | null;
  /** `initialize` requests of the last negotiation. */
  readonly initializeSent: number;
  /** Connections opened. */
  readonly connections: number;
  /** Whether the pin gave modern evidence, and nobody forgot it. */
  readonly isSigned: boolean;
}

/** By the oracle's own reading, for comparison with a host's report. The peer's last life counts. */
export function stateOnWire(
  trace: readonly WireEvent[],
  config: OracleConfig,
  peer: string,
): WireState | null {
  const oracle = new Oracle(config);
  for (const event of trace) oracle.apply(event);
  const life = [...oracle.lives.values()].filter((one) => one.peer === peer).at(-1);
  const last = life?.connections.at(-1);
  if (life === undefined || last === undefined) return null;
  const era = eraOf(last);
  const probe = last.probes.at(-1);
  const revision =
    era === 'legacy'
      ? (last.initialize?.revision ?? null)
      : probe === undefined
        ? null
        : modernRevisionOf(probe);
  // A connection on which nothing was written belongs to a negotiation that sent no initialize.
  const initializeSent = last.written.length === 0 ? 0 : (life.negotiation?.initializeSent ?? 0);
  return {
    era,
    revision,
    initializeSent,
    connections: life.connections.length,
    isSigned: oracle.signed.has(life.pin),
  };
}
