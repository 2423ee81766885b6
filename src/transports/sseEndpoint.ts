/** The `endpoint` event of HTTP+SSE (2024-11-05, basic/transports): where messages are sent to. */

export type EndpointReading =
  | { readonly ok: true; readonly url: URL }
  /** A sentence without a full stop. Names an origin at most: path and query may hold a session. */
  | { readonly ok: false; readonly foreign: boolean; readonly detail: string };

/** Longer than any path with a session in it; a request head has to fit 16 KiB with the other headers. */
const MAX_ENDPOINT_BYTES = 4096;
// biome-ignore lint/suspicious/noControlCharactersInRegex: URL drops some of them unseen
const UNFIT = /[\x00-\x1f\x7f]/;

/**
 * Total. The server chooses a path, not a host: messages carry credentials, and go to no other origin than the one that
 * was configured.
 *
 * @param data of the event, valid UTF-8
 * @param stream the URL of the stream, which a relative one is relative to
 */
export function readEndpoint(data: Buffer, stream: URL): EndpointReading {
  const text = data.toString('utf8').trim();
  if (text === '') return refuse('the endpoint event is empty');
  if (data.length > MAX_ENDPOINT_BYTES) {
    return refuse(`the URL in the endpoint event is longer than ${MAX_ENDPOINT_BYTES} bytes`);
  }
  const url = UNFIT.test(text) ? null : parse(text, stream);
  if (url === null) return refuse('the endpoint event holds no URL');
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return refuse('the URL in the endpoint event is neither http: nor https:');
  }
  if (url.origin !== stream.origin) {
    const detail = `the endpoint event names ${url.origin}, another origin than ${stream.origin}; it is not contacted`;
    return { ok: false, foreign: true, detail };
  }
  if (url.username !== '' || url.password !== '') {
    return refuse('the URL in the endpoint event holds a user name or password');
  }
  url.hash = '';
  return { ok: true, url };
}

function parse(text: string, stream: URL): URL | null {
  try {
    return new URL(text, stream);
  } catch {
    return null;
  }
}

function refuse(detail: string): EndpointReading {
  return { ok: false, foreign: false, detail };
}
