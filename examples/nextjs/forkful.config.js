import { createRequire } from 'node:module';

const { resolve } = createRequire(import.meta.url);

export default {
  apps: [{
    name: 'nextjs',
    // `next start` itself instead of `npm start`: several workers share a port when Forkful starts the script that listens.
    script: resolve('next/dist/bin/next'),
    args: ['start'],
    instances: 'max',
    env: { NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1', PORT: process.env.PORT ?? '3000' },
    // Every 10 s each worker gets a health check. A worker that fails three checks in a row is replaced.
    health: '/healthz',
    // A new worker loads and compiles its pages with these requests, before it has traffic.
    warmup: ['/', '/api/hello'],
    listen_timeout: '30s',
    // From the signal to SIGKILL: longer than the slowest request.
    kill_timeout: '10s',
  }],
};
