/** Which peers a command line means: a configuration file, or one inline peer. */
import { existsSync } from 'node:fs';
import type { HostOptions, PeerConfig } from '../host/config.js';
import { parseHostOptions } from '../host/options.js';
import { readConfigFile } from './configFile.js';
import { UsageError } from './exit.js';

/** The only file that is read unasked: another host's file may lie in the same folder. */
export const DEFAULT_FILE = './peerage.json';
/** What the one peer of `-- command` and `--url` is called. */
export const INLINE_NAME = 'inline';

export interface SourceFlags {
  readonly config?: string;
  readonly url?: string;
  readonly header?: readonly string[];
  readonly allowLegacy?: boolean;
  readonly probeTimeoutMs?: string;
  readonly legacyProbeTimeoutMs?: string;
  readonly callTimeoutMs?: string;
  readonly collisions?: string;
}

export interface Source {
  readonly options: HostOptions;
  /** The file that was read; `null` for an inline peer. */
  readonly file: string | null;
  readonly warnings: readonly string[];
}

/**
 * @param inline what stands after `--`, or `null` where there is no `--`
 * @throws {UsageError}
 * @throws {ConfigurationError}
 */
export async function readSource(
  flags: SourceFlags,
  inline: readonly string[] | null,
  env: Readonly<Record<string, string | undefined>>,
): Promise<Source> {
  const given = [
    flags.config === undefined ? [] : ['--config'],
    flags.url === undefined ? [] : ['--url'],
    inline === null ? [] : ['-- command'],
  ].flat();
  if (given.length > 1) throw new UsageError(`${given.join(' and ')} exclude each other`);
  if (flags.header !== undefined && flags.url === undefined) throw new UsageError('--header needs --url');

  const overrides = overridesOf(flags);
  const peer = inlinePeer(flags, inline);
  if (peer !== null) {
    const options: HostOptions = { peers: { [INLINE_NAME]: peer }, ...overrides };
    parseHostOptions(options);
    return { options, file: null, warnings: [] };
  }
  const file = flags.config ?? DEFAULT_FILE;
  if (flags.allowLegacy === true) {
    throw new UsageError(
      `--allow-legacy is for an inline peer only; in ${file}, put "allowLegacy": true on the peer`,
    );
  }
  if (flags.config === undefined && !existsSync(DEFAULT_FILE)) {
    throw new UsageError(
      `there is no ${DEFAULT_FILE}; give --config <file>, --url <url> or -- <command> [args…]`,
    );
  }
  const read = await readConfigFile(file, env);
  const options = { ...read.options, ...overrides };
  parseHostOptions(options);
  return { options, file: read.file, warnings: read.warnings };
}

/** The source with only the peers of these names; all of them where none is named. @throws {UsageError} */
export function limitTo(source: Source, names: readonly string[]): Source {
  if (names.length === 0) return source;
  if (source.file === null)
    throw new UsageError('an inline peer is the only one; names are for configuration files');
  const known = source.options.peers;
  const unknown = names.find((name) => !Object.hasOwn(known, name));
  if (unknown !== undefined) {
    throw new UsageError(
      `no peer ${JSON.stringify(unknown)} in ${source.file}; there is ${Object.keys(known).join(', ')}`,
    );
  }
  const peers = Object.fromEntries(Object.entries(known).filter(([name]) => names.includes(name)));
  return { ...source, options: { ...source.options, peers } };
}

function inlinePeer(flags: SourceFlags, inline: readonly string[] | null): PeerConfig | null {
  const allowLegacy = flags.allowLegacy === true ? { allowLegacy: true } : {};
  if (flags.url !== undefined)
    return { url: flags.url, headers: headersOf(flags.header ?? []), ...allowLegacy };
  if (inline === null) return null;
  const [command, ...args] = inline;
  if (command === undefined) throw new UsageError('no command after --');
  return { command, args, ...allowLegacy };
}

function headersOf(lines: readonly string[]): Record<string, string> {
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(':');
    // Not shown: the line may hold a secret.
    if (colon < 1) throw new UsageError("--header: allowed is 'Name: value'");
    const name = line.slice(0, colon);
    if (headers.has(name)) throw new UsageError(`--header: ${JSON.stringify(name)} a second time`);
    headers.set(name, line.slice(colon + 1).trim());
  }
  return Object.fromEntries(headers);
}

const TIMES = {
  probeTimeoutMs: '--probe-timeout-ms',
  legacyProbeTimeoutMs: '--legacy-probe-timeout-ms',
  callTimeoutMs: '--call-timeout-ms',
} as const;

function overridesOf(flags: SourceFlags): Partial<HostOptions> {
  const times = Object.entries(TIMES).flatMap(([key, flag]) => {
    const text = flags[key as keyof typeof TIMES];
    if (text === undefined) return [];
    if (!/^\d{1,9}$/.test(text)) throw new UsageError(`${flag}: allowed is a whole number of milliseconds`);
    return [[key, Number(text)]];
  });
  // What the word may be is checked with all other options.
  const collisions = flags.collisions === undefined ? {} : { collisions: flags.collisions as 'prefix' };
  return { ...Object.fromEntries(times), ...collisions };
}
