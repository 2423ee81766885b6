// One request of a client, until it is answered or nobody waits for it any more.

export const MODERN = '2026-07-28';

export class Exchange {
  #connection;
  #reply;
  #timers = new Set();
  /** Ids of questions that went to the client on the way of this request. */
  #asked = new Set();
  #isOver = false;
  onOver = null;
  /** What the client declared with this request; modern only. */
  capabilities = undefined;

  constructor(connection, { id, method, params = {} }, reply) {
    this.#connection = connection;
    this.#reply = reply;
    this.id = id;
    this.method = method;
    this.params = params;
    // The end of its stream cancels a modern request; a legacy one goes on, but nothing asked there is answered.
    reply.onClosed?.(() => (this.isModern ? this.cancel() : this.#unask()));
  }

  get isModern() {
    return this.#connection.endpoint.era === 'modern';
  }

  result(fields) {
    const result = this.isModern ? { resultType: 'complete', ...fields } : fields;
    this.#end({ jsonrpc: '2.0', id: this.id, result });
  }

  error(code, message, data) {
    this.#end({ jsonrpc: '2.0', id: this.id, error: { code, message, ...(data && { data }) } });
  }

  notify(method, params) {
    if (!this.#isOver) this.#reply.send({ jsonrpc: '2.0', method, params });
  }

  progress(progress, total) {
    const progressToken = this.params._meta?.progressToken;
    if (progressToken === undefined) return;
    this.notify('notifications/progress', { progressToken, progress, total });
  }

  /** Resolves with the client's answer, or with null when none is to be expected any more. */
  ask(method, params) {
    return this.#connection.ask(method, params, (message) => {
      if (this.#isOver) return false;
      this.#asked.add(message.id);
      return this.#reply.send(message);
    });
  }

  #unask() {
    for (const id of this.#asked) this.#connection.unask(id);
  }

  later(ms, act) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      act();
    }, ms);
    this.#timers.add(timer);
  }

  /** Nobody waits any more: nothing happens, nothing is said. */
  cancel() {
    if (this.#isOver) return;
    this.#over();
    this.#reply.drop?.();
  }

  #end(message) {
    if (this.#isOver) return;
    this.#over();
    this.#reply.end(message);
  }

  #over() {
    this.#isOver = true;
    for (const timer of this.#timers) clearTimeout(timer);
    this.#unask();
    if (this.#connection.exchanges.get(this.id) === this) this.#connection.exchanges.delete(this.id);
    this.onOver?.();
  }
}
