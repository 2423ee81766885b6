/** The facade: a host by itself, or one that an application's machine invoked or spawned. */
import {
  type Actor,
  type ActorRefFrom,
  type AnyActorRef,
  createActor,
  fromPromise,
  type InspectionEvent,
  type Observer,
} from 'xstate';
import type { Store } from '../cache/store.js';
import type { InputHandlers } from '../calls/inputHandlers.js';
import type { CallOptions, CallOutcome } from '../calls/outcome.js';
import type { CallPolicy } from '../calls/policy.js';
import type { JsonObject } from '../protocol/jsonRpc.js';
import type { Lease } from '../registry/lease.js';
import { type Clock, systemClock } from '../transports/clock.js';
import type { HostOptions, ResolvedOptions } from './config.js';
import { CODE_ONLY } from './configChecks.js';
import { ConfigurationError, PeerageError } from './errors.js';
import type { AuthorizationResponse, Catalog, Host, PeerHandle, PeerReport, StartReport } from './facade.js';
import { checkHooks } from './hooks.js';
import { bindHostPort, createHostMachine, type HostOutput } from './hostMachine.js';
import { createRatchet, type Ratchet } from './ledger.js';
import { explain } from './negotiationRecord.js';
import { parseHostOptions, parsePeer } from './options.js';
import type { PeerOwner } from './peer.js';
import { HostRuntime } from './runtime.js';
import type { HostStatus } from './status.js';

/** All options of a host, flat. */
export interface CreateHostOptions extends HostOptions {
  /** Prefix of the system ids of this host's actors. Default `peerage`; an embedded host: the id of its actor. */
  readonly id?: string;
  /** Time. Default: real time; an embedded host: its parent's timers. */
  readonly clock?: Clock;
  /** Numbers in [0, 1): jitter, and where request ids start. Default `Math.random`. */
  readonly random?: () => number;
  /** What servers may ask for: forms, pages, samples, roots. Default: nothing, and nothing is declared. */
  readonly handlers?: InputHandlers;
  /** What the host says about calls: their order, and which may be repeated. Default: `serialize` and `repeatable` of the peers. */
  readonly callPolicy?: CallPolicy;
  /** Where responses are kept for as long as their servers allow. Default: a bounded store in memory, this host's own. */
  readonly store?: Store;
  /** Memory of modern evidence (N12), by pin. Default: this host's own. It can forbid, never permit. */
  readonly ratchet?: Ratchet;
  /** XState's inspection: sees every actor of the host. What it throws is dropped. Embedded: use the parent's. */
  readonly inspect?: Observer<InspectionEvent> | ((event: InspectionEvent) => void);
}

export type HostMachine = ReturnType<typeof createHostMachine>;
export type HostActorRef = ActorRefFrom<HostMachine>;

interface Bound {
  readonly runtime: HostRuntime;
  readonly options: ResolvedOptions;
}

const hosts = new WeakMap<AnyActorRef, Bound>();

/**
 * Logic to invoke or spawn in an application's own machine. It starts at once; it has the tag `ready` when every peer
 * has settled and listed, and emits `ready`, `peer`, `catalogChanged` and `conflict`. `onDone` comes after a
 * `host.stop`, with {@link HostOutput}; `onError` when the start failed ({@link CollisionError},
 * {@link RequiredPeerError}) or this package is at fault. Leaving the state that invokes it ends every peer.
 *
 * @throws {ConfigurationError}
 */
export function hostLogic(options: CreateHostOptions): HostMachine {
  const { id, clock, random, ratchet, inspect: _inspect, handlers, callPolicy, store, ...rest } = options;
  const hooks = checkHooks({ handlers, callPolicy, store });
  const resolved = parse(rest);
  return createHostMachine((actor, defaultId) => {
    const runtime = new HostRuntime(actor, freeHostId(actor, id ?? defaultId), {
      options: resolved,
      clock: clock ?? clockOf(actor),
      random: random ?? Math.random,
      ratchet: createRatchet(ratchet),
      ...hooks,
    });
    bindHostPort(actor, runtime);
    hosts.set(actor, { runtime, options: resolved });
    return runtime.id;
  });
}

/** In code there are more options than in a file: the error for an unknown one names them as well. */
function parse(options: HostOptions): ResolvedOptions {
  try {
    return parseHostOptions(options);
  } catch (error) {
    if (!(error instanceof ConfigurationError) || !error.allowed.startsWith('one of the keys peers,'))
      throw error;
    const { segments, came, allowed } = error;
    throw new ConfigurationError({ segments, came, allowed: `${allowed}, ${CODE_ONLY}` });
  }
}

/**
 * A host by itself. Nothing happens before `start()`.
 *
 * @throws {ConfigurationError}
 */
