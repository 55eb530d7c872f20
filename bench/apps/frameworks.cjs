// Express, Fastify and socket.io in one process, as a larger app has them: a start that is mostly compiling. Their packages are
// those of examples/ (`npm ci --prefix examples`).
'use strict';

const { appendFileSync } = require('node:fs');
const { createRequire } = require('node:module');
const http = require('node:http');
const path = require('node:path');

const load = createRequire(path.join(__dirname, '../../examples/package.json'));
const express = load('express');
const fastify = load('fastify')();
const { Server } = load('socket.io');

const workerId = `${process.pid}.0`;
const app = express();
app.get('/pid', (_request, response) => response.type('text').send(workerId));
fastify.get('/fast', async () => `fast ${workerId}\n`);
const server = http.createServer(app);
new Server(server);

fastify.ready(() => {
  server.listen(Number(process.env.PORT ?? 3000), () => {
    const log = process.env.BENCH_LISTEN_LOG;
    if (log) appendFileSync(log, `${workerId} ${process.hrtime.bigint()}\n`);
  });
});
