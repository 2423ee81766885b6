/** One run of a real host over scripted far sides in simulated time: commands, the recorded wire, and what must hold. */
import * as fc from 'fast-check';
import { createHost } from '../../../src/host/createHost.js';
import { PeerageError } from '../../../src/host/errors.js';
import type { Host, PeerReport } from '../../../src/host/facade.js';
import { type FarSideOptions, scripts } from '../../../src/testing/arbitraries.js';
import { createSimulatedClock, type SimulatedClock } from '../../../src/testing/clock.js';
import { advance, quiet, settled } from '../../../src/testing/drive.js';
import { type OracleConfig, stateOnWire } from '../../../src/testing/invariants.js';
import type { Script } from '../../../src/testing/script.js';
import { scriptedTransport } from '../../../src/testing/scriptedPeer.js';
import { WireTrace } from '../../../src/testing/wireTrace.js';

export const ORACLE: OracleConfig = {
  modernRevisions: ['2026-07-28', '2027-01-01', '2027-06-01'],
  legacyRevisions: ['2024-11-05', '2025-06-18', '2025-11-25'],
  clientInfo: { name: 'property', version: '1.0.0' },
  probeTimeoutMs: 1_000,
  legacyProbeTimeoutMs: 1_000,
  stableAfterMs: 3_000,
};

const LIMITS = {
  listTimeoutMs: 1_000,
  callTimeoutMs: 1_500,
  maxCallMs: 4_000,
  startTimeoutMs: 5_000,
  backoffMinMs: 50,
  backoffMaxMs: 400,
  maxMessageBytes: 2_048,
};

export const FAR_SIDE: FarSideOptions = {
  revisions: { modern: ORACLE.modernRevisions, legacy: ORACLE.legacyRevisions },
  probeTimeoutMs: ORACLE.probeTimeoutMs,
  maxMessageBytes: LIMITS.maxMessageBytes,
};

export interface PeerPlan {
  readonly perRequestStreams: boolean;
  readonly allowLegacy: boolean;
  readonly script: Script;
}

export type Command =
  | { readonly do: 'advance'; readonly ms: number }
  | {
      readonly do: 'call';
      readonly tool: number;
      readonly timeoutMs: number;
      readonly abortAfterMs: number | null;
    }
  | { readonly do: 'retry' | 'authorize' | 'forget'; readonly peer: number }
  | { readonly do: 'replace'; readonly peer: number; readonly awaits: boolean }
  | { readonly do: 'stop' };

export interface RunPlan {
  readonly peers: readonly PeerPlan[];
  readonly commands: readonly Command[];
  readonly maxAttempts: number;
  readonly retryUnavailableAfterMs: number;
  readonly seed: number;
}

export function peerPlans(
  allowLegacy: fc.Arbitrary<boolean> = fc.constantFrom(true, true, false),
): fc.Arbitrary<PeerPlan> {
  return fc.record({ perRequestStreams: fc.boolean(), allowLegacy, script: scripts(FAR_SIDE) });
}

export function runPlans(peer: fc.Arbitrary<PeerPlan> = peerPlans()): fc.Arbitrary<RunPlan> {
  return fc.record({
    peers: fc.oneof(
      { weight: 3, arbitrary: peer.map((one) => [one]) },
      { weight: 2, arbitrary: fc.tuple(peer, peer).map((pair) => [...pair]) },
      { weight: 1, arbitrary: fc.tuple(peer, peer, peer).map((three) => [...three]) },
    ),
    commands: fc.array(commands(), { maxLength: 8 }),
    maxAttempts: fc.constantFrom(0, 1, 2),
    retryUnavailableAfterMs: fc.constantFrom(0, 2_500),
    seed: fc.nat({ max: 1_000 }),
  });
}

