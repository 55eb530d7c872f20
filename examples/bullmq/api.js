// Takes orders by HTTP and puts them into a queue; worker.js does them.
import express from 'express';

import { openQueue } from './queue.js';

const PORT = Number(process.env.PORT ?? 3000);
const queue = openQueue();
await queue.waitUntilReady();

const app = express();
app.disable('x-powered-by');
app.use(express.json({ limit: '10kb' }));

app.post('/mails', async (request, response) => {
  const job = await queue.add('send', { to: String(request.body?.to ?? '') });
  response.status(202).json({ id: job.id });
});

app.get('/mails', async (_request, response) => {
  response.json(await queue.getJobCounts('waiting', 'active', 'delayed', 'completed', 'failed'));
});

app.get('/healthz', (_request, response) => {
  response.json({ status: 'ok' });
});

const server = app.listen(PORT, (error) => {
  if (error) throw error;
  console.log(`listening on port ${PORT}`);
});

function shutdown() {
  server.close(() => queue.close());
  server.closeIdleConnections();
}
process.once('SIGINT', shutdown);
process.once('SIGTERM', shutdown);
