/**
 * A child process with all that it starts: a process group of its own on POSIX, a process tree on Windows. Ends it
 * whole, and never signals a group id that may belong to somebody else by now.
 */
import { type ChildProcess, spawn as spawnPlain, spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import spawn from 'cross-spawn';
import type { Clock } from './clock.js';

export interface SpawnOptions {
  /** Absolute path of the executable. */
  readonly file: string;
  readonly args: readonly string[];
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
}

/** Starts a process as the leader of its own group, with three pipes and no shell. Throws as `spawn` does. */
export function spawnLeader(options: SpawnOptions): ChildProcess {
  return spawn(options.file, options.args, {
    cwd: options.cwd,
    env: options.env,
    stdio: ['pipe', 'pipe', 'pipe'],
    // Its own group: so the whole of it can be ended, and Ctrl-C in a terminal reaches the host alone.
    detached: process.platform !== 'win32',
    windowsHide: true,
  });
}

/** The command that ends a process tree on Windows. */
export function taskkillCommand(
  pid: number,
  env: Readonly<Record<string, string | undefined>>,
): { readonly file: string; readonly args: readonly string[] } {
  const root = env['SystemRoot'] ?? env['SYSTEMROOT'] ?? 'C:\\Windows';
  // By its full path: a `taskkill` in some folder of PATH is not asked.
  return {
    file: path.win32.join(root, 'System32', 'taskkill.exe'),
    args: ['/PID', String(pid), '/T', '/F'],
  };
}

/** After SIGKILL nothing can refuse; this is for the kernel to finish, and for a parent that does not reap. */
const AFTER_KILL_MS = 1000;
const FIRST_POLL_MS = 5;
const LONGEST_POLL_MS = 250;
/** From this poll on a group whose last members are zombies counts as gone. */
const ZOMBIE_CHECK_FROM = 4;

const living = new Set<ProcessGroup>();

/** One hook for all groups of all hosts; signals stay the business of the program. */
function killAllAtExit(): void {
  for (const group of living) group.killNow();
}

export class ProcessGroup {
  private readonly child: ChildProcess;
  private readonly pid: number;
  private readonly clock: Clock;
  private leaderExited = false;
  private gone = false;
  /** Looks again whether the wait of {@link end} is over. */
  private recheck: (() => void) | undefined;

  /** @param child just started by {@link spawnLeader}, with a pid */
  constructor(child: ChildProcess, pid: number, clock: Clock) {
    this.child = child;
    this.pid = pid;
    this.clock = clock;
    if (living.size === 0) process.on('exit', killAllAtExit);
    living.add(this);
    child.once('exit', () => {
      this.leaderExited = true;
      // In the tick in which the leader is reaped: if no member is left now, the id is free from here on.
      this.look();
      this.recheck?.();
    });
  }

  /**
   * The shutdown ladder: wait for the end by itself (the caller has ended stdin), SIGTERM, wait, SIGKILL. Resolves
   * when no member is left. A leader that has exited is not waited for: what it left behind gets SIGTERM at once.
   */
  async end(graceMs: number): Promise<void> {
    if (!this.leaderExited) await this.wait(graceMs, () => this.leaderExited);
    if (!this.gone) {
      this.signal('SIGTERM');
      await this.wait(graceMs, () => this.gone);
    }
    if (!this.gone) {
      this.killNow();
      await this.wait(AFTER_KILL_MS, () => this.gone);
    }
    this.forget();
  }

  /** SIGKILL to all members, synchronously. */
  killNow(): void {
    if (process.platform === 'win32' && !this.leaderExited) {
      const { file, args } = taskkillCommand(this.pid, process.env);
      spawnSync(file, args, { stdio: 'ignore', windowsHide: true });
    } else {
      this.signal('SIGKILL');
    }
  }

  private signal(signal: 'SIGTERM' | 'SIGKILL'): void {
    if (this.gone) return;
    if (process.platform === 'win32') {
      if (this.leaderExited) return;
      const { file, args } = taskkillCommand(this.pid, process.env);
      spawnPlain(file, args, { stdio: 'ignore', windowsHide: true }).on('error', () => this.child.kill());
      return;
    }
    // The id is ours: the leader is not reaped yet, or the last look found a member, and a used group id is not
    // given to a new process.
    this.look();
    if (!this.gone) sendToGroup(this.pid, signal);
  }

  /** Notices that the group is gone. Before the leader is reaped it never is. */
  private look(zombiesCount = true): void {
    if (!this.leaderExited || this.gone) return;
    if (process.platform !== 'win32' && sendToGroup(this.pid, 0)) {
      if (zombiesCount || hasLivingMember(this.pid)) return;
    }
    this.forget();
  }

  private forget(): void {
    this.gone = true;
    living.delete(this);
    if (living.size === 0) process.removeListener('exit', killAllAtExit);
  }

  /** Resolves when `over()` is true, or after `timeoutMs`. Members that are no children of ours can only be polled. */
  private wait(timeoutMs: number, over: () => boolean): Promise<void> {
    return new Promise((resolve) => {
      let poll: unknown;
      let polls = 0;
      const finish = (): void => {
        this.recheck = undefined;
        this.clock.clearTimeout(deadline);
        if (poll !== undefined) this.clock.clearTimeout(poll);
        resolve();
      };
      const deadline = this.clock.setTimeout(finish, timeoutMs);
      const check = (): void => {
        poll = undefined;
        this.look(polls < ZOMBIE_CHECK_FROM);
        if (over()) {
          finish();
        } else if (this.leaderExited) {
          poll = this.clock.setTimeout(check, Math.min(FIRST_POLL_MS * 2 ** polls, LONGEST_POLL_MS));
          polls += 1;
        }
      };
      this.recheck = check;
      check();
    });
  }
}

/** @returns false if there is no such group, or none of it may be signalled */
function sendToGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-pid, signal);
    return true;
  } catch {
    return false;
  }
}

/**
 * Whether a group has a member that is no zombie. Where the first process of a container does not reap, a group of
 * zombies never vanishes. Without /proc the answer is yes.
 */
export function hasLivingMember(pid: number): boolean {
  let entries: string[];
  try {
    entries = readdirSync('/proc');
  } catch {
    return true;
  }
  let seen = false;
  for (const entry of entries) {
    if (!/^\d+$/.test(entry)) continue;
    try {
      const stat = readFileSync(`/proc/${entry}/stat`, 'latin1');
      // The name in parentheses may hold anything, so the fields are counted from its end.
      const [state, , group] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      seen = true;
      if (Number(group) === pid && state !== 'Z' && state !== 'X') return true;
    } catch {
      // It ended while we looked.
    }
  }
  return !seen;
}
