/** Options of a host and of its peers: shapes, as they come and as they are after the checks of `options.ts`. */
import type { OAuthClientProvider } from '@modelcontextprotocol/client';
import type { CollisionPolicy } from '../registry/lease.js';
import type { TransportFactory } from '../transports/transport.js';

interface PeerConfigBase {
  /**
   * Whether this one peer may get a legacy probe. Default false. There is no wildcard and no other way (N8).
   */
  readonly allowLegacy?: boolean;
  /** Whether `start()` rejects when this peer is not callable. Default false. */
  readonly required?: boolean;
  /** The operator's word about the peer; read by policy. Default `untrusted`. */
  readonly trust?: 'untrusted' | 'trusted';
  /** Free labels (risk, environment, owner …); read by policy and display. */
  readonly labels?: Readonly<Record<string, string>>;
  /** Local names of tools whose calls run one after the other. Default: none. */
  readonly serialize?: readonly string[];
  /** Local names of tools whose calls may be sent again although they may have been executed. Default: none. */
  readonly repeatable?: readonly string[];
  /** As the host's option, for this peer. */
  readonly maxInFlight?: number;
  /** As the host's option, for this peer. */
  readonly maxQueue?: number;
}

/** A peer that is a child process speaking over stdin and stdout. */
export interface StdioPeerConfig extends PeerConfigBase {
  readonly transport?: 'stdio';
  /** An executable: a path, or a name that is looked up on `PATH` once. Never a shell line. */
  readonly command: string;
  readonly args?: readonly string[];
  /** Working directory. Default: the host's. */
  readonly cwd?: string;
  /** Added to the minimal environment; wins over it. */
  readonly env?: Readonly<Record<string, string>>;
}

/** A token that the operator has, sent as `Authorization: Bearer …`. */
export interface BearerAuth {
  readonly type: 'bearer';
  /** Without the word `Bearer`. */
  readonly token: string;
}

/** OAuth 2.1 client credentials: this host authorizes itself, with no person in between. */
export interface ClientCredentialsAuth {
  readonly type: 'client-credentials';
  readonly clientId: string;
  /** Sent to the token endpoint by HTTP Basic, and nowhere else. */
  readonly clientSecret: string;
  /** The authorization server these credentials are registered with (its `issuer`, exactly). No other one sees them. */
  readonly issuer: string;
  /** Space-separated. Default: what the server asks for. */
  readonly scope?: string;
}

/** As {@link ClientCredentialsAuth}, with an assertion signed by a private key in place of the secret (RFC 7523). */
export interface PrivateKeyAuth {
  readonly type: 'private-key-jwt';
  readonly clientId: string;
  /** PKCS #8, in PEM. */
  readonly privateKey: string;
  /** JWS algorithm of the key, such as `ES256` or `RS256`. */
  readonly algorithm: string;
  readonly issuer: string;
  readonly scope?: string;
}

/**
 * How a peer is authorized (HTTP only). An `OAuthClientProvider` of `@modelcontextprotocol/client` is for everything that
 * needs a person, and for grants of one's own; `createOAuthProvider` makes one.
 */
export type PeerAuth = BearerAuth | ClientCredentialsAuth | PrivateKeyAuth | OAuthClientProvider;

/** A peer behind an HTTP endpoint. */
export interface HttpPeerConfig extends PeerConfigBase {
  /**
   * Default `streamable-http`. `legacy-sse` is the deprecated transport of 2024-11-05 and takes `allowLegacy: true`; it
   * is used where it is named, and never fallen back to.
   */
  readonly transport?: 'streamable-http' | 'legacy-sse';
  /** Absolute `http:` or `https:` URL. */
  readonly url: string;
  /** Sent on every request to the URL's origin. `mcp-*` names are refused: the protocol derives those. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: none but `headers`. Contradicts a configured `authorization` header. */
  readonly auth?: PeerAuth;
  /**
   * URL of an HTTP proxy (`http:` or `https:`), with user information where it wants some. All connections to the
   * endpoint and to its authorization servers are tunnels through it (CONNECT). Default: none, whatever the environment
   * says.
   */
  readonly proxy?: string;
}

/** A peer whose transport the host supplies. */
export interface CustomPeerConfig extends PeerConfigBase {
  readonly createTransport: TransportFactory;
  /** What the peer is pinned to (N8): change it whenever the factory would reach another server. */
  readonly identity: string;
  /**
   * On whose behalf the server is asked. Peers with the same `identity` and the same word here share what the server
   * marked private, also through a store that several processes use. Default: nothing private is shared.
   */
  readonly authorizationContext?: string;
}

export type PeerConfig = StdioPeerConfig | HttpPeerConfig | CustomPeerConfig;

