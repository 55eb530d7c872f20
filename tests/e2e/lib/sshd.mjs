// A real sshd on loopback, with separate keys, for this user only.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { userInfo } from 'node:os';
import { join } from 'node:path';

import { freePort } from './http.mjs';
import { waitUntil } from './wait.mjs';

/** `FORKFUL_SSHD`, or the system's; undefined on a machine without one. */
export const SSHD = [process.env.FORKFUL_SSHD, '/usr/sbin/sshd'].find((path) => path && existsSync(path));

/** Makes a key pair. @param {string} path */
export function makeKey(path) {
  const { status, stderr } = spawnSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path], { encoding: 'utf8' });
  if (status !== 0) throw new Error(`ssh-keygen: ${stderr}`);
}

/**
 * Starts it; its files are in `directory`. `login` has the settings for logging in from a configuration's `deploy` section.
 * @param {string} directory
 */
export async function startSshd(directory) {
  const port = await freePort();
  for (const key of ['host', 'user']) makeKey(join(directory, key));
  const options = {
    Port: port,
    ListenAddress: '127.0.0.1',
    HostKey: join(directory, 'host'),
    AuthorizedKeysFile: join(directory, 'user.pub'),
    StrictModes: 'no',
    UsePAM: 'no',
    PasswordAuthentication: 'no',
    PidFile: 'none',
  };
  const text = Object.entries(options).map(([name, value]) => `${name} ${value}\n`);
  const config = join(directory, 'sshd_config');
  writeFileSync(config, text.join(''));
  const server = spawn(/** @type {string} */ (SSHD), ['-D', '-e', '-f', config], { stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  server.stderr.setEncoding('utf8').on('data', (line) => { said += line; });
  await waitUntil('sshd listens or has ended', () => server.exitCode !== null || new Promise((resolve, reject) => {
    const socket = net.connect(port, '127.0.0.1', () => resolve(socket.destroy() !== undefined));
    socket.once('error', reject);
  }));
  if (server.exitCode !== null) throw new Error(`sshd has ended: ${said}`);
  const login = {
    user: userInfo().username,
    port,
    key: join(directory, 'user'),
    ssh_options: ['StrictHostKeyChecking=no', `UserKnownHostsFile=${join(directory, 'known_hosts')}`],
  };
  return { login, said: () => said, stop: () => server.kill() };
}
