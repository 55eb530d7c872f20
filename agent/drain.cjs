// A drain: a worker answers all requests that it was sent, tells its clients to connect elsewhere, and closes idle connections only when no
// request is in transit. A part of the agent, which loads it when the start is over: a drain must not depend on whether the file still exists. agent.cjs
// has the rules, README.md the protocol.
'use strict';

/** How often a draining worker looks at its connections: a small part of the grace, and cheap. */
const SWEEP_MS = 25;

/** The time that a client has to close a connection after we have ended it; then we destroy it. */
const LINGER_MS = 1000;

/**
 * How long a session stays open after its client has answered the first GOAWAY with its own, on which Node.js closes it at once: streams that
 * the client opened before are still on their way, and would be refused.
 */
const HTTP2_TRANSIT_MS = 150;

/** Streams of an HTTP/2 session that are not yet forbidden: RFC 9113, section 6.8, graceful shutdown. */
const HTTP2_LAST_STREAM = 2 ** 31 - 1;

/** One drain: from the primary's message to our answer. */
class Drain {
  /**
   * @param {import('./agent.cjs').Agent} agent
   * @param {number} graceMs how long idle connections may still be used
   * @param {boolean} closesIdle false when Node itself is disconnecting and the primary expects no answer
   * @param {unknown} [stop] what the process is told to stop by: the name of a signal, or `message`
   */
  constructor(agent, graceMs, closesIdle, stop) {
    this.agent = agent;
    this.stop = stop;
    this.graceMs = graceMs;
    this.closesIdle = closesIdle;
    this.startedAt = agent.now();
    /** Idle connections: the time at which each became idle, and the number of bytes that had arrived until that time. @type {Map<any, {since: number, bytes: number}>} */
    this.quiet = new Map();
    /** Connections that we have ended, and when. @type {Map<any, number>} */
    this.ended = new Map();
    this.closedIdle = 0;
    /** The response to the last request of each connection. @type {WeakMap<any, any>} */
    this.newest = new WeakMap();
    /** Responses that say `Connection: close` because of us. @type {WeakSet<any>} */
    this.marked = new WeakSet();
    /** Responses whose requests have not arrived to their end. @type {WeakSet<any>} */
    this.uploads = new WeakSet();
    /**
     * Whether the drain waits for connections that we must not close: those of a server that was closed to new ones, or of a process
     * that is told to stop, and not to disconnect.
     */
    this.waits = agent.lends() || this.hearsStop();
    this.sweep = agent.guarded(() => this.look());
  }

  start() {
    // From here on each response tells its client not to reuse the connection. Responses in progress
    // are found by `look`; responses whose headers were already sent leave an idle connection, which gets the grace.
    const { guarded, learn, requestStart, sessions } = this.agent;
    requestStart.subscribe(guarded(({ response, server, socket }) => {
      learn(server);
      this.allowReuse(this.newest.get(socket));
      this.newest.set(socket, response);
      this.refuseReuse(response);
    }));
    for (const session of sessions) announce(session, this.agent.timer);
    if (this.closesIdle) this.sweep();
    else this.markAll();
  }

  /** Whether the app does something when it is told to stop. Node.js would end the process with its last connection, before that. */
  hearsStop() {
    const { stop } = this;
    return typeof stop === 'string' && process.listenerCount(stop) > 0;
  }

  /** Marks the responses in progress. */
  markAll() {
    const { http1Sockets, servers } = this.agent;
    for (const server of servers) {
      for (const socket of http1Sockets(server)) this.mark(socket);
    }
    this.lookAtGiven();
  }

  /**
   * Requests on connections that the app has given to an HTTP server (`server.emit('connection', socket)`). Node.js has no list of the
   * connections of a server that does not listen.
   */
  lookAtGiven() {
    let open = 0;
    let server;
    let isListed = false;
    for (const { socket } of this.agent.underWay()) {
      if (!socket || socket.destroyed) continue;
      if (socket.server !== server) {
        server = socket.server;
        isListed = server && this.agent.hidden(server, 'http.server.connections') !== undefined;
      }
      if (isListed) continue;
      open += 1;
      this.mark(socket);
    }
    return open;
  }

  /**
   * Marks the last response in progress of a connection. A client that pipelines has sent further requests, which the app executes as well:
   * a connection that ended with an earlier response would end without theirs.
   */
  mark(socket) {
    if (!this.newest.has(socket)) {
      const waiting = this.agent.pipelined.get(socket);
      const newest = waiting && !waiting.writableFinished ? waiting : socket._httpMessage;
      if (newest) this.newest.set(socket, newest);
    }
    this.refuseReuse(this.newest.get(socket));
  }

