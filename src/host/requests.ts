/** Prompts, resources and completions of all peers, in both eras: lists, single requests, and what of them is cached. */
import type { CacheableRequest } from '../cache/entry.js';
import type { ResponseCache } from '../cache/responseCache.js';
import type { RequestOptions, RequestOutcome } from '../calls/outcome.js';
import { type RequestPort, requestOf } from '../calls/request.js';
import { waitUntil } from '../calls/waiting.js';
import { parseCompletionResult, parsePromptResult, parseResourceResult } from '../protocol/answers.js';
import type {
  CompletionRequest,
  CompletionResult,
  PromptResult,
  ResourceResult,
} from '../protocol/definitions.js';
import type { JsonObject } from '../protocol/jsonRpc.js';
import { cacheHintOf } from '../protocol/listResults.js';
import type { Era } from '../protocol/revisions.js';
import { ignoreAbort, listenToAbort } from '../transports/abortFanout.js';
import type { Connection } from '../transports/connection.js';
import { UnknownPeerError } from './errors.js';
import type { Listed, ListOptions } from './facade.js';
import type { Definitions } from './listing.js';
import type { PeerOwner } from './peer.js';

const READ = 'resources/read';

export interface HostRequestsOptions {
  readonly port: RequestPort;
  readonly cache: ResponseCache;
  readonly owners: ReadonlyMap<string, PeerOwner>;
}

export class HostRequests {
  private readonly options: HostRequestsOptions;

  constructor(options: HostRequestsOptions) {
    this.options = options;
  }

  /** @throws {UnknownPeerError} as a rejection */
  async list<Kind extends keyof Definitions>(
    kind: Kind,
    { peer, refresh = false, signal }: ListOptions = {},
  ): Promise<Listed<Definitions[Kind]>> {
    signal?.throwIfAborted();
    const owners = this.ownersOf(peer);
    const listing = Promise.all(
      owners.map(async (owner) => ({ owner, now: await owner.lists.current(kind, refresh) })),
    );
    const lists = await untilAborted(listing, signal);
    return {
      items: lists.flatMap(({ owner, now }) =>
        (now.items as readonly Definitions[Kind][]).map((item) => ({
          ...item,
          peer: owner.name,
          freshness: now.freshness,
        })),
      ),
      problems: lists.flatMap(({ owner, now }) =>
        now.problem === null ? [] : [{ peer: owner.name, message: now.problem }],
      ),
    };
  }

  async readResource(
    peer: string,
    uri: string,
    options: RequestOptions = {},
  ): Promise<RequestOutcome<ResourceResult>> {
    const { port, cache } = this.options;
    const owner = this.options.owners.get(peer);
    const kept = owner === undefined || asksOtherwise(options.meta) ? null : keptRead(owner, uri);
    const startedAt = port.clock.now();
    if (kept !== null) {
      const found = await this.believed(kept, options);
      if (found !== null) {
        const { era, revision } = kept.agreed;
        const durationMs = Math.round((port.clock.now() - startedAt) * 1_000) / 1_000;
        const facts = { peer, method: READ, target: uri, era, revision, requestId: null, durationMs };
        return { ...facts, status: 'ok', delivery: 'answered', attempts: 0, value: found, cached: true };
      }
    }
    const partition = kept?.owner.partition;
    const ticket = kept === null || partition === undefined ? null : cache.begin(partition, kept.key);
    const { outcome, result } = await requestOf(
      port,
      {
        peer,
        method: READ,
        members: `"uri":${JSON.stringify(String(uri))}`,
        target: String(uri),
        hasRounds: true,
        capability: 'resources',
        read: parseResourceResult,
      },
      // One deadline, for the store as well.
      {
        ...options,
        timeoutMs: (options.timeoutMs ?? port.callTimeoutMs) - (port.clock.now() - startedAt),
      },
    );
    // An answer of another connection may be that of another version of the server; what was asked with other credentials
    // is not theirs for whom it was begun.
    const isTheirs = kept?.owner.connection === kept?.connection && kept?.owner.partition === partition;
    if (ticket !== null && result !== undefined && isTheirs) {
      const { ttlMs, cacheScope } = cacheHintOf(result);
      if (ttlMs > 0) void cache.write(ticket, { value: result, ttlMs, scope: cacheScope });
    }
    return outcome;
  }