function commands(): fc.Arbitrary<Command> {
  const peer = fc.nat({ max: 2 });
  const advancing = fc
    .constantFrom(0, 1, 30, 400, 1_000, 1_001, 2_000)
    .map((ms): Command => ({ do: 'advance', ms }));
  const calling = fc
    .record({
      tool: fc.nat({ max: 3 }),
      timeoutMs: fc.constantFrom(200, 1_500, 1_500),
      abortAfterMs: fc.constantFrom(null, null, 0, 5),
    })
    .map((call): Command => ({ do: 'call', ...call }));
  return fc.oneof(
    { weight: 5, arbitrary: advancing },
    { weight: 8, arbitrary: calling },
    { weight: 3, arbitrary: peer.map((index): Command => ({ do: 'retry', peer: index })) },
    { weight: 1, arbitrary: peer.map((index): Command => ({ do: 'authorize', peer: index })) },
    { weight: 2, arbitrary: peer.map((index): Command => ({ do: 'forget', peer: index })) },
    {
      weight: 2,
      arbitrary: fc
        .tuple(peer, fc.boolean())
        .map(([index, awaits]): Command => ({ do: 'replace', peer: index, awaits })),
    },
    { weight: 1, arbitrary: fc.constant<Command>({ do: 'stop' }) },
  );
}

const NAMES = ['a', 'b', 'c'];
const pinOf = (name: string): string => `identity of ${name}`;

/** What a run came to. `problems`: everything that must not be, besides the violations of the wire. */
export interface RunResult {
  readonly trace: WireTrace;
  readonly problems: readonly string[];
  /** Of every peer before the host was stopped for good. */
  readonly states: readonly string[];
}

export async function run(plan: RunPlan): Promise<RunResult> {
  return new HostRun(plan).play();
}

class HostRun {
  private readonly plan: RunPlan;
  private readonly clock: SimulatedClock = createSimulatedClock();
  private readonly trace = new WireTrace(this.clock);
  private readonly host: Host;
  private readonly problems: string[] = [];
  private readonly waiting: Promise<void>[] = [];

  constructor(plan: RunPlan) {
    this.plan = plan;
    const { modernRevisions, legacyRevisions, clientInfo, ...deadlines } = ORACLE;
    this.host = createHost({
      peers: Object.fromEntries(plan.peers.map((_peer, index) => [NAMES[index], this.configOf(index)])),
      modernRevisions,
      legacyRevisions,
      clientInfo,
      ...deadlines,
      ...LIMITS,
      maxAttempts: plan.maxAttempts,
      retryUnavailableAfterMs: plan.retryUnavailableAfterMs,
      clock: this.clock,
      random: randomFrom(plan.seed),
    });
  }

  async play(): Promise<RunResult> {
    this.trace.command('start');
    this.await('start', this.host.start());
    // One run in two gives the peers that answer at once the time to be callable.
    if (this.plan.seed % 2 === 0) await quiet();
    for (const command of this.plan.commands) await this.obey(command);
    await this.settle('what was asked for', Promise.all(this.waiting));
    const states = this.compare();
    this.trace.command('stop');
    await this.settle('stop', this.host.stop());
    await quiet();
    if (this.clock.pendingTimers > 0)
      this.problems.push(`${this.clock.pendingTimers} timers are left after stop`);
    return { trace: this.trace, problems: this.problems, states };
  }

  private configOf(index: number) {
    const plan = this.plan.peers[index] as PeerPlan;
    const { allowLegacy, perRequestStreams, script } = plan;
    const name = NAMES[index] as string;
    const transport = scriptedTransport(script, {
      clock: this.clock,
      perRequestStreams,
      maxMessageBytes: LIMITS.maxMessageBytes,
    });
    const createTransport = this.trace.record({ peer: name, pin: pinOf(name), allowLegacy }, transport);
    return { createTransport, identity: pinOf(name), allowLegacy };
  }

  private async obey(command: Command): Promise<void> {
    const { host, trace } = this;
    switch (command.do) {
      case 'advance':
        await advance(this.clock, command.ms);
        return;
      case 'call':
        this.call(command);
        await quiet();
        return;
      case 'stop':
        trace.command('stop');
        this.await('stop', host.stop());
        await quiet();
        return;
      case 'replace':
        await this.replace(command.peer % this.plan.peers.length, command.awaits);
        return;
      default: {
        const name = NAMES[command.peer % this.plan.peers.length] as string;
        if (!host.peers().some((peer) => peer.name === name)) return;
        trace.command(command.do, name, pinOf(name));
        if (command.do === 'forget') host.forget(name);
        else if (command.do === 'retry') host.peer(name).retry();
        else host.peer(name).authorize();
        await quiet();
      }
    }
  }

