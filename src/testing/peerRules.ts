/**
 * The rules as far as a chart can keep or break them, each as a check over the recorded life of one peer. A check
 * names what is wrong, or calls `applied` for each step at which its rule had something to say: a rule that never
 * applies was not tested.
 */
import type { PeerStateName } from '../host/facade.js';
import type { PeerContext, PeerTag } from '../machines/ports.js';
import { type ChildName, isModernEvidence, type PeerModelOptions, type Started } from './peerModel.js';

/** One event and what the chart made of it. */
export interface PeerStep {
  readonly atMs: number;
  readonly event: { readonly type: string };
  readonly from: PeerStateName;
  readonly to: PeerStateName;
  /** The context afterwards. */
  readonly context: PeerContext;
  readonly tags: ReadonlySet<PeerTag>;
  /** An open connection was given up. */
  readonly released: boolean;
  readonly stopped: readonly ChildName[];
  readonly started: readonly Started[];
  /** What was said to children: the child and the event. */
  readonly told: readonly string[];
  /** Children that run afterwards. */
  readonly running: readonly ChildName[];
}

export interface PeerRule {
  readonly name: string;
  readonly check: (
    trace: readonly PeerStep[],
    options: PeerModelOptions,
    applied: () => void,
  ) => string | undefined;
}

const probeOf = (step: PeerStep): Started | undefined => step.started.find(({ child }) => child === 'probe');
const sendsInitialize = (step: PeerStep): boolean => step.started.some(({ child }) => child === 'initialize');
const isCallable = (state: PeerStateName): boolean => state === 'modern' || state === 'legacy';
/** The children of the states that serve calls. */
const serves = (child: ChildName): boolean =>
  child.startsWith('catalog') || child === 'subscription' || child === 'breaker';
const isLoss = (type: string): boolean =>
  type === 'transport.lost' || type === 'session.lost' || type === 'call.unsupportedVersion';
/** What made the peer unavailable, given what did before this step. */
const causeOf = ({ from, event }: PeerStep, before: string): string => {
  if ('terminal' in event && event.terminal === true && from === 'probing') return 'terminal';
  return from !== 'unavailable' || event.type.startsWith('xstate.error.') ? event.type : before;
};
/** A probe that belongs to the negotiation under way. */
const continues = ({ from, event }: PeerStep): boolean =>
  from === 'probing' &&
  (event.type === 'discover.unsupportedVersion' || event.type === 'discover.correctable');

/** A rule about each step for itself: `undefined` where it does not apply, else whether it holds. */
function stepRule(
  name: string,
  holds: (step: PeerStep, options: PeerModelOptions) => boolean | undefined,
): PeerRule {
  return {
    name,
    check(trace, options, applied) {
      for (const [index, step] of trace.entries()) {
        const verdict = holds(step, options);
        if (verdict === undefined) continue;
        applied();
        if (!verdict) return `step ${index + 1}: ${step.event.type} led from ${step.from} to ${step.to}`;
      }
      return undefined;
    },
  };
}

/** A rule about the steps that belong to one negotiation, given the steps from its first probe on. */
function negotiationRule(
  name: string,
  count: (step: PeerStep) => boolean,
  most: number,
  what: string,
): PeerRule {
  return {
    name,
    check(trace, _options, applied) {
      let counted = 0;
      for (const [index, step] of trace.entries()) {
        if (probeOf(step) !== undefined && !continues(step)) counted = 0;
        if (!count(step)) continue;
        applied();
        counted += 1;
        if (counted > most) return `step ${index + 1}: ${what} number ${counted} of one negotiation`;
      }
      return undefined;
    },
  };
}

