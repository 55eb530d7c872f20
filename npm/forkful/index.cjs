'use strict';
// The package's API: functions for the daemon of `$FORKFUL_HOME`, and `connect` for other daemons.
const { binaryPath } = require('./lib/binary.cjs');
const { Client } = require('./lib/client.cjs');
const { ForkfulError } = require('./lib/errors.cjs');

/** The daemon of the current environment, which may change between calls. */
const own = () => new Client();

/** A client of a daemon, which is started if necessary. @param {{ home?: string, binary?: string, start?: boolean }} [options] */
async function connect({ start: mayStart = true, ...options } = {}) {
  const client = new Client(options);
  if (mayStart) await client.connect();
  else if ((await client.ping()) === null) throw new ForkfulError('NO_DAEMON', `no daemon is running in ${client.home}`);
  return client;
}

const remove = (targets, options) => own().delete(targets, options);

module.exports = {
  Client,
  ForkfulError,
  apply: (what, options) => own().apply(what, options),
  binaryPath,
  connect,
  delete: remove,
  describe: (target) => own().describe(target),
  environment: (target, options) => own().environment(target, options),
  events: (options) => own().events(options),
  flush: (targets) => own().flush(targets),
  incident: (id) => own().incident(id),
  incidents: (options) => own().incidents(options),
  jlist: (options) => own().jlist(options),
  kill: () => own().kill(),
  list: () => own().list(),
  logs: (options) => own().logs(options),
  ping: () => own().ping(),
  reload: (what, options) => own().reload(what, options),
  remove,
  reset: (targets) => own().reset(targets),
  restart: (what, options) => own().restart(what, options),
  scale: (target, instances, options) => own().scale(target, instances, options),
  send: (targets, message) => own().send(targets, message),
  signal: (targets, signal) => own().signal(targets, signal),
  start: (what, options) => own().start(what, options),
  stop: (targets, options) => own().stop(targets, options),
  trigger: (targets, action, params, options) => own().trigger(targets, action, params, options),
};
