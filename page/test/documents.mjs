// Documents such as the command writes them, made of numbers that never change.

/** A generator of numbers between 0 and 1 that is the same every time. */
function numbers(seed) {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) % 2147483648;
    return state / 2147483648;
  };
}

const PERCENTS = [0, 10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.9, 99.95, 99.99];
const spectrum = (base, tail) => PERCENTS.map((percent) => [percent, base * (1 + 0.3 * (percent / 100)) + tail * (percent / 100) ** 40]);

const machine = { cores: 2, cpu: 'Example CPU @ 2.40GHz', kernel: 'Linux 6.1', node: 'v20.20.2', memory_bytes: 25e9 };
const plan = { budget_s: 60, blocks: 6, looks: [6], connections: 64, generator_threads: 1, warmup_s: 0.8, window_s: 1.5, keep_alive: true, restarts: 'every block' };

export function compareDocument() {
  const random = numbers(7);
  const noisy = (value) => value * (1 + (random() - 0.5) * 0.04);
  const rate = { single: 5100, cluster: 9900 };
  const latency = (base, tail, load, at) => ({
    load, rate: at, samples: 12000, overloaded: false, mean_ms: base * 1.1, p50_ms: base * 1.15, p90_ms: base * 1.3,
    p99_ms: base + tail * 0.67, p999_ms: null, max_ms: base + tail, spectrum: spectrum(base, tail),
  });
  const arm = (name, label, workers, tail) => ({
    name, label, workers, baseline: name === 'single',
    throughput: { per_second: rate[name], ci95: [rate[name] * 0.99, rate[name] * 1.01], blocks: [] },
    cpu_per_request_us: 190, cores_used: workers * 0.98, memory_bytes: workers * 61e6, processes: workers, requests: 123456,
    errors: { total: 0, by_cause: {} },
    latency: [latency(0.35, tail * 0.5, 0.5, 2500), latency(0.4, tail, 0.8, 4000)],
    service_time: { ...latency(6, tail * 2, 1, null) },
  });
  const blocks = Array.from({ length: 6 }, (_, index) => ({
    number: index + 1, order: ['cluster', 'single'], disturbed: index === 3 ? 'the host stole 3.1 % of the CPU' : null, counted: index !== 3,
    arms: Object.fromEntries(Object.entries(rate).map(([name, value]) => [name, {
      per_second: noisy(value), cpu_per_request_us: noisy(190),
      timeline: Array.from({ length: 15 }, (_unused, step) => [step / 10, noisy(value)]),
    }])),
  }));
  return {
    kind: 'compare', version: 1, forkful: '0.1.0', created_at_ms: 1773059405999,
    command: 'forkful compare examples/fast-slow/server.js --path /fast --blocks 6 --seed 42',
    seed: 42, aa: false, target: { script: 'server.js', method: 'GET', path: '/fast' }, machine, plan,
    capacity: ['single', 'cluster'].flatMap((name) => [1, 2, 4, 8, 16, 32, 64, 128].map((connections) => ({
      arm: name, connections, per_second: rate[name] * (1 - Math.exp(-connections / (name === 'single' ? 3 : 7))), p50_ms: 1, p99_ms: 2,
    }))),
    arms: [arm('single', 'one plain process', 1, 9), arm('cluster', '2 workers of Forkful', 2, 3)],
    blocks,
    comparisons: [{
      baseline: 'single', arm: 'cluster',
      throughput: { ratio: 1.94, ci95: [1.9, 1.98] }, cpu_per_request: { ratio: 1.02, ci95: [1, 1.04] }, memory: { ratio: 2.4 },
      latency: { p50: { ratio: 0.97, ci95: [0.93, 1.02], load: 0.8 }, p99: { ratio: 0.4, ci95: [0.3, 0.5], load: 0.8, baseline_ms: 6.4, arm_ms: 2.4, verdict: 'faster' } },
      verdict: 'faster', more_blocks: null,
      sentence: 'Faster: cluster answers 1.94 × (1.90 to 1.98) as many requests per second as single, and at 4,000 requests per second its p99 falls from 6.4 to 2.4 ms.',
    }],
    verdict: 'faster',
    trust: {
      trustworthy: true, generator_saturated: false, generator_cores_used: 0.3, resolution_percent: 2,
      notes: [{ level: 'note', code: 'generator_shares_cores', text: 'The generator ran on the cores of the app: 0.3 of 2 cores were its own.' }],
    },
  };
}

