// Listening sockets that the workers of an app's own cluster share (`SCHED_NONE`): the process that forks them opens each socket, and each worker
// gets a copy. They are lent like the sockets of a process that listens itself. A part of the agent, which loads it only there; agent.cjs has the
// rules, README.md the protocol.
'use strict';

const net = require('net');
const { resolve } = require('path');

const { LOAN_MS_MAX } = require('./loans.cjs');

/** The `cmd` of Node's own messages between a primary and the workers of its cluster. */
const CLUSTER = 'NODE_CLUSTER';

/** Before the numbers of connections that are handed to workers: Node's own are numbers alone. */
const OURS = 'forkful ';

/** Node's kinds of addresses: IPv4, IPv6, unix sockets. All others are UDP. */
const STREAMS = [4, 6, -1];

/** The sockets of all workers. */
class Shared {
  /** @param {import('./loans.cjs').Loans} loans */
  constructor(loans) {
    this.loans = loans;
    /** Where workers listen, or want to. @type {Map<string, Place>} */
    this.places = new Map();
    /** The place of each socket that was lent. @type {Map<any, Place>} */
    this.placeOf = new Map();
    /** Connections that were handed to workers, and not accepted yet. @type {Map<string, { child: any, answered: (accepted: boolean) => void }>} */
    this.handed = new Map();
    this.last = 0;
  }

  /** Where workers listen. */
  open() {
    return [...this.places.values()].filter((place) => place.isOpen()).map(({ place }) => place);
  }

  begin() {
    const { guarded } = this.loans.agent;
    this.replaceOpening();
    require('cluster').on('fork', guarded((worker) => this.follow(worker.process)));
  }

  /** Node.js opens a socket for its workers with this function, which it reads at each call. */
  replaceOpening() {
    const open = net._createServerHandle;
    if (typeof open !== 'function') return;
    const shared = this;
    net._createServerHandle = function (...args) {
      const [address, port, addressType, fd] = args;
      return shared.take({ address, port, addressType, fd }) ?? open.apply(this, args);
    };
  }

  /** Messages of a worker reach Node.js after us, and perhaps later. */
  follow(child) {
    const { emit } = child;
    const shared = this;
    Object.defineProperty(child, 'emit', {
      configurable: true,
      enumerable: false,
      writable: true,
      value(...args) {
        const [name, message] = args;
        const isOurs = name === 'internalMessage' && message?.cmd === CLUSTER;
        return isOurs && shared.holds(child, message, () => emit.apply(this, args)) ? true : emit.apply(this, args);
      },
    });
    child.once('disconnect', this.loans.agent.guarded(() => this.forget(child)));
  }

  /** A worker has gone: what it has not accepted goes to another one. */
  forget(child) {
    for (const place of this.places.values()) place.holders.delete(child);
    for (const [ack, handed] of [...this.handed]) if (handed.child === child) this.answered(ack, false);
  }

  /** A worker says whether it takes a connection that was handed to it. */
  answered(ack, accepted) {
    const { answered } = this.handed.get(ack);
    this.handed.delete(ack);
    answered(accepted === true);
  }

  /**
   * Hands a connection to a worker that knows the socket by this key.
   * @param {any} child
   * @param {string} key
   * @param {any} client
   * @param {(accepted: boolean) => void} answered
   */
  hand(child, key, client, answered) {
    this.last += 1;
    const seq = `${OURS}${this.last}`;
    this.handed.set(seq, { child, answered });
    child.send({ cmd: CLUSTER, act: 'newconn', key, seq }, client, undefined, () => {});
  }

  /**
   * Handles a message of a worker. Returns whether Node.js must not get it now: `goOn` gives it to Node.js later.
   * @param {any} child
   * @param {any} message
   * @param {() => void} goOn
   */
  holds(child, message, goOn) {
    let held = false;
    this.loans.agent.guarded(() => { held = this.hear(child, message, goOn); })();
    return held;
  }

  hear(child, message, goOn) {
    if (this.handed.has(message.ack)) {
      this.answered(message.ack, message.accepted);
      return true;
    }
    const name = nameOf(message);
    if (message.act === 'listening') this.places.get(name)?.listens();
    if (message.act === 'close') this.closes(child, message.key);
    if (message.act !== 'queryServer' || !name || !this.loans.mayAsk(message, child.pid) || !this.loans.isConnected()) return false;
    const known = this.places.get(name);
    if (known?.isOpen()) {
      known.give(child, goOn);
      return true;
    }
    const place = known && !known.isOver ? known : this.ask(name, message);
    place.waiting.push({ child, goOn });
    return true;
  }

