// The test's side of fixtures/control.cjs: lists the workers and their reports, and runs functions inside a
// worker.
import { once } from 'node:events';
import net from 'node:net';

import { isLiving } from './living.mjs';
import { waitUntil, within } from './wait.mjs';

/** One worker process of an app under test. */
class Worker {
  #socket;
  #calls = new Map();
  #lastCall = 0;

  /** @param {net.Socket} socket */
  constructor(socket) {
    this.#socket = socket;
    /** @type {any[]} What the app reported, oldest first. */
    this.reports = [];
    this.gone = false;
    this.pid = 0;
    /** @type {number | null} */
    this.slot = null;
    this.script = '';
  }

  /** @param {any} message */
  take(message) {
    if ('hello' in message) Object.assign(this, message.hello);
    else if ('report' in message) this.reports.push(message.report);
    else {
      const call = this.#calls.get(message.id);
      this.#calls.delete(message.id);
      if ('error' in message) call?.reject(new Error(message.error));
      else call?.resolve(message.value);
    }
  }

  end() {
    this.gone = true;
    for (const { reject } of this.#calls.values()) reject(new Error(`worker ${this.pid} has ended`));
    this.#calls.clear();
  }

  /**
   * Runs a function in the worker; it may use `require`, and its values travel as JSON.
   * @param {Function} body
   * @param {...unknown} values
   */
  run(body, ...values) {
    this.#lastCall += 1;
    const id = this.#lastCall;
    const reply = new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject }));
    this.#call(id, body, values);
    return within(`an answer of worker ${this.pid}`, reply);
  }

  /**
   * The same for functions after which the worker may not live to answer.
   * @param {Function} body
   * @param {...unknown} values
   */
  order(body, ...values) {
    this.#call(0, body, values);
  }

  #call(id, body, values) {
    this.#socket.write(`${JSON.stringify({ id, body: String(body), values })}\n`);
  }

  /** Waits for the first report that holds a key. @param {string} key */
  reported(key) {
    return waitUntil(`worker ${this.pid} to report ${key}`, () => {
      if (this.gone) throw new Error('it has ended');
      return this.reports.find((report) => report !== null && typeof report === 'object' && key in report);
    });
  }
}

/** Listens for workers. */
export class Control {
  #server;
  #sockets = new Set();

  /** @param {string} path of its unix socket */
  constructor(path) {
    this.path = path;
    /** @type {Worker[]} All that ever came, oldest first. */
    this.seen = [];
    this.#server = net.createServer((socket) => this.#accept(socket));
  }

  async listen() {
    this.#server.listen(this.path);
    await once(this.#server, 'listening');
  }

  #accept(socket) {
    const worker = new Worker(socket);
    let partial = '';
    this.#sockets.add(socket);
    socket.setEncoding('utf8');
    socket.on('data', (text) => {
      const lines = (partial + text).split('\n');
      partial = lines.pop() ?? '';
      for (const line of lines) {
        worker.take(JSON.parse(line));
        if (worker.pid && !this.seen.includes(worker)) this.seen.push(worker);
      }
    });
    // A killed worker resets its connection.
    socket.on('error', () => {});
    socket.on('close', () => {
      this.#sockets.delete(socket);
      worker.end();
    });
  }

  /** The living workers of a script, by slot. @param {string} script */
  living(script) {
    // The end of a connection may be noticed later than the end of its process.
    return this.seen.filter((worker) => worker.script === script && !worker.gone && isLiving(worker.pid))
      .sort((a, b) => (a.slot ?? 0) - (b.slot ?? 0) || a.pid - b.pid);
  }

  close() {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}
