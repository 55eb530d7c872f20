// The apps of examples/ as arms: on Node.js 24, by forkful, with or without `-i`.

import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { prepareForkful } from './arms/forkful.mjs';
import { REPOSITORY } from './paths.mjs';
import { Server, freePort, waitUntil } from './server.mjs';
import { get } from './http.mjs';

const EXAMPLES = path.join(REPOSITORY, 'examples');
const NODE = path.join(REPOSITORY, 'tests/e2e/node_modules/node24/bin/node');
const NAME = 'bench';
const READY_MS_MAX = 60_000;
const SCRIPTS = {
  express: () => path.join(EXAMPLES, 'express/server.js'),
  nestjs: () => path.join(EXAMPLES, 'nestjs/dist/main.js'),
  nextjs: () => path.join(EXAMPLES, 'node_modules/next/dist/bin/next'),
};

/** The path that is requested from each example. */
export const PATHS = { express: '/', nestjs: '/', nextjs: '/api/hello' };

/** Builds the examples that need it, once. */
export function prepareExamples() {
  if (!existsSync(NODE)) throw new Error('Node.js 24 is missing: npm ci --prefix tests/e2e');
  if (!existsSync(path.join(EXAMPLES, 'node_modules/next'))) throw new Error('the packages of the examples are missing: npm ci --prefix examples');
  const env = { ...process.env, PATH: `${path.dirname(NODE)}:${process.env.PATH}`, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production' };
  for (const name of ['nestjs', 'nextjs']) execFileSync('npm', ['run', 'build'], { cwd: path.join(EXAMPLES, name), env, stdio: 'ignore' });
}

/**
 * Starts an example, gives it to `use`, and stops it whatever happens.
 * @param {{ example: string, workers: number | null, npm?: boolean, options?: string[] }} how `workers` null: one plain process; `npm`: by `npm start`
 * @template T
 * @param {(server: Server) => Promise<T>} use
 */
export async function withExample({ example, workers, npm = false, options = [] }, use) {
  const server = new Server(`example-${example}`, { app: SCRIPTS[example](), workers: workers ?? 1, node: NODE, env: { NEXT_TELEMETRY_DISABLED: '1' } });
  server.port = await freePort();
  try {
    prepareForkful(server);
    server.reload = (...more) => server.forkful('reload', NAME, ...more);
    server.forgive = () => server.forkful('reset', NAME);
    const what = npm ? ['npm'] : [server.app];
    const args = npm ? ['start'] : example === 'nextjs' ? ['start'] : [];
    const count = workers === null ? [] : ['-i', String(workers)];
    const folder = path.join(EXAMPLES, example);
    const { code, stdout, stderr } = await server.forkful('start', ...what, ...count, '--name', NAME, '--cwd', folder, '--listen-timeout', '60s', ...options, '--', ...args);
    if (code !== 0) throw new Error(`forkful start exited with ${code}\n${stdout}${stderr}`);
    await waitUntil('an answer', READY_MS_MAX, async () => (await get(server.port, '/healthz')).kind === 'ok');
    return await use(server);
  } finally {
    await server.stop();
  }
}

/** Reloads it; throws when that fails. @param {Server} server */
export async function reloaded(server) {
  const { code, stdout, stderr } = await server.reload();
  if (code !== 0) throw new Error(`reload exited with ${code}\n${stdout}${stderr}`);
}
