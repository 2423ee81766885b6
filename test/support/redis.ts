/** A Redis of one's own: Debian's `redis-server`, on a socket in a folder that goes with it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';

/** Where `redis-server` is on PATH, or null. */
export const redisServerPath: string | null =
  (process.env['PATH'] ?? '')
    .split(delimiter)
    .map((folder) => join(folder, 'redis-server'))
    .find((file) => existsSync(file)) ?? null;

/**
 * For `describe.skipIf`: true where there is no Redis to test with, so that the report shows the tests as skipped.
 * With `PEERAGE_REQUIRE_REDIS=1` they run, and fail.
 */
export const withoutRedis = redisServerPath === null && process.env['PEERAGE_REQUIRE_REDIS'] !== '1';

export interface RedisServer {
  /** A unix socket; `socket: { path: socketPath }` for a client. */
  readonly socketPath: string;
  /** `redis://127.0.0.1:<port>`, the same server. */
  readonly url: string;
  /** Runs again, empty, on the same socket and port. Not while it runs. */
  start(): Promise<void>;
  /** Resolves when the process is gone. Nothing is said to the clients. */
  kill(): Promise<void>;
  /** The process stands still: connections stay, nothing is answered. */
  freeze(): void;
  thaw(): void;
  /** Kills it if it runs, and removes its folder. */
  remove(): Promise<void>;
}

/** Resolves when the server accepts connections. Rejects if there is no `redis-server`, or with what it printed. */
export async function startRedis(): Promise<RedisServer> {
  const folder = mkdtempSync(join(tmpdir(), 'peerage-redis-'));
  const socketPath = join(folder, 'redis.sock');
  let child: ChildProcess | null = null;
  let watch: ChildProcess | null = null;
  let port = 0;

  const kill = (): Promise<void> => {
    watch?.kill('SIGKILL');
    const running = child;
    child = null;
    if (running === null || running.exitCode !== null || running.signalCode !== null)
      return Promise.resolve();
    return new Promise((resolve) => {
      running.once('exit', () => resolve());
      // Also ends a process that is stopped.
      running.kill('SIGKILL');
    });
  };
  const start = async (): Promise<void> => {
    child = await launch(folder, socketPath, port);
    watch = watchOver(child, folder);
  };
  const remove = async (): Promise<void> => {
    await kill();
    rmSync(folder, { recursive: true, force: true });
  };

  try {
    // Another process may take a free port before Redis does.
    for (let attempt = 1; child === null; attempt += 1) {
      port = await freePort();
      await start().catch((error: unknown) => {
        if (attempt === 5) throw error;
      });
    }
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    socketPath,
    url: `redis://127.0.0.1:${port}`,
    start,
    kill,
    freeze: () => {
      child?.kill('SIGSTOP');
    },
    thaw: () => {
      child?.kill('SIGCONT');
    },
    remove,
  };
}

function launch(folder: string, socketPath: string, port: number): Promise<ChildProcess> {
  if (redisServerPath === null) return Promise.reject(new Error('there is no redis-server on PATH'));
  // The socket of a server that was killed is still there.
  rmSync(socketPath, { force: true });
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--unixsocket', socketPath, '--dir', folder];
  const child = spawn(redisServerPath, [...args, '--save', '', '--appendonly', 'no'], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return new Promise((resolve, reject) => {
    let printed = '';
    const read = (chunk: Buffer): void => {
      if (printed.length < 10_000) printed += chunk.toString();
      // Said once for each place it listens at; the unix socket is the last.
      if (printed.includes(`connections at ${socketPath}`)) resolve(child);
    };
    child.stdout.on('data', read);
    child.stderr.on('data', read);
    child.once('error', reject);
    child.once('exit', (code) => reject(new Error(`redis-server ended with ${code}: ${printed}`)));
  });
}

/**
 * Redis does not notice that whoever started it is gone, and a test runner may end its workers before they can clean
 * up. A shell notices: its stdin ends.
 */
function watchOver({ pid }: ChildProcess, folder: string): ChildProcess {
  const script = 'cat >/dev/null; kill -9 "$0"; rm -rf "$1"';
  const shell = spawn('/bin/sh', ['-c', script, String(pid), folder], {
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  shell.unref();
  return shell;
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}
