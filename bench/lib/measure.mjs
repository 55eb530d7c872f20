// The measured window: CPU time of the server's whole process tree, of the harness with its generators, and of other programs.

import { cpuSecondsOf, machineCpuSeconds, ownCpuSeconds } from './proc.mjs';

/** Share of one core that other programs may take before a sample counts as disturbed. */
export const FOREIGN_CORES_MAX = 0.1;

/**
 * Runs `work` and returns the CPU time that was used meanwhile.
 * @template T
 * @param {import('./server.mjs').Server | null} server
 * @param {() => Promise<T>} work
 */
export async function measured(server, work) {
  const read = () => ({
    at: performance.now(), server: server === null ? 0 : cpuSecondsOf(server.marks), own: ownCpuSeconds(), machine: machineCpuSeconds(),
  });
  const before = read();
  const result = await work();
  const after = read();
  const wallSeconds = (after.at - before.at) / 1000;
  const serverSeconds = after.server - before.server;
  const harnessSeconds = after.own - before.own;
  const busySeconds = after.machine.busy - before.machine.busy;
  const foreignCores = Math.max(0, (busySeconds - serverSeconds - harnessSeconds) / wallSeconds);
  const stolenSeconds = after.machine.stolen - before.machine.stolen;
  return {
    result,
    cpu: {
      wallSeconds, serverSeconds, harnessSeconds, foreignCores, stolenSeconds,
      disturbed: foreignCores > FOREIGN_CORES_MAX || stolenSeconds > 0.01 * wallSeconds,
    },
  };
}
