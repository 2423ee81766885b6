/// <reference lib="esnext.disposable" />
/** What a host author holds in hands. Implemented by `createHost` and `hostOf`. */
import type { CallOptions, CallOutcome, RequestOptions, RequestOutcome } from '../calls/outcome.js';
import type {
  CompletionRequest,
  CompletionResult,
  PromptDefinition,
  PromptResult,
  ResourceDefinition,
  ResourceResult,
  ResourceTemplateDefinition,
} from '../protocol/definitions.js';
import type { JsonObject } from '../protocol/jsonRpc.js';
import type { ListKind } from '../protocol/lists.js';
import type { UnavailableReason } from '../protocol/reasons.js';
import type { Era } from '../protocol/revisions.js';
import type { Conflict, Lease } from '../registry/lease.js';
import type { PeerConfig } from './config.js';
import type { PeerStateName } from './peerStates.js';
import type { HostStatus } from './status.js';

export type { ReasonCode, UnavailableReason } from '../protocol/reasons.js';
export type { PeerStateName } from './peerStates.js';

/** One step of a negotiation: what was sent, what came back, which rule judged it. */
export interface RecordEntry {
  /** Milliseconds since the negotiation began. */
  readonly atMs: number;
  readonly sent: string;
  readonly id: number | null;
  readonly revision: string | null;
  /** Kind of the outcome: `result`, `error`, `timeout`, … */
  readonly outcome: string;
  /** What came back, in short. Sanitized, at most 500 characters. */
  readonly detail: string;
  /** The verdict: `discover.result`, `discover.ambiguous`, … */
  readonly verdict: string;
  /** The rule that judged: `N2`, `N5`, … */
  readonly rule: string;
}

/** How one peer stands. */
export interface PeerReport {
  readonly name: string;
  readonly state: PeerStateName;
  readonly era: Era | 'unknown';
  readonly revision: string | null;
  /** Self-reported, for display only. */
  readonly server: { readonly name: string; readonly version: string } | null;
  readonly reason: UnavailableReason | null;
  /**
   * Where a person can grant this host access, while that is needed: open it in a browser, then hand what came back to
   * {@link PeerHandle.authorize}. Null where nothing is needed, or nothing of the kind is configured.
   */
  readonly authorizationUrl: string | null;
  /** `initialize` requests written in this negotiation. */
  readonly initializeSent: number;
  /** Duration of the negotiation. */
  readonly ms: number;
  /** Tools listed, or `null` where no listing succeeded. */
  readonly tools: number | null;
  /** Why the listing failed, where it did. */
  readonly listing: string | null;
  readonly record: readonly RecordEntry[];
  /** What was wrong on the wire and belongs to no request, by kind, since the peer was added. */
  readonly faults: Readonly<Record<string, number>>;
  /** States in order, the current one last. */
  readonly path: readonly PeerStateName[];
}

export interface StartReport {
  readonly peers: readonly PeerReport[];
  readonly ms: number;
}

/** The registry as it was when it was asked for; calls through it are bound to it. */
export interface Catalog extends Lease {
  call(name: string, args?: JsonObject, options?: CallOptions): Promise<CallOutcome>;
}

export interface ListOptions {
  /** Only this peer. Default: all that are callable and declare the list. */
  readonly peer?: string;
  /** Fetch anew, whatever `ttlMs` said. Default false. */
  readonly refresh?: boolean;
  /** Ends the waiting; a fetch under way goes on for others. */
  readonly signal?: AbortSignal;
}

/** A list merged over peers, in the order of their names; items keep their server's order. */
export interface Listed<T> {
  readonly items: readonly (T & { readonly peer: string; readonly freshness: 'fresh' | 'stale' })[];
  /** Peers whose list could not be had, or could not be renewed: what is shown of them is stale or missing. */
  readonly problems: readonly { readonly peer: string; readonly message: string }[];
}

/** What an authorization server sent back to the redirect URL, percent-decoded. */
export type AuthorizationResponse =
  | string
  | URL
  | {
      readonly code: string;
      /** RFC 9207; needed where the server announces that it sends one. */
      readonly iss?: string;
      /** Compared with that of the request, where both have one. */
      readonly state?: string;
    };

