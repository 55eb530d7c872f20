// Connections that do not end by themselves: WebSockets and event streams. A part of the agent, which loads it when a drain begins;
// agent.cjs has the rules, README.md the protocol.
'use strict';

/** The interval between checks whether the next connection must leave: fine enough for thousands of connections within seconds. */
const LOOK_MS = 25;

/** The part of the drain's time within which all are told to leave. The rest is for their clients to answer. */
const WINDOW = 0.9;

/** RFC 6455's registry: the service is restarted, and the client may connect again. */
const SERVICE_RESTART = 1012;

const EVENT_STREAM = /\r\ncontent-type: *text\/event-stream/i;

/** Tells long-lived connections to leave, the oldest first, evenly over the available time. */
class Leavers {
  /**
   * @param {import('./agent.cjs').Agent} agent
   * @param {number} withinMs how long the drain may take
   * @param {() => number} now
   */
  constructor(agent, withinMs, now) {
    this.agent = agent;
    this.windowMs = withinMs * WINDOW;
    this.now = now;
    this.startedAt = now();
    /** Connections that were told to leave. @type {WeakSet<any>} */
    this.told = new WeakSet();
    this.toldCount = 0;
    /** The largest number of connections that had to be told. */
    this.total = 0;
    this.sweep = agent.guarded(() => this.look());
  }

  start() {
    this.sweep();
    // For unknown libraries: an app can close its connections itself. What it throws is its own.
    process.nextTick(() => process.emit('forkful:drain', { within_ms: this.windowMs / WINDOW }));
  }

  /** One check; repeats itself until the process ends. */
  look() {
    this.agent.timer(this.sweep, LOOK_MS).unref();
    const staying = [...this.webSockets(), ...this.eventStreams()].filter((long) => !this.told.has(long.key));
    this.total = Math.max(this.total, this.toldCount + staying.length);
    const left = Math.max(0, 1 - (this.now() - this.startedAt) / this.windowMs);
    const tooMany = staying.length - Math.ceil(this.total * left);
    for (const { key, leave } of staying.slice(0, Math.max(0, tooMany))) {
      this.told.add(key);
      this.toldCount += 1;
      leave();
    }
  }

  /** WebSockets of the library `ws`, which socket.io uses, too. It keeps each one at its socket. */
  *webSockets() {
    for (const socket of this.agent.upgraded) {
      const webSocket = this.agent.hidden(socket, 'websocket');
      if (typeof webSocket?.close !== 'function') continue;
      yield { key: socket, leave: this.agent.guarded(() => webSocket.close(SERVICE_RESTART, 'restart')) };
    }
  }

  /** Responses to an `EventSource`, which connects again when its response ends. */
  *eventStreams() {
    for (const server of this.agent.servers) {
      for (const socket of this.agent.http1Sockets(server)) {
        const response = socket._httpMessage;
        if (!response?.headersSent || !EVENT_STREAM.test(response._header)) continue;
        yield { key: response, leave: this.agent.guarded(() => end(response)) };
      }
    }
  }
}

/** Ends a response and its connection. Data that the app still writes to it is lost, as if the client had disconnected. */
function end(response) {
  response.on('error', () => {});
  response._last = true;
  response.end();
}

module.exports = { Leavers };
