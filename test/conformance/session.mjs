// A host and its one peer, and the person who grants what the peer's authorization server asks for.

/** How often the person visits an authorization page. More than any scenario may need: the limit is the host's. */
const MAX_GRANTS = 10;

export class Session {
  #visited = null;
  #grants = 0;
  /** What the authorization server, or the host, said last when a grant did not work. */
  refusal = null;

  constructor(host, name) {
    this.host = host;
    this.peer = host.peer(name);
  }

  /** Starts the host and grants access for as long as that is asked for. */
  async start() {
    await this.host.start();
    await this.#grantAll();
  }

  /** @throws {Error} where the peer did not become callable, or listed nothing */
  async startCallable() {
    await this.start();
    const { state, reason, listing } = this.peer.report();
    if (!this.peer.callable) throw new Error(`${state}: ${reason?.message}; ${this.refusal ?? ''}`);
    if (listing !== null) throw new Error(`the listing failed: ${listing}`);
  }

  tools() {
    return [...this.host.catalog().entries.values()];
  }

  tool(name) {
    const found = this.tools().find(({ local }) => local === name);
    if (found === undefined) throw new Error(`there is no tool ${name} in the catalog`);
    return found;
  }

  /** A call whose outcome must be `ok`. Where the server wants more than was granted, it is granted. */
  async call(name, args = {}, options = {}) {
    const outcome = await this.#attempt(name, args, options);
    if (outcome.status !== 'ok') throw new Error(`${name}: ${outcome.status}: ${outcome.message}`);
    return outcome.result;
  }

  async #attempt(name, args, options) {
    for (;;) {
      const outcome = await this.host.call(this.tool(name).name, args, options);
      if (outcome.status === 'ok' || !(await this.#grantAll())) return outcome;
    }
  }

  /** Visits every authorization page that is asked for. Resolves with whether one was, and the grant was taken. */
  async #grantAll() {
    let granted = false;
    for (;;) {
      const url = this.peer.report().authorizationUrl;
      if (url === null || url === this.#visited || this.#grants === MAX_GRANTS) return granted;
      this.#visited = url;
      this.#grants += 1;
      const location = await visit(url);
      try {
        await this.peer.authorize(location);
        granted = true;
      } catch (error) {
        this.refusal = error.message;
        return false;
      }
    }
  }
}

/** The person's browser, which stops at the redirect back to the client. */
async function visit(url) {
  const response = await fetch(url, { redirect: 'manual' });
  await response.body?.cancel();
  const location = response.headers.get('location');
  if (location === null) throw new Error(`the authorization page answered ${response.status}`);
  return location;
}
