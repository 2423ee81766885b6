/** One host for the time of one command: started once, stopped whatever happens. */
import type { HostOptions } from '../host/config.js';
import { CollisionError, RequiredPeerError } from '../host/errors.js';
import type { Host, PeerReport } from '../host/facade.js';
import { parseHostOptions } from '../host/options.js';
import { redactor, secretsOf } from '../host/redact.js';
import { EXIT } from './exit.js';
import type { CliIo } from './io.js';
import { oneLine } from './output.js';
import { startProgress } from './progress.js';
import type { Source } from './source.js';
import { type Theme, themeOf } from './theme.js';

export interface CommandContext {
  readonly io: CliIo;
  readonly source: Source;
  readonly json: boolean;
}

/** A host that has started, or that says why it may not be used. */
export interface Session {
  readonly host: Host;
  readonly reports: readonly PeerReport[];
  /** Two peers collide under `reject`, or a required peer is not callable. */
  readonly refusal: CollisionError | RequiredPeerError | null;
  /** Takes configured secrets out. */
  readonly redact: (text: string) => string;
  /** Of stdout. */
  readonly theme: Theme;
}

const CALLABLE = new Set(['modern', 'legacy']);

export function isCallable(report: PeerReport): boolean {
  return CALLABLE.has(report.state);
}

/**
 * Starts a host, lets a command use it, and stops it. An interruption ends the wait at once, but not the stop.
 *
 * @returns the exit code
 */
export async function withHost(
  context: CommandContext,
  use: (session: Session) => Promise<number>,
): Promise<number> {
  const { io, source, json } = context;
  const redact = redactor(Object.values(source.options.peers).flatMap(secretsOf));
  if (io.interrupted.aborted) return EXIT.interrupted;
  const host = await io.createHost(oneShot(source.options));
  try {
    const progress = startProgress(host, Object.keys(source.options.peers), json ? null : io.stderr, io.env);
    const started = await unlessInterrupted(io.interrupted, start(host)).finally(() => progress.end());
    if (started === null) return EXIT.interrupted;
    if (started.refusal !== null)
      io.stderr.write(`peerage: ${oneLine(redact(started.refusal.message), 2_000)}\n`);
    const reports = source.file === null ? host.peers().map(withInlineFix) : host.peers();
    const session = { host, reports, ...started, redact, theme: themeOf(io.stdout, io.env) };
    return (await unlessInterrupted(io.interrupted, use(session))) ?? EXIT.interrupted;
  } finally {
    await host.stop();
  }
}

/** An inline peer has no configuration to add a key to. */
function withInlineFix(report: PeerReport): PeerReport {
  if (report.reason?.code !== 'not-allowlisted') return report;
  const fix = 'If you trust this server and know that it is a legacy one, add --allow-legacy (before --).';
  return { ...report, reason: { ...report.reason, fix } };
}

async function start(host: Host): Promise<Pick<Session, 'refusal'>> {
  try {
    await host.start();
    return { refusal: null };
  } catch (error) {
    if (error instanceof CollisionError || error instanceof RequiredPeerError) return { refusal: error };
    throw error;
  }
}

/** What the work comes to, or `null` where the signal came first. Work that fails later is not unhandled. */
async function unlessInterrupted<T>(signal: AbortSignal, work: Promise<T>): Promise<T | null> {
  let stopWaiting = (): void => {};
  const interruption = new Promise<null>((resolve) => {
    stopWaiting = () => resolve(null);
    if (signal.aborted) resolve(null);
    else signal.addEventListener('abort', stopWaiting, { once: true });
  });
  try {
    return await Promise.race([work, interruption]);
  } finally {
    signal.removeEventListener('abort', stopWaiting);
  }
}

/** Probes of one negotiation that can follow one another (N3, N4), roomily. */
const PROBES = 4;

/**
 * A command looks once: one negotiation a peer, no retry. Unless the file says how long a start may take, it may take
 * as long as the deadlines of its parts allow, so that the report is never cut short.
 */
function oneShot(options: HostOptions): HostOptions {
  const resolved = parseHostOptions({ ...options, maxAttempts: 0, retryUnavailableAfterMs: 0 });
  const { probeTimeoutMs, legacyProbeTimeoutMs, listTimeoutMs, shutdownGraceMs, maxSimultaneousStarts } =
    resolved;
  const rounds = Math.ceil(resolved.peers.length / maxSimultaneousStarts);
  const longest =
    PROBES * probeTimeoutMs + legacyProbeTimeoutMs + listTimeoutMs + 4 * shutdownGraceMs + 5_000;
  const startTimeoutMs = options.startTimeoutMs ?? Math.min(rounds * longest, 24 * 60 * 60 * 1000);
  return { ...options, maxAttempts: 0, retryUnavailableAfterMs: 0, startTimeoutMs };
}

/** The file used, and what was left out of it, are always told; with `--json` stdout is the document alone. */
export function tellSource({ io, source }: CommandContext): void {
  const theme = themeOf(io.stderr, io.env);
  if (source.file !== null)
    io.stderr.write(`${theme.paint('dim', `peerage: using ${oneLine(source.file, 4_096)}`)}\n`);
  for (const warning of source.warnings) {
    io.stderr.write(`peerage: ${theme.paint('yellow', 'warning')}: ${oneLine(warning, 1_000)}\n`);
  }
}
