const { PORT = '3000', QUEUE = 'mail', REDIS_URL = 'redis://127.0.0.1:6379' } = process.env;
const env = { NODE_ENV: 'production', QUEUE, REDIS_URL };

export default {
  apps: [
    {
      name: 'mail-api',
      script: 'api.js',
      instances: 'max',
      env: { ...env, PORT },
      health: '/healthz',
    },
    {
      name: 'mail-worker',
      script: 'worker.js',
      instances: 2,
      env,
      // At a reload, the new worker says that it is connected to Redis before the old one is told to end.
      wait_ready: true,
      listen_timeout: '30s',
      // From the signal to SIGKILL: longer than the longest job. A job that is killed is done again, by another worker.
      kill_timeout: '60s',
    },
  ],
};
