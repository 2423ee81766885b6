/**
 * A configuration file: this package's own shape, or the `mcpServers` or `servers` shape of other hosts. What is
 * returned has been expanded and checked; an error names file, line, column and path, never a value.
 */
import { dirname, isAbsolute, resolve } from 'node:path';
import type { HostOptions } from '../host/config.js';
import { isPlainObject } from '../host/configChecks.js';
import { ConfigurationError, type PathSegment } from '../host/errors.js';
import { parseHostOptions } from '../host/options.js';
import { type Document, readDocument } from './document.js';
import { expandVariables } from './expand.js';
import { convertForeign, type Fail, ROOT_KEYS, type RootKey } from './foreignShapes.js';

export interface ConfigFile {
  /** Absolute. */
  readonly file: string;
  readonly options: HostOptions;
  /** What was left out, one sentence each. */
  readonly warnings: readonly string[];
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads, expands and checks a file.
 *
 * @throws {ConfigurationError}
 */
export async function readConfigFile(file: string, env: Environment): Promise<ConfigFile> {
  const absolute = resolve(file);
  const document = await readDocument(absolute);
  const fail: Fail = (segments, came, allowed) => {
    const position = document.positionOf(segments);
    throw new ConfigurationError({ file: absolute, segments, came, allowed, position });
  };
  const { root } = document;
  if (!isPlainObject(root)) return fail([], 'no object', 'an object');
  const rootKey = rootKeyOf(document, root, fail);
  refuseStrayAllowLegacy(root, [], rootKey, fail);

  const { options, warnings } =
    rootKey === 'peers'
      ? { options: withoutSchema(root), warnings: [] }
      : convertForeign(root, rootKey, fail);
  const peers = options['peers'];
  if (!isPlainObject(peers)) return fail([rootKey], 'no object', 'an object with one key a peer');
  if (Object.keys(peers).length === 0) fail([rootKey], 'no peer that is enabled', 'at least one');
  const expanded = Object.entries(peers).map(([name, peer]): [string, unknown] => [
    name,
    isPlainObject(peer) ? expandPeer(peer, [rootKey, name], { env, folder: dirname(absolute), fail }) : peer,
  ]);
  const complete = { ...options, peers: Object.fromEntries(expanded) } as HostOptions;
  try {
    parseHostOptions(complete);
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error;
    const [first, ...rest] = error.segments;
    fail(first === 'peers' ? [rootKey, ...rest] : error.segments, error.came, error.allowed);
  }
  return { file: absolute, options: complete, warnings };
}

function rootKeyOf({ file }: Document, root: Record<string, unknown>, fail: Fail): RootKey {
  const [first, second] = ROOT_KEYS.filter((key) => Object.hasOwn(root, key));
  if (first === undefined) {
    throw new ConfigurationError({
      file,
      segments: [],
      came: 'none of them',
      allowed: ROOT_KEYS.join(' or '),
    });
  }
  if (second !== undefined) fail([second], `both ${first} and ${second}`, 'one of them');
  return first;
}

function withoutSchema({ $schema: _, ...options }: Record<string, unknown>): Record<string, unknown> {
  return options;
}

/** N8: the allowlist is one peer's own key. Anywhere else it would look as if it did something. */
function refuseStrayAllowLegacy(
  value: unknown,
  at: readonly PathSegment[],
  rootKey: RootKey,
  fail: Fail,
): void {
  if (Array.isArray(value)) {
    value.forEach((item, index) => {
      refuseStrayAllowLegacy(item, [...at, index], rootKey, fail);
    });
  } else if (isPlainObject(value)) {
    for (const [key, inner] of Object.entries(value)) {
      const onPeer = at.length === 2 && at[0] === rootKey;
      if (key === 'allowLegacy' && !onPeer) {
        fail(
          [...at, key],
          'allowLegacy where no peer is',
          `allowLegacy on one peer, as in ${rootKey}.<name>.allowLegacy`,
        );
      }
      refuseStrayAllowLegacy(inner, [...at, key], rootKey, fail);
    }
  }
}

interface Surroundings {
  readonly env: Environment;
  readonly folder: string;
  readonly fail: Fail;
}

/** Expands what may hold variables; whatever has the wrong type is left for the checks to name. */
function expandPeer(peer: Record<string, unknown>, at: readonly PathSegment[], surroundings: Surroundings) {
  const { env, folder, fail } = surroundings;
  const expand = (value: unknown, key: readonly PathSegment[]): unknown => {
    if (typeof value !== 'string') return value;
    const result = expandVariables(value, env);
    return result.ok ? result.text : fail([...at, ...key], result.came, result.allowed);
  };
  const entries = Object.entries(peer).map(([key, value]): [string, unknown] => {
    if (key === 'command' || key === 'url' || key === 'proxy') return [key, expand(value, [key])];
    if (key === 'cwd') {
      const cwd = expand(value, [key]);
      const relative = typeof cwd === 'string' && cwd !== '' && !isAbsolute(cwd);
      return [key, relative ? resolve(folder, cwd) : cwd];
    }
    if (key === 'args' && Array.isArray(value))
      return [key, value.map((item, index) => expand(item, [key, index]))];
    if ((key === 'env' || key === 'headers' || key === 'auth') && isPlainObject(value)) {
      const inner = Object.entries(value).map(([name, item]) => [name, expand(item, [key, name])]);
      return [key, Object.fromEntries(inner)];
    }
    return [key, value];
  });
  return Object.fromEntries(entries);
}
