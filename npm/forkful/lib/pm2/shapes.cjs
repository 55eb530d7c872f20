'use strict';
// Converts results to PM2's formats.

/** The result of `start`: in cluster mode users read `process.pid`, in fork mode also `pid`. */
function started(entry) {
  return { pid: entry.pid, name: entry.name, pm_id: entry.pm_id, process: { pid: entry.pid }, pm2_env: entry.pm2_env, monit: entry.monit };
}

/** The result of `stop`, `restart`, `reload` and `delete`. @param {object} [over] the current values */
function acted({ name, pm_id, pm2_env: env }, over = {}) {
  const { namespace, status, restart_time, env: variables } = { ...env, ...over };
  const head = { name, namespace, pm_id, status, restart_time };
  return { ...head, pm2_env: { ...head, env: variables } };
}

module.exports = { acted, started };
