/**
 * An authorization server and a modern MCP server that trusts it, each at an origin of its own. Codes are good for one
 * time, refresh tokens rotate and revoke their family when they come back. Every request is counted.
 */
import { hash, randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { onTestFinished } from 'vitest';
import type { HostOptions, HttpPeerConfig } from '../../../src/host/config.js';
import { type CreateHostOptions, createHost } from '../../../src/host/createHost.js';
import type { Host } from '../../../src/host/facade.js';
import type { JsonObject } from '../../../src/protocol/jsonRpc.js';
import { type SeenRequest, serve } from '../../transports/httpHarness.js';

type Parameters = Readonly<Record<string, string>>;

interface Client {
  readonly secret: string | undefined;
  readonly method: string;
}

interface Family {
  revoked: boolean;
}

interface Token {
  readonly scope: string;
  readonly family: Family;
  valid: boolean;
}

export interface AuthServer {
  readonly issuer: string;
  readonly clients: Map<string, Client>;
  readonly access: Map<string, Token>;
  readonly refresh: Map<string, Token>;
  /** Requests by path. */
  count(path: string): number;
  /** What came to the token endpoint, in order. */
  readonly tokenRequests: Parameters[];
  /** What the authorization requests asked for, in order. */
  readonly authorizations: Parameters[];
  readonly registrations: JsonObject[];
  /** Members of the metadata that differ. */
  metadata: JsonObject;
  /** Paths that are never answered. */
  readonly hanging: Set<string>;
  /** Takes the answer to a request upon itself where it returns true. */
  intercept: (request: SeenRequest, response: ServerResponse) => boolean;
  /** What a person's browser is redirected to. */
  visit(url: string): Promise<string>;
  /** Changes the parameters that the browser is redirected with. */
  redirecting: (parameters: URLSearchParams) => void;
  /** All access tokens run out. */
  expire(): void;
  /** All refresh tokens as well. */
  revoke(): void;
}

export async function authServer(): Promise<AuthServer> {
  const codes = new Map<string, Parameters>();
  const server = await serve((request, response) => {
    const url = new URL(request.url, server.origin);
    if (self.hanging.has(url.pathname) || self.intercept(request, response)) return;
    const reply = (status: number, body: JsonObject): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    };
    switch (url.pathname) {
      case '/.well-known/oauth-authorization-server':
        return reply(200, {
          issuer: server.origin,
          authorization_endpoint: `${server.origin}/authorize`,
          token_endpoint: `${server.origin}/token`,
          registration_endpoint: `${server.origin}/register`,
          response_types_supported: ['code'],
          code_challenge_methods_supported: ['S256'],
          token_endpoint_auth_methods_supported: ['none', 'client_secret_basic', 'private_key_jwt'],
          authorization_response_iss_parameter_supported: true,
          ...self.metadata,
        });
      case '/register': {
        const asked = JSON.parse(request.body) as JsonObject;
        self.registrations.push(asked);
        const id = `client-${self.registrations.length}`;
        self.clients.set(id, { secret: undefined, method: 'none' });
        return reply(201, { ...asked, client_id: id, token_endpoint_auth_method: 'none' });
      }
      case '/authorize': {
        const asked = Object.fromEntries(url.searchParams);
        self.authorizations.push(asked);
        const code = `code-${randomUUID()}`;
        codes.set(code, asked);
        const back = new URL(asked['redirect_uri'] ?? '');
        back.searchParams.set('code', code);
        back.searchParams.set('iss', server.origin);
        if (asked['state'] !== undefined) back.searchParams.set('state', asked['state']);
        self.redirecting(back.searchParams);
        return response.writeHead(302, { location: back.href }).end();
      }
      case '/token':
        return reply(...token(request));
      default:
        return reply(404, {});
    }
  });

  const grant = (scope: string, family: Family, renewable: boolean): JsonObject => {
    const access = `access-${randomUUID()}`;
    self.access.set(access, { scope, family, valid: true });
    const granted = { access_token: access, token_type: 'Bearer', expires_in: 3600, scope };
    if (!renewable) return granted;
    const refresh = `refresh-${randomUUID()}`;
    self.refresh.set(refresh, { scope, family, valid: true });
    return { ...granted, refresh_token: refresh };
  };

  const token = (request: SeenRequest): [status: number, body: JsonObject] => {
    const form = Object.fromEntries(new URLSearchParams(request.body));
    self.tokenRequests.push(form);
    const basic = /^Basic (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    const [id = '', secret] =
      basic === undefined
        ? [form['client_id'] ?? '']
        : Buffer.from(basic, 'base64').toString().split(':').map(decodeURIComponent);
    const client = self.clients.get(id);
    const asserted = form['client_assertion'] !== undefined;
    if (!asserted && (client === undefined || client.secret !== secret)) {
      return [401, { error: 'invalid_client', error_description: `not ${secret ?? 'known'}` }];
    }
    switch (form['grant_type']) {
      case 'authorization_code': {
        const code = form['code'] ?? '';
        const asked = codes.get(code);
        codes.delete(code);
        const challenge = hash('sha256', form['code_verifier'] ?? '', 'base64url');
        if (asked?.['code_challenge'] !== challenge || asked['client_id'] !== id) {
          return [400, { error: 'invalid_grant', error_description: `not with ${code}` }];
        }
        return [200, grant(asked['scope'] ?? '', { revoked: false }, true)];
      }
      case 'refresh_token': {
        const known = self.refresh.get(form['refresh_token'] ?? '');
        if (known?.valid !== true || known.family.revoked) {
          if (known !== undefined) known.family.revoked = true;
          return [400, { error: 'invalid_grant', error_description: `not ${form['refresh_token']}` }];
        }
        known.valid = false;
        return [200, grant(known.scope, known.family, true)];
      }
      case 'client_credentials':
        return [200, grant(form['scope'] ?? '', { revoked: false }, false)];
      default:
        return [400, { error: 'unsupported_grant_type' }];
    }
  };

  const self: AuthServer = {
    issuer: server.origin,
    clients: new Map(),
    access: new Map(),
    refresh: new Map(),
    count: (path) =>
      server.requests.filter(({ url }) => new URL(url, server.origin).pathname === path).length,
    tokenRequests: [],
    authorizations: [],
    registrations: [],
    metadata: {},
    hanging: new Set(),
    intercept: () => false,
    visit: async (url) => {
      const response = await fetch(url, { redirect: 'manual' });
      return response.headers.get('location') ?? '';
    },
    redirecting: () => undefined,
    expire: () => {
      for (const one of self.access.values()) one.valid = false;
    },
    revoke: () => {
      self.expire();
      for (const one of self.refresh.values()) one.family.revoked = true;
    },
  };
  return self;
}

export interface GuardedServer {
  readonly url: string;
  readonly origin: string;
  /** Methods of the requests that came, with the word that was presented. */
  readonly heard: { readonly method: string; readonly token: string | undefined }[];
  /** All requests to `/mcp` and elsewhere, as they came. */
  readonly requests: readonly SeenRequest[];
  count(method: string): number;
  /** The authorization server that the metadata name. */
  trusts: AuthServer;
  /** Scope that every request needs, and that a call needs besides. */
  scope: string | undefined;
  callScope: string | undefined;
  /** Whatever comes with a call is answered with 403. */
  neverEnough: boolean;
  /** Takes the answer to a request upon itself where it returns true. */
  intercept: (request: SeenRequest, response: ServerResponse) => boolean;
  /** Parameters of every challenge besides. */
  challenge: string;
}

export async function guardedServer(trusts: AuthServer): Promise<GuardedServer> {
  const server = await serve((request, response) => {
    if (self.intercept(request, response)) return;
    const reply = (status: number, body: JsonObject, headers: Record<string, string> = {}): void => {
      response
        .writeHead(status, { 'content-type': 'application/json', ...headers })
        .end(JSON.stringify(body));
    };
    if (request.url === '/.well-known/oauth-protected-resource/mcp') {
      return reply(200, { resource: self.url, authorization_servers: [self.trusts.issuer] });
    }
    if (request.url.replace(/\?.*/, '') !== '/mcp' || request.method !== 'POST') return reply(404, {});
    const { id, method, params } = JSON.parse(request.body) as {
      id: number;
      method: string;
      params: JsonObject;
    };
    const presented = /^(?:Bearer|DPoP) (.+)$/.exec(request.headers.authorization ?? '')?.[1];
    self.heard.push({ method, token: presented });
    const known = presented === undefined ? undefined : self.trusts.access.get(presented);
    const named = `resource_metadata="${self.origin}/.well-known/oauth-protected-resource/mcp"${self.challenge}`;
    if (known?.valid !== true || known.family.revoked) {
      const scope = self.scope === undefined ? '' : `, scope="${self.scope}"`;
      return reply(401, {}, { 'www-authenticate': `Bearer ${named}${scope}` });
    }
    const needed = method === 'tools/call' ? self.callScope : undefined;
    const lacks =
      needed !== undefined && !needed.split(' ').every((one) => known.scope.split(' ').includes(one));
    if (lacks || (self.neverEnough && method === 'tools/call')) {
      const wanted = `error="insufficient_scope", scope="${needed ?? 'more'}"`;
      return reply(403, {}, { 'www-authenticate': `Bearer ${wanted}, ${named}` });
    }
    const results: Record<string, JsonObject> = {
      'server/discover': { supportedVersions: ['2026-07-28'], capabilities: { tools: {} } },
      'tools/list': { tools: [{ name: 'echo', inputSchema: { type: 'object' } }] },
      'tools/call': { content: [{ type: 'text', text: JSON.stringify(params['arguments'] ?? null) }] },
    };
    const result = results[method];
    if (result === undefined)
      return reply(404, { jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } });
    return reply(200, { jsonrpc: '2.0', id, result: { resultType: 'complete', ...result } });
  });
  const self: GuardedServer = {
    url: `${server.origin}/mcp`,
    origin: server.origin,
    heard: [],
    requests: server.requests,
    count: (method) => self.heard.filter((one) => one.method === method).length,
    trusts,
    scope: undefined,
    callScope: undefined,
    neverEnough: false,
    intercept: () => false,
    challenge: '',
  };
  return self;
}

export type Auth = NonNullable<HttpPeerConfig['auth']>;

export interface Guest {
  readonly host: Host;
  /** URLs of the event `authorization`, in order. */
  readonly told: string[];
}

/** A host with one peer, `p`, or with those that `peers` names. */
export function guest(
  peers: Readonly<Record<string, HttpPeerConfig>>,
  options: Partial<HostOptions> & Pick<CreateHostOptions, 'clock'> = {},
): Guest {
  const host = createHost({ retryUnavailableAfterMs: 0, maxAttempts: 0, ...options, peers });
  onTestFinished(() => host.stop());
  const told: string[] = [];
  host.on('authorization', ({ url }) => told.push(url));
  return { host, told };
}
