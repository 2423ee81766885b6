/** What this package throws: configuration, misuse, and the two things a host may declare fatal at start. */
import type { PeerReport } from './facade.js';

/** Base of every error this package throws on purpose. */
export class PeerageError extends Error {
  /** Stable, for programs. */
  readonly code: string;

  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = new.target.name;
    this.code = code;
  }
}

export type PathSegment = string | number;

/** Where a piece of a document stands. Both count from 1. */
export interface Position {
  readonly line: number;
  readonly column: number;
}

export interface ConfigurationProblem {
  /** Way to the value, from the root of the document or of the options. Empty: the document itself. */
  readonly segments: readonly PathSegment[];
  /** What was found there. Never a value that may be a secret. */
  readonly came: string;
  readonly allowed: string;
  readonly file?: string | undefined;
  readonly position?: Position | undefined;
}

/** Options or a configuration file are wrong. The message tells file, path, what came and what is allowed. */
export class ConfigurationError extends PeerageError {
  readonly file: string | undefined;
  /** Path in the document, such as `peers.archive.allowLegacy`; empty for the document itself. */
  readonly path: string;
  readonly segments: readonly PathSegment[];
  readonly came: string;
  readonly allowed: string;
  readonly position: Position | undefined;

  constructor(problem: ConfigurationProblem) {
    const { segments, came, allowed, file, position } = problem;
    const path = formatPath(segments);
    const place =
      file === undefined || position === undefined ? file : `${file}:${position.line}:${position.column}`;
    super(
      'configuration',
      [place, path, `got ${came}; allowed: ${allowed}`]
        .filter((part) => part !== undefined && part !== '')
        .join(': '),
    );
    this.file = file;
    this.path = path;
    this.segments = segments;
    this.came = came;
    this.allowed = allowed;
    this.position = position;
  }
}

/** Policy `reject`, and two peers declare one tool. */
export class CollisionError extends PeerageError {
  /** The peer that has the name, and the one that came second. */
  readonly peers: readonly [string, string];
  readonly tool: string;

  constructor(peers: readonly [string, string], tool: string) {
    super(
      'collision',
      `peers ${quoted(peers[0])} and ${quoted(peers[1])} both declare the tool ${quoted(tool)}, and collisions is "reject"`,
    );
    this.peers = peers;
    this.tool = tool;
  }
}

/** A peer with `required: true` is not callable. */
export class RequiredPeerError extends PeerageError {
  /** The required peers that are not callable. */
  readonly reports: readonly PeerReport[];

  constructor(reports: readonly PeerReport[]) {
    const each = reports.map((report) =>
      report.reason === null
        ? `${quoted(report.name)} is ${report.state}`
        : `${quoted(report.name)} is ${report.state}: ${report.reason.message}`,
    );
    super('required-peer', `a required peer is not callable: ${each.join('; ')}`);
    this.reports = reports;
  }
}

/** Authorization failed, or cannot be asked for. The message holds no token, code or secret. */
export class AuthorizationError extends PeerageError {
  readonly peer: string;

  constructor(peer: string, problem: string, options?: ErrorOptions) {
    super('authorization', `authorization for the peer ${quoted(peer)} failed: ${problem}`, options);
    this.peer = peer;
  }
}

/** No peer of that name. */
export class UnknownPeerError extends PeerageError {
  readonly peer: string;

  constructor(peer: string) {
    super('unknown-peer', `there is no peer named ${quoted(peer)}`);
    this.peer = peer;
  }
}

/** `['peers', 'a.b', 'args', 0]` → `peers["a.b"].args[0]`. */
export function formatPath(segments: readonly PathSegment[]): string {
  let path = '';
  for (const segment of segments) {
    if (typeof segment === 'number') path += `[${segment}]`;
    else if (!/^[A-Za-z0-9_$-]+$/.test(segment)) path += `[${quoted(segment)}]`;
    else path += path === '' ? segment : `.${segment}`;
  }
  return path;
}

/** Names may come from a server or a mistyped file: bounded, and nothing in them reaches a terminal raw. */
function quoted(text: string): string {
  const short = text.length > 200 ? `${text.slice(0, 200)}…` : text;
  return JSON.stringify(short).replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${(character.codePointAt(0) as number).toString(16)}}`,
  );
}
