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

/** Whether a PM2 target matches a worker: an id, a name, a namespace, `all`, a pattern, or a script. */
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
