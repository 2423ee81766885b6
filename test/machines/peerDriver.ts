/** Puts a peer's chart into a state, with children that stay silent unless told otherwise. */
import { createActor, fromCallback } from 'xstate';
import type { PeerStateName } from '../../src/host/facade.js';
import { catalogMachine } from '../../src/machines/catalogMachine.js';
import { createPeerMachine } from '../../src/machines/peerMachine.js';
import type {
  CatalogEvent,
  CatalogInput,
  ListenInput,
  PeerEvent,
  PeerInput,
  ProbeInput,
  SubscriptionEvent,
} from '../../src/machines/ports.js';
import { subscriptionMachine } from '../../src/machines/subscriptionMachine.js';
import type { ReasonCode, UnavailableReason } from '../../src/protocol/reasons.js';
import { createSimulatedClock } from '../../src/testing/clock.js';

export const preferred = '2027-03-15';
export const older = '2026-07-28';
export const server = { name: 'archive', version: '1.2.3' };

export const input: PeerInput = {
  name: 'archive',
  systemId: 'host/peer:archive',
  preferredRevision: preferred,
  probeTimeoutMs: 15_000,
  legacyProbeTimeoutMs: 9_000,
  stableAfterMs: 30_000,
  backoffMinMs: 500,
  backoffMaxMs: 30_000,
  maxAttempts: 2,
  retryUnavailableAfterMs: 60_000,
  breakerThreshold: 3,
  breakerOpenMs: 1_000,
};

export function because(code: ReasonCode): UnavailableReason {
  return { code, message: `It is ${code}.`, fix: 'See to it.' };
}

interface Settings extends Partial<PeerInput> {
  readonly mayProbeLegacy?: boolean;
  readonly random?: number;
  /** Called when a child starts; may throw, answer, or return a cleanup. */
  readonly onStart?: (child: string, answer: (event: PeerEvent) => void) => (() => void) | undefined;
  readonly onFetch?: (answer: (event: CatalogEvent) => void) => void;
  /** An owner that keeps count of starts: called when the peer asks for a turn. */
  readonly onTurnAsked?: () => void;
}

export function drivePeer(settings: Settings = {}) {
  const { mayProbeLegacy = true, random = 0.5, onStart, onFetch, onTurnAsked, ...changes } = settings;
  const clock = createSimulatedClock();
  const started: string[] = [];
  const probes: ProbeInput[] = [];
  let released = 0;
  const machine = createPeerMachine(() => random).provide({
    actors: {
      probe: fromCallback<PeerEvent, ProbeInput>(({ input: probe, sendBack }) => {
        started.push('probe');
        probes.push(probe);
        return onStart?.('probe', sendBack);
      }),
      initialize: fromCallback<PeerEvent>(({ sendBack }) => {
        started.push('initialize');
        return onStart?.('initialize', sendBack);
      }),
      catalog: catalogMachine.provide({
        actors: {
          fetch: fromCallback<CatalogEvent, CatalogInput>(({ input: walk, sendBack }) => {
            started.push(walk.kind === 'tools' ? 'fetch' : `fetch ${walk.kind}`);
            onFetch?.(sendBack);
          }),
        },
      }),
      subscription: subscriptionMachine.provide({
        actors: {
          listen: fromCallback<SubscriptionEvent, ListenInput>(({ input: listen }) => {
            started.push(`listen ${JSON.stringify(listen.asked)}`);
            return () => {
              started.push('listen ended');
            };
          }),
        },
      }),
    },
    guards: { mayProbeLegacy: () => mayProbeLegacy },
    actions: {
      releaseConnection: () => {
        released += 1;
      },
      ...(onTurnAsked !== undefined && { requestTurn: onTurnAsked }),
    },
  });
  const actor = createActor(machine, { input: { ...input, ...changes }, clock });
  const errors: unknown[] = [];
  actor.subscribe({ error: (error) => errors.push(error) });
  actor.start();
  return {
    actor,
    clock,
    started,
    probes,
    errors,
    get state() {
      return actor.getSnapshot().value as PeerStateName;
    },
    get context() {
      return actor.getSnapshot().context;
    },
    get reason() {
      return actor.getSnapshot().context.reason?.code ?? null;
    },
    get released() {
      return released;
    },
    get children() {
      return Object.keys(actor.getSnapshot().children);
    },
    send(...events: PeerEvent[]) {
      for (const event of events) actor.send(event);
    },
  };
}

export type PeerDriver = ReturnType<typeof drivePeer>;

export const start: PeerEvent = { type: 'host.start' };
export const selectsModern: PeerEvent = { type: 'discover.result', revision: older, server };
export const selectsLegacy: PeerEvent = { type: 'initialize.result', revision: '2025-11-25', server };
export const ambiguous: PeerEvent = { type: 'discover.ambiguous', reason: because('not-allowlisted') };
export const lost: PeerEvent = { type: 'transport.lost', reason: because('connection-lost') };
export const noSignal: PeerEvent = {
  type: 'discover.noSignal',
  reason: because('unreachable'),
  terminal: false,
  retryAfterMs: null,
};

/** The events that lead from `idle` into a state. */
export const wayInto: Readonly<Record<PeerStateName, readonly PeerEvent[]>> = {
  idle: [],
  probing: [start],
  legacyProbe: [start, ambiguous],
  modern: [start, selectsModern],
  legacy: [start, ambiguous, selectsLegacy],
  reconnecting: [start, noSignal],
  unavailable: [start, { type: 'discover.unauthorized', reason: because('unauthorized') }],
  stopped: [{ type: 'host.stop' }],
};
