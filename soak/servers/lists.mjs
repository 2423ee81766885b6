// What a soak server has besides tools: lists in pages, prompts, resources, completions.

const PAGE = 4;
const page = (items, cursor = '0') => {
  const start = Number(cursor);
  const nextCursor = start + PAGE < items.length ? String(start + PAGE) : undefined;
  return { items: items.slice(start, start + PAGE), nextCursor };
};

const offers = (name) => ({
  'prompts/list': {
    prompts: [{ name: 'greet', description: 'Greets.', arguments: [{ name: 'whom', required: true }] }],
  },
  'resources/list': {
    resources: ['one', 'two', 'three', 'four', 'five'].map((each) => ({
      uri: `soak://${name}/${each}`,
      name: each,
    })),
  },
  'resources/templates/list': { resourceTemplates: [{ uriTemplate: `soak://${name}/{which}`, name: 'any' }] },
});

/** Answers a list of its own kind (`{tools}`), or whatever else the request asks for. */
export function readList(exchange, given, endpoint) {
  const { method, params } = exchange;
  const hints = exchange.isModern
    ? { ttlMs: 2_000, cacheScope: exchange.id % 2 === 0 ? 'private' : 'public' }
    : {};
  const list = given ?? offers(endpoint.name)[method];
  if (list !== undefined) {
    const [[kind, all]] = Object.entries(list);
    const { items, nextCursor } = page(all, params.cursor);
    // All pages of one list have one scope.
    if (hints.cacheScope !== undefined) hints.cacheScope = 'private';
    return exchange.result({ [kind]: items, ...(nextCursor && { nextCursor }), ...hints });
  }
  switch (method) {
    case 'prompts/get':
      return exchange.result({
        messages: [{ role: 'user', content: { type: 'text', text: `Greet ${params.arguments?.whom}.` } }],
      });
    case 'resources/read':
      return exchange.result({
        contents: [{ uri: params.uri, text: `${endpoint.name} ${params.uri}` }],
        ...hints,
      });
    case 'completion/complete':
      return exchange.result({ completion: { values: [`${params.argument?.value}!`], hasMore: false } });
    default:
      endpoint.fault(`method ${method}`);
      return exchange.error(-32601, 'Method not found');
  }
}
