// Metrics of workers from a scraper's view: a page that Prometheus' own tool accepts, counters that never
// fall, and a history that survives the daemon.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import net from 'node:net';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';

import { freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { MAJORS, NEWEST } from './lib/nodes.mjs';
import { isLiving, sandbox } from './lib/sandbox.mjs';
import { scrape, withoutOddNames } from './lib/scrape.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Number of workers killed during scrapes. */
const KILLS = 20;

/** Answers with its pid; `/slow` after 20 ms, `/error` with 500. A file is read now and then, so that there is a thread pool. */
function serving({ require }) {
  const { readFile } = require('fs');
  require('http').createServer((request, response) => {
    const answer = () => response.end(String(process.pid));
    if (request.url === '/error') response.statusCode = 500;
    if (request.url === '/slow') setTimeout(answer, 20);
    else if (request.url === '/file') readFile(__filename, answer);
    else answer();
  }).listen(Number(process.env.PORT));
}

/** The samples of a page: their values by name and labels. */
function samplesOf(page) {
  const samples = new Map();
  for (const line of page.split('\n')) {
    if (!line || line.startsWith('#')) continue;
    const { series, value } = /^(?<series>\S+?(?:\{.*\})?) (?<value>\S+)$/.exec(line)?.groups ?? assert.fail(`no sample: ${line}`);
    assert.ok(!samples.has(series), `twice: ${series}`);
    samples.set(series, Number(value));
  }
  return samples;
}

/** Whether a series is of a counter. */
const isCounter = (series) => /^\w+(_total|_count|_sum|_bucket)\b/.test(series) && !/^nodejs_(heap_|active_)/.test(series);

/** The sum of a family over all workers. */
const sum = (samples, name) => [...samples].filter(([series]) => series === name || series.startsWith(`${name}{`)).reduce((all, [, value]) => all + value, 0);

/** Connections that clients keep are counted; it may take 20 s. */
async function openConnections(t, forkful, port) {
  const sockets = Array.from({ length: 3 }, () => net.connect(port, '127.0.0.1'));
  t.after(() => sockets.forEach((socket) => socket.destroy()));
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  await waitUntil('all three connections', async () => {
    await sleep(500);
    return sum(samplesOf((await scrape(forkful)).text), 'forkful_connections') === 3;
  });
}

const promtool = spawnSync('promtool', ['--version']).status === 0;

for (const major of MAJORS) {
  test(`Node ${major}: the page has what happened, and promtool accepts it`, async (t) => {
    const forkful = await sandbox(t, major);
    const port = await freePort();
    await forkful.start(serving, { name: 'web', instances: 2, env: { PORT: String(port) } });
    // The agents count from their first report on, which comes after the start.
    await waitUntil('reports', async () => /nodejs_heap_size_used_bytes\{app="web",worker="1"\}/.test((await scrape(forkful)).text));
    for (const path of ['/', '/slow', '/error', '/file', '/file']) await get(port, path);
    const seen = await waitUntil('all five requests', async () => {
      const samples = samplesOf((await scrape(forkful)).text);
      return sum(samples, 'forkful_http_requests_total') >= 5 && sum(samples, 'forkful_http_request_duration_seconds_count') >= 5 && samples;
    });
    const classes = (name) => [...seen].filter(([series]) => series.startsWith('forkful_http_responses_total{') && series.includes(`class="${name}"`)).reduce((all, [, value]) => all + value, 0);
    assert.deepEqual([sum(seen, 'forkful_http_requests_total'), classes('2xx'), classes('5xx')], [5, 4, 1]);
    assert.ok(sum(seen, 'forkful_http_request_duration_seconds_sum') >= 0.015, 'one took 20 ms');
    for (const name of ['process_resident_memory_bytes', 'process_cpu_seconds_total', 'nodejs_version_info', 'forkful_worker_up', 'process_start_time_seconds']) {
      for (const worker of [0, 1]) assert.ok([...seen].some(([series, value]) => series.startsWith(`${name}{app="web",worker="${worker}"`) && value > 0), `${name} of worker ${worker}`);
    }
    await waitUntil('the thread pool to be seen', async () => sum(samplesOf((await scrape(forkful)).text), 'forkful_pool_threads') >= 4);
    await waitUntil('a wait for the pool', async () => {
      await get(port, '/');
      return (await scrape(forkful)).text.includes('forkful_pool_wait_seconds{');
    });
    // Where the kernel measures groups or the machine.
    assert.equal((await scrape(forkful)).text.includes('forkful_cpu_pressure{app="web",worker="0"}'), existsSync('/proc/pressure/cpu'));
    if (major === NEWEST) await openConnections(t, forkful, port);
    const { stdout } = await forkful.ok(['metrics', 'web']);
    assert.match(stdout, /^# TYPE forkful_http_requests_total counter$/m);
    const open = await scrape(forkful, '/v1/metrics', 'application/openmetrics-text; version=1.0.0');
    assert.match(open.type, /^application\/openmetrics-text/);
    assert.ok(open.text.endsWith('# EOF\n'));
    assert.equal((await forkful.ok(['metrics', '--format', 'openmetrics'])).stdout.split('\n').at(-2), '# EOF');
    if (!promtool) return t.diagnostic('promtool is not installed (Debian package prometheus): the page is not checked with it');
    const checked = spawnSync('promtool', ['check', 'metrics'], { input: withoutOddNames(stdout), encoding: 'utf8' });
    assert.equal(checked.status, 0, checked.stdout + checked.stderr);
    return undefined;
  });
}

test('`metrics --listen` serves the page', async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  await forkful.start(serving, { name: 'web', instances: 1, env: { PORT: String(port) } });
  const server = forkful.spawn(['metrics', '--listen', '127.0.0.1:0']);
  const where = await waitUntil('the address', () => /http:\/\/127\.0\.0\.1:(\d+)\/metrics/.exec(server.stderr)?.[1]);
  assert.match((await get(Number(where), '/metrics')).body, /^forkful_app_workers\{app="web"\} 1\.0$/m);
  // A client that never ends its request holds nobody up.
  const slow = net.connect(Number(where), '127.0.0.1').on('error', () => {});
  await once(slow, 'connect');
  slow.write('GET /metrics HTTP/1.1\r\n');
  server.child.kill('SIGINT');
  await server.outcome;
  slow.destroy();
  const other = forkful.spawn(['metrics', 'nobody', '--listen', '127.0.0.1:0']);
  const elsewhere = Number(await waitUntil('the address', () => /http:\/\/127\.0\.0\.1:(\d+)\/metrics/.exec(other.stderr)?.[1]));
  await waitUntil('the warning', () => /nobody.*; until there is such an app, scrapes are answered with 503/.test(other.stderr));
  const { status, body } = await get(elsewhere, '/metrics');
  assert.deepEqual([status, body.includes('nobody')], [503, true], body);
  assert.deepEqual([(await get(elsewhere, '/')).status, (await get(elsewhere, '/metric')).status], [200, 404]);
  other.child.kill('SIGTERM');
  await other.outcome;
  assert.match((await forkful.fails(['metrics', '--listen', ':9100'])).stderr, /an address and a port, such as 127\.0\.0\.1:9100/);
});

test('the page says for how long a worker has been blocked, also when nobody but the scraper asks', async (t) => {
  const forkful = await sandbox(t);
  const socket = join(forkful.directory, 'blocked.sock');
  await forkful.start(({ require }) => {
    require('http').createServer((request, response) => {
      response.end('ok');
      if (request.url === '/block') setImmediate(() => { for (;;); });
    }).listen(process.env.SOCKET);
  }, { name: 'web', instances: 1, env: { SOCKET: socket } });
  await get(socket, '/block');
  const blocked = async () => Number(/^forkful_worker_blocked_seconds\{[^}]*\} ([\d.]+)$/m.exec((await scrape(forkful)).text)?.[1]);
  await waitUntil('it to be blocked', async () => await blocked() > 1);
});

