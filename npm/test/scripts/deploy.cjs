'use strict';
// The script that most projects have: start what is new, reload what is there, and leave.
const pm2 = require('pm2');
const { tell } = require('./recorder.cjs');

const steps = [];

pm2.connect((connectError) => {
  if (connectError) throw connectError;
  pm2.list((listError, list) => {
    if (listError) throw listError;
    const verb = list.some((worker) => worker.name === 'web') ? 'reload' : 'start';
    pm2[verb](verb === 'reload' ? 'web' : { script: process.env.APP, name: 'web', instances: 2, exec_mode: 'cluster' }, (error, workers) => {
      if (error) throw error;
      steps.push([verb, workers.length]);
      pm2.describe('web', (_error, described) => {
        steps.push(described.map((worker) => [worker.name, worker.pm2_env.status, worker.pid > 0, worker.pm2_env.exec_mode]));
        pm2.disconnect();
        tell({ steps });
      });
    });
  });
});
