/** A server as a child process: one JSON message a line over its stdin and stdout (2026-07-28 basic/transports). */
import type { ChildProcess } from 'node:child_process';
import path from 'node:path';
import type { CloseCause, UnreachableCause } from '../protocol/exchange.js';
import { ByteLines } from './byteLines.js';
import { childEnvironment } from './childEnvironment.js';
import { type Clock, systemClock } from './clock.js';
import { Outbox } from './outbox.js';
import { ProcessGroup, spawnLeader } from './processGroup.js';
import { fileKind, resolveCommand } from './resolveCommand.js';
import { badWorkingDirectory, commandNotUsable, spawnError, spawnFailed } from './spawnFailure.js';
import { spawnTurn } from './spawnTurn.js';
import { StderrRing } from './stderrRing.js';
import {
  DEFAULT_MAX_MESSAGE_BYTES,
  type Exchange,
  type OpenResult,
  type Transport,
  type TransportEvents,
  type TransportFactory,
} from './transport.js';

export interface StdioOptions {
  /** A name looked up in the child's `PATH`, or a path relative to `cwd`. Found once, at the first start. */
  readonly command: string;
  /** Passed as they are, without a shell. */
  readonly args: readonly string[];
  /** Default: the host's own. */
  readonly cwd?: string;
  /** Added to the few variables that are inherited; these win. */
  readonly env?: Readonly<Record<string, string>>;
  /** Longest line accepted. Default {@link DEFAULT_MAX_MESSAGE_BYTES}. */
  readonly maxMessageBytes?: number;
  /** Wait after the end of stdin, and again after SIGTERM. Default 2,000. */
  readonly shutdownGraceMs?: number;
  readonly clock?: Clock;
}

const DEFAULT_SHUTDOWN_GRACE_MS = 2000;

/** What a dead process has written is in the pipe; longer than this only a child of its own holds the pipe open. */
const DRAIN_MS = 100;
/** A process that closes a pipe is mostly on its way out: its exit code tells more than the closed pipe. */
const EXIT_FOLLOWS_MS = 500;
/** Reads granted after {@link DRAIN_MS} while each still brings bytes. A pipe holds less than this. */
const LAST_READS = 16;

/** Starts one process a connection. */
export function stdioTransport(options: StdioOptions): TransportFactory {
  let file: string | undefined;
  const locate = (cwd: string, env: Readonly<Record<string, string>>): string | UnreachableCause => {
    if (file !== undefined) return file;
    const found = resolveCommand(options.command, { env, platform: process.platform, cwd, exists: fileKind });
    if (!found.ok) return commandNotUsable(options.command, found);
    file = found.file;
    return file;
  };
  return (events) => new StdioTransport(options, locate, events);
}

type Locate = (cwd: string, env: Readonly<Record<string, string>>) => string | UnreachableCause;

class StdioTransport implements Transport {
  readonly kind = 'stdio';
  readonly perRequestStreams = false;

  private readonly options: StdioOptions;
  private readonly locate: Locate;
  private readonly events: TransportEvents;
  private readonly clock: Clock;
  private readonly outbox = new Outbox();
  private readonly lines: ByteLines;
  private readonly stderr: StderrRing;

  private child: ChildProcess | undefined;
  private group: ProcessGroup | undefined;
  private opening: Promise<OpenResult> | undefined;
  private ending: Promise<void> | undefined;
  /** `closed` has been, or is being, told. */
  private finished = false;
  private exited = false;
  private chunksRead = 0;
  /** Until this fires an exit, or the rest of the output, is waited for. */
  private lastWait: unknown;

  constructor(options: StdioOptions, locate: Locate, events: TransportEvents) {
    this.options = options;
    this.locate = locate;
    this.events = events;
    this.clock = options.clock ?? systemClock;
    this.stderr = new StderrRing(options.env);
    this.lines = new ByteLines(
      {
        line: (text) => events.message(text, null),
        overheard: (text) => events.overheard(text),
        fault: (fault) => events.fault(fault),
        flooded: (detail) => this.finish({ kind: 'protocol', detail }),
      },
      { maxMessageBytes: options.maxMessageBytes ?? DEFAULT_MAX_MESSAGE_BYTES },
    );
  }

  open(): Promise<OpenResult> {
    this.opening ??= this.start();
    return this.opening;
  }

  send(text: string, exchange: Exchange): void {
    this.outbox.send(text, exchange);
  }

  /** One stream for all: what is on its way cannot be taken back. */
  abort(): void {}

  close(): Promise<void> {
    // What was sent in this tick, such as the cancelling of all that is in flight, goes before the end of the input.
    if (!this.finished) this.outbox.hurry();
    this.finish({ kind: 'host', detail: 'closed by this side' });
    this.ending ??= this.tearDown();
    return this.ending;
  }

  private async start(): Promise<OpenResult> {
    await spawnTurn();
    const started = this.finished ? closedTooEarly : this.spawn();
    if ('kind' in started) return { ok: false, cause: started };
    const failure = await started.spawned;
    if (failure !== undefined) return { ok: false, cause: failure };
    if (this.finished) return { ok: false, cause: closedTooEarly };
    if (started.child.stdin !== null) this.outbox.attach(started.child.stdin);
    return { ok: true };
  }

