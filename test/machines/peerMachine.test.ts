import { afterEach, describe, expect, it, vi } from 'vitest';
import { createActor, fromCallback } from 'xstate';
import type { PeerStateName } from '../../src/host/facade.js';
import {
  ACK_TIMEOUT_MS,
  createPeerMachine,
  MAX_LISTEN_REFUSALS,
  peerMachine,
  peerSetup,
} from '../../src/machines/peerMachine.js';
import type { PeerContext, PeerEvent, ProbeInput, SubscriptionFilter } from '../../src/machines/ports.js';
import { LIST_KINDS, type ListKind } from '../../src/protocol/lists.js';
import type { ReasonCode } from '../../src/protocol/reasons.js';
import {
  ambiguous,
  because,
  drivePeer,
  input,
  lost,
  noSignal,
  older,
  type PeerDriver,
  preferred,
  selectsLegacy,
  selectsModern,
  server,
  start,
  wayInto,
} from './peerDriver.js';

afterEach(() => {
  vi.restoreAllMocks();
});

/** What is done to a peer, if it is not an event. */
type Doing = 'its deadline passes' | 'its child throws' | 'its child reports a fault';

interface Row {
  readonly from: PeerStateName;
  readonly on: PeerEvent | Doing;
  readonly to: PeerStateName;
  readonly reason?: ReasonCode;
  /** Where the guard says no, or the attempts are used up. */
  readonly but?: 'not allowlisted' | 'no attempts left' | 'corrected already' | 'never retried unasked';
  /** Children that start. */
  readonly starts?: readonly string[];
}

const row = (
  from: PeerStateName,
  on: PeerEvent | Doing,
  to: PeerStateName,
  more: Omit<Row, 'from' | 'on' | 'to'> = {},
): Row => ({
  from,
  on,
  to,
  ...more,
});
const evidence: PeerEvent = { type: 'peer.modernEvidence' };
const discover = (
  verdict: 'noMutualVersion' | 'correctable' | 'uncorrectable' | 'ambiguous' | 'legacyOnly' | 'unauthorized',
  code: ReasonCode,
): PeerEvent => ({ type: `discover.${verdict}`, reason: because(code) });
const sessionLost: PeerEvent = { type: 'session.lost', reason: because('connection-lost') };
const versionRefused: PeerEvent = { type: 'call.unsupportedVersion', reason: because('no-mutual-version') };
const probe = { starts: ['probe'] } as const;

const rows: readonly Row[] = [
  row('idle', start, 'probing', probe),
  row('idle', evidence, 'idle'),
  row('idle', { type: 'host.stop' }, 'stopped'),

  row('probing', selectsModern, 'modern', { starts: ['fetch'] }),
  row('probing', { type: 'discover.unsupportedVersion', revision: older }, 'probing', probe),
  row('probing', discover('noMutualVersion', 'no-mutual-version'), 'unavailable', {
    reason: 'no-mutual-version',
  }),
  row('probing', discover('correctable', 'header-mismatch'), 'probing', probe),
  row('probing', discover('correctable', 'header-mismatch'), 'unavailable', {
    but: 'corrected already',
    reason: 'header-mismatch',
  }),
  row('probing', discover('uncorrectable', 'missing-capability'), 'unavailable', {
    reason: 'missing-capability',
  }),
  row('probing', ambiguous, 'legacyProbe', { starts: ['initialize'] }),
  row('probing', ambiguous, 'unavailable', { but: 'not allowlisted', reason: 'not-allowlisted' }),
  row('probing', discover('legacyOnly', 'not-allowlisted'), 'legacyProbe', { starts: ['initialize'] }),
  row('probing', discover('legacyOnly', 'not-allowlisted'), 'unavailable', {
    but: 'not allowlisted',
    reason: 'not-allowlisted',
  }),
  row('probing', noSignal, 'reconnecting', { reason: 'unreachable' }),
  row('probing', noSignal, 'unavailable', { but: 'no attempts left', reason: 'unreachable' }),
  row('probing', { ...noSignal, terminal: true } as PeerEvent, 'unavailable', { reason: 'unreachable' }),
  row('probing', discover('unauthorized', 'unauthorized'), 'unavailable', { reason: 'unauthorized' }),
  row('probing', evidence, 'probing'),
  row('probing', 'its deadline passes', 'unavailable', { reason: 'transport-broke-deadline' }),
  row('probing', 'its child throws', 'unavailable', { reason: 'internal' }),
  row('probing', 'its child reports a fault', 'unavailable', { reason: 'internal' }),
  row('probing', { type: 'host.stop' }, 'stopped'),

  row('legacyProbe', selectsLegacy, 'legacy', { starts: ['fetch'] }),
  row('legacyProbe', { type: 'initialize.rejected', reason: because('legacy-rejected') }, 'unavailable', {
    reason: 'legacy-rejected',
  }),
  row('legacyProbe', { type: 'initialize.unauthorized', reason: because('unauthorized') }, 'unavailable', {
    reason: 'unauthorized',
  }),
  row('legacyProbe', evidence, 'probing', probe),
  row('legacyProbe', 'its deadline passes', 'unavailable', { reason: 'transport-broke-deadline' }),
  row('legacyProbe', 'its child throws', 'unavailable', { reason: 'internal' }),
  row('legacyProbe', 'its child reports a fault', 'unavailable', { reason: 'internal' }),
  row('legacyProbe', { type: 'host.stop' }, 'stopped'),

  row('modern', lost, 'reconnecting', { reason: 'connection-lost' }),
  row('modern', lost, 'unavailable', { but: 'no attempts left', reason: 'connection-lost' }),
  row('modern', versionRefused, 'reconnecting', { reason: 'no-mutual-version' }),
  row('modern', versionRefused, 'unavailable', { but: 'no attempts left', reason: 'no-mutual-version' }),
  row('modern', evidence, 'modern'),
  row('modern', 'its deadline passes', 'modern'),
  row('modern', 'its child reports a fault', 'unavailable', { reason: 'internal' }),
  row('modern', { type: 'host.stop' }, 'stopped'),

  row('legacy', lost, 'reconnecting', { reason: 'connection-lost' }),
  row('legacy', lost, 'unavailable', { but: 'no attempts left', reason: 'connection-lost' }),
  row('legacy', sessionLost, 'reconnecting', { reason: 'connection-lost' }),
  row('legacy', sessionLost, 'unavailable', { but: 'no attempts left', reason: 'connection-lost' }),
  row('legacy', versionRefused, 'reconnecting', { reason: 'no-mutual-version' }),
  row('legacy', versionRefused, 'unavailable', { but: 'no attempts left', reason: 'no-mutual-version' }),
  row('legacy', evidence, 'probing', probe),
  row('legacy', 'its deadline passes', 'legacy'),
  row('legacy', 'its child reports a fault', 'unavailable', { reason: 'internal' }),
  row('legacy', { type: 'host.stop' }, 'stopped'),

  row('reconnecting', 'its deadline passes', 'probing', probe),
  row('reconnecting', { type: 'host.retry' }, 'probing', probe),
  row('reconnecting', evidence, 'reconnecting', { reason: 'unreachable' }),
  row('reconnecting', { type: 'host.stop' }, 'stopped'),

  row('unavailable', { type: 'host.retry' }, 'probing', probe),
  row('unavailable', { type: 'host.authorized' }, 'probing', probe),
  row('unavailable', evidence, 'unavailable', { reason: 'unauthorized' }),
  row('unavailable', 'its deadline passes', 'unavailable', {
    but: 'never retried unasked',
    reason: 'unauthorized',
  }),
  row('unavailable', { type: 'host.stop' }, 'stopped'),
];

