/** The parts of a host's options that are code: checked for their shape, so that a misspelt handler is not ignored. */
import type { Store } from '../cache/store.js';
import type { InputHandlers } from '../calls/inputHandlers.js';
import type { CallPolicy } from '../calls/policy.js';
import { fail, isPlainObject } from './configChecks.js';

export interface Hooks {
  readonly handlers: InputHandlers;
  readonly callPolicy: CallPolicy;
  readonly store: Store | undefined;
}

type GivenHooks = {
  readonly handlers?: InputHandlers | undefined;
  readonly callPolicy?: CallPolicy | undefined;
  readonly store?: Store | undefined;
};

const HANDLERS = ['elicitForm', 'elicitUrl', 'sample', 'listRoots'] as const;
const POLICIES = ['serializeBy', 'isRepeatable'] as const;

/** @throws {ConfigurationError} */
export function checkHooks({ handlers = {}, callPolicy = {}, store }: GivenHooks): Hooks {
  checkObject(['handlers'], handlers, 'handlers');
  const { sampling, ...functions } = handlers;
  checkFunctions('handlers', functions, HANDLERS, ', sampling');
  if (sampling !== undefined) checkSampling(sampling, handlers.sample !== undefined);
  checkObject(['callPolicy'], callPolicy, 'functions');
  checkFunctions('callPolicy', callPolicy, POLICIES, '');
  if (store !== undefined) checkStore(store);
  return {
    handlers: Object.freeze({
      ...handlers,
      ...(sampling === undefined ? {} : { sampling: { ...sampling } }),
    }),
    callPolicy: Object.freeze({ ...callPolicy }),
    store,
  };
}

/** What an instance of a class inherits would be passed over without a word: only plain objects are taken. */
function checkObject(at: readonly string[], given: unknown, of: string): void {
  if (!isPlainObject(given)) fail(at, whatIs(given), `a plain object of ${of}`);
}

function checkFunctions(at: string, given: object, known: readonly string[], more: string): void {
  for (const [key, value] of Object.entries(given) as [string, unknown][]) {
    if (!known.includes(key)) fail([at, key], 'an unknown key', `one of the keys ${known.join(', ')}${more}`);
    if (value !== undefined && typeof value !== 'function') fail([at, key], whatIs(value), 'a function');
  }
}

function checkSampling(sampling: object, hasHandler: boolean): void {
  const at = ['handlers', 'sampling'];
  checkObject(at, sampling, 'flags');
  for (const [key, value] of Object.entries(sampling)) {
    if (key !== 'tools' && key !== 'context')
      fail([...at, key], 'an unknown key', 'one of the keys tools, context');
    if (value !== undefined && typeof value !== 'boolean') fail([...at, key], whatIs(value), 'true or false');
  }
  if (!hasHandler) fail(at, 'no handler "sample"', 'one beside it');
}

/** Its methods may be inherited: stores are called as they are. */
function checkStore(store: Store | null): void {
  for (const method of ['get', 'set', 'delete'] as const) {
    const value: unknown = store?.[method];
    if (typeof value !== 'function')
      fail(['store', method], whatIs(value), 'get, set and delete as functions');
  }
}

/** Never the value: it may be a secret. */
function whatIs(value: unknown): string {
  if (value === undefined) return 'nothing';
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  if (typeof value !== 'object') return `a ${typeof value}`;
  return isPlainObject(value) ? 'an object' : 'an instance of a class';
}
