// Node's own cluster module as in its documentation: fork N workers, replace workers that exit.
// Usage: node node-cluster.cjs <app> <workers> <rr|none>
'use strict';

const cluster = require('node:cluster');
const path = require('node:path');

const [app, workers, policy] = process.argv.slice(2);
cluster.schedulingPolicy = policy === 'none' ? cluster.SCHED_NONE : cluster.SCHED_RR;
cluster.setupPrimary({ exec: path.resolve(app), args: [] });

let stopping = false;
for (let i = 0; i < Number(workers); i += 1) cluster.fork();

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
