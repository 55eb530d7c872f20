// The same as index.cjs, for `import`.
import forkful from './index.cjs';

export const {
  Client, ForkfulError, apply, binaryPath, connect, describe, environment, events, flush, incident, incidents, jlist, kill, list, logs, ping, reload,
  remove, reset, restart, scale, send, signal, start, stop, trigger,
} = forkful;
export { remove as delete };
export default forkful;
