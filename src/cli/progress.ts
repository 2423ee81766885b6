/** One line on a terminal while peers start. Nothing where there is no terminal. */
import type { Host } from '../host/facade.js';
import type { CliIo, Output } from './io.js';
import { cutTo } from './output.js';

const SETTLED = new Set(['modern', 'legacy', 'unavailable', 'stopped']);
const CLEAR_LINE = '\r\x1b[2K';

export interface ProgressLine {
  /** Clears the line and listens no more. */
  end(): void;
}

/** Redrawn by events, not by a timer. */
export function startProgress(
  host: Host,
  names: readonly string[],
  output: Output | null,
  env: CliIo['env'],
): ProgressLine {
  if (output === null || !output.isTTY || env['TERM'] === 'dumb') return { end: () => {} };
  const waiting = new Set(names);
  const draw = (): void => {
    const count = `${names.length - waiting.size} of ${names.length} peers settled`;
    const text = waiting.size === 0 ? 'listing' : `waiting for ${[...waiting].join(', ')}`;
    output.write(CLEAR_LINE + cutTo(`${count}, ${text}`, (output.columns ?? 80) - 1));
  };
  const unsubscribe = host.on('peer', (report) => {
    if (SETTLED.has(report.state)) waiting.delete(report.name);
    else waiting.add(report.name);
    draw();
  });
  draw();
  return {
    end() {
      unsubscribe();
      output.write(CLEAR_LINE);
    },
  };
}
