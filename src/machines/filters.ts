/** What is asked of a subscription against what is acknowledged. */
import { LIST_KINDS, LISTS } from '../protocol/lists.js';
import type { SubscriptionFilter } from './ports.js';

/** The words of a filter that are yes or no, in the order of the specification. */
const WORDS = [...new Set(LIST_KINDS.map((kind) => LISTS[kind].filter))];

const urisOf = (filter: SubscriptionFilter): ReadonlySet<string> => new Set(filter.resourceSubscriptions);

/** What is in both: a server cannot acknowledge what nobody asked for. */
export function cutFilter(asked: SubscriptionFilter, claimed: SubscriptionFilter): SubscriptionFilter {
  const claimedUris = urisOf(claimed);
  const uris = [...urisOf(asked)].filter((uri) => claimedUris.has(uri));
  return {
    ...Object.fromEntries(
      WORDS.filter((word) => asked[word] === true && claimed[word] === true).map((word) => [word, true]),
    ),
    ...(uris.length > 0 && { resourceSubscriptions: uris }),
  };
}

/** What is asked for and not acknowledged: words of the filter, then URIs. */
export function missingOf(asked: SubscriptionFilter, acknowledged: SubscriptionFilter): readonly string[] {
  const acknowledgedUris = urisOf(acknowledged);
  return [
    ...WORDS.filter((word) => asked[word] === true && acknowledged[word] !== true),
    ...[...urisOf(asked)].filter((uri) => !acknowledgedUris.has(uri)),
  ];
}

/** Whether two filters ask for the same, whatever the order of their URIs. */
export function isSameFilter(one: SubscriptionFilter, other: SubscriptionFilter): boolean {
  return missingOf(one, other).length === 0 && missingOf(other, one).length === 0;
}

/** Whether a filter asks for nothing. */
export function isEmptyFilter(filter: SubscriptionFilter): boolean {
  return missingOf(filter, {}).length === 0;
}
