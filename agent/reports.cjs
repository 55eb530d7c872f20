// Reports on HTTP requests and on what is measured. A part of the agent, which loads it when reports are asked for and the start is over;
// agent.cjs has the rules, README.md the protocol.
'use strict';

/** The shortest pause between two reports: each costs a message and a turn of the loop. */
const REPORT_MS_MIN = 100;

/** A quiet worker reports to another daemon within this time. That daemon may have hundreds of workers, which must not all report at once. */
const ANSWER_MS = 3000;

/** The resolution of the event loop delay: a timer of the runtime fires at this interval. */
const DELAY_RESOLUTION_MS = 10;

/**
 * A worker is quiet after so many periods without a request in which its event loop was busy for less than this share. A loop that waits for
 * a core seems busy; so the share is at most that of the CPU time.
 */
const QUIET_UTILIZATION = 0.02;
const QUIET_PERIODS = 3;

/** Upper bounds of the buckets, those of `crates/forkful-core/src/metrics/histogram.rs`; one more bucket has what is above. */
const GC_BOUNDS_MS = [1, 10, 100, 1000, 2000, 5000];

/** With more collections in a second than this, they are observed for one period, and then not for `GC_REST` periods. */
const GC_MANY = 20;
const GC_REST = 4;

/** The place of each kind of garbage collection in a report, by Node's number: minor, major, incremental, weak callbacks. */
const GC_PLACES = new Map([[1, 0], [2, 0], [4, 1], [8, 2], [16, 3]]);

const { Histogram, short, watchRequests } = require('./requests.cjs');

// Taken when this file is loaded, because an app may replace it later.
const cpuUsage = process.cpuUsage.bind(process);

/** That a request to another server waits for its response. */
const WAITS = Symbol('forkful.waits');

/**
 * Subscribes to diagnostics channels by name.
 * @param {import('./agent.cjs').Agent} agent
 * @param {[string, (message: any) => void][]} listeners
 * @returns {() => void} ends the subscriptions
 */
function subscribe({ held, guarded }, listeners) {
  const subscriptions = listeners.map(([name, hear]) => {
    const channel = held(name);
    const listener = guarded(hear);
    channel.subscribe(listener);
    return { channel, listener };
  });
  return () => { for (const { channel, listener } of subscriptions) channel.unsubscribe(listener); };
}

/**
 * Requests to other servers, by `http` and `https`, and by undici (`fetch`).
 * @param {import('./agent.cjs').Agent} agent
 */
function watchOutgoing(agent) {
  const counts = { sent: 0, errors: 0, waiting: 0 };
  const begin = (request, waits) => {
    counts.sent += 1;
    if (!waits) return;
    counts.waiting += 1;
    request[WAITS] = true;
  };
  const done = (request, isError) => {
    if (request[WAITS] !== true) return;
    request[WAITS] = false;
    counts.waiting -= 1;
    if (isError) counts.errors += 1;
  };
  // Each request closes, also a failed one; not every version of Node.js publishes errors. The answer to an upgrade is not published.
  const onRequestClose = function onRequestClose() { done(this, !this.res); };
  const end = subscribe(agent, [
    ['http.client.request.start', ({ request }) => {
      // A server may have answered before the request was complete.
      const waits = !request.res && !request.destroyed;
      begin(request, waits);
      if (waits) request.on('close', onRequestClose);
    }],
    ['http.client.response.finish', ({ request }) => done(request, false)],
    // Of an upgrade or a tunnel, undici does not publish the answer.
    ['undici:request:create', ({ request }) => begin(request, !request.upgrade && request.method !== 'CONNECT')],
    ['undici:request:headers', ({ request }) => done(request, false)],
    ['undici:request:error', ({ request }) => done(request, true)],
  ]);
  return {
    counts,
    read: () => ({ outgoing_in_flight: counts.waiting, outgoing_requests_total: counts.sent, outgoing_errors_total: counts.errors }),
    end,
  };
}

