// Connections that the app opens: by which name it knows a server, and whether a database refused a connection because it has too
// many. A part of the agent, which reports.cjs loads; agent.cjs has the rules, README.md the protocol.
//
// No channel of Node.js tells of a socket that is made by `new net.Socket()`, as `pg` does. So while reports are asked for,
// `net.Socket.prototype.connect` is replaced by a function that calls it and then adds a listener for `connect`: once for each
// connection, nothing for each request. Of what a server sends, the first chunks are looked at until they are not the beginning of
// PostgreSQL's or MySQL's protocol any more, which for HTTP is the first one. Nothing of them is kept.
'use strict';

const net = require('net');

/** Servers that are told; those without a name and without a refused connection are not. */
const PEERS_MAX = 32;
const NAME_MAX = 253;
/** A database has accepted or refused a connection within so many chunks. */
const CHUNKS_MAX = 8;
/** Between two messages about refused connections. */
const TELL_MS = 500;

/** Of PostgreSQL's messages: the code `too_many_connections` as a field, after the field before it. */
const TOO_MANY = Buffer.from('\0C53300\0', 'latin1');
/** The longest of PostgreSQL's messages before a connection is ready. */
const POSTGRES_MAX = 30_000;
/** PostgreSQL's messages before a connection is ready: authentication, parameter, key, notice, version. */
const POSTGRES_BEFORE = new Set(['R', 'S', 'K', 'N', 'v'].map((letter) => letter.charCodeAt(0)));
const POSTGRES_ERROR = 'E'.charCodeAt(0);
const POSTGRES_YES = 'S'.charCodeAt(0);
const POSTGRES_NO = 'N'.charCodeAt(0);

/** MySQL's errors: too many connections, of a user, of what a user may use. */
const MYSQL_TOO_MANY = new Set([1040, 1203, 1226]);
const MYSQL_GREETING = 0x0a;
const MYSQL_ERROR = 0xff;
const MYSQL_OK = 0x00;

const [MORE, OVER, REFUSED, ENCRYPTED] = ['more', 'over', 'refused', 'encrypted'];

/** What PostgreSQL's messages say. @param {Buffer} chunk */
function postgres(chunk) {
  let at = 0;
  while (at + 5 <= chunk.length) {
    const length = chunk.readUInt32BE(at + 1);
    if (length < 4 || length > POSTGRES_MAX) return OVER;
    if (chunk[at] === POSTGRES_ERROR) return chunk.subarray(at, at + 1 + length).includes(TOO_MANY) ? REFUSED : OVER;
    if (!POSTGRES_BEFORE.has(chunk[at])) return OVER;
    at += 1 + length;
  }
  return MORE;
}

/** What MySQL's message says. @param {Buffer} chunk */
function mysql(chunk) {
  if (chunk.length < 7 || chunk[4] === MYSQL_OK) return OVER;
  if (chunk[4] !== MYSQL_ERROR) return MORE;
  return MYSQL_TOO_MANY.has(chunk.readUInt16LE(5)) ? REFUSED : OVER;
}

/** Whether a server begins as MySQL does: with its greeting and version, or with an error in its place. @param {Buffer} chunk */
function isMysql(chunk) {
  if (chunk.length < 7 || chunk[2] !== 0 || chunk[3] !== 0) return false;
  // A message of PostgreSQL may have the same first bytes, but then letters follow.
  if (chunk[4] === MYSQL_GREETING) return chunk[5] >= 0x30 && chunk[5] <= 0x39;
  return chunk[4] === MYSQL_ERROR && MYSQL_TOO_MANY.has(chunk.readUInt16LE(5));
}

/** How to read what a server sends, by the first chunk. @param {Buffer} chunk */
function readerOf(chunk) {
  if (isMysql(chunk)) return mysql;
  if (chunk.length === 1 && chunk[0] === POSTGRES_YES) return () => ENCRYPTED;
  // Without TLS the connection goes on; the answer is no message.
  if (chunk.length === 1 && chunk[0] === POSTGRES_NO) return () => MORE;
  if (chunk[0] === POSTGRES_ERROR || POSTGRES_BEFORE.has(chunk[0])) return postgres;
  return () => OVER;
}

