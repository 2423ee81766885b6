// Real servers that ask: the reference server of the legacy era, and the official server packages of both.

import { afterEach, describe, expect, it, vi } from 'vitest';
import type { InputHandlers } from '../../src/calls/inputHandlers.js';
import type { CallOutcome } from '../../src/calls/outcome.js';
import type { PeerConfig } from '../../src/host/config.js';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import {
  example,
  packageFile,
  type ServerProcess,
  startEverything,
  startExample,
} from '../support/serverProcess.js';

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

/** Generous: no test here is about a deadline. */
const PATIENT = {
  probeTimeoutMs: 60_000,
  legacyProbeTimeoutMs: 60_000,
  listTimeoutMs: 60_000,
  startTimeoutMs: 100_000,
  callTimeoutMs: 100_000,
  maxAttempts: 0,
};

const hosts: Host[] = [];
const servers: ServerProcess[] = [];

afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
  await Promise.all(servers.splice(0).map((server) => server.kill()));
});

async function started(config: PeerConfig, handlers: InputHandlers): Promise<Host> {
  const host = createHost({ ...PATIENT, handlers, peers: { it: config } });
  hosts.push(host);
  await host.start();
  return host;
}

async function httpServer(server: Promise<ServerProcess>): Promise<string> {
  const running = await server;
  servers.push(running);
  return running.url;
}

function textOf(outcome: CallOutcome): string {
  if (outcome.status !== 'ok') throw new Error(`${outcome.status}: ${JSON.stringify(outcome)}`);
  return outcome.result.content.map((block) => String(block['text'])).join('\n');
}

/** A user who takes what is proposed, and is called Ada. */
function willing() {
  const asked: string[] = [];
  const handlers: InputHandlers = {
    elicitForm: ({ message, requestedSchema }, { era }) => {
      asked.push(`${era} form: ${message}`);
      const content: Record<string, string | number | boolean | string[]> = { name: 'Ada' };
      for (const [name, field] of Object.entries(
        requestedSchema['properties'] as Record<string, JsonObject>,
      )) {
        if (field['default'] !== undefined) content[name] = field['default'] as string;
      }
      return { action: 'accept', content };
    },
    elicitUrl: ({ url }, { era }) => {
      asked.push(`${era} page: ${url}`);
      return { action: 'accept' };
    },
    sample: (params, { era }) => {
      asked.push(`${era} sample: ${params['maxTokens']}`);
      return { role: 'assistant', content: { type: 'text', text: 'In the attic:' }, model: 'm-1' };
    },
    listRoots: ({ era }) => {
      asked.push(`${era} roots`);
      return [{ uri: 'file:///attic', name: 'attic' }];
    },
  };
  return { asked, handlers };
}

const EVERYTHING = packageFile('@modelcontextprotocol/server-everything', 'dist/index.js');
const ASKING_TOOLS = [
  'get-roots-list',
  'trigger-elicitation-request',
  'trigger-sampling-request',
  'trigger-url-elicitation',
];

const everything = {
  stdio: async (): Promise<PeerConfig> => ({
    command: process.execPath,
    args: [EVERYTHING, 'stdio'],
    allowLegacy: true,
  }),
  'Streamable HTTP': async (): Promise<PeerConfig> => ({
    url: await httpServer(startEverything()),
    allowLegacy: true,
  }),
};

describe.each(Object.entries(everything))('server-everything over %s', (_, reach) => {
  it('offers only what it can ask for', async () => {
    const tools = async (handlers: InputHandlers) => {
      const host = await started(await reach(), handlers);
      return ASKING_TOOLS.filter((name) => host.catalog().entries.has(name));
    };
    const { elicitForm, elicitUrl, sample, listRoots } = willing().handlers as Required<InputHandlers>;
    expect(await tools({})).toEqual([]);
    expect(await tools({ elicitUrl })).toEqual(['trigger-elicitation-request', 'trigger-url-elicitation']);
    expect(await tools({ elicitForm, sample, listRoots })).toEqual(ASKING_TOOLS.slice(0, 3));
  });

  it('is answered: a form with defaults, a page, a sample', async () => {
    const { asked, handlers } = willing();
    const host = await started(await reach(), handlers);
    const filled = textOf(await host.call('trigger-elicitation-request'));
    expect(filled).toContain('User provided the requested information');
    expect(filled).toContain('- Name: Ada');
    expect(filled).toContain('- Favorite Integer: 42');
    expect(filled).toContain('"firstLine": "It was a dark and stormy night."');
    expect(filled).toContain('"hero-1"');
    const page = { url: 'https://example.com/a?b=c', message: 'Look', elicitationId: 'e-1' };
    expect(textOf(await host.call('trigger-url-elicitation', page))).toMatch(/accept|completed|opened/i);
    expect(textOf(await host.call('trigger-sampling-request', { prompt: 'Hi', maxTokens: 7 }))).toContain(
      'In the attic:',
    );
    const { answers, others } = split(asked);
    expect(answers).toEqual([
      'legacy form: Please provide inputs for the following fields:',
      'legacy page: https://example.com/a?b=c',
      'legacy sample: 7',
    ]);
    // It asks for the roots by itself, if it finds a way to.
    expect(others.every((one) => one === 'legacy roots')).toBe(true);
  });

  it('hears a no, and that somebody went away', async () => {
    const { handlers } = willing();
    for (const [action, says] of [
      ['decline', 'User declined'],
      ['cancel', 'cancelled'],
    ] as const) {
      const host = await started(await reach(), { ...handlers, elicitForm: () => ({ action }) });
      expect(textOf(await host.call('trigger-elicitation-request'))).toContain(says);
    }
  });

  it('that wants a page visited first says so by an error, with the page in its data', async () => {
    const host = await started(await reach(), willing().handlers);
    const outcome = await host.call('trigger-url-elicitation', {
      url: 'https://example.com',
      errorPath: true,
    });
    expect(outcome).toMatchObject({
      status: 'protocol-error',
      delivery: 'answered',
      error: {
        code: -32042,
        data: { elicitations: [{ mode: 'url', url: 'https://modelcontextprotocol.io' }] },
      },
    });
  });

  // Over HTTP it asks for them on a stream of its own (GET), not on that of the call.
  it('gets the roots', async () => {
    const host = await started(await reach(), willing().handlers);
    expect(textOf(await host.call('get-roots-list'))).toContain('URI: file:///attic');
  });
});

