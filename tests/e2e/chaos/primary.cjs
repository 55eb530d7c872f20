// A primary of Node's cluster module as people write it: it forks a worker for each that ends, replaces all one by one on
// `reload`, and has as many as `scale` says. Each worker leaves by `disconnect`.
'use strict';

const cluster = require('cluster');

let wanted = Number(process.env.INSTANCES);
cluster.setupPrimary({ exec: process.env.APP });

const online = new Set();
const tell = () => process.send({ workers: [...online].map((worker) => worker.process.pid) });

cluster.on('listening', (worker) => {
  online.add(worker);
  tell();
});
cluster.on('exit', (worker) => {
  online.delete(worker);
  tell();
  if (!worker.exitedAfterDisconnect && Object.keys(cluster.workers).length < wanted) cluster.fork();
});

/** Lets a worker finish what it has, and gives it 5 s for that. */
function leave(worker) {
  return new Promise((resolve) => {
    const late = setTimeout(() => worker.process.kill('SIGKILL'), 5000);
    worker.once('exit', () => {
      clearTimeout(late);
      resolve();
    });
    worker.disconnect();
  });
}

const start = () => new Promise((resolve) => { cluster.fork().once('listening', resolve); });

process.on('message', async ({ reload, scale }) => {
  if (reload) {
    for (const worker of Object.values(cluster.workers)) {
      await start();
      if (!worker.isDead()) await leave(worker);
    }
  }
  if (scale !== undefined) {
    wanted = scale;
    while (Object.keys(cluster.workers).length < wanted) await start();
    await Promise.all(Object.values(cluster.workers).slice(wanted).map(leave));
  }
  process.send({ reply: true });
});
process.on('disconnect', () => process.exit());

for (let worker = 0; worker < wanted; worker += 1) cluster.fork();
