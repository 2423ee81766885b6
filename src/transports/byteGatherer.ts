/** Bytes that arrive in pieces and are wanted as one. */

/** Smaller pieces are copied together: ten million chunks of one byte must not become ten million objects. */
const SMALL_BYTES = 4096;
const BLOCK_BYTES = 16 * 1024;

export interface ByteGatherer {
  readonly size: number;
  /** Keeps the piece itself or a copy of it. The caller must not change it afterwards. */
  add(piece: Buffer): void;
  /** Everything gathered, in order; the gatherer is empty afterwards. A lone piece is returned without a copy. */
  take(): Buffer;
}

export function createByteGatherer(): ByteGatherer {
  let pieces: Buffer[] = [];
  let size = 0;
  /** Bytes of `block` in use; those from `blockStart` on are not among `pieces` yet. */
  let block: Buffer | null = null;
  let blockStart = 0;
  let blockEnd = 0;

  function sealBlock(): void {
    if (block !== null && blockEnd > blockStart) pieces.push(block.subarray(blockStart, blockEnd));
    blockStart = blockEnd;
  }

  return {
    get size() {
      return size;
    },
    add(piece) {
      if (piece.length === 0) return;
      const small = size > 0 && piece.length < SMALL_BYTES;
      size += piece.length;
      if (!small) {
        sealBlock();
        pieces.push(piece);
        return;
      }
      if (block === null || blockEnd + piece.length > block.length) {
        sealBlock();
        block = Buffer.allocUnsafeSlow(BLOCK_BYTES);
        blockStart = 0;
        blockEnd = 0;
      }
      blockEnd += piece.copy(block, blockEnd);
    },
    take() {
      sealBlock();
      const [only] = pieces;
      const whole = pieces.length === 1 && only !== undefined ? only : Buffer.concat(pieces, size);
      pieces = [];
      size = 0;
      block = null;
      blockStart = 0;
      blockEnd = 0;
      return whole;
    },
  };
}