/**
 * What waits for a free connection, where that is published: requests of undici (`fetch`) until they are sent, and requests to a
 * pool of mysql2 for a connection. pg publishes nothing.
 * @param {import('./agent.cjs').Agent} agent
 */
function watchQueues(agent) {
  // A new symbol for each period of reports: what began to wait in an earlier period is not counted.
  const QUEUES = Symbol('forkful.queues');
  let waiting = 0;
  const begin = (one) => {
    one[QUEUES] = true;
    waiting += 1;
  };
  const done = (one) => {
    if (one[QUEUES] !== true) return;
    one[QUEUES] = false;
    waiting -= 1;
  };
  const end = subscribe(agent, [
    ['undici:request:create', ({ request }) => begin(request)],
    ['undici:client:sendHeaders', ({ request }) => done(request)],
    ['undici:request:error', ({ request }) => done(request)],
    ['tracing:mysql2:pool:connect:start', begin],
    ['tracing:mysql2:pool:connect:asyncStart', done],
    ['tracing:mysql2:pool:connect:error', done],
  ]);
  return {
    read: () => ({ outgoing_waiting: waiting }),
    end,
  };
}

/** The time for which the event loop seemed busy and was idle, in milliseconds; see {@link watchUtilization}. */
let overstatedMs = 0;

/**
 * How busy the event loop is, since its start and since the last report. While samples are taken it seems busier than it was: libuv loses
 * idle time. Then the counters have it busy for the CPU time, or for the share of time in which it was late, if that is more.
 * @param {{ performance: any }} clocks
 * @param {Pick<import('./agent.cjs').Agent, 'sampling'>} agent
 * @param {{ lateShare: () => number }} delay
 */
function watchUtilization({ performance }, { sampling }, delay) {
  let last = performance.eventLoopUtilization();
  let lastCpu = cpuUsage();
  return {
    /** How busy it was since the last report, at most by the CPU time of the process. */
    utilization: 0,
    /** For how many milliseconds it was busy since the last report. */
    busyMs: 0,
    /** Whether samples were taken since the last report: then the loop seems busier than it was, and the primary calculates how busy it was. */
    isSampled: false,
    read(seconds) {
      const now = performance.eventLoopUtilization();
      const { user, system } = cpuUsage(lastCpu);
      lastCpu = cpuUsage();
      const { active, idle, utilization } = performance.eventLoopUtilization(now, last);
      this.utilization = utilization;
      last = now;
      this.isSampled = sampling.wasOpen;
      sampling.wasOpen = sampling.open > 0;
      const shown = short(this.utilization);
      const cpuMs = (user + system) / 1000;
      if (seconds > 0) this.utilization = Math.min(this.utilization, cpuMs / 1000 / seconds);
      this.busyMs = this.isSampled ? Math.min(active, Math.max(cpuMs, delay.lateShare() * (active + idle))) : active;
      overstatedMs += active - this.busyMs;
      const loops = performance.nodeTiming.uvMetricsInfo?.loopCount;
      return {
        ...(seconds > 0 && { event_loop_utilization: shown }),
        ...(now.active + now.idle > 0 && {
          event_loop_active_seconds_total: short((now.active - overstatedMs) / 1000),
          event_loop_idle_seconds_total: short((now.idle + overstatedMs) / 1000),
        }),
        ...(loops !== undefined && { event_loop_iterations_total: loops }),
      };
    },
  };
}

/**
 * How late the event loop is, from the first time that something happens in the process. Its timer would wake a loop that has nothing else to
 * do, so that it pauses while the worker is quiet.
 */