export function tuneDocument() {
  const rows = [[1, 5100, 62], [2, 9900, 121], [3, 9800, 180], [4, 9400, 240]];
  return {
    kind: 'tune', version: 1, forkful: '0.1.0', created_at_ms: 1773059405999, command: 'forkful tune server.js --path /heavy', seed: 1,
    target: { script: 'server.js', path: '/heavy' }, machine, plan,
    choice: { workers: 2, pool: 4, pool_matters: false, stability: 0.81, sentence: '2 workers: the smallest number within 2 % of the best; the thread pool makes no difference.' },
    table: rows.map(([workers, value, memory]) => ({
      workers, pool: 4, per_second: value, ci95: [value * 0.98, value * 1.02], relative_percent: (value / 9900 - 1) * 100,
      p99_at_70_ms: 3 + workers, memory_bytes: memory * 1048576, cpu_per_request_us: 190 + workers * 6, rounds: 6,
      dropped_in_round: workers === 1 ? 2 : null, pareto: workers <= 2, chosen: workers === 2, share_percent: workers === 2 ? 81 : workers === 3 ? 19 : 0,
    })),
    usl: { lambda: 5150, sigma: 0.02, kappa: 0.03, pool: 4, peak: 5.7, r_squared: 0.99, sentence: 'Contention 2 %, coherency 3 %: throughput would peak at 6 workers.' },
    patch: { file: 'forkful.config.json', key: 'apps[0].instances', applied: false, text: '"instances": 2' },
    trust: { trustworthy: false, generator_saturated: true, generator_cores_used: 0.97, resolution_percent: 1.4, text: 'The load generator was the limit for 3 and 4 workers.', notes: [] },
  };
}

export function experimentDocument() {
  const random = numbers(3);
  const line = (name, base) => ({ name, points: Array.from({ length: 200 }, (_, index) => [index / 20, base * (1 + (random() - 0.5) * 0.2)]) });
  return {
    kind: 'experiment', name: 'thread-pool', title: 'The thread pool is busy, the event loop is not', forkful: '0.1.0', created_at: '2026-03-09 12:30 UTC',
    headline: 'It is the pool: its one thread is busy 99 % of the time, the event loop 1 %.',
    details: ['A request that needs no pool is answered in 0.6 ms while two others wait 2.2 s for the pool.'],
    command: 'forkful experiment thread-pool', environment: { machine, node: 'v20.20.2' },
    question: 'What is it that is busy?', original: 'crypto.pbkdf2, UV_THREADPOOL_SIZE=1',
    claims: [
      { what: '1 worker, 2 requests', reported: '1.09 and 2.15 s', found: '0.61 and 1.21 s', why: 'a faster CPU' },
      { what: '6 workers, 6 requests', reported: '3.46 to 3.52 s', found: '1.81 to 1.90 s', why: 'six jobs share 2 cores either way' },
    ],
    arms: [{ workers: 1, pool: 1, last_key_ms: 1210 }, { workers: 6, pool: 1, last_key_ms: 1900 }],
    plots: [
      { type: 'timeline', title: 'How busy', unit: '%', series: [line('event loop', 1), line('pool thread', 96)], marks: [{ at: 4, label: 'second request' }] },
      { type: 'bars', title: 'Requests per worker', unit: 'requests', rows: [{ name: 'worker 0', value: 510 }, { name: 'worker 1', value: 490, low: 480, high: 500, note: 'restarted' }] },
      { type: 'breakdown', unit: 'ms', parts: ['connect', 'first byte', 'rest'], rows: [{ name: 'single', values: [0.1, 5, 0.2] }, { name: 'cluster', values: [0.1, 2, 0.2] }] },
      { type: 'rate_latency', title: 'Latency over rate', series: [{ name: 'single', points: [[1000, 1, 0.9, 1.1], [3000, 4, 3, 5], [5000, 90, 60, 120]] }, { name: 'cluster', points: [[1000, 1], [5000, 2], [9000, 60]] }] },
    ],
    trust: { checks: [{ name: 'Load generator has room', ok: true, value: 0.2, limit: 'below 0.8 cores', meaning: '' }, { name: 'Enough samples', ok: null, value: '6', limit: '', meaning: 'Six requests make no percentile.' }] },
  };
}

