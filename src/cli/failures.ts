/** Why a peer is not callable and what to do, in two lines under its row. */
import type { PeerReport } from '../host/facade.js';
import { INDENT, oneLine, wrap } from './output.js';
import { isCallable, type Session } from './session.js';

const LABEL = 'listing '.length;

/** The lines, or none where there is nothing to say. */
export function failureLines(
  report: PeerReport,
  { theme, redact }: Pick<Session, 'theme' | 'redact'>,
): string[] {
  const lines: (readonly [string, string])[] = [];
  if (report.reason !== null && !isCallable(report)) {
    lines.push(['why', report.reason.message], ['fix', report.reason.fix]);
  } else if (!isCallable(report)) {
    lines.push(['why', `still ${report.state} when the start ended`]);
  }
  if (report.listing !== null) lines.push(['listing', report.listing]);
  return lines.map(([label, text]) => {
    const indent = ' '.repeat(LABEL);
    const clean = wrap(
      oneLine(redact(text), 2_000),
      theme.width - INDENT.length - LABEL - 2,
      INDENT + indent,
    );
    return theme.paint(label === 'fix' ? 'cyan' : 'dim', label.padEnd(LABEL)) + clean;
  });
}

/** The peers that failed, each with its lines; empty where none did. */
export function failureBlock(session: Session): string {
  const blocks = session.reports.map((report): string[] => {
    const lines = failureLines(report, session);
    if (lines.length === 0) return [];
    const head = ` ${session.theme.glyph(report.state)} ${session.theme.paint('bold', report.name)} ${report.state}`;
    return [head, ...lines.map((line) => INDENT + line)];
  });
  return blocks.flat().join('\n');
}