/** Events that say nothing in a state. */
const wronglyTimed: readonly (readonly [PeerStateName, PeerEvent])[] = [
  ['idle', selectsModern],
  ['idle', { type: 'host.retry' }],
  ['idle', { type: 'turn.granted' }],
  ['probing', selectsLegacy],
  ['probing', start],
  ['probing', lost],
  ['probing', { type: 'turn.granted' }],
  ['probing', { type: 'subscription.wanted', asked: { toolsListChanged: true } }],
  ['legacyProbe', selectsModern],
  ['legacyProbe', ambiguous],
  ['legacyProbe', lost],
  ['modern', selectsModern],
  ['modern', ambiguous],
  ['modern', sessionLost],
  ['modern', { type: 'host.retry' }],
  ['modern', { type: 'turn.granted' }],
  ['legacy', selectsLegacy],
  ['legacy', selectsModern],
  ['legacy', { type: 'turn.granted' }],
  ['legacy', { type: 'subscription.wanted', asked: { toolsListChanged: true } }],
  ['reconnecting', selectsModern],
  ['reconnecting', ambiguous],
  ['reconnecting', lost],
  ['reconnecting', { type: 'turn.granted' }],
  ['reconnecting', { type: 'catalog.wanted', kind: 'prompts' }],
  ['reconnecting', { type: 'breaker.wanted', cause: 'no answer' }],
  ['unavailable', selectsModern],
  ['unavailable', selectsLegacy],
  ['unavailable', start],
  ['unavailable', lost],
  ['unavailable', { type: 'turn.granted' }],
];

function said(on: PeerEvent | Doing): string {
  return typeof on === 'string' ? on : on.type;
}

function into(state: PeerStateName, but: Row['but']): PeerDriver {
  const peer = drivePeer({ ...(but === 'no attempts left' && { maxAttempts: 0 }) });
  peer.send(...wayInto[state]);
  if (but === 'corrected already') peer.send(discover('correctable', 'header-mismatch'));
  expect(peer.state).toBe(state);
  return peer;
}

/** Moves time to the next deadline. */
function wait(peer: PeerDriver): void {
  peer.clock.advanceTo(peer.clock.nextDueMs ?? Number.NaN);
}

function childName(state: PeerStateName): string {
  return state === 'probing' ? 'probe' : state === 'legacyProbe' ? 'initialize' : 'catalog';
}

