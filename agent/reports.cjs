// Reports on HTTP requests and on what is measured. A part of the agent, which loads it when the primary asks for the first report;
// agent.cjs has the rules, README.md the protocol.
'use strict';

/** The shortest pause between two reports: each costs a message and a turn of the loop. */
const REPORT_MS_MIN = 100;

/** The resolution of the event loop delay: a timer of the runtime fires at this interval. */
const DELAY_RESOLUTION_MS = 10;

/**
 * What is measured, by the names of `crates/forkful-core/src/metrics.rs`. Each function begins to measure and returns an
 * object. Its `read(seconds)` returns the values since the previous `read`, where `seconds` is the time since then (0 for
 * the first call). Its `end()`, if there is one, stops measuring.
 * @type {((clocks: any, agent: import('./agent.cjs').Agent) => { read(seconds: number): Record<string, number>, end?(): void })[]}
 */
const METERS = [
  ({ performance }) => {
    let last = performance.eventLoopUtilization();
    return {
      read(seconds) {
        const now = performance.eventLoopUtilization();
        const { utilization } = performance.eventLoopUtilization(now, last);
        last = now;
        return seconds > 0 ? { event_loop_utilization: utilization } : {};
      },
    };
  },
  ({ monitorEventLoopDelay }) => {
    const delay = monitorEventLoopDelay({ resolution: DELAY_RESOLUTION_MS });
    delay.enable();
    // What the monitor measures is the time between two turns of its timer, so the resolution is taken off.
    const beyond = (percentile) => Math.max(0, delay.percentile(percentile) / 1e6 - DELAY_RESOLUTION_MS);
    return {
      read(seconds) {
        const values = { event_loop_delay_p50_ms: beyond(50), event_loop_delay_p99_ms: beyond(99) };
        delay.reset();
        return seconds > 0 ? values : {};
      },
      end() { delay.disable(); },
    };
  },
  (clocks, { memory }) => ({ read: () => ({ heap_used_bytes: memory().heapUsed }) }),
  ({ PerformanceObserver }, { guarded }) => {
    let paused = 0;
    const observer = new PerformanceObserver(guarded((list) => {
      for (const { duration } of list.getEntries()) paused += duration;
    }));
    observer.observe({ entryTypes: ['gc'] });
    return {
      read(seconds) {
        const ms = paused;
        paused = 0;
        // A pause is told when it is over, and may have begun before the last report.
        return seconds > 0 ? { gc_pause_ms_per_s: Math.min(1000, ms / seconds) } : {};
      },
      end() { observer.disconnect(); },
    };
  },
  (clocks, { requestStart }) => {
    let requests = 0;
    const count = () => { requests += 1; };
    requestStart.subscribe(count);
    return {
      read(seconds) {
        const came = requests;
        requests = 0;
        return seconds > 0 ? { http_requests_per_s: came / seconds } : {};
      },
      end() { requestStart.unsubscribe(count); },
    };
  },
];

/** Reports on the requests and on what is measured, at an interval that the primary sets. */
class Reporter {
  /** @param {import('./agent.cjs').Agent} agent */
  constructor(agent) {
    this.agent = agent;
    this.clocks = require('perf_hooks');
    this.requests = 0;
    this.count = () => { this.requests += 1; };
    this.tick = agent.guarded(() => this.report());
    /** @type {any} */
    this.interval = null;
    /** @type {{ read(seconds: number): Record<string, number>, end?(): void }[]} */
    this.meters = [];
    this.reportedAt = 0;
  }

  /** @param {number} everyMs the pause between two reports; 0 ends them */
  every(everyMs) {
    const { requestStart, ticks, clearTicks } = this.agent;
    if (this.interval) clearTicks(this.interval);
    this.interval = null;
    if (everyMs <= 0) {
      requestStart.unsubscribe(this.count);
      for (const meter of this.meters) meter.end?.();
      this.meters = [];
      return;
    }
    if (this.meters.length === 0) {
      requestStart.subscribe(this.count);
      this.meters = METERS.map((meter) => meter(this.clocks, this.agent));
      this.reportedAt = this.clocks.performance.now();
      // What is known at once: who looks for the first time need not look again for it.
      this.report(0);
    }
    this.interval = ticks(this.tick, Math.max(everyMs, REPORT_MS_MIN)).unref();
  }

  /** @param {number} [seconds] since the last report */
  report(seconds = (this.clocks.performance.now() - this.reportedAt) / 1000) {
    this.reportedAt = this.clocks.performance.now();
    const values = Object.assign({}, ...this.meters.map((meter) => meter.read(seconds)));
    this.agent.tell({ act: 'report', requests: this.requests, values });
  }
}

module.exports = { Reporter };
