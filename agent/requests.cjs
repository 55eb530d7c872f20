// HTTP requests that come: tells listeners of each request, and counts requests by status and latency. A part of the agent, which loads it with
// the first request, or when reports or stalls are asked for and the start is over; agent.cjs has the rules, README.md the protocol.
'use strict';

/** Upper bounds of the buckets, those of `crates/forkful-core/src/metrics/histogram.rs`; one more bucket has what is above. */
const LATENCY_BOUNDS_MS = [
  0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, 1000, 1500, 2000, 3000, 5000, 10000,
];

/** Requests of closed connections are removed before each report, and also when more requests than this are under way. */
const UNDER_WAY_LOOK = 1024;

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
 * @callback RequestListener
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
    /** @type {Record<'stalls' | 'reports', { onStart: RequestListener, onFinish: RequestListener } | undefined>} */
    const listeners = { stalls: undefined, reports: undefined };
    this.listeners = listeners;
    // Our failures are none of the app's affair. Two functions and not one with a parameter, which would cost each request a lookup.
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
   * Sets a listener, or takes it away.
   * @param {'stalls' | 'reports'} name
   * @param {{ onStart: RequestListener, onFinish: RequestListener } | undefined} listener
   */
  listen(name, listener) {
    const count = () => Object.values(this.listeners).filter(Boolean).length;
    const before = count();
    this.listeners[name] = listener;
    for (const [channel, subscriber] of this.subscriptions) {
      if (before === 0 && count() > 0) channel.subscribe(subscriber);
      else if (before > 0 && count() === 0) channel.unsubscribe(subscriber);
    }
  }
}

/**
 * When each request under way came, by its response. Properties of Node.js' responses would change their shape, and V8 would then discard
 * compiled code of Node.js and of the app. A listener and an entry in a weak map for each connection took 2 % of a profile's
 * samples, with a connection for each request.
 */
class UnderWay {
  constructor() {
    /** @type {Map<any, number>} */
    this.entries = new Map();
    /** A request that has no entry, and when it came: most requests end before another comes. @type {any} */
    this.single = null;
    this.singleAt = 0;
    /** When more than these are under way, closed connections are looked for. */
    this.most = UNDER_WAY_LOOK;
  }

  /** Whether this is a request that was not yet under way. */
  begin(response, at) {
    const { entries } = this;
    if (this.single === response) return false;
    const { size } = entries;
    if (this.single === null && (size === 0 || !entries.has(response))) {
      this.single = response;
      this.singleAt = at;
      return true;
    }
    return entries.set(response, at).size > size;
  }

  /** When the request of this response came, which ends now; `undefined` if it was not under way. */
  end(response) {
    if (this.single === response) {
      this.single = null;
      return this.singleAt;
    }
    const started = this.entries.get(response);
    if (started !== undefined) this.entries.delete(response);
    return started;
  }

  /** Removes requests whose connection has closed; returns their number. */
  sweep() {
    const aborted = this.all().filter((response) => {
      const { socket } = response.req ?? response;
      return !socket || socket.destroyed;
    });
    for (const response of aborted) this.end(response);
    this.most = Math.max(UNDER_WAY_LOOK, 2 * this.entries.size);
    return aborted.length;
  }

  /** The responses. */
  all() {
    return this.single === null ? [...this.entries.keys()] : [this.single, ...this.entries.keys()];
  }
}

/**
 * HTTP requests that come. Node.js tells of their begin and of the end of their response; when a connection closes before, its
 * response has no end, which is found out before each report. Of HTTP/2, the sessions tell of their streams.
 * @param {import('./agent.cjs').Agent} agent
 * @param {{ performance: any }} clocks
 * @param {() => void} wake called at a request
 */
function watchRequests(agent, { performance }, wake) {
  const { listenToRequests } = agent;
  const counts = { requests: 0, ended: 0, aborted: 0, classes: [0, 0, 0, 0, 0] };
  const latency = new Histogram(LATENCY_BOUNDS_MS);
  const underWay = new UnderWay();
  /** Counts requests whose connection has closed as aborted. */
  const look = () => { counts.aborted += underWay.sweep(); };
  const onStart = ({ response, socket }, at) => {
    // `meet` of the reporter has counted this request.
    if (!underWay.begin(response, at)) return;
    counts.requests += 1;
    wake();
    // A client that pipelines does not wait for answers.
    const current = socket._httpMessage;
    if (current && current !== response) agent.pipelined.set(socket, response);
    if (underWay.entries.size > underWay.most) look();
  };
  const done = (ms, status) => {
    counts.ended += 1;
    counts.classes[Math.min(4, Math.max(0, Math.trunc(status / 100) - 1))] += 1;
    latency.add(ms);
  };
  const onFinish = ({ response, socket }, at) => {
    const started = underWay.end(response);
    // A request that came before the count began.
    if (started === undefined) return;
    // The app answers a client that has gone.
    if (socket.destroyed) counts.aborted += 1;
    else done(at - started, response.statusCode);
  };
  listenToRequests('reports', { onStart, onFinish });
  const endStreams = watchStreams(agent, { performance }, { counts, done, wake });
  return {
    counts,
    latency,
    onStart,
    underWay: () => underWay.all(),
    read() {
      look();
      const values = { http_in_flight: Math.max(0, counts.requests - counts.ended - counts.aborted), http_aborted_total: counts.aborted };
      counts.classes.forEach((count, at) => { values[`http_responses_${at + 1}xx_total`] = count; });
      return values;
    },
    end() {
      listenToRequests('reports', undefined);
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
  const onClose = guarded((stream, started) => {
    const status = stream.sentHeaders?.[':status'];
    if (status === undefined || stream.rstCode !== 0) counts.aborted += 1;
    else done(performance.now() - started, status);
  });
  const onStream = guarded((stream, headers) => {
    // A WebSocket or a tunnel is no request, as over HTTP/1.
    if (headers[':method'] === 'CONNECT') return;
    counts.requests += 1;
    wake();
    const started = performance.now();
    // `finish` comes for a cancelled stream, too.
    stream.on('close', () => onClose(stream, started));
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
