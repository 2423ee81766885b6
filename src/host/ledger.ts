/**
 * What permits `initialize`: kept by the owner of a peer, outside XState and outside the transport.
 *
 * No event, input or context reaches in here. The chart's guard `mayProbeLegacy` asks {@link Ledger.refusal} so that
 * the decision can be seen; the wire asks {@link Ledger.permit} in the tick of the write, and nothing else counts.
 */
import type { ModernSign, ProbeVerdict } from '../protocol/evidence.js';
import { issueLegacyPermit, type LegacyPermit } from '../transports/permit.js';

/** Modern evidence by pin, for the life of a host (N12). It can forbid, never permit. */
export interface Ratchet {
  get(pin: string): ModernSign | undefined;
  set(pin: string, sign: ModernSign): void;
  delete(pin: string): void;
}

/**
 * @param stored a memory that outlives this one, such as a file. It is asked and told besides; where it fails, this
 *   one still knows what it was told, and what cannot be asked forbids.
 */
export function createRatchet(stored?: Ratchet): Ratchet {
  const own = new Map<string, ModernSign>();
  if (stored === undefined) return own;
  return {
    get(pin) {
      try {
        return own.get(pin) ?? stored.get(pin);
      } catch {
        return { kind: 'code', value: 'the stored evidence cannot be read' };
      }
    },
    set(pin, sign) {
      own.set(pin, sign);
      try {
        stored.set(pin, sign);
      } catch {
        // Remembered here for the life of the host.
      }
    },
    delete(pin) {
      own.delete(pin);
      stored.delete(pin);
    },
  };
}

/** Why `initialize` is not permitted now. */
export type Refusal =
  | 'not-allowlisted'
  | 'pin-changed'
  | 'modern-evidence'
  | 'no-verdict' // no probe of this negotiation was judged, or it was judged otherwise
  | 'spent'; // one `initialize` was sent in this negotiation

export interface LedgerOptions {
  /** `allowLegacy` of the peer's frozen configuration. */
  readonly allowLegacy: boolean;
  /** The pin the peer was configured with (N8). */
  readonly pin: string;
  /** The pin as computed now, from what a new connection would really use. */
  readonly currentPin: () => string;
  readonly ratchet: Ratchet;
}

export class Ledger {
  private readonly options: LedgerOptions;
  private verdict: ProbeVerdict['type'] | null = null;
  private isNegotiating = false;
  private sent = 0;
  private sign: ModernSign | null = null;

  constructor(options: LedgerOptions) {
    this.options = options;
  }

  /** `initialize` requests permitted in this negotiation. */
  get initializeSent(): number {
    return this.sent;
  }

  /** Modern evidence seen since this negotiation began. */
  get signSeen(): ModernSign | null {
    return this.sign;
  }

  /**
   * A probe is about to be sent. It belongs to the negotiation under way, if there is one: after N3 and N4, and after
   * modern evidence in answer to `initialize` (N12). Returns whether a new negotiation began.
   */
  probing(): boolean {
    this.verdict = null;
    if (this.isNegotiating) return false;
    this.isNegotiating = true;
    this.sent = 0;
    this.sign = null;
    return true;
  }

  /** The owner judged the outcome of the last probe. */
  judged(verdict: ProbeVerdict['type']): void {
    this.verdict = verdict;
  }

  /** The chart left the states that negotiate: the next probe begins a new negotiation. */
  settled(): void {
    this.isNegotiating = false;
    this.verdict = null;
  }

  /** Modern evidence was decoded (N12, N21). */
  modern(sign: ModernSign): void {
    this.sign ??= sign;
    this.options.ratchet.set(this.options.pin, sign);
  }

  /** Whether this peer has ever given modern evidence, as far as is remembered. */
  get isModern(): boolean {
    return this.options.ratchet.get(this.options.pin) !== undefined;
  }

  refusal(): Refusal | null {
    const { allowLegacy, pin, currentPin, ratchet } = this.options;
    if (allowLegacy !== true) return 'not-allowlisted';
    if (currentPin() !== pin) return 'pin-changed';
    if (ratchet.get(pin) !== undefined) return 'modern-evidence';
    if (this.verdict !== 'discover.ambiguous' && this.verdict !== 'discover.legacyOnly') return 'no-verdict';
    if (this.sent > 0) return 'spent';
    return null;
  }

  /** Asked in the tick of the write: a permit for one `initialize` on `connection`, or null. */
  permit(connection: object): LegacyPermit | null {
    if (this.refusal() !== null) return null;
    this.sent += 1;
    return issueLegacyPermit(connection);
  }
}
