/**
 * The checks behind `options.ts`: one table of limits, a zod schema for each kind of object, and the way from a zod
 * issue to a {@link ConfigurationError}. Each leaf schema's message is the text of what is allowed there.
 */
import { z } from 'zod';
import { isLegacyRevision, isRevision, LEGACY_REVISIONS, MODERN_REVISIONS } from '../protocol/revisions.js';
import type { TransportFactory } from '../transports/transport.js';
import { checkAuth, checkProxy } from './authChecks.js';
import type { HostLimits, HostOptions } from './config.js';
import { ConfigurationError, type PathSegment } from './errors.js';
import { checkHeaders } from './headerChecks.js';
import { PACKAGE_NAME, PACKAGE_VERSION } from './version.js';

interface Bound {
  readonly byDefault: number;
  readonly min: number;
  readonly max: number;
}

/** Longest time that may be configured: one day. Node's timers fire at once when given more than 24.8 days. */
const DAY_MS = 24 * 60 * 60 * 1000;
const MIB = 1024 * 1024;

/** Every number of {@link HostLimits}: default and bounds. */
export const LIMITS = {
  probeTimeoutMs: { byDefault: 15_000, min: 1, max: DAY_MS },
  legacyProbeTimeoutMs: { byDefault: 15_000, min: 1, max: DAY_MS },
  listTimeoutMs: { byDefault: 30_000, min: 1, max: DAY_MS },
  callTimeoutMs: { byDefault: 60_000, min: 1, max: DAY_MS },
  maxCallMs: { byDefault: 600_000, min: 1, max: DAY_MS },
  startTimeoutMs: { byDefault: 30_000, min: 1, max: DAY_MS },
  stableAfterMs: { byDefault: 30_000, min: 0, max: DAY_MS },
  backoffMinMs: { byDefault: 500, min: 1, max: DAY_MS },
  backoffMaxMs: { byDefault: 30_000, min: 1, max: DAY_MS },
  maxAttempts: { byDefault: 8, min: 0, max: 1_000 },
  retryUnavailableAfterMs: { byDefault: 60_000, min: 0, max: DAY_MS },
  maxInFlight: { byDefault: 64, min: 1, max: 100_000 },
  maxQueue: { byDefault: 1_024, min: 0, max: 1_000_000 },
  maxRounds: { byDefault: 16, min: 0, max: 1_000 },
  breakerThreshold: { byDefault: 5, min: 0, max: 1_000_000 },
  breakerOpenMs: { byDefault: 10_000, min: 1, max: DAY_MS },
  maxSimultaneousStarts: { byDefault: 8, min: 1, max: 1_000 },
  // Node's longest string is 512 MiB; half of it leaves room for the copy that is parsed.
  maxMessageBytes: { byDefault: 16 * MIB, min: 1_024, max: 256 * MIB },
  shutdownGraceMs: { byDefault: 2_000, min: 0, max: 600_000 },
} as const satisfies Record<keyof HostLimits, Bound>;

/** A peer's name: fit for a path, a label, a file name and the prefix of a tool. */
const PEER_NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

type Segments = readonly PathSegment[];

/** Options that only code can give; a file has none of them. */
export const CODE_ONLY = 'id, clock, random, handlers, callPolicy, store, ratchet, inspect';

/** @throws {ConfigurationError} always */
export function fail(segments: Segments, came: string, allowed: string): never {
  throw new ConfigurationError({ segments, came, allowed });
}

export function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === Object.prototype || prototype === null;
}

const fits = <T>(test: (value: unknown) => value is T, error: string) => z.custom<T>(test, { error });
const isText = (value: unknown): value is string => typeof value === 'string' && !value.includes('\0');
const isFilledText = (value: unknown): value is string => isText(value) && value.trim() !== '';
const isTransportFactory = (value: unknown): value is TransportFactory => typeof value === 'function';

