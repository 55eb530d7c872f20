// Attacks on files of a root daemon that runs apps of two users: the app of one user replaces its logs,
// folders, pid files and environment files with links to files of root or the other user, and asks the daemon
// for unix sockets in their folders. No byte outside of the app's own folder changes, and none is read for it.
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  chmodSync, chownSync, existsSync, lchownSync, lstatSync, mkdirSync, readFileSync, readdirSync, readlinkSync, rmSync, symlinkSync, writeFileSync,
} from 'node:fs';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { nodeBinary, NEWEST } from './lib/nodes.mjs';
import { aloneWithAgents } from './lib/agents.mjs';
import { sandbox } from './lib/sandbox.mjs';
import { waitUntil } from './lib/wait.mjs';

/** Two user ids without a name on any system. */
const [ANN, BOB] = [61_001, 61_002];
const skip = userInfo().uid === 0 ? false : 'SKIPPED: only root runs apps of others';
if (skip) console.error(`${skip}: the attacks of an app of another user are not shown`);

/** Everything below a folder: kind, owner, mode and content. @param {string} folder */
function tree(folder) {
  const names = ['.', ...readdirSync(folder, { recursive: true })].map(String).sort();
  return names.map((name) => {
    const path = join(folder, name);
    const found = lstatSync(path);
    const content = found.isFile() ? readFileSync(path, 'latin1') : found.isSymbolicLink() ? readlinkSync(path) : '';
    return [name, found.uid, found.mode, content].join(' ');
  });
}

/**
 * A folder of each user with an attacker's targets, and a check that they are unchanged.
 * @param {import('node:test').TestContext} t
 */
async function prepare(t) {
  const letGo = await aloneWithAgents(t);
  const forkful = await sandbox(t);
  letGo();
  chmodSync(forkful.directory, 0o755);
  const at = (...parts) => join(forkful.directory, ...parts);
  for (const [name, user, mode] of [['root', 0, 0o755], ['bob', BOB, 0o755], ['ann', ANN, 0o755]]) {
    for (const folder of [at(name), at(name, 'logs'), at(name, 'run')]) {
      mkdirSync(folder);
      chmodSync(folder, mode);
      chownSync(folder, user, user);
    }
    if (name === 'ann') continue;
    const files = ['passwd', 'logs/out.log', 'logs/out.log.20200101T000000.000Z', 'logs/out.log.20200102T000000.000Z', ...[1, 2].flatMap((id) => [`run/app-${id}.pid`, `run/.app-${id}.pid.draft`])];
    for (const file of files) {
      writeFileSync(at(name, file), `${file} of ${name}\n`);
      chownSync(at(name, file), user, user);
    }
  }
  // Bob runs an app too, whose logs and pid file are in his own folder.
  const bobs = at('bobs');
  mkdirSync(bobs);
  chownSync(bobs, BOB, BOB);
  writeFileSync(join(bobs, 'app.cjs'), "console.log('hello of bob'); setInterval(() => {}, 1000);");
  writeFileSync(at('bob.config.json'), JSON.stringify({ apps: [{
    name: 'bobs', script: join(bobs, 'app.cjs'), interpreter: nodeBinary(NEWEST), exec_mode: 'fork', uid: String(BOB), cwd: bobs,
    out_file: join(bobs, 'out.log'), error_file: join(bobs, 'error.log'), pid_file: join(bobs, 'app.pid'),
  }] }));
  await forkful.ok(['start', at('bob.config.json')]);
  await waitUntil("the files of Bob's app", () => {
    const written = readdirSync(bobs).filter((file) => readFileSync(join(bobs, file)).length > 0);
    return ['.log', '.pid'].every((end) => written.some((file) => file.endsWith(end)));
  });
  const all = () => [tree(at('root')), tree(at('bob')), tree(bobs)];
  const bobsWorker = async () => (await forkful.jlist('bobs')).map(({ pid, pm2_env: { status } }) => [pid, status]);
  const [before, worker] = [all(), await bobsWorker()];
  return {
    forkful,
    at,
    /** A link of the app's user. */
    link(target, path) {
      symlinkSync(target, path);
      lchownSync(path, ANN, ANN);
    },
    start(script, more) {
      const app = {
        name: 'app', script, interpreter: nodeBinary(NEWEST), exec_mode: 'fork', uid: String(ANN), cwd: at('ann'), error_file: '/dev/null',
        log_rotate: { max_size: '8K', keep: 1, min_free: 0, compress: false }, ...more,
      };
      writeFileSync(at('forkful.config.json'), JSON.stringify({ apps: [app] }));
      return forkful.ok(['start', at('forkful.config.json')]);
    },
    /** The files of root and Bob that none of their programs changes. */
    others: () => [tree(at('root')), tree(at('bob'))],
    /** Nothing of root and Bob has changed, and Bob's app is still running. */
    async untouched() {
      assert.deepEqual(all(), before);
      assert.deepEqual(await bobsWorker(), worker);
      // Nothing was renamed to beside them either.
      const here = readdirSync(forkful.directory).filter((name) => /\d{8}T\d{6}/.test(name));
      assert.deepEqual(here, []);
    },
  };
}

