// Migrates a PM2 project: started with the real PM2, imported, run under load, rebooted, and deployed to a
// second folder over ssh, without losses and with an unchanged ecosystem.config.js.
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { appendFileSync, existsSync, mkdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

import { WORKERS, writeProject } from './fixtures/pm2-project.mjs';
import { freePort, get } from './lib/http.mjs';
import { startLoad } from './lib/load.mjs';
import { binary, sandbox } from './lib/sandbox.mjs';
import { SSHD, startSshd } from './lib/sshd.mjs';
import { waitUntil } from './lib/wait.mjs';

const PM2 = fileURLToPath(new URL('../../npm/test/node_modules/.bin/pm2', import.meta.url));
const SLOW_MS_MAX = 300_000;
const PID = /^\d+$/;

let missing = '';
if (!existsSync(PM2)) missing = 'PM2 is not installed: npm ci --prefix npm/test';
else if (!SSHD) missing = 'there is no sshd on this machine';

test('a PM2 project moves, runs, reboots and is deployed', { skip: missing || false }, async (t) => {
  const forkful = await sandbox(null);
  const pm2Home = join(forkful.directory, 'pm2');
  const data = join(forkful.directory, 'data');
  const project = join(forkful.directory, 'project');
  const there = join(forkful.directory, 'there');
  const keys = join(forkful.directory, 'keys');
  mkdirSync(keys);
  const server = await startSshd(keys);

  const { NODE_OPTIONS: _options, NODE_TEST_CONTEXT: _context, ...inherited } = process.env;
  const path = [dirname(binary()), dirname(PM2), inherited.PATH].join(delimiter);
  const env = { ...inherited, PATH: path, PM2_HOME: pm2Home, PM2_DISABLE_VERSION_CHECK: 'true', FORKFUL_HOME: forkful.home };
  /** Runs a program that must succeed; clients continue meanwhile. */
  const run = async (program, args) => {
    try {
      return await promisify(execFile)(program, args, { cwd: project, env, encoding: 'utf8', timeout: SLOW_MS_MAX });
    } catch (error) {
      throw new Error(`${program} ${args.join(' ')}\n${error.stdout}${error.stderr}`, { cause: error });
    }
  };
  const pm2 = (...args) => run(PM2, args);
  t.after(async () => {
    await pm2('kill').catch(() => {});
    server.stop();
    await forkful.close();
  });
  const git = (...args) => run('git', ['-c', 'user.name=Ann', '-c', 'user.email=ann@example.com', ...args]);

  const port = await freePort();
  const config = writeProject(project, {
    port,
    data,
    deploy: {
      live: {
        ...server.login, host: '127.0.0.1', repo: join(forkful.directory, 'origin.git'), ref: 'origin/main', path: there,
        'post-deploy': 'forkful startOrReload ecosystem.config.js --env production', env: { PATH: path, FORKFUL_HOME: forkful.home },
      },
    },
  });
  const text = readFileSync(config, 'utf8');

  /** How each app was started, by its last start: all its workers of api. */
  const abouts = () => Object.fromEntries(Object.keys(WORKERS).map((name) => {
    const all = readFileSync(join(data, name), 'utf8').trim().split('\n').slice(-WORKERS[name]).map((line) => JSON.parse(line));
    return [name, all.sort((a, b) => String(a.env.NUMBER).localeCompare(String(b.env.NUMBER)))];
  }));
  const begun = () => waitUntil('all apps to have begun', () => Object.entries(WORKERS).every(([name, count]) =>
    existsSync(join(data, name)) && readFileSync(join(data, name), 'utf8').trim().split('\n').length >= count), SLOW_MS_MAX);
  const jobRuns = () => readFileSync(join(data, 'log-job'), 'utf8').split('run\n').length - 1;
  const jobGoesOn = () => {
    const before = jobRuns();
    return waitUntil('the job to run again', () => jobRuns() > before, SLOW_MS_MAX);
  };
  /** The state that a move or a reboot does not change. */
  const listed = async () => (await forkful.jlist()).map(({ name, pm2_env: env }) => [name, env.namespace, env.exec_mode, env.NODE_APP_INSTANCE]).sort();
  const upAgain = () => waitUntil('all apps but the job to be online', async () =>
    (await forkful.jlist()).every(({ name, pm2_env: { status } }) => status === 'online' || name === 'job'), SLOW_MS_MAX);
  const cleanLoad = async (load) => {
    const { success, ...failed } = await load.stop();
    assert.deepEqual(failed, { reset: 0, refused: 0, timeout: 0, unexpected: 0 }, load.failures.join('\n'));
    assert.ok(success > 0);
  };
  const load = () => {
    const clients = startLoad({ port, closing: 2, keeping: 2, expect: PID });
    // A failed assertion must not leave them running: the test would never end.
    t.after(() => clients.stop());
    return clients;
  };

  let before = {};
  await t.test('it runs under PM2', async () => {
    // PM2 itself may fail on a busy machine; a second start goes on with what the first has begun.
    await waitUntil('PM2 to have started all', async () => pm2('start', 'ecosystem.config.js'), SLOW_MS_MAX);
    await begun();
    await waitUntil('an answer', async () => (await get(port)).status === 200, SLOW_MS_MAX);
    before = await waitUntil('what each app wrote', abouts);
    await pm2('save');
  });

  await t.test('import takes every app over, as it was', async () => {
    rmSync(data, { recursive: true });
    mkdirSync(data);
    const { stdout } = await run(binary(), ['import', 'pm2', '--stop-pm2']);
    for (const name of Object.keys(WORKERS)) assert.match(stdout, new RegExp(`^${name} (imported|finished)`, 'm'));
    await begun();
    assert.deepEqual(abouts(), before);
    const modes = Object.fromEntries((await listed()).map(([name, namespace, mode]) => [name, [namespace, mode]]));
    assert.deepEqual(modes, {
      api: ['default', 'cluster_mode'], queue: ['back', 'fork_mode'], job: ['back', 'fork_mode'], watched: ['default', 'fork_mode'], tool: ['default', 'fork_mode'], loop: ['default', 'fork_mode'],
    });
    assert.deepEqual(forkful.processes(pm2Home).filter(({ command }) => command.includes('PM2')), [], 'PM2 has ended');
    await upAgain();
  });

  await t.test('it runs under load: the cron pattern, the watch, the memory limit, a kill, a reload', async () => {
    const clients = load();
    await jobGoesOn();
    writeFileSync(join(project, 'conf/settings'), 'second\n');
    await waitUntil('the watch', () => readFileSync(join(data, 'log-watched'), 'utf8').includes('conf second'), SLOW_MS_MAX);
    const pids = async () => (await forkful.jlist('api')).map(({ pid }) => pid);
    const first = await pids();
    await forkful.ok(['reload', 'api']);
    assert.deepEqual((await pids()).filter((pid) => first.includes(pid)), []);
    const second = await pids();
    await waitUntil('the memory limit', async () => {
      await get(port, '/grow').catch(() => {});
      return (await pids()).some((pid) => !second.includes(pid));
    }, SLOW_MS_MAX);
    await upAgain();
    await cleanLoad(clients);
    const { stdout } = await forkful.ok(['logs', '--nostream', '--raw', '--lines', '100']);
    for (const line of ['begun in plain', 'python is up', 'shell is up']) assert.match(stdout, new RegExp(line));
    const [victim] = await pids();
    process.kill(victim, 'SIGKILL');
    await waitUntil('another worker', async () => { const now = await pids(); return now.length === 2 && now.every(Boolean) && !now.includes(victim); });
  });

  await t.test('it is rebooted', async () => {
    const list = await listed();
    await forkful.killDaemon();
    rmSync(data, { recursive: true });
    mkdirSync(data);
    await run(binary(), ['resurrect']);
    await begun();
    await upAgain();
    assert.deepEqual(await listed(), list);
    assert.deepEqual(abouts(), before);
    await jobGoesOn();
    const clients = load();
    await waitUntil('traffic', () => clients.counts.success > 200);
    await cleanLoad(clients);
  });

  await t.test('it is deployed to a second folder over ssh, under load', async () => {
    await run('git', ['init', '--quiet', '--bare', '--initial-branch=main', join(forkful.directory, 'origin.git')]);
    await git('init', '--quiet', '--initial-branch=main');
    await git('add', '.');
    await git('commit', '--quiet', '-m', 'as it is');
    await git('remote', 'add', 'origin', join(forkful.directory, 'origin.git'));
    await git('push', '--quiet', '--set-upstream', 'origin', 'main');
    await run(binary(), ['deploy', 'ecosystem.config.js', 'live', 'setup']);
    const clients = load();
    const list = await listed();
    rmSync(data, { recursive: true });
    mkdirSync(data);
    await run(binary(), ['deploy', 'ecosystem.config.js', 'live']);
    await begun();
    await upAgain();
    await cleanLoad(clients);
    assert.deepEqual(await listed(), list, 'the same apps, none twice');
    const after = abouts();
    for (const [name, starts] of Object.entries(after)) {
      for (const [index, about] of starts.entries()) {
        const was = before[name][index];
        assert.deepEqual(about.args, was.args);
        assert.equal(realpathSync(about.cwd), realpathSync(join(there, 'current')));
        assert.deepEqual([about.env.MODE, about.env.COMMON], ['production', was.env.COMMON]);
      }
    }
    assert.equal(JSON.parse((await get(port, '/about')).body).env.NODE_ENV, 'production');
    appendFileSync(join(there, 'current/conf/settings'), 'third\n');
    await waitUntil('the watch of the new folder', () => readFileSync(join(data, 'log-watched'), 'utf8').includes('third'), SLOW_MS_MAX);
    await jobGoesOn();
  });

  assert.equal(readFileSync(config, 'utf8'), text, 'the configuration is as it was');
  await forkful.ok(['delete', 'all']);
  assert.equal(await get(port).then(() => true, () => false), false);
});
