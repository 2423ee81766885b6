/** What a flow is to obtain, and whether that is worth a flow. */
import type { Challenge } from './challenge.js';
import { usableScope } from './challenge.js';
import { officialClient } from './officialClient.js';
import type { PendingFlow } from './providerState.js';

export interface Needs {
  readonly scope: string | undefined;
  readonly resourceMetadataUrl: URL | undefined;
  /** More than was granted: a renewal cannot give that (RFC 6749, 6). */
  readonly forced: boolean;
}

/** What is known when a server wants more scope. */
export interface Granted {
  /** All that is ever asked for, where it is configured. */
  readonly fixed: string | undefined;
  /** That of the token, where its server told. */
  readonly granted: string | undefined;
  /** What was asked for in the last flow that obtained something. */
  readonly obtained: string | undefined;
  readonly resourceMetadataUrl: URL | undefined;
}

/** A server that asks for more each time is not followed by a person for ever. */
const MAX_REPLACED = 3;

/**
 * 2026-07-28, basic/authorization, "Step-Up Authorization Flow": all that was granted, and what is wanted now.
 *
 * @returns why nothing is asked for, as a text, where asking would change nothing
 */
export async function furtherNeeds(challenge: Challenge, known: Granted): Promise<Needs | string> {
  const { computeScopeUnion, isStrictScopeSuperset } = await officialClient();
  const { scope: wanted } = challenge;
  const { fixed, granted, obtained, resourceMetadataUrl } = known;
  if (wanted === undefined) return 'the server wants more scope, and does not say which';
  if (fixed !== undefined) return `the server wants the scope ${wanted}, and ${fixed} is configured`;
  if (obtained !== undefined && !isStrictScopeSuperset(wanted, obtained)) {
    return `the server wants the scope ${wanted}, which was asked for already`;
  }
  const scope = usableScope(computeScopeUnion(granted, obtained, wanted));
  if (scope === undefined) return 'the server wants more scope than fits into a request';
  return { scope, resourceMetadataUrl, forced: isStrictScopeSuperset(scope, granted) };
}

/** A person who looks at one request is not shown another, unless that one asks for more. */
export async function mayReplace(pending: PendingFlow, needs: Needs): Promise<boolean> {
  if (!needs.forced || pending.replaced >= MAX_REPLACED) return false;
  const { isStrictScopeSuperset } = await officialClient();
  return isStrictScopeSuperset(needs.scope, pending.scope);
}

export function together(one: string | undefined, other: string | undefined): string | undefined {
  return usableScope([...new Set(`${one ?? ''} ${other ?? ''}`.split(' '))].join(' '));
}