describe('each edge', () => {
  for (const { from, on, to, but, reason = null, starts = [] } of rows) {
    it(`${from}, ${said(on)}${but === undefined ? '' : `, ${but}`} → ${to}`, () => {
      if (on === 'its child throws') {
        const throws = drivePeer({
          onStart: (child) => {
            if (child === childName(from)) throw new Error('broken part');
            return undefined;
          },
        });
        throws.send(...wayInto[from]);
        expect([throws.state, throws.reason, throws.errors]).toEqual([to, reason, []]);
        return;
      }
      let peer = into(from, but);
      if (but === 'not allowlisted') {
        peer = drivePeer({ mayProbeLegacy: false });
        peer.send(...wayInto[from]);
      }
      const before = peer.started.length;
      if (on === 'its deadline passes') peer.clock.advanceTo(peer.clock.nextDueMs ?? 0);
      else if (on === 'its child reports a fault') {
        const fault = { type: `xstate.error.actor.${childName(from)}`, error: new Error('broken part') };
        peer.send(fault as unknown as PeerEvent);
      } else peer.send(on);
      expect(peer.state).toBe(to);
      expect(peer.reason).toBe(reason);
      expect(peer.started.slice(before)).toEqual(starts);
      expect(peer.errors).toEqual([]);
    });
  }
});

describe('an event at the wrong time changes nothing', () => {
  for (const [state, event] of wronglyTimed) {
    it(`${event.type} in ${state}`, () => {
      const peer = into(state, undefined);
      const { context, started } = peer;
      const before = started.length;
      peer.send(event);
      expect(peer.state).toBe(state);
      expect(peer.context).toEqual(context);
      expect(peer.started.length).toBe(before);
    });
  }
});

describe('negotiation', () => {
  it('-32022 with no mutually supported version fails without initialize', () => {
    const peer = drivePeer({ mayProbeLegacy: true });
    peer.send(start, discover('noMutualVersion', 'no-mutual-version'));
    expect(peer.state).toBe('unavailable');
    expect(peer.reason).toBe('no-mutual-version');
    expect(peer.started).toEqual(['probe']);
    // Neither does it come later.
    peer.send(ambiguous, { type: 'discover.legacyOnly', reason: because('not-allowlisted') }, evidence);
    peer.clock.advance(1_000_000);
    expect(peer.state).toBe('unavailable');
    expect(peer.started).toEqual(['probe']);
  });

  it('recognized modern errors never downgrade an allowlisted peer', () => {
    const recognized: readonly PeerEvent[] = [
      { type: 'discover.unsupportedVersion', revision: older },
      discover('noMutualVersion', 'no-mutual-version'),
      discover('correctable', 'header-mismatch'),
      discover('uncorrectable', 'missing-capability'),
    ];
    for (const first of recognized) {
      for (const second of recognized) {
        const peer = drivePeer({ mayProbeLegacy: true });
        peer.send(start, first, second);
        expect(['probing', 'unavailable']).toContain(peer.state);
        expect(peer.started).not.toContain('initialize');
      }
    }
  });

  it('a selected era is cached for the connection', () => {
    for (const state of ['modern', 'legacy'] as const) {
      const peer = into(state, undefined);
      const { era, revision, server: known } = peer.context;
      expect(era).toBe(state);
      const before = [...peer.started];
      // Whatever comes late, and however long it lasts: no second probe.
      peer.send(ambiguous, selectsModern, selectsLegacy, start, { type: 'host.authorized' });
      peer.clock.advance(10_000_000);
      expect(peer.state).toBe(state);
      expect(peer.context).toMatchObject({ era, revision, server: known });
      expect(peer.started).toEqual(before);
      peer.send(lost);
      expect(peer.context).toMatchObject({ era: 'unknown', revision: null, server: null });
    }
  });

  it('initialize that reached nobody is tried again by itself, a rejection by the peer is not', () => {
    for (const curable of [true, false]) {
      const peer = drivePeer({ retryUnavailableAfterMs: 1_000 });
      peer.send(start, ambiguous, { type: 'initialize.rejected', reason: because('unreachable'), curable });
      expect(peer.state).toBe('unavailable');
      peer.clock.advance(1_000);
      expect(peer.state).toBe(curable ? 'probing' : 'unavailable');
    }
  });

  it('an injected source of randomness makes another chart than the one that ships', () => {
    expect(createPeerMachine()).toBe(peerMachine);
    expect(createPeerMachine(() => 0)).not.toBe(peerMachine);
  });

  it('probes first with the preferred revision, and again with the one that is mutual', () => {
    const peer = drivePeer();
    peer.send(start, { type: 'discover.unsupportedVersion', revision: older });
    expect(peer.probes).toEqual([
      { revision: preferred, correction: false },
      { revision: older, correction: false },
    ]);
    expect(peer.context.modernSeen).toBe(true);
  });

  it('corrects a request once, and a new negotiation may correct again', () => {
    const peer = drivePeer();
    const correctable = discover('correctable', 'header-mismatch');
    peer.send(start, correctable);
    expect(peer.probes.at(-1)).toEqual({ revision: preferred, correction: true });
    peer.send(correctable);
    expect(peer.state).toBe('unavailable');
    peer.send({ type: 'host.retry' }, correctable);
    expect(peer.state).toBe('probing');
    expect(peer.probes.map(({ correction }) => correction)).toEqual([false, true, false, true]);
  });

  it('modern evidence during the legacy probe or in the legacy era gives up the connection and probes anew', () => {
    for (const state of ['legacyProbe', 'legacy'] as const) {
      const peer = into(state, undefined);
      peer.send(evidence);
      expect(peer.state).toBe('probing');
      expect(peer.released).toBe(1);
      expect(peer.probes.at(-1)).toEqual({ revision: preferred, correction: false });
      expect(peer.context).toMatchObject({ era: 'unknown', modernSeen: true });
    }
  });

  it('asks the guard that decides, and nobody else', () => {
    const peer = drivePeer({ mayProbeLegacy: false });
    peer.send(start, ambiguous, { type: 'host.retry' }, discover('legacyOnly', 'not-allowlisted'));
    expect(peer.started).toEqual(['probe', 'probe']);
    expect(peer.state).toBe('unavailable');
  });

  it('keeps to what it ships with: parts that are not provided fail, and no peer is allowlisted', () => {
    const actor = createActor(peerMachine, { input }).start();
    actor.send(start);
    expect(actor.getSnapshot().value).toBe('unavailable');
    expect(actor.getSnapshot().context.reason?.message).toContain('"probe" was not provided');
    actor.stop();
    const probed = peerMachine.provide({
      actors: { probe: fromCallback<PeerEvent, ProbeInput>(({ sendBack }) => sendBack(ambiguous)) },
    });
    const other = createActor(probed, { input }).start();
    other.send(start);
    expect(other.getSnapshot().value).toBe('unavailable');
    expect(other.getSnapshot().context.reason?.code).toBe('not-allowlisted');
    other.stop();
  });
});

