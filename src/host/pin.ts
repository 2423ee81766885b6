/** The pin of a peer (N8): what `allowLegacy` and the memory of modern evidence are bound to. */
import { hash } from 'node:crypto';
import type { JsonValue } from '../protocol/jsonRpc.js';
import { canonicalJson } from '../registry/digest.js';
import { childEnvironment } from '../transports/childEnvironment.js';
import { fileKind, type ResolvedCommand, resolveCommand } from '../transports/resolveCommand.js';
import type { ResolvedPeer, ResolvedStdioPeer } from './config.js';

/** Finds the executable behind a peer's command; an argument, so that a pin is a function of its arguments. */
export type ExecutableResolver = (peer: ResolvedStdioPeer) => ResolvedCommand;

/**
 * `sha256:<hex>` over the canonical JSON of whatever decides which server is reached: transport kind, resolved
 * executable, arguments, working directory and configured environment; or URL and configured headers; or the identity
 * that a host gave its own transport. Neither the peer's name nor what only policy and calls read (`allowLegacy`,
 * `trust`, `serialize` and the like) counts. Values are hashed, so a pin may be stored and shown.
 */
export function pinOf(peer: ResolvedPeer, resolver: ExecutableResolver = resolveHere): string {
  return `sha256:${hash('sha256', canonicalJson(pinned(peer, resolver)), 'hex')}`;
}

function pinned(peer: ResolvedPeer, resolver: ExecutableResolver): JsonValue {
  switch (peer.transport) {
    case 'stdio': {
      const found = resolver(peer);
      // A command that is not there is pinned as such: the day it appears, it is another server.
      const executable = found.ok ? { file: found.file } : { missing: peer.command };
      return { transport: peer.transport, executable, args: peer.args, cwd: peer.cwd, env: { ...peer.env } };
    }
    case 'streamable-http':
    case 'legacy-sse':
      return {
        transport: peer.transport,
        url: peer.url,
        headers: { ...peer.headers },
        ...(peer.proxy === undefined ? {} : { proxy: peer.proxy }),
      };
    case 'custom':
      return { transport: peer.transport, identity: peer.identity };
  }
}

/** Looks on this machine, with the environment that the child will have. */
export function resolveHere(peer: ResolvedStdioPeer): ResolvedCommand {
  const env = childEnvironment(peer.env, process.env, process.platform);
  return resolveCommand(peer.command, { env, platform: process.platform, cwd: peer.cwd, exists: fileKind });
}
