// Moves connections that clients keep open to other workers. A part of the agent, which loads it when the primary has
// connections counted for the first time; agent.cjs has the rules, README.md the protocol.
'use strict';

/** Moves kept HTTP/1 connections to other workers: the worker closes them with a response, and the clients connect anew. */
class Mover {
  /** @param {import('./agent.cjs').Agent} agent */
  constructor(agent) {
    this.agent = agent;
    /** The bytes that each connection had received at the last count. @type {WeakMap<any, number>} */
    this.counted = new WeakMap();
    /** The number of connections that are still to be closed. */
    this.left = 0;
    this.subscribed = false;
    /** Whether a connection may be closed with its next response; see `consider`. @type {WeakMap<any, boolean>} */
    this.seen = new WeakMap();
    this.onRequest = agent.guarded((start) => this.consider(start));
  }

  /** Reports how many connections have been open since the last count, and how many of those were used since then. */
  count() {
    this.move(0);
    let open = 0;
    let fresh = 0;
    let movable = 0;
    for (const server of this.agent.servers) {
      open += server._connections || 0;
      for (const socket of this.agent.http1Sockets(server)) {
        const bytes = this.counted.get(socket);
        if (bytes === undefined) fresh += 1;
        else if (bytes !== socket.bytesRead) movable += 1;
        this.counted.set(socket, socket.bytesRead);
      }
    }
    const staying = Math.max(0, open - fresh);
    this.agent.tell({ act: 'count', staying, movable: Math.min(movable, staying) });
  }

  /**
   * Closes kept connections: each with the response to one of its next requests.
   * @param {number} connections how many; 0 stops it
   */
  move(connections) {
    this.left = connections;
    this.seen = new WeakMap();
    // Not within `consider`: a channel that loses a subscriber while it publishes may pass over the next one.
    if (this.subscribed === connections > 0) return;
    this.subscribed = connections > 0;
    if (this.subscribed) this.agent.requestStart.subscribe(this.onRequest);
    else this.agent.requestStart.unsubscribe(this.onRequest);
  }

  /**
   * Closes the connection of a request that has begun with the response to it, if the client loses nothing by that.
   * The client must not pipeline: it waited for the response to its last request before it sent this one. And the
   * request has no body, which would be cut off.
   */
  consider({ request, response, socket }) {
    if (this.left === 0 || !this.counted.has(socket)) return;
    if (socket._httpMessage && socket._httpMessage !== response) {
      this.seen.set(socket, false);
      return;
    }
    const may = this.seen.get(socket);
    if (may === undefined) this.seen.set(socket, true);
    const hasBody = 'transfer-encoding' in request.headers || (request.headers['content-length'] ?? '0') !== '0';
    if (!may || !response.shouldKeepAlive || request.upgrade || hasBody) return;
    this.seen.set(socket, false);
    this.agent.refuseReuse(response);
    this.left -= 1;
  }
}

module.exports = { Mover };
