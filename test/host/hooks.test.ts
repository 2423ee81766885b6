/** Handlers, policies and stores of a wrong shape are named when the host is made, not missed when they are needed. */
import { afterEach, describe, expect, it } from 'vitest';
import { type CreateHostOptions, createHost } from '../../src/host/createHost.js';
import { ConfigurationError } from '../../src/host/errors.js';
import type { Host } from '../../src/host/facade.js';

const SECRET = 'hunter2-is-the-secret';
const hosts: Host[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

function refused(options: Record<string, unknown>): ConfigurationError {
  let host: Host;
  try {
    host = createHost({ peers: {}, ...options } as unknown as CreateHostOptions);
  } catch (error) {
    expect(error).toBeInstanceOf(ConfigurationError);
    return error as ConfigurationError;
  }
  hosts.push(host);
  throw new Error('these options were taken');
}

function taken(options: Omit<CreateHostOptions, 'peers'>): void {
  hosts.push(createHost({ peers: {}, ...options }));
}

class Prompter {
  readonly secret = SECRET;
  elicitForm() {
    return { action: 'cancel' };
  }
}

const fn = () => ({}) as never;

describe('wrong hooks', () => {
  it.each<[option: string, given: unknown, path: string, came: string, allowed: RegExp]>([
    ['handlers', null, 'handlers', 'null', /plain object/],
    ['handlers', 5, 'handlers', 'a number', /plain object/],
    ['handlers', SECRET, 'handlers', 'a string', /plain object/],
    ['handlers', fn, 'handlers', 'a function', /plain object/],
    ['handlers', [], 'handlers', 'an array', /plain object/],
    // Its methods are inherited, and would all be missed.
    ['handlers', new Prompter(), 'handlers', 'an instance of a class', /plain object/],
    [
      'handlers',
      { elicit: fn },
      'handlers.elicit',
      'an unknown key',
      /elicitForm, elicitUrl, sample, listRoots/,
    ],
    ['handlers', { elicitform: fn }, 'handlers.elicitform', 'an unknown key', /elicitForm/],
    ['handlers', { roots: fn, listRoots: fn }, 'handlers.roots', 'an unknown key', /listRoots/],
    ['handlers', { constructor: fn }, 'handlers.constructor', 'an unknown key', /elicitForm/],
    ['handlers', { elicitForm: true }, 'handlers.elicitForm', 'a boolean', /^a function$/],
    ['handlers', { elicitUrl: null }, 'handlers.elicitUrl', 'null', /^a function$/],
    ['handlers', { sample: { secret: SECRET } }, 'handlers.sample', 'an object', /^a function$/],
    ['handlers', { listRoots: [SECRET] }, 'handlers.listRoots', 'an array', /^a function$/],
    ['handlers', { sampling: { tools: true } }, 'handlers.sampling', 'no handler "sample"', /beside/],
    ['handlers', { sample: fn, sampling: true }, 'handlers.sampling', 'a boolean', /plain object/],
    ['handlers', { sample: fn, sampling: null }, 'handlers.sampling', 'null', /plain object/],
    ['handlers', { sample: fn, sampling: [] }, 'handlers.sampling', 'an array', /plain object/],
    [
      'handlers',
      { sample: fn, sampling: { tool: true } },
      'handlers.sampling.tool',
      'an unknown key',
      /tools, context/,
    ],
    [
      'handlers',
      { sample: fn, sampling: { tools: SECRET } },
      'handlers.sampling.tools',
      'a string',
      /true or false/,
    ],
    ['callPolicy', null, 'callPolicy', 'null', /plain object/],
    ['callPolicy', fn, 'callPolicy', 'a function', /plain object/],
    [
      'callPolicy',
      { serialiseBy: fn },
      'callPolicy.serialiseBy',
      'an unknown key',
      /serializeBy, isRepeatable/,
    ],
    ['callPolicy', { isRepeatable: SECRET }, 'callPolicy.isRepeatable', 'a string', /^a function$/],
    ['callPolicy', new Prompter(), 'callPolicy', 'an instance of a class', /plain object/],
    ['store', null, 'store.get', 'nothing', /get, set and delete/],
    ['store', SECRET, 'store.get', 'nothing', /get, set and delete/],
    ['store', { get: fn, set: fn }, 'store.delete', 'nothing', /get, set and delete/],
    [
      'store',
      { get: fn, set: { secret: SECRET }, delete: fn },
      'store.set',
      'an object',
      /get, set and delete/,
    ],
    ['handler', { elicitForm: fn }, 'handler', 'an unknown key', /one of the keys/],
  ])('%s: %o', (option, given, path, came, allowed) => {
    const error = refused({ [option]: given });
    expect({ path: error.path, came: error.came }).toEqual({ path, came });
    expect(error.allowed).toMatch(allowed);
    expect(error.message).toContain(path);
    expect(`${error.message} ${JSON.stringify(error)}`).not.toContain(SECRET);
  });
});

describe('right hooks', () => {
  it('are taken: all, one, none, and absent ones written as undefined', () => {
    const map = new Map<string, string>();
    taken({});
    taken({ handlers: {}, callPolicy: {} });
    taken({ handlers: { listRoots: fn } });
    taken({
      handlers: {
        elicitForm: fn,
        elicitUrl: fn,
        sample: fn,
        listRoots: fn,
        sampling: { tools: true, context: false },
      },
      callPolicy: { serializeBy: fn, isRepeatable: fn },
    });
    taken({ handlers: { elicitForm: undefined, listRoots: fn } as never });
    // A store is called as it is, so its methods may be inherited.
    taken({ store: map as never });
    taken({ handlers: Object.assign(Object.create(null), { listRoots: fn }) });
  });
});
