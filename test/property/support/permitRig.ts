/** One peer with its owner and its chart, outside a host, so that a test can put wrong parts between them. */
import { type Actor, createActor, fromCallback } from 'xstate';
import { runExchange } from '../../../src/host/exchangeScope.js';
import { createRatchet, type Ratchet } from '../../../src/host/ledger.js';
import { runInitialize, runProbe } from '../../../src/host/negotiation.js';
import { parseHostOptions } from '../../../src/host/options.js';
import { type PeerMachine, PeerOwner } from '../../../src/host/peer.js';
import type { PeerEvent, ProbeInput } from '../../../src/machines/ports.js';
import { createIdSource } from '../../../src/protocol/jsonRpc.js';
import { createSimulatedClock, type SimulatedClock } from '../../../src/testing/clock.js';
import { advance } from '../../../src/testing/drive.js';
import type { Script } from '../../../src/testing/script.js';
import { scriptedTransport } from '../../../src/testing/scriptedPeer.js';
import { WireTrace } from '../../../src/testing/wireTrace.js';
import type { TransportFactory } from '../../../src/transports/transport.js';
import { ORACLE } from './hostRun.js';

export interface RigOptions {
  readonly script: Script;
  /** Default true. */
  readonly allowLegacy?: boolean;
  readonly perRequestStreams?: boolean;
  readonly currentPin?: () => string;
  /** Shared by rigs of one host. */
  readonly ratchet?: Ratchet;
  readonly clock?: SimulatedClock;
  readonly trace?: WireTrace;
  /** Puts something between the chart's owner and the wire. */
  readonly wrap?: (factory: TransportFactory) => TransportFactory;
}

export const PIN = 'the pin';
export const AMBIGUOUS: PeerEvent = {
  type: 'discover.ambiguous',
  reason: { code: 'not-allowlisted', message: 'as a wrong actor says', fix: '' },
};

export class PermitRig {
  readonly clock: SimulatedClock;
  readonly trace: WireTrace;
  readonly owner: PeerOwner;
  readonly errors: unknown[] = [];
  private actor: Actor<PeerMachine> | null = null;

  constructor(options: RigOptions) {
    const { script, allowLegacy = true, perRequestStreams = false, currentPin = () => PIN } = options;
    const { wrap = (factory) => factory, ratchet = createRatchet() } = options;
    this.clock = options.clock ?? createSimulatedClock();
    this.trace = options.trace ?? new WireTrace(this.clock);
    const transport = wrap(scriptedTransport(script, { clock: this.clock, perRequestStreams }));
    const recorded = this.trace.record({ peer: 'archive', pin: PIN, allowLegacy }, transport);
    const { modernRevisions, legacyRevisions, clientInfo, ...deadlines } = ORACLE;
    const limits = parseHostOptions({
      peers: { archive: { createTransport: recorded, identity: PIN, allowLegacy } },
      modernRevisions,
      legacyRevisions,
      clientInfo,
      ...deadlines,
      maxAttempts: 1,
      retryUnavailableAfterMs: 0,
    });
    const [config] = limits.peers;
    if (config === undefined) throw new Error('there is one peer');
    this.owner = new PeerOwner({
      config,
      limits,
      pin: PIN,
      currentPin,
      transport: () => recorded,
      makeAuthorization: () => null,
      ids: createIdSource(),
      clock: this.clock,
      random: () => 0.5,
      ratchet,
      handlers: {},
      cache: null,
      partition: () => ({ identity: '', context: '' }),
      events: {
        listed: () => undefined,
        listingFailed: () => undefined,
        toolsSettled: () => undefined,
        listChanged: () => undefined,
        resourceUpdated: () => undefined,
        requestTurn: (grant) => grant(),
        authorizationNeeded: () => undefined,
        isEnding: () => false,
      },
    });
  }

  /** Runs `machine`, or what a snapshot of another one holds, until everything that time brings has come. */
  async play(machine: PeerMachine = this.owner.machine(), snapshot?: unknown): Promise<void> {
    this.start(machine, snapshot);
    await advance(this.clock, 10_000);
  }

  start(machine: PeerMachine = this.owner.machine(), snapshot?: unknown): void {
    const actor = createActor(machine, {
      input: this.owner.input('rig'),
      clock: this.clock,
      ...(snapshot === undefined ? {} : { snapshot: snapshot as never }),
    });
    this.actor = actor;
    this.owner.attach(actor);
    actor.subscribe({
      next: (state) => void this.owner.observe(state),
      error: (error) => void this.errors.push(error),
    });
    actor.start();
    actor.send({ type: 'host.start' });
  }

  async send(event: PeerEvent): Promise<void> {
    if (event.type === 'host.retry') this.trace.command('retry', 'archive');
    this.actor?.send(event);
    await advance(this.clock, 10_000);
  }

  get state(): unknown {
    return this.actor?.getSnapshot().value;
  }

  snapshot(): unknown {
    return this.actor?.getPersistedSnapshot();
  }

  async stop(): Promise<void> {
    this.actor?.send({ type: 'host.stop' });
    const gone = this.owner.dispose();
    await advance(this.clock, 10_000);
    await gone;
  }

  /** `initialize` requests on the wire. */
  get initializes(): number {
    const isOne = ({ text }: { readonly text: string }) =>
      (JSON.parse(text) as { method?: string }).method === 'initialize';
    return this.trace.events.filter((event) => event.kind === 'out' && isOne(event)).length;
  }
}

/** A guard that always says yes. */
export function withoutGuard(machine: PeerMachine): PeerMachine {
  return machine.provide({ guards: { mayProbeLegacy: () => true } });
}

/** Probes as it should, and says that the answer was ambiguous, whatever came. */
export function lyingProbe(owner: PeerOwner) {
  return fromCallback<PeerEvent, ProbeInput>(({ input, sendBack }) =>
    runExchange<PeerEvent>(
      'probe',
      () => sendBack(AMBIGUOUS),
      (scope) => runProbe(owner, input, scope),
    ),
  );
}

/** Says that the probe was ambiguous, and sent none. */
export const absentProbe = fromCallback<PeerEvent, ProbeInput>(({ sendBack }) => {
  sendBack(AMBIGUOUS);
});

/** Sends `initialize` as it should, and then again. */
export function eagerInitialize(owner: PeerOwner) {
  return fromCallback<PeerEvent>(({ sendBack }) =>
    runExchange<PeerEvent>('initialize', sendBack, async (scope) => {
      const quiet = { isActive: true, report: () => undefined };
      await runInitialize(owner, quiet);
      await runInitialize(owner, scope);
    }),
  );
}
