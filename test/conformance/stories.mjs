// What the client does in each scenario, and what has to come of it.

import { refusals } from './requirements.mjs';

/** The tool of the authorization scenarios, in the suite's words. */
const PROTECTED_TOOL = 'test-tool';

/** The server is reached and its tools are listed, if only none; what else there is to see, the suite sees. */
const listTools = (session) => session.startCallable();

const callTools = async (session, calls) => {
  await session.startCallable();
  for (const [name, args] of calls) await session.call(name, args);
};

/** Access is granted and used. */
const useWhatIsGranted = (session) => callTools(session, [[PROTECTED_TOOL, {}]]);

/** Something is wrong with the authorization server or its answer, and the client must not go on. */
const refuseToGoOn = async (session) => {
  await session.start();
  if (session.peer.callable) throw new Error('the peer is callable, in spite of all');
  const { state, reason } = session.peer.report();
  if (state !== 'unavailable') throw new Error(`the peer is ${state}`);
  if (reason?.code !== 'unauthorized') throw new Error(`the reason is ${reason?.code}: ${reason?.message}`);
};

/** A value for each required property, as far as the suite's schemas go. */
function argumentsFor({ inputSchema }) {
  const samples = {
    string: 'us-west1',
    integer: 1,
    number: 1,
    boolean: true,
    array: [],
    object: {},
    null: null,
  };
  const properties = Object.entries(inputSchema.properties ?? {});
  return Object.fromEntries(properties.map(([name, { type }]) => [name, samples[type] ?? 'text']));
}

const stories = {
  initialize: listTools,
  'request-metadata': listTools,
  'json-schema-ref-no-deref': listTools,
  tools_call: (session) => callTools(session, [['add_numbers', { a: 5, b: 3 }]]),
  'elicitation-sep1034-client-defaults': (session) =>
    callTools(session, [['test_client_elicitation_defaults', {}]]),
  'sse-retry': (session) => callTools(session, [['test_reconnection', {}]]),
  'sep-2322-client-request-state': (session) =>
    callTools(session, [
      ['test_mrtr_echo_state', {}],
      ['test_mrtr_unrelated', {}],
      ['test_mrtr_no_state', {}],
      ['test_mrtr_no_result_type', {}],
    ]),

  'http-standard-headers': async (session) => {
    const { host, peer } = session;
    await session.startCallable();
    for (const { local } of session.tools()) await session.call(local);
    const { items: resources } = await host.listResources();
    const { items: prompts } = await host.listPrompts();
    if (resources.length === 0 || prompts.length === 0) throw new Error('no resources, or no prompts');
    const read = resources.map(({ uri }) => host.readResource(peer.name, uri));
    const got = prompts.map(({ name }) => host.getPrompt(peer.name, name));
    for (const { status, message } of await Promise.all([...read, ...got]))
      if (status !== 'ok') throw new Error(`${status}: ${message}`);
  },

  // One of the calls has null for an optional boolean, which the tool's own schema forbids: the server is to judge.
  'http-custom-headers': async (session, { toolCalls }) => {
    await session.startCallable();
    for (const { name, arguments: args } of toolCalls)
      await session.call(name, args, { validateArguments: false });
  },

  // Everything in the catalog is called: what may not be called must not be in it.
  'http-invalid-tool-headers': async (session) => {
    await session.startCallable();
    session.tool('valid_tool');
    for (const entry of session.tools()) await session.call(entry.local, argumentsFor(entry));
    const { quarantined } = session.host.catalog();
    const others = quarantined.filter(({ code }) => code !== 'invalid-header-annotation');
    if (quarantined.length === 0 || others.length > 0)
      throw new Error(`quarantined: ${JSON.stringify(quarantined)}`);
  },

  'json-schema-2020-12-preservation': async (session) => {
    await session.startCallable();
    const { inputSchema } = session.tool('json_schema_2020_12_tool');
    await session.call('json_schema_echo', { schema: inputSchema });
  },
};

export function storyOf(scenario) {
  const story = stories[scenario];
  if (story !== undefined) return story;
  if (refusals.includes(scenario)) return refuseToGoOn;
  if (scenario.startsWith('auth/')) return useWhatIsGranted;
  throw new Error(`there is no story for the scenario ${scenario}`);
}
