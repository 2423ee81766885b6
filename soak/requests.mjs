// What callers do besides calling tools: prompts, resources, completions, lists, subscriptions; and operators: looking,
// retrying, taking peers out and putting them in again.

import { weighted } from './random.mjs';

const pickRequest = weighted({
  read: 40,
  prompt: 20,
  complete: 10,
  prompts: 5,
  resources: 5,
  templates: 2,
  watch: 4,
});
const RESOURCES = ['one', 'two', 'three', 'four', 'five'];
/** Items of each list. */
const LISTED = { prompts: 1, resources: RESOURCES.length, templates: 1 };
const TICK_MS = 20;
const TIMEOUT_MS = 4_000;
/** How late an outcome may be: the machine is busy, and so are its neighbours. */
const MARGIN_MS = 5_000;
/** Lists have no deadline of a caller: a walk has 8 s, and may be torn three times by changes. */
const LISTING_MS = 24_000;

export class Requests {
  begun = 0;
  settled = 0;
  outcomes = new Map();
  #host;
  #peers;
  #accounts;
  #random;
  #timer = null;
  #watches = new Map();

  constructor({ host, peers, accounts, random }) {
    this.#host = host;
    this.#peers = peers;
    this.#accounts = accounts;
    this.#random = random;
  }

  get inFlight() {
    return this.begun - this.settled;
  }

  start(rate) {
    const startedAt = performance.now();
    let begun = 0;
    this.#timer = setInterval(() => {
      const due = ((performance.now() - startedAt) * rate) / 1_000;
      for (; begun < due; begun += 1) this.#any();
    }, TICK_MS);
  }

  stop() {
    clearInterval(this.#timer);
    for (const end of this.#watches.values()) end();
    this.#watches.clear();
  }

  async #any() {
    const random = this.#random;
    const peer = random.pick(this.#peers).name;
    const kind = pickRequest(random);
    const uri = `soak://${peer}/${random.pick(RESOURCES)}`;
    const options = { timeoutMs: random.chance(0.05) ? random.between(1, 50) : TIMEOUT_MS };
    if (random.chance(0.03)) options.signal = AbortSignal.timeout(random.between(1, 100));
    if (kind === 'watch') return this.#watch(peer);
    this.begun += 1;
    const tookMs = this.#accounts.startWatch();
    try {
      this.#judge(kind, peer, uri, await this.#send(kind, peer, uri, options));
    } catch (error) {
      // Peers are taken out now and then.
      if (error?.name !== 'UnknownPeerError')
        this.#accounts.problem(`${kind} threw`, `${peer}: ${error?.stack}`);
    }
    this.settled += 1;
    const limitMs = kind in LISTED ? LISTING_MS : options.timeoutMs;
    if (tookMs() > limitMs + MARGIN_MS)
      this.#accounts.problem(
        'requests later than their deadline',
        `${kind} ${peer}: ${Math.round(tookMs())} ms`,
      );
  }

  #send(kind, peer, uri, options) {
    const host = this.#host;
    switch (kind) {
      case 'read':
        return host.readResource(peer, uri, options);
      case 'prompt':
        return host.getPrompt(peer, 'greet', { whom: uri }, options);
      case 'complete': {
        const argument = { name: 'whom', value: uri };
        return host.complete(peer, { ref: { type: 'ref/prompt', name: 'greet' }, argument }, options);
      }
      case 'prompts':
        return host.listPrompts({ peer });
      case 'resources':
        return host.listResources({ peer });
      default:
        return host.listResourceTemplates({ peer });
    }
  }

  #judge(kind, peer, uri, outcome) {
    const wrong = (why) =>
      this.#accounts.problem(
        'wrong answers to requests',
        `${kind} ${peer}: ${why}: ${JSON.stringify(outcome).slice(0, 300)}`,
      );
    if (outcome.items !== undefined) {
      this.#count(kind, outcome.problems.length > 0 ? 'problem' : 'ok');
      if (outcome.items.length !== LISTED[kind] && outcome.problems.length === 0)
        wrong('a list that is not whole');
      return;
    }
    this.#count(kind, `${outcome.status}${outcome.cached ? ' (cached)' : ''}`);
    if (outcome.status !== 'ok') return;
    const text = JSON.stringify(outcome.value);
    if (!text.includes(uri)) wrong('the answer to another request');
    if (kind === 'read' && !text.includes(`${peer} ${uri}`)) wrong('the answer of another peer');
  }

  #count(kind, result) {
    const key = `${kind}: ${result}`;
    this.outcomes.set(key, (this.outcomes.get(key) ?? 0) + 1);
  }

  /** Begins or ends being told of a resource. */
  #watch(peer) {
    const end = this.#watches.get(peer);
    if (end !== undefined) {
      end();
      this.#watches.delete(peer);
      return;
    }
    try {
      this.#watches.set(peer, this.#host.subscribeResource(peer, `soak://${peer}/one`));
    } catch (error) {
      if (error?.name !== 'UnknownPeerError')
        this.#accounts.problem('subscribeResource threw', `${peer}: ${error?.stack}`);
    }
  }
}

export class Operator {
  retries = 0;
  replacements = 0;
  #host;
  #fleet;
  #accounts;
  #random;
  #timers = [];
  #replacing = Promise.resolve();
  #isReplacing = false;

  constructor({ host, fleet, accounts, random }) {
    this.#host = host;
    this.#fleet = fleet;
    this.#accounts = accounts;
    this.#random = random;
  }

  start() {
    this.#timers.push(setInterval(() => this.look(), 1_000));
  }

  /** From time to time a peer is taken out of the host and put in again. */
  startReplacing(everyMs) {
    this.#timers.push(
      setInterval(() => {
        if (this.#isReplacing) return;
        this.#isReplacing = true;
        this.#replacing = this.#replace().finally(() => {
          this.#isReplacing = false;
        });
      }, everyMs),
    );
  }

  /** Who died in the midst of a negotiation stays unavailable until somebody asks for another. */
  look() {
    for (const { name } of this.#fleet.peers) {
      try {
        const handle = this.#host.peer(name);
        if (handle.state !== 'unavailable') continue;
        handle.retry();
        this.retries += 1;
      } catch {
        // Taken out just now.
      }
    }
    this.#host.status();
  }

  async #replace() {
    const peer = this.#random.pick(this.#fleet.peers);
    try {
      await this.#host.removePeer(peer.name);
      await this.#host.addPeer(peer.name, this.#fleet.configOf(peer));
      this.replacements += 1;
    } catch (error) {
      this.#accounts.problem('replacing a peer threw', `${peer.name}: ${error?.stack}`);
    }
  }

  stopReplacing() {
    for (const timer of this.#timers.splice(1)) clearInterval(timer);
    return this.#replacing;
  }

  stop() {
    for (const timer of this.#timers) clearInterval(timer);
  }
}
