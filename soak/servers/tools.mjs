// The tools that every soak server offers. Each execution is recorded before it is answered: that record is what the
// harness holds against the outcomes.

const tokenSchema = (more = {}) => ({
  type: 'object',
  properties: { token: { type: 'integer' }, ...more },
  required: ['token'],
});
const executed = {
  type: 'object',
  properties: { token: { type: 'integer' }, peer: { type: 'string' } },
  required: ['token', 'peer'],
};
const elicitation = {
  mode: 'form',
  message: 'Who is there?',
  requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
};
/** What an encoder, a decoder or a normalizer between could spoil. */
const awkward = '"\\ \u2028 ü u\u0308 \u{1f9ed} \t';

const definitions = [
  { name: 'echo', inputSchema: tokenSchema({ text: { type: 'string' } }), outputSchema: executed },
  { name: 'slow', inputSchema: tokenSchema({ ms: { type: 'integer' } }), outputSchema: executed },
  { name: 'fail', inputSchema: tokenSchema() },
  { name: 'refuse', inputSchema: tokenSchema() },
  { name: 'lie', inputSchema: tokenSchema(), outputSchema: executed },
  { name: 'silent', inputSchema: tokenSchema() },
  { name: 'die', inputSchema: tokenSchema({ when: { type: 'string' } }) },
  { name: 'progress', inputSchema: tokenSchema({ ms: { type: 'integer' } }), outputSchema: executed },
  { name: 'ask', inputSchema: tokenSchema(), outputSchema: executed },
  { name: 'again', inputSchema: tokenSchema(), outputSchema: executed },
];

/** The list as it stands at a generation: `extra` comes, goes and changes. */
export function toolsAt(generation) {
  const tools = definitions.map((tool) => ({ ...tool, description: `Soak: ${tool.name}.` }));
  if (generation % 3 === 0) return tools;
  return [...tools, { name: 'extra', description: `Version ${generation}.`, inputSchema: tokenSchema() }];
}

const die = () => process.kill(process.pid, 'SIGKILL');

const handlers = {
  echo: (call) => call.execute(),
  extra: (call) => call.execute(),
  slow: (call, { ms }) => call.exchange.later(ms, () => call.execute()),
  fail(call) {
    call.record();
    call.exchange.result({ content: [{ type: 'text', text: 'it failed' }], isError: true });
  },
  refuse: (call) => call.exchange.error(-32602, 'no'),
  lie(call) {
    call.record();
    call.exchange.result({ content: [], structuredContent: { token: 'none' } });
  },
  silent: (call) => call.record(),
  die(call, { when }) {
    if (when !== 'before') call.record();
    if (when === 'answered') call.answer();
    die();
  },
  progress(call, { ms }) {
    const step = (count) => {
      if (count === 4) return call.execute();
      call.exchange.progress(count, 3);
      call.exchange.later(ms, () => step(count + 1));
    };
    step(1);
  },
  async ask(call, { token }) {
    const { exchange, endpoint } = call;
    if (endpoint.era === 'legacy') {
      const answer = await exchange.ask('elicitation/create', elicitation);
      if (answer === null) return;
      if (answer.error === undefined && answer.result?.action !== 'accept')
        endpoint.fault(`${JSON.stringify(answer)} in answer to elicitation/create`);
      return call.execute();
    }
    if (exchange.capabilities?.elicitation === undefined)
      return exchange.error(-32021, 'elicitation is needed', { requiredCapabilities: { elicitation: {} } });
    const requestState = `${token}${awkward}`;
    const { inputResponses, requestState: echoed } = exchange.params;
    if (inputResponses === undefined)
      return exchange.result({
        resultType: 'input_required',
        inputRequests: { __proto__: null, who: { method: 'elicitation/create', params: elicitation } },
        requestState,
      });
    if (echoed !== requestState) endpoint.fault(`the request state came back as ${JSON.stringify(echoed)}`);
    if (inputResponses.who?.action !== 'accept')
      endpoint.fault(`input responses ${JSON.stringify(inputResponses)}`);
    call.execute();
  },
  again(call, { token }) {
    const { exchange, endpoint } = call;
    if (endpoint.era === 'legacy') return call.execute();
    const states = [undefined, `1 ${token}${awkward}`, `2 ${token}${awkward}`];
    const round = states.indexOf(exchange.params.requestState);
    if (round < 0)
      endpoint.fault(`an unknown request state: ${JSON.stringify(exchange.params.requestState)}`);
    if (round === states.length - 1) return call.execute();
    exchange.result({ resultType: 'input_required', requestState: states[round + 1] });
  },
};

export function callTool(endpoint, exchange) {
  const { name, arguments: args = {} } = exchange.params;
  const handler = Object.hasOwn(handlers, name) ? handlers[name] : undefined;
  if (handler === undefined) return exchange.error(-32602, `no tool ${name}`);
  if (!Number.isInteger(args.token)) return exchange.error(-32602, 'no token');
  const call = {
    endpoint,
    exchange,
    record: () => endpoint.record(args.token),
    answer: () =>
      exchange.result({
        content: [{ type: 'text', text: args.text ?? 'done' }],
        structuredContent: { token: args.token, peer: endpoint.name },
      }),
    execute() {
      call.record();
      call.answer();
    },
  };
  return handler(call, args);
}
