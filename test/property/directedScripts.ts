/** Scripts that take every edge of the chart on purpose: a way into a state, one stimulus, and what may follow. */
import type { PeerStateName } from '../../src/host/facade.js';
import type { PeerEvent } from '../../src/machines/ports.js';
import type { UnavailableReason } from '../../src/protocol/reasons.js';
import type { PeerModelOptions } from '../../src/testing/peerModel.js';
import type { Command, Coverage, PeerRig, Plan, Run } from './peerRig.js';

export const preferred = '2027-03-15';
export const older = '2026-07-28';
export const reason: UnavailableReason = {
  code: 'unreachable',
  message: 'It did not work.',
  fix: 'Try again.',
};
const server = { name: 'archive', version: '1.2.3' };

export const baseOptions: PeerModelOptions = {
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
  breakerThreshold: 5,
  breakerOpenMs: 1_000,
  allowLegacy: true,
  isGuardOverridden: false,
  turnsComeLater: false,
};

const noSignal = { type: 'discover.noSignal', reason, terminal: false, retryAfterMs: null } as const;

/** One event of each type, with the variants of which a guard may depend. */
export const events: readonly PeerEvent[] = [
  { type: 'host.start' },
  { type: 'host.retry' },
  { type: 'host.authorized' },
  { type: 'host.stop' },
  { type: 'discover.result', revision: older, server },
  { type: 'discover.unsupportedVersion', revision: older },
  { type: 'discover.noMutualVersion', reason },
  { type: 'discover.correctable', reason },
  { type: 'discover.uncorrectable', reason },
  { type: 'discover.ambiguous', reason },
  { type: 'discover.legacyOnly', reason },
  noSignal,
  { ...noSignal, terminal: true },
  { ...noSignal, retryAfterMs: 70_000 },
  { ...noSignal, retryAfterMs: 1e12 },
  { type: 'discover.unauthorized', reason },
  { type: 'initialize.result', revision: '2025-11-25', server },
  { type: 'initialize.rejected', reason },
  { type: 'initialize.unauthorized', reason },
  { type: 'peer.modernEvidence' },
  { type: 'transport.lost', reason },
  { type: 'session.lost', reason },
  { type: 'call.unsupportedVersion', reason },
  { type: 'turn.granted' },
  { type: 'catalog.wanted', kind: 'prompts' },
  { type: 'catalog.wanted', kind: 'tools' },
  { type: 'subscription.wanted', asked: { toolsListChanged: true } },
  { type: 'breaker.wanted', cause: 'no answer' },
];

const send = (event: PeerEvent): Command => ({ kind: 'send', event });
const deadline: Command = { kind: 'deadline', offsetMs: 0 };
const start = send({ type: 'host.start' });
const ambiguous = send({ type: 'discover.ambiguous', reason });
const result = send({ type: 'discover.result', revision: older, server });
const correctable = send({ type: 'discover.correctable', reason });
const initialized = send({ type: 'initialize.result', revision: '2025-11-25', server });
const lost = send({ type: 'transport.lost', reason });
const granted = send({ type: 'turn.granted' });
const subscribes = send({ type: 'subscription.wanted', asked: { promptsListChanged: true } });
const wanted: readonly Command[] = [
  send({ type: 'catalog.wanted', kind: 'prompts' }),
  send({ type: 'catalog.wanted', kind: 'resources' }),
  send({ type: 'breaker.wanted', cause: 'no answer' }),
];
const plan = (changes: Partial<Plan>): Command => ({
  kind: 'plan',
  plan: { answers: [], throwsAtStart: false, throwsAtStop: false, ...changes },
});

/** The first command is for the first time only. */
const twice = (first: Command, ...again: Command[]): Command[] => [first, ...again, ...again];

