/**
 * The chart of a peer with the parts that touch the wire, built once for all peers: providing parts builds a chart anew,
 * which costs more than a negotiation. Each part finds the owner of its peer by the actor that runs it.
 */
import { type AnyActorRef, fromCallback } from 'xstate';
import { catalogMachine } from '../machines/catalogMachine.js';
import { createPeerMachine } from '../machines/peerMachine.js';
import type {
  CatalogEvent,
  CatalogInput,
  ListenInput,
  PeerEvent,
  ProbeInput,
  SubscriptionEvent,
} from '../machines/ports.js';
import { createSubscriptionMachine } from '../machines/subscriptionMachine.js';

/** What the parts ask of the owner of a peer. Each returns what ends it. */
export interface WiredPeer {
  probe(input: ProbeInput, sendBack: (event: PeerEvent) => void): () => void;
  initialize(sendBack: (event: PeerEvent) => void): () => void;
  fetch(input: CatalogInput, sendBack: (event: CatalogEvent) => void): () => void;
  listen(input: ListenInput, sendBack: (event: SubscriptionEvent) => void): () => void;
  /** Every first acknowledgement of a subscription. */
  refetch(): void;
  /** Whether the ledger would permit `initialize` now. */
  mayProbeLegacy(): boolean;
  releaseConnection(): void;
  requestTurn(): void;
}

export type PeerMachine = ReturnType<typeof createPeerMachine>;

const owners = new WeakMap<AnyActorRef, WiredPeer>();
/** A guard is told the context alone. The keys are of this process, and of owners that are not disposed of. */
const byKey = new Map<number, WiredPeer>();
let lastKey = 0;

/** The key by which a guard finds the owner: the input of its peer's actor has it. */
export function keyOf(owner: WiredPeer): number {
  lastKey += 1;
  byKey.set(lastKey, owner);
  return lastKey;
}

/** Binds an owner to the actor of its peer, before that is started or told to. */
export function bindOwner(actor: AnyActorRef, owner: WiredPeer): void {
  owners.set(actor, owner);
}

export function forgetKey(key: number): void {
  byKey.delete(key);
}

/** The owner of the peer that `actor` is, or is a part of. */
function ownerOf(actor: AnyActorRef): WiredPeer {
  for (let above: AnyActorRef | undefined = actor; above !== undefined; above = above._parent) {
    const owner = owners.get(above);
    if (owner !== undefined) return owner;
  }
  throw new Error('this actor belongs to no peer of a host');
}

const machines = new WeakMap<() => number, PeerMachine>();

/** @param random the source of all jitter, numbers in [0, 1) */
export function peerLogic(random: () => number): PeerMachine {
  const known = machines.get(random);
  if (known !== undefined) return known;
  const made = build(random);
  machines.set(random, made);
  return made;
}

function build(random: () => number): PeerMachine {
  return createPeerMachine(random).provide({
    actors: {
      probe: fromCallback<PeerEvent, ProbeInput>(({ input, self, sendBack }) =>
        ownerOf(self).probe(input, sendBack),
      ),
      initialize: fromCallback<PeerEvent>(({ self, sendBack }) => ownerOf(self).initialize(sendBack)),
      catalog: catalogMachine.provide({
        actors: {
          fetch: fromCallback<CatalogEvent, CatalogInput>(({ input, self, sendBack }) =>
            ownerOf(self).fetch(input, sendBack),
          ),
        },
      }),
      subscription: createSubscriptionMachine(random).provide({
        actors: {
          listen: fromCallback<SubscriptionEvent, ListenInput>(({ input, self, sendBack }) =>
            ownerOf(self).listen(input, sendBack),
          ),
        },
        actions: { refetch: ({ self }) => ownerOf(self).refetch() },
      }),
    },
    guards: {
      mayProbeLegacy: ({ context }) => byKey.get(context.key ?? 0)?.mayProbeLegacy() === true,
    },
    actions: {
      releaseConnection: ({ self }) => ownerOf(self).releaseConnection(),
      requestTurn: ({ self }) => ownerOf(self).requestTurn(),
    },
  });
}
