/** The running chart of one peer, and its parts, as the peer's owner speaks to them. */
import type { ActorRefFrom, SnapshotFrom } from 'xstate';
import type { breakerMachine } from '../machines/breakerMachine.js';
import type { catalogMachine } from '../machines/catalogMachine.js';
import { catalogId } from '../machines/peerMachine.js';
import type { PeerEvent, SubscriptionFilter } from '../machines/ports.js';
import type { subscriptionMachine } from '../machines/subscriptionMachine.js';
import type { ListKind } from '../protocol/lists.js';
import type { UnavailableReason } from '../protocol/reasons.js';
import type { PeerMachine } from './peerLogic.js';

export type PeerActor = ActorRefFrom<PeerMachine>;
export type PeerSnapshot = SnapshotFrom<PeerMachine>;
export type CatalogRef = ActorRefFrom<typeof catalogMachine>;
export type SubscriptionRef = ActorRefFrom<typeof subscriptionMachine>;
export type BreakerRef = ActorRefFrom<typeof breakerMachine>;

export class PeerChart {
  private actor: PeerActor | null = null;
  private readonly redact: (text: string) => string;

  /** @param redact takes the peer's configured secrets out of a text */
  constructor(redact: (text: string) => string) {
    this.redact = redact;
  }

  attach(actor: PeerActor): void {
    this.actor = actor;
  }

  /** Undefined before there is an actor. */
  get snapshot(): PeerSnapshot | undefined {
    return this.actor?.getSnapshot();
  }

  /** The server's word about itself, as one text; '' where it said none. */
  get serverName(): string {
    const server = this.snapshot?.context.server;
    return server == null ? '' : JSON.stringify([server.name, server.version]);
  }

  /** Nothing happens before it runs or after it ended. No secret gets into a context. */
  tell(event: PeerEvent): void {
    if (this.snapshot?.status === 'active') this.actor?.send(this.withoutSecrets(event));
  }

  /** The event with the configured secrets taken out of its reason. */
  withoutSecrets<T extends { readonly type: string }>(event: T): T {
    if (!('reason' in event)) return event;
    const reason = event.reason as UnavailableReason;
    return { ...event, reason: { ...reason, message: this.redact(reason.message) } };
  }

  catalog(kind: ListKind): CatalogRef | undefined {
    return this.child(catalogId(kind)) as CatalogRef | undefined;
  }

  /** Has the catalog of `kind` spawned, if it is not there. */
  wantCatalog(kind: ListKind): void {
    this.tell({ type: 'catalog.wanted', kind });
  }

  subscription(): SubscriptionRef | undefined {
    return this.child('subscription') as SubscriptionRef | undefined;
  }

  /** Has the subscription spawned, or told its new filter. */
  wantSubscription(asked: SubscriptionFilter): void {
    this.tell({ type: 'subscription.wanted', asked });
  }

  breaker(): BreakerRef | undefined {
    return this.child('breaker') as BreakerRef | undefined;
  }

  /** Has the breaker spawned, and told. */
  wantBreaker(cause: string): void {
    this.tell({ type: 'breaker.wanted', cause });
  }

  private child(id: string): unknown {
    return (this.snapshot?.children as Readonly<Record<string, unknown>> | undefined)?.[id];
  }
}
