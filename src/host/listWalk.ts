/** Walks the pages of one list and reads its items one by one, so that a bad one does not spoil the others. */
import type { CacheHint } from '../protocol/definitions.js';
import type { Outcome } from '../protocol/exchange.js';
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import { isJsonObject } from '../protocol/jsonRpc.js';
import { type ListPage, parseListPage } from '../protocol/listResults.js';
import { LISTS, type ListKind } from '../protocol/lists.js';
import type { Parsed } from '../protocol/results.js';
import { sanitizeText } from '../protocol/sanitize.js';
import { isDeeperThan, MAX_DEPTH } from '../registry/digest.js';
import type { Clock } from '../transports/clock.js';
import { describeOutcome } from './outcomeWords.js';

/** More pages than any real list: 1,083 tools came in one page, and no server seen pages below 10 a page. */
export const MAX_PAGES = 1_000;
/** A hundred times the largest real list seen. */
export const MAX_ITEMS = 100_000;
/** In UTF-16 units. A cursor goes back in a request and is remembered; servers that pack a query in it use kilobytes. */
export const MAX_CURSOR_LENGTH = 65_536;

export interface WalkOptions<T> {
  readonly kind: ListKind;
  /** Sends the request that lists `kind`; `members` are the serialized members of its params. */
  readonly request: (members: string, timeoutMs: number) => Promise<Outcome>;
  readonly clock: Clock;
  /** For all pages together. */
  readonly timeoutMs: number;
  /** Reads one item. */
  readonly parse: (item: JsonValue) => Parsed<T>;
  /** Takes secrets out of what a failure says. Default: nothing. */
  readonly redact?: (text: string) => string;
  /** Items, the malformed ones among them, over which the list is refused. Default {@link MAX_ITEMS}. */
  readonly maxItems?: number;
}

/** An item that is not in the list, and why. */
export interface MalformedItem {
  /** What it is known by, escaped for display, at most 200 characters; `null` where there is nothing. */
  readonly local: string | null;
  readonly reason: string;
}

export type Walk<T> =
  | {
      readonly ok: true;
      /** In the order of the server. */
      readonly items: readonly T[];
      readonly malformed: readonly MalformedItem[];
      /** When the last page came, on the given clock. */
      readonly receivedAt: number;
      /** When the first of its pages runs out, on the given clock; null where one may not be kept at all. */
      readonly freshUntil: number | null;
      /** `public` only where every page says so. */
      readonly scope: CacheHint['cacheScope'];
      /** Some pages say `public` and some do not: a fault of the server, read as `private`. */
      readonly mixedScope: boolean;
      readonly pages: number;
    }
  /** `outcome`: of the request that failed, where one did. */
  | { readonly ok: false; readonly message: string; readonly outcome?: Outcome };

/**
 * A list is complete or it failed: a repeated cursor, too many pages, a page that fails or the deadline give no
 * partial list. The empty cursor is opaque like any other: it is followed once.
 */
export async function walkList<T>(options: WalkOptions<T>): Promise<Walk<T>> {
  const { kind, clock, timeoutMs, maxItems = MAX_ITEMS } = options;
  const deadline = clock.now() + timeoutMs;
  const items = new Items(kind, options.parse);
  const hints = new Hints();
  const seen = new Set<string>();
  let members = '';
  for (let page = 1; page <= MAX_PAGES; page += 1) {
    const left = deadline - clock.now();
    if (left <= 0) return failed(kind, `not complete within ${timeoutMs} ms, after ${page - 1} pages`);
    const outcome = await options.request(members, left);
    const receivedAt = clock.now();
    const where = page === 1 ? '' : `page ${page}: `;
    if (outcome.kind !== 'result')
      return {
        ...failed(kind, where + describeOutcome(outcome, options.redact ?? ((text) => text))),
        outcome,
      };
    const parsed = parseListPage(kind, outcome.result);
    if (!parsed.ok) {
      return failed(kind, `page ${page} is no result of ${LISTS[kind].method}: ${parsed.problem}`);
    }
    if (items.count + parsed.value.items.length > maxItems)
      return failed(kind, `more than ${maxItems} items`);
    items.read(parsed.value.items);
    hints.note(parsed.value, receivedAt);
    const cursor = parsed.value.nextCursor;
    if (cursor === undefined) {
      const { kept, malformed } = items;
      return { ok: true, items: kept, malformed, receivedAt, ...hints.sum(), pages: page };
    }
    if (cursor.length > MAX_CURSOR_LENGTH) {
      return failed(kind, `the cursor of page ${page} is longer than ${MAX_CURSOR_LENGTH} characters`);
    }
    if (seen.has(cursor)) {
      return failed(kind, `the pages go round in a circle: page ${page} names a cursor seen before`);
    }
    seen.add(cursor);
    members = `"cursor":${JSON.stringify(cursor)}`;
  }
  return failed(kind, `more than ${MAX_PAGES} pages`);
}

