'use strict';
// Results in the shapes that callers of PM2 know.

/** What `start` gives: in cluster mode users read `process.pid`, in fork mode `pid` too. */
function started(entry) {
  return { pid: entry.pid, name: entry.name, pm_id: entry.pm_id, process: { pid: entry.pid }, pm2_env: entry.pm2_env, monit: entry.monit };
}

/** What `stop`, `restart`, `reload` and `delete` give. @param {object} [over] what is so now */
function acted({ name, pm_id, pm2_env: env }, over = {}) {
  const { namespace, status, restart_time, env: variables } = { ...env, ...over };
  const head = { name, namespace, pm_id, status, restart_time };
  return { ...head, pm2_env: { ...head, env: variables } };
}

/** Whether a target of PM2's means a worker: an id, a name, a namespace, `all`, a pattern, or a script. */
function meaning(target) {
  const text = String(target);
  if (text === 'all') return () => true;
  const pattern = /^\/(.+)\/([a-z]*)$/.exec(text);
  if (pattern) {
    const expression = new RegExp(pattern[1], pattern[2]);
    return ({ name }) => expression.test(name);
  }
  return ({ name, pm_id, pm2_env: env }) =>
    name === text || String(pm_id) === text || env.namespace === text || env.pm_exec_path === text;
}

module.exports = { acted, meaning, started };
