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
    const { refusal } = notes;
    if (refusal === null) return `the authorization server refused: ${error.message}`;
    const said = refusal.description === null ? '' : `: ${refusal.description}`;
    return `the authorization server refused (HTTP ${refusal.status}${codeIn(notes, ', ')})${said}`;
  }
  const misshapen = pathIn(error);
  if (misshapen !== null) return `an answer for authorization is not of the form that is due (${misshapen})`;
  return error instanceof Error ? error.message : 'something was thrown that is no error';
}

function codeIn({ refusal }: FlowNotes, before = ': '): string {
  return refusal === null || refusal.code === null ? '' : `${before}${refusal.code}`;
}

/** Where a value was not what the official package's schemas ask for; null where it is no error of theirs. */
function pathIn(error: unknown): string | null {
  if (!(error instanceof Error) || !('issues' in error) || !Array.isArray(error.issues)) return null;
  const [first] = error.issues as { readonly path?: unknown; readonly message?: unknown }[];
  const path = Array.isArray(first?.path) ? first.path.map(String).join('.') : '';
  return `${path === '' ? 'the whole' : path}: ${String(first?.message)}`;
}
