export default {
  apps: [{
    name: 'typescript',
    script: 'server.ts',
    instances: 'max',
    env: { NODE_ENV: 'production', PORT: process.env.PORT ?? '3000' },
    health: '/healthz',
    kill_timeout: '10s',
  }],
};
