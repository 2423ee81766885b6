// Generated sections of Markdown documents.

const section = /(?<open><!-- generated:(?<name>[\w-]+) -->)[\s\S]*?(?<close><!-- \/generated -->)/g;

/** The names of the sections of a document, in their order. An opened section that is never closed throws. */
export function sectionNames(text) {
  const names = [...text.matchAll(section)].map((match) => match.groups.name);
  const opened = text.match(/<!-- generated:/g)?.length ?? 0;
  const closed = text.match(/<!-- \/generated -->/g)?.length ?? 0;
  if (opened !== names.length || closed !== names.length)
    throw new Error(`${opened} generated sections are opened, ${closed} are closed`);
  return names;
}

/** The document with each section's content replaced by `contents.get(name)`. */
export function fillSections(text, contents) {
  return text.replace(
    section,
    (_all, open, name, close) => `${open}\n\n${contents.get(name).trim()}\n\n${close}`,
  );
}

/**
 * A Markdown table. Booleans become yes and no, absent values a dash; a value cannot break out of its cell.
 */
export function markdownTable(head, rows) {
  const line = (cells) => `| ${cells.map(cell).join(' | ')} |`;
  return [line(head), `|${' --- |'.repeat(head.length)}`, ...rows.map(line)].join('\n');
}

function cell(value) {
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (value === undefined || value === null || value === '') return '–';
  return String(value)
    .replace(/\s*\n\s*/g, ' ')
    .replace(/\|/g, '\\|');
}
