'use strict';
// Everything that scripts do with apps, as they were written for PM2.
const pm2 = require('pm2');
const { call, tell, until } = require('./recorder.cjs');

const app = process.env.APP;

async function main() {
  await call(pm2, 'connect');
  await call(pm2, 'list');
  await call(pm2, 'start', { script: app, name: 'cl', instances: 2, exec_mode: 'cluster', env: { FOO: '1' } });
  await call(pm2, 'start', app, { name: 'fk', args: ['a', 'b'] });
  await call(pm2, 'start', app, { name: 'fk' });
  await call(pm2, 'start', '/nowhere/none.js');
  await until('all are online', async () => (await call(pm2, 'list')).result.every((worker) => worker.pm2_env.status === 'online'));
  await call(pm2, 'describe', 'cl');
  await call(pm2, 'describe', 0);
  await call(pm2, 'describe', 'nobody');
  await call(pm2, 'getProcessIdByName', 'cl');
  await call(pm2, 'getPID', 'fk');
  await call(pm2, 'restart', 'cl');
  await call(pm2, 'restart', 0);
  await call(pm2, 'reload', 'cl');
  await call(pm2, 'restart', 'nobody');
  await call(pm2, 'stop', 'fk');
  await call(pm2, 'stop', 'fk');
  await call(pm2, 'stop', 'nobody');
  await call(pm2, 'restart', 'fk');
  await call(pm2, 'restart', 'fk', { updateEnv: true });
  await call(pm2, 'start', 'fk');
  await call(pm2, 'stop', 'fk');
  await call(pm2, 'start', 'fk');
  await call(pm2, 'start', { script: app, name: 'cl', instances: 2, exec_mode: 'cluster', env: { FOO: '2' } });
  await call(pm2, 'start', { name: 'cl' });
  await call(pm2, 'sendSignalToProcessName', 'SIGUSR2', 'fk');
  await until('it is back', async () => (await call(pm2, 'describe', 'fk')).result[0].pm2_env.status === 'online');
  await call(pm2, 'scale', 'cl', 3);
  await call(pm2, 'reset', 'cl');
  await call(pm2, 'flush', 'cl');
  await call(pm2, 'getVersion');
  await call(pm2, 'ping');
  await call(pm2, 'delete', 'nobody');
  await call(pm2, 'delete', 'fk');
  await call(pm2, 'delete', 'all');
  await call(pm2, 'list');
  await call(pm2, 'stop', 'all');
  await call(pm2, 'dump');
  await call(pm2, 'killDaemon');
  pm2.disconnect();
  tell();
}

main();