/**
 * What an item is known by. Tools are told apart and looked at by the registry (`prepareCatalog`), which also keeps
 * the digests that tell a changed one.
 */
const KEYS: Readonly<Record<ListKind, { readonly member: string; readonly isChecked: boolean }>> = {
  tools: { member: 'name', isChecked: false },
  prompts: { member: 'name', isChecked: true },
  resources: { member: 'uri', isChecked: true },
  resourceTemplates: { member: 'uriTemplate', isChecked: true },
};

/** The items of all pages read so far. */
class Items<T> {
  readonly kept: T[] = [];
  readonly malformed: MalformedItem[] = [];
  private readonly kind: ListKind;
  private readonly parse: (item: JsonValue) => Parsed<T>;
  private readonly known = new Set<unknown>();

  constructor(kind: ListKind, parse: (item: JsonValue) => Parsed<T>) {
    this.kind = kind;
    this.parse = parse;
  }

  get count(): number {
    return this.kept.length + this.malformed.length;
  }

  read(items: readonly JsonValue[]): void {
    for (const item of items) {
      const parsed = this.parse(item);
      const problem = parsed.ok ? this.problemOf(item) : parsed.problem;
      if (parsed.ok && problem === null) this.kept.push(parsed.value);
      else this.putAside(item, problem ?? '');
    }
  }

  /** Of two items that are known by the same the first stays. */
  private problemOf(item: JsonValue): string | null {
    const { member, isChecked } = KEYS[this.kind];
    if (!isChecked) return null;
    const key = (item as JsonObject)[member];
    if (this.known.has(key))
      return `duplicate: the peer lists this ${member} more than once; the first one stays`;
    if (isDeeperThan(item, MAX_DEPTH)) return `the definition is nested deeper than ${MAX_DEPTH} levels`;
    this.known.add(key);
    return null;
  }

  private putAside(item: JsonValue, problem: string): void {
    const key = isJsonObject(item) ? item[KEYS[this.kind].member] : undefined;
    this.malformed.push({
      local: typeof key === 'string' ? sanitizeText(key, 200) : null,
      reason: sanitizeText(problem, 300),
    });
  }
}

/** The cache hints of all pages read so far: each page has its own clock (2026-07-28, server/utilities/caching). */
class Hints {
  private freshUntil: number | null = Number.POSITIVE_INFINITY;
  private publicPages = 0;
  private pages = 0;

  note(page: ListPage, receivedAt: number): void {
    this.pages += 1;
    if (page.cacheScope === 'public') this.publicPages += 1;
    if (page.ttlMs === 0 || this.freshUntil === null) this.freshUntil = null;
    else this.freshUntil = Math.min(this.freshUntil, receivedAt + page.ttlMs);
  }

  sum(): { freshUntil: number | null; scope: CacheHint['cacheScope']; mixedScope: boolean } {
    const { freshUntil, pages, publicPages } = this;
    return {
      freshUntil,
      scope: publicPages === pages ? 'public' : 'private',
      mixedScope: publicPages > 0 && publicPages < pages,
    };
  }
}

function failed(kind: ListKind, what: string): { readonly ok: false; readonly message: string } {
  return { ok: false, message: `${LISTS[kind].method}: ${what}` };
}