function split(asked: readonly string[]) {
  const isOwn = (one: string): boolean => one.endsWith('roots');
  return { answers: asked.filter((one) => !isOwn(one)), others: asked.filter(isOwn) };
}

const askingModern = {
  stdio: async (): Promise<PeerConfig> => ({
    command: process.execPath,
    args: [example('asking-modern.mjs')],
  }),
  'Streamable HTTP': async (): Promise<PeerConfig> => ({
    url: await httpServer(startExample('asking-modern.mjs', ['--http'])),
  }),
};

describe.each(Object.entries(askingModern))('the 2.x server package over %s', (_, reach) => {
  it('gets its rounds: tools, prompts and resources, with a signed state between', async () => {
    const { asked, handlers } = willing();
    const host = await started(await reach(), handlers);
    expect(host.peer('it').report()).toMatchObject({ state: 'modern', initializeSent: 0 });

    const order = await host.call('order', { thing: 'lamp' });
    expect(textOf(order)).toBe('lamp for Ada, by mail');
    expect(order).toMatchObject({ attempts: 3, delivery: 'answered' });

    const brief = await host.call('brief');
    expect(textOf(brief)).toBe('In the attic: file:///attic');
    expect(brief).toMatchObject({ attempts: 2 });

    const letter = await host.getPrompt('it', 'letter');
    expect(letter).toMatchObject({
      status: 'ok',
      attempts: 2,
      value: { messages: [{ content: { text: 'Write a letter to Ada.' } }] },
    });
    const diary = await host.readResource('it', 'diary://today');
    expect(diary).toMatchObject({
      status: 'ok',
      attempts: 2,
      cached: false,
      value: { contents: [{ text: 'Dear Ada, it rained.' }] },
    });
    expect(asked.sort()).toEqual([
      'modern form: To whom?',
      'modern form: Who gets the lamp?',
      'modern form: Who reads it?',
      'modern page: https://example.com/pay?order=1',
      'modern roots',
      'modern sample: 20',
    ]);
  });

  it('hears a no', async () => {
    const { handlers } = willing();
    const host = await started(await reach(), { ...handlers, elicitUrl: () => ({ action: 'decline' }) });
    expect(textOf(await host.call('order', { thing: 'lamp' }))).toBe('not paid: no lamp');
  });

  it('two orders at once are two', async () => {
    const { handlers } = willing();
    const host = await started(await reach(), {
      ...handlers,
      elicitForm: ({ message }) => ({ action: 'accept', content: { name: message, express: true } }),
    });
    const things = ['lamp', 'rug', 'anvil', 'piano'];
    const outcomes = await Promise.all(things.map((thing) => host.call('order', { thing })));
    expect(outcomes.map(textOf)).toEqual(
      things.map((thing) => `${thing} for Who gets the ${thing}?, express`),
    );
    const ids = outcomes.map(({ requestId }) => requestId);
    expect(new Set(ids).size).toBe(things.length);
  });

  it('is refused at once what was not declared to it', async () => {
    const host = await started(await reach(), { listRoots: () => [] });
    for (const [name, args] of [
      ['order', { thing: 'lamp' }],
      ['brief', {}],
    ] as const) {
      expect(await host.call(name, args)).toMatchObject({ status: 'protocol-error', delivery: 'answered' });
    }
  });

  it('hears that the caller went away in the middle of a round only by not hearing from it', async () => {
    const { handlers } = willing();
    const control = new AbortController();
    const signals: AbortSignal[] = [];
    const host = await started(await reach(), {
      ...handlers,
      elicitForm: (_request, { signal }) => {
        signals.push(signal);
        control.abort();
        return new Promise<never>(() => undefined);
      },
    });
    expect(await host.call('order', { thing: 'lamp' }, { signal: control.signal })).toMatchObject({
      status: 'cancelled',
      delivery: 'answered',
      attempts: 1,
    });
    expect(signals.map(({ aborted }) => aborted)).toEqual([true]);
    expect(textOf(await host.call('brief'))).toContain('attic');
  });
});
