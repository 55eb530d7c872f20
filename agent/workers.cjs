// The workers of an app's own cluster, which drain with their primary: a process that `cluster.fork` was called in, and whose sockets the daemon
// lends. A part of the agent, which loads it only there; agent.cjs has the rules, README.md the protocol.
'use strict';

/** The `cmd` of messages between agents, as between agent and daemon. */
const COMMAND = 'NODE_FORKFUL';

/** Whether this process has workers of its own. Elsewhere Node's module would take milliseconds to load. */
function hasWorkers() {
  if (!process.moduleLoadList?.includes('NativeModule internal/cluster/primary')) return false;
  return Object.keys(require('cluster').workers ?? {}).length > 0;
}

/**
 * Calls `begin` when the app sets up a cluster of its own, before its first worker, if the workers share their sockets (`SCHED_NONE`). Node.js
 * begins to listen for messages of its parent then, and has read `cluster.schedulingPolicy` for the last time.
 * @param {() => void} begin
 */
function whenShared(begin) {
  const onListener = (name) => {
    if (name !== 'internalMessage' || !process.moduleLoadList?.includes('NativeModule internal/cluster/primary')) return;
    const cluster = require('cluster');
    // This listener is not that of Node's cluster: the app may still set the policy.
    if (cluster.settings?.exec === undefined) return;
    process.removeListener('newListener', onListener);
    if (cluster.schedulingPolicy === cluster.SCHED_NONE) begin();
  };
  process.on('newListener', onListener);
}

/** The drain of all workers. */
class OwnWorkers {
  /** @param {import('./agent.cjs').Agent} agent */
  constructor(agent) {
    this.agent = agent;
    /** Workers that have not drained. @type {Set<any>} */
    this.busy = new Set();
  }

  /**
   * @param {number} graceMs how long idle connections may still be used, and the wait for workers without the agent
   * @param {unknown} withinMs how long it may take, if that is known
   */
  drain(graceMs, withinMs) {
    if (!hasWorkers()) return;
    for (const worker of Object.values(require('cluster').workers)) this.ask(worker, graceMs, withinMs);
  }

  /**
   * Has all workers close these ports and unix sockets to new connections.
   * @param {string[]} places
   */
  stopListening(places) {
    if (places.length === 0 || !hasWorkers()) return;
    const message = { cmd: COMMAND, act: 'drain', closes: places };
    for (const { process: child } of Object.values(require('cluster').workers)) if (child.connected) child.send(message, () => {});
  }

  ask(worker, graceMs, withinMs) {
    const { guarded, timer } = this.agent;
    const child = worker.process;
    if (!child.connected) return;
    let hasAgent = false;
    const over = guarded(() => this.busy.delete(worker));
    child.on('internalMessage', guarded((message) => {
      if (message?.cmd !== COMMAND) return;
      if (message.act === 'echo') hasAgent = true;
      if (message.act === 'drained') over();
    }));
    child.once('exit', over).once('disconnect', over);
    this.busy.add(worker);
    timer(() => { if (!hasAgent) over(); }, graceMs).unref();
    const send = (message) => child.send({ cmd: COMMAND, ...message }, guarded((error) => { if (error) over(); }));
    send({ act: 'echo' });
    send({ act: 'drain', grace_ms: graceMs, within_ms: withinMs });
  }
}

module.exports = { OwnWorkers, hasWorkers, whenShared };
