/** Prompts, resources and completions of all peers, in both eras: lists, single requests, and what of them is cached. */
import type { CacheableRequest } from '../cache/entry.js';
import type { ResponseCache } from '../cache/responseCache.js';
import type { RequestOptions, RequestOutcome } from '../calls/outcome.js';
import { type RequestPort, requestOf } from '../calls/request.js';
import { parseCompletionResult, parsePromptResult, parseResourceResult } from '../protocol/answers.js';
import type {
  CompletionRequest,
  CompletionResult,
  PromptResult,
  ResourceResult,
} from '../protocol/definitions.js';
import { cacheHintOf } from '../protocol/listResults.js';
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
    options?: RequestOptions,
  ): Promise<RequestOutcome<ResourceResult>> {
    const { port, cache } = this.options;
    const owner = this.options.owners.get(peer);
    const startedAt = port.clock.now();
    const key = owner === undefined ? null : readKey(owner, uri);
    if (owner !== undefined && key !== null) {
      const found = await cache.read(owner.options.partition, key);
      const parsed = found === null ? null : parseResourceResult(found.value);
      const agreed = owner.connection?.agreed;
      if (parsed?.ok === true && agreed != null) {
        const durationMs = Math.round((port.clock.now() - startedAt) * 1_000) / 1_000;
        return {
          status: 'ok',
          delivery: 'answered',
          peer,
          method: READ,
          target: uri,
          era: agreed.era,
          revision: agreed.revision,
          requestId: null,
          durationMs,
          attempts: 0,
          value: parsed.value,
          cached: true,
        };
      }
    }
    const ticket = owner === undefined || key === null ? null : cache.begin(owner.options.partition, key);
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
      options,
    );
    if (ticket !== null && result !== undefined) {
      const { ttlMs, cacheScope } = cacheHintOf(result);
      if (ttlMs > 0) void cache.write(ticket, { value: result, ttlMs, scope: cacheScope });
    }
    return outcome;
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
    const key = readKey(owner, uri);
    if (key !== null) void this.options.cache.invalidate(owner.options.partition, key);
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

/** Only modern answers say how long they may be kept. */
function readKey(owner: PeerOwner, uri: string): CacheableRequest | null {
  const agreed = owner.connection?.agreed;
  if (agreed?.era !== 'modern' || !owner.isCallable) return null;
  return {
    method: READ,
    params: `"uri":${JSON.stringify(String(uri))}`,
    revision: agreed.revision,
    server: owner.serverName,
  };
}

/** Rejects with the signal's reason when it aborts first. */
function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return promise;
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', onAbort));
  });
}