test('the first list says for how long a worker has been blocked', async (t) => {
  const forkful = await sandbox(t);
  const socket = join(forkful.directory, 'blocked.sock');
  await forkful.start(({ require }) => {
    require('http').createServer((request, response) => {
      response.end(String(process.pid));
      if (request.url === '/block') setImmediate(() => { for (;;); });
    }).listen(process.env.SOCKET);
  }, { name: 'web', instances: 1, env: { SOCKET: socket } });
  const pid = Number((await get(socket, '/block')).body);
  // It has computed for four seconds, however long that takes. Nobody has looked at it.
  const computed = () => {
    const [user, system] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ').slice(11, 13).map(Number);
    return user + system;
  };
  const before = computed();
  await waitUntil('it to compute', () => computed() - before > 400);
  const [{ monit }] = await forkful.jlist('web');
  assert.ok(monit.blocked_ms > 1000, `${monit.blocked_ms} ms`);
});

test(`no counter falls over ${KILLS} kills of workers and the death of the daemon`, async (t) => {
  const forkful = await sandbox(t);
  const port = await freePort();
  // Workers that die young are restarted without end and without growing pauses.
  await forkful.start(serving, { name: 'web', instances: 2, options: ['--max-restarts', '100000', '--restart-delay', '10'], env: { PORT: String(port) } });
  const load = startLoad({ port, closing: 4, keeping: 2, expect: /^\d+$/ });
  t.after(() => load.stop());
  const highest = new Map();
  const falls = [];
  const look = async () => {
    const scraped = await scrape(forkful);
    if (!scraped) return undefined;
    const samples = samplesOf(scraped.text);
    for (const [series, value] of samples) {
      if (!isCounter(series)) continue;
      const before = highest.get(series) ?? 0;
      if (value < before) falls.push(`${series} fell from ${before} to ${value}`);
      highest.set(series, value);
    }
    return samples;
  };
  const requests = async () => sum(await look() ?? new Map(), 'forkful_http_requests_total');
  const countsOn = async () => {
    const before = await waitUntil('a count', requests);
    await waitUntil('counters that grow', async () => await requests() > before);
  };
  const pids = async () => (await forkful.jlist('web')).map(({ pid }) => pid).filter(Boolean);
  await countsOn();
  for (let kill = 0; kill < KILLS; kill += 1) {
    const [victim] = await waitUntil('a worker', async () => {
      const found = await pids();
      return found.length === 2 && found;
    });
    process.kill(victim, 'SIGKILL');
    await waitUntil('its end', async () => {
      await look();
      return !isLiving(victim);
    });
    // Once the daemon dies beside a worker that has just ended, once while both live.
    if (kill === 5) await forkful.replaceDaemon();
    await countsOn();
    if (kill === 12) {
      await forkful.replaceDaemon();
      await countsOn();
    }
  }
  const samples = await look();
  assert.deepEqual(falls, []);
  assert.ok(sum(samples, 'forkful_worker_crashes_total') >= KILLS);
  assert.ok(sum(samples, 'forkful_http_requests_total') > 0);
});

