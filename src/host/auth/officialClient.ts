/** The official package, which is large: loaded when a flow first needs it, and by nobody else. */

export type OfficialClient = typeof import('@modelcontextprotocol/client');

let loading: Promise<OfficialClient> | null = null;

export function officialClient(): Promise<OfficialClient> {
  loading ??= import('@modelcontextprotocol/client');
  return loading;
}