export const peerRules: readonly PeerRule[] = [
  stepRule('N1: a negotiation opens with a probe for the preferred revision', (step, options) => {
    const probe = probeOf(step);
    if (probe === undefined || continues(step)) return undefined;
    return probe.revision === options.preferredRevision && !probe.correction;
  }),
  {
    name: 'N1: nothing is started before the first probe',
    check(trace, _options, applied) {
      const first = trace.find(({ started }) => started.length > 0);
      if (first === undefined) return undefined;
      applied();
      if (first.started[0]?.child === 'probe' && first.event.type === 'host.start') return undefined;
      return `${first.event.type} started ${first.started[0]?.child}`;
    },
  },
  stepRule('N2: only a DiscoverResult in answer to the probe selects modern', (step) => {
    if (step.to !== 'modern' || step.from === 'modern') return undefined;
    const { event, context } = step;
    return (
      step.from === 'probing' &&
      event.type === 'discover.result' &&
      'revision' in event &&
      context.era === 'modern' &&
      context.revision === event.revision
    );
  }),
  stepRule('N3: -32022 with a mutual revision probes again, with that revision', (step) => {
    const { event } = step;
    if (step.from !== 'probing' || event.type !== 'discover.unsupportedVersion') return undefined;
    return step.to === 'probing' && 'revision' in event && probeOf(step)?.revision === event.revision;
  }),
  stepRule('N3: without a mutual revision the peer is unavailable, and nothing more is sent', (step) => {
    if (step.from !== 'probing' || step.event.type !== 'discover.noMutualVersion') return undefined;
    return step.to === 'unavailable' && step.started.length === 0;
  }),
  negotiationRule(
    'N4: one correction a negotiation',
    (step) => continues(step) && step.event.type === 'discover.correctable' && probeOf(step) !== undefined,
    1,
    'correction',
  ),
  stepRule('N4: a request that cannot be corrected makes the peer unavailable', (step) => {
    if (step.from !== 'probing' || step.event.type !== 'discover.uncorrectable') return undefined;
    return step.to === 'unavailable';
  }),
  stepRule('N6: no signal never leads to a legacy probe', (step) => {
    if (step.from !== 'probing' || step.event.type !== 'discover.noSignal') return undefined;
    const terminal = 'terminal' in step.event && step.event.terminal === true;
    return step.to === 'unavailable' || (step.to === 'reconnecting' && !terminal);
  }),
  stepRule('N6: 401 and 403 make the peer unavailable', (step) => {
    if (step.from !== 'probing' || step.event.type !== 'discover.unauthorized') return undefined;
    return step.to === 'unavailable';
  }),
  stepRule('N7, N13: ambiguous or legacy only, and not allowlisted: unavailable', (step, options) => {
    if (step.from !== 'probing' || options.allowLegacy || options.isGuardOverridden) return undefined;
    if (step.event.type !== 'discover.ambiguous' && step.event.type !== 'discover.legacyOnly')
      return undefined;
    return step.to === 'unavailable' && step.started.length === 0;
  }),
  {
    name: 'N7, N13: ambiguous or legacy only, allowlisted, no modern evidence: one legacy probe',
    check(trace, options, applied) {
      if (!options.allowLegacy && !options.isGuardOverridden) return undefined;
      for (const [index, step] of trace.entries()) {
        if (isModernEvidence(step.event.type)) return undefined;
        const { type } = step.event;
        if (step.from !== 'probing' || (type !== 'discover.ambiguous' && type !== 'discover.legacyOnly'))
          continue;
        applied();
        if (step.to !== 'legacyProbe' || !sendsInitialize(step))
          return `step ${index + 1}: led to ${step.to}`;
      }
      return undefined;
    },
  },
  stepRule('N7: a fault of our own is never ambiguous', (step) => {
    if (!step.event.type.startsWith('xstate.error.actor.')) return undefined;
    return step.to === 'unavailable' && step.context.reason?.code === 'internal';
  }),
  stepRule('N7: a transport that breaks its deadline proves nothing', (step) => {
    if (step.from !== 'probing' && step.from !== 'legacyProbe') return undefined;
    if (!step.event.type.startsWith('xstate.after.')) return undefined;
    return step.to === 'unavailable' && step.context.reason?.code === 'transport-broke-deadline';
  }),
  stepRule('N8: initialize goes to an allowlisted peer only', (step, options) =>
    sendsInitialize(step) && !options.isGuardOverridden ? options.allowLegacy : undefined,
  ),
  negotiationRule('N9: one initialize a negotiation', sendsInitialize, 1, 'initialize'),
  stepRule('N9: initialize follows an ambiguous or legacy-only probe and nothing else', (step) => {
    if (!sendsInitialize(step) && step.to !== 'legacyProbe') return undefined;
    if (step.from === 'legacyProbe' && step.to === 'legacyProbe') return step.started.length === 0;
    return (
      step.from === 'probing' &&
      step.to === 'legacyProbe' &&
      (step.event.type === 'discover.ambiguous' || step.event.type === 'discover.legacyOnly')
    );
  }),
  stepRule('N10: only positive legacy evidence selects legacy', (step) => {
    if (step.to !== 'legacy' || step.from === 'legacy') return undefined;
    const { event, context } = step;
    return (
      step.from === 'legacyProbe' &&
      event.type === 'initialize.result' &&
      'revision' in event &&
      context.era === 'legacy' &&
      context.revision === event.revision
    );
  }),
  stepRule('N9, N10: initialize refused ends the negotiation', (step) => {
    const { type } = step.event;
    if (step.from !== 'legacyProbe') return undefined;
    if (type !== 'initialize.rejected' && type !== 'initialize.unauthorized') return undefined;
    return step.to === 'unavailable';
  }),
  {
    name: 'N12: no initialize after modern evidence',
    check(trace, options, applied) {
      if (options.isGuardOverridden) return undefined;
      let isForbidden = false;
      for (const [index, step] of trace.entries()) {
        isForbidden ||= isModernEvidence(step.event.type);
        if (isForbidden && step.started.length > 0) applied();
        if (isForbidden && sendsInitialize(step))
          return `step ${index + 1}: ${step.event.type} sent initialize`;
      }
      return undefined;
    },
  },
  stepRule('N12: modern evidence in the legacy era probes again on a fresh connection', (step) => {
    if (step.event.type !== 'peer.modernEvidence') return undefined;
    if (step.from !== 'legacyProbe' && step.from !== 'legacy') return step.to === step.from;
    return step.to === 'probing' && step.released && probeOf(step)?.fresh === true;
  }),
  stepRule('N12: modern evidence is remembered', (step) => {
    if (step.event.type !== 'peer.modernEvidence') return undefined;
    return step.context.modernSeen;
  }),
  stepRule('N14: a loss means a wait or the end of trying', (step) => {
    const { type } = step.event;
    if (!isCallable(step.from) || (type !== 'transport.lost' && type !== 'call.unsupportedVersion')) {
      return undefined;
    }
    return step.to === 'reconnecting' || step.to === 'unavailable';
  }),
  stepRule('N14: a lost connection is given up', (step) => {
    const { type } = step.event;
    if (!isCallable(step.from) || (type !== 'transport.lost' && type !== 'session.lost')) return undefined;
    return step.from === step.to || step.released;
  }),
  stepRule('N14: a wait ends in a new negotiation', (step) => {
    if (step.from !== 'reconnecting' || step.to === 'reconnecting') return undefined;
    if (step.to === 'stopped') return true;
    return step.to === 'probing' || step.context.reason?.code === 'internal';
  }),
  {
    name: 'N14: reconnects are bounded, and counted anew only after a stable connection or a retry',
    check(trace, options, applied) {
      let begun = 0;
      let stableSince = Number.POSITIVE_INFINITY;
      for (const [index, step] of trace.entries()) {
        if (step.to !== step.from) stableSince = Number.POSITIVE_INFINITY;
        if (isCallable(step.to) && !isCallable(step.from)) stableSince = step.atMs;
        const isRetry = step.event.type === 'host.retry' || step.from === 'unavailable';
        if (isRetry && step.from !== step.to && step.to === 'probing') begun = 0;
        if (step.event.type.startsWith('xstate.after.stableAfter')) {
          applied();
          if (step.atMs - stableSince < options.stableAfterMs) return `step ${index + 1}: stable too early`;
          begun = 0;
        }
        if (step.to === 'reconnecting' && step.from !== 'reconnecting') {
          begun += 1;
          applied();
          if (begun > options.maxAttempts) return `step ${index + 1}: reconnect number ${begun}`;
        }
        if (step.context.attempts !== begun)
          return `step ${index + 1}: ${step.context.attempts} counted, not ${begun}`;
      }
      return undefined;
    },
  },
  {
    name: 'N6, N14: a wait has jitter up to the ceiling, and is at least the Retry-After',
    check(trace, options, applied) {
      for (const [index, step] of trace.entries()) {
        if (step.to !== 'reconnecting' || step.from === 'reconnecting') continue;
        applied();
        const { attempts, backoffMs } = step.context;
        const ceiling = Math.min(options.backoffMaxMs, options.backoffMinMs * 2 ** (attempts - 1));
        const asked = 'retryAfterMs' in step.event ? Number(step.event.retryAfterMs) : 0;
        const least = Math.min(asked, 2 ** 31 - 1);
        if (!(backoffMs >= least && backoffMs <= Math.max(least, ceiling))) {
          return `step ${index + 1}: a wait of ${backoffMs} ms, asked for ${asked}, ceiling ${ceiling}`;
        }
        const next = trace
          .slice(index + 1)
          .find(({ event }) => event.type.startsWith('xstate.after.backoff'));
        const left = trace
          .slice(index + 1)
          .find(({ from, to }) => from === 'reconnecting' && to !== 'reconnecting');
        if (next !== undefined && next === left && next.atMs - step.atMs !== backoffMs) {
          return `step ${index + 1}: waited ${next.atMs - step.atMs} ms instead of ${backoffMs}`;
        }
      }
      return undefined;
    },
  },
  stepRule('N14: era, revision and server are known exactly where calls are served', ({ to, context }) => {
    if (!isCallable(to))
      return context.era === 'unknown' && context.revision === null && context.server === null;
    return context.era === to && context.revision !== null;
  }),
  stepRule(
    'N17: callable is said exactly of modern and legacy',
    ({ to, tags }) => tags.has('callable') === isCallable(to),
  ),
  stepRule('N17: the catalog runs exactly where calls are served', ({ to, running }) =>
    isCallable(to) ? running.includes('catalog') : !running.includes('catalog'),
  ),
  stepRule('what serves calls runs only where calls are served, and each once', ({ to, running }) =>
    isCallable(to)
      ? running.every(serves) && new Set(running).size === running.length
      : !running.some(serves),
  ),
  stepRule('a subscription runs in the modern era only', ({ to, running }) =>
    running.includes('subscription') ? to === 'modern' : undefined,
  ),
  {
    name: 'what is wanted where calls are served is there afterwards, and told',
    check(trace, _options, applied) {
      for (const [index, step] of trace.entries()) {
        if (!isCallable(step.to) || step.from !== step.to) continue;
        const isHeard = hearsOfWant(step, trace.slice(index + 1));
        if (isHeard === false) return `step ${index + 1}: ${step.event.type} in ${step.to}`;
        if (isHeard === true) applied();
      }
      return undefined;
    },
  },
  {
    name: 'N14: a turn starts who asked for it in this stay, and nobody else',
    check(trace, options, applied) {
      let isAsked = false;
      for (const [index, step] of trace.entries()) {
        const { from, to, event } = step;
        if (event.type === 'turn.granted') {
          applied();
          if ((to !== from) !== isAsked || (isAsked && to !== 'probing'))
            return `step ${index + 1}: a turn led from ${from} to ${to}`;
        }
        const isWaitOver =
          (from === 'reconnecting' || from === 'unavailable') && event.type.startsWith('xstate.after.');
        if (isWaitOver && (to === from) !== options.turnsComeLater)
          return `step ${index + 1}: ${event.type} led from ${from} to ${to}`;
        const stays = to === from && !event.type.startsWith('xstate.error.');
        isAsked = stays && (isAsked || isWaitOver);
        if (isAsked !== (step.context.turnAsked === true))
          return `step ${index + 1}: ${isAsked ? 'asked for a turn' : 'did not ask'}, and does not know`;
      }
      return undefined;
    },
  },
  {
    name: 'N14: a crash loop is named when it ends the attempts, with the right number',
    check(trace, options, applied) {
      let short = 0;
      let since = 0;
      for (const [index, step] of trace.entries()) {
        const { from, to, event, context } = step;
        if (isCallable(to) && !isCallable(from)) since = step.atMs;
        if (event.type.startsWith('xstate.after.stableAfter') || event.type === 'host.retry') short = 0;
        if (from === 'unavailable' && to === 'probing') short = 0;
        const isEnd = event.type === 'transport.lost' || event.type === 'session.lost';
        if (!isCallable(from) || !isEnd || to === from) continue;
        if (step.atMs - since < options.stableAfterMs) short += 1;
        if (to !== 'unavailable') continue;
        applied();
        const said = / ended (\d+) times in a row/.exec(context.reason?.message ?? '')?.[1];
        if (said !== (short > 1 ? String(short) : undefined))
          return `step ${index + 1}: ${short} short lives, but it says ${said}`;
      }
      return undefined;
    },
  },
  stepRule('N17: nothing runs where nothing is awaited', ({ to, running }) => {
    if (to === 'probing') return running.join() === 'probe';
    if (to === 'legacyProbe') return running.join() === 'initialize';
    return isCallable(to) ? undefined : running.length === 0;
  }),
  stepRule(
    'a reason and a fix are given exactly where the peer is not callable by failure or loss',
    ({ to, context }) => {
      const { reason } = context;
      if (to !== 'unavailable' && to !== 'reconnecting') return reason === null;
      return reason !== null && reason.message !== '' && reason.fix !== '';
    },
  ),
  {
    name: 'N6, N14: time cures no signal and exhausted attempts, nothing else',
    check(trace, options, applied) {
      let cause = '';
      for (const [index, step] of trace.entries()) {
        if (step.from === 'unavailable' && step.event.type.startsWith('xstate.after.')) {
          applied();
          const isCurable = cause === 'discover.noSignal' || isLoss(cause);
          const isRetried = step.to === 'probing' || options.turnsComeLater;
          if (!isCurable || options.retryUnavailableAfterMs === 0 || !isRetried) {
            return `step ${index + 1}: retried unasked after ${cause}`;
          }
        }
        if (step.to === 'unavailable' && step.started.length === 0) cause = causeOf(step, cause);
      }
      return undefined;
    },
  },
  stepRule('host.stop ends a peer from every state', (step) => {
    if (step.event.type !== 'host.stop') return step.to !== 'stopped' ? undefined : false;
    return step.to === 'stopped' && step.running.length === 0;
  }),
  stepRule('the context is plain JSON, and small', ({ context }) => sizeOf(context) <= 1_000),
];

