// Supervision: which workers are restarted, when a worker is given up, and that a stop leaves nothing of an
// app behind.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';

import { accepts, differentAnswers, freePort, get } from './lib/http.mjs';
import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { binary, FAILED, NO_SUCH_APP, sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

const NODE = ['--interpreter', nodeBinary(NEWEST)];

/** Whether there is util-linux's program that runs a command on a terminal. */
const HAS_SCRIPT = /util-linux/.test(spawnSync('script', ['--version'], { encoding: 'utf8' }).stdout ?? '');

/** Answers with its pid. */
function server({ require }) {
  require('http').createServer((_q, r) => r.end(String(process.pid))).listen(Number(process.env.PORT), '127.0.0.1');
}

/** Does nothing, forever. */
function idle() {
  setInterval(() => {}, 1000);
}

const alive = (pid) => existsSync(`/proc/${pid}`) && !/^State:\tZ/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));

describe('supervision', { concurrency: 3 }, () => {
  /** @type {import('./lib/sandbox.mjs').Sandbox} */
  let forkful;
  before(async () => { forkful = await sandbox(null); });
  after(() => forkful.close());

  const status = async (name) => (await forkful.jlist(name)).map((worker) => worker.pm2_env.status);
  const statusIs = (name, expected) => waitUntil(`${name} to be ${expected}`, async () => {
    const all = await status(name);
    return all.length > 0 && all.every((one) => one === expected);
  });
  /** Starts an app that serves on no port, at once. */
  const startIdle = (name, options = [], body = idle) => forkful.start(body, { name, instances: 1, options: ['--no-wait', ...options] });

  test('a worker that exits is started again, and counted', async () => {
    const app = await startIdle('exits');
    const [first] = await app.workers();
    first.order(() => process.exit(3));
    const second = await waitUntil('a second life', () => forkful.control.living(app.path).find(({ pid }) => pid !== first.pid));
    await statusIs('exits', 'online');
    const [worker] = await forkful.jlist('exits');
    assert.deepEqual([worker.pid, worker.pm2_env.restart_time], [second.pid, 1]);
    const { stdout } = await forkful.ok(['describe', 'exits', '--json']);
    assert.equal(JSON.parse(stdout).apps[0].workers[0].exit_code, 3);
    await forkful.ok(['delete', 'exits']);
  });

  test('a crash loop is given up, with the reason and the last words', async () => {
    const path = forkful.script(({ require }) => {
      require('fs').appendFileSync('lives', 'x');
      throw new Error('no such database');
    });
    await forkful.run(['start', path, '--name', 'loop', ...NODE, '--max-restarts', '3', '--min-uptime', '60s', '--restart-delay', '1']);
    await statusIs('loop', 'errored');
    const { stdout } = await forkful.ok(['describe', 'loop']);
    assert.match(stdout, /no such database/);
    assert.match(stdout, /errored/);
    const lives = readFileSync(join(forkful.directory, 'lives'), 'utf8').length;
    assert.ok(lives >= 3 && lives <= 5, `${lives} lives`);
    const { code, stderr } = await forkful.fails(['restart', 'loop']);
    assert.equal(code, FAILED);
    assert.match(stderr, /no such database/);
    await forkful.ok(['delete', 'loop']);
  });

  test('an app that fails at once is told failed though its runtime took longer to begin than an app has to stay alive', async () => {
    const slow = join(forkful.directory, 'bin', 'node');
    mkdirSync(join(forkful.directory, 'bin'));
    writeFileSync(slow, `#!/bin/sh\nsleep 1.5\nexec '${nodeBinary(NEWEST)}' "$@"\n`, { mode: 0o755 });
    const path = forkful.script(() => { throw new Error('no such database'); });
    const { code, stderr } = await forkful.fails(['start', path, '--name', 'late', '--interpreter', slow]);
    assert.equal(code, FAILED);
    assert.match(stderr, /no such database/);
    await forkful.ok(['delete', 'late']);
  });

  test('an exit code of stop_exit_codes ends a worker for good', async () => {
    const app = await startIdle('codes', ['--stop-exit-codes', '7,8']);
    const [worker] = await app.workers();
    worker.order(() => process.exit(8));
    await statusIs('codes', 'stopped');
    await forkful.ok(['delete', 'codes']);
  });

  test('without autorestart a worker stays stopped', async () => {
    const app = await startIdle('once', ['--no-autorestart']);
    const [worker] = await app.workers();
    worker.order(() => process.kill(process.pid, 'SIGKILL'));
    await statusIs('once', 'stopped');
    await forkful.ok(['delete', 'once']);
  });

  test('stop, start, restart, scale and delete do what they say', async () => {
    const port = await freePort();
    const app = await forkful.start(server, { name: 'verbs', env: { PORT: String(port) } });
    const before = (await app.workers()).map(({ pid }) => pid);
    await forkful.ok(['stop', 'verbs']);
    assert.deepEqual(await status('verbs'), ['stopped', 'stopped']);
    assert.deepEqual(before.filter(alive), []);
    assert.equal(await accepts({ host: '127.0.0.1', port }), false);
    await forkful.ok(['stop', 'verbs']);

    await forkful.ok(['start', 'verbs']);
    assert.equal((await differentAnswers(port)).length, 2);
    const started = (await app.workers()).map(({ pid }) => pid);
    await forkful.ok(['restart', 'verbs']);
    const restarted = (await app.workers()).map(({ pid }) => pid);
    assert.deepEqual(restarted.filter((pid) => started.includes(pid)), []);

    await forkful.ok(['scale', 'verbs', '3']);
    assert.equal((await differentAnswers(port, 3)).length, 3);
    await forkful.ok(['scale', 'verbs', '-2']);
    assert.deepEqual((await forkful.jlist('verbs')).map((w) => w.pm2_env.NODE_APP_INSTANCE), [0]);
    assert.equal((await get(port)).status, 200);

    await forkful.ok(['delete', 'verbs']);
    assert.deepEqual(await forkful.jlist('verbs'), []);
    assert.equal((await forkful.fails(['stop', 'verbs'])).code, NO_SUCH_APP);
  });

  test('targets are names and ids, several at once', async () => {
    await startIdle('one');
    await startIdle('two');
    await startIdle('three');
    const [two] = await forkful.jlist('two');
    await forkful.ok(['stop', 'one', String(two.pm_id)]);
    assert.deepEqual([await status('one'), await status('two')], [['stopped'], ['stopped']]);
    assert.notDeepEqual(await status('three'), ['stopped']);
    await forkful.ok(['delete', 'one', 'two', 'three']);
  });

  test('a worker is asked by SIGINT, and may finish its work', async () => {
    const marker = join(forkful.directory, 'finished');
    await forkful.start(({ report }) => {
      setInterval(() => {}, 1000);
      process.on('SIGINT', () => setTimeout(() => { require('fs').writeFileSync(process.env.MARKER, 'SIGINT'); process.exit(0); }, 50));
      report({ ready: true });
    }, { name: 'polite', instances: 1, options: ['--no-wait'], env: { MARKER: marker } })
      .then((app) => app.workers(1)).then(([worker]) => worker.reported('ready'));
    await forkful.ok(['stop', 'polite']);
    assert.equal(readFileSync(marker, 'utf8'), 'SIGINT');
    rmSync(marker);
    await forkful.ok(['delete', 'polite']);
  });

  test('an app that only closes its server when it is to end does end', async () => {
    const port = await freePort();
    await forkful.start(({ require }) => {
      const server = require('http').createServer((_request, response) => response.end('here')).listen(Number(process.env.PORT));
      process.on('SIGINT', () => server.close());
    }, { name: 'closing', env: { PORT: String(port) }, options: ['--kill-timeout', '50s'] });
    await forkful.ok(['stop', 'closing']);
    const [app] = JSON.parse((await forkful.ok(['describe', 'closing', '--json'])).stdout).apps;
    assert.deepEqual(app.workers.map((worker) => worker.exit_code), [0, 0]);
    await forkful.ok(['delete', 'closing']);
  });

  test('a worker whose event loop does not turn is shown to be blocked, without any traffic', async () => {
    const released = join(forkful.directory, 'released');
    const app = await forkful.start(({ require }) => {
      require('http').createServer(() => {}).listen(0);
    }, { name: 'stuck', env: { RELEASED: released } });
    const [first] = await app.workers();
    const blocked = first.run((path) => {
      setImmediate(() => { while (!process.getBuiltinModule('fs').existsSync(path)); });
    }, released);
    await blocked;
    const describe = async () => JSON.parse((await forkful.ok(['describe', 'stuck', '--json'])).stdout).apps[0].workers;
    const shown = await waitUntil('the first worker to be blocked', async () => {
      const workers = await describe();
      return workers.some((worker) => worker.pid === first.pid && worker.blocked_ms >= 200) && workers;
    });
    assert.equal(shown.find((worker) => worker.pid === first.pid).status, 'online');
    assert.match((await forkful.ok(['list'])).stdout, /blocked \d+s/);
    assert.match((await forkful.ok(['describe', 'stuck'])).stdout, /blocked \d+s/);
    writeFileSync(released, '');
    await waitUntil('nobody to be blocked', async () => (await describe()).every((worker) => worker.blocked_ms === undefined));
    rmSync(released);
    await forkful.ok(['delete', 'stuck']);
  });

  test('a worker that has closed its servers is shown not to listen', async () => {
    const port = await freePort();
    const app = await forkful.start(({ require }) => {
      const server = require('http').createServer(() => {}).listen(Number(process.env.PORT));
      globalThis.closeServer = () => server.close();
    }, { name: 'closed', env: { PORT: String(port) } });
    for (const worker of await app.workers()) await worker.run(() => { globalThis.closeServer(); });
    await waitUntil('it to be seen', async () => {
      const [closed] = JSON.parse((await forkful.ok(['describe', 'closed', '--json'])).stdout).apps;
      return closed.workers.every((worker) => /^not listening/.test(worker.reason));
    });
    await forkful.ok(['delete', 'closed']);
  });

  test('a worker that ignores its signal is killed after kill_timeout', async () => {
    const app = await startIdle('stubborn', ['--kill-timeout', '200ms', '--kill-signal', 'SIGTERM'], ({ report }) => {
      process.on('SIGTERM', () => {});
      setInterval(() => {}, 1000);
      report({ ready: true });
    });
    const [worker] = await app.workers();
    await worker.reported('ready');
    await forkful.ok(['stop', 'stubborn']);
    assert.equal(alive(worker.pid), false);
    await forkful.ok(['delete', 'stubborn']);
  });

  /** Processes that a worker leaves behind in different ways, as shell texts that end as `sleep 1000`. */
  const DESCENDANTS = {
    'a child': 'exec sleep 1000',
    'a grandchild': 'sh -c "sleep 1000; :"; :',
    'a session of its own': 'exec setsid sleep 1000',
    'a double fork': '(setsid sleep 1000 &) ; exit 0',
    'one that ignores SIGINT': 'trap "" INT TERM HUP; sleep 1000; :',
  };
  for (const [what, command] of Object.entries(DESCENDANTS)) {
    test(`a stop leaves nothing of a worker: ${what}`, async () => {
      const name = what.replaceAll(' ', '-');
      const app = await forkful.start(({ report }) => {
        const { spawn } = require('child_process');
        setInterval(() => {}, 1000);
        spawn('sh', ['-c', process.env.COMMAND], { stdio: 'ignore', detached: true }).once('spawn', () => report({ spawned: true }));
      }, { name, instances: 1, options: ['--no-wait', '--kill-timeout', '500ms'], env: { COMMAND: command, MARK: `mark-${name}` } });
      const [worker] = await app.workers(1);
      await worker.reported('spawned');
      const descendants = () => forkful.processes(`MARK=mark-${name}\0`).filter(({ command: of }) => /sleep 1000/.test(of));
      await waitUntil('the descendant', () => descendants().length > 0);
      await forkful.ok(['stop', name]);
      assert.deepEqual(descendants(), []);
      assert.equal(alive(worker.pid), false);
      await forkful.ok(['delete', name]);
    });
  }

  test('what a crashed worker leaves behind ends before the next one starts', async () => {
    const app = await forkful.start(({ report }) => {
      const child = require('child_process').spawn('sleep', ['1000'], { stdio: 'ignore', detached: true });
      setInterval(() => {}, 1000);
      child.once('spawn', () => report({ child: child.pid }));
    }, { name: 'orphans', instances: 1, options: ['--no-wait'] });
    const [first] = await app.workers(1);
    const { child } = await first.reported('child');
    process.kill(first.pid, 'SIGKILL');
    const second = await waitUntil('a second life', () => forkful.control.living(app.path).find(({ pid }) => pid !== first.pid));
    await second.reported('child');
    assert.equal(alive(child), false);
    await forkful.ok(['delete', 'orphans']);
  });

  test('a signal reaches each worker', async () => {
    const app = await startIdle('signalled', [], ({ report }) => {
      process.on('SIGUSR2', () => report({ signalled: true }));
      setInterval(() => {}, 1000);
      report({ ready: true });
    });
    const [worker] = await app.workers();
    await worker.reported('ready');
    await forkful.ok(['signal', 'SIGUSR2', 'signalled']);
    await worker.reported('signalled');
    await forkful.ok(['delete', 'signalled']);
  });

  test('fork mode runs whatever runs: a shell script, a command line, a binary', async () => {
    const script = join(forkful.directory, 'loop.sh');
    writeFileSync(script, '#!/bin/sh\necho "instance $NODE_APP_INSTANCE of $0"\nexec sleep 1000\n', { mode: 0o755 });
    await forkful.ok(['start', script, '--name', 'shell', '--no-wait']);
    await forkful.ok(['start', 'echo hello from the shell && exec sleep 1000', '--name', 'line', '--no-wait']);
    await forkful.ok(['start', '/bin/sleep', '--name', 'binary', '--no-wait', '--', '1000']);
    for (const name of ['shell', 'line', 'binary']) await statusIs(name, 'online');
    const logged = (name) => forkful.ok(['logs', name, '--nostream', '--raw']).then(({ stdout }) => stdout);
    await waitUntil('the words', async () => /instance 0 of .*loop\.sh/.test(await logged('shell')));
    await waitUntil('the words', async () => /hello from the shell/.test(await logged('line')));
    const { stdout, stderr } = await forkful.ok(['reload', 'binary']);
    assert.match(stdout + stderr, /stop|restart/i, 'says that this is no reload without a gap');
    await forkful.ok(['delete', 'shell', 'line', 'binary']);
  });

  test('logs: whole lines, of both streams, as text and as JSON, old and new', async () => {
    const app = await startIdle('talks', [], ({ report }) => {
      console.log('first\tline');
      console.error('an error');
      setInterval(() => {}, 1000);
      report({ ready: true });
    });
    const [worker] = await app.workers();
    await worker.reported('ready');
    const logs = async (...options) => (await forkful.ok(['logs', 'talks', '--nostream', ...options])).stdout;
    await waitUntil('both lines', async () => { const text = await logs('--raw'); return text.includes('first') && text.includes('an error'); });
    assert.equal(await logs('--raw', '--out'), 'first\tline\n');
    assert.equal(await logs('--raw', '--err'), 'an error\n');
    const [line] = (await logs('--json', '--out')).trim().split('\n').map((text) => JSON.parse(text));
    assert.deepEqual([line.app_name, line.type, line.message], ['talks', 'out', 'first\tline']);

    const following = forkful.spawn(['logs', 'talks', '--raw', '--lines', '0']);
    // It follows once a line comes through; earlier ones may be missed.
    let printed = 0;
    await waitUntil('a followed line', async () => {
      await worker.run(() => { console.log('a new line'); });
      printed += 1;
      return following.stdout.includes('a new line\n');
    });
    following.child.kill('SIGINT');
    await following.outcome;
    await waitUntil('all lines in the file', async () => (await logs('--raw', '--out', '--lines', '1000')).split('a new line\n').length === printed + 1);

    await forkful.ok(['flush', 'talks']);
    assert.equal(await logs('--raw', '--out'), '');
    await forkful.ok(['delete', 'talks']);
  });

  test('CPU is that of each worker', async () => {
    await forkful.start(() => { const turn = () => { for (const end = Date.now() + 50; Date.now() < end;); setImmediate(turn); }; turn(); },
      { name: 'busy', instances: 1, options: ['--no-wait'] });
    await startIdle('resting');
    const cpu = async (name) => (await forkful.jlist(name))[0].monit.cpu;
    // How much of a core it gets is the machine's affair.
    await waitUntil('the busy one to be seen', async () => {
      const busy = await cpu('busy');
      return busy > 0.5 && await cpu('resting') < busy / 4;
    });
    await forkful.ok(['delete', 'busy', 'resting']);
  });

  test('where the system allows it, the daemon has more than the share of a session, and workers have not', async (t) => {
    const share = (pid) => readFileSync(`/proc/${pid}/autogroup`, 'utf8').trim().replace(/^.* /, '');
    const [nice] = readFileSync('/proc/self/stat', 'utf8').split(') ')[1].split(' ').slice(16);
    if (!existsSync('/proc/self/autogroup') || userInfo().uid !== 0 || nice !== '0') return t.skip('it needs sched_autogroup, root and a normal priority');
    await forkful.ok(['start', forkful.script(idle), '--name', 'share', ...NODE]);
    const [{ pid }] = await forkful.jlist('share');
    assert.deepEqual([share(await forkful.daemonPid()), share(pid)], ['-5', '0']);
    await forkful.ok(['delete', 'share']);
  });

  test('a clustered app that listens late is up with a word about it', async () => {
    const path = forkful.script(({ require, report }) => {
      globalThis.listen = () => require('http').createServer().listen(0, '127.0.0.1');
      setInterval(() => {}, 1000);
      report({ up: true });
    });
    const { stdout, stderr } = await forkful.ok(['start', path, '--name', 'late', '-i', '1', ...NODE, '--listen-timeout', '1s']);
    assert.match(stdout + stderr, /has not listened on any port yet/);
    const describe = async () => (await forkful.ok(['describe', 'late'])).stdout;
    assert.match(await describe(), /has not said that it is ready/);
    // On a busy machine the start is over before the process can say anything.
    const worker = await waitUntil('its process', () => forkful.control.living(path)[0]);
    await worker.run(() => { globalThis.listen(); });
    await waitUntil('it to be seen', async () => !/has not said that it is ready/.test(await describe()));
    await forkful.ok(['delete', 'late']);
  });

  test('lists as text and as JSON agree', async () => {
    await startIdle('listed');
    // It was started without waiting.
    const worker = await waitUntil('its process', async () => (await forkful.jlist('listed')).find(({ pid }) => pid > 0));
    assert.equal(worker.pm2_env.exec_mode, 'cluster_mode');
    assert.equal(typeof worker.monit.memory, 'number');
    assert.equal(typeof worker.monit.cpu, 'number');
    assert.ok(worker.pm2_env.pm_uptime <= Date.now());
    for (const verb of ['list', 'ls', 'status']) {
      const { stdout } = await forkful.ok([verb]);
      assert.match(stdout, new RegExp(`listed.*${worker.pid}`));
      // eslint-disable-next-line no-control-regex -- that there is none is the point
      assert.doesNotMatch(stdout, /\x1b/);
    }
    const list = JSON.parse((await forkful.ok(['list', '--json'])).stdout);
    assert.equal(list.apps.find(({ definition }) => definition.name === 'listed').workers[0].pid, worker.pid);
    await forkful.ok(['delete', 'listed']);
  });
});