export function createHost(options: CreateHostOptions): Host {
  const logic = hostLogic({ ...options, id: options.id ?? 'peerage' });
  const { inspect, clock } = options;
  const actor = createActor(logic, {
    ...(clock === undefined ? {} : { clock }),
    ...(inspect === undefined ? {} : { inspect: harmless(inspect) }),
  });
  return new HostFacade(actor, () => actor.start());
}

/**
 * The facade of a host that an application's machine invoked or spawned. Its `start()` awaits what is under way.
 *
 * @throws {PeerageError} `actor` runs no host logic
 */
export function hostOf(actor: AnyActorRef): Host {
  if (!hosts.has(actor)) throw new PeerageError('no-host', 'this actor was not made from hostLogic');
  return new HostFacade(actor as HostActorRef, null);
}

export interface CallInput extends Omit<CallOptions, 'signal'> {
  /** A host's actor, or its system id. */
  readonly host: AnyActorRef | string;
  readonly name: string;
  readonly args?: JsonObject;
}

/** One call as actor logic: its output is the {@link CallOutcome}; stopping it cancels the call on the wire. */
export const callLogic = fromPromise<CallOutcome, CallInput>(({ input, signal, system }) => {
  const { host, name, args, ...options } = input;
  const actor = typeof host === 'string' ? (system.get(host) as AnyActorRef | undefined) : host;
  if (actor === undefined)
    throw new PeerageError('no-host', `there is no actor with the system id ${String(host)}`);
  return hostOf(actor).call(name, args, { ...options, signal });
});

class HostFacade implements Host {
  readonly id: string;
  private readonly actor: Actor<HostMachine> | HostActorRef;
  private readonly runtime: HostRuntime;
  private readonly options: ResolvedOptions;
  /** Starts the actor; null where somebody else did. */
  private readonly ignite: (() => void) | null;
  private starting: Promise<StartReport> | null = null;
  private stopping: Promise<void> | null = null;

  constructor(actor: HostActorRef, ignite: (() => void) | null) {
    const { runtime, options } = hosts.get(actor) as Bound;
    this.actor = actor;
    this.runtime = runtime;
    this.options = options;
    this.id = runtime.id;
    this.ignite = ignite;
  }

  start(): Promise<StartReport> {
    if (this.stopping !== null) {
      return Promise.reject(new PeerageError('stopped', 'the host was stopped: create another one'));
    }
    this.starting ??= new Promise((resolve, reject) => {
      if (this.actor.getSnapshot().status !== 'active') {
        reject(new PeerageError('stopped', 'the host was stopped: create another one'));
        return;
      }
      const startedAt = this.runtime.clock.now();
      let isDone = false;
      const done = (): void => {
        isDone = true;
        resolve({ peers: this.runtime.reports(), ms: Math.round(this.runtime.clock.now() - startedAt) });
      };
      if (this.actor.getSnapshot().hasTag('ready')) {
        done();
        return;
      }
      this.actor.on('ready', ({ report }) => {
        isDone = true;
        resolve(report);
      });
      this.actor.subscribe({
        error: (error) => reject(error),
        complete: () => {
          if (!isDone) reject(new PeerageError('stopped', 'the host was stopped before it was ready'));
        },
      });
      this.ignite?.();
    });
    return this.starting;
  }

  catalog(): Catalog {
    this.runtime.useTools();
    return new LeaseCatalog(this.runtime, this.runtime.lease);
  }

  call(name: string, args?: JsonObject, options?: CallOptions): Promise<CallOutcome> {
    return this.runtime.call(this.runtime.lease, name, args, options);
  }

  listPrompts: Host['listPrompts'] = (options) => this.runtime.requests.list('prompts', options);
  listResources: Host['listResources'] = (options) => this.runtime.requests.list('resources', options);
  listResourceTemplates: Host['listResourceTemplates'] = (options) =>
    this.runtime.requests.list('resourceTemplates', options);
  readResource: Host['readResource'] = (...request) => this.runtime.requests.readResource(...request);
  getPrompt: Host['getPrompt'] = (...request) => this.runtime.requests.getPrompt(...request);
  complete: Host['complete'] = (...request) => this.runtime.requests.complete(...request);

  subscribeResource(peer: string, uri: string): () => void {
    return this.runtime.owner(peer).subscriptions.subscribe(uri);
  }

  status(): HostStatus {
    return this.runtime.status();
  }

  peer(name: string): PeerHandle {
    return new PeerFacade(this.runtime, this.runtime.owner(name));
  }

  peers(): readonly PeerReport[] {
    return this.runtime.reports();
  }

  async addPeer(...[name, config]: Parameters<Host['addPeer']>): Promise<PeerReport> {
    return this.runtime.addPeer(parsePeer(name, config, this.options.legacyRevisions));
  }

