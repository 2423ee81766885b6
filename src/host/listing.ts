/** Walks the pages of `tools/list` and reads the items one by one, so that a bad one does not spoil the others. */
import type { Outcome } from '../protocol/exchange.js';
import { parseTool, parseToolsPage, type ToolDefinition } from '../protocol/results.js';
import { sanitizeText } from '../protocol/sanitize.js';
import { catalogDigest } from '../registry/digest.js';
import type { PeerCatalog, Quarantined } from '../registry/lease.js';
import type { Clock } from '../transports/clock.js';

/** More pages than any real list: 1,083 tools came in one page, and no server seen pages below 10 a page. */
export const MAX_PAGES = 1_000;
/** A hundred times the largest real list seen. */
export const MAX_TOOLS = 100_000;

export interface ListingOptions {
  readonly peer: string;
  /** Sends one `tools/list`; `members` are the serialized members of its params. */
  readonly request: (members: string, timeoutMs: number) => Promise<Outcome>;
  readonly clock: Clock;
  /** For all pages together. */
  readonly timeoutMs: number;
}

export type Listing =
  | { readonly ok: true; readonly catalog: PeerCatalog }
  /** `outcome`: of the request that failed, where one did. */
  | { readonly ok: false; readonly message: string; readonly outcome?: Outcome };

/** The catalog of a peer that declares no tools. */
export function emptyCatalog(peer: string): PeerCatalog {
  return { peer, tools: [], quarantined: [], digest: catalogDigest([]) };
}

/**
 * A list is complete or it failed: a repeated cursor, too many pages, a page that fails or the deadline give no
 * partial list. The empty cursor is opaque like any other: it is followed once.
 */
export async function listTools(options: ListingOptions): Promise<Listing> {
  const { peer, clock } = options;
  const deadline = clock.now() + options.timeoutMs;
  const tools: ToolDefinition[] = [];
  const quarantined: Quarantined[] = [];
  const seen = new Set<string>();
  let cursor: string | undefined;
  for (let page = 1; page <= MAX_PAGES; page += 1) {
    const left = deadline - clock.now();
    if (left <= 0) return failed(`not complete within ${options.timeoutMs} ms, after ${page - 1} pages`);
    const members = cursor === undefined ? '' : `"cursor":${JSON.stringify(cursor)}`;
    const outcome = await options.request(members, left);
    if (outcome.kind !== 'result') return { ...failed(describe(outcome)), outcome };
    const parsed = parseToolsPage(outcome.result);
    if (!parsed.ok) return failed(`page ${page} is no result of tools/list: ${parsed.problem}`);
    for (const item of parsed.value.items) {
      const tool = parseTool(item);
      if (tool.ok) tools.push(tool.value);
      else quarantined.push(malformed(peer, item, tool.problem));
    }
    if (tools.length > MAX_TOOLS) return failed(`more than ${MAX_TOOLS} tools`);
    cursor = parsed.value.nextCursor;
    if (cursor === undefined)
      return { ok: true, catalog: { peer, tools, quarantined, digest: catalogDigest(tools) } };
    if (seen.has(cursor))
      return failed(`the pages go round in a circle: page ${page} names a cursor seen before`);
    seen.add(cursor);
  }
  return failed(`more than ${MAX_PAGES} pages`);
}

function failed(what: string): { readonly ok: false; readonly message: string } {
  return { ok: false, message: `tools/list: ${what}` };
}

function malformed(peer: string, item: unknown, problem: string): Quarantined {
  const name = typeof item === 'object' && item !== null && 'name' in item ? item.name : undefined;
  const local = typeof name === 'string' ? sanitizeText(name, 200) : null;
  return { peer, local, code: 'malformed-item', reason: sanitizeText(problem, 300) };
}

function describe(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'error':
      return `error ${outcome.error.code} (${sanitizeText(outcome.error.message, 200)})`;
    case 'malformed':
      return outcome.detail;
    case 'timeout':
      return `no answer within ${Math.round(outcome.timeoutMs)} ms`;
    case 'closed':
      return `the connection ended (${outcome.cause.detail})`;
    case 'unreachable':
      return outcome.cause.detail;
    case 'unauthorized':
      return `HTTP ${outcome.status}`;
    case 'session-lost':
      return 'the session is gone (HTTP 404)';
    case 'cancelled':
    case 'withheld':
      return 'it was broken off';
    case 'result':
      return 'a result';
  }
}
