// Node's own cluster module, as people write it: fork N workers, replace those that die.
// Arguments: the app, the number of workers, a file to make when all of them listen, then the app's arguments.
'use strict';

const cluster = require('node:cluster');
const { writeFileSync } = require('node:fs');

const [app, workers, readyFile, ...args] = process.argv.slice(2);
cluster.setupPrimary({ exec: app, args });

const listening = new Set();
let stopping = false;
for (let i = 0; i < Number(workers); i += 1) cluster.fork();

cluster.on('listening', (worker) => {
  listening.add(worker.id);
  if (listening.size === Number(workers)) writeFileSync(readyFile, '');
});
cluster.on('exit', () => {
  if (!stopping) cluster.fork();
  else if (Object.keys(cluster.workers).length === 0) process.exit(0);
});

function stop() {
  stopping = true;
  for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM');
}
process.on('SIGTERM', stop);
process.on('SIGINT', stop);
