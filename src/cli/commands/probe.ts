/** `peerage probe`: which peer speaks what, and why one does not. */
import type { PeerReport } from '../../host/facade.js';
import { EXIT } from '../exit.js';
import { failureLines } from '../failures.js';
import { type Column, mapStrings, oneLine, renderTable, toJson } from '../output.js';
import { type CommandContext, isCallable, type Session, withHost } from '../session.js';
import { limitTo } from '../source.js';

const COLUMNS: readonly Column[] = [
  { title: 'PEER', max: 40 },
  { title: 'STATE' },
  { title: 'ERA' },
  { title: 'REVISION' },
  { title: 'SERVER', max: 40 },
  { title: 'TOOLS', align: 'right' },
  { title: 'MS', align: 'right' },
];

/**
 * One negotiation a peer. Exit code 1 where an asked-for peer is not callable.
 *
 * @param names limits the probe to these peers
 */
export async function runProbe(context: CommandContext, names: readonly string[]): Promise<number> {
  return withHost({ ...context, source: limitTo(context.source, names) }, async (session) => {
    const { reports, redact, refusal } = session;
    const text = context.json ? toJson(mapStrings(probeDocument(reports), redact)) : probeTable(session);
    context.io.stdout.write(`${text}\n`);
    return refusal === null && reports.every(isCallable) ? EXIT.ok : EXIT.failed;
  });
}

/** The document of `--json`. */
export function probeDocument(reports: readonly PeerReport[]) {
  return {
    peers: reports.map((report) => ({
      name: report.name,
      state: report.state,
      era: report.era,
      revision: report.revision,
      server: report.server,
      reason: report.reason,
      initializeSent: report.initializeSent,
      ms: Math.round(report.ms),
      tools: report.tools,
      record: report.record.map((entry) => ({ ...entry, atMs: Math.round(entry.atMs) })),
    })),
  };
}

function probeTable(session: Session): string {
  const { reports, theme, redact } = session;
  const rows = reports.map((report) => ({
    glyph: theme.glyph(report.state),
    cells: [
      report.name,
      report.state,
      report.era,
      report.revision ?? theme.dash,
      report.server === null
        ? theme.dash
        : oneLine(redact(`${report.server.name} ${report.server.version}`), 200),
      report.tools === null ? theme.dash : String(report.tools),
      String(Math.round(report.ms)),
    ],
    below: failureLines(report, session),
  }));
  const callable = reports.filter(isCallable).length;
  const all = callable === reports.length;
  const summary = theme.paint(all ? 'green' : 'red', `${callable} of ${reports.length} callable`);
  return `${renderTable(COLUMNS, rows, theme)}\n\n${summary}`;
}