  removePeer(name: string): Promise<void> {
    return this.runtime.removePeer(name);
  }

  forget(name: string): void {
    this.runtime.forget(name);
  }

  on: Host['on'] = (event, listener) => this.runtime.listeners.on(event, listener);

  stop(): Promise<void> {
    this.stopping ??= this.end();
    return this.stopping;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop();
  }

  private async end(): Promise<void> {
    const { status } = this.actor.getSnapshot();
    const isRunning = this.ignite === null || this.starting !== null;
    if (isRunning && status === 'active') {
      const ended = new Promise<void>((resolve) => {
        this.actor.subscribe({ error: () => resolve(), complete: () => resolve() });
      });
      this.actor.send({ type: 'host.stop' });
      await ended;
    }
    await this.runtime.shutDown();
  }
}

/** A lease, and the way to call through it. */
class LeaseCatalog implements Catalog {
  readonly revision: Lease['revision'];
  readonly entries: Lease['entries'];
  readonly conflicts: Lease['conflicts'];
  readonly quarantined: Lease['quarantined'];
  readonly pending: Lease['pending'];
  readonly #runtime: HostRuntime;
  readonly #lease: Lease;

  constructor(runtime: HostRuntime, lease: Lease) {
    this.#runtime = runtime;
    this.#lease = lease;
    this.revision = lease.revision;
    this.entries = lease.entries;
    this.conflicts = lease.conflicts;
    this.quarantined = lease.quarantined;
    this.pending = lease.pending;
  }

  call(name: string, args?: JsonObject, options?: CallOptions): Promise<CallOutcome> {
    return this.#runtime.call(this.#lease, name, args, options);
  }
}

class PeerFacade implements PeerHandle {
  readonly name: string;
  private readonly runtime: HostRuntime;
  private readonly owner: PeerOwner;

  constructor(runtime: HostRuntime, owner: PeerOwner) {
    this.runtime = runtime;
    this.owner = owner;
    this.name = owner.name;
  }

  get state(): PeerHandle['state'] {
    return this.owner.state;
  }

  get era(): PeerHandle['era'] {
    return this.owner.report().era;
  }

  get callable(): boolean {
    return this.owner.isCallable;
  }

  report(): PeerReport {
    return this.owner.report();
  }

  explain(): string {
    return explain(this.owner.report());
  }

  retry(): void {
    this.owner.retry();
  }

  refresh(): void {
    this.owner.lists.refreshTools();
  }

  async authorize(response?: AuthorizationResponse): Promise<PeerReport> {
    await this.owner.authorize(response);
    // Who does not wait for it must not be crashed by a host that stops meanwhile.
    return this.runtime.whenReady(this.owner).catch(() => this.owner.report());
  }

  waitUntil(...[what, options]: Parameters<PeerHandle['waitUntil']>): Promise<PeerReport> {
    const { owner } = this;
    const condition = what === 'callable' ? () => owner.isCallable : () => owner.isReady;
    return this.runtime.waitFor(owner, condition, options?.signal);
  }
}

/** Ids of the hosts of one actor system that are in use, with the actors that use them. */
const hostIds = new WeakMap<object, Map<string, AnyActorRef>>();

/** `id`, or `id~2` … where another living host of the same system has it: system ids are unique. */
function freeHostId(actor: AnyActorRef, id: string): string {
  const { system } = actor;
  const taken = hostIds.get(system) ?? new Map<string, AnyActorRef>();
  hostIds.set(system, taken);
  const isFree = (candidate: string): boolean => {
    const holder = taken.get(candidate);
    return holder === undefined || holder === actor || holder.getSnapshot().status !== 'active';
  };
  let free = id;
  for (let n = 2; !isFree(free); n += 1) free = `${id}~${n}`;
  taken.set(free, actor);
  return free;
}

/** The time of an actor's system, which an embedded host shares with its parent. Real clocks of XState have timers only. */
function clockOf(actor: AnyActorRef): Clock {
  const { _clock: timers } = actor.system;
  const { now } = timers as { readonly now?: unknown };
  return {
    now: typeof now === 'function' ? () => Number(now.call(timers)) : systemClock.now,
    setTimeout: (fn, delayMs) => timers.setTimeout(fn, delayMs),
    clearTimeout: (handle) => timers.clearTimeout(handle as never),
  };
}

/** XState ends an actor whose inspector throws. */
function harmless(
  inspect: Observer<InspectionEvent> | ((event: InspectionEvent) => void),
): (event: InspectionEvent) => void {
  return (event) => {
    try {
      if (typeof inspect === 'function') inspect(event);
      else inspect.next?.(event);
    } catch {
      // The observer's own fault, and nobody's here.
    }
  };
}

export type { HostOutput };
