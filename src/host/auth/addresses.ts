/**
 * Where an address leads. A server may name the servers that it is authorized by; it must not get this host to ask
 * machines that only this host can reach.
 */
import { BlockList, isIP } from 'node:net';

/**
 * `forbidden` is never asked: the metadata services of clouds, which hand out credentials, and addresses that belong to
 * no one machine.
 */
export type AddressClass = 'public' | 'loopback' | 'private' | 'shared' | 'link-local' | 'forbidden';

type Range = readonly [network: string, prefix: number];

/** IANA's registries of special-purpose addresses, those that matter here. The first class that has an address wins. */
const CLASSES: readonly (readonly [kind: AddressClass, ipv4: readonly Range[], ipv6: readonly Range[]])[] = [
  [
    'forbidden',
    [
      ['169.254.169.254', 32],
      ['169.254.170.2', 32],
      ['169.254.170.23', 32],
      ['100.100.100.200', 32],
      ['192.0.0.192', 32],
      ['168.63.129.16', 32],
      ['0.0.0.0', 8],
      ['192.0.0.0', 24],
      ['198.18.0.0', 15],
      ['224.0.0.0', 4],
      ['240.0.0.0', 4],
    ],
    [
      ['fd00:ec2::', 32],
      ['fd20:ce::254', 128],
      ['::', 128],
      ['100::', 64],
      ['ff00::', 8],
    ],
  ],
  ['loopback', [['127.0.0.0', 8]], [['::1', 128]]],
  [
    'private',
    [
      ['10.0.0.0', 8],
      ['172.16.0.0', 12],
      ['192.168.0.0', 16],
    ],
    [
      ['fc00::', 7],
      ['fec0::', 10],
    ],
  ],
  ['shared', [['100.64.0.0', 10]], []],
  ['link-local', [['169.254.0.0', 16]], [['fe80::', 10]]],
];

const LISTS = CLASSES.map(([kind, ipv4, ipv6]) => {
  const list = { ipv4: new BlockList(), ipv6: new BlockList() };
  for (const [network, prefix] of ipv4) list.ipv4.addSubnet(network, prefix, 'ipv4');
  for (const [network, prefix] of ipv6) list.ipv6.addSubnet(network, prefix, 'ipv6');
  return { kind, list };
});

/** Anything that is no address is `forbidden`. */
export function classOfAddress(address: string): AddressClass {
  const bare = address.replace(/%.*$/, '');
  switch (isIP(bare)) {
    case 4:
      return lookUp(bare, 'ipv4');
    case 6: {
      const inner = embedded(bare);
      return inner === null ? lookUp(bare, 'ipv6') : lookUp(inner, 'ipv4');
    }
    default:
      return 'forbidden';
  }
}

function lookUp(address: string, family: 'ipv4' | 'ipv6'): AddressClass {
  return LISTS.find(({ list }) => list[family].check(address, family))?.kind ?? 'public';
}

/** The IPv4 address that an IPv6 address leads to: mapped, compatible, through NAT64 or 6to4. */
function embedded(address: string): string | null {
  const groups = groupsOf(address);
  const ipv4 = (high: number, low: number): string =>
    [high >> 8, high & 0xff, low >> 8, low & 0xff].join('.');
  const [a = 0, b = 0, c = 0, , , f = 0, g = 0, h = 0] = groups;
  const head = groups.slice(0, 5);
  if (head.every((group) => group === 0) && (f === 0xffff || f === 0)) {
    // `::` and `::1` are addresses of their own.
    return f === 0 && g === 0 && h <= 1 ? null : ipv4(g, h);
  }
  if (head.slice(0, 4).every((group) => group === 0) && groups[4] === 0xffff && f === 0) return ipv4(g, h);
  if (a === 0x64 && b === 0xff9b) return ipv4(g, h);
  if (a === 0x2002) return ipv4(b, c);
  return null;
}

function groupsOf(address: string): number[] {
  // The one parser that knows every way to write them; what it returns is compressed.
  const written = new URL(`http://[${address}]`).hostname.slice(1, -1);
  const [head = '', tail] = written.split('::');
  const read = (part: string): number[] =>
    part === '' ? [] : part.split(':').map((group) => Number.parseInt(group, 16));
  const first = read(head);
  if (tail === undefined) return first;
  const last = read(tail);
  return [...first, ...Array<number>(Math.max(0, 8 - first.length - last.length)).fill(0), ...last];
}

/** Without the brackets of a URL's host. */
export function bareHost(hostname: string): string {
  return hostname.startsWith('[') ? hostname.slice(1, -1) : hostname;
}

/** The class of a host that is an address or a name of this machine; null where a name has to be resolved. */
export function classOfHost(hostname: string): AddressClass | null {
  const host = bareHost(hostname).toLowerCase().replace(/\.$/, '');
  if (isIP(host) !== 0) return classOfAddress(host);
  return host === 'localhost' || host.endsWith('.localhost') ? 'loopback' : null;
}
