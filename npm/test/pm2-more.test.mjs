// What `forkful/pm2` does that is not compared call by call with PM2: other homes, no daemon, promises, metrics.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { PACKAGE, binary, build, processesOf, sandbox, waitUntil } from './lib/sandbox.mjs';

const APP = new URL('./fixtures/app.js', import.meta.url).pathname;
const METRICS = new URL('./fixtures/metrics.cjs', import.meta.url).pathname;

/** Runs the body of a script that has `pm2`, `assert` and `APP`; gives what it printed. */
function run(box, body) {
  const path = box.write('script.cjs', `
    const pm2 = require(${JSON.stringify(join(PACKAGE, 'pm2.cjs'))});
    const assert = require('node:assert/strict');
    const APP = ${JSON.stringify(APP)};
    (async () => { ${body} })();
  `);
  const ended = spawnSync(process.execPath, [path], { cwd: box.directory, env: box.env, encoding: 'utf8', timeout: 300_000 });
  assert.equal(ended.status, 0, `${ended.signal ?? ''}${ended.stdout}${ended.stderr}`);
  return ended.stdout;
}

test('without a callback there are promises', (t) => {
  run(sandbox(t), `
    assert.equal((await pm2.connect()).new_pm2_instance, true);
    assert.equal((await pm2.start({ script: APP, name: 'api', instances: 2 })).length, 2);
    assert.deepEqual((await pm2.describe('api')).map((worker) => worker.pm2_env.version), ['1.2.3', '1.2.3']);
    await assert.rejects(pm2.restart('nobody'), { message: 'process or namespace not found' });
    await assert.rejects(pm2.install('pm2-logrotate'), { message: /Forkful has no install/ });
    assert.equal((await pm2.env('api')).HOME, process.env.HOME);
    assert.deepEqual(await pm2.restart('/^ap/'), await pm2.restart('all').then((all) => all.map((worker) => ({ ...worker, restart_time: worker.restart_time - 1, pm2_env: { ...worker.pm2_env, restart_time: worker.restart_time - 1 } }))));
  `);
});

test('a target that is missing is not all apps', (t) => {
  run(sandbox(t), `
    await pm2.start({ script: APP, name: 'api' });
    for (const verb of ['stop', 'restart', 'reload', 'delete']) {
      for (const target of [undefined, null, '']) await assert.rejects(pm2[verb](target), { message: 'process or namespace not found' }, verb + ' ' + target);
    }
    assert.deepEqual(await pm2.describe(undefined), []);
    assert.deepEqual((await pm2.list()).map(({ name, pm2_env: { status, restart_time: restarts } }) => [name, status, restarts]), [['api', 'online', 0]]);
  `);
});

test('options that are null are no options', (t) => {
  run(sandbox(t), `
    const called = (verb, ...values) => new Promise((resolve, reject) => pm2[verb](...values, (error, result) => (error ? reject(error) : resolve(result))));
    assert.equal((await called('start', APP, null)).length, 1);
    for (const verb of ['start', 'restart', 'reload', 'gracefulReload']) assert.equal((await called(verb, 'app', null)).length, 1, verb);
    for (const verb of ['start', 'restart', 'reload']) assert.equal((await pm2[verb]({ apps: [{ script: APP, name: 'app' }] }, null)).length, 1, verb);
  `);
});

test('a bus is opened for a caller that awaits', (t) => {
  run(sandbox(t), `
    const bus = await pm2.launchBus();
    const online = new Promise((resolve) => bus.on('process:event', ({ event, process: { name } }) => event === 'online' && resolve(name)));
    await pm2.start({ script: APP, name: 'api' });
    assert.equal(await online, 'api');
    await pm2.disconnect();
    await assert.rejects(new pm2.custom({ pm2_home: '/dev/null/home' }).launchBus());
  `);
});

test('a bus goes on after an update, after a crash of the daemon and with a daemon that is started later, until it is closed', async (t) => {
  const box = sandbox(t);
  run(box, `
    const { execFileSync } = require('node:child_process');
    const { existsSync } = require('node:fs');
    const until = async (is) => { while (!await is()) await new Promise((resolve) => setTimeout(resolve, 50)); };
    const pidOf = async () => (await pm2.Client.ping().catch(() => null))?.pid;
    await pm2.start({ script: APP, name: 'api' });
    const bus = await pm2.launchBus();
    let [reloads, kills] = [0, 0];
    bus.on('process:event', ({ event }) => { if (event === 'reload') reloads += 1; });
    bus.on('pm2:kill', () => { kills += 1; });
    const goesOn = async () => {
      const before = reloads;
      await until(async () => { await pm2.reload('api'); return reloads > before; });
      return kills;
    };
    const first = await pidOf();
    execFileSync(${JSON.stringify(build(box.directory))}, ['update'], { stdio: 'ignore' });
    assert.notEqual(await pidOf(), first);
    assert.equal(await goesOn(), 0);
    const second = await pidOf();
    process.kill(second, 'SIGKILL');
    await until(async () => ![undefined, second].includes(await pidOf()));
    assert.equal(await goesOn(), 0);
    const lost = JSON.parse(execFileSync(process.env.FORKFUL_BIN, ['ping', '--json'], { encoding: 'utf8' }));
    for (const pid of [lost.keeper, lost.pid]) process.kill(pid, 'SIGKILL');
    await until(() => kills === 1);
    await pm2.start({ script: APP, name: 'api' });
    assert.equal(await goesOn(), 1);
    execFileSync(process.env.FORKFUL_BIN, ['kill'], { stdio: 'ignore' });
    await until(() => kills === 2);
    const closed = new Promise((resolve) => bus.sock.once('close', resolve));
    bus.close();
    await closed;
  `);
});

