/**
 * The second gate: whatever a host puts in the place of the chart's parts, `initialize` reaches the wire only with a
 * permit of the peer's ledger, which is issued in the tick of the write.
 */
import * as fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { fromCallback } from 'xstate';
import { createRatchet } from '../../src/host/ledger.js';
import type { PeerMachine, PeerOwner } from '../../src/host/peer.js';
import type { PeerEvent } from '../../src/machines/ports.js';
import { createIdSource } from '../../src/protocol/jsonRpc.js';
import { initializeMembers, legacyDialect } from '../../src/protocol/legacy.js';
import { scripts } from '../../src/testing/arbitraries.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { advance } from '../../src/testing/drive.js';
import { checkTrace } from '../../src/testing/invariants.js';
import type { HttpAnswer, Script, Step } from '../../src/testing/script.js';
import { scriptedTransport } from '../../src/testing/scriptedPeer.js';
import { WireTrace } from '../../src/testing/wireTrace.js';
import { Connection } from '../../src/transports/connection.js';
import { LegacyPermit } from '../../src/transports/permit.js';
import type { TransportFactory } from '../../src/transports/transport.js';
import { FAR_SIDE, ORACLE } from './support/hostRun.js';
import {
  absentProbe,
  eagerInitialize,
  lyingProbe,
  PermitRig,
  type RigOptions,
  withoutGuard,
} from './support/permitRig.js';
import { printViolation } from './support/wireProperty.js';

/** A server that would accept `initialize` at any time. */
const willing = { on: 'initialize', steps: [initializeResult()] };

function initializeResult(): Step {
  const serverInfo = { name: 'old', version: '1' };
  return {
    say: {
      jsonrpc: '2.0',
      id: '$id',
      result: { protocolVersion: '2025-11-25', capabilities: {}, serverInfo },
    },
  };
}

const answers = (...steps: Step[]): Script => ({
  lives: [{ reactions: [{ on: 'server/discover', steps }, willing] }],
});
const refusing = answers({ say: { jsonrpc: '2.0', id: '$id', error: { code: -32601, message: 'no' } } });
const silent = answers();
const modern = answers({
  say: { jsonrpc: '2.0', id: '$id', result: { supportedVersions: ['2027-06-01'], capabilities: {} } },
});
const http = (answer: HttpAnswer): RigOptions => ({
  script: answers({ http: answer }),
  perRequestStreams: true,
});
const refusal = { jsonrpc: '2.0', id: '$id', error: { code: -32601, message: 'no' } };

test('the way it is meant: one initialize, after an ambiguous probe of an allowlisted peer', async () => {
  const rig = new PermitRig({ script: refusing });
  await rig.play();
  expect([rig.state, rig.initializes]).toEqual(['legacy', 1]);
  await rig.stop();
});

/** Far sides that forbid `initialize`, with what makes them do so. */
const FORBIDDING: readonly [string, RigOptions][] = [
  ['a peer that is not allowlisted', { script: refusing, allowLegacy: false }],
  ['a silent one that is not allowlisted', { script: silent, allowLegacy: false }],
  ['a modern answer', { script: modern }],
  [
    'an unsupported version',
    {
      script: answers({
        say: {
          jsonrpc: '2.0',
          id: '$id',
          error: { code: -32022, message: 'x', data: { supported: ['2027-01-01'] } },
        },
      }),
    },
  ],
  [
    'an unsupported version without an id',
    { script: answers({ say: { jsonrpc: '2.0', id: null, error: { code: -32022, message: 'x' } } }) },
  ],
  [
    'a modern error in a batch array',
    { script: answers({ say: [{ jsonrpc: '2.0', id: 'x', error: { code: -32020, message: 'x' } }] }) },
  ],
  [
    'an unknown modern revision',
    {
      script: answers({
        say: { jsonrpc: '2.0', id: '$id', result: { supportedVersions: ['2099-01-01'], capabilities: {} } },
      }),
    },
  ],
  ['401', http({ status: 401, type: 'json', body: [refusal] })],
  ['403', http({ status: 403, type: 'html' })],
  ['503', http({ status: 503, type: 'json', body: [refusal] })],
  ['429', http({ status: 429, type: 'none', retryAfterMs: 5 })],
  ['a redirect to another origin', http({ status: 302, type: 'none' })],
  ['an HTML page', http({ status: 200, type: 'html', text: '<html>' })],
  ['an answer through a redirect', http({ status: 200, type: 'json', body: [refusal], redirected: true })],
  [
    '401 with a modern error in it',
    http({
      status: 401,
      type: 'json',
      body: [{ jsonrpc: '2.0', id: null, error: { code: -32022, message: 'x' } }],
    }),
  ],
  [
    'a process that cannot be started',
    { script: { lives: [{ opens: { fails: 'spawn-failed' }, reactions: [willing] }] } },
  ],
  ['another executable behind the command', { script: refusing, currentPin: () => 'another pin' }],
];

