// Listening sockets that the daemon lends to a process that would open them itself: one that is no worker of a cluster (fork mode), and a
// worker whose app listens with `reusePort` or `exclusive`. A part of the agent, which loads it only there; agent.cjs has the rules,
// README.md the protocol.
'use strict';

const { AsyncResource } = require('async_hooks');
const net = require('net');
const { basename, resolve } = require('path');

/** The `cmd` of Node's own messages between a primary and the workers of its cluster. */
const CLUSTER = 'NODE_CLUSTER';

/** Node's name of the module in workers of a cluster, when it is loaded. */
const CLUSTER_CHILD = 'NativeModule internal/cluster/child';

/** The kind of a pipe that passes descriptors on: libuv's `ipc`. */
const PIPE_IPC = 2;

const { OwnWorkers, hasWorkers, whenShared } = require('./workers.cjs');

/** @typedef {import('./agent.cjs').Agent} Agent */

/** The option of a listen that lets other processes listen on the same port (`reusePort`): libuv's UV_TCP_REUSEPORT. */
const FLAG_REUSEPORT = 2;

/** How long the process waits for a socket from the primary. After that, it opens the socket itself. */
const LOAN_MS_MAX = 5000;

/**
 * The listening sockets of a process that is no worker of a cluster (fork mode). The primary opens them and lends them, so
 * that they stay open between two processes and that a successor can have them beside this one. The app notices nothing:
 * what the primary does not lend, the process opens itself, with the errors of its own `listen`.
 */
class Loans {
  /**
   * @param {Agent} agent
   * @param {string} place `ipc:` and perhaps a path, or a path: where processes without the daemon's channel ask
   * @param {string} file the agent's
   */
  constructor(agent, place, file) {
    this.agent = agent;
    this.isBelow = !place.startsWith('ipc:');
    this.path = place.replace(/^ipc:/, '');
    this.option = ` --require "${file.replace(/["\\]/g, '\\$&')}"`;
    /** The connection to the daemon, if the IPC channel is not the daemon's. @type {Link | undefined} */
    this.link = undefined;
    this.tells = true;
    this.last = 0;
    /** Unanswered requests to the primary, by number. @type {Map<number, Awaited>} */
    this.asked = new Map();
    /** Handles on sockets that are lent, and where they listen, by the primary's names. @type {Map<string, { handle: any, place: any }>} */
    this.lent = new Map();
    /** The workers of the app's own cluster. */
    this.workers = new OwnWorkers(agent);
    /** The sockets that these share. @type {import('./shared.cjs').Shared | undefined} */
    this.shared = undefined;
  }

  /** Child processes ask too, as long as one of them may be the process that listens: this process may be a wrapper. */
  passOn() {
    const { env } = process;
    if (this.isBelow) return;
    delete env.FORKFUL_LENDS;
    if (!this.path) return;
    env.FORKFUL_LENDS = this.path;
    env.NODE_OPTIONS = `${env.NODE_OPTIONS ?? ''}${this.option}`;
  }

  /** This process listens itself, so it is no wrapper: its child processes do not ask the daemon for sockets. */
  keepToOurselves() {
    // It listens for workers, which need the agent.
    if (hasWorkers()) return;
    const { env } = process;
    delete env.FORKFUL_LENDS;
    const rest = env.NODE_OPTIONS?.replace(this.option, '');
    if (rest) env.NODE_OPTIONS = rest;
    else if (rest === '') delete env.NODE_OPTIONS;
  }

  /** Whether there is a way to ask. */
  isConnected() {
    if (!this.isBelow) return process.connected;
    if (!this.link) {
      this.link = new Link(this.path, this.agent, () => this.disconnected());
      this.agent.greet();
    }
    return true;
  }

  /** The connection has ended: there are no more answers. */
  disconnected() {
    this.link = undefined;
    const all = [...this.asked.values()];
    this.asked.clear();
    for (const awaited of all) awaited.settle(null);
  }