test('the bus tells of an error that no code caught, as PM2 does', (t) => {
  run(sandbox(t), `
    const server = 'require("node:http").createServer().listen(0);';
    require('node:fs').writeFileSync('thrown.js', server + 'process.on("SIGUSR2", () => { console.error("before"); throw new TypeError("boom" + String.fromCharCode(10) + "second line"); });');
    require('node:fs').writeFileSync('left.js', server + 'process.on("SIGUSR2", () => { console.error(new Error("handled")); process.exit(3); });');
    const bus = await pm2.launchBus();
    const told = [];
    const thrown = new Promise((resolve) => bus.on('process:exception', (event) => { told.push(event); resolve(); }));
    await pm2.start([{ script: 'left.js', autorestart: false }, { script: 'thrown.js', autorestart: false }]);
    const left = new Promise((resolve) => bus.on('app:incident', ({ app }) => app === 'left' && resolve()));
    await pm2.sendSignalToProcessName('SIGUSR2', 'left');
    await left;
    await pm2.sendSignalToProcessName('SIGUSR2', 'thrown');
    await thrown;
    const [{ at, data, process: { name, pm_id, namespace } }] = told;
    assert.deepEqual([typeof at, data.name, data.message, name, pm_id, namespace], ['number', 'TypeError', 'boom\\nsecond line', 'thrown', 1, 'default']);
    assert.match(data.stack, /^TypeError: boom\\nsecond line\\n    at .*thrown\\.js:1:/);
    assert.ok(!data.stack.includes('before') && told.length === 1, data.stack);
    await pm2.disconnect();
  `);
});

test('an app that fails after it was spawned is in the list, as in PM2, and a warning says why; a failed reload is an error', (t) => {
  run(sandbox(t), `
    require('node:fs').writeFileSync('bad.js', 'process.exit(3);');
    const warnings = [];
    process.on('warning', ({ message }) => warnings.push(message));
    const names = (list) => list.map(({ name, pm2_env }) => name ?? pm2_env.name).sort();
    const bad = { script: 'bad.js', name: 'bad', max_restarts: 0 };
    assert.deepEqual(names(await pm2.start([bad, { script: APP, name: 'good' }])), ['bad', 'good']);
    assert.deepEqual((await pm2.describe('good')).map((worker) => worker.pm2_env.status), ['online']);
    assert.deepEqual(names(await pm2.restart('bad')), ['bad']);
    assert.deepEqual(names(await pm2.start('bad.js', { name: 'worse', max_restarts: 0 })), ['worse']);
    assert.equal(warnings.length, 3, warnings.join());
    await assert.rejects(pm2.reload('bad'), /bad: /);
    await assert.rejects(pm2.reload({ apps: [{ ...bad, env: { STEP: '2' } }] }), /bad: /);
    await assert.rejects(pm2.start('missing.js'));
  `);
});

test('restart, reload and start by name take other options', (t) => {
  run(sandbox(t), `
    await pm2.start({ script: APP, name: 'api', env: { STEP: '1', LEFT: 'yes' } });
    await pm2.restart('api', { env: { STEP: '2' }, maxRestarts: 3 });
    assert.deepEqual([(await pm2.env('api')).STEP, (await pm2.env('api')).LEFT], ['2', 'yes']);
    process.env.OF_THE_CALLER = 'here';
    await pm2.reload('api', { updateEnv: true });
    assert.equal((await pm2.env('api')).OF_THE_CALLER, 'here');
    await pm2.stop('api');
    const started = await pm2.start({ name: 'api', instances: 2 });
    assert.deepEqual((await pm2.describe('api')).map((worker) => worker.pm2_env.status), ['online', 'online']);
    assert.equal(started[0].name, 'api');
    await pm2.stop('all');
    assert.equal((await pm2.start('all')).length, 2);
    assert.equal((await pm2.start('default', { max_memory_restart: '200M' })).length, 2);
    assert.equal((await pm2.describe('api'))[0].pm2_env.max_memory_restart, 200 * 1024 ** 2);
    await assert.rejects(pm2.start({ name: 'nobody' }));
    await assert.rejects(pm2.start({ name: 'all', max_memory_restart: '300M' }), { message: 'process name not found' });
    await assert.rejects(pm2.start('/^x/'), { message: 'process name not found' });
    require('node:fs').mkdirSync('below');
    await pm2.start('script.cjs', { name: 'elsewhere', cwd: './below', autorestart: false, interpreter: 'true', exec_mode: 'fork' });
    const [elsewhere] = await pm2.describe('elsewhere');
    assert.deepEqual([elsewhere.pm2_env.pm_cwd, elsewhere.pm2_env.pm_exec_path], [require('node:path').resolve('below'), require('node:path').resolve('script.cjs')]);
  `);
});

