/** Why a flow failed, in words that may be shown: no secret, and of what a stranger wrote no more than a short quotation. */
import { redactor } from '../redact.js';
import { AuthFetchError } from './addressGuard.js';
import { CodeRefused } from './flow.js';
import { type FlowNotes, secretForms } from './flowNotes.js';
import { officialClient } from './officialClient.js';

/** Never rejects. @param show takes other secrets out, and makes it fit to be shown */
export async function problemOf(
  error: unknown,
  notes: FlowNotes,
  show: (text: string) => string,
): Promise<string> {
  const text = await wordsFor(error, notes).catch(() => 'the flow failed');
  return show(redactor(secretForms(notes.secrets))(text));
}

async function wordsFor(error: unknown, notes: FlowNotes): Promise<string> {
  if (error instanceof AuthFetchError) return error.message;
  if (error instanceof CodeRefused) return `the authorization server refused the code${codeIn(notes)}`;
  const official = await officialClient();
  if (error instanceof official.IssuerMismatchError) {
    // RFC 9207, 2.4: nothing of such an answer is shown, a stranger may have written it.
    return error.kind === 'authorization_response'
      ? 'the answer does not come from the authorization server that was asked (iss)'
      : 'the metadata of the authorization server name another issuer than the one they were asked for';
  }
  if (error instanceof official.AuthorizationServerMismatchError) {
    return 'the credentials belong to another authorization server than the one that the peer names';
  }
  if (error instanceof official.RegistrationRejectedError) {
    return `the authorization server does not register this client (HTTP ${error.status}${codeIn(notes, ', ')})`;
  }
  if (error instanceof official.InsecureTokenEndpointError) {
    return 'the token endpoint is not https, so no credentials are sent there';
  }
  if (error instanceof official.OAuthError) {
    return notes.refusal === null
      ? `the authorization server refused: ${error.message}`
      : `the authorization server refused (HTTP ${notes.refusal.status}${codeIn(notes, ', ')}): ${error.message}`;
  }
  return error instanceof Error ? error.message : 'something was thrown that is no error';
}

function codeIn({ refusal }: FlowNotes, before = ': '): string {
  return refusal === null || refusal.code === null ? '' : `${before}${refusal.code}`;
}
