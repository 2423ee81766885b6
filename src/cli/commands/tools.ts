/** `peerage tools`: the registry as a model would see it, and what was kept out of it. */
import type { Lease } from '../../registry/lease.js';
import { EXIT } from '../exit.js';
import { failureBlock } from '../failures.js';
import { type Column, cutTo, INDENT, mapStrings, oneLine, renderTable, toJson } from '../output.js';
import { type CommandContext, isCallable, type Session, withHost } from '../session.js';

const COLUMNS: readonly Column[] = [
  { title: 'TOOL', max: 60 },
  { title: 'PEER', max: 40 },
  { title: 'DESCRIPTION' },
];
/** A name longer than its column is shown whole: it is what one has to type. */
const NAME_MAX = 2_000;

/** Exit code 1 where a peer is not callable or its listing failed. */
export async function runTools(context: CommandContext): Promise<number> {
  return withHost(context, async (session) => {
    const lease = session.host.catalog();
    const text = context.json
      ? toJson(mapStrings(toolsDocument(lease), session.redact))
      : toolsText(lease, session);
    context.io.stdout.write(`${text}\n`);
    const whole = session.reports.every((report) => isCallable(report) && report.listing === null);
    return session.refusal === null && whole ? EXIT.ok : EXIT.failed;
  });
}

/** The document of `--json`. */
export function toolsDocument(lease: Lease) {
  return {
    revision: lease.revision,
    tools: [...lease.entries.values()].map(({ name, peer, local, digest, description }) => ({
      name,
      peer,
      local,
      digest,
      description: description ?? null,
    })),
    conflicts: lease.conflicts,
    quarantined: lease.quarantined,
  };
}

function toolsText(lease: Lease, session: Session): string {
  const { theme, redact } = session;
  const clean = (text: string, max?: number): string => oneLine(redact(text), max);
  const entries = [...lease.entries.values()];
  const names = entries.map((entry) => clean(entry.name, NAME_MAX));
  const columns = COLUMNS.map((column, at) => (at === 0 ? { title: column.title } : column));
  const widest = (texts: readonly string[]): number => Math.max(4, ...texts.map((text) => text.length));
  const room = Math.max(20, theme.width - widest(names) - widest(entries.map(({ peer }) => peer)) - 8);
  const rows = entries.map((entry, at) => ({
    glyph: entry.freshness === 'fresh' ? ' ' : theme.paint('yellow', '~'),
    cells: [names[at] ?? '', entry.peer, cutTo(clean(entry.description ?? '', 1_000), room)],
  }));
  const sections = [
    rows.length === 0 ? `${INDENT}no tools` : renderTable(columns, rows, theme),
    block(
      theme.paint('bold', 'names declared twice'),
      lease.conflicts.map(
        ({ tool, owner, peer, exposedAs }) =>
          `${clean(tool, 200)}: ${owner} has it; of ${peer} it is ` +
          (exposedAs === null ? 'not loaded' : clean(exposedAs, NAME_MAX)),
      ),
    ),
    block(
      theme.paint('bold', 'kept out'),
      lease.quarantined.map(
        ({ peer, local, code, reason }) =>
          `${peer} ${theme.arrow} ${local === null ? 'a nameless item' : clean(local, 250)}: ${code}, ${clean(reason)}`,
      ),
    ),
    failureBlock(session),
  ];
  return sections.filter((section) => section !== '').join('\n\n');
}

function block(title: string, lines: readonly string[]): string {
  return lines.length === 0 ? '' : [`${INDENT}${title}`, ...lines.map((line) => INDENT + line)].join('\n');
}