/** Knows the servers, while reports are asked for. */
class Servers {
  /** @param {import('./agent.cjs').Agent} agent */
  constructor(agent) {
    this.agent = agent;
    this.refused = 0;
    /** By address and port. @type {Map<string, { name: string, address: string, port: number, refused: number }>} */
    this.peers = new Map();
    this.isChanged = false;
    this.toldAt = -Infinity;
    this.now = require('perf_hooks').performance.now.bind(require('perf_hooks').performance);
    /** @type {any} */
    this.original = null;
    /** @type {any} */
    this.replaced = null;
    const servers = this;
    this.onConnect = function onConnect() { servers.connected(this); };
    this.connected = agent.guarded((socket) => this.learn(socket));
  }

  begin() {
    // Whoever asks for reports may have heard nothing yet.
    this.isChanged = this.peers.size > 0;
    if (this.replaced) return this;
    const { onConnect } = this;
    const original = net.Socket.prototype.connect;
    const replaced = function connect(...args) {
      const socket = Reflect.apply(original, this, args);
      // A path is that of a unix socket: it has no host.
      if (typeof this.once === 'function') this.once('connect', onConnect);
      return socket;
    };
    net.Socket.prototype.connect = replaced;
    Object.assign(this, { original, replaced });
    return this;
  }

  end() {
    // Whoever has replaced it after us goes on calling ours.
    if (net.Socket.prototype.connect === this.replaced) {
      net.Socket.prototype.connect = this.original;
      this.replaced = null;
    }
  }

  /** A connection is there. @param {any} socket */
  learn(socket) {
    const { remoteAddress: address, remotePort: port, _host: host } = socket;
    if (typeof address !== 'string' || typeof port !== 'number') return;
    const name = typeof host === 'string' && host.length <= NAME_MAX ? host : '';
    if (name) this.peer(name, address, port);
    this.look(socket, () => this.refuse(name, address, port));
  }

  /** Looks at the first chunks that a server sends. */
  look(socket, refuse) {
    let chunks = 0;
    let reader;
    const onData = this.agent.guarded((chunk) => {
      chunks += 1;
      const answer = Buffer.isBuffer(chunk) && chunk.length > 0 ? (reader ??= readerOf(chunk))(chunk) : OVER;
      if (chunks === 1 && chunk.length === 1) reader = undefined;
      if (answer === REFUSED) refuse();
      if (answer === ENCRYPTED) this.follow(socket, refuse);
      if (answer !== MORE || chunks >= CHUNKS_MAX) socket.removeListener('data', onData);
    });
    // This one does not start the stream, as `on` would.
    socket.prependListener('data', onData);
  }

  /**
   * A database has agreed to TLS: the app now calls `tls.connect` with the socket, and what the database says comes from there. The
   * function is replaced until then, and for one turn of the loop at most.
   */
  follow(socket, refuse) {
    const tls = require('tls');
    const original = tls.connect;
    const restore = () => { if (tls.connect === replaced) tls.connect = original; };
    const watch = this.agent.guarded((args, secure) => {
      if (args[0]?.socket !== socket) return;
      restore();
      this.look(secure, refuse);
    });
    const replaced = function connect(...args) {
      const secure = Reflect.apply(original, this, args);
      watch(args, secure);
      return secure;
    };
    tls.connect = replaced;
    this.agent.immediate(restore);
  }

  peer(name, address, port) {
    const key = `${address}|${port}`;
    const known = this.peers.get(key);
    if (known) {
      if (name && known.name !== name) {
        known.name = name;
        this.isChanged = true;
      }
      return known;
    }
    if (this.peers.size >= PEERS_MAX) {
      const oldest = [...this.peers].find(([, peer]) => peer.refused === 0);
      if (!oldest) return undefined;
      this.peers.delete(oldest[0]);
    }
    const peer = { name, address, port, refused: 0 };
    this.peers.set(key, peer);
    this.isChanged = true;
    return peer;
  }

  refuse(name, address, port) {
    this.refused += 1;
    const peer = this.peer(name, address, port);
    if (peer) peer.refused += 1;
    this.isChanged = true;
    if (this.now() - this.toldAt >= TELL_MS) this.tell();
  }

  /** Tells all servers, if there is news. */
  tell() {
    if (!this.isChanged) return;
    this.isChanged = false;
    this.toldAt = this.now();
    this.agent.tell({ act: 'peers', peers: [...this.peers.values()].map(({ name, address, port, refused }) => [name, address, port, refused]) });
  }

  /** Values for a report. */
  read() {
    this.tell();
    return { outgoing_refused_total: this.refused };
  }
}

module.exports = { Servers };
