// Four kinds of clients. Each request has an id of its own, is sent once, and is written down with what became of it. Nothing here retries.
import net from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';

/** A request without an answer for this long counts as unanswered. */
const ANSWER_MS_MAX = 60_000;

/**
 * A connection that has been quiet for longer is not used again. A worker that leaves closes connections that have been quiet for 1 s, and a
 * request that crosses that close is nobody's fault.
 */
const QUIET_MS_MAX = 600;

/**
 * A request and its end.
 * @typedef {object} Request
 * @property {string} id
 * @property {string} kind of its client: new, kept, slow or websocket
 * @property {number} sentAt in ms since 1970, before it was sent or its connection was made
 * @property {number} endedAt
 * @property {'answered' | 'refused' | 'cut' | 'unanswered' | 'wrong'} end
 * @property {string} [why] in words, unless it was answered
 * @property {number} [pid] of the process that answered
 * @property {number} [heldBy] the process that answered the request before on the same connection
 * @property {number} [sinceLastMs] how long before the request before was sent on the same connection
 */

/** An HTTP/1 connection for one request at a time. */
class Connection {
  /** @param {number} port */
  constructor(port) {
    this.text = '';
    this.isOpen = false;
    this.isOver = false;
    this.quietSince = Date.now();
    /** @type {number | undefined} */
    this.heldBy = undefined;
    this.settle = (_end) => {};
    /** How it ended. @type {{ end: string, why: string } | undefined} */
    this.over = undefined;
    this.socket = net.connect({ host: '127.0.0.1', port, noDelay: true });
    this.socket.setEncoding('latin1');
    /** Settles when it is open, or has ended. */
    this.opened = new Promise((resolve) => {
      this.socket.once('connect', () => {
        this.isOpen = true;
        resolve(undefined);
      });
      this.socket.once('close', resolve);
    });
    this.socket.on('data', (text) => {
      this.text += text;
      const answer = /^HTTP\/1\.1 (\d+) [^]*?\r\n\r\n/.exec(this.text);
      const length = answer && /\r\ncontent-length: *(\d+)/i.exec(answer[0]);
      if (!length || this.text.length < answer[0].length + Number(length[1])) return;
      const body = this.text.slice(answer[0].length);
      this.text = '';
      if (/\r\nconnection: *close/i.test(answer[0])) this.close();
      this.settle({ status: Number(answer[1]), body });
    });
    this.socket.on('end', () => this.end('cut', 'the connection was closed'));
    this.socket.on('error', (error) => this.end(this.isOpen ? 'cut' : 'refused', error.message));
  }

  /**
   * An open connection, on which nothing was sent. A client that had no core for long makes another connection, because a worker that leaves
   * closes quiet connections.
   * @param {number} port
   */
  static async open(port) {
    for (;;) {
      const connection = new Connection(port);
      const late = setTimeout(() => connection.end('unanswered', `no connection for ${ANSWER_MS_MAX / 1000} s`), ANSWER_MS_MAX);
      await connection.opened;
      clearTimeout(late);
      const wasQuick = Date.now() - connection.quietSince <= QUIET_MS_MAX;
      if (wasQuick || !connection.isOpen) return connection;
      connection.close();
    }
  }

  end(end, why) {
    this.over ??= { end, why };
    this.close();
    this.settle({ end, why });
  }

  close() {
    this.isOver = true;
    this.socket.destroy();
  }

  get isUsable() {
    return !this.isOver && Date.now() - this.quietSince <= QUIET_MS_MAX;
  }

  /** Sends a request and waits for its end. @param {string} path @param {boolean} keep whether another one will follow */
  async ask(path, keep) {
    if (this.over) return this.over;
    const late = setTimeout(() => this.end('unanswered', `no answer for ${ANSWER_MS_MAX / 1000} s`), ANSWER_MS_MAX);
    const end = await new Promise((resolve) => {
      this.settle = resolve;
      this.socket.write(`GET ${path} HTTP/1.1\r\nHost: app\r\nConnection: ${keep ? 'keep-alive' : 'close'}\r\n\r\n`);
    });
    clearTimeout(late);
    this.settle = () => {};
    this.quietSince = Date.now();
    return end;
  }
}

