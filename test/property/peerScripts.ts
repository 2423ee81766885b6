/** Scripts from numbers: each number is one command, read against the model so that most of them mean something. */
import fc from 'fast-check';
import type { PeerStateName } from '../../src/host/facade.js';
import type { PeerEvent, SubscriptionFilter } from '../../src/machines/ports.js';
import { LIST_KINDS } from '../../src/protocol/lists.js';
import type { ReasonCode, UnavailableReason } from '../../src/protocol/reasons.js';
import type { PeerModel, PeerModelOptions } from '../../src/testing/peerModel.js';
import { type Command, type Coverage, describe, type PeerRig, type Plan, type Run } from './peerRig.js';

type EventType = PeerEvent['type'];

const revisions = ['2026-07-28', '2026-11-01', '2027-03-15', '2025-11-25', ''];
const servers = [null, { name: 'archive', version: '1.2.3' }, { name: '', version: '' }];
const codes: readonly ReasonCode[] = ['unreachable', 'not-allowlisted', 'internal', 'connection-lost'];
const filters: readonly SubscriptionFilter[] = [
  { toolsListChanged: true },
  { promptsListChanged: true, resourceSubscriptions: ['file:///a'] },
];
const waits = [null, 0, 250, 7_000, 120_000, 2 ** 31 + 5, Number.POSITIVE_INFINITY];

/** Takes pieces off a number. */
class Dice {
  private left: number;

  constructor(value: number) {
    this.left = value;
  }

  below(limit: number): number {
    const value = this.left % limit;
    this.left = Math.floor(this.left / limit);
    return value;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }
}

function reasonFrom(dice: Dice): UnavailableReason {
  return { code: dice.pick(codes), message: 'It did not work.', fix: 'Try something else.' };
}

function eventFrom(type: EventType, dice: Dice): PeerEvent {
  switch (type) {
    case 'discover.result':
    case 'initialize.result':
      return { type, revision: dice.pick(revisions), server: dice.pick(servers) };
    case 'discover.unsupportedVersion':
      return { type, revision: dice.pick(revisions) };
    case 'discover.noSignal':
      return {
        type,
        reason: reasonFrom(dice),
        terminal: dice.below(4) === 1,
        retryAfterMs: dice.pick(waits),
      };
    case 'host.start':
    case 'host.retry':
    case 'host.authorized':
    case 'host.stop':
    case 'peer.modernEvidence':
    case 'turn.granted':
      return { type };
    case 'catalog.wanted':
      return { type, kind: dice.pick(LIST_KINDS) };
    case 'subscription.wanted':
      return { type, asked: dice.pick(filters) };
    case 'breaker.wanted':
      return { type, cause: 'no answer' };
    default:
      return { type, reason: reasonFrom(dice) };
  }
}

/** What a peer in a state is likely to get. */
const apt: Readonly<Record<PeerStateName, readonly EventType[]>> = {
  idle: ['host.start'],
  probing: [
    'discover.ambiguous',
    'discover.result',
    'discover.legacyOnly',
    'discover.noSignal',
    'discover.unsupportedVersion',
    'discover.correctable',
    'discover.ambiguous',
    'discover.noMutualVersion',
    'discover.uncorrectable',
    'discover.unauthorized',
    'discover.noSignal',
    'discover.result',
    'discover.correctable',
    'peer.modernEvidence',
  ],
  legacyProbe: [
    'initialize.result',
    'initialize.rejected',
    'initialize.unauthorized',
    'initialize.result',
    'peer.modernEvidence',
    'initialize.result',
  ],
  modern: [
    'transport.lost',
    'call.unsupportedVersion',
    'peer.modernEvidence',
    'transport.lost',
    'catalog.wanted',
    'subscription.wanted',
    'breaker.wanted',
  ],
  legacy: [
    'transport.lost',
    'session.lost',
    'call.unsupportedVersion',
    'peer.modernEvidence',
    'catalog.wanted',
    'breaker.wanted',
  ],
  reconnecting: ['turn.granted', 'host.retry'],
  unavailable: ['host.retry', 'host.authorized', 'peer.modernEvidence', 'turn.granted'],
  stopped: [],
};

export const allEvents: readonly EventType[] = [
  'host.start',
  'host.retry',
  'host.authorized',
  'discover.result',
  'discover.unsupportedVersion',
  'discover.noMutualVersion',
  'discover.correctable',
  'discover.uncorrectable',
  'discover.ambiguous',
  'discover.legacyOnly',
  'discover.noSignal',
  'discover.unauthorized',
  'initialize.result',
  'initialize.rejected',
  'initialize.unauthorized',
  'peer.modernEvidence',
  'transport.lost',
  'session.lost',
  'call.unsupportedVersion',
  'turn.granted',
  'catalog.wanted',
  'subscription.wanted',
  'breaker.wanted',
];