  refuseReuse(response) {
    if (!response || !response.shouldKeepAlive || response.headersSent || this.marked.has(response)) return;
    if (isUploading(response.req)) {
      // Node.js destroys a connection with its last response; what the client was still sending would make that a reset, and the
      // client would lose the response.
      if (!this.uploads.has(response)) {
        this.uploads.add(response);
        response.req.once('end', this.agent.guarded(() => this.refuseReuse(response)));
      }
      return;
    }
    this.agent.refuseReuse(response);
    this.marked.add(response);
    closeWithHead(response, () => this.marked.has(response), this.agent.guarded(() => this.refuseFurther(response)));
  }

  /**
   * A request behind the head of the last response could be executed, but not answered: its client sends it again elsewhere. The end of
   * the request that is answered may still be on its way, and the next ones may have come with it.
   */
  refuseFurther({ req }) {
    const socket = req?.socket;
    if (!socket || socket.destroyed) return;
    if (socket.parser) socket.parser.onIncoming = skip;
    const refuse = () => {
      if (req.complete && !socket.destroyed) ignoreInput(socket);
    };
    if (req.complete) refuse();
    else this.agent.immediate(this.agent.guarded(refuse));
  }

  /** A further request of the same connection has come. */
  allowReuse(response) {
    if (response && !response.headersSent && this.marked.delete(response)) response.shouldKeepAlive = true;
  }

  /** Checks all connections once; repeats itself until it can answer the primary. */
  look() {
    const { immediate, now, tell, timer } = this.agent;
    const at = now();
    const over = at - this.startedAt >= this.graceMs;
    const http1 = this.lookAtHttp1(at);
    const open = http1.open + this.lookAtGiven() + this.lookAtHttp2(over) + this.lookAtEnded(at) + this.agent.ownWorkers();
    const others = this.others(http1.total);
    // Connections in the TLS handshake are among the others, so these have the grace as well.
    if (open === 0 && ((over && !this.waits) || others === 0)) {
      this.agent.finish(() => tell({ act: 'drained', idle: this.closedIdle, busy: others, ...(this.hearsStop() && { stops: true }) }));
      return;
    }
    // A request may have arrived that is still unread in the kernel. The poll phase after the timer reads it, so only the
    // check phase after that can tell an idle connection from one with a new request.
    // (An immediate keeps the process alive for one turn only. An unref'd immediate would wait for an event.)
    timer(() => immediate(this.sweep), SWEEP_MS).unref();
  }

  /**
   * Stops listening on addresses on which no worker of the app will listen again; open connections stay.
   * @param {unknown[] | null} places null is everywhere
   */
  stopListening(places) {
    for (const server of this.agent.servers) {
      const address = server.listening && server.address();
      const place = address && (typeof address === 'string' ? address : String(address.port));
      if (places && !places.includes(place) || !server._handle) continue;
      this.waits = true;
      closeHandle(server._handle);
    }
  }

  lookAtHttp1(at) {
    const { http1Sockets, servers } = this.agent;
    let open = 0;
    let total = 0;
    for (const server of servers) {
      const between = betweenRequests(this.agent.hidden(server, 'http.server.connections'));
      for (const socket of http1Sockets(server)) {
        total += 1;
        if (this.ended.has(socket)) continue;
        open += 1;
        if (socket._httpMessage) {
          this.mark(socket);
          this.quiet.delete(socket);
        } else if (socket.bytesRead > 0 && !between.has(socket)) {
          // A part of a request is there. Node.js waits for the rest for as long as `headersTimeout` and `requestTimeout` say.
          this.quiet.delete(socket);
        } else {
          this.consider(socket, at);
        }
      }
    }
    return { open, total };
  }

  /**
   * Ends a connection without a response in progress, once it has been idle for the grace; bytes
   * that arrive (perhaps the first part of a request) restart its grace.
   */
  consider(socket, at) {
    const bytes = socket.bytesRead;
    const entry = this.quiet.get(socket);
    if (!entry || entry.bytes !== bytes) {
      this.quiet.set(socket, { since: at, bytes });
    } else if (at - entry.since >= this.graceMs) {
      this.quiet.delete(socket);
      this.ended.set(socket, at);
      this.closedIdle += 1;
      // FIN first, and the client closes: a client that writes at this very moment sees the end of the
      // stream instead of a reset. Its request cannot be answered any more, so it must not be executed:
      // the client will send it again elsewhere.
      ignoreInput(socket);
      socket.end();
    }
  }