test('an app that swaps its log or its folder for links has nothing of others renamed, removed or written', { skip }, async (t) => {
  const { forkful, at, start, untouched } = await prepare(t);
  const script = at('app.cjs');
  writeFileSync(script, `
    const { LOGS, TARGETS } = process.env;
    const fs = require('fs');
    const log = LOGS + '/out.log';
    const say = () => { for (let n = 0; n < 20; n += 1) console.log('x'.repeat(999)); };
    const targets = JSON.parse(TARGETS);
    let round = 0;
    const step = () => {
      if (round === 2 * targets.length) return fs.writeFileSync('done', '');
      const target = targets[Math.floor(round / 2)];
      // Set aside as it should be, so that the daemon has the file open now.
      say();
      setTimeout(() => {
        if (round % 2 === 0) {
          fs.renameSync(log, 'kept-' + round);
          fs.symlinkSync(target, log);
        } else {
          fs.renameSync(LOGS, 'folder-' + round);
          fs.symlinkSync(require('path').dirname(target), LOGS);
        }
        say();
        setTimeout(() => {
          fs.unlinkSync(round % 2 === 0 ? log : LOGS);
          if (round % 2 === 1) fs.mkdirSync(LOGS);
          round += 1;
          // The daemon tries a log that could not be written every second.
          const again = setInterval(() => { say(); if (fs.existsSync(log)) { clearInterval(again); step(); } }, 50);
        }, 100);
      }, 100);
    };
    const begin = setInterval(() => { if (fs.existsSync(log)) { clearInterval(begin); step(); } }, 20);
    setInterval(() => {}, 1000);
  `);
  const targets = [at('root'), at('root/passwd'), at('root/logs/out.log'), at('bob/logs/out.log'), at('bob/logs')];
  await start(script, { out_file: at('ann/logs/out.log'), env: { LOGS: at('ann/logs'), TARGETS: JSON.stringify(targets) } });
  await waitUntil('the attacks to be over', () => existsSync(at('ann/done')));
  assert.equal((await forkful.jlist('app'))[0].pm2_env.restart_time, 0, 'the app did what it was to do');
  await forkful.ok(['flush', 'app']);
  await untouched();
});

test("a log that cannot be opened gives nobody another app's archives", { skip }, async (t) => {
  const { forkful, at, link, start, untouched } = await prepare(t);
  link(at('bob/logs/out.log'), at('ann/logs/out.log'));
  const script = at('app.cjs');
  writeFileSync(script, "setInterval(() => { for (let n = 0; n < 20; n += 1) console.log('x'.repeat(999)); }, 20);");
  await start(script, { out_file: at('ann/logs/out.log') });
  const told = () => readFileSync(join(forkful.home, 'daemon.log'), 'utf8');
  await waitUntil('the refusal to be told', () => /leads through a link owned by user 61001 to a file that this user does not own/.test(told()));
  await forkful.run(['flush', 'app']);
  await forkful.ok(['logs', 'app', '--nostream']);
  await forkful.ok(['delete', 'app']);
  await untouched();
});

