// HTTP requests that come: who hears of them, and how many there are with which status and latency. A part of the agent, which loads it with
// the first request, or when reports or stalls are asked for and the start is over; agent.cjs has the rules, README.md the protocol.
'use strict';

/** Upper bounds of the buckets, those of `crates/forkful-core/src/metrics/histogram.rs`; one more bucket has what is above. */
const LATENCY_BOUNDS_MS = [
  0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10000,
];

/** When a request came; on its response, until that has ended. */
const STARTED = Symbol('forkful.started');
/** That we hear of a connection's end. */
const HEARD = Symbol('forkful.heard');

/** Four decimals are enough, and shorter. */
const short = (value) => Math.round(value * 1e4) / 1e4;

/** Counts how often something took how long. */
class Histogram {
  /** @param {number[]} bounds in milliseconds */
  constructor(bounds) {
    this.bounds = bounds;
    this.counts = new Array(bounds.length + 1).fill(0);
    this.sum = 0;
  }

  /** @param {number} ms */
  add(ms) {
    const { bounds } = this;
    let at = 0;
    while (at < bounds.length && ms > bounds[at]) at += 1;
    this.counts[at] += 1;
    this.sum += ms;
  }

  /**
   * Adds what another one has counted.
   * @param {Histogram} other with the same bounds
   * @param {number} times how often
   */
  addAll(other, times) {
    other.counts.forEach((count, at) => { this.counts[at] += count * times; });
    this.sum += other.sum * times;
  }

  /** The counts, then the sum. */
  numbers() {
    return [...this.counts.map(Math.round), short(this.sum)];
  }
}

/**
 * @callback Hear
 * @param {any} message what Node.js publishes
 * @param {number} at the time, by `performance.now()`
 */

/**
 * Tells of requests over HTTP/1: when they start, and when their responses end. There is one subscriber, which reads the clock once: a second
 * one would cost each request 0.1 us.
 */
class Requests {
  /** @param {import('./agent.cjs').Agent} agent */
  constructor({ requestStart, held }) {
    const { performance } = require('perf_hooks');
    const clock = performance.now.bind(performance);
    /** @type {Record<'stalls' | 'reports', { onStart: Hear, onFinish: Hear } | undefined>} */
    const listeners = { stalls: undefined, reports: undefined };
    this.listeners = listeners;
    // Our failures are none of the app's affair.
    const onStart = (message) => {
      try {
        const at = clock();
        if (listeners.stalls !== undefined) listeners.stalls.onStart(message, at);
        if (listeners.reports !== undefined) listeners.reports.onStart(message, at);
      } catch {
        // See above.
      }
    };
    const onFinish = (message) => {
      try {
        const at = clock();
        if (listeners.stalls !== undefined) listeners.stalls.onFinish(message, at);
        if (listeners.reports !== undefined) listeners.reports.onFinish(message, at);
      } catch {
        // See above.
      }
    };
    this.subscriptions = [[requestStart, onStart], [held('http.server.response.finish'), onFinish]];
  }

  /**
   * @param {'stalls' | 'reports'} who
   * @param {{ onStart: Hear, onFinish: Hear } | undefined} listener undefined: hears no more
   */
  hear(who, listener) {
    const count = () => Object.values(this.listeners).filter(Boolean).length;
    const before = count();
    this.listeners[who] = listener;
    for (const [channel, subscriber] of this.subscriptions) {
      if (before === 0 && count() > 0) channel.subscribe(subscriber);
      else if (before > 0 && count() === 0) channel.unsubscribe(subscriber);
    }
  }
}

/**
 * HTTP requests that come. Node.js tells of their begin and of the end of their response; when a connection closes before, its
 * response has no end. Of HTTP/2, the sessions tell of their streams.
 * @param {import('./agent.cjs').Agent} agent
 * @param {{ performance: any }} clocks
 * @param {() => void} wake called at a request
 */
function watchRequests(agent, { performance }, wake) {
  const { hearRequests } = agent;
  const counts = { requests: 0, ended: 0, aborted: 0, classes: [0, 0, 0, 0, 0] };
  const latency = new Histogram(LATENCY_BOUNDS_MS);
  const onClose = function onClose() {
    const response = this._httpMessage;
    if (response && response[STARTED] !== undefined) {
      response[STARTED] = undefined;
      counts.aborted += 1;
    }
  };
  const onStart = ({ response, socket }, at) => {
    // `meet` has counted it.
    if (response[STARTED] !== undefined) return;
    counts.requests += 1;
    wake();
    response[STARTED] = at;
    if (socket[HEARD] === undefined) {
      socket[HEARD] = true;
      socket.on('close', onClose);
    }
  };
  const done = (ms, status) => {
    counts.ended += 1;
    counts.classes[Math.min(4, Math.max(0, Math.trunc(status / 100) - 1))] += 1;
    latency.add(ms);
  };
  const onFinish = ({ response }, at) => {
    const started = response[STARTED];
    if (started === undefined) return;
    response[STARTED] = undefined;
    done(at - started, response.statusCode);
  };
  hearRequests('reports', { onStart, onFinish });
  const endStreams = watchStreams(agent, { performance }, { counts, done, wake });
  return {
    counts,
    latency,
    onStart,
    read() {
      const values = { http_in_flight: Math.max(0, counts.requests - counts.ended - counts.aborted), http_aborted_total: counts.aborted };
      counts.classes.forEach((count, at) => { values[`http_responses_${at + 1}xx_total`] = count; });
      return values;
    },
    end() {
      hearRequests('reports', undefined);
      endStreams();
    },
  };
}

/**
 * Requests over HTTP/2: the streams of its sessions.
 * @param {import('./agent.cjs').Agent} agent
 * @param {{ performance: any }} clocks
 * @param {{ counts: any, done: (ms: number, status: number) => void, wake: () => void }} hear
 * @returns {() => void} ends the watch
 */
function watchStreams({ guarded, sessions, sessionListeners }, { performance }, { counts, done, wake }) {
  const onClose = guarded((stream) => {
    const started = stream[STARTED];
    stream[STARTED] = undefined;
    const status = stream.sentHeaders?.[':status'];
    if (status === undefined || stream.rstCode !== 0) counts.aborted += 1;
    else done(performance.now() - started, status);
  });
  const onStream = guarded((stream, headers) => {
    // A WebSocket or a tunnel is no request, as over HTTP/1.
    if (headers[':method'] === 'CONNECT') return;
    counts.requests += 1;
    wake();
    stream[STARTED] = performance.now();
    // `finish` comes for a cancelled stream, too.
    stream.on('close', () => onClose(stream));
  });
  // Before the app's own, which may take long.
  const follow = (session) => session.prependListener('stream', onStream);
  for (const session of sessions) follow(session);
  sessionListeners.add(follow);
  return () => {
    sessionListeners.delete(follow);
    for (const session of sessions) session.removeListener('stream', onStream);
  };
}

module.exports = { Histogram, Requests, short, watchRequests };
