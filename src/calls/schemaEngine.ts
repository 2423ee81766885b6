/**
 * The schema compiler: ajv, loaded when first needed (it costs about 50 ms), one instance a schema so that no schema
 * sees another, with the keywords replaced that a hostile schema could make endless. Nothing can interrupt a check on
 * this thread, so each check has a budget, and ends when it is spent.
 */
import type {
  Ajv,
  CodeKeywordDefinition,
  _ as codeTemplate,
  Format,
  KeywordCxt,
  Options,
  ValidateFunction,
} from 'ajv';
import { type Pattern, readPattern } from './patternCost.js';
import { type SchemaDialect, UnusableSchema } from './schemaBounds.js';
import { PRICE_KEYWORD, type Price } from './schemaRewrite.js';

/** Steps of one check. Real ones take tens; this many take about a tenth of a second. */
const MAX_STEPS = 1_000_000;
/** Worst-case steps of all patterns and formats of one check. */
const MAX_PATTERN_STEPS = 10_000_000;
/** So many problems that are certain are enough. */
const MAX_CERTAIN_PROBLEMS = 100;
/** So many problems of alternatives, which one that fits would undo, are too many to hold. */
const MAX_PROBLEMS_HELD = 20_000;

/** The compiler's own record of a problem, with schema and value. */
export type AjvProblem = NonNullable<ValidateFunction['errors']>[number];

/** A check came to the end of its budget. */
export class BudgetSpent extends Error {
  override readonly name = 'BudgetSpent';
}

/** Ends a check whose outcome is certain. */
class EnoughProblems extends Error {
  readonly problems: readonly AjvProblem[];

  constructor(problems: readonly AjvProblem[]) {
    super('enough problems');
    this.problems = problems;
  }
}

/** What one check may still cost. Checks are synchronous, so that one object serves all. */
class Budget {
  #steps = 0;
  #patternSteps = 0;

  reset(): void {
    this.#steps = MAX_STEPS;
    this.#patternSteps = MAX_PATTERN_STEPS;
  }

