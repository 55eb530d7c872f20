export default {
  apps: [{
    name: 'nestjs',
    script: 'dist/main.js',
    instances: 'max',
    env: { NODE_ENV: 'production', PORT: process.env.PORT ?? '3000' },
    // Every 10 s each worker gets a health check. A worker that fails three checks in a row is replaced.
    health: '/healthz',
    // A new worker compiles its code with these requests, before it has traffic.
    warmup: '/',
    listen_timeout: '30s',
    // From the signal to SIGKILL: longer than the slowest request.
    kill_timeout: '10s',
  }],
};
