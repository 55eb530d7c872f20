// An app whose processes each open the port by themselves (`reusePort`, Node.js 23.1 and later), with the routes that the benchmark needs.
'use strict';

const http = require('node:http');
const { appendFileSync } = require('node:fs');

const workerId = `${process.pid}.0`;
const BLOCK_MS_MAX = 5_000;

/** Burns the CPU of this worker's event loop. */
function block(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

const server = http.createServer((request, response) => {
  const url = new URL(request.url, 'http://localhost');
  if (url.pathname === '/block') block(Math.min(Number(url.searchParams.get('ms')) || 0, BLOCK_MS_MAX));
  response.end(url.pathname === '/pid' ? workerId : `fast ${workerId}\n`);
});

server.listen({ port: Number(process.env.PORT ?? 3000), reusePort: true }, () => {
  const log = process.env.BENCH_LISTEN_LOG;
  if (log) appendFileSync(log, `${workerId} ${process.hrtime.bigint()}\n`);
});