/** What a host may put in the place of the chart's parts. */
const OVERRIDES: readonly [string, (machine: PeerMachine, owner: PeerOwner) => PeerMachine][] = [
  ['the guard overridden', (machine) => withoutGuard(machine)],
  ['a probe that lies', (machine, owner) => machine.provide({ actors: { probe: lyingProbe(owner) } })],
  [
    'a probe that lies and the guard overridden',
    (machine, owner) => withoutGuard(machine).provide({ actors: { probe: lyingProbe(owner) } }),
  ],
  [
    'that and an initialize sent twice',
    (machine, owner) =>
      withoutGuard(machine).provide({
        actors: { probe: lyingProbe(owner), initialize: eagerInitialize(owner) },
      }),
  ],
];

describe.each(OVERRIDES)('with %s', (_name, override) => {
  test.each(FORBIDDING)('no initialize after %s', async (_what, options) => {
    const rig = new PermitRig(options);
    await rig.play(override(rig.owner.machine(), rig.owner));
    await rig.send({ type: 'host.retry' });
    expect(rig.initializes).toBe(0);
    await rig.stop();
    expect(rig.clock.pendingTimers).toBe(0);
  });
});

test('no initialize where no probe was sent', async () => {
  const rig = new PermitRig({ script: refusing });
  await rig.play(withoutGuard(rig.owner.machine()).provide({ actors: { probe: absentProbe } }));
  expect([rig.state, rig.initializes]).toEqual(['unavailable', 0]);
  await rig.stop();
});

test('an actor that sends initialize twice gets one permit', async () => {
  const rig = new PermitRig({
    script: { lives: [{ reactions: [{ on: 'server/discover', steps: [{ say: refusal }] }] }] },
  });
  await rig.play(rig.owner.machine().provide({ actors: { initialize: eagerInitialize(rig.owner) } }));
  expect(rig.initializes).toBe(1);
  await rig.stop();
});

describe('a snapshot of legacyProbe', () => {
  test('restored with a fresh owner sends nothing', async () => {
    const first = new PermitRig({
      script: { lives: [{ reactions: [{ on: 'server/discover', steps: [{ say: refusal }] }] }] },
    });
    const machine = first.owner
      .machine()
      .provide({ actors: { initialize: fromCallback<PeerEvent>(() => undefined) } });
    first.start(machine);
    await advance(first.clock, 10);
    const snapshot = first.snapshot();
    expect(first.state).toBe('legacyProbe');
    await first.stop();

    const second = new PermitRig({ script: refusing });
    await second.play(second.owner.machine(), snapshot);
    expect(second.initializes).toBe(0);
    expect(second.state).toBe('unavailable');
    await second.stop();
  });

  test('taken by hand, from a machine that never probed, sends nothing', async () => {
    const rig = new PermitRig({ script: refusing });
    const { machine } = { machine: rig.owner.machine() };
    const snapshot = {
      ...machine.resolveState({ value: 'legacyProbe', context: undefined as never }),
      children: {},
    };
    const context = { ...contextOf(rig), modernSeen: false };
    await rig.play(machine, { ...snapshot, value: 'legacyProbe', status: 'active', context });
    expect(rig.initializes).toBe(0);
    await rig.stop();
  });
});

