/** The parts of a host's options that are code: checked for their shape, so that a misspelt handler is not ignored. */
import type { Store } from '../cache/store.js';
import type { InputHandlers } from '../calls/inputHandlers.js';
import type { CallPolicy } from '../calls/policy.js';
import { fail } from './configChecks.js';

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
  const { sampling, ...functions } = handlers;
  checkFunctions('handlers', functions, HANDLERS, ', and sampling');
  if (sampling !== undefined) {
    if (typeof sampling !== 'object' || sampling === null)
      fail(['handlers', 'sampling'], 'no object', 'an object');
    for (const [key, value] of Object.entries(sampling)) {
      if (key !== 'tools' && key !== 'context')
        fail(['handlers', 'sampling', key], 'an unknown key', 'tools, context');
      if (value !== undefined && typeof value !== 'boolean') {
        fail(['handlers', 'sampling', key], `a ${typeof value}`, 'true or false');
      }
    }
    if (handlers.sample === undefined) fail(['handlers', 'sampling'], 'no handler "sample"', 'one beside it');
  }
  checkFunctions('callPolicy', callPolicy, POLICIES, '');
  if (store !== undefined) {
    for (const method of ['get', 'set', 'delete'] as const) {
      if (typeof store?.[method] !== 'function')
        fail(['store', method], 'no function', 'get, set and delete');
    }
  }
  return { handlers: Object.freeze({ ...handlers }), callPolicy: Object.freeze({ ...callPolicy }), store };
}

function checkFunctions(at: string, given: object, known: readonly string[], more: string): void {
  if (typeof given !== 'object' || given === null) fail([at], 'no object', 'an object of functions');
  for (const [key, value] of Object.entries(given) as [string, unknown][]) {
    if (!known.includes(key)) fail([at, key], 'an unknown key', `${known.join(', ')}${more}`);
    if (value !== undefined && typeof value !== 'function')
      fail([at, key], `a ${typeof value}`, 'a function');
  }
}
