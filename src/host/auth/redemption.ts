/** What an authorization server sent back, read. */
import { sanitizeText } from '../../protocol/sanitize.js';
import type { AuthorizationResponse } from '../facade.js';
import { officialClient } from './officialClient.js';
import type { PendingFlow } from './providerState.js';

export interface Redemption {
  readonly code: string | null;
  readonly iss: string | undefined;
  readonly state: string | undefined;
  /** The whole answer came, so what it lacks was not sent. */
  readonly isWhole: boolean;
  readonly error: string | null;
}

/** @returns null where it is nothing that can be read */
export function readResponse(response: AuthorizationResponse): Redemption | null {
  if (typeof response === 'string' || response instanceof URL) {
    const parameters = parametersOf(response);
    if (parameters === null) return null;
    return {
      code: parameters.get('code'),
      iss: parameters.get('iss') ?? undefined,
      state: parameters.get('state') ?? undefined,
      isWhole: true,
      error: parameters.get('error'),
    };
  }
  if (typeof response !== 'object' || response === null) return null;
  const { code, iss, state } = response;
  return { code: typeof code === 'string' ? code : null, iss, state, isWhole: false, error: null };
}

function parametersOf(response: string | URL): URLSearchParams | null {
  const text = String(response).trim();
  if (URL.canParse(text)) return new URL(text).searchParams;
  // The query alone, as some servers for the redirect hand it on.
  return /^\??[\w.-]+=/.test(text) ? new URLSearchParams(text) : null;
}

/** RFC 6749, 10.12: an answer to another request is none to this one. */
export function belongsTo(redemption: Redemption, pending: PendingFlow | null): boolean {
  const expected = pending?.state ?? null;
  if (expected === null) return true;
  if (redemption.state === undefined) return !redemption.isWhole;
  return redemption.state === expected;
}

/** What an answer that grants nothing says. RFC 9207, 2.4: who wrote it is looked at before what it says. */
export async function refusalIn(redemption: Redemption, pending: PendingFlow | null): Promise<string> {
  if (pending === null) return 'what came back grants nothing, and no authorization was asked for';
  const metadata = pending.discovery?.authorizationServerMetadata;
  const { validateAuthorizationResponseIssuer } = await officialClient();
  try {
    validateAuthorizationResponseIssuer({
      iss: redemption.iss,
      expectedIssuer: metadata?.issuer,
      issParameterSupported: metadata?.['authorization_response_iss_parameter_supported'] === true,
    });
  } catch {
    return 'the answer does not come from the authorization server that was asked (iss)';
  }
  return `the authorization server answered ${sanitizeText(redemption.error ?? '', 64)}`;
}
