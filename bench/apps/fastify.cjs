// Fastify's hello world. Its package is one of examples/ (`npm ci --prefix examples`).
'use strict';

const { appendFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const path = require('node:path');

const fastify = createRequire(path.join(__dirname, '../../examples/package.json'))('fastify')();

const workerId = `${process.pid}.0`;
fastify.get('/', async () => ({ hello: 'world' }));
fastify.get('/pid', async () => workerId);
fastify.listen({ port: Number(process.env.PORT), host: '127.0.0.1' }, (error) => {
  if (error) throw error;
  if (process.env.BENCH_LISTEN_LOG) appendFileSync(process.env.BENCH_LISTEN_LOG, `${workerId} ${process.hrtime.bigint()}\n`);
});