const text = fits(isText, 'a text without a NUL character');
const filledText = fits(isFilledText, 'a text that is not empty, without a NUL character');
const flag = z.boolean({ error: 'true or false' });
const oneOf = <const T extends readonly [string, ...string[]]>(words: T) =>
  z.enum(words, { error: words.map((word) => JSON.stringify(word)).join(' or ') });

function whole(bound: Bound) {
  const error = `a whole number from ${bound.min} to ${bound.max}`;
  return z.int({ error }).min(bound.min, { error }).max(bound.max, { error });
}

function strict<S extends z.ZodRawShape>(shape: S) {
  const keys = Object.keys(shape).join(', ');
  return z.strictObject(shape, {
    error: (issue) => (issue.code === 'unrecognized_keys' ? `one of the keys ${keys}` : 'an object'),
  });
}

function revisions(belongs: (value: string) => boolean, era: string, minimum: 0 | 1) {
  const item = fits(
    (value): value is string => isRevision(value) && belongs(value),
    `a ${era} revision, such as ${(era === 'modern' ? MODERN_REVISIONS : LEGACY_REVISIONS).at(-1)}`,
  );
  return z
    .array(item, { error: `a list of ${era} revisions` })
    .min(minimum, { error: `at least one ${era} revision` })
    .transform((list) => [...new Set(list)].sort());
}

const name = fits(
  (value): value is string => isFilledText(value) && value.length <= 200 && !/\p{Cc}/u.test(value),
  'a text of at most 200 characters, not empty, without control characters',
);

const objectOnly = fits(isPlainObject, 'an object');
const anyObject = fits(
  (value): value is object => typeof value === 'object' && value !== null && !Array.isArray(value),
  'an object',
);

const hostOptions = strict({
  peers: objectOnly,
  collisions: oneOf(['prefix', 'prefix-always', 'reject']).optional(),
  clientInfo: strict({ name, version: name, title: name.optional() }).optional(),
  modernRevisions: revisions((value) => !isLegacyRevision(value), 'modern', 1).optional(),
  legacyRevisions: revisions(isLegacyRevision, 'legacy', 0).optional(),
  ...(Object.fromEntries(
    Object.entries(LIMITS).map(([key, bound]) => [key, whole(bound).optional()]),
  ) as Record<keyof HostLimits, z.ZodOptional<z.ZodInt>>),
});

/** Checks all but the peers, and fills in the defaults. */
export function checkHostOptions(options: HostOptions) {
  const parsed = check(hostOptions, options, []);
  const limits = Object.fromEntries(
    Object.entries(LIMITS).map(([key, bound]) => [key, parsed[key as keyof HostLimits] ?? bound.byDefault]),
  ) as Record<keyof HostLimits, number>;
  // A pair is contradictory only if both were configured; else the default gives way.
  const pairs = [
    ['callTimeoutMs', 'maxCallMs'],
    ['backoffMinMs', 'backoffMaxMs'],
  ] as const;
  for (const [low, high] of pairs) {
    if (limits[low] <= limits[high]) continue;
    if (parsed[low] !== undefined && parsed[high] !== undefined) {
      fail([high], String(limits[high]), `at least ${low}, which is ${limits[low]}`);
    }
    if (parsed[high] === undefined) limits[high] = limits[low];
    else limits[low] = limits[high];
  }
  const title = parsed.clientInfo?.title;
  return {
    ...limits,
    peers: parsed.peers,
    collisions: parsed.collisions ?? ('prefix' as const),
    clientInfo: {
      name: parsed.clientInfo?.name ?? PACKAGE_NAME,
      version: parsed.clientInfo?.version ?? PACKAGE_VERSION,
      ...(title === undefined ? {} : { title }),
    },
    modernRevisions: parsed.modernRevisions ?? [...MODERN_REVISIONS],
    legacyRevisions: parsed.legacyRevisions ?? [...LEGACY_REVISIONS],
  };
}