test('a fault of a callback is not swallowed', (t) => {
  const box = sandbox(t);
  const path = box.write('script.cjs', `
    const pm2 = require(${JSON.stringify(join(PACKAGE, 'pm2.cjs'))});
    process.on('uncaughtException', (error) => { console.log('caught', error.message); process.exit(0); });
    pm2.list(() => { throw new Error('of the callback'); });
  `);
  assert.equal(execFileSync(process.execPath, [path], { env: box.env, encoding: 'utf8' }), 'caught of the callback\n');
});

test('without a daemon of its own a script takes everything with it', async (t) => {
  const box = sandbox(t);
  for (const ending of ['pm2.disconnect();', 'process.exit(0);']) {
    run(box, `
      await pm2.connect(true);
      await pm2.start({ script: APP, name: 'api' });
      ${ending}
    `);
    await waitUntil('the app to end', () => processesOf(box.directory).length === 0);
  }
  run(box, `await pm2.connect(); await pm2.start({ script: APP, name: 'stays' }); pm2.disconnect();`);
  assert.match(execFileSync(binary(), ['jlist'], { env: box.env, encoding: 'utf8' }), /"name":"stays"/);
  // A daemon that was there before is not taken along.
  run(box, `assert.equal((await pm2.connect(true)).new_pm2_instance, false); pm2.disconnect();`);
  assert.match(execFileSync(binary(), ['jlist'], { env: box.env, encoding: 'utf8' }), /"name":"stays"/);
});

test('instances with homes of their own do not see each other', (t) => {
  const box = sandbox(t);
  const home = run(box, `
    const other = new pm2.custom({ independent: true });
    await other.start({ script: APP, name: 'independent' });
    const named = new pm2.custom({ pm2_home: ${JSON.stringify(join(box.directory, 'named'))} });
    await named.start({ script: APP, name: 'named' });
    assert.deepEqual((await other.list()).map(({ name }) => name), ['independent']);
    assert.deepEqual((await named.list()).map(({ name }) => name), ['named']);
    assert.deepEqual(await pm2.list(), []);
    await named.killDaemon();
    console.log(await other.destroy());
  `).trim();
  assert.ok(home.length > 1 && !existsSync(home), home);
});

test('a configuration file: started, changed by the file, and by an environment', (t) => {
  const box = sandbox(t);
  const config = box.write('ecosystem.config.js', `module.exports = { apps: [
    { name: 'one', script: ${JSON.stringify(APP)}, env: { STEP: '1' }, env_production: { STEP: 'production' } },
    { name: 'two', script: ${JSON.stringify(APP)}, instances: 2 },
  ] };`);
  run(box, `
    const config = ${JSON.stringify(config)};
    assert.deepEqual((await pm2.start(config)).map(({ name }) => name), ['one', 'two', 'two']);
    assert.equal((await pm2.describe('one'))[0].pm2_env.STEP, '1');
    await pm2.restart(config, { env: 'production', only: 'one' });
    assert.equal((await pm2.describe('one'))[0].pm2_env.STEP, 'production');
    assert.deepEqual((await pm2.list()).map(({ name, pm2_env: env }) => [name, env.restart_time]), [['one', 1], ['two', 0], ['two', 0]]);
    process.env.STEP = 'updated';
    await pm2.reload('one', { updateEnv: true });
    assert.equal((await pm2.describe('one'))[0].pm2_env.STEP, 'updated');
    await pm2.stop('two');
    assert.deepEqual((await pm2.start('two')).map(({ pm2_env: env }) => env.status), ['online', 'online']);
  `);
});

test('actions and metrics of @pm2/io', (t) => {
  const io = new URL(import.meta.resolve('@pm2/io')).pathname;
  run(sandbox(t), `
    await pm2.start({ script: ${JSON.stringify(METRICS)}, name: 'metrics', env: { PM2_IO: ${JSON.stringify(io)} } });
    let worker;
    do [worker] = await pm2.list(); while (!worker.pm2_env.axm_actions.some(({ action_name: name }) => name === 'silent') || !worker.pm2_env.axm_monitor.Hits);
    assert.equal(worker.pm2_env.axm_monitor.Hits.value, 2);
    assert.deepEqual(await pm2.trigger('metrics', 'double', '21'), [{ process: { pm_id: 0, name: 'metrics', rev: null, namespace: 'default' }, return: { doubled: 42 } }]);
    await assert.rejects(pm2.trigger('metrics', 'none'), { message: 'Unknown process' });
    assert.equal((await pm2.msgProcess({ name: 'metrics', msg: 'plain' })).process_count, 1);
  `);
});