describe('loss and waiting', () => {
  it('waits with full jitter under a ceiling that doubles', () => {
    const waits = [0, 0.5, 0.999_999_9].map((random) => {
      const peer = drivePeer({ random, maxAttempts: 10 });
      peer.send(start);
      const seen: number[] = [];
      for (let attempt = 0; attempt < 8; attempt += 1) {
        peer.send(noSignal);
        seen.push(peer.context.backoffMs);
        wait(peer);
      }
      return seen;
    });
    expect(waits).toEqual([
      [0, 0, 0, 0, 0, 0, 0, 0],
      [250, 500, 1_000, 2_000, 4_000, 8_000, 15_000, 15_000],
      [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000],
    ]);
  });

  it('waits at least as long as it was asked to, and no delay overflows a timer', () => {
    const peer = drivePeer({ random: 0.999 });
    peer.send(start, { ...noSignal, retryAfterMs: 90_000 } as PeerEvent);
    peer.clock.advance(89_999);
    expect(peer.state).toBe('reconnecting');
    peer.clock.advance(1);
    expect(peer.state).toBe('probing');
    peer.send({ ...noSignal, retryAfterMs: Number.POSITIVE_INFINITY } as PeerEvent);
    expect(peer.context.backoffMs).toBe(2 ** 31 - 1);
    peer.clock.advance(10_000_000);
    expect(peer.state).toBe('reconnecting');
  });

  it('gives up after the last attempt, and tries again by itself later', () => {
    const peer = drivePeer();
    peer.send(start, noSignal);
    wait(peer);
    peer.send(noSignal);
    wait(peer);
    peer.send(noSignal);
    expect(peer.state).toBe('unavailable');
    peer.clock.advance(59_999);
    expect(peer.state).toBe('unavailable');
    peer.clock.advance(1);
    expect(peer.state).toBe('probing');
    expect(peer.context.attempts).toBe(0);
  });

  it('does not try again by itself where time cures nothing, or where the host wants none of it', () => {
    const hopeless = drivePeer();
    hopeless.send(start, { ...noSignal, terminal: true } as PeerEvent);
    hopeless.clock.advance(1_000_000);
    expect(hopeless.state).toBe('unavailable');
    const never = drivePeer({ maxAttempts: 0, retryUnavailableAfterMs: 0 });
    never.send(start, noSignal);
    never.clock.advance(1_000_000);
    expect(never.state).toBe('unavailable');
  });

  it('counts a connection that did not live long as another attempt', () => {
    const peer = drivePeer();
    peer.send(start, selectsModern, lost);
    expect(peer.context.attempts).toBe(1);
    wait(peer);
    peer.send(selectsModern);
    peer.clock.advance(29_999);
    expect(peer.context.attempts).toBe(1);
    peer.clock.advance(1);
    expect(peer.context.attempts).toBe(0);
  });

  it('gives up the connection on a loss, but leaves it to the calls in flight when a revision is refused', () => {
    const peer = drivePeer({ maxAttempts: 5 });
    peer.send(start, selectsModern, versionRefused);
    expect(peer.released).toBe(0);
    peer.send({ type: 'host.retry' }, selectsModern, lost);
    expect(peer.released).toBe(1);
  });
});

