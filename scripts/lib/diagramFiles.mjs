// The files of a folder of diagrams: made from machines, written, compared.

import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { instance } from '@viz-js/viz';
import { toChart, toDot, toMermaid } from './chart.mjs';

/**
 * Draws every machine of `table` ({file, export, name, make?}; files relative to `root`). `make` turns an
 * export that is not itself a machine into one. A machine that cannot be
 * had is in `problems`, never left out in silence.
 */
export async function drawAll(table, root) {
  const files = new Map();
  const problems = [];
  for (const entry of table) {
    try {
      const chart = toChart(await load(entry, root), entry.name);
      files.set(`${entry.name}.mmd`, `%% Generated from ${entry.file}; do not edit.\n${toMermaid(chart)}`);
      files.set(`${entry.name}.svg`, await toSvg(toDot(chart)));
    } catch (error) {
      problems.push(`${entry.name}: ${error instanceof Error ? error.message : error}`);
    }
  }
  return { files, problems };
}

async function load({ file, export: name, make = (exported) => exported }, root) {
  const path = join(root, file);
  if (!existsSync(path)) throw new Error(`${file} does not exist; npm run build makes it`);
  const exported = (await import(pathToFileURL(path).href))[name];
  const machine = exported === undefined ? undefined : make(exported);
  if (machine?.root?.states === undefined) throw new Error(`${file} exports no machine called ${name}`);
  return machine;
}

/** Graphviz says which version it is and what day its machine believes it is: neither belongs in a file. */
export async function toSvg(dot) {
  const { status, output, errors } = (await instance()).render(dot, { format: 'svg', engine: 'dot' });
  // Its font tables are ASCII; a wider character is measured as a space, and the margins have room for that.
  const complaints = errors.map(({ message }) => message).filter((text) => !/non-ASCII character/.test(text));
  if (status !== 'success' || complaints.length > 0) throw new Error(`Graphviz: ${complaints.join('; ')}`);
  return output
    .replace(/<\?xml[^>]*>\s*|<!DOCTYPE[^>]*>\s*|<!--[\s\S]*?-->\s*/g, '')
    .replace(/[ \t]+$/gm, '')
    .replace(/<svg /, '<svg role="img" ')
    .replaceAll('font-family="Arial"', 'font-family="Arial, Helvetica, Liberation Sans, sans-serif"');
}

const diagramsIn = (folder) =>
  existsSync(folder) ? readdirSync(folder).filter((name) => /\.(mmd|svg)$/.test(name)) : [];

/** What differs between `files` and the folder, one line a file. */
export function differences(files, folder) {
  const found = [];
  for (const [name, text] of files) {
    const path = join(folder, name);
    if (!existsSync(path)) found.push(`${name} is missing`);
    else if (readFileSync(path, 'utf8') !== text) found.push(`${name} is out of date`);
  }
  for (const name of diagramsIn(folder))
    if (!files.has(name)) found.push(`${name} belongs to no machine in the table`);
  return found;
}

/** Makes the folder's diagrams exactly `files`. */
export function writeAll(files, folder) {
  mkdirSync(folder, { recursive: true });
  for (const name of diagramsIn(folder)) if (!files.has(name)) rmSync(join(folder, name));
  for (const [name, text] of files) writeFileSync(join(folder, name), text);
}
