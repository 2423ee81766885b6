/** Why a process could not be started, told apart: what is missing, and whether waiting can help. */
import type { UnreachableCause } from '../protocol/exchange.js';
import { printable } from './printable.js';
import type { FileKind, ResolvedCommand } from './resolveCommand.js';

const SHOWN_BYTES = 256;

export function spawnFailed(detail: string, terminal: boolean): UnreachableCause {
  return { kind: 'spawn-failed', detail, terminal };
}

/** @returns undefined if it is a folder */
export function badWorkingDirectory(cwd: string, kind: FileKind): UnreachableCause | undefined {
  if (kind === 'directory') return undefined;
  const shown = printable(cwd, SHOWN_BYTES);
  return spawnFailed(
    kind === 'missing'
      ? `working directory not found: ${shown}`
      : `working directory is no directory: ${shown}`,
    true,
  );
}

export function commandNotUsable(
  command: string,
  found: Extract<ResolvedCommand, { ok: false }>,
): UnreachableCause {
  const shown = printable(command, SHOWN_BYTES);
  const file = printable(found.file, SHOWN_BYTES);
  switch (found.why) {
    case 'missing':
      return spawnFailed(`command not found: ${shown}`, true);
    case 'not-executable':
      return spawnFailed(`command may not be executed: ${file}`, true);
    case 'directory':
      return spawnFailed(`command is a directory: ${file}`, true);
  }
}

/** What the system, or Node's own check of the arguments, said. Its message may quote arguments: only the code is told. */
export function spawnError(error: unknown, file: string): UnreachableCause {
  const code =
    error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'unknown';
  const shown = printable(file, SHOWN_BYTES);
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      // The file itself was seen a moment ago.
      return spawnFailed(
        `${shown} could not be started: it, or the interpreter it names, is missing (${code})`,
        true,
      );
    case 'EACCES':
    case 'EPERM':
      return spawnFailed(`${shown} may not be executed (${code})`, true);
    case 'ENOEXEC':
      return spawnFailed(`${shown} is no program this system can run (${code})`, true);
    case 'E2BIG':
      return spawnFailed(`${shown}: the arguments and the environment are too long (${code})`, true);
    case 'ERR_INVALID_ARG_VALUE':
    case 'ERR_INVALID_ARG_TYPE':
      return spawnFailed(
        `${shown}: an argument or variable holds what no process can be given (${code})`,
        true,
      );
    default:
      // Out of processes, descriptors or memory: that can pass.
      return spawnFailed(`${shown} could not be started (${code})`, false);
  }
}