/** How many of a hundred commands are of which kind; the rest are events that fit the state. */
export interface Mix {
  readonly anyEvent: number;
  readonly deadline: number;
  readonly time: number;
  readonly fault: number;
  readonly plan: number;
  readonly stop: number;
}

export const balanced: Mix = { anyEvent: 12, deadline: 14, time: 6, fault: 5, plan: 6, stop: 2 };

export function commandFrom(value: number, mix: Mix, model: PeerModel): Command {
  const dice = new Dice(value);
  // The largest values, so that a script shrinks towards events that fit.
  let kind = 99 - dice.below(100);
  const isKind = (share: number): boolean => {
    kind -= share;
    return kind < 0;
  };
  if (isKind(mix.stop)) return { kind: 'send', event: { type: 'host.stop' } };
  if (isKind(mix.plan)) return { kind: 'plan', plan: planFrom(dice) };
  if (isKind(mix.fault)) return { kind: 'fault', how: dice.below(2) === 0 ? 'throws' : 'reports' };
  if (isKind(mix.time)) return { kind: 'advance', ms: dice.below(dice.pick([50, 2_000, 90_000])) };
  if (isKind(mix.deadline)) return { kind: 'deadline', offsetMs: dice.pick([0, -1, 0, 1] as const) };
  if (isKind(mix.anyEvent)) return { kind: 'send', event: eventFrom(dice.pick(allEvents), dice) };
  if (model.state === 'reconnecting' && model.deadlineMs !== null && dice.below(3) > 0)
    return { kind: 'deadline', offsetMs: 0 };
  return { kind: 'send', event: eventFrom(dice.pick(apt[model.state]), dice) };
}

function planFrom(dice: Dice): Plan {
  const behaviour = dice.below(6);
  const answers: PeerEvent[] = [];
  if (behaviour !== 1 && behaviour !== 2) answers.push(eventFrom(dice.pick(apt.probing), dice));
  if (behaviour === 5) answers.push(eventFrom(dice.pick(allEvents), dice));
  return {
    answers,
    throwsAtStart: behaviour === 1 || behaviour === 3,
    throwsAtStop: behaviour === 2 || behaviour === 4,
  };
}

export function optionsFrom(value: number): PeerModelOptions {
  const dice = new Dice(value);
  const allowLegacy = dice.below(3) > 0;
  const maxAttempts = dice.pick([2, 0, 1, 4, 40]);
  const [backoffMinMs, backoffMaxMs] = dice.pick([
    [500, 30_000],
    [1, 8],
    [2_000, 2_000],
  ] as const);
  return {
    name: 'archive',
    systemId: 'host/peer:archive',
    preferredRevision: dice.pick(['2027-03-15', '2026-07-28']),
    probeTimeoutMs: dice.pick([15_000, 1, 400]),
    legacyProbeTimeoutMs: dice.pick([9_000, 2, 400]),
    stableAfterMs: dice.pick([30_000, 10]),
    backoffMinMs,
    backoffMaxMs,
    maxAttempts,
    retryUnavailableAfterMs: dice.pick([60_000, 0, 5]),
    breakerThreshold: 5,
    breakerOpenMs: 1_000,
    allowLegacy,
    isGuardOverridden: dice.below(5) === 1,
    turnsComeLater: dice.below(3) === 1,
  };
}

export interface Script {
  readonly options: number;
  readonly commands: readonly number[];
}

const number = fc.nat({ max: 2 ** 31 - 1 });

export const scripts: fc.Arbitrary<Script> = fc.record({
  options: number,
  commands: fc.array(number, { minLength: 1, maxLength: 30, size: 'max' }),
});

export function runScript(rig: PeerRig, script: Script, mix: Mix, coverage?: Coverage): Run {
  let position = 0;
  const next = (model: PeerModel): Command | null => {
    const value = script.commands[position];
    position += 1;
    return value === undefined ? null : commandFrom(value, mix, model);
  };
  return rig.run(optionsFrom(script.options), script.options, next, coverage);
}

/** A script in words, for the report of a failure. */
export function explain(rig: PeerRig, script: Script, mix: Mix): string {
  const lines: string[] = [JSON.stringify(optionsFrom(script.options))];
  let position = 0;
  rig.run(optionsFrom(script.options), script.options, (model) => {
    const value = script.commands[position];
    position += 1;
    if (value === undefined) return null;
    const command = commandFrom(value, mix, model);
    lines.push(`${position}. in ${model.state}: ${describe(command)}`);
    return command;
  });
  return lines.join('\n');
}
