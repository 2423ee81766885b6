/** Configuration files of other hosts: `mcpServers` and `servers`, brought into this package's own shape. */
import { isPlainObject } from '../host/configChecks.js';
import type { PathSegment } from '../host/errors.js';

/** Keys under which the three shapes keep their peers. */
export const ROOT_KEYS = ['peers', 'mcpServers', 'servers'] as const;
export type RootKey = (typeof ROOT_KEYS)[number];

/** What other hosts write beside the servers. It means nothing here. */
const IGNORED_AT_TOP = new Set(['inputs', 'globalShortcut', 'preferences', 'sandbox', 'theme', 'version']);

/** What other hosts write on a server. It means nothing here; `type`, `disabled` and `enabled` do. */
const IGNORED_ON_PEER = new Set([
  'allowedTools',
  'alwaysAllow',
  'autoApprove',
  'autoStart',
  'description',
  'dev',
  'disabledTools',
  'enabledTools',
  'envFile',
  'excludeTools',
  'gallery',
  'headersHelper',
  'icon',
  'includeTools',
  'initTimeout',
  'metadata',
  'name',
  'oauth',
  'sandboxEnabled',
  'tags',
  'timeout',
  'version',
]);

/** Words of `type`, and the transport each means here. */
const TRANSPORT_OF_TYPE = new Map([
  ['stdio', 'stdio'],
  ['http', 'streamable-http'],
  ['streamable-http', 'streamable-http'],
  ['streamableHttp', 'streamable-http'],
  ['sse', 'legacy-sse'],
]);

const LEGACY_ALLOWED =
  '"http", or allowLegacy: true beside it on this peer, since HTTP+SSE is the transport of a legacy revision';

export interface Converted {
  /** Own shape, unchecked. */
  readonly options: Record<string, unknown>;
  readonly warnings: readonly string[];
}

export type Fail = (segments: readonly PathSegment[], came: string, allowed: string) => never;

/** Turns a document of another host into the own shape, and tells what was left out. */
export function convertForeign(root: Record<string, unknown>, rootKey: RootKey, fail: Fail): Converted {
  const warnings: string[] = [];
  const entries = Object.entries(root).filter(([key]) => key !== rootKey && key !== '$schema');
  const dropped = entries.map(([key]) => key).filter((key) => IGNORED_AT_TOP.has(key));
  if (dropped.length > 0) warnings.push(`ignored ${dropped.join(', ')}`);
  const rest = entries.filter(([key]) => !IGNORED_AT_TOP.has(key));

  const servers = root[rootKey];
  if (!isPlainObject(servers)) return fail([rootKey], 'no object', 'an object with one key a peer');
  const peers = Object.entries(servers).flatMap(([name, server]): [string, unknown][] => {
    if (!isPlainObject(server)) return [[name, server]];
    const converted = convertPeer(server, [rootKey, name], fail);
    warnings.push(...converted.warnings.map((warning) => `${rootKey}.${name}: ${warning}`));
    return converted.peer === null ? [] : [[name, converted.peer]];
  });
  return { options: Object.fromEntries([...rest, ['peers', Object.fromEntries(peers)]]), warnings };
}

function convertPeer(server: Record<string, unknown>, at: readonly PathSegment[], fail: Fail) {
  const warnings: string[] = [];
  for (const key of ['disabled', 'enabled']) {
    const value = server[key];
    if (value !== undefined && typeof value !== 'boolean') fail([...at, key], 'no boolean', 'true or false');
  }
  if (server['disabled'] === true || server['enabled'] === false) {
    return { peer: null, warnings: ['skipped, since it is disabled'] };
  }
  const kept = new Map<string, unknown>();
  const dropped: string[] = [];
  for (const [key, value] of Object.entries(server)) {
    // `trust: true` of other hosts waives approvals; ours is a word.
    if (IGNORED_ON_PEER.has(key) || (key === 'trust' && typeof value === 'boolean')) dropped.push(key);
    else if (key !== 'type' && key !== 'disabled' && key !== 'enabled') kept.set(key, value);
  }
  if (dropped.length > 0) warnings.push(`ignored ${dropped.join(', ')}`);
  const type = server['type'];
  // A peer with both a command and a url is refused as such, whatever its type.
  if (type !== undefined && !(kept.has('url') && kept.has('command'))) {
    const transport = typeof type === 'string' ? TRANSPORT_OF_TYPE.get(type) : undefined;
    const allowed = kept.has('url') ? ['http', 'streamable-http', 'streamableHttp', 'sse'] : ['stdio'];
    if (
      transport === undefined ||
      (kept.has('url') && transport === 'stdio') ||
      (kept.has('command') && transport !== 'stdio')
    ) {
      const came = typeof type === 'string' && type.length <= 40 ? JSON.stringify(type) : 'no such word';
      fail([...at, 'type'], came, allowed.map((word) => JSON.stringify(word)).join(' or '));
    }
    if (!kept.has('transport')) kept.set('transport', transport);
    // Said here and not by the checks that follow: who reads it wrote `type`, and no `transport`.
    if (kept.get('transport') === 'legacy-sse' && kept.get('allowLegacy') !== true) {
      fail([...at, 'type'], `${JSON.stringify(type)} without allowLegacy: true`, LEGACY_ALLOWED);
    }
  }
  return { peer: Object.fromEntries(kept), warnings };
}
