// One MCP server, either era, without a transport: stdio.mjs and http.mjs feed it. It checks what a client must do,
// and writes down what a client did wrong.

import { appendFileSync } from 'node:fs';
import { createRandom } from '../random.mjs';
import { Exchange, MODERN } from './exchange.mjs';
import { readList } from './lists.mjs';
import { callTool, toolsAt } from './tools.mjs';

const LEGACY = ['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'];
/** Answers to a request of this server's own are due within this. */
const ANSWER_TIMEOUT_MS = 15_000;

export class Endpoint {
  constructor({ name, era, dir }) {
    this.name = name;
    this.era = era;
    this.generation = 0;
    this.connections = new Set();
    this.next = undefined;
    this.effects = `${dir}/${name}.effects`;
    this.faults = `${dir}/faults`;
  }

  /** Announces changes, asks the client, and babbles, now and then. */
  begin(seed) {
    this.random = createRandom(seed);
    const soon = () => {
      const waitMs = this.random.between(1_000, 6_000);
      this.next = setTimeout(() => {
        for (const connection of [...this.connections]) connection.stir(this.random);
        soon();
      }, waitMs);
    };
    soon();
  }

  /** Does nothing by itself any more; tells at which generation its tools have come to rest. */
  rest() {
    clearTimeout(this.next);
    return this.generation;
  }

  /** One line an execution, whole and at once, before anything is answered. */
  record(token) {
    appendFileSync(this.effects, `${token}\n`);
  }

  fault(what) {
    appendFileSync(this.faults, `${this.name}: ${what}\n`);
  }

  /** `push(message)` sends what belongs to no request; it returns false where there is no way. */
  connect(push) {
    const connection = new Connection(this, push);
    this.connections.add(connection);
    return connection;
  }

  get capabilities() {
    return {
      tools: { listChanged: true },
      prompts: { listChanged: true },
      resources: { listChanged: true, subscribe: true },
      completions: {},
    };
  }
}

class Connection {
  constructor(endpoint, push) {
    this.endpoint = endpoint;
    this.push = push;
    this.exchanges = new Map();
    this.listens = new Map();
    this.asked = new Map();
    this.excused = new Set();
    this.subscribed = new Set();
    this.state = 'new';
    this.clientCapabilities = null;
    this.lastAsked = 0;
  }

  /** `reply` is where messages about this request go: `send(message)`, `end(message)`, `drop()`. */
  receive(message, reply) {
    if (typeof message !== 'object' || message === null || message.jsonrpc !== '2.0')
      return this.endpoint.fault(`no message: ${JSON.stringify(message)}`);
    if (message.method === undefined) return this.answered(message);
    if (message.id === undefined) return this.notified(message);
    if (!Number.isSafeInteger(message.id)) this.endpoint.fault(`id ${JSON.stringify(message.id)}`);
    if (this.exchanges.has(message.id)) this.endpoint.fault(`id ${message.id} is in flight already`);
    const exchange = new Exchange(this, message, reply);
    this.exchanges.set(message.id, exchange);
    const handler = this.endpoint.era === 'modern' ? this.modern(exchange) : this.legacy(exchange);
    Promise.resolve(handler).catch((error) => this.endpoint.fault(`crashed: ${error.stack}`));
  }

  modern(exchange) {
    const { method, params } = exchange;
    const meta = params._meta ?? {};
    if (method === 'initialize') {
      this.endpoint.fault('initialize to a modern server');
      return exchange.error(-32022, 'modern only', {
        supported: [MODERN],
        requested: params.protocolVersion,
      });
    }
    if (meta['io.modelcontextprotocol/protocolVersion'] !== MODERN)
      this.endpoint.fault(`${method} with revision ${meta['io.modelcontextprotocol/protocolVersion']}`);
    if (typeof meta['io.modelcontextprotocol/clientInfo']?.name !== 'string')
      this.endpoint.fault(`${method} without client info`);
    exchange.capabilities = meta['io.modelcontextprotocol/clientCapabilities'];
    if (typeof exchange.capabilities !== 'object') this.endpoint.fault(`${method} without capabilities`);
    if (method === 'server/discover') {
      return exchange.result({
        supportedVersions: [MODERN],
        capabilities: this.endpoint.capabilities,
        ttlMs: 0,
        cacheScope: 'private',
        _meta: { 'io.modelcontextprotocol/serverInfo': { name: this.endpoint.name, version: '1.0.0' } },
      });
    }
    if (method === 'subscriptions/listen') return this.listen(exchange);
    return this.both(exchange);
  }

  legacy(exchange) {
    const { method, params } = exchange;
    if (method === 'server/discover') {
      if (this.state !== 'new') this.endpoint.fault('a probe after initialize');
      return exchange.error(-32601, 'Method not found');
    }
    if (params._meta?.['io.modelcontextprotocol/protocolVersion'] !== undefined)
      this.endpoint.fault(`modern _meta on ${method}`);
    if (method === 'initialize') {
      if (this.state !== 'new') this.endpoint.fault('initialize twice');
      this.state = 'initializing';
      this.clientCapabilities = params.capabilities;
      const known = LEGACY.includes(params.protocolVersion);
      return exchange.result({
        protocolVersion: known ? params.protocolVersion : LEGACY.at(-1),
        capabilities: this.endpoint.capabilities,
        serverInfo: { name: this.endpoint.name, version: '1.0.0' },
      });
    }
    if (method === 'ping') return exchange.result({});
    if (this.state !== 'ready') this.endpoint.fault(`${method} while ${this.state}`);
    if (method === 'resources/subscribe') {
      this.subscribed.add(params.uri);
      return exchange.result({});
    }
    if (method === 'resources/unsubscribe') {
      this.subscribed.delete(params.uri);
      return exchange.result({});
    }
    return this.both(exchange);
  }

