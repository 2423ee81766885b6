/** What a command needs of the world around it: streams, environment, an end. Tests bring their own. */
import type { HostOptions } from '../host/config.js';
import type { Host } from '../host/facade.js';

export interface Output {
  write(text: string): void;
  readonly isTTY: boolean;
  /** Width of the terminal, where there is one. */
  readonly columns: number | undefined;
}

export interface CliIo {
  readonly stdout: Output;
  readonly stderr: Output;
  /** All of stdin as text. Rejects with a {@link RangeError} beyond `maxBytes`. */
  readStdin(maxBytes: number): Promise<string>;
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Aborted by the first signal. */
  readonly interrupted: AbortSignal;
  createHost(options: HostOptions): Promise<Host>;
}
