/** The environment of a child process: little is inherited, so that no secret of the host leaks into a server. */

const INHERITED_POSIX = [
  'HOME',
  'LANG',
  'LC_ALL',
  'LC_CTYPE',
  'LOGNAME',
  'PATH',
  'SHELL',
  'TMPDIR',
  'TZ',
  'USER',
] as const;

const INHERITED_WINDOWS = [
  'APPDATA',
  'COMSPEC',
  'HOMEDRIVE',
  'HOMEPATH',
  'LOCALAPPDATA',
  'PATH',
  'PATHEXT',
  'PROCESSOR_ARCHITECTURE',
  'PROGRAMDATA',
  'PROGRAMFILES',
  'SYSTEMDRIVE',
  'SYSTEMROOT',
  'TEMP',
  'TMP',
  'USERNAME',
  'USERPROFILE',
  'WINDIR',
] as const;

/** Nobody looks at a server's output on a terminal, and escape sequences on stdout are noise. */
const QUIET = { NO_COLOR: '1', TERM: 'dumb' } as const;

/**
 * The short list of inherited variables, then the configured ones, which win. `PATH` is kept unless it is itself
 * configured. On Windows names are compared without case.
 */
export function childEnvironment(
  configured: Readonly<Record<string, string>>,
  inherited: Readonly<Record<string, string | undefined>>,
  platform: NodeJS.Platform,
): Record<string, string> {
  const windows = platform === 'win32';
  const fold = (name: string): string => (windows ? name.toUpperCase() : name);
  const wanted = new Set<string>(windows ? INHERITED_WINDOWS : INHERITED_POSIX);
  const byFoldedName = new Map<string, readonly [name: string, value: string]>();

  for (const [name, value] of Object.entries(inherited)) {
    // A value that begins like this is a shell function some shells would run.
    if (value === undefined || value.startsWith('()') || !wanted.has(fold(name))) continue;
    byFoldedName.set(fold(name), [name, value]);
  }
  for (const [name, value] of Object.entries(QUIET)) byFoldedName.set(name, [name, value]);
  for (const [name, value] of Object.entries(configured)) byFoldedName.set(fold(name), [name, value]);

  // Without a prototype: a variable may be called `__proto__`.
  const environment: Record<string, string> = Object.create(null);
  for (const [name, value] of byFoldedName.values()) environment[name] = value;
  return environment;
}
