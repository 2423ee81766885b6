// The servers of a soak: who they are, how the host reaches them, how they are killed, and what is left of them.

import { spawn } from 'node:child_process';
import { createServer } from 'node:net';
import { fileURLToPath } from 'node:url';

const program = (name) => fileURLToPath(new URL(`./servers/${name}.mjs`, import.meta.url));
const KINDS = [
  { era: 'modern', transport: 'stdio' },
  { era: 'legacy', transport: 'http' },
  { era: 'modern', transport: 'http' },
  { era: 'legacy', transport: 'stdio' },
];
/** Endpoints of one HTTP process. */
const GROUP_SIZE = 5;

/** Where servers report: a line open is a process alive. */
class Switchboard {
  /** Lines by the name of the server; of a server that is being replaced, the latest. */
  lines = new Map();
  sockets = new Set();
  lives = 0;
  #server = createServer((socket) => this.#accept(socket));
  #onHello;

  constructor(onHello) {
    this.#onHello = onHello;
  }

  async open() {
    await new Promise((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    return this.#server.address().port;
  }

  #accept(socket) {
    const line = {
      pid: 0,
      say: (message) => void (socket.destroyed || socket.write(`${JSON.stringify(message)}\n`)),
      onAnswer: null,
    };
    let rest = '';
    let name;
    this.sockets.add(socket);
    socket.setEncoding('utf8');
    socket.on('error', () => {});
    socket.on('close', () => {
      this.sockets.delete(socket);
      if (this.lines.get(name) === line) this.lines.delete(name);
    });
    socket.on('data', (chunk) => {
      const texts = (rest + chunk).split('\n');
      rest = texts.pop();
      for (const text of texts) {
        const message = JSON.parse(text);
        if (message.name === undefined) line.onAnswer?.(message);
        else {
          name = message.name;
          line.pid = message.pid;
          this.lives += 1;
          this.lines.set(name, line);
          this.#onHello(message, line);
        }
      }
    });
  }

  close() {
    for (const socket of this.sockets) socket.destroy();
    return new Promise((resolve) => this.#server.close(resolve));
  }
}

/** An order that is answered. A server that dies meanwhile answers nothing. */
function ask(line, order) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, 2_000, {});
    line.onAnswer = (answer) => {
      clearTimeout(timer);
      resolve(answer);
    };
    line.say({ do: order });
  });
}

/** A process that serves several endpoints; it comes back after it died, on the same port. */
class HttpGroup {
  port = 0;
  constructor(name, peers) {
    this.name = name;
    this.peers = peers;
    this.child = null;
    this.restart = null;
    this.isEnding = false;
  }

  start({ control, dir, random }) {
    const endpoints = this.peers.map((peer) => `${peer.name}:${peer.era}`).join(',');
    const args = ['--name', this.name, '--dir', dir, '--control', control, '--port', this.port];
    this.child = spawn(process.execPath, [program('http'), ...args, '--endpoints', endpoints], {
      stdio: ['ignore', 'ignore', 'inherit'],
    });
    this.gone = new Promise((resolve) => {
      this.child.once('exit', () => {
        resolve();
        if (this.isEnding) return;
        this.restart = setTimeout(() => this.start({ control, dir, random }), random.between(0, 500));
      });
    });
  }

  async end() {
    this.isEnding = true;
    clearTimeout(this.restart);
    this.child.kill('SIGKILL');
    await this.gone;
  }
}

export class Fleet {
  kills = { stdio: 0, process: 0, reset: 0, session: 0 };
  #random;
  #dir;
  #switchboard = new Switchboard((hello, line) => this.#welcome(hello, line));
  #groups;
  #control = 0;
  #greeted = null;

  constructor({ count, dir, random }) {
    this.#dir = dir;
    this.#random = random;
    this.peers = Array.from({ length: count }, (_, i) => ({
      name: `p${String(i).padStart(2, '0')}`,
      // Most end with their input; a few take more, and some legacy ones die of the probe.
      manners: i % 16 === 4 ? 1 : i % 16 === 8 ? 2 : i % 16 === 3 ? 3 : 0,
      ...KINDS[i % KINDS.length],
    }));
    const served = this.peers.filter((peer) => peer.transport === 'http');
    this.#groups = [];
    for (let i = 0; i < served.length; i += GROUP_SIZE)
      this.#groups.push(new HttpGroup(`group${this.#groups.length}`, served.slice(i, i + GROUP_SIZE)));
    for (const group of this.#groups) for (const peer of group.peers) peer.group = group;
  }

  /** Starts the HTTP processes; those on stdio the host starts. */
  async start() {
    this.#control = await this.#switchboard.open();
    const greeted = new Promise((resolve) => {
      this.#greeted = resolve;
    });
    for (const group of this.#groups)
      group.start({ control: this.#control, dir: this.#dir, random: this.#random });
    if (this.#groups.length > 0) await greeted;
  }

  #welcome(hello, line) {
    line.say({ do: 'begin', seed: this.#random.below(2 ** 31) });
    const group = this.#groups.find(({ name }) => name === hello.name);
    if (group === undefined) return;
    group.port = hello.port;
    if (this.#groups.every(({ port }) => port > 0)) this.#greeted();
  }

  /** What the host is told of a peer. */
  configOf(peer) {
    const allowLegacy = peer.era === 'legacy';
    if (peer.transport === 'http')
      return { url: `http://127.0.0.1:${peer.group.port}/${peer.name}`, allowLegacy };
    const { name, era, manners } = peer;
    const args = ['--name', name, '--era', era, '--dir', this.#dir, '--control', this.#control];
    return {
      command: process.execPath,
      args: [program('stdio'), ...args, '--manners', manners].map(String),
      allowLegacy,
    };
  }

  /** Does something bad to one server. */
  strike() {
    const random = this.#random;
    const peer = random.pick(this.peers);
    if (peer.transport === 'stdio') {
      if (this.#signal(peer.name)) this.kills.stdio += 1;
    } else if (random.chance(0.1)) {
      if (this.#signal(peer.group.name)) this.kills.process += 1;
    } else {
      const isSession = peer.era === 'legacy' && random.chance(0.4);
      this.#switchboard.lines
        .get(peer.group.name)
        ?.say({ do: isSession ? 'forget' : 'reset', peer: peer.name });
      this.kills[isSession ? 'session' : 'reset'] += 1;
    }
  }

  #signal(name) {
    const line = this.#switchboard.lines.get(name);
    if (line === undefined) return false;
    try {
      process.kill(line.pid, 'SIGKILL');
      return true;
    } catch {
      // It has just died by itself.
      return false;
    }
  }

  get lives() {
    return this.#switchboard.lives;
  }

  /** Server processes alive that the host started. */
  get children() {
    return (
      this.#switchboard.sockets.size - this.#groups.filter(({ child }) => child.exitCode === null).length
    );
  }

  /** Lets all servers come to rest; the generation of the tools of each peer. */
  async rest() {
    const answers = await Promise.all([...this.#switchboard.lines.values()].map((line) => ask(line, 'rest')));
    return Object.assign({}, ...answers.map(({ generations }) => generations));
  }

  /** Connections that the HTTP processes still hold. */
  async connections() {
    let sum = 0;
    for (const group of this.#groups) {
      const line = this.#switchboard.lines.get(group.name);
      if (line === undefined) continue;
      sum += (await ask(line, 'connections')).connections;
    }
    return sum;
  }

  async end() {
    await Promise.all(this.#groups.map((group) => group.end()));
    await this.#switchboard.close();
  }
}
