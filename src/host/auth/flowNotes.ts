/** What one flow learns on its way: the secrets that must not be shown, and what it asked for. */

export interface FlowNotes {
  readonly secrets: Set<string>;
  /** The `grant_type` and `scope` of the last token request. */
  grant: string | null;
  scope: string | null;
  /** The last answer that told of an error. */
  refusal: {
    readonly status: number;
    readonly code: string | null;
    /** What it says besides, as it came. */
    readonly description: string | null;
  } | null;
}

/** Shorter ones would take ordinary words out of every message. */
const SHORTEST_SECRET = 6;
const SECRET_PARAMETERS = [
  'client_secret',
  'client_assertion',
  'assertion',
  'subject_token',
  'actor_token',
  'refresh_token',
  'code',
  'code_verifier',
];

export function newNotes(): FlowNotes {
  return { secrets: new Set(), grant: null, scope: null, refusal: null };
}

export function addSecrets(secrets: Set<string>, ...found: readonly (string | undefined | null)[]): void {
  for (const secret of found) {
    if (typeof secret === 'string' && secret.length >= SHORTEST_SECRET) secrets.add(secret);
  }
}

/** As they are, as they stand in a URL or a form, and as what carries them is often encoded. */
export function secretForms(secrets: Iterable<string>): string[] {
  return [...secrets].flatMap((secret) => {
    const form = new URLSearchParams([['', secret]]).toString().slice(1);
    const bytes = Buffer.from(secret, 'utf8');
    const base64 = bytes.toString('base64').replace(/=+$/, '');
    return [secret, form, encodeURIComponent(secret), base64, bytes.toString('base64url')];
  });
}

/** Notes what a request carries. */
export function noteRequest(
  notes: FlowNotes,
  request: { readonly headers: Readonly<Record<string, string>>; readonly body: string | null },
): void {
  const { authorization, dpop } = request.headers;
  addSecrets(notes.secrets, dpop);
  const [, credentials] = /^\S+\s+(.+)$/.exec(authorization ?? '') ?? [];
  if (credentials !== undefined) {
    addSecrets(notes.secrets, credentials);
    if (/^basic\s/i.test(authorization ?? '')) {
      const [, secret] = /^[^:]*:(.*)$/s.exec(Buffer.from(credentials, 'base64').toString('utf8')) ?? [];
      addSecrets(notes.secrets, secret, secret === undefined ? null : unescaped(secret));
    }
  }
  if (request.headers['content-type']?.startsWith('application/x-www-form-urlencoded') !== true) return;
  const parameters = new URLSearchParams(request.body ?? '');
  for (const name of SECRET_PARAMETERS) addSecrets(notes.secrets, parameters.get(name));
  notes.grant = parameters.get('grant_type');
  notes.scope = parameters.get('scope');
}

function unescaped(text: string): string | null {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '));
  } catch {
    return null;
  }
}
