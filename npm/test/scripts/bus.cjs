'use strict';
// Events and messages, as scripts for PM2 use them.
const pm2 = require('pm2');
const { call, tell, until } = require('./recorder.cjs');

const app = process.env.APP;

async function main() {
  const events = [];
  const named = { out: [], steps: [], wild: [], once: 0 };
  await call(pm2, 'connect');
  const { bus, socket } = await new Promise((resolve, reject) => {
    pm2.launchBus((error, opened, sock) => (error ? reject(error) : resolve({ bus: opened, socket: sock })));
  });
  bus.on('*', (event, data) => events.push({ event, data }));
  bus.on('log:out', (packet) => named.out.push(packet.data));
  bus.on('log:*', (kind, packet) => named.wild.push([kind, typeof packet]));
  bus.on('process:event', (packet) => named.steps.push([packet.process.name, packet.event, packet.manually]));
  const has = (name, match) => until(name, () => events.some(({ event, data }) => event === name && match(data)));

  await call(pm2, 'start', { script: app, name: 'api' });
  await has('log:out', ({ data }) => data === 'listening\n');
  const { result: [{ pm_id: id }] } = await call(pm2, 'list');
  await call(pm2, 'sendDataToProcessId', id, { type: 'process:msg', topic: 'echo', data: { x: 1 } });
  await has('process:msg', ({ data }) => data?.echo?.x === 1);
  await call(pm2, 'sendDataToProcessId', { id, type: 'process:msg', topic: 'typed', data: { y: 2 } });
  await has('custom:type', ({ data }) => data?.y === 2);
  await call(pm2, 'sendDataToProcessId', id, { type: 'process:msg', topic: 'plain', data: { z: 3 } });
  await has('process:msg', ({ raw }) => raw?.plain?.z === 3);
  await call(pm2, 'sendDataToProcessId', 999, { type: 'process:msg', topic: 'plain', data: {} });
  await call(pm2, 'stop', 'api');
  await has('process:event', ({ event }) => event === 'stop');
  await call(pm2, 'restart', 'api');
  await has('process:event', ({ event }) => event === 'restart');
  await call(pm2, 'delete', 'api');
  await has('process:event', ({ event }) => event === 'exit');
  await call(pm2, 'killDaemon');
  await has('pm2:kill', () => true);
  pm2.disconnect();
  const firsts = {};
  for (const { event, data } of events) firsts[event === 'process:msg' ? `${event} ${'raw' in data ? 'raw' : 'data'}` : event] ??= data;
  tell({ firsts, named, methods: ['on', 'off', 'close'].map((name) => typeof bus[name]), socket: typeof socket?.on });
}

main();