describe('turns', () => {
  const retry: PeerEvent = { type: 'host.retry' };
  const granted: PeerEvent = { type: 'turn.granted' };

  it('a wait that is over asks for a turn, and the negotiation begins when there is one', () => {
    let asked = 0;
    const peer = drivePeer({ onTurnAsked: () => (asked += 1) });
    peer.send(start, noSignal);
    peer.clock.advance(peer.context.backoffMs - 1);
    peer.send(granted);
    expect([peer.state, asked]).toEqual(['reconnecting', 0]);
    peer.clock.advance(1);
    expect([peer.state, asked]).toEqual(['reconnecting', 1]);
    expect(peer.context.turnAsked).toBe(true);
    peer.clock.advance(1_000_000);
    expect([peer.state, asked]).toEqual(['reconnecting', 1]);
    peer.send(granted);
    expect(peer.state).toBe('probing');
    expect(peer.probes.at(-1)).toEqual({ revision: preferred, correction: false });
    expect(peer.context).toMatchObject({ turnAsked: false, attempts: 1, reason: null });
  });

  it('so does a peer that is tried again unasked', () => {
    let asked = 0;
    const peer = drivePeer({ maxAttempts: 0, onTurnAsked: () => (asked += 1) });
    peer.send(start, noSignal, granted);
    expect(peer.state).toBe('unavailable');
    peer.clock.advance(60_000);
    expect([peer.state, asked]).toEqual(['unavailable', 1]);
    peer.send(granted);
    expect(peer.state).toBe('probing');
    expect(peer.context.attempts).toBe(0);
  });

  it('a turn that comes when the peer has gone on starts nobody', () => {
    const peer = drivePeer({ onTurnAsked: () => {}, maxAttempts: 5 });
    peer.send(start, noSignal);
    wait(peer);
    peer.send(retry, noSignal, granted);
    expect(peer.state).toBe('reconnecting');
    wait(peer);
    peer.send(retry, discover('unauthorized', 'unauthorized'), granted);
    expect(peer.state).toBe('unavailable');
    const patient = drivePeer({ onTurnAsked: () => {}, maxAttempts: 0 });
    patient.send(start, noSignal);
    wait(patient);
    patient.send(
      { type: 'xstate.error.actor.probe', error: new Error('late') } as unknown as PeerEvent,
      granted,
    );
    expect(patient.state).toBe('unavailable');
  });

  it('a peer that is told to retry does not wait for one, and counts anew', () => {
    const peer = drivePeer({ onTurnAsked: () => {} });
    peer.send(start, noSignal, retry);
    expect(peer.state).toBe('probing');
    expect(peer.context.attempts).toBe(0);
    peer.send(noSignal);
    wait(peer);
    peer.send(retry);
    expect(peer.state).toBe('probing');
  });

  it('one whose turn comes at once goes at once', () => {
    let send = (): void => {};
    const peer = drivePeer({ onTurnAsked: () => send() });
    send = () => peer.send(granted);
    peer.send(start, noSignal);
    wait(peer);
    expect(peer.state).toBe('probing');
  });

  it('a hundred peers that lose their server together start no more at a time than there are places', () => {
    const places = 8;
    const queue: PeerDriver[] = [];
    const peers: PeerDriver[] = [];
    for (let index = 0; index < 100; index += 1) {
      const peer: PeerDriver = drivePeer({ onTurnAsked: () => queue.push(peer), random: index / 100 });
      peers.push(peer);
      peer.send(start, selectsModern, lost);
      expect(peer.state).toBe('reconnecting');
    }
    for (const peer of peers) peer.clock.advance(500);
    expect(queue).toHaveLength(100);
    for (let round = 0; queue.length > 0; round += 1) {
      for (const peer of queue.splice(0, places)) peer.send(granted);
      const probing = peers.filter(({ state }) => state === 'probing');
      expect(probing.length).toBeLessThanOrEqual(places);
      for (const peer of probing) peer.send(selectsModern);
      expect(round).toBeLessThan(20);
    }
    expect(peers.every(({ state }) => state === 'modern')).toBe(true);
  });
});

