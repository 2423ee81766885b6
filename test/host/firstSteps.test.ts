/** What somebody meets who uses the package for the first time: wrong paths, misspelt options, calls that come too early. */
import { afterEach, expect, it } from 'vitest';
import type {
  CallFacts,
  CallOutcome,
  CallPolicy,
  CreateHostOptions,
  Host,
  HostStatus,
  Listed,
  ListOptions,
  PromptDefinition,
  RequestOptions,
  RequestOutcome,
  ResourceDefinition,
  ResourceResult,
  ResourceTemplateDefinition,
} from '../../src/index.js';
import { createHost } from '../../src/index.js';
import { modernFake } from './fakes.js';

const hosts: Host[] = [];
afterEach(async () => {
  await Promise.all(hosts.splice(0).map((host) => host.stop()));
});

function hostOf(options: CreateHostOptions): Host {
  const host = createHost(options);
  hosts.push(host);
  return host;
}

it('a process that ends at once is first of all a wrong command, and what it wrote is told', async () => {
  const host = hostOf({ peers: { docs: { command: process.execPath, args: ['no-such-file.mjs'] } } });
  const { peers } = await host.start();
  expect(peers[0]).toMatchObject({
    state: 'unavailable',
    reason: {
      code: 'not-allowlisted',
      message: expect.stringMatching(/^docs ended before it answered .*It last wrote: .*Cannot find module/),
      fix: expect.stringMatching(/^Check the command and its arguments: .*Only if it is a legacy server/),
    },
  });
});

it('a secret that a process repeats when it ends is not in the reason, however long the text is', async () => {
  const secret = 'sk-live-0123456789abcdef';
  const script = `console.error('Error: ' + 'x'.repeat(420) + process.env.API_TOKEN); process.exit(1)`;
  const host = hostOf({
    peers: { docs: { command: process.execPath, args: ['-e', script], env: { API_TOKEN: secret } } },
  });
  const { peers } = await host.start();
  expect(JSON.stringify(peers)).not.toContain('sk-live');
});

it('an unknown option is told with all that createHost knows', () => {
  expect(() => createHost({ peers: {}, hanlders: {} } as never)).toThrow(
    /hanlders.*handlers, callPolicy, store/,
  );
});

it('a call before the start says so, and has no id', async () => {
  const host = hostOf({ peers: { one: modernFake().config } });
  expect(await host.call('search')).toMatchObject({
    status: 'not-found',
    requestId: null,
    message: expect.stringContaining('was not started'),
  });
  expect(await host.listPrompts()).toMatchObject({ problems: [{ message: 'The peer one is idle.' }] });
});

it('a call that was aborted before it was sent has no id', async () => {
  const host = hostOf({ peers: { one: modernFake().config } });
  await host.start();
  const outcome = await host.call('search', {}, { signal: AbortSignal.abort() });
  expect(outcome).toMatchObject({ status: 'cancelled', delivery: 'not-sent', attempts: 0, requestId: null });
});

it('a policy cannot take back what the configuration serializes', async () => {
  const running: number[] = [];
  const fake = modernFake({
    on: ({ id, method }) => {
      if (method !== 'tools/call') return undefined;
      running.push(id as number);
      return null;
    },
  });
  const host = hostOf({
    peers: { one: { ...fake.config, serialize: ['search'] } },
    callPolicy: { serializeBy: ({ args }) => String(args['q']) },
  });
  await host.start();
  const end = new AbortController();
  const calls = ['a', 'b'].map((q) => host.call('search', { q }, { signal: end.signal }));
  await expect.poll(() => running.length).toBe(1);
  expect(host.status()).toMatchObject({ inFlight: 1, queued: 1 });
  end.abort();
  await Promise.all(calls);
});

it('an answer and a failure can be read without telling them apart first', async () => {
  const host = hostOf({ peers: { one: modernFake().config } });
  await host.start();
  const outcome: CallOutcome = await host.call('search', {});
  const shown: unknown = outcome.result?.content ?? outcome.message;
  expect(shown).toHaveLength(1);
});

it('whatever the host takes and gives has a public type', async () => {
  const policy: CallPolicy = { isRepeatable: ({ tool }: CallFacts) => tool === 'search' };
  const host = hostOf({ peers: {}, callPolicy: policy });
  await host.start();
  const options: ListOptions & RequestOptions = {};
  const prompts: Listed<PromptDefinition> = await host.listPrompts(options);
  const resources: Listed<ResourceDefinition> = await host.listResources(options);
  const templates: Listed<ResourceTemplateDefinition> = await host.listResourceTemplates(options);
  const read: RequestOutcome<ResourceResult> = await host.readResource('nobody', 'file:///a', options);
  const status: HostStatus = host.status();
  expect([prompts.items, resources.items, templates.items, status.peers]).toEqual([[], [], [], []]);
  expect(read).toMatchObject({ status: 'not-found', delivery: 'not-sent' });
});