test('pid files are neither written nor removed through links of the app', { skip }, async (t) => {
  const { forkful, at, link, start, untouched } = await prepare(t);
  const script = at('app.cjs');
  writeFileSync(script, 'setInterval(() => {}, 1000);');
  for (const owner of ['root', 'bob']) {
    rmSync(at('ann/run'), { recursive: true });
    link(at(owner, 'run'), at('ann/run'));
    await start(script, { pid_file: at('ann/run/app.pid') });
    const told = () => readFileSync(join(forkful.home, 'daemon.log'), 'utf8');
    await waitUntil('the refusal to be told', () => /cannot write the pid file/.test(told()));
    // A file of this very number.
    await forkful.ok(['restart', 'app']);
    await forkful.ok(['delete', 'app']);
    await untouched();
  }
});

test('a FIFO or a link in place of what was set aside holds up no reader and shows nothing of others', { skip }, async (t) => {
  const { forkful, at, link, start, untouched } = await prepare(t);
  const script = at('app.cjs');
  writeFileSync(script, "console.log('hello'); setInterval(() => {}, 1000);");
  await start(script, { out_file: at('ann/logs/out.log') });
  await waitUntil('the line', () => readFileSync(at('ann/logs/out.log'), 'utf8') === 'hello\n');
  execFileSync('mkfifo', [at('ann/logs/out.log.20200101T000000.000Z'), at('ann/logs/out.log.20200102T000000.000Z.gz')]);
  link(at('root/passwd'), at('ann/logs/out.log.20200103T000000.000Z'));
  const shown = await forkful.ok(['logs', 'app', '--nostream', '--raw', '--lines', '1000']);
  assert.match(shown.stdout, /^hello$/m);
  assert.doesNotMatch(shown.stdout, /passwd of root/);
  rmSync(at('ann/logs/out.log'));
  link(at('root/passwd'), at('ann/logs/out.log'));
  assert.doesNotMatch((await forkful.ok(['logs', 'app', '--nostream'])).stdout, /passwd of root/);
  await forkful.run(['flush', 'app']);
  await untouched();
});

test("an environment file that has become a link gives the app no variable of the other user's or root's file", { skip }, async (t) => {
  const { forkful, at, link, start } = await prepare(t);
  const script = at('app.cjs');
  writeFileSync(script, 'setInterval(() => {}, 1000);');
  const file = at('ann/conf/.env');
  /** A file that its owner alone can read. */
  const secret = (owner, uid, name, text) => {
    mkdirSync(at('secrets', owner), { recursive: true });
    const path = at('secrets', owner, name);
    writeFileSync(path, text, { mode: 0o600 });
    for (const one of [at('secrets', owner), path]) chownSync(one, uid, uid);
    return path;
  };
  const own = () => {
    rmSync(at('ann/conf'), { recursive: true, force: true });
    mkdirSync(at('ann/conf'));
    writeFileSync(file, 'COLOUR=blue\n');
    for (const path of [at('ann/conf'), file]) chownSync(path, ANN, ANN);
  };
  const cases = [
    ["a link to Bob's file", () => { rmSync(file); link(secret('bob', BOB, '.env', 'STOLEN=of-bob\n'), file); }],
    ["a link to root's file, which is no environment file", () => { rmSync(file); link(secret('root', 0, 'shadow', 'of-root:$6$x:1:\n'), file); }],
    ["a link to Bob's folder", () => { rmSync(at('ann/conf'), { recursive: true }); link(at('secrets/bob'), at('ann/conf')); }],
  ];
  const worker = async () => readFileSync(`/proc/${(await forkful.jlist('app'))[0].pid}/environ`, 'latin1');
  for (const [what, attack] of cases) {
    own();
    await start(script, { env_file: file });
    assert.match(await worker(), /COLOUR=blue/, what);
    attack();
    // What root asks for reads the file again.
    const asked = await forkful.fails(['start', at('forkful.config.json')]);
    assert.match(asked.stderr, /\.env/, what);
    assert.doesNotMatch(await worker(), /STOLEN|of-root/, what);
    await forkful.killDaemon();
    const { stdout, stderr } = await forkful.fails(['resurrect']);
    assert.match(stderr, /app: its environment file .*\.env cannot be read/, what);
    assert.doesNotMatch(stdout + stderr + asked.stderr, /of-bob|of-root/, what);
    assert.deepEqual((await forkful.jlist()).map(({ name }) => name), ['bobs'], what);
    own();
    await forkful.ok(['resurrect']);
    assert.match(await worker(), /COLOUR=blue/, what);
    await forkful.ok(['delete', 'app']);
  }
});

