// A separate Redis for a test, which stores nothing.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { tmpdir } from 'node:os';

import { freePort } from './http.mjs';
import { sandbox } from './sandbox.mjs';
import { waitUntil } from './wait.mjs';

/** A sandbox, and the environment by which apps find its Redis. @param {import('node:test').TestContext} t */
export async function withRedis(t) {
  const forkful = await sandbox(t, 24);
  const port = await freePort();
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no'];
  const server = spawn('redis-server', args, { cwd: tmpdir(), stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(server, 'exit');
  // The apps have ended before, with the sandbox.
  t.after(async () => {
    server.kill('SIGKILL');
    await ended;
  });
  let log = '';
  server.stdout.setEncoding('utf8').on('data', (text) => { log += text; });
  await waitUntil('Redis', () => log.includes('Ready to accept connections'));
  return { forkful, env: { REDIS_URL: `redis://127.0.0.1:${port}` } };
}
