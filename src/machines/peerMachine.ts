/**
 * The life of one peer: negotiation, service, loss. Every transition is in this file. What an answer means is decided
 * before an event is sent (`protocol/evidence.ts`); the guards here are policy only. Actors that touch the wire are
 * injected with `.provide`; a default that is not replaced fails, and a failure is never ambiguous (N7).
 *
 * What cannot be seen here: `initialize` leaves the host only with a permit from the peer's ledger, asked in the
 * tick of the write. A host that overrides `mayProbeLegacy` changes the chart, not the wire.
 */
import { assign, enqueueActions, fromCallback, raise, setup } from 'xstate';
import { LIST_KINDS, type ListKind } from '../protocol/lists.js';
import { sanitizeText } from '../protocol/sanitize.js';
import { jitteredMs, LONGEST_DELAY_MS } from './backoff.js';
import { breakerMachine } from './breakerMachine.js';
import { catalogMachine } from './catalogMachine.js';
import type { PeerContext, PeerEvent, PeerInput, PeerTag, ProbeInput } from './ports.js';
import { subscriptionMachine } from './subscriptionMachine.js';

/** How much later than the connection's own deadline the chart gives up on a transport, in milliseconds. */
export const BACKSTOP_MS = 1_000;

/** How long the acknowledgement of a subscription may take once its request is written, in milliseconds. */
export const ACK_TIMEOUT_MS = 10_000;

/** Refusals in a row after which a subscription is given up; lists are then fetched anew when their time is up. */
export const MAX_LISTEN_REFUSALS = 5;

/** How many times longer than at first the breaker stays open at most. */
const OPEN_GROWTH = 10;

const notProvided = (name: string) => () => {
  throw new Error(`the actor "${name}" was not provided`);
};

const types = {
  input: {} as PeerInput,
  context: {} as PeerContext,
  events: {} as PeerEvent,
  tags: {} as PeerTag,
};

/** Exponential backoff with full jitter; a Retry-After is waited for whatever the jitter says (N14). */
const planBackoffWith = (random: () => number) =>
  setup({ types }).assign(({ context, event }) => {
    const { backoffMinMs, backoffMaxMs } = context.timing;
    const asked = event.type === 'discover.noSignal' ? (event.retryAfterMs ?? 0) : 0;
    const waited = Math.max(asked, jitteredMs(random, context.attempts, backoffMinMs, backoffMaxMs));
    return { attempts: context.attempts + 1, backoffMs: Math.min(waited, LONGEST_DELAY_MS) };
  });

/** The id of a catalog among its peer’s children. The tools catalog came first, and keeps the short name. */
export const catalogId = (kind: ListKind): string => (kind === 'tools' ? 'catalog' : `catalog:${kind}`);

/** The children of the states that serve calls. */
const SERVING = ['subscription', 'breaker', ...LIST_KINDS.map(catalogId)] as const;