describe('a server that dies again and again', () => {
  const dies = (peer: PeerDriver, livedMs: number): void => {
    if (peer.state === 'reconnecting') wait(peer);
    peer.send(selectsModern);
    peer.clock.advance(livedMs);
    peer.send(lost);
  };

  it('is said to do so, once the attempts are used up', () => {
    const peer = drivePeer();
    peer.send(start);
    dies(peer, 10);
    dies(peer, 29_999);
    expect(peer.context.reason?.message).toBe('It is connection-lost.');
    dies(peer, 0);
    expect(peer.state).toBe('unavailable');
    expect(peer.context.reason).toEqual({
      code: 'connection-lost',
      message:
        'It is connection-lost. The connection ended 3 times in a row, each time before it had lived for 30000 ms (stableAfterMs).',
      fix: 'See to it.',
    });
  });

  it('a connection that lived is not counted among those that did not', () => {
    const peer = drivePeer();
    peer.send(start);
    dies(peer, 40_000);
    dies(peer, 10);
    dies(peer, 10);
    expect(peer.state).toBe('unavailable');
    expect(peer.context.reason?.message).toContain('ended 2 times in a row');
    const once = drivePeer({ maxAttempts: 1 });
    once.send(start);
    dies(once, 40_000);
    dies(once, 10);
    expect(once.state).toBe('unavailable');
    expect(once.context.reason?.message).toBe('It is connection-lost.');
  });

  it('and neither is what was before the host tried again', () => {
    const peer = drivePeer();
    peer.send(start);
    for (let round = 0; round < 3; round += 1) dies(peer, 10);
    peer.send({ type: 'host.retry' });
    expect(peer.context.shortLives).toBe(0);
    dies(peer, 10);
    peer.send({ type: 'host.retry' });
    expect(peer.context.shortLives).toBe(0);
  });

  it('sessions that are gone count as well, a refused revision does not', () => {
    const peer = drivePeer();
    const again = (...events: PeerEvent[]): void => {
      if (peer.state === 'reconnecting') wait(peer);
      peer.send(ambiguous, selectsLegacy, ...events);
    };
    peer.send(start);
    again(sessionLost);
    again(sessionLost);
    again(sessionLost);
    expect(peer.context.reason?.message).toContain('ended 3 times in a row');
    const refused = drivePeer({ maxAttempts: 0 });
    refused.send(start, selectsModern, versionRefused);
    expect(refused.context).toMatchObject({ shortLives: 0, reason: { message: 'It is no-mutual-version.' } });
  });
});

describe('children that are wanted', () => {
  const wants = (kind: ListKind): PeerEvent => ({ type: 'catalog.wanted', kind });
  const subscribe = (asked: SubscriptionFilter): PeerEvent => ({ type: 'subscription.wanted', asked });
  const breaks: PeerEvent = { type: 'breaker.wanted', cause: 'no answer' };
  const systemOf = (peer: PeerDriver, id: string) =>
    peer.actor.system.get(`host/peer:archive/${id}` as never);
  const childOf = (peer: PeerDriver, id: string) => peer.actor.getSnapshot().children[id]?.getSnapshot();

  it('each list has its own catalog, from the first time that it is wanted', () => {
    for (const state of ['modern', 'legacy'] as const) {
      const peer = into(state, undefined);
      const before = peer.started.length;
      for (const kind of LIST_KINDS) peer.send(wants(kind), wants(kind));
      const ids = ['catalog', 'catalog:prompts', 'catalog:resources', 'catalog:resourceTemplates'];
      expect(peer.children).toEqual(ids);
      expect(peer.started.slice(before)).toEqual([
        'fetch prompts',
        'fetch resources',
        'fetch resourceTemplates',
      ]);
      for (const id of ids) expect(systemOf(peer, id)).toBeDefined();
      peer.send(lost);
      expect(peer.children).toEqual([]);
      for (const id of ids) expect(systemOf(peer, id)).toBeUndefined();
    }
  });

  it('one subscription hears what is wanted; a legacy peer has none', () => {
    const peer = into('modern', undefined);
    peer.send(subscribe({ toolsListChanged: true }));
    expect(peer.children).toEqual(['catalog', 'subscription']);
    expect(systemOf(peer, 'subscription')).toBeDefined();
    expect(childOf(peer, 'subscription')).toMatchObject({
      value: { requested: 'opening' },
      context: {
        peer: 'archive',
        maxRefusals: MAX_LISTEN_REFUSALS,
        timing: {
          ackTimeoutMs: ACK_TIMEOUT_MS,
          stableAfterMs: 30_000,
          backoffMinMs: 500,
          backoffMaxMs: 30_000,
        },
      },
    });
    peer.send(subscribe({ toolsListChanged: true }), subscribe({ promptsListChanged: true }));
    expect(peer.children).toEqual(['catalog', 'subscription']);
    peer.send(lost);
    expect(peer.started.slice(2)).toEqual([
      'listen {"toolsListChanged":true}',
      'listen ended',
      'listen {"promptsListChanged":true}',
      'listen ended',
    ]);
    expect(peer.children).toEqual([]);
    wait(peer);
    peer.send(selectsModern, subscribe({}));
    expect(childOf(peer, 'subscription')).toMatchObject({ context: { asked: {}, attempts: 0 } });
    const legacy = into('legacy', undefined);
    legacy.send(subscribe({ toolsListChanged: true }));
    expect(legacy.children).toEqual(['catalog']);
  });

  it('a breaker is there from the first failure on, and has counted it', () => {
    for (const state of ['modern', 'legacy'] as const) {
      const peer = into(state, undefined);
      peer.send(breaks);
      expect(systemOf(peer, 'breaker')).toBeDefined();
      expect(childOf(peer, 'breaker')).toMatchObject({
        value: 'closed',
        context: {
          peer: 'archive',
          threshold: 3,
          openMs: 1_000,
          maxOpenMs: 10_000,
          failures: 1,
          cause: 'no answer',
        },
      });
      peer.send(breaks, breaks);
      expect(childOf(peer, 'breaker')).toMatchObject({ value: 'open' });
      peer.clock.advance(1_000);
      expect(childOf(peer, 'breaker')).toMatchObject({ value: 'halfOpen' });
      peer.send(lost);
      wait(peer);
      // A new connection begins with a clean sheet.
      peer.send(...(state === 'modern' ? [selectsModern] : [ambiguous, selectsLegacy]), breaks);
      expect(childOf(peer, 'breaker')).toMatchObject({ value: 'closed', context: { failures: 1 } });
    }
  });

  it('all of them end with the peer, and leave no timer', () => {
    const peer = into('modern', undefined);
    for (const kind of LIST_KINDS) peer.send(wants(kind));
    peer.send(subscribe({}), breaks, breaks, breaks, { type: 'host.stop' });
    expect(peer.children).toEqual([]);
    expect(peer.clock.pendingTimers).toBe(0);
    expect(peer.started.at(-1)).toBe('listen ended');
  });

  it('a hundred connections leave nothing behind', () => {
    const peer = drivePeer({ maxAttempts: 1_000 });
    peer.send(start);
    for (let round = 0; round < 100; round += 1) {
      peer.send(selectsModern, wants('resources'), subscribe({}), breaks);
      expect(peer.children).toHaveLength(4);
      peer.send(lost);
      expect(peer.children).toEqual([]);
      expect(peer.clock.pendingTimers).toBe(1);
      peer.send({ type: 'host.retry' });
    }
  });
});

