/** `localhost` is both loopback addresses, whatever a hosts file has of it (RFC 6761, 6.3). */
import { type LookupAddress, lookup } from 'node:dns';
import type { LookupFunction } from 'node:net';

const LOOPBACK: readonly LookupAddress[] = [
  { address: '127.0.0.1', family: 4 },
  { address: '::1', family: 6 },
];

/**
 * A server on the loopback listens on one address or on both, and a container's hosts file often knows one. What the
 * system says comes first; the rest is tried after it.
 */
export const lookupWithLoopback: LookupFunction = (hostname, options, callback) => {
  // Without `all` one address is wanted, and there is nothing to add.
  if (hostname.toLowerCase() !== 'localhost' || options.all !== true) {
    lookup(hostname, options, callback);
    return;
  }
  lookup(hostname, { ...options, all: true }, (error, found) => {
    const known = error === null ? found : [];
    const family = familyOf(options.family);
    const added = LOOPBACK.filter(
      (loopback) =>
        (family === 0 || loopback.family === family) &&
        !known.some(({ address }) => address === loopback.address),
    );
    callback(null, [...known, ...added]);
  });
};

function familyOf(family: string | number | undefined): number {
  if (family === 'IPv4') return 4;
  if (family === 'IPv6') return 6;
  return typeof family === 'number' ? family : 0;
}
