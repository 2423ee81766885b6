/**
 * Checks arguments against a tool's input schema, and structured content against its output schema.
 *
 * Schemas are compiled when first used and kept by digest, so that a call pays for one look-up and the compiled code. A
 * schema that cannot be used affects its tool only, and that is this host's limit, not the model's fault: the result
 * says `schema-unusable`.
 */
import type { JsonObject, JsonValue } from '../protocol/jsonRpc.js';
import { sanitizeText } from '../protocol/sanitize.js';
import { describeProblems } from './problems.js';
import { readSchema, UnusableSchema } from './schemaBounds.js';
import { BudgetSpent, type CompiledSchema, loadSchemaEngine, type SchemaEngine } from './schemaEngine.js';
import { rewriteSchema } from './schemaRewrite.js';

export type ValidationResult =
  | { readonly ok: true }
  | {
      readonly ok: false;
      readonly code: 'mismatch';
      /** At most 8, each a sentence without a full stop: place, what is allowed, what came. Sanitized. */
      readonly problems: readonly string[];
      /** The problems, joined. */
      readonly message: string;
    }
  | {
      readonly ok: false;
      /** The schema cannot be compiled or checked here. Nothing is known about the value. */
      readonly code: 'schema-unusable';
      /** One sanitized sentence. */
      readonly message: string;
    };

/** `key` stands for one schema: a tool's digest, and something else than that for its output schema. */
export interface Validators {
  /**
   * Compiles a schema ahead of its first use. `undefined` where that is done; a promise where the compiler must be
   * loaded first. It never rejects: whether the schema can be used is told by the check.
   */
  prepare(key: string, schema: JsonObject): Promise<void> | undefined;
  /**
   * Checks the arguments of a call. A promise only until the compiler is loaded; it never rejects.
   *
   * @param schema read only where `key` was not compiled yet
   */
  validate(key: string, schema: JsonObject, value: JsonValue): ValidationResult | Promise<ValidationResult>;
  /** Checks structured content. Never a promise: needs one `prepare` or `validate` that has settled. */
  validateNow(key: string, schema: JsonObject, value: JsonValue): ValidationResult;
}

export interface ValidatorsOptions {
  /** Most compiled schemas kept; the least recently used goes first. Default 2,000. */
  readonly maxSchemas?: number;
  /** Default: ajv. */
  readonly loadEngine?: () => Promise<SchemaEngine>;
}

type Entry = { readonly compiled: CompiledSchema } | { readonly unusable: ValidationResult };

const FITS: ValidationResult = { ok: true };

export function createValidators(options: ValidatorsOptions = {}): Validators {
  const { maxSchemas = 2_000, loadEngine = loadSchemaEngine } = options;
  const entries = new Map<string, Entry>();
  let engine: SchemaEngine | undefined;
  let loading: Promise<SchemaEngine> | undefined;

  async function load(): Promise<SchemaEngine> {
    loading ??= loadEngine();
    try {
      engine = await loading;
      return engine;
    } catch (error) {
      loading = undefined; // The next use tries again.
      throw error;
    }
  }

  function entryFor(loaded: SchemaEngine, schema: JsonObject, key: string): Entry {
    let entry = entries.get(key);
    if (entry === undefined) {
      entry = compile(loaded, schema);
      if (entries.size >= maxSchemas) entries.delete(entries.keys().next().value!);
    } else if (entries.size < maxSchemas / 2) {
      // Nothing will have to go soon: its place in the order does not matter.
      return entry;
    } else {
      entries.delete(key);
    }
    entries.set(key, entry);
    return entry;
  }

  return {
    prepare(key, schema) {
      if (engine !== undefined) {
        entryFor(engine, schema, key);
        return undefined;
      }
      return load().then(
        (loaded) => void entryFor(loaded, schema, key),
        () => undefined,
      );
    },
    validate(key, schema, value) {
      if (engine !== undefined) return check(entryFor(engine, schema, key), value, 'arguments');
      return load().then((loaded) => check(entryFor(loaded, schema, key), value, 'arguments'), notLoaded);
    },
    validateNow(key, schema, value) {
      if (engine === undefined) return notLoaded('nothing was prepared');
      return check(entryFor(engine, schema, key), value, 'structuredContent');
    },
  };
}

function notLoaded(error: unknown): ValidationResult {
  return unusable(`The schema compiler could not be loaded: ${messageOf(error)}`);
}

function compile(engine: SchemaEngine, schema: JsonObject): Entry {
  try {
    const read = readSchema(schema);
    return { compiled: engine.compile(rewriteSchema(read), read.dialect) };
  } catch (error) {
    // Whatever the compiler throws is about this schema: it is code run on what a server sent.
    const reason =
      error instanceof UnusableSchema ? error.message : `it does not compile (${messageOf(error)})`;
    return { unusable: unusable(`The schema of this tool cannot be used by this host: ${reason}`) };
  }
}

function check(entry: Entry, value: JsonValue, subject: string): ValidationResult {
  if ('unusable' in entry) return entry.unusable;
  try {
    const found = entry.compiled.problemsOf(value);
    if (found.length === 0) return FITS;
    const problems = describeProblems(found, subject);
    return { ok: false, code: 'mismatch', problems, message: problems.join('; ') };
  } catch (error) {
    const reason =
      error instanceof BudgetSpent || error instanceof RangeError
        ? 'checking the value against it takes too long'
        : `checking fails (${messageOf(error)})`;
    return unusable(`The schema of this tool cannot be used by this host: ${reason}`);
  }
}

function unusable(message: string): ValidationResult {
  return { ok: false, code: 'schema-unusable', message };
}

function messageOf(error: unknown): string {
  return sanitizeText(error instanceof Error ? error.message : String(error), 200);
}
