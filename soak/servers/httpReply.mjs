// Where the answer to one POST goes: one JSON message, or an event stream as soon as something comes before it.

const HEADERS = { 'content-type': 'text/event-stream', 'cache-control': 'no-store' };
const event = (message) => `event: message\ndata: ${JSON.stringify(message)}\n\n`;
const isOpen = (response) => !response.writableEnded && !response.destroyed;

export function httpReply(response) {
  let streams = false;
  const send = (message) => {
    if (!isOpen(response)) return false;
    if (!streams) response.writeHead(200, HEADERS);
    streams = true;
    response.write(event(message));
    return true;
  };
  return {
    send,
    end(message) {
      if (!isOpen(response)) return;
      // Both forms are allowed; which one, the id decides.
      if (streams || message.id % 3 === 0) {
        send(message);
        response.end();
      } else {
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(message));
      }
    },
    drop() {
      if (!isOpen(response)) return;
      if (streams) response.end();
      else response.writeHead(202).end();
    },
    onClosed(act) {
      response.on('close', act);
    },
  };
}

/** A stream that the client opened with GET. */
export function eventStream(response) {
  response.writeHead(200, HEADERS);
  response.write(': open\n\n');
  return {
    send(message) {
      if (!isOpen(response)) return false;
      response.write(event(message));
      return true;
    },
    end: () => response.end(),
  };
}
