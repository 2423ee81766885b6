/** Real HTTP servers as processes of a test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createRequire } from 'node:module';
import { type AddressInfo, createServer } from 'node:net';
import { dirname, join } from 'node:path';

const require = createRequire(import.meta.url);

/** A file of the folder examples/servers. */
export const example = (name: string): string => join(import.meta.dirname, '../../examples/servers', name);

/** A file of an installed package, whatever its `exports` say. */
export function packageFile(name: string, file: string): string {
  return join(dirname(require.resolve(`${name}/package.json`)), file);
}

export interface ServerProcess {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** SIGKILL. Resolves when it is gone. */
  kill(): Promise<void>;
}

/** Starts an example server; on `port`, if one is given. */
export async function startExample(
  name: string,
  args: readonly string[] = [],
  port = 0,
): Promise<ServerProcess> {
  const child = spawn(process.execPath, [example(name), ...args, '--port', String(port)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const { url } = JSON.parse(await lineWith(child, child.stdout, '"url"')) as { url: string };
  return running(child, url);
}

/** Starts the reference server on a port that was free a moment ago; on another, if it is not any more. */
export async function startEverything(
  transport: 'streamableHttp' | 'sse' = 'streamableHttp',
): Promise<ServerProcess> {
  const file = packageFile('@modelcontextprotocol/server-everything', 'dist/index.js');
  for (let attempt = 1; ; attempt += 1) {
    const port = await freePort();
    const child = spawn(process.execPath, [file, transport], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, PORT: String(port) },
    });
    try {
      await lineWith(
        child,
        child.stderr,
        transport === 'sse' ? `running on port ${port}` : `listening on port ${port}`,
      );
      child.stderr.resume();
      return running(child, `http://127.0.0.1:${port}/${transport === 'sse' ? 'sse' : 'mcp'}`);
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}

function running(child: ChildProcess, url: string): ServerProcess {
  const exited = once(child, 'exit');
  return {
    url,
    port: Number(new URL(url).port),
    pid: child.pid ?? 0,
    async kill() {
      child.kill('SIGKILL');
      await exited;
    },
  };
}

/** Resolves with the first line that contains `part`; rejects if the process ends before. */
function lineWith(child: ChildProcess, stream: NodeJS.ReadableStream, part: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let said = '';
    stream.on('data', (chunk: Buffer) => {
      said += chunk.toString('utf8');
      const line = said
        .split('\n')
        .slice(0, -1)
        .find((one) => one.includes(part));
      if (line !== undefined) resolve(line);
    });
    child.once('close', () => reject(new Error(`the server ended; it said: ${said}`)));
    child.once('error', reject);
  });
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
