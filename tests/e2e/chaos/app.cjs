// The app that the storms of `dev/chaos` go over. It says which requests it has begun, under the id that the client gave each: in a file
// that no crash can take back, and on stdout, whose lines the daemon writes to a log. With CHAOS_PLANT it makes mistakes that the ledger must find.
'use strict';

const { openSync, writeFileSync, writeSync } = require('fs');
const http = require('http');
const { join } = require('path');
const { WebSocketServer } = require('ws');

const { CHAOS_DIRECTORY, CHAOS_PLANT, PORT } = process.env;
/** More than the memory limit of a storm. */
const HOG_BYTES = 1.5 * 2 ** 30;
const HOG_STEP = 2 ** 24;
/** One request of so many is served wrongly, where a mistake is planted. */
const PLANT_EVERY = 50;

const executed = openSync(join(CHAOS_DIRECTORY, `executed-${process.pid}`), 'a');
let begun = 0;

/** Writes down that a request is executed; says which mistake to make with it. */
function begin(id) {
  begun += 1;
  const plant = begun % PLANT_EVERY === 0 ? CHAOS_PLANT : undefined;
  if (plant !== 'unlogged') console.log(`executed ${id} .`);
  if (plant !== 'unexecuted') writeSync(executed, `${id}\n`);
  if (plant === 'doubled') writeSync(executed, `${id}\n`);
  return plant;
}

const server = http.createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url, 'http://app');
  const id = pathname.slice(1);
  const plant = begin(id);
  const wait = Number(searchParams.get('wait') ?? 0);
  if (searchParams.has('exit') || searchParams.has('hog')) {
    const kept = [];
    writeSync(executed, `exit ${Date.now()} ${searchParams.has('hog') ? 'memory limit' : 'worker exits'}\n`);
    // The kernel is to kill this process, and not another one of the app.
    if (searchParams.has('hog')) writeFileSync('/proc/self/oom_score_adj', '1000');
    for (let taken = 0; searchParams.has('hog') && taken < HOG_BYTES; taken += HOG_STEP) kept.push(Buffer.alloc(HOG_STEP, 1));
    process.exit(1);
  }
  const blockedUntil = Date.now() + Number(searchParams.get('block') ?? 0);
  while (Date.now() < blockedUntil) { /* The event loop stands still. */ }
  const answer = () => {
    if (plant === 'lost') return response.destroy();
    const body = `${plant === 'mixed' ? 'another' : id} ${process.pid}`;
    response.setHeader('Content-Length', body.length).end(body);
  };
  if (wait > 0) setTimeout(answer, wait);
  else answer();
});

// A client that stands still for seconds would send its next request while the server closes the connection.
server.keepAliveTimeout = 0;

new WebSocketServer({ server }).on('connection', (socket) => {
  socket.on('error', () => {});
  socket.on('message', (message) => {
    const plant = begin(String(message));
    if (plant === 'lost') socket.terminate();
    else socket.send(`${message} ${process.pid}`);
  });
});

// As many apps do: what is in memory is written when the app is told to stop.
for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => {
    if (CHAOS_PLANT !== 'deaf') writeSync(executed, 'stop\n');
    server.close(() => process.exit(0));
  });
}
writeSync(executed, 'handles\n');

server.listen(Number(PORT));