/** Ways into each state; some end elsewhere where the options forbid it. */
const ways: readonly (readonly [PeerStateName, readonly Command[]])[] = [
  ['idle', []],
  ['probing', [start]],
  ['probing', [start, correctable]],
  ['probing', [start, send({ type: 'discover.unsupportedVersion', revision: older })]],
  ['probing', [plan({ throwsAtStop: true }), start]],
  ['legacyProbe', [start, ambiguous]],
  ['legacyProbe', [start, correctable, ambiguous]],
  ['legacyProbe', [start, send({ type: 'discover.unsupportedVersion', revision: older }), ambiguous]],
  ['legacyProbe', [start, plan({ throwsAtStop: true }), ambiguous]],
  ['legacyProbe', [plan({ throwsAtStop: true }), start, ambiguous]],
  ['modern', [start, result]],
  ['modern', [start, send(noSignal), deadline, result]],
  ['modern', [start, correctable, result]],
  ['modern', [start, plan({ throwsAtStop: true }), result]],
  ['modern', [plan({ answers: [{ type: 'discover.result', revision: older, server }] }), start]],
  ['modern', [start, result, ...wanted, subscribes]],
  ['modern', [start, result, deadline]],
  ['legacy', [start, ambiguous, initialized]],
  ['legacy', [start, ambiguous, initialized, ...wanted]],
  ['legacy', [start, ambiguous, initialized, deadline]],
  ['legacy', [start, correctable, ambiguous, initialized]],
  ['legacy', [start, send({ type: 'discover.unsupportedVersion', revision: older }), ambiguous, initialized]],
  ['legacy', [start, send(noSignal), deadline, ambiguous, initialized]],
  ['legacy', [start, ambiguous, plan({ throwsAtStop: true }), initialized]],
  ['reconnecting', [start, send(noSignal)]],
  ['reconnecting', [start, result, lost]],
  ['reconnecting', [start, send(noSignal), deadline, send(noSignal)]],
  ['reconnecting', [start, result, send({ type: 'call.unsupportedVersion', reason })]],
  ['reconnecting', [start, correctable, send(noSignal)]],
  ['reconnecting', [start, send(noSignal), deadline]],
  ['reconnecting', [start, send(noSignal), deadline, send({ type: 'host.retry' }), send(noSignal)]],
  ['reconnecting', [plan({ throwsAtStop: true }), start, send(noSignal)]],
  ['unavailable', [start, send({ type: 'discover.unauthorized', reason })]],
  ['unavailable', [start, send(noSignal), deadline, send({ ...noSignal, terminal: true })]],
  ['unavailable', [start, send(noSignal), deadline, send(noSignal), deadline, send(noSignal)]],
  ['unavailable', [start, result, lost, deadline, result, lost, deadline, result, lost]],
  ['unavailable', [start, result, lost, deadline, granted, result, lost, deadline, granted, result, lost]],
  // One more loss, of whatever kind, uses up the attempts.
  ['legacy', [...twice(start, ambiguous, initialized, lost, deadline), ambiguous, initialized]],
  ['unavailable', [start, send(noSignal), deadline]],
  ['unavailable', [start, send(noSignal), deadline, { kind: 'fault', how: 'reports' }]],
  [
    'unavailable',
    [
      start,
      send({ type: 'discover.unsupportedVersion', revision: older }),
      correctable,
      send({ type: 'discover.uncorrectable', reason }),
    ],
  ],
  ['unavailable', [plan({ throwsAtStart: true }), start]],
  ['unavailable', [start, plan({ throwsAtStart: true }), ambiguous]],
  ['unavailable', [start, plan({ throwsAtStart: true }), result]],
  ['unavailable', [plan({ answers: [{ type: 'discover.ambiguous', reason }], throwsAtStart: true }), start]],
  ['unavailable', [plan({ throwsAtStop: true }), start, send({ type: 'discover.unauthorized', reason })]],
];

const stimuli: readonly Command[] = [
  ...events.map(send),
  deadline,
  { kind: 'deadline', offsetMs: -1 },
  { kind: 'deadline', offsetMs: 1 },
  { kind: 'fault', how: 'throws' },
  { kind: 'fault', how: 'reports' },
];

/** Whatever the stimulus led to shows in one of these. */
const tail: readonly Command[] = [
  deadline,
  send({ type: 'host.retry' }),
  ambiguous,
  deadline,
  send({ type: 'host.retry' }),
  correctable,
  send({ type: 'host.stop' }),
];

const optionSets: readonly PeerModelOptions[] = [
  baseOptions,
  { ...baseOptions, allowLegacy: false },
  { ...baseOptions, maxAttempts: 0 },
  { ...baseOptions, isGuardOverridden: true },
  { ...baseOptions, retryUnavailableAfterMs: 0 },
  { ...baseOptions, maxAttempts: 0, isGuardOverridden: true },
  { ...baseOptions, turnsComeLater: true },
  { ...baseOptions, maxAttempts: 0, turnsComeLater: true },
];

export interface DirectedScript {
  /** The state that the script is about. */
  readonly about: PeerStateName;
  readonly options: PeerModelOptions;
  readonly commands: readonly Command[];
}

export const directedScripts: readonly DirectedScript[] = optionSets.flatMap((options) =>
  ways.flatMap(([about, way]) =>
    stimuli.map((stimulus) => ({ about, options, commands: [...way, stimulus, ...tail] })),
  ),
);

export function runDirected(rig: PeerRig, script: DirectedScript, seed: number, coverage?: Coverage): Run {
  let position = 0;
  const next = (): Command | null => {
    const command = script.commands[position];
    position += 1;
    return command ?? null;
  };
  return rig.run(script.options, seed, next, coverage);
}
