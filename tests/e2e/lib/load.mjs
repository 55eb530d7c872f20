// Closed-loop HTTP clients that count the result of each request by kind. They use plain sockets with a small
// parser, because an HTTP client library would hide the failures under test: it retries, uses another
// connection, or converts a reset. Nothing here retries.
import net from 'node:net';

import { whereIs } from './sockets.mjs';

/** A request without an answer for this long counts as a timeout. */
const ANSWER_MS_MAX = 180_000;

/** Time limit of a load, in case its test fails without stopping it. */
const LOAD_MS_MAX = 900_000;

/**
 * A connection is given its next request only when it cannot have been quiet for longer than this. A worker that
 * leaves closes connections that have been quiet for 1 s; a client without a core for that long would hit that close,
 * and it is the machine, not the server, that made it late.
 */
const QUIET_MS_MAX = 600;

/** The pause between an answer and the next request of its client: without one, each load would take a whole core from the tests beside it. */
const PAUSE_MS = 10;

/**
 * The results of all requests.
 *
 * `success`: the complete expected answer arrived. `reset`: the connection ended before that, by a reset or by an
 * early end. `refused`: no connection was made. `timeout`: no answer in time. `unexpected`: another answer.
 * @typedef {{ success: number, reset: number, refused: number, timeout: number, unexpected: number }} Counts
 */

/** @returns {Counts} */
const none = () => ({ success: 0, reset: 0, refused: 0, timeout: 0, unexpected: 0 });

/** A body of known length, or null when it is not whole yet. @param {string} text @param {number} length */
function parseLength(text, length) {
  return text.length < length ? null : { body: text.slice(0, length), rest: text.slice(length) };
}

/** A body in chunks, without trailers, or null when it is not whole yet. @param {string} text */
function parseChunks(text) {
  let body = '';
  for (let at = 0; ;) {
    const sizeEnd = text.indexOf('\r\n', at);
    if (sizeEnd < 0) return null;
    const size = Number.parseInt(text.slice(at, sizeEnd), 16);
    const end = sizeEnd + 2 + size + 2;
    if (text.length < end) return null;
    body += text.slice(sizeEnd + 2, end - 2);
    if (!(size > 0)) return { body, rest: text.slice(end) };
    at = end;
  }
}

/** The answer at the start of a text, or null when it is not whole yet. @param {string} text */
function parseAnswer(text) {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd < 0) return null;
  const head = text.slice(0, headEnd);
  const after = text.slice(headEnd + 4);
  const length = /\r\ncontent-length: *(\d+)/i.exec(head);
  const isChunked = /\r\ntransfer-encoding: *chunked/i.test(head);
  // Servers under test send a length or chunks; an answer with neither is not theirs.
  if (!length && !isChunked) return { status: -1, body: text, closes: true, rest: '' };
  const content = isChunked ? parseChunks(after) : parseLength(after, Number(length?.[1]));
  if (!content) return null;
  return {
    status: Number(head.slice(9, 12)),
    ...content,
    closes: /\r\nconnection: *close/i.test(head),
  };
}

/** One client: sends requests one after the other, on one connection or on a new connection each. */
class Client {
  /** @param {Load} load @param {boolean} keepAlive */
  constructor(load, keepAlive) {
    this.load = load;
    this.keepAlive = keepAlive;
    this.path = load.options.path ?? '/';
    /** @type {net.Socket | null} */
    this.socket = null;
    this.text = '';
    this.waiting = false;
    this.requests = 0;
    this.asked = 0;
    /** The body of its last answer. */
    this.answer = '';
    /** @type {() => void} */
    this.finished = () => {};
    this.done = new Promise((resolve) => { this.finished = () => resolve(undefined); });
  }

  next() {
    if (this.load.stopping) {
      this.socket?.destroy();
      this.finished();
      return;
    }
    this.waiting = true;
    this.text = '';
    if (this.socket) this.ask();
    else this.connect();
  }

  connect() {
    const socket = net.connect({ host: '127.0.0.1', port: this.load.options.port, noDelay: true });
    this.socket = socket;
    this.requests = 0;
    this.asked = Date.now();
    socket.setEncoding('latin1');
    let connected = false;
    socket.once('connect', () => {
      connected = true;
      if (this.mayBeQuiet()) this.again(socket);
      else this.ask();
    });
    socket.on('data', (text) => this.take(socket, String(text)));
    socket.on('end', () => this.lose(socket, 'reset', 'end of the stream'));
    socket.on('error', (error) => this.lose(socket, connected ? 'reset' : 'refused', error.message));
    socket.setTimeout(ANSWER_MS_MAX, () => {
      const { localPort, remotePort } = socket;
      const where = localPort && remotePort ? whereIs(localPort, remotePort) : 'not connected';
      this.lose(socket, 'timeout', `no answer: ${where}`);
    });
  }

