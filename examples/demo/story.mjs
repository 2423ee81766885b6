// What the demo prints: peers with what was said, the merged tools, and how calls went.

import { heading, mark, print, styleOf } from './screen.mjs';

/** The verdicts of the negotiation rules, in words. `next` is the step after it, if there is one. */
const meanings = {
  'discover.result': () => 'modern: it names a revision that both speak',
  'discover.unsupportedVersion': () => 'modern, whatever it refuses: ask again, never initialize',
  'discover.ambiguous': (next) =>
    next === undefined
      ? 'proves nothing, and the peer is not allowlisted: no initialize'
      : 'proves nothing, but the peer is allowlisted: one initialize',
  'initialize.result': () => 'legacy, by positive evidence',
};

/** @param reports what the host says of its peers; @param configs how they are configured, by name */
export function showPeers(reports, configs) {
  heading('PEERS', 'what was sent, what came back, and the rule that judged it');
  for (const report of reports) showPeer(report, configs[report.name]);

  const times = reports.reduce((sum, { initializeSent }) => sum + initializeSent, 0);
  const asked = reports.filter(({ initializeSent }) => initializeSent > 0).map(({ name }) => name);
  print();
  print(
    ['   initialize was sent '],
    [times === 1 ? 'once' : `${times} times`, 'bold'],
    [asked.length === 0 ? '' : `, to ${asked.join(', ')}`],
  );
}

function showPeer({ name, state, path, record, revision, reason }, config) {
  const before = path.slice(0, -1).map((step) => `${step} → `);
  const now = revision === null ? state : `${state} ${revision}`;
  print();
  print(
    ...mark(state),
    [name, 'bold', 9],
    [before.join(''), 'dim'],
    [now, styleOf(state), 50 - before.join('').length],
    [`${'url' in config ? 'http' : 'stdio'}${config.allowLegacy ? ', allowlisted' : ''}`, 'dim'],
  );
  record.forEach((step, at) => {
    const meaning = meanings[step.verdict]?.(record[at + 1]) ?? step.verdict;
    print(
      ['     → ', 'cyan'],
      [step.sent, undefined, 16],
      [step.revision ?? '', 'dim', 12],
      ['← ', 'magenta'],
      [step.detail],
    );
    print(['       '], [step.rule, 'cyan', 4], [meaning, 'dim']);
  });
  if (reason?.code === 'not-allowlisted') {
    const trusted = JSON.stringify({ ...config, allowLegacy: true }, null, 1).replace(/\s+/g, ' ');
    print(['     who trusts it writes into the configuration:']);
    print(['       '], [`"${name}": ${trusted}`, 'yellow']);
  } else if (reason !== null) {
    print(['     '], [reason.message, 'red']);
  }
}

export function showTools({ entries, conflicts }) {
  heading('TOOLS', `${entries.size} names, each bound to one tool of one peer`);
  print();
  const width = Math.max(...[...entries.keys()].map((name) => name.length)) + 2;
  for (const { name, peer, local, description } of entries.values()) {
    const isContested = conflicts.some(({ tool }) => tool === local);
    print(
      ['   '],
      [name, isContested ? 'yellow' : 'bold', width],
      [peer, 'cyan', 9],
      [description ?? '', 'dim'],
    );
  }
  for (const { tool, owner, peer, exposedAs } of conflicts) {
    print();
    print(...mark('attention'), [
      `${owner} and ${peer} both declare ${tool}: ${owner} keeps the name, ${peer} has ${exposedAs}`,
    ]);
  }
}

/** @param what what the call is here for */
export function showCall(outcome, args, what) {
  const isOk = outcome.status === 'ok';
  const said = isOk ? outcome.result.content.map(({ text }) => text).join(' ') : outcome.message;
  print();
  print(
    ...mark(isOk ? 'ok' : 'failed'),
    [outcome.tool, 'bold', 12],
    [JSON.stringify(args), undefined, 22],
    [outcome.peer ?? '–', 'cyan', 9],
    [`${outcome.status}, ${outcome.delivery}`],
    [`, ${outcome.durationMs.toFixed(1)} ms`, 'dim'],
  );
  print([`   ${what}: `, 'dim'], [said.replaceAll('\n', ', ')]);
}

export function showEnd(left, seen, seconds) {
  print();
  print(
    ...mark(left.length === 0 ? 'ok' : 'failed'),
    [`${left.length} of ${seen} processes left`, 'bold'],
    [left.length === 0 ? '' : `: ${left.join(', ')}`],
    [`   ${seconds.toFixed(1)} s`, 'dim'],
  );
  print();
}