test('all that a worker writes is counted, also by processes that end at once', async (t) => {
  const forkful = await sandbox(t);
  const writes = ({ require }) => { require('fs').writeSync(1, `${'x'.repeat(99)}\n`.repeat(100)); process.exitCode = 1; };
  await forkful.fails(['start', forkful.script(writes), '--name', 'short', '--max-restarts', '3', '--min-uptime', '60s']);
  const serves = ({ require }) => {
    process.stdout.write('four\n');
    require('http').createServer((_request, response) => response.end()).listen(Number(process.env.PORT));
  };
  await forkful.start(serves, { name: 'long', instances: 1, env: { PORT: String(await freePort()) } });
  const counted = async () => {
    const samples = samplesOf((await scrape(forkful)).text);
    return ['short', 'long'].map((app) => [...samples].filter(([series]) => series.startsWith('forkful_log_bytes_total') && series.includes(`app="${app}"`)).reduce((all, [, value]) => all + value, 0));
  };
  await waitUntil('all bytes', async () => {
    const [short, long] = await counted();
    return short === 30_000 && long === 5;
  });
  // A daemon that follows goes on.
  process.kill(await forkful.daemonPid(), 'SIGKILL');
  await forkful.ok(['restart', 'long']);
  await waitUntil('the bytes of both processes', async () => {
    const [short, long] = await counted();
    return short === 30_000 && long === 10;
  });
});

