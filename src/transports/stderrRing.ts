/** The last words of a process: what it wrote to stderr, bounded, for the cause of its end. */
import { printable } from './printable.js';

/** Longest tail told, in UTF-8. */
export const STDERR_TAIL_BYTES = 4 * 1024;

/** More is kept than told, so that a secret at the cut is still whole when it is looked for. */
const KEPT_BYTES = 4 * STDERR_TAIL_BYTES;

/** A value shorter than this says nothing (`1`, `true`, `en`), and replacing it would spoil the text. */
const SHORTEST_SECRET = 6;

export class StderrRing {
  private readonly bytes = Buffer.alloc(KEPT_BYTES);
  private readonly secrets: readonly (readonly [name: string, value: string])[];
  private at = 0;
  private full = false;

  /** @param secrets configured environment: where a value appears in the text, the tail shows its name */
  constructor(secrets: Readonly<Record<string, string>> = {}) {
    this.secrets = Object.entries(secrets)
      .filter(([, value]) => value.length >= SHORTEST_SECRET)
      // The longest first: one value may contain another.
      .sort(([, a], [, b]) => b.length - a.length);
  }

  push(chunk: Buffer): void {
    const part = chunk.length > KEPT_BYTES ? chunk.subarray(chunk.length - KEPT_BYTES) : chunk;
    const copied = part.copy(this.bytes, this.at);
    if (copied < part.length) {
      part.copy(this.bytes, 0, copied);
      this.full = true;
    }
    this.at += part.length;
    if (this.at >= KEPT_BYTES) {
      this.at -= KEPT_BYTES;
      this.full = true;
    }
  }

  /** The tail as text, control characters replaced; empty if nothing was written. */
  tail(): string {
    const raw = this.full
      ? Buffer.concat([this.bytes.subarray(this.at), this.bytes.subarray(0, this.at)])
      : this.bytes.subarray(0, this.at);
    let text = raw.toString('utf8');
    for (const [name, value] of this.secrets) text = text.replaceAll(value, () => `[${name}]`);
    return printable(text, STDERR_TAIL_BYTES, 'tail').trim();
  }
}
