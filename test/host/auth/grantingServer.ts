/**
 * A modern MCP server and its authorization server, at one origin. Refresh tokens rotate; one that comes back a second
 * time revokes all of its family, as RFC 9700, 4.14.2 has it.
 */
import { hash, randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { serve } from '../../transports/httpHarness.js';

/** What one person granted. */
interface Family {
  readonly person: string;
  access: string;
  refresh: string;
  readonly spent: Set<string>;
  isRevoked: boolean;
}

export interface GrantingServer {
  readonly origin: string;
  readonly url: string;
  /** `grant_type` of each token request that came, in order, and what came of it. */
  readonly grants: string[];
  /** Names of registered clients. */
  readonly registered: string[];
  /** What the owners of these tokens called. */
  readonly calls: string[];
  /** For whom the tools were listed. What each sees is private, and holds for an hour. */
  readonly lists: string[];
  /** Tokens of a new family; each is another person's, `person_1` and so on. */
  issue(): { access_token: string; refresh_token: string; token_type: string };
  /** The access token runs out; its refresh token still holds. */
  expire(accessToken: string): void;
  isValid(accessToken: string | undefined): boolean;
  /** A person opens the page and agrees. Gives the URL that the browser is sent to. */
  grant(authorizationUrl: string | URL): URL;
}

export async function grantingServer(): Promise<GrantingServer> {
  const families: Family[] = [];
  const expired = new Set<string>();
  const codes = new Map<string, { readonly challenge: string; readonly redirect: string }>();
  const grants: string[] = [];
  const registered: string[] = [];
  const calls: string[] = [];
  const lists: string[] = [];

  const issue: GrantingServer['issue'] = () => {
    const family: Family = {
      person: `person_${families.length + 1}`,
      access: randomUUID(),
      refresh: randomUUID(),
      spent: new Set(),
      isRevoked: false,
    };
    families.push(family);
    return { access_token: family.access, refresh_token: family.refresh, token_type: 'Bearer' };
  };
  const familyOf = (token: string | undefined): Family | undefined =>
    token === undefined || expired.has(token)
      ? undefined
      : families.find(({ access, isRevoked }) => access === token && !isRevoked);

  const exchange = (form: URLSearchParams): object | null => {
    if (form.get('grant_type') === 'authorization_code') {
      const code = form.get('code') ?? '';
      const asked = codes.get(code);
      codes.delete(code);
      const proof = hash('sha256', form.get('code_verifier') ?? '', 'base64url');
      return asked?.challenge === proof && asked.redirect === form.get('redirect_uri') ? issue() : null;
    }
    const token = form.get('refresh_token') ?? '';
    const family = families.find(({ refresh, spent }) => refresh === token || spent.has(token));
    if (family === undefined || family.isRevoked) return null;
    if (family.refresh !== token) {
      family.isRevoked = true;
      return null;
    }
    family.spent.add(token);
    family.access = randomUUID();
    family.refresh = randomUUID();
    return { access_token: family.access, refresh_token: family.refresh, token_type: 'Bearer' };
  };

  const server = await serve((request, response) => {
    const { pathname } = new URL(request.url, 'http://localhost');
    const { origin } = server;
    if (pathname === '/.well-known/oauth-protected-resource/mcp') {
      json(response, { resource: `${origin}/mcp`, authorization_servers: [origin] });
    } else if (pathname === '/.well-known/oauth-authorization-server') {
      json(response, {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
        grant_types_supported: ['authorization_code', 'refresh_token'],
        code_challenge_methods_supported: ['S256'],
        token_endpoint_auth_methods_supported: ['none'],
        scopes_supported: ['read', 'offline_access'],
      });
    } else if (pathname === '/register') {
      const metadata = JSON.parse(request.body) as Record<string, unknown>;
      registered.push(String(metadata['client_name']));
      json(response, { ...metadata, client_id: randomUUID(), token_endpoint_auth_method: 'none' }, 201);
    } else if (pathname === '/token') {
      const form = new URLSearchParams(request.body);
      const issued = exchange(form);
      grants.push(`${form.get('grant_type')}${issued === null ? ' refused' : ''}`);
      if (issued === null) json(response, { error: 'invalid_grant' }, 400);
      else json(response, { ...issued, expires_in: 300 });
    } else if (pathname === '/mcp' && request.method === 'POST') {
      const token = request.headers.authorization?.split(' ')[1];
      const family = familyOf(token);
      if (family !== undefined) return answer(request.body, response, family.person);
      const metadata = `${origin}/.well-known/oauth-protected-resource/mcp`;
      response.writeHead(401, { 'www-authenticate': `Bearer resource_metadata="${metadata}", scope="read"` });
      response.end();
    } else {
      response.writeHead(404).end();
    }
  });

  const answer = (body: string, response: ServerResponse, person: string): void => {
    const { id, method, params } = JSON.parse(body) as {
      id: number;
      method: string;
      params: { name: string };
    };
    if (method === 'tools/call') calls.push(params.name);
    if (method === 'tools/list') lists.push(person);
    const results: Record<string, object> = {
      'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } },
      'tools/list': {
        tools: ['look', `of_${person}`].map((name) => ({ name, inputSchema: { type: 'object' } })),
        ttlMs: 3_600_000,
        cacheScope: 'private',
      },
      'tools/call': { content: [{ type: 'text', text: 'seen' }] },
    };
    json(response, { jsonrpc: '2.0', id, result: { resultType: 'complete', ...results[method] } });
  };

  return {
    origin: server.origin,
    url: `${server.origin}/mcp`,
    grants,
    registered,
    calls,
    lists,
    issue,
    expire: (token) => void expired.add(token),
    isValid: (token) => familyOf(token) !== undefined,
    grant: (authorizationUrl) => {
      const { searchParams } = new URL(authorizationUrl);
      const redirect = searchParams.get('redirect_uri') ?? '';
      const code = randomUUID();
      codes.set(code, { challenge: searchParams.get('code_challenge') ?? '', redirect });
      const back = new URL(redirect);
      back.searchParams.set('code', code);
      back.searchParams.set('state', searchParams.get('state') ?? '');
      return back;
    },
  };
}

function json(response: ServerResponse, value: object, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end(JSON.stringify(value));
}