const toolNames = z.array(filledText, { error: 'a list of names of tools' });

const common = {
  allowLegacy: flag.optional(),
  required: flag.optional(),
  trust: oneOf(['untrusted', 'trusted']).optional(),
  labels: objectOnly.optional(),
  serialize: toolNames.optional(),
  repeatable: toolNames.optional(),
  maxInFlight: whole(LIMITS.maxInFlight).optional(),
  maxQueue: whole(LIMITS.maxQueue).optional(),
};
const stdioPeer = strict({
  ...common,
  transport: z.literal('stdio', { error: '"stdio" for a peer with a command' }).optional(),
  command: filledText,
  args: z.array(text, { error: 'a list of texts' }).optional(),
  cwd: filledText.optional(),
  env: objectOnly.optional(),
});
const httpPeer = strict({
  ...common,
  transport: oneOf(['streamable-http', 'legacy-sse']).optional(),
  url: filledText,
  headers: objectOnly.optional(),
  auth: anyObject.optional(),
  proxy: filledText.optional(),
});
const customPeer = strict({
  ...common,
  createTransport: fits(isTransportFactory, 'a function'),
  identity: filledText,
  authorizationContext: filledText.optional(),
});

const KINDS = ['command', 'url', 'createTransport'] as const;

/** Checks one peer; `cwd` is left as it came. */
export function checkPeer(peerName: string, config: unknown, at: Segments) {
  if (!PEER_NAME.test(peerName)) {
    fail(
      at,
      'this name',
      'names of 1 to 64 letters, digits, ".", "_" and "-" that start with a letter or a digit',
    );
  }
  if (!isPlainObject(config)) fail(at, describe(config, at), 'an object');
  const kinds = KINDS.filter((key) => config[key] !== undefined);
  const [kind] = kinds;
  if (kind === undefined || kinds.length > 1) {
    const came = kind === undefined ? 'none of them' : kinds.join(' and ');
    fail(at, came, `exactly one of ${KINDS.join(', ')}; which one is the transport of peer "${peerName}"?`);
  }
  if (kind === 'command') {
    const parsed = check(stdioPeer, config, at);
    const env = checkTexts(parsed.env, [...at, 'env'], isEnvName, 'names without "=" and NUL');
    const { command, args = [], cwd } = parsed;
    return { name: peerName, ...filled(parsed, at), transport: 'stdio' as const, command, args, cwd, env };
  }
  if (kind === 'url') {
    const parsed = check(httpPeer, config, at);
    const headers = checkHeaders(checkTexts(parsed.headers, [...at, 'headers']), [...at, 'headers']);
    const url = checkUrl(parsed.url, [...at, 'url'], parsed.auth !== undefined);
    const transport = parsed.transport ?? ('streamable-http' as const);
    if (transport === 'legacy-sse' && parsed.allowLegacy !== true) {
      const allowed = `"streamable-http"; or "legacy-sse" with allowLegacy: true on the same peer, since that transport is legacy only`;
      fail([...at, 'transport'], '"legacy-sse" without allowLegacy: true', allowed);
    }
    const proxy = parsed.proxy === undefined ? undefined : checkProxy(parsed.proxy, [...at, 'proxy']);
    const surroundings = { url: new URL(url), headers, proxy };
    const auth =
      parsed.auth === undefined ? undefined : checkAuth(parsed.auth, [...at, 'auth'], surroundings);
    return { name: peerName, ...filled(parsed, at), transport, url, headers, auth, proxy };
  }
  const parsed = check(customPeer, config, at);
  const { createTransport, identity, authorizationContext } = parsed;
  const own = { transport: 'custom' as const, createTransport, identity, authorizationContext };
  return { name: peerName, ...filled(parsed, at), ...own };
}

