// The same routes as server.cjs under Express, for the reload benchmark.
'use strict';

const { appendFileSync } = require('node:fs');
const express = require('express');

const workerId = `${process.pid}.0`;
const app = express();
app.disable('x-powered-by');
app.get('/', (_request, response) => response.type('text').send('hello, world\n'));
app.get('/fast', (_request, response) => response.type('text').send(`fast ${workerId}\n`));
app.get('/pid', (_request, response) => response.type('text').send(workerId));
app.get('/slow', (request, response) => {
  const ms = Math.min(Number(request.query.ms ?? 0) || 0, 10_000);
  setTimeout(() => response.type('text').send(`slow ${workerId}\n`), ms);
});

app.listen(Number(process.env.PORT ?? 3000), () => {
  const log = process.env.BENCH_LISTEN_LOG;
  if (log) appendFileSync(log, `${workerId} ${process.hrtime.bigint()}\n`);
});
