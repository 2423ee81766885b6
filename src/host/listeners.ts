/** A host's listeners: one that throws harms nothing. */
import type { HostEvents } from './facade.js';

type Listener<K extends keyof HostEvents> = (detail: HostEvents[K]) => void;

export class Listeners {
  private readonly byEvent = new Map<keyof HostEvents, Set<Listener<never>>>();

  on<K extends keyof HostEvents>(event: K, listener: Listener<K>): () => void {
    // Wrapped, so that the same function may be added twice and is removed once at a time.
    const own: Listener<K> = (detail) => listener(detail);
    const listeners = this.byEvent.get(event) ?? new Set();
    this.byEvent.set(event, listeners.add(own));
    return () => {
      listeners.delete(own);
    };
  }

  /** Whether anybody would hear it: what is costly to build is built only then. */
  has(event: keyof HostEvents): boolean {
    return (this.byEvent.get(event)?.size ?? 0) > 0;
  }

  emit<K extends keyof HostEvents>(event: K, detail: HostEvents[K]): void {
    for (const listener of [...(this.byEvent.get(event) ?? [])]) {
      try {
        (listener as Listener<K>)(detail);
      } catch {
        // The host's own fault, and nobody's here.
      }
    }
  }
}
