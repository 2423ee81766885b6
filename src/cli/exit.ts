/** How the command line ends. */

export const EXIT = {
  /** All asked-for peers are callable and the call was ok. */
  ok: 0,
  /** The tool or a peer failed. */
  failed: 1,
  /** Wrong usage or wrong configuration; nothing was started. */
  usage: 2,
  /** SIGINT, SIGTERM or SIGHUP. */
  interrupted: 130,
} as const;

/** The command line itself was wrong. The message tells what to write instead. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}
