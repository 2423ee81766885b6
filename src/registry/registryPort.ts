/** The registry machine's way to the store: commands in, one merge for all commands of a tick, a report out. */
import { fromCallback } from 'xstate';
import type { RegistryCommand, RegistryReport } from './registryPorts.js';
import { applyCommand } from './registryPorts.js';
import type { LeaseChange, RegistryStore } from './store.js';

/**
 * The actor that a host provides as `merge`. It merges once at its start, so that a host without peers settles too.
 * A `publish` that somebody else calls is reported as well. Stopped, it publishes nothing more.
 */
export function createRegistryPort(store: RegistryStore) {
  return fromCallback<RegistryCommand>(({ receive, sendBack }) => {
    let stopped = false;
    let scheduled = false;

    const report = (change: LeaseChange | null) => {
      const { revision, pending, entries } = store.lease;
      const told = change && withoutLease(change);
      const merged: RegistryReport = {
        type: 'registry.merged',
        revision,
        pending: pending.length,
        tools: entries.size,
        change: told,
      };
      sendBack(merged);
    };
    const guarded = (work: () => void) => {
      try {
        work();
      } catch (error) {
        const crashed: RegistryReport = { type: 'registry.crashed', message: String(error) };
        sendBack(crashed);
      }
    };
    const merge = () => {
      scheduled = false;
      if (stopped) return;
      guarded(() => {
        if (store.publish() === null) report(null);
      });
    };
    const schedule = () => {
      if (scheduled) return;
      scheduled = true;
      queueMicrotask(merge);
    };

    const unsubscribe = store.subscribe(report);
    receive((command) => {
      guarded(() => applyCommand(store, command));
      schedule();
    });
    schedule();
    return () => {
      stopped = true;
      unsubscribe();
    };
  });
}

function withoutLease({ added, removed, changed, conflicts }: LeaseChange): Omit<LeaseChange, 'lease'> {
  return { added, removed, changed, conflicts };
}
