/**
 * Hosts come and go over one store, for different people, while servers change their lists, scopes and ttls, connections
 * break and time passes: nobody ever sees what the server did not mark public and gave to somebody else, and nobody
 * sees anything of another server.
 */
import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createMemoryStore } from '../../src/cache/memoryStore.js';
import { createHost } from '../../src/host/createHost.js';
import type { Host } from '../../src/host/facade.js';
import type { JsonObject } from '../../src/protocol/jsonRpc.js';
import type { ListKind } from '../../src/protocol/lists.js';
import { createSimulatedClock } from '../../src/testing/clock.js';
import { CHANGING, EVERYTHING, idle, type Library, library, pass } from './library.js';

const PLACES = 5;

interface Place {
  readonly identity: string;
  /** `null`: nobody says for whom it is; then it is this host's own. */
  readonly context: string | null;
  readonly scope: string | null;
  readonly ttlMs: number | null;
  readonly announces: boolean;
}

type Step =
  | {
      readonly do: 'start' | 'stop' | 'die' | 'tools' | 'prompts' | 'refresh' | 'read';
      readonly place: number;
    }
  | {
      readonly do: 'change';
      readonly place: number;
      readonly scope: string | null;
      readonly ttlMs: number | null;
    }
  | { readonly do: 'announce'; readonly place: number; readonly kind: ListKind }
  | { readonly do: 'wait'; readonly ms: number };

const scope = fc.constantFrom('public', 'public', 'private', 'private', null, 'PUBLIC');
const ttlMs = fc.constantFrom(null, -1, 50, 5_000, 10_000_000, 10_000_000, 10_000_000);
const place = fc.nat(PLACES - 1);
const places = fc.array(
  fc.record<Place>({
    identity: fc.constantFrom('a', 'a', 'b'),
    context: fc.constantFrom('x', 'y', null),
    scope,
    ttlMs,
    announces: fc.boolean(),
  }),
  { minLength: PLACES, maxLength: PLACES },
);
const steps = fc.array(
  fc.oneof<fc.WeightedArbitrary<Step>[]>(
    {
      weight: 6,
      arbitrary: fc.record({
        do: fc.constantFrom('start', 'start', 'start', 'stop', 'die', 'tools', 'prompts', 'refresh', 'read'),
        place,
      }),
    },
    { weight: 1, arbitrary: fc.record({ do: fc.constant('change' as const), place, scope, ttlMs }) },
    {
      weight: 1,
      arbitrary: fc.record({
        do: fc.constant('announce' as const),
        place,
        kind: fc.constantFrom('tools', 'prompts', 'resources'),
      }),
    },
    {
      weight: 2,
      arbitrary: fc.record({ do: fc.constant('wait' as const), ms: fc.constantFrom(10, 300, 6_000) }),
    },
  ),
  { minLength: 20, maxLength: 50, size: 'max' },
);

/** What was seen of somebody else's, over all runs: proof that there is something to be seen. */
let sharedItems = 0;

/** One who asks: a server that labels each item with who asked, and under which scope; and the host that runs now. */
class Asker {
  readonly lib: Library;
  host: Host | null = null;
  private life = 0;
  private scope: string | null;
  private ttlMs: number | null;
  private answers = 0;
  private readonly place: Place;

  constructor(place: Place, index: number) {
    this.place = place;
    this.scope = place.scope;
    this.ttlMs = place.ttlMs;
    this.lib = library({
      identity: place.identity,
      ...(place.context === null ? {} : { authorizationContext: place.context }),
      capabilities: place.announces ? CHANGING : EVERYTHING,
      on: ({ method }) => {
        if (method?.endsWith('/list') !== true && method !== 'resources/read') return undefined;
        this.answers += 1;
        const label = [place.identity, this.owner(index), this.scope ?? 'none', this.answers].join('_');
        this.lib.items.tools = [{ name: label, inputSchema: { type: 'object' } }];
        this.lib.items.prompts = [{ name: label }];
        this.lib.text = label;
        return undefined;
      },
      hints: () => {
        const hint: Record<string, string | number> = {};
        if (this.scope !== null) hint['cacheScope'] = this.scope;
        if (this.ttlMs !== null) hint['ttlMs'] = this.ttlMs;
        return hint as JsonObject;
      },
    });
  }

  /** Whose private answers a host of this place may see: those of its context, or its own life's. */
  owner(index: number): string {
    return this.place.context ?? `place${index}life${this.life}`;
  }

  began(host: Host): void {
    this.host = host;
    this.life += 1;
  }

  change(scope: string | null, ttlMs: number | null): void {
    this.scope = scope;
    this.ttlMs = ttlMs;
  }

  /** Throws where one of these may not be seen from here. */
  judge(index: number, labels: readonly string[]): void {
    for (const label of labels) {
      const [identity, owner, labelled] = label.split('_');
      const isOwn = owner === this.owner(index);
      if (!isOwn) sharedItems += 1;
      if (identity !== this.place.identity || !(isOwn || labelled === 'public')) {
        throw new Error(`${this.place.identity}/${this.owner(index)} saw ${label}`);
      }
    }
  }
}

test('what is not public never crosses from one who asks to another', { timeout: 120_000 }, async () => {
  await fc.assert(
    fc.asyncProperty(places, steps, async (given, script) => {
      const clock = createSimulatedClock();
      const store = createMemoryStore({ now: clock.now });
      const askers = given.map((it, index) => new Asker(it, index));
      const started: Host[] = [];
      const waiting: Promise<unknown>[] = [];
      try {
        for (const step of script) {
          if (step.do === 'wait') {
            await pass(clock, step.ms);
            continue;
          }
          const asker = askers[step.place] as Asker;
          if (step.do === 'change') asker.change(step.scope, step.ttlMs);
          else if (step.do === 'announce') asker.lib.announce(step.kind);
          else if (step.do === 'start' && asker.host === null) {
            const host = createHost({ peers: { it: asker.lib.config }, clock, store, random: () => 0.5 });
            asker.began(host);
            started.push(host);
            const look = (): void => asker.judge(step.place, [...host.catalog().entries.keys()]);
            host.on('catalogChanged', () => {
              waiting.push(Promise.resolve().then(look));
            });
            await host.start();
          } else if (asker.host !== null) {
            waiting.push(act(asker, asker.host, step.do, step.place));
            if (step.do === 'stop') asker.host = null;
          }
          await idle();
        }
        await pass(clock, 31_000);
      } finally {
        await Promise.all(started.map((host) => host.stop()));
      }
      await Promise.all(waiting);
    }),
    { numRuns: 60 },
  );
  expect(sharedItems).toBeGreaterThan(5);
});

async function act(asker: Asker, host: Host, what: string, index: number): Promise<void> {
  switch (what) {
    case 'stop':
      return host.stop();
    case 'die':
      return asker.lib.die();
    case 'tools':
      return asker.judge(index, [...host.catalog().entries.keys()]);
    case 'refresh':
      return host.peer('it').refresh();
    case 'prompts': {
      const owner = asker.owner(index);
      const { items } = await host.listPrompts();
      // Another life may have begun meanwhile.
      if (owner === asker.owner(index))
        asker.judge(
          index,
          items.map(({ name }) => name),
        );
      return;
    }
    case 'read': {
      const owner = asker.owner(index);
      const outcome = await host.readResource('it', 'note:///a');
      if (outcome.status === 'ok' && owner === asker.owner(index)) {
        asker.judge(index, [String(outcome.value.contents[0]?.['text'])]);
      }
    }
  }
}