/** The context that a new chart of this rig begins with. */
function contextOf(rig: PermitRig): object {
  const { name, systemId, preferredRevision, maxAttempts, ...timing } = rig.owner.input('rig');
  return {
    name,
    systemId,
    timing,
    maxAttempts,
    preferredRevision,
    probeRevision: preferredRevision,
    corrected: false,
    era: 'unknown',
    revision: null,
    server: null,
    reason: null,
    curable: false,
    attempts: 0,
    backoffMs: 0,
  };
}

describe('modern evidence is remembered', () => {
  test.each(OVERRIDES)('through removal and adding again, with %s', async (_name, override) => {
    const clock = createSimulatedClock();
    const shared = { clock, trace: new WireTrace(clock), ratchet: createRatchet() };
    const first = new PermitRig({ script: modern, ...shared });
    await first.play();
    expect(first.state).toBe('modern');
    await first.stop();
    const second = new PermitRig({ script: refusing, ...shared });
    await second.play(override(second.owner.machine(), second.owner));
    expect(second.initializes).toBe(0);
    await second.stop();
  });

  test('a modern error that comes while initialize waits for the pipe takes its permit away', async () => {
    const rig = new PermitRig({
      script: answers(
        { pipe: 'hold' },
        { say: refusal },
        { say: { jsonrpc: '2.0', id: '$probe', error: { code: -32022, message: 'late' } }, afterMs: 5 },
        { pipe: 'release', afterMs: 10 },
      ),
    });
    await rig.play(withoutGuard(rig.owner.machine()));
    expect(rig.initializes).toBe(0);
    await rig.stop();
  });

  test('a pin that changes while initialize waits for the pipe takes its permit away', async () => {
    let pin = 'the pin';
    const rig = new PermitRig({
      script: answers({ pipe: 'hold' }, { say: refusal }, { pipe: 'release', afterMs: 10 }),
      currentPin: () => pin,
    });
    rig.start();
    await advance(rig.clock, 5);
    pin = 'another pin';
    await advance(rig.clock, 10_000);
    expect(rig.initializes).toBe(0);
    expect(rig.state).toBe('unavailable');
    await rig.stop();
  });
});

describe('a fault of our own code is never ambiguous', () => {
  const broken =
    (what: Partial<ReturnType<TransportFactory>>) =>
    (factory: TransportFactory): TransportFactory =>
    (events) => {
      const transport = factory(events);
      return new Proxy(transport, {
        get: (target, key) => what[key as keyof typeof what] ?? bound(target, key as keyof typeof target),
      });
    };
  const bound = <T extends object>(target: T, key: keyof T): unknown => {
    const value = target[key];
    return typeof value === 'function' ? value.bind(target) : value;
  };
  const boom = (): never => {
    throw new Error('a fault of ours');
  };

  const FAULTS: readonly [string, (options: RigOptions) => PermitRig][] = [
    ['a transport that cannot be made', (options) => new PermitRig({ ...options, wrap: () => boom })],
    [
      'a transport that throws when it sends',
      (options) => new PermitRig({ ...options, wrap: broken({ send: boom }) }),
    ],
    [
      'a transport that throws when it opens',
      (options) => new PermitRig({ ...options, wrap: broken({ open: boom }) }),
    ],
    [
      'a judge that throws',
      (options) =>
        spoiled(options, (owner) => {
          owner.ledger.judged = boom;
        }),
    ],
    [
      'a record that throws',
      (options) =>
        spoiled(options, (owner) => {
          owner.record.add = boom;
        }),
    ],
    ['a pin that cannot be computed', (options) => new PermitRig({ ...options, currentPin: boom })],
  ];

  function spoiled(options: RigOptions, spoil: (owner: PeerOwner) => void): PermitRig {
    const rig = new PermitRig(options);
    spoil(rig.owner);
    return rig;
  }

  test.each(FAULTS)('%s', async (_name, make) => {
    for (const guarded of [true, false]) {
      const rig = make({ script: refusing });
      const machine = rig.owner.machine();
      await rig.play(guarded ? machine : withoutGuard(machine));
      expect(rig.initializes).toBe(0);
      expect(rig.state).not.toBe('legacy');
      await rig.stop();
    }
  });
});