/** A socket that nobody listens on, as a program leaves it that was killed. */
function leaveSocket(path, uid) {
  const program = "require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))";
  assert.equal(spawnSync(nodeBinary(NEWEST), ['-e', program, path], { stdio: 'inherit' }).signal, 'SIGKILL');
  chownSync(path, uid, uid);
}

test('for an app, the daemon makes no unix socket where its user may make none, and removes none there', { skip }, async (t) => {
  const { forkful, at, link, start, others } = await prepare(t);
  for (const [owner, uid] of [['root', 0], ['bob', BOB]]) {
    for (const name of ['stale.sock', 'app.sock']) leaveSocket(at(owner, 'run', name), uid);
  }
  const before = others();
  link(at('bob/run'), at('ann/away'));
  const script = at('app.cjs');
  writeFileSync(script, `
    const ask = (path) => new Promise((resolve) => {
      const server = require('net').createServer();
      server.on('error', ({ code }) => resolve(code)).listen(path, () => resolve('listens'));
    });
    (async () => {
      const outcomes = {};
      for (const path of JSON.parse(process.env.TARGETS)) outcomes[path] = await ask(path);
      require('fs').writeFileSync('draft', JSON.stringify(outcomes));
      require('fs').renameSync('draft', 'asked');
      await ask(process.env.OWN);
    })();
  `);
  const folders = ['root/run', 'bob/run', 'ann/away'];
  const targets = [...folders.flatMap((folder) => ['new.sock', 'stale.sock'].map((name) => at(folder, name))), at('bob/passwd')];
  await start(script, { exec_mode: 'cluster', env: { TARGETS: JSON.stringify(targets), OWN: at('ann/run/app.sock') } });
  const outcomes = JSON.parse(await waitUntil('the attempts', () => readFileSync(at('ann/asked'), 'utf8')));
  assert.deepEqual(Object.keys(outcomes), targets);
  for (const [path, outcome] of Object.entries(outcomes)) assert.match(outcome, /^(EACCES|EADDRINUSE)$/, path);
  await waitUntil('a socket of its own', () => lstatSync(at('ann/run/app.sock')).uid === ANN);
  assert.deepEqual(others(), before);

  // What a killed daemon has left is removed by the next one, and only where it was left.
  for (const owner of ['bob', 'root']) {
    await forkful.killDaemon();
    rmSync(at('ann/run'), { recursive: true });
    link(at(owner, 'run'), at('ann/run'));
    await forkful.run(['resurrect']);
    assert.deepEqual(others(), before, owner);
    await forkful.run(['delete', 'app']);
    rmSync(at('ann/run'));
    mkdirSync(at('ann/run'));
    chownSync(at('ann/run'), ANN, ANN);
    rmSync(at('ann/asked'));
    await start(script, { exec_mode: 'cluster', env: { TARGETS: '[]', OWN: at('ann/run/app.sock') } });
    await waitUntil('a socket of its own', () => lstatSync(at('ann/run/app.sock')).uid === ANN);
  }
});