export function benchDocument() {
  const random = numbers(5);
  const spread = (base) => ({ samples: 50000, mean: base * 1.1, stddev: base / 5, min: base * 0.6, p50: base, p90: base * 1.4, p99: base * 2.5, p999: base * 6, max: base * 9 });
  const points = (base) => Array.from({ length: 100 }, (_, index) => [index / 10 + 0.05, base * (1 + (random() - 0.5) * 0.2)]);
  const spectrum = Array.from({ length: 120 }, (_, index) => [1 - 0.5 ** (index / 10), 0.8 + 0.02 * index + (index > 90 ? (index - 90) * 0.3 : 0)]);
  return {
    kind: 'bench', version: 1, forkful: '0.1.0', created_at: '2026-03-09T12:30:00Z', command: 'forkful bench -c 64 -d 10s http://127.0.0.1:8000/fast',
    title: 'GET http://127.0.0.1:8000/fast', details: ['64 connections for 10 s, closed loop'],
    headline: '5,012 requests per second; half of them within 0.9 ms, 99 of 100 within 2.3 ms.', trustworthy: true,
    target: { name: 'http://127.0.0.1:8000/fast', protocol: 'HTTP/1.1' }, plan: { loop: 'closed', connections: 64, duration_s: 10, keep_alive: true },
    duration_s: 10, requests: { completed: 50120, per_second: 5012 }, latency_ms: spread(0.9), latency_meaning: 'From the moment a connection was free to the last byte.',
    spectrum, phases_ms: { connect: spread(0.1), first_byte: spread(0.8), service: spread(0.9), slip: { samples: 0 } },
    statuses: { 200: 50100, 500: 20 }, bytes: { received_per_second: 1.2e6 }, connections: { asked: 64, reached: 64 },
    errors: { total: 20, causes: [{ cause: 'unexpected_status', words: 'an unexpected status', count: 20, hint: 'look at the log', examples: [{ at_s: 1, detail: 'status 500' }] }] },
    generator: { cpu_us_per_request: 4.2 }, thresholds: [{ expectation: 'p99<20ms', found: '2.3 ms', kept: true }],
    environment: { cpus: 2, retransmits: 0 }, workers: { source: 'counted by the workers', workers: [{ name: 'worker 0', requests: 25000, connections: 32, cpu_seconds: 4.1 }] },
    plots: [
      { type: 'percentiles', title: 'Latency by percentile', unit: 'ms', series: [{ name: 'response', points: spectrum, samples: 50120 }] },
      { type: 'timeline', title: 'Requests per second', unit: 'requests/s', series: [{ name: 'requests per second', points: points(5012) }] },
      { type: 'timeline', title: 'Latency over time', unit: 'ms', series: [{ name: 'p50', points: points(0.9) }, { name: 'p99', points: points(2.3) }] },
      { type: 'breakdown', unit: 'ms', parts: ['first byte', 'rest of the answer'], rows: [{ name: 'request', values: [0.8, 0.1] }] },
      { type: 'bars', title: 'Requests by worker', unit: 'requests', rows: [{ name: 'worker 0', value: 25000 }, { name: 'worker 1', value: 25120 }] },
    ],
    trust: { text: 'Nothing speaks against it.', level: 'fine', checks: [{ key: 'generator', name: 'The generator has room', ok: true, value: '21 % of a core', limit: 'below 80 %', meaning: '' }] },
  };
}

/** Everything that must not hurt: markup, templates, enormous words, wrong shapes, no numbers. */
export function hostileDocument() {
  const evil = '</script><script>document.title = "taken"</script><img src=https://example.com/x onerror="document.title=1">{{data}}\u2028';
  const long = 'W'.repeat(300);
  return {
    kind: 'bench', title: evil, headline: long, details: [evil, 5, null, { a: 1 }], command: evil, verdict: { word: evil, text: evil },
    environment: { [evil]: evil, [long]: long, list: [1, 2], deep: { deeper: { deepest: 1 } }, __proto__: { x: 1 } },
    arms: 'none', tables: [{ title: evil, columns: [evil, long], rows: [[evil, long], 'no row', [null]] }, 7],
    plots: [
      { type: 'blocks', points: [{ arm: evil, block: 1, value: 1 }, { arm: long, block: 'x', value: 2 }, { arm: long, block: 1, value: 3 }] },
      { type: 'percentiles', title: long, series: [{ name: evil, points: [[0.5, 0], [2, 5], [-1, 3], [0.99, 'x'], ['y']] }] },
      { type: 'timeline', series: [{ name: 'flat', points: [[0, 0], [0, 0]] }, { name: 'none', points: [] }] },
      { type: 'workers', points: [{ workers: 1, value: 0 }], chosen: 9 },
      { type: 'intervals', rows: [{ name: evil, value: -1 }, { name: long, value: 1, low: 0, high: 1e9 }] },
      { type: 'lines', x: { log: true }, y: { log: true }, series: [{ name: 'zero', points: [[0, 0], [1, 1]] }] },
      { type: 'scatter', points: [{ name: evil, x: 1, y: 1 }] },
      { type: 'bars', rows: [{ name: evil, value: -5 }] },
      { type: 'unknown' }, null, [], 'text',
    ],
    trust: { checks: [{ name: evil, ok: 'yes', value: {}, meaning: long }, null] },
  };
}
