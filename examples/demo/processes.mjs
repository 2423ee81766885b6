// What the operating system says of the processes below this one: the demo does not take its own word for it.

import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';

/** The living processes: pid → {parent, born}. `born` tells a process from a later one with the same pid. */
function processTable() {
  if (process.platform === 'linux') return fromProc();
  if (process.platform === 'win32') throw new Error('the demo cannot count processes on Windows');
  const { stdout, error } = spawnSync('ps', ['-A', '-o', 'pid=,ppid=,state=,lstart='], { encoding: 'utf8' });
  if (error) throw error;
  const rows = stdout.split('\n').map((row) => row.trim().split(/\s+/));
  return new Map(
    rows
      .filter(([pid, , state]) => pid !== '' && !state.startsWith('Z'))
      .map(([pid, parent, , ...born]) => [Number(pid), { parent: Number(parent), born: born.join(' ') }]),
  );
}

function fromProc() {
  const table = new Map();
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'latin1');
      // The second field is a name in parentheses, which may hold anything.
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
      const [state, parent, born] = [fields[0], Number(fields[1]), fields[19]];
      if (state !== 'Z' && state !== 'X') table.set(Number(name), { parent, born });
    } catch {
      // It ended while we looked.
    }
  }
  return table;
}

/** Remembers every process that was seen below this one. */
export class ProcessWatch {
  #seen = new Map();

  /** Looks now. A process has to be looked at once while its parents live. */
  look() {
    const table = processTable();
    const isBelow = (pid) => {
      for (let at = table.get(pid)?.parent; at; at = table.get(at)?.parent)
        if (at === process.pid) return true;
      return false;
    };
    for (const [pid, { born }] of table) if (isBelow(pid)) this.#seen.set(pid, born);
  }

  get seen() {
    return this.#seen.size;
  }

  /** Those that were seen and live, wherever they hang by now. */
  left() {
    this.look();
    const table = processTable();
    return [...this.#seen].filter(([pid, born]) => table.get(pid)?.born === born).map(([pid]) => pid);
  }
}
