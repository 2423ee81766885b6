// Preloaded into the driver (`node --import`): writes down what the process hands to its sockets, and how it ends.
// It looks at Node's own sockets, below every HTTP client, and knows nothing of this package.
//
// The record is the file PEERAGE_CONFORMANCE_RECORD, one JSON document a line: `{socket, port, data}` for every
// write to a socket that was connected to a port (`data` in base64), and `{url}` (the last argument) and `{exit}`.

import { appendFileSync } from 'node:fs';
import { Socket } from 'node:net';

const file = process.env['PEERAGE_CONFORMANCE_RECORD'];

/** Sockets in the order in which they were opened. Pipes and accepted connections are not among them. */
const opened = new WeakMap();
let count = 0;

const append = (entry) => appendFileSync(file, `${JSON.stringify(entry)}\n`);

function record(socket, chunks) {
  const it = opened.get(socket);
  if (it === undefined) return;
  const data = Buffer.concat(chunks.map(({ chunk, encoding }) => Buffer.from(chunk, encoding)));
  append({ ...it, data: data.toString('base64') });
}

if (file !== undefined) {
  const { connect, _write: write, _writev: writev } = Socket.prototype;

  Socket.prototype.connect = function connectRecorded(...args) {
    // Node's own callers hand over an array of what was given to `net.connect`.
    const [first, second] = Array.isArray(args[0]) ? args[0] : args;
    const options = typeof first === 'object' && first !== null ? first : { port: first, host: second };
    if (options.port !== undefined && !opened.has(this)) {
      count += 1;
      opened.set(this, { socket: count, port: Number(options.port) });
    }
    return connect.apply(this, args);
  };
  Socket.prototype._write = function writeRecorded(chunk, encoding, callback) {
    record(this, [{ chunk, encoding }]);
    return write.call(this, chunk, encoding, callback);
  };
  Socket.prototype._writev = function writevRecorded(chunks, callback) {
    record(this, chunks);
    return writev.call(this, chunks, callback);
  };

  append({ url: process.argv.at(-1) });
  process.on('exit', (code) => append({ exit: code }));
}