function filled(parsed: z.infer<z.ZodObject<typeof common>>, at: Segments) {
  return {
    allowLegacy: parsed.allowLegacy ?? false,
    required: parsed.required ?? false,
    trust: parsed.trust ?? ('untrusted' as const),
    labels: checkTexts(parsed.labels, [...at, 'labels']),
    serialize: parsed.serialize ?? [],
    repeatable: parsed.repeatable ?? [],
    maxInFlight: parsed.maxInFlight,
    maxQueue: parsed.maxQueue,
  };
}

const isEnvName = (key: string): boolean => !/[=\0]/.test(key);

/** A map of texts, copied. By hand: a key `__proto__` must be neither dropped nor assigned. */
function checkTexts(
  map: Record<string, unknown> | undefined,
  at: Segments,
  isKey: (key: string) => boolean = () => true,
  allowedKey = 'names that are not empty',
): Record<string, string> {
  const entries = Object.entries(map ?? {}).filter(([, value]) => value !== undefined);
  return Object.fromEntries(
    entries.map(([key, value]): [string, string] => {
      // Not shown: a mistyped key may hold a value, as in "TOKEN=…".
      if (key === '' || key === '__proto__' || !isKey(key)) fail(at, 'a key that is no name', allowedKey);
      if (!isText(value)) fail([...at, key], describe(value, at), 'a text without a NUL character');
      return [key, value];
    }),
  );
}

function checkUrl(value: string, at: Segments, hasAuth: boolean): string {
  const allowed = 'an absolute http: or https: URL';
  if (!URL.canParse(value)) fail(at, 'a text that is no URL', allowed);
  const url = new URL(value);
  if (url.protocol !== 'http:' && url.protocol !== 'https:') fail(at, `a ${url.protocol} URL`, allowed);
  if (url.username !== '' || url.password !== '') {
    const beside = hasAuth ? ' beside auth' : '';
    const instead = hasAuth ? '' : '; put credentials into headers';
    fail(at, `a URL with a user name or password${beside}`, `${allowed} without them${instead}`);
  }
  url.hash = '';
  return url.href;
}

/** Runs a schema; the first issue becomes the error. */
function check<T>(schema: z.ZodType<T>, value: unknown, at: Segments): T {
  if (!isPlainObject(value)) fail(at, describe(value, at), 'an object');
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  if (issue === undefined) fail(at, 'an object that cannot be read', 'the documented keys');
  const inside = issue.path.map((segment) => (typeof segment === 'number' ? segment : String(segment)));
  if (issue.code === 'unrecognized_keys') {
    fail([...at, ...inside, issue.keys[0] ?? ''], 'an unknown key', issue.message);
  }
  const segments = [...at, ...inside];
  fail(segments, describe(valueAt(value, inside), segments), issue.message);
}

function valueAt(value: unknown, path: Segments): unknown {
  return path.reduce<unknown>(
    (inner, key) =>
      typeof inner === 'object' && inner !== null ? (inner as Record<PathSegment, unknown>)[key] : undefined,
    value,
  );
}

/** What came, without showing it where it may be a secret. */
function describe(value: unknown, at: Segments): string {
  if (value === undefined) return 'nothing';
  if (value === null || typeof value === 'boolean' || typeof value === 'number') return String(value);
  if (value === '') return 'an empty text';
  if (typeof value === 'string') {
    return value.length <= 40 && holdsWordOfOurs(at) ? JSON.stringify(value) : 'a text';
  }
  if (Array.isArray(value)) return value.length === 0 ? 'an empty list' : 'a list';
  if (typeof value === 'object') return 'an object';
  return `a ${typeof value}`;
}

/** Whether a text at this place is one of our words, so that a wrong one may be shown. No other text is. */
function holdsWordOfOurs(at: Segments): boolean {
  const [first, , key] = at;
  if (first === 'peers') return at.length === 3 && (key === 'transport' || key === 'trust');
  return first === 'collisions' || first === 'modernRevisions' || first === 'legacyRevisions';
}
