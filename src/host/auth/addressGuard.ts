/** Decides which servers a flow may contact, at the latest when a name is resolved for the connection that is made. */
import { lookup as systemLookup } from 'node:dns';
import type { LookupFunction } from 'node:net';
import { type AddressClass, classOfAddress, classOfHost } from './addresses.js';

/** A `TypeError`: the official package takes any other error of a request for a server that has no metadata. */
export class AuthFetchError extends TypeError {
  override readonly name = 'AuthFetchError';
}

export class AddressGuard {
  readonly #endpoint: URL;
  readonly #lookup: LookupFunction;
  /** Found out once: a name that leads elsewhere later opens nothing. */
  #endpointClass: Promise<AddressClass> | null = null;

  /** @param endpoint what the operator configured: addresses of its class are no news to the server there */
  constructor(endpoint: URL, lookup: LookupFunction = systemLookup as LookupFunction) {
    this.#endpoint = endpoint;
    this.#lookup = lookup;
  }

  /** @throws {AuthFetchError} this URL is not contacted; also where only an address would show it, by rejection */
  async admit(url: URL): Promise<void> {
    const kind = classOfHost(url.hostname);
    if (url.protocol === 'http:') {
      const isLocal = kind === 'loopback' && classOfHost(this.#endpoint.hostname) === 'loopback';
      if (!isLocal) throw new AuthFetchError(`${shown(url)} is not contacted: it is not https`);
    } else if (url.protocol !== 'https:') {
      throw new AuthFetchError('only https servers are contacted for authorization');
    }
    if (kind !== null && !(await this.#allows(kind))) throw refusedAddress(kind);
  }

  /** For the connection: what it resolves to is what is connected to, so no second answer can differ. */
  readonly lookup: LookupFunction = (hostname, options, callback) => {
    this.#lookup(hostname, { ...options, all: true }, (error, found) => {
      if (error !== null) {
        callback(error, '');
        return;
      }
      const addresses = Array.isArray(found) ? found : [{ address: found, family: 4 }];
      void this.#judge(addresses.map(({ address }) => classOfAddress(address))).then((refused) => {
        const [first] = addresses;
        if (refused !== null || first === undefined) {
          callback(refused ?? new AuthFetchError('the name has no address'), '');
        } else if (options.all === true) {
          callback(null, addresses);
        } else {
          callback(null, first.address, first.family);
        }
      });
    });
  };

  /** An answer that mixes what is allowed with what is not is refused whole. */
  async #judge(classes: readonly AddressClass[]): Promise<AuthFetchError | null> {
    for (const kind of classes) if (!(await this.#allows(kind))) return refusedAddress(kind);
    return null;
  }

  async #allows(kind: AddressClass): Promise<boolean> {
    if (kind === 'public') return true;
    if (kind === 'forbidden') return false;
    this.#endpointClass ??= this.#classOfEndpoint();
    return (await this.#endpointClass) === kind;
  }

  /** A name is of a class only if all its addresses are, and never of this machine's: who says so may be a stranger. */
  #classOfEndpoint(): Promise<AddressClass> {
    const { hostname } = this.#endpoint;
    const kind = classOfHost(hostname);
    if (kind !== null) return Promise.resolve(kind);
    return new Promise((resolve) => {
      this.#lookup(hostname, { all: true }, (error, found) => {
        const classes =
          error === null && Array.isArray(found) ? found.map((one) => classOfAddress(one.address)) : [];
        const [first = 'public'] = classes;
        resolve(first !== 'loopback' && classes.every((one) => one === first) ? first : 'public');
      });
    });
  }
}

function refusedAddress(kind: AddressClass): AuthFetchError {
  return new AuthFetchError(
    `a server that was named for authorization is not contacted: its address is ${kind}, and that of the endpoint is not`,
  );
}

function shown(url: URL): string {
  return url.origin.slice(0, 200);
}