  private spawn(): Started | UnreachableCause {
    const { args, env: configured = {}, cwd: configuredCwd = '.' } = this.options;
    let file = this.options.command;
    let child: ChildProcess;
    try {
      const cwd = path.resolve(configuredCwd);
      const wrongCwd = badWorkingDirectory(cwd, fileKind(cwd));
      if (wrongCwd !== undefined) return wrongCwd;
      const env = childEnvironment(configured, process.env, process.platform);
      const located = this.locate(cwd, env);
      if (typeof located !== 'string') return located;
      file = located;
      child = spawnLeader({ file, args, cwd, env });
    } catch (error) {
      return spawnError(error, file);
    }
    this.child = child;
    const spawned = new Promise<UnreachableCause | undefined>((resolve) => {
      child.once('spawn', () => resolve(undefined));
      // Stays for the life of the child: an unheard `error` would end the host.
      child.on('error', (error) => resolve(spawnError(error, file)));
    });
    if (child.pid === undefined) {
      void this.dropPipes(child);
    } else {
      this.group = new ProcessGroup(child, child.pid, this.clock);
      this.listen(child);
    }
    return { child, spawned };
  }

  private listen(child: ChildProcess): void {
    const { stdin, stdout, stderr } = child;
    stdout?.on('data', (chunk: Buffer) => {
      this.chunksRead += 1;
      this.outbox.turn();
      this.lines.push(chunk);
    });
    stderr?.on('data', (chunk: Buffer) => this.stderr.push(chunk));
    stdout?.on('error', ignore);
    stderr?.on('error', ignore);
    stdin?.on('error', () => {
      const cause: CloseCause = { kind: 'reset', detail: 'the process closed its input' };
      this.outbox.fail(cause);
      this.exitMayFollow(cause);
    });
    stdout?.once('end', () =>
      this.exitMayFollow({ kind: 'end-of-output', detail: 'the process closed its output and lives on' }),
    );
    child.once('exit', () => {
      this.exited = true;
      // Nothing reaches it any more: what is sent from here on was never written.
      this.outbox.fail(exitCause(child));
      if (this.finished) return;
      this.stopWaiting();
      this.lastWait = this.clock.setTimeout(() => this.readOn(LAST_READS), DRAIN_MS);
    });
    // After `exit`, once all three pipes have ended too.
    child.once('close', () => this.finish(exitCause(child)));
  }

  private exitMayFollow(otherwise: CloseCause): void {
    if (this.exited || this.finished || this.lastWait !== undefined) return;
    this.lastWait = this.clock.setTimeout(() => this.finish(otherwise), EXIT_FOLLOWS_MS);
  }

  /** A loop that was busy for longer than {@link DRAIN_MS} has not looked into the pipe yet: it may, before the end. */
  private readOn(readsLeft: number): void {
    const before = this.chunksRead;
    setImmediate(() => {
      if (this.finished || this.child === undefined) return;
      if (this.chunksRead > before && readsLeft > 0) this.readOn(readsLeft - 1);
      else this.finish(exitCause(this.child));
    });
  }

  private stopWaiting(): void {
    if (this.lastWait !== undefined) this.clock.clearTimeout(this.lastWait);
    this.lastWait = undefined;
  }

  private finish(reason: CloseCause): void {
    if (this.finished) return;
    this.finished = true;
    this.stopWaiting();
    const tail = this.stderr.tail();
    const cause = tail === '' ? reason : { ...reason, stderr: tail };
    this.lines.end();
    // A process that floods its output is not read any more while it is being ended.
    if (cause.kind === 'protocol') this.child?.stdout?.destroy();
    this.ending ??= this.tearDown();
    this.outbox.fail(cause);
    this.events.closed(cause);
  }

  private async tearDown(): Promise<void> {
    const child = this.child;
    if (child === undefined) return;
    child.stdin?.end();
    await this.group?.end(this.options.shutdownGraceMs ?? DEFAULT_SHUTDOWN_GRACE_MS);
    await this.dropPipes(child);
  }

  private async dropPipes(child: ChildProcess): Promise<void> {
    const pipes = [child.stdin, child.stdout, child.stderr];
    await Promise.all(
      pipes.map((pipe) => {
        if (pipe == null || pipe.closed) return undefined;
        return new Promise<void>((resolve) => {
          pipe.on('error', ignore);
          pipe.once('close', () => resolve());
          pipe.destroy();
        });
      }),
    );
  }
}

interface Started {
  readonly child: ChildProcess;
  /** Resolves with the failure, or `undefined`. */
  readonly spawned: Promise<UnreachableCause | undefined>;
}

const closedTooEarly = spawnFailed('closed before the process was started', false);

function exitCause(child: ChildProcess): CloseCause {
  const { exitCode, signalCode: signal } = child;
  const detail =
    signal !== null ? `the process was ended by ${signal}` : `the process exited with code ${exitCode}`;
  return { kind: 'exit', detail, exitCode, signal };
}

function ignore(): void {}
