'use strict';
// PM2's bus of events: an emitter whose event names may contain `*`, fed by the daemon's event stream.
const { EventEmitter } = require('node:events');

const { ForkfulError } = require('../errors.cjs');

const NAMESPACE = 'default';

/** The interval at which a bus looks for a daemon while none runs. */
const RECONNECT_PAUSE_MS = 1000;

/** A name with `*` as a regular expression; each `*` is a group, and listeners get its text as their first arguments. */
function expression(name) {
  const parts = name.split('*').map((part) => part.replace(/[.+?^${}()|[\]\\]/g, '\\$&'));
  return new RegExp(`^${parts.join('(.+)')}$`);
}

/**
 * The message and the frames of an excerpt that begins with an uncaught error: the lines of the message, the place and the code that threw,
 * a line of carets, the frames, then what belongs to no stack.
 * @param {string[]} lines
 */
function partsOf(lines) {
  const isOfStack = (line) => /^\s+(?:at |… \d+ internal frame)/.test(line);
  const find = (is, from = 0) => {
    const at = lines.findIndex((line, index) => index >= from && is(line));
    return at === -1 ? lines.length : at;
  };
  const carets = find((line) => /^[\s~]*\^[\s^~]*$/.test(line));
  const first = find(isOfStack);
  const head = lines.slice(0, carets < first ? Math.max(carets - 2, 1) : Math.max(first, 1)).join('\n');
  // The last frame may open the error's properties.
  const frames = lines.slice(first, find((line) => !isOfStack(line), first)).filter((line) => !line.includes('… ')).map((line) => line.replace(/ \{$/, ''));
  return { head: head.replace(/^Uncaught /, ''), frames };
}

class Bus {
  #listeners = [];
  #namespaces = new Map();

  /** @param {string} name @param {(...values: any[]) => void} listener */
  on(name, listener) {
    this.#listeners.push({ name, pattern: name.includes('*') ? expression(name) : null, listener });
    return this;
  }

  once(name, listener) {
    const once = (...values) => {
      this.off(name, once);
      listener(...values);
    };
    return this.on(name, once);
  }

  /** Removes a listener; without the argument, all listeners of that name. */
  off(name, listener) {
    this.#listeners = this.#listeners.filter((entry) => entry.name !== name || (listener !== undefined && entry.listener !== listener));
    return this;
  }

  listeners(name) {
    return this.#listeners.filter((entry) => entry.name === name).map((entry) => entry.listener);
  }

  emit(name, data) {
    for (const entry of [...this.#listeners]) {
      if (entry.pattern === null) {
        if (entry.name === name) entry.listener(data);
        continue;
      }
      const match = entry.pattern.exec(name);
      if (match) entry.listener(...match.slice(1), data);
    }
    return true;
  }

  /** Stores the namespaces, which lines and messages do not contain. @param {object[]} list */
  learn(list) {
    for (const { name, pm2_env: env } of list) this.#namespaces.set(name, env.namespace);
  }

  #who({ app, pm_id }) {
    return { pm_id, name: app, rev: null, namespace: this.#namespaces.get(app) ?? NAMESPACE };
  }

  /** Emits an event of the daemon in PM2's format. */
  take(event) {
    switch (event.type) {
      case 'process:event':
        this.#namespaces.set(event.app, event.process.namespace);
        // PM2 says of no end that a command has caused it.
        return this.emit(event.type, { event: event.event, manually: event.manually && event.event !== 'exit', process: event.process, at: event.at_ms });
      case 'log:out':
      case 'log:err':
        return this.emit(event.type, { process: this.#who(event), at: event.at_ms, data: `${event.line}\n` });
      case 'process:msg':
        return this.#message(event);
      case 'daemon:ending':
        return this.emit('pm2:kill', { status: 'killed', msg: 'the daemon has stopped' });
      default:
        return this.emit(event.type, event);
    }
  }

  /**
   * PM2's event of an error that no code caught and that ended the process. The excerpt of stderr that an incident has begins with it.
   * @param {{ at_ms: number, app: string, pm_id: number, stderr_tail: string[], is_uncaught: boolean }} crash
   */
  takeCrash({ at_ms: at, app, pm_id, stderr_tail: lines, is_uncaught: isUncaught }) {
    if (!isUncaught) return;
    const { head, frames } = partsOf(lines);
    const { name, message } = /^(?<name>\w+)(?: \[[^\]]+\])?: (?<message>.*)$/s.exec(head)?.groups ?? { name: 'Error', message: head };
    const stack = [head, ...frames].join('\n');
    const namespace = this.#namespaces.get(app) ?? NAMESPACE;
    this.emit('process:exception', { at, data: { message, stack, name }, process: { pm_id, name: app, namespace } });
  }

  /** A message with a type and data is an event of that type. */
  #message(event) {
    const { message, at_ms: at } = event;
    const process = this.#who(event);
    if (message !== null && typeof message === 'object' && message.type && message.data) {
      return this.emit(message.type, { at, data: message.data, process });
    }
    const { pm_id, name, namespace } = process;
    return this.emit('process:msg', { at, raw: message, process: { pm_id, name, namespace } });
  }
}

/** The connection of a bus, for listeners to its end. */
class BusSocket extends EventEmitter {
  #client;
  #bus;
  #stream;
  #isClosed = false;
  /** Ends the pause before the next attempt. */
  #wake = () => {};
  /** Whether the owner of the bus ends the daemon, so that no successor is awaited. */
  isLast = false;

  /** @param {import('../client.cjs').Client} client @param {Bus} bus */
  constructor(client, bus) {
    super();
    this.#client = client;
    this.#bus = bus;
  }

  /** Connects to the daemon that runs. */
  async open() {
    this.#stream = this.#client.events({ logs: true, messages: true });
    try {
      await this.#stream.ready;
      this.#bus.learn(await this.#client.jlist());
    } catch (error) {
      this.#stream.close();
      throw error;
    }
  }

  /** Passes events on until the bus is closed, like PM2's bus also those of a daemon that is started later. */
  async pass() {
    for (;;) {
      await this.#passAll();
      if (this.#isClosed || this.isLast) return;
      do {
        await this.#pause();
        if (this.#isClosed || this.isLast) return;
      } while (!await this.#reopen());
    }
  }

  /** Passes the events of the stream on; the stream itself goes on after an update, and after a crash of the daemon. */
  async #passAll() {
    for (;;) {
      const { done, value: event } = await this.#stream.next().catch(lost);
      if (done) return;
      this.#bus.take(event);
      if (event.type !== 'app:incident' || event.kind !== 'crash') continue;
      // An incident may be removed before it is read.
      const crash = await this.#client.incident(event.id).catch(() => null);
      if (crash) this.#bus.takeCrash(crash);
    }
  }

  async #reopen() {
    try {
      await this.open();
      return true;
    } catch (error) {
      if (!(error instanceof ForkfulError)) throw error;
      return false;
    }
  }

  #pause() {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, RECONNECT_PAUSE_MS);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  close() {
    this.#isClosed = true;
    this.#stream.close();
    this.#wake();
  }
}

/** The event for a daemon that ended unexpectedly. */
function lost(error) {
  if (error.code !== 'NO_DAEMON') throw error;
  return { done: false, value: { type: 'daemon:ending', at_ms: Date.now() } };
}

/**
 * A bus that is connected.
 * @param {import('../client.cjs').Client} client
 */
async function connectBus(client) {
  const bus = new Bus();
  const socket = new BusSocket(client, bus);
  await socket.open();
  bus.sock = socket;
  bus.close = () => socket.close();
  socket.pass().then(() => socket.emit('close'), (error) => {
    socket.close();
    socket.emit('close');
    // An exception of a listener, or an invalid stream, must not be swallowed.
    process.nextTick(() => { throw error; });
  });
  return { bus, socket };
}

module.exports = { Bus, connectBus };
