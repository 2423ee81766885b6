import { execFileSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { expect } from 'vitest';

/** Command lines of all living processes that hold `text`, this process excepted. Empty on Windows: not looked. */
export function processesWith(text: string): string[] {
  return commandLines().filter((line) => line.includes(text));
}

/** Resolves once no process with `text` in its command line lives. A process that was killed takes its time to go. */
export async function noProcessWith(text: string): Promise<void> {
  await expect.poll(() => processesWith(text), { timeout: 30_000, interval: 20 }).toEqual([]);
}

function commandLines(): string[] {
  if (process.platform === 'win32') return [];
  if (process.platform !== 'linux') {
    const rows = execFileSync('ps', ['-A', '-o', 'pid=,command='], { encoding: 'utf8' }).split('\n');
    return rows.filter((row) => !row.trim().startsWith(`${process.pid} `));
  }
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .map(commandLineOf);
}

function commandLineOf(pid: string): string {
  try {
    // A process that ended and was not waited for yet has none.
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ');
  } catch {
    return '';
  }
}
