// Whether processes are there.
import { readFileSync } from 'node:fs';

/** Whether a process runs; a zombie does not. @param {number} pid */
export function isLiving(pid) {
  try {
    return readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.[0] !== 'Z';
  } catch {
    return false;
  }
}
