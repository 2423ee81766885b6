// What became of every call: a few bytes each, in arrays of fixed size, so that the harness itself stays flat.

import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

const DELIVERIES = ['answered', 'not-sent', 'unknown'];
/** Violations that are told one by one; more are only counted. */
const MAX_TOLD = 5;

export class Accounts {
  begun = 0;
  settled = 0;
  late = 0;
  /** `status/delivery` → how many, and one message. */
  outcomes = new Map();
  problems = new Map();
  /** Of calls that do nothing but answer. */
  latency = new Latency();
  #settlements;
  #deliveries;
  #isOk;
  #labels;
  #tools;
  #stalls;

  constructor(capacity, tools, stalls) {
    this.#stalls = stalls;
    this.capacity = capacity;
    this.#settlements = new Uint8Array(capacity);
    this.#deliveries = new Uint8Array(capacity);
    this.#isOk = new Uint8Array(capacity);
    this.#labels = new Uint16Array(capacity);
    this.#tools = tools;
  }

  /** A stopwatch that stands still while this process cannot run. */
  startWatch() {
    const startedAt = performance.now() - this.#stalls.totalMs;
    return () => performance.now() - this.#stalls.totalMs - startedAt;
  }

  get inFlight() {
    return this.begun - this.settled;
  }

  /** Begins a call; its token is its number. */
  begin(toolIndex, peerIndex) {
    const token = this.begun;
    this.begun += 1;
    this.#labels[token] = toolIndex * 256 + peerIndex;
    return token;
  }

  settle(token, outcome) {
    this.settled += 1;
    this.#settlements[token] += 1;
    this.#deliveries[token] = DELIVERIES.indexOf(outcome.delivery);
    // Both prove an execution.
    this.#isOk[token] = outcome.status === 'ok' || outcome.status === 'tool-error' ? 1 : 0;
    const key = `${outcome.status}/${outcome.delivery}`;
    const entry = this.outcomes.get(key);
    if (entry === undefined) this.outcomes.set(key, { count: 1, message: outcome.message ?? '' });
    else entry.count += 1;
  }

  problem(kind, detail) {
    const entry = this.problems.get(kind) ?? { count: 0, told: [] };
    entry.count += 1;
    if (entry.told.length < MAX_TOLD) entry.told.push(detail);
    this.problems.set(kind, entry);
  }

  describe(token) {
    const label = this.#labels[token];
    return `call ${token} (${this.#tools[label >> 8]} of peer ${label & 255})`;
  }

  share(...keys) {
    let count = 0;
    for (const [key, entry] of this.outcomes)
      if (keys.some((each) => key.startsWith(each))) count += entry.count;
    return count / Math.max(1, this.begun);
  }

  /** Holds the outcomes against what the servers recorded. Once, at the end. */
  audit(dir) {
    const executions = new Uint8Array(this.capacity);
    for (const file of readdirSync(dir).filter((name) => name.endsWith('.effects')))
      for (const line of readFileSync(join(dir, file), 'utf8').split('\n')) {
        if (line === '') continue;
        const token = Number(line);
        if (Number.isInteger(token) && token >= 0 && token < this.begun) executions[token] += 1;
        else this.problem('side effects of no call', `${file}: ${line}`);
      }
    let effects = 0;
    for (let token = 0; token < this.begun; token += 1) {
      const times = executions[token];
      effects += times;
      const delivery = DELIVERIES[this.#deliveries[token]];
      if (this.#settlements[token] !== 1)
        this.problem(
          'calls without exactly one outcome',
          `${this.describe(token)}: ${this.#settlements[token]}`,
        );
      if (times > 1) this.problem('calls executed more than once', `${this.describe(token)}: ${times} times`);
      if (times > 0 && delivery === 'not-sent')
        this.problem('calls executed though not-sent', this.describe(token));
      if (times === 0 && this.#isOk[token] === 1)
        this.problem('calls answered though never executed', this.describe(token));
    }
    const faults = join(dir, 'faults');
    if (existsSync(faults))
      for (const line of readFileSync(faults, 'utf8').split('\n'))
        if (line !== '') this.problem('faults of the client that servers saw', line);
    return effects;
  }
}

/** Durations in buckets 5 % wide. */
class Latency {
  #buckets = new Uint32Array(400);
  #count = 0;

  add(ms) {
    const index = Math.min(this.#buckets.length - 1, Math.floor(Math.log(Math.max(ms, 0.01) / 0.01) / 0.05));
    this.#buckets[index] += 1;
    this.#count += 1;
  }

  percentile(share) {
    let left = share * this.#count;
    for (let i = 0; i < this.#buckets.length; i += 1) {
      left -= this.#buckets[i];
      if (left <= 0) return 0.01 * Math.exp((i + 1) * 0.05);
    }
    return Number.POSITIVE_INFINITY;
  }
}
