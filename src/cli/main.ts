#!/usr/bin/env node
/** The executable: real streams, real signals, one exit. */
import type { HostOptions } from '../host/config.js';
import type { Host } from '../host/facade.js';
import { EXIT } from './exit.js';
import type { CliIo, Output } from './io.js';
import { oneLine } from './output.js';
import { runCli } from './program.js';

const interruption = new AbortController();
let failedToWrite: string | null = null;

/** The first signal stops the host in order; a second one does not wait. The process's exit ends all children. */
function onSignal(): void {
  if (interruption.signal.aborted) process.exit(EXIT.interrupted);
  interruption.abort();
}
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, onSignal);

/** A reader that went away (`| head`), or a terminal that was closed, is no fault of ours. */
const GONE = new Set(['EPIPE', 'EIO', 'ECONNRESET', 'ERR_STREAM_DESTROYED']);
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (!GONE.has(error.code ?? '')) failedToWrite ??= error.code ?? 'unknown';
  });
}

function outputOf(stream: NodeJS.WriteStream): Output {
  return {
    write: (text) => void stream.write(text),
    get isTTY() {
      return stream.isTTY === true;
    },
    get columns() {
      return stream.columns;
    },
  };
}

async function readStdin(maxBytes: number): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of process.stdin as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    length += chunk.length;
    if (length > maxBytes) throw new RangeError('stdin is too long');
  }
  return Buffer.concat(chunks).toString('utf8');
}

const io: CliIo = {
  stdout: outputOf(process.stdout),
  stderr: outputOf(process.stderr),
  readStdin,
  env: process.env,
  interrupted: interruption.signal,
  async createHost(options: HostOptions): Promise<Host> {
    const { createHost } = await import('../host/createHost.js');
    return createHost(options);
  },
};

function faultOf(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  return `peerage: internal fault: ${oneLine(text, 2_000)}\n`;
}

/** Waits until what was written has left, as pipes are asynchronous on some systems. */
function flushed(stream: NodeJS.WriteStream): Promise<void> {
  return new Promise((resolve) => {
    if (stream.destroyed) resolve();
    else stream.write('', () => resolve());
  });
}

process.on('uncaughtException', (error) => {
  process.stderr.write(faultOf(error), () => process.exit(EXIT.failed));
});

let code: number = EXIT.failed;
try {
  code = await runCli(process.argv.slice(2), io);
} catch (error) {
  io.stderr.write(faultOf(error));
}
await Promise.all([flushed(process.stdout), flushed(process.stderr)]);
if (failedToWrite !== null) {
  process.stderr.write(`peerage: the output could not be written (${failedToWrite})\n`);
  code = EXIT.failed;
}
process.exit(code);
