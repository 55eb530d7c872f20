// Connections that the app opens: by which name it knows a server, and whether a database refused a connection because it has too
// many. A part of the agent, which loads it with the first of them, or with the first report; agent.cjs has the rules, README.md the protocol.
//
// While reports are asked for, the agent learns of each socket that connects: by the channel `net.client.socket`, or, where Node.js does not
// publish sockets of `new net.Socket()` there (18 and 20; `pg` makes them), by a function around `net.Socket.prototype.connect`.
// Of what a server sends, the first chunks are looked at until they are not the beginning of PostgreSQL's or MySQL's protocol any
// more, which for HTTP is the first one. Nothing of them is kept. A listener for `data` would change what the stream does
// (an app that waits for `readable` once would lose data), so the chunks are seen where the handle gives them to the stream.
'use strict';

const net = require('net');

/** Servers that are told; those without a name and without a refused connection are not. */
const PEERS_MAX = 32;
const NAME_MAX = 253;
/** The first chunks that are looked at: a database accepts or refuses a connection in them. */
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

const keyOf = (address, port) => `${address}|${port}`;

/**
 * Puts a function around one of Node's, which keeps its name, length and properties.
 * @param {any} object
 * @param {string} key
 * @param {(self: any, args: any[], result: any) => void} after hears of each call that did not throw, and never throws
 * @returns {(() => boolean) | undefined} takes it away, unless somebody has put another one there; nothing if it cannot be replaced
 */
function around(object, key, after) {
  const descriptor = Object.getOwnPropertyDescriptor(object, key);
  if (typeof descriptor?.value !== 'function') return undefined;
  const value = new Proxy(descriptor.value, {
    apply(target, self, args) {
      const result = Reflect.apply(target, self, args);
      after(self, args, result);
      return result;
    },
  });
  if (!Reflect.defineProperty(object, key, { ...descriptor, value })) return undefined;
  return () => Object.getOwnPropertyDescriptor(object, key)?.value === value && Reflect.defineProperty(object, key, descriptor);
}

/** Knows the servers, while reports are asked for. */
class Servers {
  /**
   * @param {import('./agent.cjs').Agent} agent
   * @param {boolean} arePublished whether `net.client.socket` has each socket that connects
   */
  constructor(agent, arePublished) {
    this.agent = agent;
    this.isOn = false;
    this.refused = 0;
    /** By address and port. @type {Map<string, { name: string, address: string, port: number, refused: number, isDatabase: boolean }>} */
    this.peers = new Map();
    this.isChanged = false;
    this.toldAt = -Infinity;
    this.channel = arePublished ? agent.held('net.client.socket') : undefined;
    /** Takes away what is around `connect`. @type {(() => boolean) | undefined} */
    this.restore = undefined;
    /** Sockets that have our listener; some connect again and again. */
    const awaited = new WeakSet();
    const connected = agent.guarded((socket) => {
      awaited.delete(socket);
      if (this.isOn) this.learn(socket);
    });
    const onConnect = function onConnect() { connected(this); };
    this.opens = agent.guarded((socket) => {
      if (!this.isOn || awaited.has(socket)) return;
      socket.once('connect', onConnect);
      awaited.add(socket);
    });
    this.onSocket = (message) => this.opens(message?.socket);
  }

  begin() {
    // Whoever asks for reports may have heard nothing yet.
    this.isChanged = this.peers.size > 0;
    if (this.isOn) return;
    this.isOn = true;
    if (this.channel) this.channel.subscribe(this.onSocket);
    else this.restore ??= around(net.Socket.prototype, 'connect', this.opens);
  }

  end() {
    this.isOn = false;
    this.channel?.unsubscribe(this.onSocket);
    // Whoever has put a function around ours goes on calling it; it does nothing then.
    if (this.restore?.()) this.restore = undefined;
  }

  /** A connection is there. @param {any} socket */
  learn(socket) {
    const { remoteAddress: address, remotePort: port, _host: host } = socket;
    // A unix socket has none.
    if (typeof address !== 'string' || typeof port !== 'number') return;
    const name = typeof host === 'string' && host.length <= NAME_MAX ? host : '';
    if (name) this.peer(name, address, port);
    this.look(socket, (answer) => {
      if (answer === REFUSED) this.refuse(name, address, port);
      const known = this.peers.get(keyOf(address, port));
      if (known && answer !== OVER) known.isDatabase = true;
    });
  }

  /**
   * Looks at the first chunks that a server sends.
   * @param {any} socket
   * @param {(answer: string) => void} hear gets the answer for each of them
   */
  look(socket, hear) {
    const handle = socket._handle;
    const original = handle?.onread;
    if (typeof original !== 'function') return;
    let chunks = 0;
    let isOver = false;
    let reader;
    const see = this.agent.guarded((bytes) => {
      if (isOver) return;
      isOver = true;
      chunks += 1;
      const chunk = bytes instanceof ArrayBuffer && bytes.byteLength > 0 ? Buffer.from(bytes) : undefined;
      const answer = this.isOn && chunk ? (reader ??= readerOf(chunk))(chunk) : OVER;
      // An answer about TLS is no message.
      if (chunks === 1 && chunk?.length === 1) reader = undefined;
      isOver = answer !== MORE || chunks >= CHUNKS_MAX;
      if (isOver && handle.onread === onread) handle.onread = original;
      hear(answer);
      if (answer === ENCRYPTED) this.follow(socket, hear);
    });
    const onread = function onStreamRead(...args) {
      see(args[0]);
      return Reflect.apply(original, this, args);
    };
    handle.onread = onread;
  }

  /**
   * A database has agreed to TLS: the app now calls `tls.connect` with the socket, and what the database says comes from there. There
   * is a function around it until then, and for one turn of the loop at most.
   */
  follow(socket, hear) {
    const restore = around(require('tls'), 'connect', this.agent.guarded((_self, args, secure) => {
      if (args[0]?.socket !== socket) return;
      restore?.();
      this.look(secure, hear);
    }));
    if (restore) this.agent.immediate(restore);
  }

  peer(name, address, port) {
    const key = keyOf(address, port);
    const known = this.peers.get(key);
    if (known) {
      if (name && known.name !== name) {
        known.name = name;
        this.isChanged = true;
      }
      return known;
    }
    if (this.peers.size >= PEERS_MAX) {
      const all = [...this.peers];
      // An app may call many hosts; its databases stay known.
      const oldest = all.find(([, peer]) => peer.refused === 0 && !peer.isDatabase) ?? all.find(([, peer]) => peer.refused === 0);
      if (!oldest) return undefined;
      this.peers.delete(oldest[0]);
    }
    const peer = { name, address, port, refused: 0, isDatabase: false };
    this.peers.set(key, peer);
    this.isChanged = true;
    return peer;
  }

  refuse(name, address, port) {
    this.refused += 1;
    const peer = this.peer(name, address, port);
    if (peer) peer.refused += 1;
    this.isChanged = true;
    if (this.agent.now() - this.toldAt >= TELL_MS) this.tell();
  }

  /** Tells all servers, if there is news. */
  tell() {
    if (!this.isChanged) return;
    this.isChanged = false;
    this.toldAt = this.agent.now();
    this.agent.tell({ act: 'peers', peers: [...this.peers.values()].map(({ name, address, port, refused }) => [name, address, port, refused]) });
  }

  /** Values for a report. */
  read() {
    this.tell();
    return { outgoing_refused_total: this.refused };
  }
}

module.exports = { Servers };
