export default {
  apps: [{
    name: 'socket-io',
    script: 'server.js',
    instances: 'max',
    // A client that begins with long polling needs the same worker for each request: the kernel chooses by its address. Behind a
    // reverse proxy all clients have one address: leave this line out, and let the clients use `transports: ['websocket']`.
    balance: 'sticky',
    env: { NODE_ENV: 'production', PORT: process.env.PORT ?? '3000', REDIS_URL: process.env.REDIS_URL ?? '' },
    health: '/healthz',
    // At a reload, WebSockets are closed one after the other within nine tenths of this time.
    drain_timeout: process.env.DRAIN_TIMEOUT ?? '30s',
    kill_timeout: '10s',
  }],
};
