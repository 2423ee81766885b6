/** Whose answers a cache may mix: what a peer is, what it is told of this client, and on whose behalf it is asked. */
import { hash } from 'node:crypto';
import type { CachePartition } from '../cache/entry.js';
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import { canonicalJson } from '../registry/digest.js';
import { childEnvironment } from '../transports/childEnvironment.js';
import type { ResolvedPeer } from './config.js';
import { resolveHere } from './pin.js';

/**
 * The identity is what the server is: transport, executable, arguments and directory, or URL; with it what this client
 * declares in every request, since a server may list by that (basic/utilities/caching, cache key). The context is
 * everything that may say who asks: all headers, or the whole environment of the process (with its home directory and
 * what is configured). Where a host supplies the transport only the host knows; unless it says so with
 * `authorizationContext`, its private answers stay within `ownWord`.
 *
 * Values are hashed: a partition can be stored and shown.
 *
 * @param ownWord a word that no other peer has, of this host or another
 * @param authorization stands for whoever the credentials that are obtained belong to
 */
export function partitionOf(
  peer: ResolvedPeer,
  ownWord: string,
  clientCapabilities: JsonObject,
  authorization?: string,
): CachePartition {
  return {
    identity: digest([identityOf(peer), clientCapabilities]),
    context: digest(
      authorization === undefined
        ? contextOf(peer, ownWord)
        : { configured: contextOf(peer, ownWord), authorization },
    ),
  };
}

function identityOf(peer: ResolvedPeer): JsonValue {
  switch (peer.transport) {
    case 'stdio': {
      const found = resolveHere(peer);
      const executable = found.ok ? found.file : { missing: peer.command };
      return { transport: peer.transport, executable, args: peer.args, cwd: peer.cwd };
    }
    case 'streamable-http':
    case 'legacy-sse':
      return { transport: peer.transport, url: peer.url };
    case 'custom':
      return { transport: peer.transport, identity: peer.identity };
  }
}

function contextOf(peer: ResolvedPeer, ownWord: string): JsonValue {
  switch (peer.transport) {
    case 'stdio':
      return { ...childEnvironment(peer.env, process.env, process.platform) } as JsonValue;
    case 'streamable-http':
    case 'legacy-sse':
      return { ...peer.headers };
    case 'custom':
      return peer.authorizationContext === undefined
        ? { own: ownWord }
        : { context: peer.authorizationContext };
  }
}

function digest(value: JsonValue): string {
  return hash('sha256', canonicalJson(value), 'hex');
}
