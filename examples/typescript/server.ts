// A server in TypeScript that Node.js runs as it is: Node.js 22.18 and later leaves the types out (22.6 with
// `--experimental-strip-types`). `npm run check` checks them.
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

import { greeting } from './greeting.ts';

const PORT: number = Number(process.env.PORT ?? 3000);

type Handler = (request: IncomingMessage) => object | Promise<object>;

const routes: Partial<Record<string, Handler>> = {
  '/': () => greeting(process.pid),
  // Reload or stop the app while this is under way: the answer comes all the same.
  '/slow': async () => {
    await sleep(1000);
    return greeting(process.pid);
  },
  '/healthz': () => ({ status: 'ok' }),
};

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const handler = routes[request.url ?? '/'];
  const body = JSON.stringify(handler ? await handler(request) : { error: 'not found' });
  response.writeHead(handler ? 200 : 404, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) });
  response.end(body);
}

const server: Server = createServer((request, response) => {
  answer(request, response).catch((error: unknown) => {
    console.error(error);
    response.destroy();
  });
});

server.listen(PORT, () => console.log(`listening on port ${PORT}`));

function shutdown(): void {
  server.close();
  server.closeIdleConnections();
}
process.once('SIGINT', shutdown);
process.once('SIGTERM', shutdown);