function watchDelay({ monitorEventLoopDelay }) {
  /** @type {any} It takes 0.4 MB, so an idle process has none. */
  let delay;
  // What the monitor measures is the time between two turns of its timer, so the resolution is taken off.
  const beyond = (nanoseconds) => short(Math.max(0, nanoseconds / 1e6 - DELAY_RESOLUTION_MS));
  return {
    /** The share of time since the last report in which the loop was late; 0 if nothing was measured. */
    lateShare() {
      const lateMs = beyond(delay?.mean ?? NaN);
      return Number.isFinite(lateMs) ? lateMs / (DELAY_RESOLUTION_MS + lateMs) : 0;
    },
    read(seconds) {
      if (!delay) return {};
      // Nothing was measured yet when the mean is no number.
      const values = seconds > 0 && Number.isFinite(delay.mean) ? {
        event_loop_delay_p50_ms: beyond(delay.percentile(50)),
        event_loop_delay_p90_ms: beyond(delay.percentile(90)),
        event_loop_delay_p99_ms: beyond(delay.percentile(99)),
        event_loop_delay_min_ms: beyond(delay.min),
        event_loop_delay_max_ms: beyond(delay.max),
        event_loop_delay_mean_ms: beyond(delay.mean),
        event_loop_delay_stddev_ms: short(delay.stddev / 1e6),
      } : {};
      delay.reset();
      return values;
    },
    /** @param {boolean} isQuiet */
    pause(isQuiet) {
      if (isQuiet) return void delay?.disable();
      delay ??= monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
      delay.enable();
    },
    end() { delay?.disable(); },
  };
}

function watchMemory(_clocks, { memory }) {
  const limit = require('v8').getHeapStatistics().heap_size_limit;
  return {
    read() {
      const { heapUsed, heapTotal, external } = memory();
      return { heap_used_bytes: heapUsed, heap_total_bytes: heapTotal, heap_limit_bytes: limit, external_bytes: external };
    },
  };
}

/**
 * Pauses of the garbage collector, by their kind. To observe one costs Node.js about 50 us and 4 KB that outlive the next collections, for which
 * V8 makes its young generation larger. So with many of them, one period is observed, and the next ones are estimated from it, in proportion to
 * the time in which the event loop was busy.
 * @param {{ PerformanceObserver: any }} clocks
 * @param {Pick<import('./agent.cjs').Agent, 'guarded'>} agent
 * @param {{ busyMs: number }} loop which is read before this
 */
function watchGarbage({ PerformanceObserver }, { guarded }, loop) {
  const histograms = () => Array.from({ length: 4 }, () => new Histogram(GC_BOUNDS_MS));
  const kinds = histograms();
  /** What was observed in the last period that was, and for how long the loop was busy in it. */
  let observed = histograms();
  let observedMs = 0;
  /** For how many more periods nothing is observed. */
  let rest = 0;
  const take = (entries) => {
    for (const entry of entries) observed[GC_PLACES.get(entry.detail?.kind) ?? 1].add(entry.duration);
  };
  const observer = new PerformanceObserver(guarded((list) => take(list.getEntries())));
  const observe = () => {
    observed = histograms();
    rest = 0;
    observer.observe({ entryTypes: ['gc'] });
  };
  const addUp = (times) => kinds.forEach((kind, place) => kind.addAll(observed[place], times));
  observe();
  return {
    kinds,
    /** Whether all are observed, however many there are. */
    observesAll: false,
    read(seconds) {
      const { busyMs } = loop;
      if (rest > 0) {
        addUp(busyMs / observedMs);
        rest -= 1;
        // With less to do, there may be few of them now.
        if (rest === 0 || this.observesAll || busyMs < observedMs / 2) observe();
        return {};
      }
      take(observer.takeRecords());
      addUp(1);
      const count = observed.reduce((sum, { counts }) => sum + counts.reduce((all, one) => all + one), 0);
      // A short period with a few of them says nothing of the next ones.
      if (this.observesAll || busyMs <= 0 || count <= GC_MANY * Math.max(1, seconds)) {
        observed = histograms();
      } else {
        observer.disconnect();
        observedMs = busyMs;
        rest = GC_REST;
      }
      return {};
    },
    end() { observer.disconnect(); },
  };
}

/**
 * How long a small job waits for a thread of libuv's pool. Only when the primary has seen that the pool is there: the first job
 * would start its threads.
 */