describe('children', () => {
  it('one catalog runs where calls are served, under one system id, again and again', () => {
    const peer = drivePeer({ maxAttempts: 100 });
    peer.send(start);
    for (let round = 0; round < 50; round += 1) {
      peer.send(selectsModern);
      expect(peer.children).toEqual(['catalog']);
      expect(peer.actor.system.get('host/peer:archive/catalog' as never)).toBeDefined();
      peer.send(lost);
      expect(peer.children).toEqual([]);
      expect(peer.actor.system.get('host/peer:archive/catalog' as never)).toBeUndefined();
      peer.send({ type: 'host.retry' });
    }
    expect(peer.started.filter((child) => child === 'fetch')).toHaveLength(50);
  });

  it('a fetch that crashes costs the catalog, not the peer', () => {
    const peer = drivePeer({
      onFetch: () => {
        throw new Error('broken fetch');
      },
    });
    peer.send(start, selectsModern);
    expect(peer.state).toBe('modern');
    const catalog = peer.actor.getSnapshot().children['catalog'];
    expect(catalog?.getSnapshot()).toMatchObject({ status: 'active', value: 'failed' });
  });

  it('a child that answers and then crashes makes the peer unavailable, whatever its answer led to', () => {
    const answers: readonly PeerEvent[] = [
      selectsModern,
      ambiguous,
      noSignal,
      discover('unauthorized', 'unauthorized'),
      { type: 'discover.unsupportedVersion', revision: older },
    ];
    for (const answer of answers) {
      let probes = 0;
      const peer = drivePeer({
        onStart(child, send) {
          if (child !== 'probe' || probes > 0) return undefined;
          probes += 1;
          send(answer);
          throw new Error('broken probe');
        },
      });
      peer.send(start);
      expect([answer.type, peer.state, peer.reason]).toEqual([answer.type, 'unavailable', 'internal']);
      expect(peer.children).toEqual([]);
      expect(peer.errors).toEqual([]);
      peer.send({ type: 'host.retry' });
      expect(peer.state).toBe('probing');
    }
  });

  it('a child whose cleanup crashes makes the peer unavailable, and does not end it', () => {
    for (const next of [selectsModern, ambiguous, noSignal, discover('unauthorized', 'unauthorized')]) {
      const peer = drivePeer({
        onStart: (child) =>
          child === 'probe'
            ? () => {
                throw new Error('broken cleanup');
              }
            : undefined,
      });
      peer.send(start, next);
      expect([peer.state, peer.reason, peer.errors]).toEqual(['unavailable', 'internal', []]);
      peer.send({ type: 'host.retry' }, { type: 'host.stop' });
      expect(peer.state).toBe('stopped');
    }
  });

  it('a stopped child is not heard any more', () => {
    let late: ((event: PeerEvent) => void) | undefined;
    const peer = drivePeer({
      onStart: (child, send) => {
        if (child === 'probe') late ??= send;
        return undefined;
      },
    });
    peer.send(start, discover('unauthorized', 'unauthorized'), { type: 'host.retry' });
    expect(peer.state).toBe('probing');
    late?.(selectsModern);
    expect(peer.state).toBe('probing');
  });

  it('says what crashed in one bounded line that is fit for a screen', () => {
    const message = `${String.fromCharCode(27)}[31m${'x'.repeat(5_000)}`;
    const peer = drivePeer({
      onStart: () => {
        throw new Error(message);
      },
    });
    peer.send(start);
    const said = peer.context.reason?.message ?? '';
    expect(said.length).toBeLessThan(400);
    expect(said).not.toContain(String.fromCharCode(27));
    const odd = drivePeer({
      onStart: () => {
        throw 'a text';
      },
    });
    odd.send(start);
    expect(odd.context.reason?.message).toBe('A fault of this host: unknown');
  });
});

