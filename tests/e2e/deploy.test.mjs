// Deployments through the system's ssh and a real sshd on loopback, with separate keys. The sshd is
// FORKFUL_SSHD, or the system's; without one the tests are skipped with a message.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';

import { binary } from './lib/sandbox.mjs';
import { SSHD, makeKey, startSshd } from './lib/sshd.mjs';

/**
 * Runs a program to its end, without a time limit: a dozen of logins take long on a busy machine.
 * @param {string} program
 * @param {string[]} args
 * @param {string} cwd
 * @param {Record<string, string>} env
 */
function run(program, args, cwd, env = {}) {
  const outcome = spawnSync(program, args, { cwd, env: { ...process.env, ...env }, encoding: 'utf8' });
  return { code: outcome.status, stdout: outcome.stdout, stderr: outcome.stderr };
}

describe('deploy over ssh', { skip: SSHD ? false : 'there is no sshd on this machine' }, () => {
  const directory = mkdtempSync(join(tmpdir(), 'forkful-deploy-'));
  const app = join(directory, 'app');
  /** @type {Awaited<ReturnType<typeof startSshd>>} */
  let server;

  /** @param {string[]} args */
  const git = (...args) => {
    const named = ['-c', 'user.name=Ann', '-c', 'user.email=ann@example.com', ...args];
    const outcome = run('git', named, app, { HOME: directory });
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome.stdout.trim();
  };

  /** @param {string} version */
  const publish = (version) => {
    writeFileSync(join(app, 'version'), version);
    git('add', '.');
    git('commit', '--quiet', '-m', version);
    git('push', '--quiet', 'origin', 'HEAD:main');
    git('branch', '--quiet', '--set-upstream-to=origin/main');
  };

  /** @param {string[]} args */
  const deploy = (...args) =>
    run(binary(), ['deploy', ...args], app, { HOME: directory, FORKFUL_HOME: join(directory, 'home') });

  before(async () => {
    server = await startSshd(directory);
    mkdirSync(app);
    run('git', ['init', '--quiet', '--bare', '--initial-branch=main', 'origin.git'], directory);
    git('init', '--quiet', '--initial-branch=main');
    git('remote', 'add', 'origin', join(directory, 'origin.git'));
    const live = {
      host: ['127.0.0.1', 'localhost'],
      ...server.login,
      repo: join(directory, 'origin.git'),
      ref: 'origin/main',
      path: join(directory, 'there'),
      'post-deploy': 'echo "brought $(cat version) with $SAYING"; test "$(cat version)" != broken',
      env: { SAYING: "it's \"quoted\" $HOME" },
      rollback: true,
    };
    const one = { ...live, host: '127.0.0.1' };
    const config = { apps: [{ script: 'app.js' }], deploy: { live: one, both: { ...live, path: `${directory}/both` } } };
    writeFileSync(join(app, 'forkful.config.json'), JSON.stringify(config));
    publish('one');
  });

  after(() => {
    server?.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  it('sets up, brings a version, and takes it back', () => {
    const setup = deploy('live', 'setup');
    assert.equal(setup.code, 0, setup.stderr);
    const first = deploy('live');
    assert.equal(first.code, 0, first.stderr);
    assert.match(first.stdout, /^brought one with it's "quoted" \$HOME$/m);
    publish('two');
    assert.equal(deploy('live').code, 0);
    const current = () => readFileSync(join(directory, 'there/current/version'), 'utf8');
    assert.equal(current(), 'two');
    publish('broken');
    const broken = deploy('live');
    assert.equal(broken.code, 1);
    assert.match(broken.stderr, /was not deployed: post-deploy failed; back at [0-9a-f]+ two/);
    assert.equal(current(), 'two');
    assert.equal(deploy('live', 'revert').code, 0);
    assert.equal(current(), 'one');
    assert.equal(deploy('live', 'exec', 'exit 7').code, 1);
  });

  it('shows no secret in the arguments of any process, on either side', () => {
    const secret = 'only-for-the-app-4711';
    const text = readFileSync(join(app, 'forkful.config.json'), 'utf8');
    const config = JSON.parse(text);
    const look = 'for f in /proc/[0-9]*/cmdline; do tr "\\0" " " < "$f" || true; echo; done 2>/dev/null';
    config.deploy.live = { ...config.deploy.live, env: { SECRET: secret }, 'post-deploy': `echo "length \${#SECRET}"; ${look}` };
    const file = join(directory, 'secret.config.json');
    writeFileSync(file, JSON.stringify(config));
    const outcome = deploy(file, 'live');
    assert.equal(outcome.code, 0, outcome.stderr);
    assert.match(outcome.stdout, new RegExp(`^length ${secret.length}$`, 'm'));
    assert.match(outcome.stdout, /^ssh .*127\.0\.0\.1/m);
    assert.ok(!outcome.stdout.includes(secret), outcome.stdout);
  });

  it('tells of each host what became of it', () => {
    // Both names are this machine, so only one of them can be the first to set up.
    const outcome = deploy('both', 'setup');
    assert.equal(outcome.code, 1);
    assert.match(outcome.stderr, /1 of 2 hosts failed|2 of 2 hosts failed/);
    assert.match(outcome.stderr, /^(127\.0\.0\.1|localhost): /m);
  });

  it('says that nobody can log in with another key', () => {
    const key = join(directory, 'other');
    makeKey(key);
    const text = readFileSync(join(app, 'forkful.config.json'), 'utf8').replaceAll(join(directory, 'user"'), `${key}"`);
    writeFileSync(join(directory, 'other.config.json'), text);
    const outcome = deploy(join(directory, 'other.config.json'), 'live', 'curr');
    assert.equal(outcome.code, 1);
    assert.match(outcome.stderr, /ssh could not connect or log in: .*Permission denied/);
  });
});