  mayBeQuiet() {
    return Date.now() - this.asked > QUIET_MS_MAX;
  }

  /** A new connection instead of an unused one. */
  again(socket) {
    this.load.unused += 1;
    this.drop(socket);
    this.next();
  }

  ask() {
    this.requests += 1;
    this.asked = Date.now();
    const connection = this.keepAlive ? 'keep-alive' : 'close';
    this.socket?.write(`GET ${this.path} HTTP/1.1\r\nHost: localhost\r\nConnection: ${connection}\r\n\r\n`);
  }

  take(socket, text) {
    if (socket !== this.socket) return;
    this.text += text;
    const answer = parseAnswer(this.text);
    if (!answer) return;
    const { expect = /./ } = this.load.options;
    if (!this.waiting || answer.rest || answer.status !== 200 || !expect.test(answer.body)) {
      this.load.count('unexpected', `${answer.status} ${answer.body.slice(0, 200)}`);
      this.drop(socket);
    } else {
      this.load.succeed(answer.body);
      this.answer = answer.body;
      // When the answer came is the kernel's secret: at the earliest right after the request.
      if (answer.closes || !this.keepAlive || this.mayBeQuiet()) this.drop(socket);
    }
    this.waiting = false;
    const { pauseMs = PAUSE_MS } = this.load.options;
    if (!pauseMs) return this.next();
    setTimeout(() => {
      if (this.socket && this.mayBeQuiet()) this.drop(this.socket);
      this.next();
    }, pauseMs);
  }

  /** The connection was closed: a failed request if one was in progress, else not a failure of the server. */
  lose(socket, kind, why) {
    if (socket !== this.socket) return;
    this.drop(socket);
    if (!this.waiting) return;
    this.waiting = false;
    this.load.count(kind, `${why}, ${Date.now() - this.asked} ms after request ${this.requests} of its connection`);
    this.next();
  }

  drop(socket) {
    socket.destroy();
    if (this.socket === socket) this.socket = null;
  }
}

/** A load that runs until it is stopped, or until its limit. */
class Load {
  /** @param {Options} options */
  constructor(options) {
    this.options = options;
    this.counts = none();
    /** @type {Map<string, number>} Successes by body: the fixtures answer with their pid. */
    this.answers = new Map();
    /** @type {string[]} The first failures, in words. */
    this.failures = [];
    this.stopping = false;
    /** How many connections were made and then not used, because the machine was too slow. */
    this.unused = 0;
    this.clients = [
      ...Array.from({ length: options.closing ?? 0 }, () => new Client(this, false)),
      ...Array.from({ length: options.keeping ?? 0 }, () => new Client(this, true)),
    ];
    this.bound = setTimeout(() => {
      this.count('timeout', `the load has run for ${LOAD_MS_MAX / 1000} s`);
      this.stopping = true;
    }, LOAD_MS_MAX).unref();
    for (const client of this.clients) client.next();
  }

  /** @param {keyof Counts} kind @param {string} why */
  count(kind, why) {
    this.counts[kind] += 1;
    if (this.failures.length < 20) this.failures.push(`${kind}: ${why}`);
  }

  /** @param {string} body */
  succeed(body) {
    this.counts.success += 1;
    this.answers.set(body, (this.answers.get(body) ?? 0) + 1);
  }

  get failed() {
    const { success: _success, ...rest } = this.counts;
    return Object.values(rest).reduce((sum, count) => sum + count, 0);
  }

  /** Stops after the answers in progress. */
  async stop() {
    this.stopping = true;
    clearTimeout(this.bound);
    await Promise.all(this.clients.map((client) => client.done));
    return this.counts;
  }
}

/**
 * Starts a load: `closing` clients that connect anew for each request, `keeping` ones that keep their
 * connection for as long as the server does. `pauseMs` is between an answer and the next request of its client; 0 is none.
 * @typedef {{ port: number, path?: string, closing?: number, keeping?: number, pauseMs?: number, expect?: RegExp }} Options
 * @param {Options} options
 */
export function startLoad(options) {
  return new Load(options);
}
