// The same as own.cjs for Bun: each process opens the port by itself. At a stop signal it answers what it has read.
import { appendFileSync } from 'node:fs';

const workerId = `${process.pid}.0`;
const BLOCK_MS_MAX = 5_000;

/** Burns the CPU of this process's event loop. */
function block(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

const server = globalThis.Bun.serve({
  port: Number(process.env.PORT ?? 3000),
  reusePort: true,
  fetch(request) {
    const url = new URL(request.url);
    if (url.pathname === '/block') block(Math.min(Number(url.searchParams.get('ms')) || 0, BLOCK_MS_MAX));
    return new Response(url.pathname === '/pid' ? workerId : `fast ${workerId}\n`);
  },
});
process.on('SIGINT', async () => {
  await server.stop();
  process.exit();
});
const log = process.env.BENCH_LISTEN_LOG;
if (log) appendFileSync(log, `${workerId} ${process.hrtime.bigint()}\n`);