  private call(command: Extract<Command, { do: 'call' }>): void {
    const names = [...this.host.catalog().entries.keys()];
    const name = names.length === 0 ? 'echo' : (names[command.tool % names.length] as string);
    const { timeoutMs, abortAfterMs } = command;
    const controller = new AbortController();
    // Meta that a careless or hostile caller may give.
    const meta = {
      trace: 'x',
      'io.modelcontextprotocol/protocolVersion': '1999-01-01',
      progressToken: 'mine',
    };
    const call = this.host.call(name, { text: 'x' }, { timeoutMs, signal: controller.signal, meta });
    if (abortAfterMs === 0) controller.abort();
    else if (abortAfterMs !== null) {
      const aborted = new Promise<void>(
        (resolve) => void this.clock.setTimeout(() => resolve(), abortAfterMs),
      );
      this.waiting.push(aborted.then(() => controller.abort()));
    }
    this.await('call', call);
  }

  /** Takes a peer out of the configuration and puts it in again: another life, the same pin. */
  private async replace(index: number, awaits: boolean): Promise<void> {
    const { host, trace } = this;
    const name = NAMES[index] as string;
    if (!host.peers().some((peer) => peer.name === name)) return;
    trace.command('remove', name);
    const removal = host.removePeer(name);
    this.await('removePeer', removal);
    if (awaits) await this.settle('removePeer', removal);
    trace.command('add', name);
    this.await('addPeer', host.addPeer(name, this.configOf(index)));
    await quiet();
  }

  /** Notes that this has to settle. What the host refuses because it is stopped is no fault. */
  private await(what: string, promise: Promise<unknown>): void {
    this.waiting.push(
      promise.then(
        () => undefined,
        (error: unknown) => {
          const isExpected =
            error instanceof PeerageError && ['stopped', 'unknown-peer'].includes(error.code);
          if (!isExpected) this.problems.push(`${what} was rejected with ${String(error)}`);
        },
      ),
    );
  }

  private async settle(what: string, promise: Promise<unknown>): Promise<void> {
    try {
      await settled(this.clock, promise, 120_000);
    } catch (error) {
      this.problems.push(`${what}: ${error instanceof Error ? error.message : String(error)}`);
    }
  }

  /** Reports must say what the wire says. */
  private compare(): string[] {
    const eras: string[] = [];
    for (const report of this.host.peers()) {
      const wire = stateOnWire(this.trace.events, ORACLE, report.name);
      const { state, era, revision, reason, initializeSent } = report;
      const say = (what: string): void => void this.problems.push(`${report.name} is ${state}: ${what}`);
      eras.push(state);
      if (state === 'modern' || state === 'legacy') {
        if (era !== state) say(`but its era is ${era}`);
        if (wire?.era !== state || wire.revision !== revision) {
          say(`at ${revision}, but the wire says ${wire?.era} at ${wire?.revision}`);
        }
      } else if (era !== 'unknown') say(`but its era is ${era}`);
      if (state === 'unavailable' && reason === null) say('without a reason');
      if (reason?.code === 'internal' || reason?.code === 'transport-broke-deadline') {
        say(`with the reason ${reason.code}: ${reason.message}`);
      }
      const isSettled = state === 'modern' || state === 'legacy' || state === 'unavailable';
      const sent = this.initializeSince(report);
      if (isSettled && sent !== initializeSent) {
        say(`reports ${initializeSent} initialize, the wire has ${sent}`);
      }
    }
    return eras;
  }

  /** `initialize` requests on the wire since the first probe of the record: ids grow for the life of a host. */
  private initializeSince(report: PeerReport): number {
    const first = report.record.find((entry) => entry.id !== null)?.id ?? Number.POSITIVE_INFINITY;
    const mine = new Set<number>();
    let count = 0;
    for (const event of this.trace.events) {
      if (event.kind === 'open' && event.peer === report.name) mine.add(event.connection);
      if (event.kind !== 'out' || !mine.has(event.connection)) continue;
      const { id, method } = JSON.parse(event.text) as { id?: number; method?: string };
      if (method === 'initialize' && id !== undefined && id >= first) count += 1;
    }
    return count;
  }
}

/** A small generator of numbers in [0, 1): the same seed gives the same run. */
function randomFrom(seed: number): () => number {
  let state = seed + 1;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}