/** Deadlines, limits and policies of a host. All optional; times in milliseconds, sizes in bytes. */
export interface HostLimits {
  /** Deadline of one probe. Default 15,000: a cold start takes seconds; a deadline never proves legacy. */
  readonly probeTimeoutMs?: number;
  /** Deadline of the legacy probe, reopening included. Default 15,000. */
  readonly legacyProbeTimeoutMs?: number;
  /** Deadline of a listing, all pages together. Default 30,000. */
  readonly listTimeoutMs?: number;
  /** Deadline of a call. Default 60,000. */
  readonly callTimeoutMs?: number;
  /** Longest life of a call whose deadline progress extends. Default 600,000. */
  readonly maxCallMs?: number;
  /** How long `start()` waits for slow peers. Default 30,000. */
  readonly startTimeoutMs?: number;
  /** A connection that lived shorter does not reset the count of attempts. Default 30,000. */
  readonly stableAfterMs?: number;
  /** First wait before reconnecting; doubles, with full jitter. Default 500. */
  readonly backoffMinMs?: number;
  /** Longest wait before reconnecting. Default 30,000. */
  readonly backoffMaxMs?: number;
  /** Attempts to reconnect before `unavailable`. 0: none (one negotiation only). Default 8. */
  readonly maxAttempts?: number;
  /** When an unreachable peer is tried again by itself. 0: never. Default 60,000. */
  readonly retryUnavailableAfterMs?: number;
  /** Calls of one peer that are on the wire at the same time. Default 64. */
  readonly maxInFlight?: number;
  /** Calls of one peer that wait for their turn; one more is `unavailable`. Default 1,024. */
  readonly maxQueue?: number;
  /** Rounds in which a server may ask for input during one call. 0: none. Default 16. */
  readonly maxRounds?: number;
  /** Transport failures or deadlines in a row that open a peer's breaker. 0: it never opens. Default 5. */
  readonly breakerThreshold?: number;
  /** How long an open breaker lets nothing through at first; doubles, up to ten times. Default 10,000. */
  readonly breakerOpenMs?: number;
  /** Peers that start, or start again, at the same time. Default 8. */
  readonly maxSimultaneousStarts?: number;
  /** Longest message accepted. Default 16 MiB. */
  readonly maxMessageBytes?: number;
  /** How long a process has after its stdin was closed, and again after SIGTERM. Default 2,000. */
  readonly shutdownGraceMs?: number;
}

export interface HostOptions extends HostLimits {
  readonly peers: Readonly<Record<string, PeerConfig>>;
  /** Default `prefix`. */
  readonly collisions?: CollisionPolicy;
  /** What this host says of itself in every request. Default: this package's name and version. */
  readonly clientInfo?: { readonly name: string; readonly version: string; readonly title?: string };
  /** Modern revisions to speak. Default: all this package knows. */
  readonly modernRevisions?: readonly string[];
  /** Legacy revisions to accept from allowlisted peers. Default: all this package knows. */
  readonly legacyRevisions?: readonly string[];
}

interface ResolvedPeerBase {
  readonly name: string;
  readonly allowLegacy: boolean;
  readonly required: boolean;
  readonly trust: 'untrusted' | 'trusted';
  readonly labels: Readonly<Record<string, string>>;
  readonly serialize: readonly string[];
  readonly repeatable: readonly string[];
  /** `undefined`: as the host's. */
  readonly maxInFlight: number | undefined;
  readonly maxQueue: number | undefined;
}

export interface ResolvedStdioPeer extends ResolvedPeerBase {
  readonly transport: 'stdio';
  readonly command: string;
  readonly args: readonly string[];
  /** Absolute: a host that changes its directory later does not move its peers. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

export interface ResolvedHttpPeer extends ResolvedPeerBase {
  readonly transport: 'streamable-http' | 'legacy-sse';
  /** Normalized, without a fragment. */
  readonly url: string;
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly auth: PeerAuth | undefined;
  /** Normalized. May hold credentials. */
  readonly proxy: string | undefined;
}

export interface ResolvedCustomPeer extends ResolvedPeerBase {
  readonly transport: 'custom';
  readonly createTransport: TransportFactory;
  readonly identity: string;
  readonly authorizationContext: string | undefined;
}

/** One peer's configuration: checked, complete, a copy of what came, frozen all the way down. */
export type ResolvedPeer = ResolvedStdioPeer | ResolvedHttpPeer | ResolvedCustomPeer;

/** Options of a host: checked, every default filled in, frozen. */
export interface ResolvedOptions extends Required<HostLimits> {
  /** In the order in which they were configured. A list, since a peer may be named `constructor`. */
  readonly peers: readonly ResolvedPeer[];
  readonly collisions: CollisionPolicy;
  readonly clientInfo: { readonly name: string; readonly version: string; readonly title?: string };
  /** Oldest first, without repetition. */
  readonly modernRevisions: readonly string[];
  /** Oldest first, without repetition. */
  readonly legacyRevisions: readonly string[];
}
