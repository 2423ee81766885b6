// The callers of a soak: calls at a steady rate, whatever becomes of those before (an open loop), at random peers and
// tools, with random deadlines, some aborted.

import { weighted } from './random.mjs';

const pickTool = weighted({
  echo: 40,
  slow: 25,
  progress: 6,
  ask: 5,
  again: 5,
  fail: 4,
  extra: 4,
  refuse: 2,
  silent: 1.5,
  lie: 1,
  misspelled: 0.5,
  illTyped: 1,
  die: 0.15,
});
export const TOOLS = [
  ...['echo', 'slow', 'progress', 'ask', 'again', 'fail', 'extra', 'refuse', 'silent', 'lie'],
  ...['misspelled', 'illTyped', 'die'],
];
/** Tools that succeed if nothing comes between, and say whom they answered. */
const SUCCEEDING = new Set(['echo', 'slow', 'progress', 'ask', 'again', 'extra']);
const TICK_MS = 10;
/** How late an outcome may be: the machine is busy, and so are its neighbours. */
const MARGIN_MS = 5_000;
const LONGEST_TEXT = 2_000;

export class Traffic {
  #host;
  #peers;
  #accounts;
  #random;
  #lease;
  /** A signal that lives as long as the soak: nothing may stay on it. */
  #shared = new AbortController();
  #timer = null;
  #text = 'x'.repeat(LONGEST_TEXT);

  constructor({ host, peers, accounts, random }) {
    this.#host = host;
    this.#peers = peers;
    this.#accounts = accounts;
    this.#random = random;
    this.#lease = host.catalog();
  }

  get sharedSignal() {
    return this.#shared.signal;
  }

  /** Resolves when the last call was begun. */
  run(rate, durationMs) {
    const total = Math.round((rate * durationMs) / 1_000);
    const startedAt = performance.now();
    let begun = 0;
    return new Promise((resolve) => {
      this.#timer = setInterval(() => {
        const due = Math.min(total, Math.floor(((performance.now() - startedAt) * rate) / 1_000));
        for (; begun < due; begun += 1) this.#callAny();
        if (begun < total) return;
        clearInterval(this.#timer);
        resolve();
      }, TICK_MS);
    });
  }

  #callAny() {
    const random = this.#random;
    const index = random.below(this.#peers.length);
    let tool = pickTool(random);
    // An HTTP process takes its whole group with it.
    if (tool === 'die' && this.#peers[index].transport === 'http' && random.chance(0.8)) tool = 'echo';
    this.call(index, tool);
  }

  /** One call; what it comes to goes into the accounts, and is returned. */
  async call(index, tool, { plain = false } = {}) {
    const random = this.#random;
    const accounts = this.#accounts;
    const peer = this.#peers[index].name;
    const token = accounts.begin(TOOLS.indexOf(tool), index);
    const args = { token };
    if (tool === 'illTyped') args.text = 7;
    else if (tool === 'die') args.when = random.pick(['before', 'after', 'answered']);
    else if (tool === 'slow') args.ms = random.between(0, 300);
    else if (tool === 'progress') args.ms = random.between(5, 50);
    else args.text = this.#text.slice(0, random.below(random.chance(0.1) ? LONGEST_TEXT : 50));

    const timeoutMs = plain ? 5_000 : this.#timeoutFor(tool);
    const options = { timeoutMs };
    let reports = 0;
    if (tool === 'progress' && !plain)
      options.onProgress = () => {
        reports += 1;
      };
    const abort = plain ? null : this.#maybeAborting(options);
    if (!plain && random.chance(0.02)) this.#lease = this.#host.catalog();
    const caller = plain || random.chance(0.5) ? this.#host : this.#lease;
    const wireName = tool === 'illTyped' ? 'echo' : tool;
    const tookMs = accounts.startWatch();
    let outcome;
    try {
      outcome = await caller.call(`${peer}/${wireName}`, args, options);
    } catch (error) {
      accounts.problem('calls that threw', `${accounts.describe(token)}: ${error?.stack}`);
      return undefined;
    } finally {
      abort?.();
    }
    if (tookMs() > timeoutMs * (reports + 1) + MARGIN_MS)
      accounts.problem(
        'calls later than their deadline',
        `${accounts.describe(token)}: ${Math.round(tookMs())} ms of ${timeoutMs}, ${outcome.status}`,
      );
    accounts.settle(token, outcome);
    if (tool === 'echo' && outcome.status === 'ok') accounts.latency.add(outcome.durationMs);
    this.#judge(token, peer, tool, outcome);
    return outcome;
  }

  #timeoutFor(tool) {
    const random = this.#random;
    if (tool === 'silent') return random.between(200, 1_500);
    return random.chance(0.05) ? random.between(1, 100) : random.between(3_000, 6_000);
  }

  #maybeAborting(options) {
    const random = this.#random;
    const dice = random.next();
    if (dice < 0.2) options.signal = this.#shared.signal;
    else if (dice < 0.24) {
      const controller = new AbortController();
      options.signal = controller.signal;
      const timer = setTimeout(() => controller.abort(), random.between(0, 150));
      return () => clearTimeout(timer);
    } else if (dice < 0.245) options.signal = AbortSignal.abort();
    return null;
  }

  /** What this very tool can come to. */
  #judge(token, peer, tool, outcome) {
    const accounts = this.#accounts;
    const wrong = (why) =>
      accounts.problem('wrong outcomes', `${accounts.describe(token)}: ${why}: ${brief(outcome)}`);
    if (outcome.status === 'ok') {
      if (!SUCCEEDING.has(tool) && tool !== 'die') return wrong('it cannot succeed');
      const said = outcome.result.structuredContent;
      if (said?.token !== token || said?.peer !== peer) wrong('the answer to another call');
    }
    if (tool === 'illTyped' && outcome.delivery !== 'not-sent') wrong('ill-typed arguments were sent');
    if (tool === 'misspelled' && outcome.delivery !== 'not-sent') wrong('an unknown tool was called');
    // A tool that asked for input has answered.
    const hasRounds = tool === 'ask' || tool === 'again';
    if (
      !hasRounds &&
      outcome.delivery === 'answered' &&
      ['lost', 'timeout', 'cancelled'].includes(outcome.status)
    )
      wrong('answered, and yet not');
  }
}

function brief(outcome) {
  const { status, delivery, message, result } = outcome;
  return JSON.stringify({ status, delivery, message, result }).slice(0, 300);
}
