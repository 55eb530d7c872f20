// A Fastify app with a schema, a health check, and a shutdown that finishes open requests.
import { setTimeout as sleep } from 'node:timers/promises';

import fastify from 'fastify';

const PORT = Number(process.env.PORT ?? 3000);

const app = fastify({
  logger: { level: process.env.LOG_LEVEL ?? 'warn' },
  // While it closes, Fastify answers kept connections with 503 by default. The requests were sent before: answer them.
  return503OnClosing: false,
});

const answer = {
  type: 'object',
  properties: { message: { type: 'string' }, pid: { type: 'integer' } },
};

app.get('/', { schema: { response: { 200: answer } } }, async () => ({ message: 'Hello from Fastify', pid: process.pid }));

// Reload or stop the app while this is under way: the answer comes all the same.
app.get('/slow', { schema: { response: { 200: answer } } }, async () => {
  await sleep(1000);
  return { message: 'That took a second', pid: process.pid };
});

app.get('/healthz', async () => ({ status: 'ok' }));

// Runs at `close`, after the last request: the place for the pool of a database.
app.addHook('onClose', async () => app.log.info('closed'));

await app.listen({ port: PORT, host: '0.0.0.0' });

for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => app.close());