  both(exchange) {
    if (exchange.method === 'tools/call') return callTool(this.endpoint, exchange);
    if (exchange.method === 'tools/list')
      return readList(exchange, { tools: toolsAt(this.endpoint.generation) });
    return readList(exchange, undefined, this.endpoint);
  }

  notified({ method, params }) {
    if (method === 'notifications/initialized') {
      if (this.state !== 'initializing') this.endpoint.fault(`initialized while ${this.state}`);
      this.state = 'ready';
    } else if (method === 'notifications/cancelled') this.exchanges.get(params.requestId)?.cancel();
  }

  /** An answer of the client to a request of ours. */
  answered(message) {
    if (this.endpoint.era === 'modern') return this.endpoint.fault('a response of a modern client');
    if (this.excused.delete(message.id)) return;
    if (!this.asked.has(message.id)) return this.endpoint.fault(`an answer to ${JSON.stringify(message.id)}`);
    this.settle(message.id, message);
  }

  settle(id, message) {
    const { resolve, timer } = this.asked.get(id);
    this.asked.delete(id);
    clearTimeout(timer);
    resolve(message);
  }

  /** Resolves with the answer, or with null when nobody waits for it any more. */
  ask(method, params, send) {
    this.lastAsked += 1;
    const id = `s${this.lastAsked}`;
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.endpoint.fault(`no answer to ${method}`);
        this.settle(id, null);
      }, ANSWER_TIMEOUT_MS);
      this.asked.set(id, { resolve, timer });
      if (send({ jsonrpc: '2.0', id, method, ...(params && { params }) }) === false) this.settle(id, null);
    });
  }

  /** An answer cannot be expected any more: the way of the question is gone. A late one is no fault. */
  unask(id) {
    if (!this.asked.has(id)) return;
    this.settle(id, null);
    this.excused.add(id);
  }

  unaskAll() {
    for (const id of [...this.asked.keys()]) this.unask(id);
  }

  listen(exchange) {
    const asked = exchange.params.notifications ?? {};
    const _meta = { 'io.modelcontextprotocol/subscriptionId': exchange.id };
    exchange.notify('notifications/subscriptions/acknowledged', { _meta, notifications: asked });
    this.listens.set(exchange.id, { exchange, asked, _meta });
    exchange.onOver = () => this.listens.delete(exchange.id);
  }

  /** Tells of a change: on each subscription that asked for it, or to the legacy client. */
  announce(method, isAsked, params) {
    if (this.endpoint.era === 'legacy') {
      if (this.state === 'ready') this.push({ jsonrpc: '2.0', method, ...(params && { params }) });
      return;
    }
    for (const { exchange, asked, _meta } of this.listens.values())
      if (isAsked(asked)) exchange.notify(method, { ...params, _meta });
  }

  /** Something of its own: what, chance decides. */
  stir(random) {
    const { endpoint } = this;
    if (endpoint.era === 'legacy' && this.state !== 'ready') return;
    const isLegacy = endpoint.era === 'legacy';
    const [listen] = this.listens.values();
    const acts = {
      tools: () => {
        endpoint.generation += 1;
        const storm = random.chance(0.2) ? 20 : 1;
        for (let i = 0; i < storm; i += 1)
          this.announce('notifications/tools/list_changed', (asked) => asked.toolsListChanged);
      },
      prompts: () => this.announce('notifications/prompts/list_changed', (asked) => asked.promptsListChanged),
      resources: () =>
        this.announce('notifications/resources/list_changed', (asked) => asked.resourcesListChanged),
      updated: () => {
        const uri = `soak://${endpoint.name}/one`;
        if (isLegacy && !this.subscribed.has(uri)) return;
        const isAsked = (asked) => asked.resourceSubscriptions?.includes(uri);
        this.announce('notifications/resources/updated', isAsked, { uri });
      },
      // A modern server that asks by itself is wrong; it gets no answer.
      ask: async () => {
        if (!isLegacy) return this.push({ jsonrpc: '2.0', id: 's0', method: 'ping' });
        const method = random.pick(['ping', 'roots/list', 'no/such']);
        const answer = await this.ask(method, undefined, this.push);
        const isRight = method === 'ping' ? answer?.result : method === 'no/such' ? answer?.error : answer;
        if (answer !== null && isRight === undefined) endpoint.fault(`${method}: ${JSON.stringify(answer)}`);
      },
      foreign: () => this.push({ jsonrpc: '2.0', id: 4_000_000_000_000_000, result: {} }),
      babble: () =>
        this.push({
          jsonrpc: '2.0',
          method: 'notifications/progress',
          params: { progressToken: 'nobody', progress: 1 },
        }),
      // A subscription ends in good order, or in none.
      end: () => listen?.exchange.result({ _meta: listen._meta }),
      break: () => {
        if (listen === undefined) return;
        this.push({
          jsonrpc: '2.0',
          method: 'notifications/cancelled',
          params: { requestId: listen.exchange.id },
        });
        listen.exchange.cancel();
      },
    };
    acts[random.pick(Object.keys(acts))]();
  }

  close() {
    for (const exchange of [...this.exchanges.values()]) exchange.cancel();
    this.unaskAll();
    this.endpoint.connections.delete(this);
  }
}