describe('run, in the foreground', { concurrency: 3 }, () => {
  const start = async (t, body, options = [], env = {}) => {
    const forkful = await sandbox(t);
    const path = forkful.script(body);
    const running = forkful.spawn(['run', path, ...NODE, ...options], { env });
    return { forkful, path, running };
  };

  test('serves on all workers, writes their lines, and a SIGTERM ends everything', async (t) => {
    const port = await freePort();
    const { running } = await start(t, ({ require }) => {
      require('http').createServer((_q, r) => r.end(String(process.pid))).listen(Number(process.env.PORT), '127.0.0.1', () => console.log('serving'));
      process.on('SIGTERM', () => { console.log('leaving'); process.exit(6); });
    }, ['-i', '2'], { PORT: String(port) });
    const pids = await differentAnswers(port);
    await waitUntil('both lines', () => running.stdout.split('serving').length === 3);
    running.child.kill('SIGTERM');
    const { code, stdout } = await running.outcome;
    assert.equal(code, 6, running.stderr);
    assert.equal(stdout.split('leaving').length, 3, stdout);
    assert.deepEqual(pids.filter((pid) => alive(pid)), []);
    assert.equal(await accepts({ host: '127.0.0.1', port }), false);
  });

  test('passes signals on, and ends what does not end by a second one', async (t) => {
    const forkful = await sandbox(t);
    const script = join(forkful.directory, 'signals.sh');
    writeFileSync(script, 'for s in HUP USR1 USR2 TERM; do trap "echo got $s" $s; done\necho begun\nwhile :; do sleep 0.05; done\n');
    const running = forkful.spawn(['run', script, '--interpreter', 'sh', '--kill-timeout', '60s']);
    const says = (text) => waitUntil(text, () => running.stdout.includes(text));
    await says('begun');
    for (const signal of ['HUP', 'USR1', 'USR2', 'TERM']) {
      running.child.kill(/** @type {NodeJS.Signals} */ (`SIG${signal}`));
      await says(`got ${signal}`);
    }
    assert.equal(running.child.exitCode, null);
    // The same signal again within 250 ms would count as the same request.
    const again = setInterval(() => running.child.kill('SIGTERM'), 300);
    t.after(() => clearInterval(again));
    assert.equal((await running.outcome).code, 128 + 9);
  });

  test('gives log collectors the lines of the app, or JSON, and people the worker of each line', async (t) => {
    const speak = ({ require }) => {
      require('fs').writeSync(1, '{"level":30,"text":"one line"}\n');
      process.exit();
    };
    const options = ['-i', '2', '--no-autorestart'];
    const plain = await start(t, speak, options);
    assert.equal((await plain.running.outcome).stdout, '{"level":30,"text":"one line"}\n'.repeat(2));
    const json = await start(t, speak, [...options, '--log-type', 'json', '--name', 'api']);
    const lines = (await json.running.outcome).stdout.trim().split('\n').map((line) => JSON.parse(line));
    assert.deepEqual(lines.map((line) => line.process_id).sort(), [0, 1]);
    for (const { message, type, app_name: app, timestamp } of lines) {
      assert.deepEqual({ message, type, app }, { message: '{"level":30,"text":"one line"}', type: 'out', app: 'api' });
      assert.equal(new Date(timestamp).toISOString(), timestamp);
    }
    if (!HAS_SCRIPT) return t.diagnostic('the terminal is not tested: there is no `script` of util-linux');
    const forkful = await sandbox(t);
    const command = [binary(), 'run', forkful.script(speak), ...NODE, ...options, '--name', 'api'].map((word) => `'${word}'`).join(' ');
    const seen = await forkful.spawn(['-qec', command, '/dev/null'], { program: 'script' }).outcome;
    assert.match(seen.stdout, /^0\|api \| \{"level":30/m);
    assert.match(seen.stdout, /^1\|api \| \{"level":30/m);
  });

  test('ends with the app\'s exit code', async (t) => {
    const { running } = await start(t, () => { setTimeout(() => process.exit(5), 20); }, ['--no-autorestart']);
    assert.equal((await running.outcome).code, 5);
  });

  test('ends with 128 and the signal that killed the app', async (t) => {
    const { running } = await start(t, () => { process.kill(process.pid, 'SIGKILL'); }, ['--no-autorestart']);
    assert.equal((await running.outcome).code, 128 + 9);
  });

  test('restarts a worker as the daemon does', async (t) => {
    const { forkful, path, running } = await start(t, idle);
    const first = await waitUntil('a worker', () => forkful.control.living(path)[0]);
    first.order(() => process.exit(1));
    await waitUntil('a second life', () => forkful.control.living(path).find(({ pid }) => pid !== first.pid));
    running.child.kill('SIGINT');
    await once(running.child, 'exit');
  });

  test('as PID 1 of a namespace it reaps what is not its own', async (t) => {
    const forkful = await sandbox(t);
    const path = forkful.script(({ require }) => {
      const { execSync } = require('child_process');
      // Orphans that end at once: PID 1 inherits them.
      for (let n = 0; n < 5; n += 1) execSync('(setsid sh -c "exit 0" &)');
      const states = () => require('fs').readdirSync('/proc').filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
        try { return [require('fs').readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1][0]]; } catch { return []; }
      });
      const end = Date.now() + 5000;
      setInterval(() => {
        if (process.ppid !== 1 || Date.now() > end) process.exit(9);
        if (!states().includes('Z')) process.exit(4);
      }, 10);
    });
    const running = forkful.spawn(['--pid', '--fork', '--mount-proc', '--kill-child', binary(), 'run', path, ...NODE, '--no-autorestart'], { program: 'unshare' });
    assert.equal((await running.outcome).code, 4, running.stderr);
  });
});
