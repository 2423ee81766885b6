/** Takes the content coding off a body. */
import type { Transform } from 'node:stream';
import { constants, createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib';

/** Where decoded bytes go, and how the decoder makes the socket wait. */
export interface BodyConsumer {
  data(chunk: Buffer): void;
  end(): void;
  /** The coding is broken; a sentence. */
  fail(detail: string): void;
  pause(): void;
  resume(): void;
}

export interface BodyDecoder {
  push(chunk: Buffer): void;
  /** No more bytes. What was pushed is still decoded; then `end` or `fail` of the consumer is called. */
  end(): void;
  /** Forgets everything; the consumer is not called any more. */
  destroy(): void;
}

/**
 * No coding is asked for: a server that gathers a compressed event stream until its end would look dead. One that
 * compresses all the same is understood. How large the decoded body may get is the consumer's to say: it sees every
 * piece (16 KiB at most) before the next one is made, and calls `destroy`.
 *
 * @param contentEncoding the header's value
 * @returns `null` for the identity, which needs no decoder; a sentence where the coding is not known
 */
export function createBodyDecoder(
  contentEncoding: string | undefined,
  consumer: BodyConsumer,
): BodyDecoder | string | null {
  if (contentEncoding === undefined) return null;
  const codings = contentEncoding
    .toLowerCase()
    .split(',')
    .map((coding) => coding.trim())
    .filter((coding) => coding !== '' && coding !== 'identity');
  const [coding] = codings;
  if (coding === undefined) return null;
  const make = codings.length === 1 ? DECODERS.get(coding) : undefined;
  if (make === undefined)
    return `the content coding "${codings.join(', ')}" was not asked for and is not understood`;
  return decodeWith(make, coding, consumer);
}

const ZLIB = { flush: constants.Z_SYNC_FLUSH };

const DECODERS = new Map<string, (firstByte: number) => Transform>([
  ['gzip', () => createGunzip(ZLIB)],
  ['x-gzip', () => createGunzip(ZLIB)],
  // Some send the bare format (RFC 1951) under this name; the low half of the first byte tells.
  ['deflate', (first) => ((first & 0x0f) === 0x08 ? createInflate(ZLIB) : createInflateRaw(ZLIB))],
  ['br', () => createBrotliDecompress({ flush: constants.BROTLI_OPERATION_FLUSH })],
]);

function decodeWith(
  make: (firstByte: number) => Transform,
  coding: string,
  consumer: BodyConsumer,
): BodyDecoder {
  let stream: Transform | null = null;
  let over = false;
  let paused = false;

  function open(first: number): Transform {
    return (
      make(first)
        .on('data', (chunk: Buffer) => {
          if (!over) consumer.data(chunk);
        })
        .on('drain', () => {
          paused = false;
          if (!over) consumer.resume();
        })
        .on('end', () => {
          if (over) return;
          over = true;
          consumer.end();
        })
        // Stays in place after `destroy`: an error that is already on its way must find a listener.
        .on('error', () => {
          if (over) return;
          over = true;
          consumer.fail(`the body is no valid ${coding}`);
        })
    );
  }

  return {
    push(chunk) {
      const [first] = chunk;
      if (over || first === undefined) return;
      stream ??= open(first);
      if (!stream.write(chunk) && !paused) {
        paused = true;
        consumer.pause();
      }
    },
    end() {
      if (over) return;
      if (stream !== null) {
        stream.end();
        return;
      }
      over = true;
      consumer.end();
    },
    destroy() {
      over = true;
      stream?.destroy();
    },
  };
}