  /** What the cache has, unless it is of before a reconnect: updates may have been missed since. */
  private async believed(
    { owner, key, connection }: KeptRead,
    { signal, timeoutMs }: RequestOptions,
  ): Promise<ResourceResult | null> {
    const { port, cache } = this.options;
    const waited = await waitUntil(cache.read(owner.partition, key), {
      clock: port.clock,
      deadline: port.clock.now() + (timeoutMs ?? port.callTimeoutMs),
      signal,
      onEnding: port.onEnding,
    });
    if (waited.kind !== 'done' || waited.value === null) return null;
    if (owner.connection !== connection || !owner.isCallable) return null;
    const { value, ageMs } = waited.value;
    if (owner.generation > 1 && ageMs >= owner.elapsedMs()) return null;
    const parsed = parseResourceResult(value);
    return parsed.ok ? parsed.value : null;
  }

  async getPrompt(
    peer: string,
    name: string,
    args?: Readonly<Record<string, string>>,
    options?: RequestOptions,
  ): Promise<RequestOutcome<PromptResult>> {
    const given = args === undefined ? '' : `,"arguments":${JSON.stringify(args)}`;
    const { outcome } = await requestOf(
      this.options.port,
      {
        peer,
        method: 'prompts/get',
        members: `"name":${JSON.stringify(String(name))}${given}`,
        target: String(name),
        hasRounds: true,
        capability: 'prompts',
        read: parsePromptResult,
      },
      options,
    );
    return outcome;
  }

  async complete(
    peer: string,
    request: CompletionRequest,
    options?: RequestOptions,
  ): Promise<RequestOutcome<CompletionResult>> {
    const { ref, argument, context } = request;
    const decided = context === undefined ? '' : `,"context":${JSON.stringify(context)}`;
    const { outcome } = await requestOf(
      this.options.port,
      {
        peer,
        method: 'completion/complete',
        members: `"ref":${JSON.stringify(ref)},"argument":${JSON.stringify(argument)}${decided}`,
        target: ref.type === 'ref/prompt' ? ref.name : ref.uri,
        hasRounds: false,
        capability: 'completions',
        read: parseCompletionResult,
      },
      options,
    );
    return outcome;
  }

  /** The resource changed: what is kept of it is not valid any more. */
  forget(owner: PeerOwner, uri: string): void {
    const kept = keptRead(owner, uri);
    if (kept !== null) void this.options.cache.invalidate(owner.partition, kept.key);
  }

  private ownersOf(peer: string | undefined): readonly PeerOwner[] {
    const { owners } = this.options;
    if (peer !== undefined) {
      const owner = owners.get(peer);
      if (owner === undefined) throw new UnknownPeerError(peer);
      return [owner];
    }
    return [...owners.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  }
}

/** A read whose answer may be kept. */
interface KeptRead {
  readonly owner: PeerOwner;
  readonly connection: Connection;
  readonly agreed: { readonly era: Era; readonly revision: string };
  readonly key: CacheableRequest;
}

/** Only modern answers say how long they may be kept. */
function keptRead(owner: PeerOwner, uri: string): KeptRead | null {
  const { connection } = owner;
  const agreed = connection?.agreed;
  if (connection === null || agreed?.era !== 'modern' || !owner.isCallable) return null;
  return {
    owner,
    connection,
    agreed,
    key: {
      method: READ,
      params: `"uri":${JSON.stringify(String(uri))}`,
      revision: agreed.revision,
      server: owner.chart.serverName,
    },
  };
}

/** Trace context says nothing about what is asked for; anything else in `_meta` may (basic/utilities/caching). */
const TRACE_KEYS: ReadonlySet<string> = new Set(['traceparent', 'tracestate', 'baggage']);

function asksOtherwise(meta: JsonObject | undefined): boolean {
  return meta !== undefined && Object.keys(meta).some((key) => !TRACE_KEYS.has(key));
}

/** Rejects with the signal's reason when it aborts first. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = { aborted: () => reject(signal.reason) };
    listenToAbort(signal, onAbort);
    promise.then(resolve, reject).finally(() => ignoreAbort(signal, onAbort));
  });
}