/** The parts, without the chart: a host may `.provide` others. */
export const peerSetup = setup({
  types,
  actors: {
    /** Opens the connection if there is none, sends one probe, reports one `discover.*` event. */
    probe: fromCallback<PeerEvent, ProbeInput>(notProvided('probe')),
    /** Reopens the connection if the probe ended it, sends `initialize` if permitted, reports one event. */
    initialize: fromCallback<PeerEvent>(notProvided('initialize')),
    /** Keeps one of the peer's lists. */
    catalog: catalogMachine,
    /** Hears what changes (modern). */
    subscription: subscriptionMachine,
    /** Refuses calls to a peer that does not answer. */
    breaker: breakerMachine,
  },
  delays: {
    probeBackstop: ({ context }) => context.timing.probeTimeoutMs + BACKSTOP_MS,
    legacyProbeBackstop: ({ context }) => context.timing.legacyProbeTimeoutMs + BACKSTOP_MS,
    stableAfter: ({ context }) => context.timing.stableAfterMs,
    backoff: ({ context }) => context.backoffMs,
    // Whoever said when to come back is not asked before.
    retryUnavailableAfter: ({ context }) =>
      Math.min(Math.max(context.timing.retryUnavailableAfterMs, context.askedWaitMs ?? 0), LONGEST_DELAY_MS),
  },
  guards: {
    /** Asks the ledger. The default says no: without an owner there is no allowlist. */
    mayProbeLegacy: () => false,
    isFirstCorrection: ({ context }) => !context.corrected,
    hasAttemptsLeft: ({ context, event }) =>
      context.attempts < context.maxAttempts && !(event.type === 'discover.noSignal' && event.terminal),
    /** A turn that nobody here asked for starts nobody. */
    isDue: ({ context }) => context.turnAsked === true,
    isRetriedUnasked: ({ context }) => context.curable && context.timing.retryUnavailableAfterMs > 0,
  },
  actions: {
    /** A new negotiation knows nothing of the one before (N14). */
    beginNegotiation: assign(({ context }) => ({
      probeRevision: context.preferredRevision,
      corrected: false,
    })),
    takeRevision: assign(({ event }) =>
      event.type === 'discover.unsupportedVersion' ? { probeRevision: event.revision } : {},
    ),
    noteCorrection: assign({ corrected: true }),
    selectModern: assign(({ event }) =>
      event.type === 'discover.result'
        ? {
            era: 'modern' as const,
            revision: event.revision,
            server: event.server,
            modernSeen: true,
            stable: false,
          }
        : {},
    ),
    selectLegacy: assign(({ event }) =>
      event.type === 'initialize.result'
        ? { era: 'legacy' as const, revision: event.revision, server: event.server, stable: false }
        : {},
    ),
    noteModernEvidence: assign({ modernSeen: true }),
    forgetEra: assign({ era: 'unknown' as const, revision: null, server: null }),
    noteReason: assign(({ event }) => ({
      reason: 'reason' in event ? event.reason : null,
      curable:
        event.type === 'discover.noSignal' ? !event.terminal : 'curable' in event && event.curable === true,
      askedWaitMs:
        event.type === 'discover.noSignal' ? Math.min(event.retryAfterMs ?? 0, LONGEST_DELAY_MS) : 0,
    })),
    forgetReason: assign({ reason: null, curable: false, askedWaitMs: 0 }),
    noteLoss: assign(({ event }) => ({ reason: 'reason' in event ? event.reason : null, curable: true })),
    /** A server that starts and dies again and again looks like many losses: it is one fault, with a name. */
    countShortLife: assign(({ context }) =>
      context.stable === true ? {} : { shortLives: (context.shortLives ?? 0) + 1 },
    ),
    nameCrashLoop: assign(({ context: { reason, shortLives = 0, timing } }) =>
      reason === null || shortLives < 2
        ? {}
        : {
            reason: {
              ...reason,
              message: `${reason.message} The connection ended ${shortLives} times in a row, each time before it had lived for ${timing.stableAfterMs} ms (stableAfterMs).`,
            },
          },
    ),
    noteBrokenDeadline: assign({
      reason: {
        code: 'transport-broke-deadline' as const,
        message: 'The transport did not end the exchange at its deadline.',
        fix: 'Report this to the author of the transport; retry starts a new connection.',
      },
      curable: false,
    }),
    noteInternalFault: assign(({ event }) => ({
      reason: {
        code: 'internal' as const,
        message: `A fault of this host: ${faultOf(event)}`,
        fix: 'This is a bug in peerage or in an injected part: please report it; retry starts a new negotiation.',
      },
      curable: false,
    })),
    planBackoff: planBackoffWith(Math.random),
    resetAttempts: assign({ attempts: 0, shortLives: 0 }),
    noteStable: assign({ attempts: 0, shortLives: 0, stable: true }),
    noteTurnAsked: assign({ turnAsked: true }),
    forgetTurn: assign({ turnAsked: false }),
    /**
     * Asks for a place among the few peers that start at the same time. An owner that keeps count replaces it, and
     * sends `turn.granted` when there is one; a peer that is stopped or told to retry meanwhile goes without.
     */
    requestTurn: raise({ type: 'turn.granted' }),
    startCatalog: enqueueActions(({ context, enqueue }) => {
      enqueue.spawnChild('catalog', {
        id: catalogId('tools'),
        systemId: `${context.systemId}/${catalogId('tools')}`,
        input: { peer: context.name, kind: 'tools' },
      });
    }),
    wantCatalog: enqueueActions(({ context, event, enqueue, self }) => {
      if (event.type !== 'catalog.wanted') return;
      const id = catalogId(event.kind);
      if (has(self, id)) return;
      enqueue.spawnChild('catalog', {
        id,
        systemId: `${context.systemId}/${id}`,
        input: { peer: context.name, kind: event.kind },
      });
    }),
    wantSubscription: enqueueActions(({ context, event, enqueue, self }) => {
      if (event.type !== 'subscription.wanted') return;
      const { asked } = event;
      if (has(self, 'subscription')) {
        enqueue.sendTo('subscription', { type: 'filter.changed', asked });
        return;
      }
      const { stableAfterMs, backoffMinMs, backoffMaxMs } = context.timing;
      enqueue.spawnChild('subscription', {
        id: 'subscription',
        systemId: `${context.systemId}/subscription`,
        input: {
          peer: context.name,
          asked,
          ackTimeoutMs: ACK_TIMEOUT_MS,
          stableAfterMs,
          backoffMinMs,
          backoffMaxMs,
          maxRefusals: MAX_LISTEN_REFUSALS,
        },
      });
    }),
    wantBreaker: enqueueActions(({ context, event, enqueue, self }) => {
      if (event.type !== 'breaker.wanted') return;
      const openMs = context.timing.breakerOpenMs;
      if (!has(self, 'breaker')) {
        enqueue.spawnChild('breaker', {
          id: 'breaker',
          systemId: `${context.systemId}/breaker`,
          input: {
            peer: context.name,
            threshold: context.breakerThreshold,
            openMs,
            maxOpenMs: openMs * OPEN_GROWTH,
          },
        });
      }
      enqueue.sendTo('breaker', { type: 'call.failed', cause: event.cause });
    }),
    /** Closes the connection, if there is one. The owner of the peer provides it, and holds the disposer besides. */
    releaseConnection: () => {},
    /** Those of them that are there. */
    stopChildren: enqueueActions(({ enqueue }) => {
      for (const id of SERVING) enqueue.stopChild(id);
    }),
  },
});

