/** The four lists of a server, and the words of the specification for each. */

export type ListKind = 'tools' | 'prompts' | 'resources' | 'resourceTemplates';

export interface ListWords {
  /** The request that lists. */
  readonly method: string;
  /** The member of its result that holds the items. */
  readonly member: string;
  /** The server capability without which it is not asked for. */
  readonly capability: 'tools' | 'prompts' | 'resources';
  /** The notification that the list changed. Resources and their templates share one. */
  readonly changed: string;
  /** The member of a subscription filter that asks for it. */
  readonly filter: 'toolsListChanged' | 'promptsListChanged' | 'resourcesListChanged';
}

export const LISTS: Readonly<Record<ListKind, ListWords>> = {
  tools: {
    method: 'tools/list',
    member: 'tools',
    capability: 'tools',
    changed: 'notifications/tools/list_changed',
    filter: 'toolsListChanged',
  },
  prompts: {
    method: 'prompts/list',
    member: 'prompts',
    capability: 'prompts',
    changed: 'notifications/prompts/list_changed',
    filter: 'promptsListChanged',
  },
  resources: {
    method: 'resources/list',
    member: 'resources',
    capability: 'resources',
    changed: 'notifications/resources/list_changed',
    filter: 'resourcesListChanged',
  },
  resourceTemplates: {
    method: 'resources/templates/list',
    member: 'resourceTemplates',
    capability: 'resources',
    changed: 'notifications/resources/list_changed',
    filter: 'resourcesListChanged',
  },
};

export const LIST_KINDS: readonly ListKind[] = ['tools', 'prompts', 'resources', 'resourceTemplates'];