describe('a connection writes initialize for its own, unspent permit alone', () => {
  const members = initializeMembers({
    revision: '2025-11-25',
    clientInfo: ORACLE.clientInfo,
    clientCapabilities: {},
  });
  const dialect = legacyDialect({ revision: '2025-11-25' });

  async function connect(rig: PermitRig): Promise<Connection> {
    const connection = new Connection({
      transport: rig.trace.record(
        { peer: 'x', pin: 'x', allowLegacy: true },
        scriptedTransport(refusing, { clock: rig.clock }),
      ),
      ids: createIdSource(100),
      clock: rig.clock,
      events: {
        modernSign() {},
        notification() {},
        serverRequest() {},
        serverCancelled() {},
        fault() {},
        closed() {},
      },
      maxTotalMs: 1_000,
    });
    await connection.open(1_000);
    return connection;
  }

  test.each<[string, (rig: PermitRig, other: Connection) => LegacyPermit | null]>([
    ['none', () => null],
    ['a forged one', () => new LegacyPermit()],
    ['one that looks like it', () => Object.create(LegacyPermit.prototype) as LegacyPermit],
    ['one for another connection', (rig, other) => rig.owner.ledger.permit(other)],
  ])('%s', async (_name, permit) => {
    const rig = new PermitRig({ script: refusing });
    rig.owner.ledger.probing();
    rig.owner.ledger.judged('discover.ambiguous');
    const connection = await connect(rig);
    const { outcome } = connection.initialize(dialect, members, () => permit(rig, {} as Connection), 100);
    expect(await outcome).toEqual({ kind: 'withheld', written: false });
    expect(rig.initializes).toBe(0);
    await connection.close();
  });

  test('the same one twice', async () => {
    const rig = new PermitRig({ script: silent });
    rig.owner.ledger.probing();
    rig.owner.ledger.judged('discover.ambiguous');
    const connection = await connect(rig);
    const permit = rig.owner.ledger.permit(connection);
    expect(permit).not.toBeNull();
    void connection.initialize(dialect, members, () => permit, 100);
    const { outcome } = connection.initialize(dialect, members, () => permit, 100);
    expect(await outcome).toEqual({ kind: 'withheld', written: false });
    expect(rig.initializes).toBe(1);
    expect(rig.owner.ledger.permit(connection)).toBeNull();
    await connection.close();
  });

  test('and request() refuses it', async () => {
    const rig = new PermitRig({ script: silent });
    const connection = await connect(rig);
    expect(() => connection.request('initialize', '', { timeoutMs: 1 })).toThrow();
    connection.select(dialect);
    expect(() => connection.request('initialize', '', { timeoutMs: 1 })).toThrow();
    await connection.close();
  });
});

test('whatever the far side says and whichever part is wrong', { timeout: 120_000 }, async () => {
  const attacks = fc.constantFrom<(machine: PeerMachine, owner: PeerOwner) => PeerMachine>(
    ...OVERRIDES.map(([, override]) => override),
    (machine) => withoutGuard(machine).provide({ actors: { probe: absentProbe } }),
    (machine, owner) => machine.provide({ actors: { initialize: eagerInitialize(owner) } }),
  );
  await fc.assert(
    fc.asyncProperty(
      attacks,
      scripts(FAR_SIDE),
      fc.boolean(),
      fc.boolean(),
      async (attack, script, allowLegacy, perRequestStreams) => {
        const rig = new PermitRig({ script, allowLegacy, perRequestStreams });
        await rig.play(attack(rig.owner.machine(), rig.owner));
        await rig.send({ type: 'host.retry' });
        await rig.stop();
        // Wrong actors may probe when they should not; what they may not do is to get an initialize through.
        const wrong = checkTrace(rig.trace.events, ORACLE).filter(({ check }) =>
          check.includes('initialize'),
        );
        if (wrong.length > 0) expect.fail(`${wrong.map(printViolation).join('\n')}\n${rig.trace.print()}`);
        expect(rig.clock.pendingTimers).toBe(0);
      },
    ),
    { numRuns: Number(process.env['PEERAGE_PERMIT_RUNS'] ?? 600), endOnFailure: true },
  );
});
