/** Says what is wrong with a value in words that help a model to send a better one. */
import { sanitizeText } from '../protocol/sanitize.js';
import type { AjvProblem } from './schemaEngine.js';

/** Most problems told at once. */
export const MAX_PROBLEMS = 8;

const LONGEST_VALUE = 60;
const LONGEST_NAME = 60;
const LONGEST_PATTERN = 120;
const MOST_NAMES = 20;

/**
 * At most {@link MAX_PROBLEMS} sentences, each with place, what is allowed and what came. All text is sanitized.
 *
 * @param subject what the value is called, e.g. `arguments`
 */
export function describeProblems(problems: readonly AjvProblem[], subject: string): string[] {
  const sentences = new Set<string>();
  const isCovered = (problem: AjvProblem) =>
    SUMMARIES.has(problem.keyword) &&
    problems.some(
      (other) => !SUMMARIES.has(other.keyword) && other.instancePath.startsWith(problem.instancePath),
    );
  for (const problem of mergeTypes(problems)) {
    // That no alternative fits says less than why each of them does not.
    if (isCovered(problem)) continue;
    sentences.add(describe(problem, subject));
    if (sentences.size === MAX_PROBLEMS) break;
  }
  return [...sentences];
}

/** Keywords that fail because others failed. */
const SUMMARIES: ReadonlySet<string> = new Set(['anyOf', 'oneOf', 'if', 'propertyNames']);

/** Alternatives that each want another type are one sentence: "must be string or null". */
function mergeTypes(problems: readonly AjvProblem[]): AjvProblem[] {
  const merged = new Map<string, AjvProblem>();
  const result: AjvProblem[] = [];
  for (const problem of problems) {
    if (problem.keyword !== 'type') {
      result.push(problem);
      continue;
    }
    const first = merged.get(problem.instancePath);
    const types = typesOf(problem);
    if (first === undefined) {
      const copy = { ...problem, params: { type: [...types] } };
      merged.set(problem.instancePath, copy);
      result.push(copy);
    } else {
      const known = first.params['type'] as string[];
      known.push(...types.filter((type) => !known.includes(type)));
    }
  }
  return result;
}

function typesOf(problem: AjvProblem): readonly string[] {
  const type: unknown = problem.params['type'];
  return Array.isArray(type) ? (type as string[]) : String(type).split(',');
}

function describe(problem: AjvProblem, subject: string): string {
  const at = placeOf(problem.instancePath, subject);
  const { params } = problem;
  switch (problem.keyword) {
    case 'required':
      return `${at} lacks the required property ${name(params['missingProperty'])}`;
    case 'dependentRequired':
    case 'dependencies':
      return `${at} has the property ${name(params['property'])} and lacks ${name(params['missingProperty'])}, which must come with it`;
    case 'additionalProperties':
      return `${at} has the unknown property ${name(params['additionalProperty'])}${allowedNames(problem)}`;
    case 'unevaluatedProperties':
      return `${at} has the unknown property ${name(params['unevaluatedProperty'])}`;
    case 'type':
      return `${at} must be ${typesOf(problem).join(' or ')}${got(problem)}`;
    case 'enum':
      return `${at} must be one of ${listOf(params['allowedValues'])}${got(problem)}`;
    case 'const':
      return `${at} must be ${shown(params['allowedValue'])}${got(problem)}`;
    case 'minimum':
    case 'maximum':
    case 'exclusiveMinimum':
    case 'exclusiveMaximum':
      return `${at} must be ${String(params['comparison'])} ${String(params['limit'])}${got(problem)}`;
    case 'multipleOf':
      return `${at} must be a multiple of ${String(params['multipleOf'])}${got(problem)}`;
    case 'minLength':
      return `${at} must have at least ${String(params['limit'])} characters${got(problem)}`;
    case 'maxLength':
      return `${at} must have at most ${String(params['limit'])} characters${got(problem)}`;
    case 'minItems':
      return `${at} must have at least ${String(params['limit'])} items`;
    case 'maxItems':
      return `${at} must have at most ${String(params['limit'])} items`;
    case 'minProperties':
      return `${at} must have at least ${String(params['limit'])} properties`;
    case 'maxProperties':
      return `${at} must have at most ${String(params['limit'])} properties`;
    case 'uniqueItems':
      return `${at} must not have the same item twice`;
    case 'pattern':
      return `${at} must match the pattern ${quoted(String(problem.schema), LONGEST_PATTERN)}${got(problem)}`;
    case 'format':
      return `${at} must have the format ${name(params['format'])}${got(problem)}`;
    case 'anyOf':
      return `${at} fits none of the alternatives${got(problem)}`;
    case 'oneOf':
      return params['passingSchemas'] === null || params['passingSchemas'] === undefined
        ? `${at} fits none of the alternatives${got(problem)}`
        : `${at} fits several alternatives and must fit exactly one${got(problem)}`;
    case 'not':
      return `${at} has a form that is excluded${got(problem)}`;
    case 'false schema':
      return `${at} is not allowed`;
    default:
      return `${at} ${sanitizeText(problem.message ?? 'does not fit', 120)}${got(problem)}`;
  }
}

const IDENTIFIER = /^[A-Za-z_$][\w$-]{0,59}$/;
const INDEX = /^\d{1,9}$/;

/** `arguments.filter.limit`, `arguments.items[3]`, `arguments["a b"]`. */
function placeOf(pointer: string, subject: string): string {
  let place = subject;
  for (const part of pointer.split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (IDENTIFIER.test(key)) place += `.${key}`;
    else if (INDEX.test(key)) place += `[${key}]`;
    else place += `[${quoted(key, LONGEST_NAME)}]`;
  }
  return place.length <= 300 ? place : `${place.slice(0, 299)}…`;
}

function allowedNames(problem: AjvProblem): string {
  const properties: unknown = problem.parentSchema?.['properties'];
  if (typeof properties !== 'object' || properties === null) return '';
  const names = Object.keys(properties);
  if (names.length === 0) return '; no properties are allowed';
  const more = names.length > MOST_NAMES ? `, … (${names.length} in all)` : '';
  return `; allowed: ${names.slice(0, MOST_NAMES).map(name).join(', ')}${more}`;
}

function listOf(values: unknown): string {
  if (!Array.isArray(values)) return 'a fixed set';
  const more = values.length > MOST_NAMES ? `, … (${values.length} in all)` : '';
  return values.slice(0, MOST_NAMES).map(shown).join(', ') + more;
}

/** What came, where the check knows it. Values of objects and lists say too much and explain too little. */
function got(problem: AjvProblem): string {
  const value = problem.data as unknown;
  if (value === undefined) return '';
  if (Array.isArray(value)) return ', got an array';
  if (typeof value === 'object' && value !== null) return ', got an object';
  return `, got ${typeof value === 'object' ? 'null' : `${typeof value} ${shown(value)}`}`;
}

function shown(value: unknown): string {
  if (typeof value === 'string') return quoted(value, LONGEST_VALUE);
  return sanitizeText(JSON.stringify(value) ?? 'undefined', LONGEST_VALUE);
}

function name(value: unknown): string {
  return quoted(String(value), LONGEST_NAME);
}

function quoted(text: string, max: number): string {
  return `"${sanitizeText(text, max)}"`;
}