const modernBasic = 'https://modelcontextprotocol.io/specification/2026-07-28/basic';
const legacyLifecycle = 'https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle';

/**
 * Builds the chart. `random` is the source of the jitter of `reconnecting`, numbers in [0, 1).
 *
 * Tags: `negotiating` (an answer is awaited, or the next attempt), `settled` (nothing changes by itself soon),
 * `callable`, `failed`.
 */
export function createPeerMachine(random: () => number = Math.random) {
  // The chart is the same for all and is built once: building it costs more than a negotiation.
  return random === Math.random
    ? peerMachine
    : peerMachine.provide({ actions: { planBackoff: planBackoffWith(random) } });
}

/** The chart as it ships; for diagrams and for hosts that provide their own parts. */
export const peerMachine = buildPeerMachine();

function buildPeerMachine() {
  return peerSetup.createMachine({
    id: 'peer',
    description: 'One configured server: which era it speaks is decided by evidence and operator intent.',
    initial: 'idle',
    context: ({ input }) => ({
      name: input.name,
      ...(input.key === undefined ? {} : { key: input.key }),
      systemId: input.systemId,
      timing: {
        probeTimeoutMs: input.probeTimeoutMs,
        legacyProbeTimeoutMs: input.legacyProbeTimeoutMs,
        stableAfterMs: input.stableAfterMs,
        backoffMinMs: input.backoffMinMs,
        backoffMaxMs: input.backoffMaxMs,
        retryUnavailableAfterMs: input.retryUnavailableAfterMs,
        breakerOpenMs: input.breakerOpenMs,
      },
      breakerThreshold: input.breakerThreshold,
      maxAttempts: input.maxAttempts,
      preferredRevision: input.preferredRevision,
      probeRevision: input.preferredRevision,
      corrected: false,
      era: 'unknown',
      revision: null,
      server: null,
      reason: null,
      curable: false,
      askedWaitMs: 0,
      attempts: 0,
      backoffMs: 0,
      modernSeen: false,
      turnAsked: false,
      stable: false,
      shortLives: 0,
    }),
    on: {
      'host.stop': { target: '.stopped' },
      'peer.modernEvidence': { actions: 'noteModernEvidence' },
      // N7. In every state: a child may also fail in its cleanup, when the state that ran it is left already, and an
      // error that no transition takes would end the whole peer.
      'xstate.error.actor.*': { target: '.unavailable', actions: 'noteInternalFault' },
    },
    states: {
      idle: {
        description: 'Configured, not started.',
        meta: { spec: modernBasic, rules: ['N17'] },
        tags: ['settled'],
        on: {
          'host.start': { target: 'probing' },
        },
      },
      probing: {
        description: 'Awaits the answer to server/discover.',
        meta: { spec: `${modernBasic}/versioning`, rules: ['N1', 'N2', 'N3', 'N4', 'N5', 'N6', 'N7', 'N13'] },
        tags: ['negotiating'],
        invoke: {
          id: 'probe',
          src: 'probe',
          input: ({ context }) => ({ revision: context.probeRevision, correction: context.corrected }),
        },
        after: {
          probeBackstop: { target: 'unavailable', actions: 'noteBrokenDeadline' },
        },
        on: {
          'discover.result': { target: 'modern', actions: 'selectModern' },
          'discover.unsupportedVersion': {
            target: 'probing',
            reenter: true,
            actions: ['noteModernEvidence', 'takeRevision'],
          },
          'discover.noMutualVersion': { target: 'unavailable', actions: 'noteReason' },
          'discover.correctable': [
            {
              guard: 'isFirstCorrection',
              target: 'probing',
              reenter: true,
              actions: ['noteModernEvidence', 'noteCorrection'],
            },
            { target: 'unavailable', actions: 'noteReason' },
          ],
          'discover.uncorrectable': { target: 'unavailable', actions: ['noteModernEvidence', 'noteReason'] },
          'discover.ambiguous': [
            { guard: 'mayProbeLegacy', target: 'legacyProbe' },
            { target: 'unavailable', actions: 'noteReason' },
          ],
          'discover.legacyOnly': [
            { guard: 'mayProbeLegacy', target: 'legacyProbe' },
            { target: 'unavailable', actions: 'noteReason' },
          ],
          'discover.noSignal': [
            {
              guard: 'hasAttemptsLeft',
              target: 'reconnecting',
              actions: ['noteReason', 'planBackoff', 'releaseConnection'],
            },
            { target: 'unavailable', actions: 'noteReason' },
          ],
          'discover.unauthorized': { target: 'unavailable', actions: 'noteReason' },
        },
      },
      legacyProbe: {
        description: 'Awaits the answer to the one initialize an allowlisted peer may get.',
        meta: { spec: legacyLifecycle, rules: ['N8', 'N9', 'N10', 'N12'] },
        tags: ['negotiating'],
        invoke: {
          id: 'initialize',
          src: 'initialize',
        },
        after: {
          legacyProbeBackstop: { target: 'unavailable', actions: 'noteBrokenDeadline' },
        },
        on: {
          'initialize.result': { target: 'legacy', actions: 'selectLegacy' },
          'initialize.rejected': { target: 'unavailable', actions: 'noteReason' },
          'initialize.unauthorized': { target: 'unavailable', actions: 'noteReason' },
          'peer.modernEvidence': {
            target: 'probing',
            actions: ['beginNegotiation', 'noteModernEvidence', 'releaseConnection'],
          },
        },
      },
      modern: {
        description: 'Serves calls in the modern dialect.',
        meta: { spec: modernBasic, rules: ['N14', 'N15', 'N18'] },
        tags: ['settled', 'callable'],
        entry: 'startCatalog',
        exit: ['stopChildren', 'forgetEra'],
        after: { stableAfter: { actions: 'noteStable' } },
        on: {
          'catalog.wanted': { actions: 'wantCatalog' },
          'subscription.wanted': { actions: 'wantSubscription' },
          'breaker.wanted': { actions: 'wantBreaker' },
          'transport.lost': [
            {
              guard: 'hasAttemptsLeft',
              target: 'reconnecting',
              actions: ['noteLoss', 'countShortLife', 'planBackoff', 'releaseConnection'],
            },
            { target: 'unavailable', actions: ['noteLoss', 'countShortLife', 'nameCrashLoop'] },
          ],
          'call.unsupportedVersion': [
            { guard: 'hasAttemptsLeft', target: 'reconnecting', actions: ['noteLoss', 'planBackoff'] },
            { target: 'unavailable', actions: 'noteLoss' },
          ],
        },
      },
      legacy: {
        description: 'Serves calls in the legacy dialect, and answers the server’s own requests.',
        meta: { spec: legacyLifecycle, rules: ['N11', 'N12', 'N14'] },
        tags: ['settled', 'callable'],
        entry: 'startCatalog',
        exit: ['stopChildren', 'forgetEra'],
        after: { stableAfter: { actions: 'noteStable' } },
        on: {
          'catalog.wanted': { actions: 'wantCatalog' },
          'breaker.wanted': { actions: 'wantBreaker' },
          'transport.lost': [
            {
              guard: 'hasAttemptsLeft',
              target: 'reconnecting',
              actions: ['noteLoss', 'countShortLife', 'planBackoff', 'releaseConnection'],
            },
            { target: 'unavailable', actions: ['noteLoss', 'countShortLife', 'nameCrashLoop'] },
          ],
          'session.lost': [
            {
              guard: 'hasAttemptsLeft',
              target: 'reconnecting',
              actions: ['noteLoss', 'countShortLife', 'planBackoff', 'releaseConnection'],
            },
            { target: 'unavailable', actions: ['noteLoss', 'countShortLife', 'nameCrashLoop'] },
          ],
          'call.unsupportedVersion': [
            { guard: 'hasAttemptsLeft', target: 'reconnecting', actions: ['noteLoss', 'planBackoff'] },
            { target: 'unavailable', actions: 'noteLoss' },
          ],
          'peer.modernEvidence': {
            target: 'probing',
            actions: ['beginNegotiation', 'noteModernEvidence', 'releaseConnection'],
          },
        },
      },
      reconnecting: {
        description:
          'Waits before the next negotiation: exponential backoff with full jitter, then for a turn.',
        meta: { spec: `${modernBasic}/versioning`, rules: ['N6', 'N14'] },
        tags: ['negotiating'],
        exit: ['forgetReason', 'forgetTurn'],
        after: {
          backoff: { actions: ['noteTurnAsked', 'requestTurn'] },
        },
        on: {
          'turn.granted': { guard: 'isDue', target: 'probing', actions: 'beginNegotiation' },
          'host.retry': { target: 'probing', actions: ['beginNegotiation', 'resetAttempts'] },
        },
      },
      unavailable: {
        description: 'Not callable, with a reason and a fix.',
        meta: { spec: `${modernBasic}/versioning`, rules: ['N3', 'N5', 'N6', 'N7', 'N10', 'N12'] },
        tags: ['settled', 'failed'],
        entry: 'releaseConnection',
        exit: ['forgetReason', 'forgetTurn'],
        after: {
          retryUnavailableAfter: {
            guard: 'isRetriedUnasked',
            actions: ['noteTurnAsked', 'requestTurn'],
          },
        },
        on: {
          'turn.granted': {
            guard: 'isDue',
            target: 'probing',
            actions: ['beginNegotiation', 'resetAttempts'],
          },
          'host.retry': { target: 'probing', actions: ['beginNegotiation', 'resetAttempts'] },
          'host.authorized': { target: 'probing', actions: ['beginNegotiation', 'resetAttempts'] },
        },
      },
      stopped: {
        description: 'Ended by the host.',
        meta: { spec: modernBasic, rules: ['N17'] },
        tags: ['settled'],
        entry: 'releaseConnection',
        type: 'final',
      },
    },
  });
}

function faultOf(event: { readonly type: string }): string {
  const error = 'error' in event ? event.error : undefined;
  return error instanceof Error ? sanitizeText(error.message, 300) : 'unknown';
}

function has(self: { getSnapshot(): unknown }, id: string): boolean {
  const { children } = self.getSnapshot() as { readonly children: Readonly<Record<string, unknown>> };
  return children[id] !== undefined;
}
