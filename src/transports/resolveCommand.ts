/**
 * Finds the file behind a command, once, so that what is pinned (N8) is what is started. Pure: the environment, the
 * platform and the look at the file system are arguments.
 */
import { accessSync, constants, statSync } from 'node:fs';
import path from 'node:path';

export type FileKind = 'executable' | 'file' | 'directory' | 'missing';

export interface ResolveSurroundings {
  /** The child's environment: its `PATH` is searched, on Windows its `PATHEXT` too. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  /** The child's working directory, absolute: a command with a separator in it is relative to it. */
  readonly cwd: string;
  readonly exists: (file: string) => FileKind;
}

export type ResolvedCommand =
  | { readonly ok: true; readonly file: string }
  | { readonly ok: false; readonly why: 'missing' | 'not-executable' | 'directory'; readonly file: string };

/** What `execvp` searches where the environment has no PATH. */
const DEFAULT_PATH = '/usr/local/bin:/bin:/usr/bin';
const DEFAULT_PATHEXT = '.COM;.EXE;.BAT;.CMD';

export function resolveCommand(command: string, surroundings: ResolveSurroundings): ResolvedCommand {
  return surroundings.platform === 'win32'
    ? onWindows(command, surroundings)
    : onPosix(command, surroundings);
}

function onPosix(command: string, { env, cwd, exists }: ResolveSurroundings): ResolvedCommand {
  if (command === '') return { ok: false, why: 'missing', file: command };
  const candidates = command.includes('/')
    ? [path.posix.resolve(cwd, command)]
    : (env['PATH'] ?? DEFAULT_PATH).split(':').map((folder) => path.posix.resolve(cwd, folder, command));
  return firstExecutable(command, candidates, exists);
}

function onWindows(command: string, { env, cwd, exists }: ResolveSurroundings): ResolvedCommand {
  if (command === '') return { ok: false, why: 'missing', file: command };
  const extensions = (variable(env, 'PATHEXT') || DEFAULT_PATHEXT)
    .split(';')
    .map((extension) => extension.trim())
    .filter((extension) => extension.startsWith('.'));
  const own = path.win32.extname(command).toLowerCase();
  const complete = own !== '' && extensions.some((extension) => extension.toLowerCase() === own);
  const hasFolder = /[\\/:]/.test(command);
  // Not the current folder for a bare name, although cmd.exe looks there first: it may hold anything.
  const folders = hasFolder
    ? ['']
    : (variable(env, 'PATH') ?? '')
        .split(';')
        .map((folder) => folder.trim().replace(/^"(.*)"$/, '$1'))
        .filter((folder) => folder !== '');
  const candidates: string[] = [];
  for (const folder of folders) {
    const file = path.win32.resolve(cwd, folder, command);
    if (complete) candidates.push(file);
    // `npx` must become `npx.cmd`, never the shell script of that name beside it.
    for (const extension of extensions) candidates.push(file + extension);
    // A script that is named by its path is started by its first line.
    if (hasFolder && !complete) candidates.push(file);
  }
  return firstExecutable(command, candidates, exists);
}

function firstExecutable(
  command: string,
  candidates: readonly string[],
  exists: (file: string) => FileKind,
): ResolvedCommand {
  let refused: ResolvedCommand = { ok: false, why: 'missing', file: command };
  for (const file of candidates) {
    const kind = exists(file);
    if (kind === 'executable') return { ok: true, file };
    if (kind === 'missing' || (!refused.ok && refused.why === 'not-executable')) continue;
    refused = { ok: false, why: kind === 'directory' ? 'directory' : 'not-executable', file };
  }
  return refused;
}

/** A variable of Windows, whose names have no case. */
function variable(env: Readonly<Record<string, string | undefined>>, name: string): string | undefined {
  for (const [key, value] of Object.entries(env)) {
    if (key.toUpperCase() === name) return value;
  }
  return undefined;
}

/** The real look at the file system. Whatever can't be looked at is missing. */
export function fileKind(file: string): FileKind {
  try {
    const stat = statSync(file);
    if (stat.isDirectory()) return 'directory';
    if (!stat.isFile()) return 'file';
    if (process.platform === 'win32') return 'executable';
  } catch {
    return 'missing';
  }
  try {
    accessSync(file, constants.X_OK);
    return 'executable';
  } catch {
    return 'file';
  }
}
