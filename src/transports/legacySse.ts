/** HTTP+SSE of 2024-11-05. */
import type { HttpOptions } from './streamableHttp.js';
import { streamableHttpTransport } from './streamableHttp.js';
import type { TransportFactory } from './transport.js';

export function legacySseTransport(options: HttpOptions): TransportFactory {
  return streamableHttpTransport(options);
}