/** Undefined: the step is about something else. */
function hearsOfWant(
  { event, running, told, started, to }: PeerStep,
  later: readonly PeerStep[],
): boolean | undefined {
  if (event.type === 'breaker.wanted') {
    // One that breaks when it starts cannot be told any more.
    const isBroken =
      told.length === 0 && later.some((next) => next.event.type === 'xstate.error.actor.breaker');
    return running.includes('breaker') && (told.join() === 'breaker call.failed' || isBroken);
  }
  if (event.type === 'subscription.wanted' && to === 'modern')
    return running.includes('subscription') && told.length + started.length === 1;
  if (event.type === 'catalog.wanted' && 'kind' in event)
    return running.some((child) => child === 'catalog' || child === `catalog:${event.kind}`);
  return undefined;
}

/** Leaves of a plain JSON value; infinite for what is none. */
function sizeOf(value: unknown): number {
  if (value === null || typeof value === 'boolean') return 1;
  if (typeof value === 'string') return 1 + value.length / 100;
  if (typeof value === 'number') return Number.isFinite(value) ? 1 : Number.POSITIVE_INFINITY;
  if (typeof value !== 'object') return Number.POSITIVE_INFINITY;
  const prototype: unknown = Object.getPrototypeOf(value);
  if (prototype !== Object.prototype && prototype !== Array.prototype) return Number.POSITIVE_INFINITY;
  return Object.values(value).reduce<number>((sum, member) => sum + sizeOf(member), 0);
}