  /** Replaces the function that `listen` calls last, when the host name of the address has been looked up. */
  watch() {
    const { prototype } = net.Server;
    this.listen = prototype._listen2;
    if (typeof this.listen !== 'function') return;
    const loans = this;
    prototype._listen2 = function (...args) {
      return loans.ask(this, args) ? undefined : loans.listen.apply(this, args);
    };
    whenShared(this.agent.guarded(() => {
      this.shared = new (require('./shared.cjs').Shared)(this);
      this.shared.begin();
    }));
  }

  /**
   * Whether a unix socket is one process's alone: the name of its file has the process's number. Wrappers open such sockets for the
   * process that they start (tsx does): no client of the app's comes by them.
   * @param {string | undefined} path
   * @param {number} pid
   */
  isOwn(path, pid = process.pid) {
    return typeof path === 'string' && new RegExp(`(^|\\D)${pid}(\\D|$)`).test(basename(path));
  }

  /** Asks for the socket of a server that begins to listen; returns whether the primary's answer decides. */
  ask(server, args) {
    const [address, port, addressType, backlog, fd, flags = 0] = args;
    // A server that another process has sent has its handle already, and no address.
    if (server._handle || !this.mayAsk({ address, port, fd })) return false;
    this.keepToOurselves();
    if (!this.isConnected()) return false;
    const place = { address: port < 0 ? resolve(address) : address, port, addressType, flags };
    server._handle = new Awaited(this, server, args, place);
    this.request(server._handle, backlog);
    return true;
  }

  /** Whether the primary lends such sockets. Each process has its own random port, and an abstract socket has no file that stays. */
  mayAsk({ address, port, fd }, pid = process.pid) {
    if (fd >= 0 || this.agent.isLeaving()) return false;
    return port > 0 || (port === -1 && typeof address === 'string' && !address.startsWith('\0') && !this.isOwn(address, pid));
  }

  /**
   * Asks the primary for a socket.
   * @param {{ place: any, next?: () => void, settle: (handle: any) => void }} awaited takes the socket, or null
   * @param {number} backlog
   */
  request(awaited, backlog) {
    const { place } = awaited;
    this.last += 1;
    const query = { cmd: CLUSTER, act: 'queryServer', seq: this.last, index: 0, backlog, data: null, ...place };
    const before = this.lastAskedFor(place);
    this.asked.set(this.last, awaited);
    // The app may have closed that server in the meantime: the place is free again when the answer has come.
    if (before) before.next = () => this.agent.post(query);
    else this.agent.post(query);
  }

  /** The last request for a place that has no answer yet. */
  lastAskedFor({ address, port, addressType }) {
    const isSame = ({ place }) => place.address === address && place.port === port && place.addressType === addressType;
    return [...this.asked.values()].reverse().find(isSame);
  }

  /** A message of the primary's to a worker. */
  hear(message, handle) {
    if (message.ack !== undefined) {
      const awaited = this.asked.get(message.ack);
      if (awaited) this.asked.delete(message.ack);
      this.answered(awaited, message, handle);
      awaited?.next?.();
    } else if (message.act === 'newconn') {
      const server = this.lent.get(message.key)?.handle;
      const answer = (accepted) => this.agent.post({ cmd: CLUSTER, ack: message.seq, accepted });
      const place = this.shared?.placeOf.get(server);
      if (place) return place.handOver(handle, answer);
      answer(server !== undefined);
      // What the app throws is its own.
      if (server) process.nextTick(() => server.onconnection(0, handle));
      else handle?.close();
    } else if (message.act === 'disconnect' && !this.agent.isLeaving()) {
      this.agent.leave();
    }
  }

  /** The primary has lent a socket, or not. */
  answered(awaited, { key, errno }, handle) {
    // A daemon that takes over may answer a request that the previous daemon has answered.
    const isKnown = this.lent.has(key);
    if (isKnown) handle?.close();
    const isGranted = handle && errno === 0 && !isKnown;
    if (isGranted) this.keep(key, handle, awaited?.place);
    if (awaited) awaited.settle(isGranted ? handle : null);
    else if (isGranted) handle.close();
  }

