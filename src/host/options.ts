/** The way from options as they come to options that are checked, complete and frozen. */
import { isAbsolute, resolve } from 'node:path';
import { isAuthProvider } from './authChecks.js';
import type { HostOptions, ResolvedOptions, ResolvedPeer } from './config.js';
import { checkHostOptions, checkPeer, fail, isPlainObject } from './configChecks.js';
import type { PathSegment } from './errors.js';

/**
 * Checks the options of a host and fills in every default. What is returned shares nothing with what came in but
 * what only the host can make: transports and providers of authorization.
 *
 * @throws {ConfigurationError} anything unknown, of the wrong type, out of bounds or contradictory
 */
export function parseHostOptions(options: HostOptions): ResolvedOptions {
  const { peers, ...rest } = checkHostOptions(options);
  const resolved = Object.keys(peers).map((name) => parsePeer(name, peers[name], rest.legacyRevisions));
  return deepFreeze({ ...rest, peers: resolved });
}

/**
 * Checks one peer, as `addPeer` needs it.
 *
 * @param legacyRevisions the host's: a peer cannot be allowlisted where there is none
 * @throws {ConfigurationError} as {@link parseHostOptions}; the path starts with `peers.<name>`
 */
export function parsePeer(name: string, config: unknown, legacyRevisions: readonly string[]): ResolvedPeer {
  const at: readonly PathSegment[] = ['peers', name];
  const peer = checkPeer(name, config, at);
  if (peer.allowLegacy && legacyRevisions.length === 0) {
    fail([...at, 'allowLegacy'], 'true', 'false, since legacyRevisions is empty');
  }
  if (peer.transport !== 'stdio') return deepFreeze(peer);
  const cwd = peer.cwd ?? process.cwd();
  return deepFreeze({ ...peer, cwd: isAbsolute(cwd) ? cwd : resolve(cwd) });
}

/** Freezes lists and plain objects; functions and providers that a host gave are left as they are. */
function deepFreeze<T>(value: T): T {
  if (Array.isArray(value)) for (const item of value) deepFreeze(item);
  else if (isPlainObject(value) && !isAuthProvider(value))
    for (const key of Object.keys(value)) deepFreeze(value[key]);
  else return value;
  return Object.freeze(value);
}