/** What an answer means for a request: the app answers with the request's id and its own pid. */
function read(id, { end, why, status = 200, body = '' }) {
  if (end) return { end, why };
  const [answered, pid] = body.split(' ');
  if (status !== 200 || answered !== id) return { end: 'wrong', why: `${status} ${body.slice(0, 100)}` };
  return { end: 'answered', pid: Number(pid) };
}

/** Clients over one app, until they are told to stop. */
export class Clients {
  /**
   * @param {number} port
   * @param {import('./random.mjs').Random} random
   * @param {Record<string, number>} kinds how many clients of each kind
   */
  constructor(port, random, kinds = { new: 4, kept: 6, slow: 3, websocket: 3 }) {
    this.port = port;
    this.random = random;
    /** @type {Request[]} */
    this.requests = [];
    this.isStopping = false;
    this.last = 0;
    const runs = { new: () => this.runNew(), kept: () => this.runKept(), slow: () => this.runSlow(), websocket: () => this.runWebSocket() };
    this.done = Promise.all(Object.entries(kinds).flatMap(([kind, count]) => Array.from({ length: count }, () => runs[kind]())));
  }

  /** Sends a request in some way, and writes down what became of it. */
  async send(kind, heldBy, way) {
    const id = `${kind}-${this.last += 1}`;
    const sentAt = Date.now();
    const read = await way(id);
    const request = { id, kind, sentAt, endedAt: Date.now(), heldBy, ...read };
    this.requests.push(request);
    return request;
  }

  /** One HTTP request on a connection of its own. @param {string} query */
  alone(kind, query = '') {
    return this.send(kind, undefined, async (id) => read(id, await (await Connection.open(this.port)).ask(`/${id}${query}`, false)));
  }

  async runNew() {
    while (!this.isStopping) {
      await this.alone('new');
      await sleep(this.random.whole(0, 20));
    }
  }

  async runSlow() {
    while (!this.isStopping) await this.alone('slow', `?wait=${this.random.whole(100, 700)}`);
  }

  async runKept() {
    let connection;
    while (!this.isStopping) {
      if (!connection?.isUsable) {
        connection?.close();
        connection = await Connection.open(this.port);
      }
      const { lastSentAt } = connection;
      connection.lastSentAt = Date.now();
      const sinceLastMs = lastSentAt && connection.lastSentAt - lastSentAt;
      const { pid } = await this.send('kept', connection.heldBy, async (id) => ({ sinceLastMs, ...read(id, await connection.ask(`/${id}`, true)) }));
      connection.heldBy = pid;
      await sleep(this.random.whole(0, 200));
    }
    connection?.close();
  }

  async runWebSocket() {
    let socket;
    let heldBy;
    while (!this.isStopping) {
      if (socket?.readyState !== WebSocket.OPEN) {
        heldBy = undefined;
        const { opened } = await openWebSocket(this.port);
        socket = opened;
        if (!socket) {
          await sleep(this.random.whole(20, 100));
          continue;
        }
      }
      const { pid } = await this.send('websocket', heldBy, async (id) => read(id, await say(socket, id)));
      heldBy = pid;
      await sleep(this.random.whole(0, 100));
    }
    socket?.terminate();
  }

  /** Lets each client finish its last request. */
  async stop() {
    this.isStopping = true;
    await this.done;
  }
}

/** Opens a WebSocket. One that does not open is no request: its upgrade runs nothing of the app's that could be counted. */
function openWebSocket(port) {
  return new Promise((resolve) => {
    const socket = new WebSocket(`ws://127.0.0.1:${port}/socket`, { handshakeTimeout: ANSWER_MS_MAX });
    socket.on('open', () => resolve({ opened: socket }));
    socket.on('error', () => resolve({}));
  });
}

/** Sends a message and waits for the app's. */
function say(socket, id) {
  return new Promise((resolve) => {
    const settle = (end) => {
      clearTimeout(late);
      socket.off('message', onMessage).off('close', onClose);
      resolve(end);
    };
    const onMessage = (body) => settle({ body: String(body) });
    const onClose = (code) => settle({ end: 'cut', why: `closed with code ${code}` });
    const late = setTimeout(() => settle({ end: 'unanswered', why: `no answer for ${ANSWER_MS_MAX / 1000} s` }), ANSWER_MS_MAX);
    socket.on('message', onMessage).on('close', onClose);
    if (socket.readyState === WebSocket.OPEN) socket.send(id);
    else onClose(1006);
  });
}