describe('the end', () => {
  it('host.stop ends a peer from every state: no child, no timer, no connection, no era, no reason', () => {
    for (const state of Object.keys(wayInto) as PeerStateName[]) {
      if (state === 'stopped') continue;
      const peer = into(state, undefined);
      peer.send({ type: 'host.stop' });
      expect(peer.state).toBe('stopped');
      expect(peer.actor.getSnapshot().status).toBe('done');
      expect(peer.children).toEqual([]);
      expect(peer.clock.pendingTimers).toBe(0);
      expect(peer.released).toBeGreaterThan(0);
      expect(peer.context).toMatchObject({ era: 'unknown', revision: null, server: null, reason: null });
    }
  });

  it('nothing wakes a stopped peer', () => {
    vi.spyOn(console, 'warn').mockImplementation(() => {});
    const peer = into('stopped', undefined);
    peer.send(start, { type: 'host.retry' }, evidence, selectsModern);
    peer.clock.advance(1_000_000);
    expect(peer.state).toBe('stopped');
    expect(peer.started).toEqual([]);
  });
});

describe('what a host, a viewer and the documents read', () => {
  const states = Object.entries(peerMachine.root.states);

  it('every state has a description, a place in the specification, and its rules', () => {
    for (const [name, state] of states) {
      expect(state.description, name).toMatch(/\.$/);
      expect(state.meta, name).toMatchObject({
        spec: expect.stringMatching(/^https:\/\/modelcontextprotocol\.io\/specification\//),
        rules: expect.arrayContaining([expect.stringMatching(/^N\d+$/)]),
      });
    }
    expect(peerMachine.root.description).toMatch(/\.$/);
  });

  it('every state is either negotiating or settled; two are callable, one is failed', () => {
    for (const [name, { tags }] of states) {
      expect(
        tags.filter((tag) => tag === 'negotiating' || tag === 'settled'),
        name,
      ).toHaveLength(1);
    }
    const tagged = (tag: string) => states.filter(([, { tags }]) => tags.includes(tag)).map(([name]) => name);
    expect(tagged('callable')).toEqual(['modern', 'legacy']);
    expect(tagged('failed')).toEqual(['unavailable']);
  });

  it('guards, actions, delays and actors all have names', () => {
    for (const [name, state] of states) {
      for (const transition of [...state.transitions.values()].flat()) {
        if (transition.guard !== undefined) expect(typeof transition.guard, name).toBe('string');
        for (const action of transition.actions) expect(typeof action, name).toBe('string');
      }
    }
  });

  it('one state invokes initialize, and every way into it is guarded', () => {
    const invoking = states.filter(([, { invoke }]) => invoke.some(({ src }) => src === 'initialize'));
    expect(invoking.map(([name]) => name)).toEqual(['legacyProbe']);
    const ways = states
      .flatMap(([, state]) => [...state.transitions.values()].flat())
      .filter(({ target }) => target?.some(({ key }) => key === 'legacyProbe'));
    expect(ways.map(({ guard, eventType }) => [eventType, guard])).toEqual([
      ['discover.ambiguous', 'mayProbeLegacy'],
      ['discover.legacyOnly', 'mayProbeLegacy'],
    ]);
  });

  it('an action on an event that is not its own changes no more than it must', () => {
    const actions = [
      'takeRevision',
      'selectModern',
      'selectLegacy',
      'wantCatalog',
      'wantSubscription',
      'wantBreaker',
      'nameCrashLoop',
    ] as const;
    const chart = peerSetup.createMachine({
      context: peerMachine.config.context as () => PeerContext,
      on: {
        'host.start': { actions: [...actions] },
        'host.retry': { actions: ['noteReason'] },
        'host.authorized': { actions: ['noteLoss'] },
        'host.stop': { actions: ['noteInternalFault'] },
      },
    });
    const actor = createActor(chart, { input }).start();
    const before = actor.getSnapshot().context;
    actor.send(start);
    actor.send({ type: 'host.retry' });
    expect(actor.getSnapshot().context).toEqual(before);
    actor.send({ type: 'host.authorized' });
    expect(actor.getSnapshot().context).toEqual({ ...before, curable: true });
    actor.send({ type: 'host.stop' });
    expect(actor.getSnapshot().context.reason?.message).toBe('A fault of this host: unknown');
    actor.stop();
  });

  it('two machines do not share their chance', () => {
    const one = createPeerMachine(() => 0);
    const other = createPeerMachine(() => 0.5);
    expect(one.implementations.actions.planBackoff).not.toBe(other.implementations.actions.planBackoff);
  });

  it('the context is plain JSON', () => {
    for (const state of Object.keys(wayInto) as PeerStateName[]) {
      const { context } = into(state, undefined);
      expect(JSON.parse(JSON.stringify(context))).toEqual(context);
    }
    expect(into('modern', undefined).context.server).toEqual(server);
  });
});