test('no request of a worker that leaves is missing in its counts, however young it is', async (t) => {
  const forkful = await sandbox(t);
  const socket = join(forkful.directory, 'counted.sock');
  await forkful.start(({ require }) => {
    require('http').createServer((_request, response) => response.end('ok')).listen(process.env.SOCKET);
  }, { name: 'web', instances: 2, env: { SOCKET: socket } });
  const counted = async () => {
    const { stdout } = await forkful.ok(['metrics', 'web']);
    const values = [...stdout.matchAll(/^forkful_http_responses_total\{app="web",worker="\d",class="2xx"\} ([\d.]+)$/gm)];
    return values.reduce((sum, [, value]) => sum + Number(value), 0);
  };
  for (let reload = 1; reload <= 3; reload += 1) {
    for (let request = 0; request < 20; request += 1) await get(socket, '/');
    await forkful.ok(['reload', 'web']);
    assert.equal(await counted(), 20 * reload);
  }
});

test('the history goes on when the daemon is killed, and ends with its app', async (t) => {
  const forkful = await sandbox(t, NEWEST);
  const port = await freePort();
  await forkful.start(serving, { name: 'web', instances: 2, env: { PORT: String(port) } });
  const history = async (query = '') => {
    const scraped = await scrape(forkful, `/v1/history?app=web${query}`);
    return scraped && JSON.parse(scraped.text);
  };
  const known = (series) => (series ?? []).filter((value) => value !== null).length;
  const some = await waitUntil('some seconds', async () => {
    await get(port, '/');
    const found = await history();
    return found.workers.length === 2 && found.workers.every(({ series }) => known(series.memory_bytes) >= 3 && known(series.main_thread_cpu) >= 2) && found;
  });
  assert.deepEqual([some.app, some.step_ms, some.points], ['web', 1000, 600]);
  assert.deepEqual(some.workers.map(({ slot }) => slot), [0, 1]);
  await waitUntil('requests in it', async () => {
    await get(port, '/');
    return (await history()).workers.some(({ series }) => (series.http_requests_per_s ?? []).some((rate) => rate > 0));
  });
  const before = await history();
  const pid = await forkful.daemonPid();
  process.kill(pid, 'SIGKILL');
  await waitUntil('another daemon', async () => await forkful.daemonPid() !== pid);
  const after = await history(`&from=${before.from_ms}&step=1`);
  for (const [at, { series }] of before.workers.entries()) {
    const then = after.workers[at].series.memory_bytes.slice(0, before.points);
    assert.deepEqual(then.slice(0, series.memory_bytes.length).filter((value) => value !== null).slice(0, known(series.memory_bytes)), series.memory_bytes.filter((value) => value !== null));
  }
  const count = known(after.workers[0].series.memory_bytes);
  await waitUntil('more seconds', async () => known((await history(`&from=${before.from_ms}&step=1`)).workers[0].series.memory_bytes) > count);
  // Values of three rings; pressure where the kernel measures it.
  const chosen = await history('&metrics=memory_bytes,cpu_cores,cpu_pressure&step=10');
  const names = [...existsSync('/proc/pressure/cpu') ? ['cpu_pressure'] : [], 'cpu_cores', 'memory_bytes'].sort();
  assert.deepEqual([chosen.step_ms, ...chosen.workers.map(({ series }) => Object.keys(series).sort())], [10_000, names, names]);
});