  /** A worker closes a socket. */
  closes(child, key) {
    for (const place of this.places.values()) if (place.holders.get(child) === key) place.holders.delete(child);
  }

  /** Asks the primary for a socket. */
  ask(name, message) {
    const place = new Place(this, message);
    this.places.set(name, place);
    this.loans.request(place, message.backlog);
    return place;
  }

  /** The socket that was lent for a place, once. */
  take(place) {
    return this.places.get(nameOf(place))?.take();
  }
}

/** The name of an address where workers listen, from the values from which Node.js makes its own; '' for UDP. */
function nameOf({ address, port, addressType, fd }) {
  if (!STREAMS.includes(addressType)) return '';
  // Node.js opens a unix socket by its shortest path.
  return [port < 0 && address ? resolve(address) : address ?? '', port, addressType, fd ?? ''].join(' ');
}

/** A socket that workers share. */
class Place {
  /** @param {Shared} shared @param {any} query a worker's */
  constructor(shared, { address, port, addressType, flags = 0 }) {
    this.shared = shared;
    this.place = { address: port < 0 ? resolve(address) : address, port, addressType, flags };
    const { timer, guarded } = shared.loans.agent;
    this.timeout = timer(guarded(() => this.settle(null)), LOAN_MS_MAX).unref();
    /** Whether the primary has answered, or not in time. */
    this.isOver = false;
    /** What follows the answer. @type {(() => void) | undefined} */
    this.next = undefined;
    /** Workers whose messages wait for the answer. @type {{ child: any, goOn: () => void }[]} */
    this.waiting = [];
    /** The socket, while it is open. @type {any} */
    this.handle = undefined;
    /** Whether Node.js has it. */
    this.isTaken = false;
    /** Whether the primary knows that somebody listens. */
    this.isTold = false;
    /** Workers that have the socket, each with Node's name of it. @type {Map<any, string>} */
    this.holders = new Map();
  }

  isOpen() { return this.isTaken && this.handle !== undefined; }

  /** The answer: a socket, or null. */
  settle(handle) {
    if (this.isOver) return void handle?.close();
    this.isOver = true;
    clearTimeout(this.timeout);
    if (handle) this.keep(handle);
    const waiting = this.waiting.splice(0);
    // Node.js would keep a socket for a worker that has ended.
    for (const { child, goOn } of waiting) if (child.connected) this.give(child, goOn);
    // Nobody wants it any more.
    if (!this.isTaken) this.handle?.close();
  }

  /** Node.js closes it when no worker has it any more. */
  keep(handle) {
    const { close } = handle;
    this.handle = handle;
    this.shared.placeOf.set(handle, this);
    handle.close = (...args) => {
      this.handle = undefined;
      this.shared.placeOf.delete(handle);
      return close.apply(handle, args);
    };
  }

  /** The socket for Node.js, once: it shares it among its workers itself. */
  take() {
    if (this.isTaken) return undefined;
    this.isTaken = this.handle !== undefined;
    return this.handle;
  }

  /** Has Node.js answer a worker. The answer has the name by which the worker knows the socket. */
  give(child, goOn) {
    const own = Object.getOwnPropertyDescriptor(child, 'send');
    const { send } = child;
    child.send = (...args) => {
      const [message, handle] = args;
      if (handle && handle === this.handle) this.holders.set(child, message.key);
      return send.apply(child, args);
    };
    try {
      goOn();
    } finally {
      if (own) Object.defineProperty(child, 'send', own);
      else delete child.send;
    }
  }

  /**
   * Hands a connection to one of the workers, each of which is asked once.
   * @param {any} client
   * @param {(accepted: boolean) => void} answer
   * @param {Set<any>} [asked]
   */
  handOver(client, answer, asked = new Set()) {
    const next = [...this.holders].find(([child]) => !asked.has(child));
    if (!next) {
      answer(false);
      return client.close();
    }
    const [child, key] = next;
    asked.add(child);
    // The next connection is for another worker.
    this.holders.delete(child);
    this.holders.set(child, key);
    this.shared.hand(child, key, client, (accepted) => {
      if (!accepted) return this.handOver(client, answer, asked);
      answer(true);
      client.close();
    });
  }

  /** A worker listens. */
  listens() {
    if (this.isTold || !this.isOpen()) return;
    this.isTold = true;
    this.shared.loans.agent.post({ cmd: CLUSTER, act: 'listening', ...this.place });
  }
}

module.exports = { Shared };