  /**
   * Closes the sockets that no server of this process has: Node.js holds them for the workers of the app's own cluster. It shares some of them
   * among these workers, and closes such a socket itself after the last of them.
   * @param {string[] | null} places null is everywhere
   */
  stopListening(places) {
    const isMeant = (place) => places === null || (place && places.includes(nameOf(place)));
    const shared = this.shared?.open().filter(isMeant) ?? [];
    this.workers.stopListening(shared.map(nameOf));
    // Loaded already, because a drain is in progress.
    const { closeHandle } = require('./drain.cjs');
    for (const { handle, place } of [...this.lent.values()]) {
      if (!shared.includes(place) && isMeant(place)) closeHandle(handle);
    }
  }

  /** The primary is told when the app closes a socket. */
  keep(key, handle, place) {
    const { close } = handle;
    this.lent.set(key, { handle, place });
    handle.close = (...args) => {
      if (this.lent.delete(key)) this.agent.post({ cmd: CLUSTER, act: 'close', key });
      return close.apply(handle, args);
    };
  }
}

/** A place as messages about drains name it: a port, or the path of a unix socket. */
function nameOf({ address, port }) {
  return port > 0 ? String(port) : address;
}

/** Replaces a server's handle until the primary has answered: the app may ask for the address, or close the server. */
class Awaited {
  /**
   * @param {{ agent: Agent, listen: Function, tells: boolean }} way Node's own listen, and whether we tell the primary of it
   * @param {any} server
   * @param {any[]} args of the listen
   * @param {{ address: string | null, port: number, addressType: number, flags: number }} place
   */
  constructor(way, server, args, place) {
    Object.assign(this, { way, server, args, place, mode: 0 });
    // It also keeps the process alive, as a socket would.
    const { timer, guarded } = way.agent;
    this.timeout = timer(guarded(() => this.settle(null)), LOAN_MS_MAX);
    this.scope = new AsyncResource('FORKFULLISTEN');
    if (place.port < 0) this.getsockname = undefined;
    this.isOver = false;
    /** What follows the answer. @type {(() => void) | undefined} */
    this.next = undefined;
  }

  getsockname(out) {
    const { address, port, addressType } = this.place;
    const family = address === null || addressType === 6 ? 'IPv6' : 'IPv4';
    Object.assign(out, { address: address ?? '::', family, port });
    return 0;
  }

  ref() { this.timeout.ref(); }

  unref() { this.timeout.unref(); }

  hasRef() { return this.timeout.hasRef(); }

  fchmod(mode) {
    this.mode = mode;
    return 0;
  }

  close(callback) {
    clearTimeout(this.timeout);
    if (typeof callback === 'function') process.nextTick(callback);
  }

  /** Connections arrive in the context of the listen (AsyncLocalStorage), as they do with a handle that the listen itself has made. */
  keepScope(handle) {
    const { scope } = this;
    const taken = handle?.onconnection;
    if (typeof taken !== 'function') return;
    handle.onconnection = function (...args) {
      return scope.runInAsyncScope(taken, this, ...args);
    };
  }

  /** Continues the listen: on the lent handle, or on a handle of the process itself. */
  settle(handle) {
    clearTimeout(this.timeout);
    this.isOver = true;
    const { way, server, args, place, mode } = this;
    if (server._handle !== this) {
      // The app has closed the server meanwhile.
      handle?.close();
      return;
    }
    server._handle = handle;
    if (handle && args[0] === null) {
      // As Node.js names it.
      const found = {};
      handle.getsockname(found);
      args[0] = found.address;
      args[2] = found.family === 'IPv6' ? 6 : 4;
    }
    this.scope.runInAsyncScope(way.listen, server, ...args);
    this.keepScope(handle);
    if (mode && server._handle) server._handle.fchmod(mode);
    if (way.tells && handle && server._handle === handle) way.agent.post({ cmd: CLUSTER, act: 'listening', ...place });
  }
}

