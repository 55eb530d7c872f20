export default {
  apps: [{
    name: 'nestjs',
    script: 'dist/main.js',
    instances: 'max',
    env: { NODE_ENV: 'production', PORT: process.env.PORT ?? '3000' },
    // Each worker is asked every 10 s; one that fails three times is replaced.
    health: '/healthz',
    // A new worker compiles its code with these requests, before it has traffic.
    warmup: '/',
    listen_timeout: '30s',
    // From the signal to SIGKILL: longer than the slowest request.
    kill_timeout: '10s',
  }],
};