  /** Sessions accept no new streams after the grace, and end by themselves with their last stream. */
  lookAtHttp2(over) {
    let open = 0;
    for (const session of this.agent.sessions) {
      if (session.destroyed) continue;
      if (over && !session.closed) session.close();
      if (!session.destroyed) open += 1;
    }
    return open;
  }

  /** Connections that we ended and whose clients have not closed yet. */
  lookAtEnded(at) {
    for (const [socket, since] of this.ended) {
      if (!socket.destroyed && at - since >= LINGER_MS) socket.destroy();
      if (socket.destroyed) this.ended.delete(socket);
    }
    for (const socket of this.quiet.keys()) if (socket.destroyed) this.quiet.delete(socket);
    return this.ended.size;
  }

  /** Connections that we must not close: upgraded (WebSocket), plain TCP, in the TLS handshake. */
  others(http1) {
    const { servers, sessions } = this.agent;
    let all = 0;
    for (const server of servers) all += server._connections || 0;
    return Math.max(0, all - http1 - sessions.size);
  }
}

/**
 * Closes the handle of a server to new connections. The app, and the agent, may still ask for the server's address.
 * @param {any} handle
 */
function closeHandle(handle) {
  const address = {};
  const isTcp = typeof handle.getsockname === 'function' && handle.getsockname(address) === 0;
  handle.close();
  if (!isTcp) return;
  handle.getsockname = (out) => {
    Object.assign(out, address);
    return 0;
  };
}

/** A body up to this size arrives with its head, or soon after. */
const SMALL_BODY_BYTES = 65_536;

/** Whether a large body, or one of unknown size, is still on its way. */
function isUploading(request) {
  if (!request || request.complete) return false;
  const { 'content-length': length, 'transfer-encoding': encoding } = request.headers;
  return encoding !== undefined || Number(length ?? 0) > SMALL_BODY_BYTES;
}

/**
 * Has the head of a response say `Connection: close` also where the app sets the header `Connection` itself.
 * @param {any} response
 * @param {() => boolean} applies
 * @param {() => void} done the head is made, and the connection ends with this response
 */
function closeWithHead(response, applies, done) {
  const store = response._storeHeader;
  if (typeof store !== 'function') return;
  response._storeHeader = function storeHeader(...given) {
    const result = store.apply(this, given);
    if (!applies()) return result;
    if (!this._last && typeof this._header === 'string' && this.statusCode !== 101) {
      this._header = this._header.replace(/\r\nconnection: *keep-alive *(?=\r\n)/i, '\r\nConnection: close').replace(/\r\nkeep-alive:[^\r\n]*/i, '');
      if (/\r\nConnection: close\r\n/.test(this._header)) {
        this._last = true;
        this.shouldKeepAlive = false;
      }
    }
    if (this._last) done();
    return result;
  };
}

/** The connections that have sent no part of a request since the last one. @param {any} list Node's list of a server's connections */
function betweenRequests(list) {
  return new Set(list && typeof list.idle === 'function' ? list.idle().map((parser) => parser.socket) : []);
}

/**
 * Keeps data of an HTTP/1 connection from the parser and from the app; only its end is still noticed.
 * (If a connection is not read at all, its close by the client is not noticed.)
 */
function ignoreInput(socket) {
  // A listener for 'data' also takes the connection back from a parser that reads from its handle directly.
  socket.on('data', ignore);
  for (const listener of socket.listeners('data')) {
    if (listener !== ignore) socket.removeListener('data', listener);
  }
  socket.resume();
}

function ignore() {}

/** Takes a request from the parser in place of Node.js, and gives it to nobody. @param {any} incoming */
function skip(incoming) {
  incoming.upgrade = false;
  return 0;
}

/**
 * Tells an HTTP/2 client to open its next streams elsewhere; streams in transit are still served.
 * @param {any} session
 * @param {typeof setTimeout} timer
 */
function announce(session, timer) {
  try {
    if (session.closed || session.destroyed) return;
    closeLater(session, timer);
    session.goaway(0, HTTP2_LAST_STREAM);
  } catch {
    // The session has just ended.
  }
}

/** The first `close()` of a session comes a moment later. */
function closeLater(session, timer) {
  let isPlanned = false;
  session.close = function close(callback) {
    if (typeof callback === 'function') this.once('close', callback);
    if (isPlanned) return;
    isPlanned = true;
    timer(() => {
      delete session.close;
      if (!session.destroyed) session.close();
    }, HTTP2_TRANSIT_MS).unref();
  };
}

module.exports = { Drain, announce, closeHandle };
