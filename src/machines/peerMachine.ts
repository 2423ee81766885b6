/**
 * The life of one peer: negotiation, service, loss. Every transition is in this file. What an answer means is decided
 * before an event is sent (`protocol/evidence.ts`); the guards here are policy only. Actors that touch the wire are
 * injected with `.provide`; a default that is not replaced fails, and a failure is never ambiguous (N7).
 *
 * What cannot be seen here: `initialize` leaves the host only with a permit from the peer's ledger, asked in the
 * tick of the write. A host that overrides `mayProbeLegacy` changes the chart, not the wire.
 */
import { assign, enqueueActions, fromCallback, setup } from 'xstate';
import { sanitizeText } from '../protocol/sanitize.js';
import { catalogMachine } from './catalogMachine.js';
import type { PeerContext, PeerEvent, PeerInput, PeerTag, ProbeInput } from './ports.js';

/** How much later than the connection's own deadline the chart gives up on a transport, in milliseconds. */
export const BACKSTOP_MS = 1_000;

/** Node turns a longer delay into 1 ms: a huge Retry-After would become no wait at all. */
const LONGEST_DELAY_MS = 2 ** 31 - 1;

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
    const ceiling = Math.min(backoffMaxMs, backoffMinMs * 2 ** Math.min(context.attempts, 30));
    const asked = event.type === 'discover.noSignal' ? (event.retryAfterMs ?? 0) : 0;
    const waited = Math.max(asked, Math.round(random() * ceiling));
    return { attempts: context.attempts + 1, backoffMs: Math.min(waited, LONGEST_DELAY_MS) };
  });

/** The parts, without the chart: a host may `.provide` others. */
export const peerSetup = setup({
  types,
  actors: {
    /** Opens the connection if there is none, sends one probe, reports one `discover.*` event. */
    probe: fromCallback<PeerEvent, ProbeInput>(notProvided('probe')),
    /** Reopens the connection if the probe ended it, sends `initialize` if permitted, reports one event. */
    initialize: fromCallback<PeerEvent>(notProvided('initialize')),
    /** Keeps the peer's lists. */
    catalog: catalogMachine,
  },
  delays: {
    probeBackstop: ({ context }) => context.timing.probeTimeoutMs + BACKSTOP_MS,
    legacyProbeBackstop: ({ context }) => context.timing.legacyProbeTimeoutMs + BACKSTOP_MS,
    stableAfter: ({ context }) => context.timing.stableAfterMs,
    backoff: ({ context }) => context.backoffMs,
    retryUnavailableAfter: ({ context }) => context.timing.retryUnavailableAfterMs,
  },
  guards: {
    /** Asks the ledger. The default says no: without an owner there is no allowlist. */
    mayProbeLegacy: () => false,
    isFirstCorrection: ({ context }) => !context.corrected,
    hasAttemptsLeft: ({ context, event }) =>
      context.attempts < context.maxAttempts && !(event.type === 'discover.noSignal' && event.terminal),
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
        ? { era: 'modern' as const, revision: event.revision, server: event.server, modernSeen: true }
        : {},
    ),
    selectLegacy: assign(({ event }) =>
      event.type === 'initialize.result'
        ? { era: 'legacy' as const, revision: event.revision, server: event.server }
        : {},
    ),
    noteModernEvidence: assign({ modernSeen: true }),
    forgetEra: assign({ era: 'unknown' as const, revision: null, server: null }),
    noteReason: assign(({ event }) => ({
      reason: 'reason' in event ? event.reason : null,
      curable:
        event.type === 'discover.noSignal' ? !event.terminal : 'curable' in event && event.curable === true,
    })),
    forgetReason: assign({ reason: null, curable: false }),
    noteLoss: assign(({ event }) => ({ reason: 'reason' in event ? event.reason : null, curable: true })),
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
    resetAttempts: assign({ attempts: 0 }),
    startCatalog: enqueueActions(({ context, enqueue }) => {
      enqueue.spawnChild('catalog', {
        id: 'catalog',
        systemId: `${context.systemId}/catalog`,
        input: { peer: context.name },
      });
    }),
    /** Closes the connection, if there is one. The owner of the peer provides it, and holds the disposer besides. */
    releaseConnection: () => {},
    stopCatalog: enqueueActions(({ enqueue }) => enqueue.stopChild('catalog')),
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
      systemId: input.systemId,
      timing: {
        probeTimeoutMs: input.probeTimeoutMs,
        legacyProbeTimeoutMs: input.legacyProbeTimeoutMs,
        stableAfterMs: input.stableAfterMs,
        backoffMinMs: input.backoffMinMs,
        backoffMaxMs: input.backoffMaxMs,
        retryUnavailableAfterMs: input.retryUnavailableAfterMs,
      },
      maxAttempts: input.maxAttempts,
      preferredRevision: input.preferredRevision,
      probeRevision: input.preferredRevision,
      corrected: false,
      era: 'unknown',
      revision: null,
      server: null,
      reason: null,
      curable: false,
      attempts: 0,
      backoffMs: 0,
      modernSeen: false,
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
        exit: ['stopCatalog', 'forgetEra'],
        after: { stableAfter: { actions: 'resetAttempts' } },
        on: {
          'transport.lost': [
            {
              guard: 'hasAttemptsLeft',
              target: 'reconnecting',
              actions: ['noteLoss', 'planBackoff', 'releaseConnection'],
            },
            { target: 'unavailable', actions: 'noteLoss' },
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
        exit: ['stopCatalog', 'forgetEra'],
        after: { stableAfter: { actions: 'resetAttempts' } },
        on: {
          'transport.lost': [
            {
              guard: 'hasAttemptsLeft',
              target: 'reconnecting',
              actions: ['noteLoss', 'planBackoff', 'releaseConnection'],
            },
            { target: 'unavailable', actions: 'noteLoss' },
          ],
          'session.lost': [
            {
              guard: 'hasAttemptsLeft',
              target: 'reconnecting',
              actions: ['noteLoss', 'planBackoff', 'releaseConnection'],
            },
            { target: 'unavailable', actions: 'noteLoss' },
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
        description: 'Waits before the next negotiation: exponential backoff with full jitter.',
        meta: { spec: `${modernBasic}/versioning`, rules: ['N6', 'N14'] },
        tags: ['negotiating'],
        exit: 'forgetReason',
        after: {
          backoff: { target: 'probing', actions: 'beginNegotiation' },
        },
        on: {
          'host.retry': { target: 'probing', actions: 'beginNegotiation' },
        },
      },
      unavailable: {
        description: 'Not callable, with a reason and a fix.',
        meta: { spec: `${modernBasic}/versioning`, rules: ['N3', 'N5', 'N6', 'N7', 'N10', 'N12'] },
        tags: ['settled', 'failed'],
        entry: 'releaseConnection',
        exit: 'forgetReason',
        after: {
          retryUnavailableAfter: {
            guard: 'isRetriedUnasked',
            target: 'probing',
            actions: ['beginNegotiation', 'resetAttempts'],
          },
        },
        on: {
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