function watchPool({ performance }, { guarded }) {
  const { stat } = require('fs');
  let wait;
  let isAsking = false;
  return {
    isThere: false,
    read() {
      const values = wait === undefined ? {} : { pool_wait_ms: short(wait) };
      wait = undefined;
      if (this.isThere && !isAsking) {
        isAsking = true;
        const asked = performance.now();
        const loop = performance.eventLoopUtilization();
        stat('/', guarded(() => {
          isAsking = false;
          // The answer also waits while the loop is busy, which is taken off.
          wait = Math.max(0, performance.now() - asked - performance.eventLoopUtilization(loop).active);
        }));
      }
      return values;
    },
  };
}

/** Reports on the requests and on what is measured, at an interval that the primary sets. */
class Reporter {
  /**
   * @param {import('./agent.cjs').Agent} agent
   * @param {() => import('./outgoing.cjs').Servers} loadServers
   */
  constructor(agent, loadServers) {
    this.agent = agent;
    this.clocks = require('perf_hooks');
    this.tick = agent.guarded(() => this.report());
    /** @type {any} */
    this.interval = null;
    /** The pause between two reports now. */
    this.paceMs = 0;
    /** @type {any} What measures, while reports are asked for. */
    this.meters = null;
    /** Requests of the time before reports were last ended. */
    this.requestsBefore = 0;
    this.lastRequests = 0;
    this.lastSent = 0;
    this.reportedAt = 0;
    this.everyMs = 0;
    this.quietMs = 0;
    this.isQuiet = false;
    this.quietPeriods = 0;
    this.wake = () => { if (this.isQuiet) this.wakeUp(); };
    this.hasPool = false;
    this.loadServers = loadServers;
    /** @type {ReturnType<typeof watchRequests> | null} One of the meters, which may begin before the others. */
    this.requests = null;
  }

  /**
   * @param {number} everyMs the pause between two reports
   * @param {number} quietMs the pause while nothing happens; 0: the same
   * @param {boolean} isUrgent whether a quiet worker reports at once, too
   */
  every(everyMs, quietMs, isUrgent) {
    this.everyMs = Math.max(everyMs, REPORT_MS_MIN);
    this.quietMs = quietMs > this.everyMs ? quietMs : 0;
    if (!this.meters) {
      // Nothing has happened yet, and one period without anything is enough.
      this.quietPeriods = QUIET_PERIODS - 1;
      this.begin();
      this.setQuiet(this.quietMs > 0);
      // What is known at once: who looks for the first time need not look again for it.
      this.report(0);
      this.pace(this.everyMs);
    } else {
      // A new daemon has heard nothing yet. A quiet worker stays quiet: many of them that woke at the same time would use all cores.
      this.meters.servers.begin();
      this.meters.garbage.observesAll = this.quietMs === 0;
      if (this.quietMs === 0) this.setQuiet(false);
      this.pace(this.isQuiet ? this.quietMs : this.everyMs);
      if (this.isQuiet && !isUrgent) this.agent.timer(this.tick, ANSWER_MS * Math.random()).unref();
      else if (this.isQuiet || this.sinceReport() * 1000 >= REPORT_MS_MIN) this.report();
    }
  }

  /** Counts requests, before or while all else is measured. */
  count() {
    this.requests ??= watchRequests(this.agent, this.clocks, this.wake);
    return this.requests;
  }

  begin() {
    const { agent, clocks } = this;
    const delay = watchDelay(clocks);
    const utilization = watchUtilization(clocks, agent, delay);
    const servers = this.loadServers();
    servers.begin();
    this.meters = {
      requests: this.count(),
      outgoing: watchOutgoing(agent),
      queues: watchQueues(agent),
      servers,
      // Before the delay, whose reading begins it anew, and before the garbage, which needs what it says.
      utilization,
      delay,
      memory: watchMemory(clocks, agent),
      garbage: watchGarbage(clocks, agent, utilization),
      pool: watchPool(clocks, agent),
    };
    this.meters.pool.isThere = this.hasPool;
    this.meters.garbage.observesAll = this.quietMs === 0;
    this.reportedAt = clocks.performance.now();
  }