/** A connection to the daemon, like the IPC channel: lines of JSON, some with descriptors. */
class Link {
  /** @param {string} path @param {Agent} agent @param {() => void} gone */
  constructor(path, agent, gone) {
    this.agent = agent;
    this.text = Buffer.alloc(0);
    this.handle = null;
    // The class of pipes, which Node.js does not export.
    const probe = net.connect({ path: `${path}.none` }).on('error', () => {});
    const Pipe = probe._handle.constructor;
    probe.destroy();
    this.pipe = new Pipe(PIPE_IPC);
    this.socket = new net.Socket({ handle: this.pipe, manualStart: true });
    this.socket.on('data', agent.guarded((bytes) => this.take(bytes)));
    this.socket.on('error', () => {}).on('close', agent.guarded(gone));
    this.socket.connect({ path });
    this.socket.unref();
  }

  say(message) {
    if (!this.socket.destroyed) this.socket.write(`${JSON.stringify(message)}\n`);
  }

  take(bytes) {
    if (this.pipe.pendingHandle) {
      this.handle = this.pipe.pendingHandle;
      this.pipe.pendingHandle = null;
    }
    this.text = Buffer.concat([this.text, bytes]);
    for (let end = this.text.indexOf(10); end >= 0; end = this.text.indexOf(10)) {
      const line = this.text.toString('utf8', 0, end);
      this.text = this.text.subarray(end + 1);
      this.hear(JSON.parse(line));
    }
  }

  /** As Node.js does with its own channel. */
  hear(message) {
    if (message.cmd !== 'NODE_HANDLE') return this.agent.hear(message);
    const { handle } = this;
    this.handle = null;
    this.say({ cmd: handle ? 'NODE_HANDLE_ACK' : 'NODE_HANDLE_NACK' });
    if (handle) this.agent.hear(message.msg, handle);
  }
}

/** Whether it is a process of its own that may be lent sockets, and neither a thread nor a worker of an app's own cluster. */
function isMain() {
  return require('worker_threads').isMainThread && !process.moduleLoadList?.includes(CLUSTER_CHILD);
}

/** Whether it is a worker of an app's own cluster. */
function isOfApp() {
  return require('worker_threads').isMainThread && Boolean(process.moduleLoadList?.includes(CLUSTER_CHILD));
}

/**
 * Asks for the socket of a server in a worker that begins to listen on a port without its primary (`reusePort`, `exclusive`), as Node.js
 * asks for all others. What the primary refuses, the worker opens itself. Gives whether it does so by the answer.
 * @param {Agent} agent
 * @param {Function} listen Node's own
 * @param {any} server
 * @param {any[]} args of the listen
 */
function askAsWorker(agent, listen, server, args) {
  const cluster = require('cluster');
  const [address, port, addressType, backlog, fd, flags = 0] = args;
  if (!cluster.isWorker || typeof cluster._getServer !== 'function') return false;
  if (!process.connected || fd >= 0 || agent.isLeaving()) return false;
  const awaited = new Awaited({ agent, listen, tells: false }, server, args, { address, port, addressType, flags });
  const exclusive = (flags & FLAG_REUSEPORT) === 0;
  server._handle = awaited;
  cluster._getServer(server, { address, port, addressType, backlog, fd, flags, exclusive }, (error, handle) => {
    if (awaited.isOver) handle?.close();
    else awaited.settle(error ? null : handle);
  });
  return true;
}

/**
 * Has the sockets lent that the process will listen on.
 * @param {Agent} agent
 * @param {string} place
 * @param {string} file
 */
function lendTo(agent, place, file) {
  const loans = new Loans(agent, place, file);
  loans.passOn();
  loans.watch();
  return loans;
}

module.exports = { lendTo, isMain, isOfApp, askAsWorker, LOAN_MS_MAX };
