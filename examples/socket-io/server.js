// A chat on socket.io with several workers. REDIS_URL names a Redis by which a message reaches the clients of all workers;
// without it, only those of the worker that got it.
import { readFile } from 'node:fs/promises';
import http from 'node:http';

import { createAdapter } from '@socket.io/redis-adapter';
import { Redis } from 'ioredis';
import { Server } from 'socket.io';

const PORT = Number(process.env.PORT ?? 3000);
const { REDIS_URL } = process.env;

const page = await readFile(new URL('public/index.html', import.meta.url));

const server = http.createServer((request, response) => {
  if (request.url === '/healthz') {
    const body = JSON.stringify({ status: 'ok', clients: io.engine.clientsCount });
    response.setHeader('Content-Type', 'application/json').end(body);
  } else if (request.url === '/') {
    response.setHeader('Content-Type', 'text/html; charset=utf-8').end(page);
  } else {
    response.writeHead(404).end('not found\n');
  }
});

const io = new Server(server);
const redis = REDIS_URL ? [new Redis(REDIS_URL), new Redis(REDIS_URL)] : [];
if (REDIS_URL) io.adapter(createAdapter(redis[0], redis[1]));
else console.warn('REDIS_URL is not set: messages stay within a worker');

io.on('connection', (socket) => {
  socket.emit('welcome', { worker: process.pid });
  // The client sends a message again until it is acknowledged: a reload loses none.
  socket.on('message', (text, acknowledge) => {
    io.emit('message', { text: String(text).slice(0, 500), worker: process.pid });
    acknowledge?.();
  });
});

server.listen(PORT, () => console.log(`listening on port ${PORT}`));

// Closes the connections and the server; clients connect again by themselves, to another worker.
async function shutdown() {
  // A client that does not answer holds nobody up.
  setTimeout(() => process.exit(0), 5000).unref();
  await io.close();
  for (const connection of redis) connection.disconnect();
}
process.once('SIGINT', shutdown);
process.once('SIGTERM', shutdown);
