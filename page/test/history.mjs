// A history as the daemon gives it, of workers that did much.

/** The same numbers in every run. */
function dice(seed) {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** What GET /v1/history answers to a query, for so many workers; one of them is blocked for a while in each hour. */
export function historyOf(query, workers) {
  const [from, to, step] = ['from', 'to', 'step'].map((name) => Number(query.get(name)));
  const points = Math.round((to - from) / 1000 / step);
  const chance = dice(7);
  const series = (slot) => {
    const rows = Array.from({ length: points }, (_, index) => {
      const at = from / 1000 + index * step;
      const blocked = slot === 2 && at % 3600 < 240;
      const load = 0.35 + 0.25 * Math.sin(at / 5000) + 0.1 * chance();
      const busy = blocked ? 0.98 : Math.min(0.95, load);
      return {
        event_loop_utilization: busy, main_thread_cpu: blocked ? 0.05 : busy * 0.9, run_queue_wait: busy * 0.06, gc_pause_ms_per_s: busy * 40,
        event_loop_delay_p99_ms: blocked ? 700 : 4 + 10 * busy, http_requests_per_s: 900 * busy, http_errors_per_s: blocked ? 12 : chance() < 0.02 ? 1 : 0,
        http_latency_p50_ms: 2 + 3 * busy, http_latency_p95_ms: 6 + 9 * busy, http_latency_p99_ms: blocked ? 700 : 12 + 20 * busy,
        memory_bytes: (90 + 20 * slot + 30 * busy) * 2 ** 20, heap_used_bytes: (40 + 20 * busy) * 2 ** 20, pool_busy: busy / 3, cpu_throttled: 0, accept_queue: blocked ? 9 : 0,
        http_in_flight: 5 * busy, connections: 20 + 40 * busy, cpu_pressure: busy / 4, memory_pressure: 0, io_pressure: blocked ? 0.4 : 0.01,
      };
    });
    const names = Object.keys(rows[0] ?? {});
    return Object.fromEntries(names.map((name) => [name, rows.map((row) => Math.round(row[name] * 1000) / 1000)]));
  };
  return {
    app: query.get('app'), from_ms: from, step_ms: step * 1000, points,
    workers: Array.from({ length: workers }, (_, slot) => ({ slot, pm_id: slot, series: series(slot) })),
  };
}
