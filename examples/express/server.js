// An Express app with what a server in production needs: a health check, and a shutdown that finishes open requests.
import { setTimeout as sleep } from 'node:timers/promises';

import express from 'express';

const PORT = Number(process.env.PORT ?? 3000);

const app = express();
app.disable('x-powered-by');

app.get('/', (_request, response) => {
  response.json({ message: 'Hello from Express', pid: process.pid });
});

// Reload or stop the app while this is under way: the answer comes all the same.
app.get('/slow', async (_request, response) => {
  await sleep(1000);
  response.json({ message: 'That took a second', pid: process.pid });
});

app.get('/healthz', (_request, response) => {
  response.json({ status: 'ok' });
});

const server = app.listen(PORT, (error) => {
  if (error) throw error;
  console.log(`listening on port ${PORT}`);
});

// Close here what else keeps the process alive, such as the pool of a database.
function shutdown() {
  server.close();
  server.closeIdleConnections();
}
process.once('SIGINT', shutdown);
process.once('SIGTERM', shutdown);
