// Watches one worker from the inside, ten to twenty times a second, and writes a line of JSON each time: how long
// its event loop was busy, how late a timer came, what its main thread and its pool's threads used of the CPU, and
// how long a tiny job waited for the pool. Preloaded by the experiments alone.
'use strict';

const directory = process.env.FORKFUL_EXPERIMENT_PROBE;
if (directory) start();

function start() {
  const fs = require('node:fs');
  const path = require('node:path');
  const { performance } = require('node:perf_hooks');
  const channel = require('node:diagnostics_channel');
  const PERIOD_MS = 50;
  const file = path.join(directory, `${process.pid}.jsonl`);
  const isPoolWatched = process.env.FORKFUL_EXPERIMENT_POOL === '1';
  const firstThreads = new Set(threads());
  let requests = 0;
  channel.subscribe('http.server.request.start', () => { requests += 1; });

  let elu = performance.eventLoopUtilization();
  let last = performance.now();
  let cpu = threadTimes();
  let probe = { since: 0, waited: null };

  const timer = setInterval(tick, PERIOD_MS);
  timer.unref();

  function tick() {
    const now = performance.now();
    const used = performance.eventLoopUtilization(elu);
    const times = threadTimes();
    const line = {
      at: Date.now(), length_ms: now - last, late_ms: Math.max(0, now - last - PERIOD_MS), loop: used.utilization, requests,
      main_cpu_ms: spent(times, (id) => id === process.pid), pool_cpu_ms: spent(times, (id) => !firstThreads.has(id)),
      pool_threads: [...times.keys()].filter((id) => !firstThreads.has(id)).length, pool_wait_ms: probe.waited,
    };
    fs.appendFileSync(file, `${JSON.stringify(line)}\n`);
    elu = performance.eventLoopUtilization();
    last = now;
    cpu = times;
    // Only a pool that exists is asked: the question would start it.
    if (isPoolWatched && line.pool_threads > 0 && probe.since === 0) ask();
  }

  function ask() {
    const since = performance.now();
    probe.since = since;
    fs.stat('/', () => { probe = { since: 0, waited: performance.now() - since }; });
  }

  function threads() {
    try {
      return fs.readdirSync('/proc/self/task').map(Number);
    } catch {
      return [];
    }
  }

  /** CPU of each thread so far, in ms. */
  function threadTimes() {
    const times = new Map();
    for (const id of threads()) {
      try {
        times.set(id, Number(fs.readFileSync(`/proc/self/task/${id}/schedstat`, 'utf8').split(' ')[0]) / 1e6);
      } catch { /* it ended meanwhile */ }
    }
    return times;
  }

  function spent(times, isMeant) {
    let sum = 0;
    for (const [id, time] of times) if (isMeant(id)) sum += time - (cpu.get(id) ?? 0);
    return sum;
  }
}