export interface PeerHandle {
  readonly name: string;
  readonly state: PeerStateName;
  readonly era: Era | 'unknown';
  readonly callable: boolean;
  report(): PeerReport;
  /** The negotiation record in words, one line a step, the fix last. */
  explain(): string;
  /** Starts a new negotiation of a peer that is `unavailable` or `reconnecting`; a new listing where one failed. */
  retry(): void;
  /** Fetches the tools anew, now. What comes of it is told by events. */
  refresh(): void;
  /**
   * Goes on after authorization was granted: redeems what came back, where there is something, then probes again, if
   * the peer is `unavailable` or `reconnecting`, or lists the tools again, where that failed. Resolves with the report
   * when the peer has settled, was removed, or the host stops.
   *
   * @param response what came to the redirect URL: the whole URL, or its parameters. Absent: the credentials are there
   *   already
   * @throws {AuthorizationError} as a rejection: nothing is redeemed, and the peer stays as it is
   */
  authorize(response?: AuthorizationResponse): Promise<PeerReport>;
  /**
   * Resolves with the report when the peer is `callable`, or when it is `settled`: callable and listed, failed, or, if it
   * is not required, waiting to reconnect. Rejects on abort, when the peer is removed, and when the host stops.
   */
  waitUntil(what: 'callable' | 'settled', options?: { readonly signal?: AbortSignal }): Promise<PeerReport>;
}

export interface HostEvents {
  /** A peer changed its state. */
  readonly peer: PeerReport;
  /** The lease changed. */
  readonly catalogChanged: {
    readonly revision: number;
    readonly added: readonly string[];
    readonly removed: readonly string[];
    readonly changed: readonly string[];
  };
  /** Two peers declare one tool name. */
  readonly conflict: Conflict;
  /** A list that was asked for is another one now, or may be: notifications were missed. Tools: see `catalogChanged`. */
  readonly listChanged: { readonly peer: string; readonly kind: ListKind };
  /** A resource that is subscribed to changed. `certain` false: it may have, notifications were missed. */
  readonly resourceUpdated: { readonly peer: string; readonly uri: string; readonly certain: boolean };
  /** A person must grant this host access to a peer; also in mid-session, where a peer asks for more than before. */
  readonly authorization: { readonly peer: string; readonly url: string };
  /** A call settled. Never holds arguments or content. */
  readonly call: {
    readonly tool: string;
    readonly peer: string | null;
    readonly status: string;
    readonly delivery: string;
    readonly durationMs: number;
  };
}

export interface Host extends AsyncDisposable {
  readonly id: string;
  /**
   * Starts all peers. Resolves when each has settled and listed, or at `startTimeoutMs`, with a report a peer.
   * Idempotent, until the host is stopped.
   *
   * @throws {PeerageError} the host was stopped
   * @throws {CollisionError} policy `reject` and two peers declare one tool
   * @throws {RequiredPeerError} a peer with `required: true` is not callable
   */
  start(): Promise<StartReport>;
  catalog(): Catalog;
  /** A call through the current lease. Resolves with an outcome; see {@link CallOutcome}. */
  call(name: string, args?: JsonObject, options?: CallOptions): Promise<CallOutcome>;
  /** Fetched when first asked for, and again when `ttlMs` ran out or a change was announced. @throws {UnknownPeerError} */
  listPrompts(options?: ListOptions): Promise<Listed<PromptDefinition>>;
  listResources(options?: ListOptions): Promise<Listed<ResourceDefinition>>;
  listResourceTemplates(options?: ListOptions): Promise<Listed<ResourceTemplateDefinition>>;
  /** Reads a resource of a peer, listed or not. Within `ttlMs` it is answered from the cache. */
  readResource(peer: string, uri: string, options?: RequestOptions): Promise<RequestOutcome<ResourceResult>>;
  getPrompt(
    peer: string,
    name: string,
    args?: Readonly<Record<string, string>>,
    options?: RequestOptions,
  ): Promise<RequestOutcome<PromptResult>>;
  complete(
    peer: string,
    request: CompletionRequest,
    options?: RequestOptions,
  ): Promise<RequestOutcome<CompletionResult>>;
  /**
   * Asks the peer to tell of changes (`resourceUpdated`), now and after every reconnect. Returns the function that
   * ends it. @throws {UnknownPeerError}
   */
  subscribeResource(peer: string, uri: string): () => void;
  /** How everything stands, as numbers. */
  status(): HostStatus;
  /** @throws {UnknownPeerError} */
  peer(name: string): PeerHandle;
  peers(): readonly PeerReport[];
  /** Adds and starts a peer. Resolves when it has settled. @throws {ConfigurationError} */
  addPeer(name: string, config: PeerConfig): Promise<PeerReport>;
  /** Stops a peer and frees its names. Resolves when nothing of it is left. @throws {UnknownPeerError} */
  removePeer(name: string): Promise<void>;
  /** Forgets the modern evidence of a peer (N12), as is needed after a rollback to a legacy server. */
  forget(name: string): void;
  /** Listens; a listener that throws harms nothing. Returns the function that ends it. */
  on<K extends keyof HostEvents>(event: K, listener: (detail: HostEvents[K]) => void): () => void;
  /** Stops all. Resolves when no process, socket or timer of it is left. Idempotent. */
  stop(): Promise<void>;
}
