/**
 * `resources/subscribe` and `resources/unsubscribe` of a legacy peer (2025-11-25, server/resources: subscriptions).
 * For each resource one request is out at a time: two sockets of one server keep no order.
 */
import type { Outcome } from '../protocol/exchange.js';
import { isJsonObject, type JsonObject } from '../protocol/jsonRpc.js';
import type { Connection } from '../transports/connection.js';
import { describeOutcome } from './outcomeWords.js';

/** How long `resources/subscribe` and its counterpart may take. */
const SUBSCRIBE_TIMEOUT_MS = 10_000;

export interface LegacySubscribingPeer {
  readonly connection: Connection | null;
  readonly capabilities: JsonObject;
  redact(text: string): string;
  noticed(connection: Connection, outcome: Outcome): void;
}

/** How one resource stands with the server. */
interface Standing {
  /** A request about it is out. */
  isAsking: boolean;
  /** The server tells of it, as far as is known. */
  isSubscribed: boolean;
  /** Why it does not. */
  problem: string | null;
}

export class LegacySubscriptions {
  private readonly peer: LegacySubscribingPeer;
  private readonly wanted: ReadonlyMap<string, number>;
  private readonly onSubscribed: (uri: string) => void;
  private readonly standings = new Map<string, Standing>();

  /**
   * @param wanted what is subscribed to on this side, changed by its owner
   * @param onSubscribed the server tells of it from now on; what happened before is unknown
   */
  constructor(
    peer: LegacySubscribingPeer,
    wanted: ReadonlyMap<string, number>,
    onSubscribed: (uri: string) => void,
  ) {
    this.peer = peer;
    this.wanted = wanted;
    this.onSubscribed = onSubscribed;
  }

  /** Tells the server what changed of what is wanted. */
  apply(connection: Connection): void {
    for (const uri of new Set([...this.wanted.keys(), ...this.standings.keys()]))
      this.settle(connection, uri);
  }

  /** The server of the next connection knows nothing. */
  connectionEnded(): void {
    this.standings.clear();
  }

  /** What is wanted and not told of, and why. */
  get missing(): { readonly uris: readonly string[]; readonly problem: string | null } {
    const failed = [...this.standings].filter(([, { problem }]) => problem !== null);
    return { uris: failed.map(([uri]) => uri), problem: failed.at(-1)?.[1].problem ?? null };
  }

  private settle(connection: Connection, uri: string): void {
    const standing = this.standings.get(uri);
    if (standing?.isAsking === true) return;
    const isWanted = this.wanted.has(uri);
    if (isWanted && standing === undefined) this.subscribe(connection, uri);
    else if (!isWanted && standing?.isSubscribed === true) this.unsubscribe(connection, uri, standing);
    else if (!isWanted) this.standings.delete(uri);
  }

  private subscribe(connection: Connection, uri: string): void {
    const standing: Standing = { isAsking: false, isSubscribed: false, problem: null };
    this.standings.set(uri, standing);
    const resources = this.peer.capabilities['resources'];
    if (!isJsonObject(resources) || resources['subscribe'] !== true) {
      standing.problem = 'The server offers no subscriptions to resources.';
      return;
    }
    this.ask(connection, 'resources/subscribe', uri, standing, (outcome) => {
      // Without an answer it may have been heard.
      standing.isSubscribed = outcome.kind !== 'error';
      if (outcome.kind === 'result') this.onSubscribed(uri);
      else standing.problem = `resources/subscribe: ${describeOutcome(outcome, this.peer.redact)}`;
    });
  }

  private unsubscribe(connection: Connection, uri: string, standing: Standing): void {
    this.ask(connection, 'resources/unsubscribe', uri, standing, () => this.standings.delete(uri));
  }

  private ask(
    connection: Connection,
    method: string,
    uri: string,
    standing: Standing,
    conclude: (outcome: Outcome) => void,
  ): void {
    standing.isAsking = true;
    const { outcome } = connection.request(method, `"uri":${JSON.stringify(uri)}`, {
      timeoutMs: SUBSCRIBE_TIMEOUT_MS,
    });
    void outcome.then((settled) => {
      // Of an earlier connection, or of an earlier era on it.
      if (this.standings.get(uri) !== standing) return;
      standing.isAsking = false;
      conclude(settled);
      this.settle(connection, uri);
      this.peer.noticed(connection, settled);
    });
  }
}
