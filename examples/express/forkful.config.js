export default {
  apps: [{
    name: 'express',
    script: 'server.js',
    instances: 'max',
    env: { NODE_ENV: 'production', PORT: process.env.PORT ?? '3000' },
    // Each worker is asked every 10 s; one that fails three times is replaced.
    health: '/healthz',
    // From the signal to SIGKILL: longer than the slowest request.
    kill_timeout: '10s',
  }],
};