  spend(steps: number): void {
    this.#steps -= steps;
    if (this.#steps < 0) throw new BudgetSpent();
  }

  /** Whether a pattern may run. What may not is taken as fitting: the server checks its arguments itself. */
  affords(patternSteps: number): boolean {
    if (!(patternSteps <= this.#patternSteps)) return false;
    this.#patternSteps -= patternSteps;
    return true;
  }
}

/** What the compiled code of one schema calls. One object: the compiler's time grows with the square of its values. */
class Runtime {
  readonly #budget: Budget;
  readonly #patterns: Pattern[] = [];

  constructor(budget: Budget) {
    this.#budget = budget;
  }

  /** Called before what is below a subschema is entered. */
  enter(
    steps: number,
    stepsPerMember: number,
    isCertain: boolean,
    value: unknown,
    problems: readonly AjvProblem[] | null,
  ): void {
    let cost = steps;
    if (typeof value === 'string') cost += value.length >>> 8;
    else if (Array.isArray(value)) cost += value.length >>> 2;
    else if (stepsPerMember > 0 && typeof value === 'object' && value !== null) {
      cost += stepsPerMember * Object.keys(value).length;
    }
    this.#budget.spend(cost);
    if (problems === null) return;
    if (isCertain && problems.length > MAX_CERTAIN_PROBLEMS) throw new EnoughProblems(problems);
    if (problems.length > MAX_PROBLEMS_HELD) throw new BudgetSpent();
  }

  /** @returns the pattern's number, or `null` for one that is never run */
  add(source: string): number | null {
    const pattern = readPattern(source);
    return pattern === null ? null : this.#patterns.push(pattern) - 1;
  }

  matches(index: number, text: string): boolean {
    const pattern = this.#patterns[index]!;
    return !this.#budget.affords(pattern.worstCase(text.length)) || pattern.test(text);
  }

  isUnique(items: readonly unknown[]): boolean {
    return hasUniqueItems(items, this.#budget);
  }
}

function keywordsFor(
  runtime: Runtime,
  code: typeof codeTemplate,
): [CodeKeywordDefinition, ...CodeKeywordDefinition[]] {
  const runtimeIn = (cxt: KeywordCxt) => cxt.gen.scopeValue('obj', { ref: runtime });
  return [
    {
      keyword: PRICE_KEYWORD,
      code(cxt: KeywordCxt) {
        const { steps, stepsPerMember, isCertain } = cxt.schema as Price;
        // `vErrors` is what the code around gathers problems in, null while there are none.
        cxt.gen.code(
          code`${runtimeIn(cxt)}.enter(${steps}, ${stepsPerMember}, ${isCertain}, ${cxt.data}, vErrors)`,
        );
      },
    },
    {
      keyword: 'pattern',
      type: 'string',
      schemaType: 'string',
      code(cxt: KeywordCxt) {
        const index = runtime.add(cxt.schema as string);
        if (index !== null) cxt.fail(code`!${runtimeIn(cxt)}.matches(${index}, ${cxt.data})`);
      },
    },
    {
      keyword: 'uniqueItems',
      type: 'array',
      schemaType: 'boolean',
      code(cxt: KeywordCxt) {
        if (cxt.schema === true) cxt.fail(code`!${runtimeIn(cxt)}.isUnique(${cxt.data})`);
      },
    },
  ];
}

export interface CompiledSchema {
  /**
   * All problems of a value, or the first hundred; none if it fits.
   *
   * @throws {@link BudgetSpent}, or RangeError for endless recursion
   */
  problemsOf(value: unknown): readonly AjvProblem[];
}

export interface SchemaEngine {
  /** @throws any Error if the schema cannot be compiled */
  compile(schema: Record<string, unknown>, dialect: SchemaDialect): CompiledSchema;
}

/** Loads the compiler. All dialects come with one import: they share nearly all of their code. */
export async function loadSchemaEngine(): Promise<SchemaEngine> {
  const [newest, previous, draft7, formats] = await Promise.all([
    import('ajv/dist/2020.js'),
    import('ajv/dist/2019.js'),
    import('ajv'),
    import('ajv-formats/dist/formats.js'),
  ]);
  const { _: code } = newest;
  const budget = new Budget();
  const boundedFormats = Object.fromEntries(
    Object.entries(formats.fastFormats).map(([name, format]) => [
      name,
      boundFormat(format as Format, budget),
    ]),
  );
  const regExp = Object.assign(memberPattern, { code: 'new RegExp' });

  const make = (dialect: SchemaDialect): Ajv => {
    const options: Options = {
      strict: false,
      // Keywords are checked one by one when they are compiled; a meta-schema would refuse what the field sends.
      validateSchema: false,
      meta: false,
      // A format that is not known is ignored, without a word on the console.
      logger: false,
      // A property named `constructor` is there only if it is the object's own.
      ownProperties: true,
      // A definition used a thousand times is compiled once.
      inlineRefs: false,
      // All problems help a model most; the code is flat, too, where the other kind nests a block a property.
      allErrors: true,
      verbose: true,
      formats: boundedFormats,
      // Optimizing takes longer than compiling, more than linearly.
      code: { regExp, optimize: false },
    };
    const ajv = (
      dialect === '2020-12'
        ? new newest.Ajv2020(options)
        : dialect === '2019-09'
          ? new previous.Ajv2019(options)
          : new draft7.Ajv(options)
    ) as Ajv;
    ajv.removeKeyword('pattern').removeKeyword('uniqueItems');
    // Paid before anything below the subschema is entered.
    const first = ajv.RULES.rules.find((group) => group.type === undefined)?.rules[0]?.keyword;
    const [price, ...others] = keywordsFor(new Runtime(budget), code);
    ajv.addKeyword(first === undefined ? price : { ...price, before: first });
    for (const keyword of others) ajv.addKeyword(keyword);
    return ajv;
  };

  /** The expression of a `patternProperties` key: it decides which schema a member gets, so it cannot be skipped. */
  function memberPattern(source: string) {
    const pattern = readPattern(source);
    if (pattern === null) throw new UnusableSchema('a pattern of "patternProperties" is not safe to run');
    return {
      test(name: string) {
        if (!budget.affords(pattern.worstCase(name.length))) throw new BudgetSpent();
        return pattern.test(name);
      },
      // The compiler tells expressions apart by their text.
      toString: () => source,
    };
  }

  return {
    compile(schema, dialect) {
      const fits = make(dialect).compile(schema);
      return {
        problemsOf(value) {
          budget.reset();
          try {
            return fits(value) ? NO_PROBLEMS : (fits.errors ?? NO_PROBLEMS);
          } catch (error) {
            if (error instanceof EnoughProblems) return error.problems;
            throw error;
          } finally {
            // They hold the value.
            fits.errors = null;
          }
        },
      };
    },
  };
}

const NO_PROBLEMS: readonly AjvProblem[] = [];

/** Formats are reckoned as quadratic, which the slowest of them are. Those of numbers take no time. */
function boundFormat(format: Format, budget: Budget): Format {
  if (typeof format === 'boolean' || typeof format === 'string') return format;
  const isObject = typeof format === 'object' && !(format instanceof RegExp);
  if (isObject && format.type === 'number') return format;
  const check = (isObject ? format.validate : format) as RegExp | string | ((text: string) => boolean);
  const test = typeof check === 'function' ? check : (text: string) => new RegExp(check).test(text);
  return (text: string) => !budget.affords((text.length * text.length) / 4) || test(text);
}

/** Linear in the size of the list; the compiler's own compares each with each. */
function hasUniqueItems(items: readonly unknown[], budget: Budget): boolean {
  const scalars = new Set<unknown>();
  const others = new Set<string>();
  for (const item of items) {
    const isScalar = typeof item !== 'object' || item === null;
    const text = isScalar ? '' : canonical(item);
    budget.spend(1 + (text.length >>> 6));
    if (isScalar ? scalars.has(item) : others.has(text)) return false;
    if (isScalar) scalars.add(item);
    else others.add(text);
  }
  return true;
}

/** Equal for equal JSON values, whatever the order of their members. */
function canonical(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'undefined';
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`;
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${members.map(([name, member]) => `${JSON.stringify(name)}:${canonical(member)}`).join()}}`;
}