  end() {
    this.agent.clearTicks(this.interval);
    this.interval = null;
    this.requestsBefore += this.requests?.counts.requests ?? 0;
    for (const meter of Object.values(this.meters ?? { requests: this.requests })) meter?.end?.();
    [this.meters, this.requests] = [null, null];
  }

  /** libuv's pool is there. */
  usePool() {
    this.hasPool = true;
    if (this.meters) this.meters.pool.isThere = true;
  }

  /**
   * Counts the request with which counting began. Whether the channel also tells us of this request depends on the version of Node.js.
   * @param {any} message
   */
  meet(message) {
    if (message.response) this.requests?.onStart(message, this.clocks.performance.now());
  }

  /** Responses under way. */
  underWay() {
    return this.meters?.requests.underWay() ?? [];
  }

  sinceReport() {
    return (this.clocks.performance.now() - this.reportedAt) / 1000;
  }

  /** @param {number} [seconds] since the last report */
  report(seconds = this.sinceReport()) {
    const { meters } = this;
    if (!meters) return;
    this.reportedAt = this.clocks.performance.now();
    const requests = this.requestsBefore + meters.requests.counts.requests;
    const sent = meters.outgoing.counts.sent;
    const values = Object.assign({}, ...Object.values(meters).map((meter) => meter.read(seconds)));
    const quiet = this.isQuietAfter(seconds, requests, sent, values);
    this.agent.tell({
      act: 'report',
      requests,
      values,
      latency: meters.requests.latency.numbers(),
      gc: meters.garbage.kinds.flatMap((kind) => kind.numbers()),
      ...(seconds > 0 && { ms: short(seconds * 1000) }),
      ...(meters.utilization.isSampled && { sampled: true }),
      ...(quiet && { quiet }),
    });
    if (seconds === 0) return;
    this.setQuiet(quiet);
    this.pace(quiet ? this.quietMs : this.everyMs);
  }

  /**
   * Whether nothing has happened for some periods.
   * @param {number} seconds since the last report
   * @param {number} requests that have come
   * @param {number} sent requests to others
   * @param {Record<string, number>} values of the report
   */
  isQuietAfter(seconds, requests, sent, values) {
    const isAsked = requests !== this.lastRequests || sent !== this.lastSent || values.http_in_flight > 0 || values.outgoing_in_flight > 0;
    this.lastRequests = requests;
    this.lastSent = sent;
    // In a much shorter time there is little but the report itself.
    const isPeriod = seconds * 1000 >= this.everyMs / 2;
    if (isAsked || (isPeriod && this.meters.utilization.utilization > QUIET_UTILIZATION)) this.quietPeriods = 0;
    else if (isPeriod) this.quietPeriods += 1;
    return this.quietMs > 0 && this.quietPeriods >= QUIET_PERIODS;
  }

  /** Sets the interval between reports. A timer that has this interval already goes on. */
  pace(ms) {
    if (this.interval && ms === this.paceMs) return;
    const { ticks, clearTicks } = this.agent;
    clearTicks(this.interval);
    this.paceMs = ms;
    this.interval = ticks(this.tick, ms).unref();
  }

  /** Whether nothing happens: then reports are rare, and the timer of the delay is off. */
  setQuiet(isQuiet) {
    this.isQuiet = isQuiet;
    this.meters?.delay.pause(isQuiet);
  }

  /** Something happens again: the quiet time ends with a report of its own, after the request that has ended it. */
  wakeUp() {
    this.quietPeriods = 0;
    this.setQuiet(false);
    this.agent.immediate(this.agent.guarded(() => {
      if (!this.meters) return;
      this.report();
      this.pace(this.everyMs);
    }));
  }
}

module.exports = { Reporter, watchGarbage, watchUtilization };
